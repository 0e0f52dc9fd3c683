"""The recorded conversations of a domain, and what the gate is asked while they are replayed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ledgeragent.contracts import Decision
from ledgeragent.conversation import Conversation, open_lines, read_conversation
from ledgeragent.domain import Domain
from ledgeragent.engine import Engine
from ledgeragent.gate import Gate, Judged
from ledgeragent.replay import JudgedCall, Replay
from ledgeragent.session import Session

JSON = dict[str, Any]
COUNTS = {"airline": (945, 1110), "retail": (1113, 1793), "telecom": (191, 123), "telehealth": (40, 56)}
"""Conversations of the reference data, and calls of them that are judged (undeclared tools included)."""


@dataclass(frozen=True)
class Asked:
    """What the gate was asked once.

    Attributes:
        sliced: the gate input.
        whole_text: the same with the whole ledger instead of the slice, as JSON text (as objects, those of all
            recordings would fill the memory).
    """

    sliced: JSON
    whole_text: str

    @property
    def whole(self) -> JSON:
        """The gate input with the whole ledger."""
        document: JSON = json.loads(self.whole_text)
        return document


@dataclass(frozen=True)
class Replayed:
    """A domain's recorded conversations on one engine.

    Attributes:
        rows: one per judged call.
        decisions: what was answered for it, None where no decision could be accepted.
        asked: what was asked for it.
    """

    rows: list[JSON]
    decisions: list[Decision | None]
    asked: list[Asked]


class ListeningGate(Gate):
    """A gate that keeps what it was asked by the session at hand."""

    def __init__(self, domain: Domain, engine: Engine) -> None:
        super().__init__(domain, engine)
        self.session: Session | None = None
        self.asked: list[Asked] = []

    def judge(self, gate_input: Mapping[str, Any]) -> Judged:
        """See `Gate.judge`."""
        assert self.session is not None
        ledger = self.session.ledger
        whole = {**gate_input, "ledger": ledger.tree(), "stale": [list(path) for path in ledger.stale_paths()]}
        self.asked.append(Asked(dict(gate_input), json.dumps(whole)))
        return super().judge(gate_input)


def conversations(shared: Path, domain: str) -> Iterator[Conversation]:
    """Every conversation of the domain in the reference data; the calls of all, but not the other messages."""
    for place, line in open_lines(str(shared / "conversations" / f"{domain}.jsonl.gz")):
        yield replace(read_conversation(line, place=place), messages=())


def replayed(domain: str, recorded: Sequence[Conversation], engine: Engine) -> Replayed:
    """Replay the conversations on an engine, and listen."""
    gate = ListeningGate(Domain.load(domain), engine)
    judged: list[JudgedCall] = []
    for conversation in recorded:
        replay = Replay(conversation, gate)
        gate.session = replay.session
        judged += replay.judged()
    return Replayed([one.row() for one in judged], [one.review.decision for one in judged], gate.asked)


def decisions(domain: str, asked: Sequence[Asked], engine: Engine) -> list[Decision | None]:
    """What a gate on another engine answers to the same questions."""
    gate = Gate(Domain.load(domain), engine)
    return [gate.judge(one.sliced).decision for one in asked]
