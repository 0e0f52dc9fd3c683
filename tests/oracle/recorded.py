"""The recorded conversations of a domain, and what the gate is asked while they are replayed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

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
    """A domain's recorded conversations on one engine: a row per judged call, and what was asked for it."""

    domain: str
    rows: list[JSON]
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


def rows(domain: str, recorded: Sequence[Conversation], engine: Engine) -> list[JSON]:
    """Replay the conversations on an engine: one row per judged call."""
    gate = Gate(Domain.load(domain), engine)
    return [row(judged) for conversation in recorded for judged in Replay(conversation, gate).judged()]


def row(judged: JudgedCall) -> JSON:
    """The row of a judged call with the whole decision in it, but for the request, which is new in every replay."""
    decision = judged.review.decision
    whole = decision.model_dump(mode="json", exclude={"request"}) if decision is not None else None
    return {**judged.row(), "decision": whole}


def replayed(domain: str, recorded: Sequence[Conversation], engine: Engine) -> Replayed:
    """Replay the conversations on an engine, and listen."""
    gate = ListeningGate(Domain.load(domain), engine)
    found = []
    for conversation in recorded:
        replay = Replay(conversation, gate)
        gate.session = replay.session
        found += [row(judged) for judged in replay.judged()]
    return Replayed(domain, found, gate.asked)
