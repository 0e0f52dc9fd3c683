"""A retail desk: one customer, two orders, two products, as the tools return them, and calls that touch them.

Returns are JSON text, as tools give it. `desk` opens a session in which all of them have been read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from ledgeragent.gate import Gate, ShadowGate
from ledgeragent.session import Call, Observation, Review, Session, Ticket

NOW: Final = "2024-05-15T15:00:00-05:00"
USER: Final = "ada_quist_1001"
EMAIL: Final = "ada.quist@example.com"

ADDRESS: Final = {
    "address1": "1 Harbour Lane",
    "address2": "",
    "city": "Austin",
    "state": "TX",
    "country": "USA",
    "zip": "78701",
}

PROFILE: Final[dict[str, Any]] = {
    "user_id": USER,
    "name": {"first_name": "Ada", "last_name": "Quist"},
    "address": ADDRESS,
    "email": EMAIL,
    "payment_methods": {
        "credit_card_1": {"source": "credit_card", "id": "credit_card_1", "brand": "visa", "last_four": "1234"},
        "gift_card_1": {"source": "gift_card", "id": "gift_card_1", "balance": 35.1},
        "paypal_1": {"source": "paypal", "id": "paypal_1"},
    },
    "orders": ["#W1", "#W2"],
}


def order(order_id: str, status: str, *, user_id: str = USER, paid_by: str = "credit_card_1") -> dict[str, Any]:
    """An order of a lamp and two chairs."""
    chair = {"name": "Chair", "product_id": "chairs", "item_id": "chair-a", "price": 80, "options": {}}
    return {
        "order_id": order_id,
        "user_id": user_id,
        "address": ADDRESS,
        "items": [
            {"name": "Lamp", "product_id": "lamps", "item_id": "lamp-a", "price": 30, "options": {}},
            chair,
            chair,
        ],
        "status": status,
        "fulfillments": [],
        "payment_history": [{"transaction_type": "payment", "amount": 190, "payment_method_id": paid_by}],
    }


def product(product_id: str, **prices: float) -> dict[str, Any]:
    """A product whose variants are all available."""
    variants = {
        item.replace("_", "-"): {"item_id": item.replace("_", "-"), "options": {}, "available": True, "price": price}
        for item, price in prices.items()
    }
    return {"name": product_id.title(), "product_id": product_id, "variants": variants}


PENDING: Final = order("#W1", "pending")
DELIVERED: Final = order("#W2", "delivered", paid_by="paypal_1")
LAMPS: Final = product("lamps", lamp_a=30, lamp_b=45, lamp_c=20.5)
CHAIRS: Final = product("chairs", chair_a=80, chair_b=100.1)


def cancel(order_id: str = "#W1", reason: str = "no longer needed", call_id: str = "cancel-1") -> Call:
    """A cancellation; of #W1 it is allowed."""
    return Call("cancel_pending_order", {"order_id": order_id, "reason": reason}, call_id)


def move(order_id: str = "#W1", call_id: str = "move-1", **parts: str) -> Call:
    """A change of an order's address; of #W1 it is allowed."""
    return Call("modify_pending_order_address", {"order_id": order_id, **ADDRESS, **parts}, call_id)


def give_back(*items: str, call_id: str = "return-1") -> Call:
    """A return of items of #W2, by default one lamp; allowed."""
    arguments = {"order_id": "#W2", "item_ids": list(items or ("lamp-a",)), "payment_method_id": "paypal_1"}
    return Call("return_delivered_order_items", arguments, call_id)


def swap_lamp(order_id: str = "#W1") -> Call:
    """Change the items of an order; of #W1 it is allowed."""
    arguments = {
        "order_id": order_id,
        "item_ids": ["lamp-a"],
        "new_item_ids": ["lamp-b"],
        "payment_method_id": "gift_card_1",
    }
    return Call("modify_pending_order_items", arguments, "items-1")


def look_up(
    session: Session, tool: str, arguments: Mapping[str, Any], content: Any, *, error: bool = False
) -> Observation:
    """Issue a read and take its return; a return that is no text is written as JSON."""
    issued = session.issue(tool, dict(arguments))
    text = content if isinstance(content, str) else json.dumps(content)
    return session.observe(issued.call_id, text, error=error)


def authenticate(session: Session, user: str = USER, email: str = EMAIL) -> Observation:
    """The customer is found by the e-mail they gave."""
    return look_up(session, "find_user_id_by_email", {"email": email}, user)


def read_order(session: Session, record: Mapping[str, Any] = PENDING) -> Observation:
    """Read an order."""
    return look_up(session, "get_order_details", {"order_id": record["order_id"]}, record)


def read_profile(session: Session, record: Mapping[str, Any] = PROFILE) -> Observation:
    """Read a profile."""
    return look_up(session, "get_user_details", {"user_id": record["user_id"]}, record)


def desk(gate: Gate | ShadowGate, **options: Any) -> Session:
    """A session in which the customer is authenticated and everything above was read."""
    session = Session(gate, **{"now": NOW, "session_id": "desk", **options})
    learn(session)
    return session


def learn(session: Session) -> None:
    """Authenticate the customer and read everything above."""
    authenticate(session)
    read_profile(session)
    for record in (PENDING, DELIVERED):
        read_order(session, record)
    for record in (LAMPS, CHAIRS):
        look_up(session, "get_product_details", {"product_id": record["product_id"]}, record)


def propose(session: Session, call: Call) -> Review:
    """Have one call judged, as the only one of its message."""
    session.next_turn()
    return session.review([call])[0]


def admitted(session: Session, call: Call) -> Ticket:
    """The ticket of a call that is allowed."""
    review = propose(session, call)
    assert review.ticket is not None, review.message
    return review.ticket


def run(session: Session, call: Call) -> None:
    """A write from proposal to execution."""
    session.execute(admitted(session, call), lambda tool, arguments: "done")


def history(session: Session) -> list[tuple[str, str]]:
    """(tool, outcome) of the session's writes, as the gate is told."""
    told = propose(session, Call("not_declared", {})).gate_input["history"]
    return [(write["tool"], write["outcome"]) for write in told]


def predicates(review: Review) -> list[tuple[str, str]]:
    """(predicate, status) of a review's findings."""
    assert review.decision is not None, review.failure
    return [(finding.predicate, finding.status) for finding in review.decision.findings]
