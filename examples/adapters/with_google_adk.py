"""A gated agent with Google ADK; a script stands for the model, so it runs without a key."""

from pathlib import Path

from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai.types import Content, Part

from ledgeragent import Domain, Gate, JsonlRecorder, Session, open_engine
from ledgeragent.adapters.core import Guard
from ledgeragent.adapters.google_adk import guarded
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


class Script(BaseLlm):
    """Gives its answers in order; a real model: "gemini-…"."""

    answers: list

    async def generate_content_async(self, llm_request, stream=False):
        yield LlmResponse(content=Content(role="model", parts=[self.answers.pop(0)]))


calls = [Part.from_function_call(name=name, args=args) for name, args in PROPOSED]
script = Script(model="script", answers=[*calls, Part(text="Your order is cancelled.")])
agent = LlmAgent(name="desk", model=script, tools=[find_user_id_by_email, get_order_details, cancel_pending_order])

gate = Gate(Domain.load("retail"), open_engine("embedded"))
guard = Guard(Session(gate, now=SHOP.now, recorder=JsonlRecorder(RECORD)))
runner = InMemoryRunner(guarded(agent, guard))
session = runner.session_service.create_session_sync(app_name=runner.app_name, user_id="ines")
said = Content(role="user", parts=[Part(text="Please cancel #W4001.")])
for event in runner.run(user_id="ines", session_id=session.id, new_message=said):
    text = event.content.parts[0].text if event.content else None
print(text)

for one in read_records(RECORD):
    print(f"{one.input.action.tool}: {one.verdict}" if one.kind == "decision" else one.outcome)
