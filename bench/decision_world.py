"""What `decisions` judges: made-up ledgers of any size, calls on them, and an engine with one answer."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from ledgeragent.engine.base import ClosesOnExit, Rule
from ledgeragent.errors import LedgerAgentError
from ledgeragent.gate import Gate
from ledgeragent.policies import SCHEMAS
from ledgeragent.session import Call, Session
from ledgeragent.view import LedgerView

CUSTOMER: Final = "ada_quist_1001"
VARIANTS: Final = 12
BURST: Final = 8
WRITE: Final = Call(
    "modify_pending_order_items",
    {
        "order_id": "#W1",
        "item_ids": ["lamps-0", "chairs-0"],
        "new_item_ids": ["lamps-1", "chairs-1"],
        "payment_method_id": "gift_card_1",
    },
)
ADDRESS: Final = {
    "address1": "1 Harbour Lane",
    "address2": "",
    "city": "Austin",
    "state": "TX",
    "country": "USA",
    "zip": "78701",
}


def records(size: int) -> Iterator[tuple[str, dict[str, str], Any]]:
    """The reads that fill a ledger with `size` records: what the call needs, then other orders."""
    yield "find_user_id_by_email", {"email": "ada@example.org"}, CUSTOMER
    yield "get_user_details", {"user_id": CUSTOMER}, _profile()
    for product_id in ("lamps", "chairs"):
        yield "get_product_details", {"product_id": product_id}, _product(product_id)
    for number in range(1, size - 3):
        yield "get_order_details", {"order_id": f"#W{number}"}, _order(f"#W{number}")


def _profile() -> dict[str, Any]:
    methods: list[dict[str, Any]] = [
        {"source": "gift_card", "id": "gift_card_1", "balance": 100},
        {"source": "credit_card", "id": "credit_card_1", "brand": "visa", "last_four": "0000"},
    ]
    return {
        "name": {"first_name": "Ada", "last_name": "Quist"},
        "address": ADDRESS,
        "email": "ada@example.org",
        "payment_methods": {str(method["id"]): method for method in methods},
        "orders": ["#W1"],
    }


def _product(product_id: str) -> dict[str, Any]:
    variants = {
        f"{product_id}-{number}": {
            "item_id": f"{product_id}-{number}",
            "options": {"colour": "green", "size": str(number)},
            "available": True,
            "price": 20 + number,
        }
        for number in range(VARIANTS)
    }
    return {"name": product_id, "product_id": product_id, "variants": variants}


def _order(order_id: str) -> dict[str, Any]:
    items = [
        {"name": one, "product_id": one, "item_id": f"{one}-0", "price": 20, "options": {"size": "0"}}
        for one in ("lamps", "chairs")
    ]
    return {
        "order_id": order_id,
        "user_id": CUSTOMER,
        "address": ADDRESS,
        "items": items,
        "status": "pending",
        "fulfillments": [],
        "payment_history": [{"transaction_type": "payment", "amount": 40, "payment_method_id": "credit_card_1"}],
    }


class Desk:
    """A session with a ledger of one size, and what can be timed on it. Everything gives milliseconds."""

    def __init__(self, gate: Gate, size: int) -> None:
        """Fill a ledger.

        Raises:
            LedgerAgentError: a made-up record does not fit, or the call is not allowed.
        """
        self.gate = gate
        self.session = Session(gate, now=gate.domain.file.now)
        for tool, arguments, content in records(size):
            issued = self.session.issue(tool, arguments)
            problems = self.session.observe(issued.call_id, content).problems
            if problems:
                raise LedgerAgentError(f"a made-up record does not fit: {problems}")
        if len(self.session.ledger) != size:
            raise LedgerAgentError(f"{len(self.session.ledger)} records where {size} were wanted")
        (review,) = self.session.review([WRITE])
        self.document = review.gate_input
        """The gate input of the call, with the slice."""
        self._undo([review.ticket])

    def whole(self) -> dict[str, Any]:
        """The same gate input with the whole ledger."""
        return {**self.document, "ledger": self.session.ledger.tree(), "stale": []}

    def review(self) -> float:
        """One write, reviewed."""
        return self._reviewed([WRITE])

    def burst(self) -> float:
        """A message of eight writes, reviewed: per write."""
        calls = [
            Call("modify_pending_order_address", {"order_id": f"#W{number}", **ADDRESS, "address1": "2 Harbour Lane"})
            for number in range(1, BURST + 1)
        ]
        return self._reviewed(calls) / BURST

    def absorb(self) -> float:
        """One return of a read that is in the ledger already, taken as text."""
        content = json.dumps(_order("#W1"))
        issued = self.session.issue("get_order_details", {"order_id": "#W1"})
        started = time.perf_counter()
        self.session.observe(issued.call_id, content)
        return (time.perf_counter() - started) * 1000

    def rendering(self, view: LedgerView) -> Callable[[], float]:
        """The block of a turn in which one record was read."""

        def sample() -> float:
            self.absorb()
            started = time.perf_counter()
            view.render()
            return (time.perf_counter() - started) * 1000

        return sample

    def _reviewed(self, calls: list[Call]) -> float:
        started = time.perf_counter()
        reviews = self.session.review(calls)
        elapsed = time.perf_counter() - started
        self._undo([one.ticket for one in reviews])
        return elapsed * 1000

    def _undo(self, tickets: list[Any]) -> None:
        """Refused by the tool: the session is as it was."""
        for ticket in tickets:
            allowed("allow" if ticket is not None else "another verdict")
            self.session.redeem(ticket)
            self.session.report(ticket, "refused")


class Canned(ClosesOnExit):
    """An engine that always has the same answer: what is left is what the host does with it."""

    def __init__(self, answer: Any) -> None:
        self.name, self.version, self.location = "canned", "0", "this process"
        self._answer = answer

    def evaluate(self, domain: str, rule: Rule, gate_input: Mapping[str, Any]) -> Any:  # noqa: ARG002 - the protocol
        """See `Engine.evaluate`."""
        return self._answer

    def close(self) -> None:
        """Nothing to release."""


def allowed(verdict: str) -> None:
    """Only what is allowed is timed.

    Raises:
        LedgerAgentError: it is not.
    """
    if verdict != "allow":
        raise LedgerAgentError(f"the call to time must be allowed; the verdict is {verdict}")


def certificate(reservations: int) -> dict[str, Any]:
    """A gate input of the airline for a call whose rules look at every reservation that was read."""
    vectors = json.loads((SCHEMAS / "vectors" / "airline.json").read_text(encoding="utf-8"))["vectors"]
    asked: dict[str, Any] = next(
        one["input"]
        for one in vectors
        if one["input"]["action"]["tool"] == "send_certificate" and one["decision"]["verdict"] == "allow"
    )
    ledger = dict(asked["ledger"])
    sample = next(iter(ledger["reservations"].values()))
    ledger["reservations"] = ledger["reservations"] | {f"MORE{number:02}": sample for number in range(reservations)}
    return {**asked, "ledger": ledger}
