"""A gated agent with pydantic-ai; a script stands for the model, so it runs without a key."""

from pathlib import Path

from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

from ledgeragent import Domain, Gate, JsonlRecorder, Session, open_engine
from ledgeragent.adapters.core import Guard
from ledgeragent.adapters.pydantic_ai import guarded
from ledgeragent.records import read_records
from ledgeragent.shops import open_shop

SHOP = open_shop("retail")  # stands for your back end
RECORD = Path("record.jsonl")


def find_user_id_by_email(email: str) -> str:
    """Find a customer."""
    return SHOP.tools["find_user_id_by_email"].run("find_user_id_by_email", {"email": email})


def get_order_details(order_id: str) -> dict:
    """Look up an order."""
    return SHOP.tools["get_order_details"].run("get_order_details", {"order_id": order_id})


def cancel_pending_order(order_id: str, reason: str) -> str:
    """Cancel a pending order."""
    arguments = {"order_id": order_id, "reason": reason}
    return SHOP.tools["cancel_pending_order"].run("cancel_pending_order", arguments)


FIND = ("find_user_id_by_email", {"email": "ines.marchetti@example.com"})
READ = ("get_order_details", {"order_id": "#W4001"})
CANCEL = ("cancel_pending_order", {"order_id": "#W4001", "reason": "no longer needed"})
PROPOSED = [FIND, CANCEL, READ, CANCEL]  # the second is too early: nobody has read the order yet

answers = [[ToolCallPart(*call)] for call in PROPOSED] + [[TextPart("Your order is cancelled.")]]
script = FunctionModel(lambda messages, info: ModelResponse(answers.pop(0)))  # a real model: "openai:gpt-…"
agent = Agent(script, tools=[find_user_id_by_email, get_order_details, cancel_pending_order])

gate = Gate(Domain.load("retail"), open_engine("embedded"))
guard = Guard(Session(gate, now=SHOP.now, recorder=JsonlRecorder(RECORD)))
print(guarded(agent, guard).run_sync("Please cancel #W4001.").output)

for one in read_records(RECORD):
    print(f"{one.input.action.tool}: {one.verdict}" if one.kind == "decision" else one.outcome)
