"""An agent as a process of its own, that dies where it is told to: `agent_process.py RECORDS SHOP WHERE`.

SHOP is a file with a line for each write that ran. Where it can die: `before the decision`, `before the record`, `in the
record`, `after the record`, `before the tool`, `after the tool`.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ledgeragent import Domain, Gate, JsonlRecorder, Judged, open_engine
from ledgeragent.contracts import DecisionRecord
from ledgeragent.records import Record
from support import retail


class Dies:
    """Ends the process, as nothing can be caught of it, when a place is the one."""

    def __init__(self, where: str) -> None:
        self._where = where

    def at(self, place: str) -> None:
        if place == self._where:
            os.kill(os.getpid(), signal.SIGKILL)


class MortalGate(Gate):
    """A gate that can die before it asks."""

    dies: Dies

    def judge(self, gate_input: Any) -> Judged:
        self.dies.at("before the decision")
        return super().judge(gate_input)


class MortalRecorder:
    """A recorder that can die before, in and after a record of a decision."""

    def __init__(self, recorder: JsonlRecorder, dies: Dies) -> None:
        self._recorder = recorder
        self._dies = dies

    def write(self, record: Record) -> None:
        if not isinstance(record, DecisionRecord):
            self._recorder.write(record)
            return
        self._dies.at("before the record")
        write = os.write

        def cut_off(file: int, line: bytes) -> int:
            write(file, line[: len(line) // 2])
            self._dies.at("in the record")
            return write(file, line[len(line) // 2 :]) + len(line) // 2

        os.write = cut_off  # type: ignore[assignment]
        self._recorder.write(record)
        os.write = write
        self._dies.at("after the record")


def shop(file: Path, dies: Dies) -> Callable[[str, dict[str, Any]], str]:
    """The tools: every write that runs is a line of a file."""

    def run(tool: str, arguments: dict[str, Any]) -> str:
        dies.at("before the tool")
        with file.open("a", encoding="ascii") as ran:
            ran.write(f"{tool} {arguments['order_id']}\n")
            ran.flush()
            os.fsync(ran.fileno())
        dies.at("after the tool")
        return "done"

    return run


def main() -> None:
    """Cancel an order."""
    records, ran, where = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    dies = Dies(where)
    with open_engine("embedded") as engine:
        gate = MortalGate(Domain.load("retail"), engine)
        gate.dies = dies
        recorder = JsonlRecorder(records)
        session = retail.desk(gate, session_id=where, recorder=MortalRecorder(recorder, dies))
        review = retail.propose(session, retail.cancel())
        assert review.ticket is not None, review
        session.execute(review.ticket, shop(ran, dies))
        recorder.close()


if __name__ == "__main__":
    main()
