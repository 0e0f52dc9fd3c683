"""The five conversations that every adapter, the proxy and the sidecar must judge and record alike.

They are data: calls of the small retail shop's tools, one to a message, and what must come back in each call's place.
`driven` plays one on a bare session: its record is what every other way must come to, once `normal` has taken out what
differs from run to run (ids, times).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ledgeragent.contracts import Verdict
from ledgeragent.engine import OpaServer
from ledgeragent.gate import Gate
from ledgeragent.records import JsonlRecorder, read_records
from ledgeragent.session import Call, Session
from ledgeragent.shops import Shop, open_shop
from scripted import says, scripted

EMAIL: Final = "ines.marchetti@example.com"
ORDER: Final = "#W4001"
FIND: Final = ("find_user_id_by_email", {"email": EMAIL})
READ: Final = ("get_order_details", {"order_id": ORDER})
READ_DELIVERED: Final = ("get_order_details", {"order_id": "#W4002"})
CANCEL: Final = ("cancel_pending_order", {"order_id": ORDER, "reason": "no longer needed"})
CANCEL_FOR_NO_REASON: Final = ("cancel_pending_order", {"order_id": ORDER, "reason": "changed my mind"})
CANCEL_DELIVERED: Final = ("cancel_pending_order", {"order_id": "#W4002", "reason": "no longer needed"})


@dataclass(frozen=True)
class Step:
    """One message of the model, with one call.

    Attributes:
        tool: the tool's name.
        arguments: of the call.
        contains: what the model must read in the answer, each somewhere in it.
        verdict: what the gate says; None for a read, which it is not asked about.
    """

    tool: str
    arguments: Mapping[str, Any]
    contains: tuple[str, ...]
    verdict: Verdict | None = None


@dataclass(frozen=True)
class Conversation:
    """What the model proposes, in order, and what comes of it.

    Attributes:
        name: for the test's name.
        steps: one call each.
        engine_down: whether nothing answers where the engine should be.
    """

    name: str
    steps: tuple[Step, ...]
    engine_down: bool = False

    def check(self, answers: Sequence[str]) -> None:
        """Hold what the model read, step by step, against what it must have read."""
        assert len(answers) == len(self.steps), answers
        for step, answer in zip(self.steps, answers, strict=True):
            for part in step.contains:
                assert part in answer, (self.name, step.tool, answer)


def _read(call: tuple[str, Mapping[str, Any]], *contains: str) -> Step:
    return Step(*call, contains)


_FOUND: Final = _read(FIND, "ines_marchetti_4021")
_PENDING: Final = _read(READ, '"pending"')
_CANCELLED: Final = Step(*CANCEL, ("Order #W4001 is cancelled",), "allow")

FIVE: Final = (
    Conversation("allow", (_FOUND, _PENDING, _CANCELLED)),
    Conversation(
        "revise then allow",
        (
            _FOUND,
            _PENDING,
            Step(*CANCEL_FOR_NO_REASON, ("not executed", "retail.cancel_reason", "ordered by mistake"), "revise"),
            _CANCELLED,
        ),
    ),
    Conversation(
        "block",
        (
            _FOUND,
            _read(READ_DELIVERED, '"delivered"'),
            Step(*CANCEL_DELIVERED, ("was refused", "retail.order_pending", "Do not retry"), "block"),
        ),
    ),
    Conversation(
        "unknown then read then allow",
        (
            _FOUND,
            Step(*CANCEL, ("not executed", "Not read in this session", "get_order_details"), "revise"),
            _PENDING,
            _CANCELLED,
        ),
    ),
    Conversation(
        "engine down",
        (_FOUND, _PENDING, Step(*CANCEL, ("not executed", "engine.unreachable", "hand over"), "block")),
        engine_down=True,
    ),
)
NAMES: Final = [conversation.name for conversation in FIVE]


@contextmanager
def nobody(domain: Any) -> Iterator[Gate]:
    """A gate whose engine's address answers nothing."""
    with scripted(says(b"")) as server:
        url = server.url
    with OpaServer(url) as engine:
        yield Gate(domain, engine)


@dataclass
class Table:
    """A conversation's session and shop, for one run of it.

    Attributes:
        conversation: which.
        session: fresh; records to `record`.
        shop: fresh; its tools run in this process.
        record: the record file.
    """

    conversation: Conversation
    session: Session
    shop: Shop
    record: Path
    ran: list[str] = field(default_factory=list)

    def run(self, tool: str, arguments: dict[str, Any]) -> Any:
        """The shop's tool, as an executor calls it."""
        self.ran.append(tool)
        return self.shop.tools[tool].run(tool, arguments)

    def check(self, answers: Sequence[str], folder: Path) -> None:
        """Answers, record, what ran and the shop's end must be those of the bare session."""
        self.conversation.check(answers)
        expected = driven(self.conversation, self.session.gate, folder / "expected.jsonl")
        assert self.ran == expected.ran
        assert normal(self.record) == normal(expected.record)
        assert self.shop.digest() == expected.shop.digest()


def laid(conversation: Conversation, gate: Any, record: Path) -> Table:
    """A fresh session and shop for a conversation."""
    shop = open_shop("retail")
    return Table(conversation, Session(gate, now=shop.now, recorder=JsonlRecorder(record)), shop, record)


def driven(conversation: Conversation, gate: Any, record: Path) -> Table:
    """A conversation played on a bare session: no loop, no adapter, no framework."""
    table = laid(conversation, gate, record)
    answers = [_played(table, step, f"call-{number}") for number, step in enumerate(conversation.steps)]
    conversation.check(answers)
    return table


def _played(table: Table, step: Step, call_id: str) -> str:
    session = table.session
    session.next_turn()
    if step.verdict is None:
        session.issue(step.tool, step.arguments, call_id)
        content = as_text(table.run(step.tool, dict(step.arguments)))
        session.observe(call_id, content)
        return content
    [review] = session.review([Call(step.tool, step.arguments, call_id)])
    assert review.verdict == step.verdict, review.message
    return as_text(session.execute(review.ticket, table.run)) if review.ticket is not None else review.message


def as_text(content: Any) -> str:
    """What a tool returned, as the model reads it."""
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)


# Records ------------------------------------------------------------------------------------------------------------


def normal(record: Path) -> list[dict[str, Any]]:
    """A record file without what differs from run to run: times, latency, the chain, and ids, which become numbers.

    The session's clock stays: whoever opens the session elsewhere gives it `open_shop("retail").now`.
    """
    numbers: dict[str, str] = {}
    return [_normal(one.model_dump(mode="json"), ("",), numbers) for one in read_records(record)]


def _normal(value: Any, path: tuple[str, ...], numbers: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {name: _normal(one, (*path, name), numbers) for name, one in value.items() if name not in _VARIES}
    if isinstance(value, list):
        return [_normal(one, path, numbers) for one in value]
    if isinstance(value, str) and (path[-1] in _IDS or path[-2:] == ("session", "id")):
        return numbers.setdefault(value, f"id {len(numbers)}")
    return value


_VARIES: Final = {"latency_ms", "decision_id", "at", "previous"}
_IDS: Final = {"call_id", "request", "session"}
