"""A gated agent with LangChain; a script stands for the model, so it runs without a key."""

from pathlib import Path

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from ledgeragent import Domain, Gate, JsonlRecorder, Session, open_engine
from ledgeragent.adapters.core import Guard
from ledgeragent.adapters.langchain import guarded_agent
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


class Script(BaseChatModel):
    """Gives its answers in order; a real model: "openai:gpt-…"."""

    answers: list

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        return ChatResult(generations=[ChatGeneration(message=self.answers.pop(0))])

    def bind_tools(self, tools, **kwargs):
        return self

    @property
    def _llm_type(self):
        return "script"


calls = [[{"name": name, "args": args, "id": f"call-{at}"}] for at, (name, args) in enumerate(PROPOSED)]
script = Script(answers=[*(AIMessage("", tool_calls=one) for one in calls), AIMessage("Your order is cancelled.")])

gate = Gate(Domain.load("retail"), open_engine("embedded"))
guard = Guard(Session(gate, now=SHOP.now, recorder=JsonlRecorder(RECORD)))
agent = guarded_agent(guard, script, [find_user_id_by_email, get_order_details, cancel_pending_order])
print(agent.invoke({"messages": [("user", "Please cancel #W4001.")]})["messages"][-1].content)

for one in read_records(RECORD):
    print(f"{one.input.action.tool}: {one.verdict}" if one.kind == "decision" else one.outcome)
