"""A gated agent with the OpenAI Agents SDK; a script stands for the model, so it runs without a key."""

from pathlib import Path

from agents import Agent, RunConfig, Runner, function_tool
from agents.testing import ScriptedModel, assistant_message, function_call

from ledgeragent import Domain, Gate, JsonlRecorder, Session, open_engine
from ledgeragent.adapters.core import Guard
from ledgeragent.adapters.openai_agents import guarded, with_ledger
from ledgeragent.records import read_records
from ledgeragent.shops import open_shop

SHOP = open_shop("retail")  # stands for your back end
RECORD = Path("record.jsonl")


@function_tool
def find_user_id_by_email(email: str) -> str:
    """Find a customer."""
    return SHOP.tools["find_user_id_by_email"].run("find_user_id_by_email", {"email": email})


@function_tool
def get_order_details(order_id: str) -> dict:
    """Look up an order."""
    return SHOP.tools["get_order_details"].run("get_order_details", {"order_id": order_id})


@function_tool
def cancel_pending_order(order_id: str, reason: str) -> str:
    """Cancel a pending order."""
    arguments = {"order_id": order_id, "reason": reason}
    return SHOP.tools["cancel_pending_order"].run("cancel_pending_order", arguments)


FIND = ("find_user_id_by_email", {"email": "ines.marchetti@example.com"})
READ = ("get_order_details", {"order_id": "#W4001"})
CANCEL = ("cancel_pending_order", {"order_id": "#W4001", "reason": "no longer needed"})
PROPOSED = [FIND, CANCEL, READ, CANCEL]  # the second is too early: nobody has read the order yet

calls = [[function_call(*call, call_id=f"call-{at}")] for at, call in enumerate(PROPOSED)]
script = ScriptedModel([*calls, [assistant_message("Your order is cancelled.")]])
agent = Agent("desk", tools=[find_user_id_by_email, get_order_details, cancel_pending_order])

gate = Gate(Domain.load("retail"), open_engine("embedded"))
guard = Guard(Session(gate, now=SHOP.now, recorder=JsonlRecorder(RECORD)))
config = with_ledger(guard, RunConfig(model=script, tracing_disabled=True))  # a real model: RunConfig()
print(Runner.run_sync(guarded(agent, guard), "Please cancel #W4001.", run_config=config).final_output)

for one in read_records(RECORD):
    print(f"{one.input.action.tool}: {one.verdict}" if one.kind == "decision" else one.outcome)
