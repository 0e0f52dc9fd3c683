"""The recorded retail conversations, and what the gate is asked while they are replayed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ledgeragent.conversation import Conversation, open_lines, read_conversation
from ledgeragent.domain import Domain
from ledgeragent.engine import Engine
from ledgeragent.gate import Gate, Judged
from ledgeragent.replay import Replay
from ledgeragent.session import Session

JSON = dict[str, Any]


def conversations(shared: Path) -> Iterator[Conversation]:
    """Every retail conversation of the reference data."""
    for place, line in open_lines(str(shared / "conversations" / "retail.jsonl.gz")):
        yield read_conversation(line, place=place)


class ListeningGate(Gate):
    """A gate that keeps what it was asked, beside the same question with the whole ledger instead of the slice."""

    def __init__(self, domain: Domain, engine: Engine) -> None:
        super().__init__(domain, engine)
        self.session: Session | None = None
        self.asked: list[tuple[JSON, JSON]] = []

    def judge(self, gate_input: Mapping[str, Any]) -> Judged:
        """See `Gate.judge`."""
        assert self.session is not None
        ledger = self.session.ledger
        whole = {**gate_input, "ledger": ledger.tree(), "stale": [list(path) for path in ledger.stale_paths()]}
        self.asked.append((dict(gate_input), whole))
        return super().judge(gate_input)


def asked(shared: Path, engine: Engine) -> list[tuple[JSON, JSON]]:
    """(gate input, gate input with the whole ledger) of every judged call of the recorded conversations."""
    gate = ListeningGate(Domain.load("retail"), engine)
    for conversation in conversations(shared):
        replay = Replay(conversation, gate)
        gate.session = replay.session
        for _ in replay.steps():
            pass
    return gate.asked
