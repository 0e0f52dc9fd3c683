"""A call that only a person can allow, with LangGraph's interrupts. A script stands for the model; grace says yes."""

import base64
import json
import secrets
from pathlib import Path

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from ledgeragent import Domain, Gate, JsonlRecorder, Session, open_engine
from ledgeragent.adapters.core import Guard
from ledgeragent.adapters.langchain import guarded_agent
from ledgeragent.approval import ApprovalKey, Approvals, Signer
from ledgeragent.contracts import ApprovalRequest
from ledgeragent.policies import EXAMPLES
from ledgeragent.records import read_records
from ledgeragent.shops import open_shop

SHOP = open_shop("airline")  # stands for your back end
RECORD = Path("record.jsonl")
SECRET = secrets.token_bytes(32)  # of grace's service; with Ed25519 the agent's host would have its public half only


def get_user_details(user_id: str) -> dict:
    """Look up a customer."""
    return SHOP.tools["get_user_details"].run("get_user_details", {"user_id": user_id})


def get_reservation_details(reservation_id: str) -> dict:
    """Look up a reservation."""
    return SHOP.tools["get_reservation_details"].run("get_reservation_details", {"reservation_id": reservation_id})


def get_flight_status(flight_number: str, date: str) -> str:
    """Look up a flight."""
    return SHOP.tools["get_flight_status"].run("get_flight_status", {"flight_number": flight_number, "date": date})


def cancel_reservation(reservation_id: str) -> str:
    """Cancel a reservation."""
    return SHOP.tools["cancel_reservation"].run("cancel_reservation", {"reservation_id": reservation_id})


READS = [
    ("get_user_details", {"user_id": "wanda_kessler_3107"}),
    ("get_reservation_details", {"reservation_id": "KX4T2B"}),
    ("get_flight_status", {"flight_number": "NB172", "date": "2024-05-20"}),
    ("get_flight_status", {"flight_number": "NB171", "date": "2024-05-24"}),
]
CANCEL = ("cancel_reservation", {"reservation_id": "KX4T2B"})


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


def says(message, *calls):
    """A message of the model."""
    proposed = [{"name": name, "args": args, "id": f"{message}-{at}"} for at, (name, args) in enumerate(calls)]
    return AIMessage("", tool_calls=proposed)


script = Script(answers=[says("first", *READS), says("second", CANCEL), AIMessage("Your reservation is cancelled.")])

overrides = json.loads((EXAMPLES / "chat" / "overrides.json").read_text())  # who may approve a cancellation
gate = Gate(Domain.load("airline"), open_engine("embedded", overrides=overrides))
shared = base64.b64encode(SECRET).decode()
approvals = Approvals(
    [ApprovalKey(id="desk", kind="approval", algorithm="hmac-sha256", key=shared, approvers=["grace"])]
)
guard = Guard(Session(gate, now=SHOP.now, recorder=JsonlRecorder(RECORD), approvals=approvals))
tools = [get_user_details, get_reservation_details, get_flight_status, cancel_reservation]
agent = guarded_agent(guard, script, tools, interrupts=True, checkpointer=InMemorySaver())
thread = {"configurable": {"thread_id": "1"}}

state = agent.invoke({"messages": [("user", "Please cancel KX4T2B, my mother is ill.")]}, thread)

# What the graph stopped for is JSON: show it to the person with whatever you have.
[stopped] = state["__interrupt__"]
request = ApprovalRequest.model_validate(stopped.value)
print(f"grace is asked for {request.tool} {request.arguments}, by {request.requester}")
print(*(f"{one.predicate}: {one.message}" for one in request.obligations))
grant = Signer.hmac("desk", SECRET).grant(request, "grace", seconds=600)

state = agent.invoke(Command(resume=grant.model_dump()), thread)  # a no: Command(resume=False)
print(state["messages"][-1].content)

for one in read_records(RECORD):
    if one.kind == "decision":
        by = [grant.approver for grant in one.input.grants]
        print(f"{one.input.action.tool}: {one.verdict}", *(f"approved by {name}" for name in by))
    else:
        print(one.outcome)
