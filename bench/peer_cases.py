"""The write that peers are asked about, and the facts it is judged by: the same for everybody.

The reads are those of decision_world.py. A case is a session of ours that has made them, some changed, and what a peer
is given instead: every fact as it was read, the writes of the session, and the reads.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from decision_world import WRITE, records
from ledgeragent.domain import Domain
from ledgeragent.engine import open_engine
from ledgeragent.errors import LedgerAgentError
from ledgeragent.gate import Gate
from ledgeragent.session import Call, Session

SIZES: Final = (5, 50, 500)
MIDDLE: Final = 50
"""The ledger size at which verdicts are compared."""

PAYMENT: Final = Call("modify_pending_order_payment", {"order_id": "#W1", "payment_method_id": "gift_card_1"})
JSON = dict[str, Any]

Change = Callable[[str, JSON, Any], Any]
"""Tool, arguments and return of a read → another return, or None for a read not made."""


def as_is(_tool: str, _arguments: JSON, content: Any) -> Any:
    """The return as it is."""
    return content


def session_of(gate: Gate, size: int, change: Change = as_is) -> Session:
    """A session that has made the reads of decision_world.py, changed as told."""
    session = Session(gate, now=gate.domain.file.now)
    for tool, arguments, content in reads_of(size, change):
        observation = session.observe(session.issue(tool, arguments).call_id, content)
        if observation.problems:
            raise LedgerAgentError(f"a made-up record does not fit: {observation.problems}")
    return session


def reads_of(size: int, change: Change) -> Iterator[tuple[str, JSON, Any]]:
    """The reads, without those that were changed into None."""
    for tool, arguments, content in records(size):
        changed = change(tool, arguments, content)
        if changed is not None:
            yield tool, arguments, changed


def delivered(tool: str, arguments: JSON, content: Any) -> Any:
    """The order has been delivered: it can no longer be modified."""
    ours = tool == "get_order_details" and arguments["order_id"] == "#W1"
    return {**content, "status": "delivered"} if ours else content


def unread(_tool: str, arguments: JSON, content: Any) -> Any:
    """One of the two products was not read."""
    return None if arguments.get("product_id") == "chairs" else content


def cases(gate: Gate) -> dict[str, tuple[Session, JSON]]:
    """Name → a session of ours in that state, and the same facts for a peer.

    `stale`: after the reads, a write of the session changed what the gift card holds.
    """
    made = {f"allowed@{size}": state_of(session_of(gate, size), size) for size in SIZES}
    made[f"violated@{MIDDLE}"] = state_of(session_of(gate, MIDDLE, delivered), MIDDLE, delivered)
    made[f"missing@{MIDDLE}"] = state_of(session_of(gate, MIDDLE, unread), MIDDLE, unread)
    history = [{"tool": PAYMENT.tool, "arguments": PAYMENT.arguments, "outcome": "executed"}]
    _, facts = state_of(session_of(gate, MIDDLE), MIDDLE, history=history)
    made[f"stale@{MIDDLE}"] = paid(gate), facts
    return made


def write_cases(folder: Path) -> Path:
    """Write what peers are given into a file of a folder; gives the file."""
    with contextlib.closing(open_engine("embedded")) as engine:
        given = {name: case for name, (_, case) in cases(Gate(Domain.load("retail"), engine)).items()}
    file = folder / "cases.json"
    file.write_text(json.dumps(given), encoding="utf-8")
    return file


def paid(gate: Gate) -> Session:
    """A session whose last write drew on the gift card; what the card holds has not been read again."""
    session = session_of(gate, MIDDLE)
    (review,) = session.review([PAYMENT])
    if review.ticket is None:
        raise LedgerAgentError(f"the write that makes facts stale must be allowed: {review.message}")
    session.execute(review.ticket, lambda *_: "done")
    return session


def state_of(session: Session, size: int, change: Change = as_is, history: Sequence[JSON] = ()) -> tuple[Session, JSON]:
    """A session, and what a peer is given: the call, every fact of the ledger as read, earlier writes, the reads."""
    reads = [{"tool": tool, "arguments": arguments, "content": it} for tool, arguments, it in reads_of(size, change)]
    known = {"id": session.id, "now": session.now, "turn": session.turn, "principal": None, "rejections": 0}
    if session.principal is not None:
        known["principal"] = session.principal.model_dump()
    state = {"ledger": session.ledger.tree(), "history": list(history), "session": known}
    return session, {"tool": WRITE.tool, "arguments": WRITE.arguments, "state": state, "reads": reads}
