"""A gated agent with a hand-written loop; a script stands for the model, so it runs without a key."""

from pathlib import Path

from ledgeragent import Domain, Gate, JsonlRecorder, Session, open_engine
from ledgeragent.adapters.core import Guard
from ledgeragent.adapters.plain import conversation, guarded
from ledgeragent.records import read_records
from ledgeragent.shops import open_shop

SHOP = open_shop("retail")  # stands for your back end
RECORD = Path("record.jsonl")


@guarded
def find_user_id_by_email(email: str) -> str:
    """Find a customer."""
    return SHOP.tools["find_user_id_by_email"].run("find_user_id_by_email", {"email": email})


@guarded
def get_order_details(order_id: str) -> dict:
    """Look up an order."""
    return SHOP.tools["get_order_details"].run("get_order_details", {"order_id": order_id})


@guarded
def cancel_pending_order(order_id: str, reason: str) -> str:
    """Cancel a pending order."""
    arguments = {"order_id": order_id, "reason": reason}
    return SHOP.tools["cancel_pending_order"].run("cancel_pending_order", arguments)


FIND = ("find_user_id_by_email", {"email": "ines.marchetti@example.com"})
READ = ("get_order_details", {"order_id": "#W4001"})
CANCEL = ("cancel_pending_order", {"order_id": "#W4001", "reason": "no longer needed"})
PROPOSED = [FIND, CANCEL, READ, CANCEL]  # the second is too early: nobody has read the order yet

TOOLS = {tool.__name__: tool for tool in (find_user_id_by_email, get_order_details, cancel_pending_order)}


def dispatch(name: str, arguments: dict) -> object:
    """The loop's own way from a call to a tool."""
    return TOOLS[name](**arguments)


gate = Gate(Domain.load("retail"), open_engine("embedded"))
guard = Guard(Session(gate, now=SHOP.now, recorder=JsonlRecorder(RECORD)))
with conversation(guard, dispatch, TOOLS):
    for name, arguments in PROPOSED:  # your loop: ask the model, run its calls, give it the answers
        answer = dispatch(name, arguments)
print("Your order is cancelled.")

for one in read_records(RECORD):
    print(f"{one.input.action.tool}: {one.verdict}" if one.kind == "decision" else one.outcome)
