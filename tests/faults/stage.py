"""Where a fault plays: a shop whose writes are counted, sessions that want to write, a gate, and the record file.

A fault is tried in four acts. The gate decides as ever; the fault begins, and everything that is proposed must be
blocked, in time, with an error that names the cause; the fault ends; and the same gate with the same sessions lets
through what is allowed. What ran and what is on record is compared at the end.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ledgeragent.engine import Engine
from ledgeragent.gate import Gate
from ledgeragent.records import JsonlRecorder
from ledgeragent.session import Call, Review, Session
from support import retail

BUDGET: Final = 1.0
"""Seconds that an engine has for one answer."""
SLACK: Final = 1.0
"""Seconds that a shared machine may take on top of it."""
RECOVERY: Final = 20.0
"""Seconds in which a gate decides again once the fault is over, an OPA's start included."""


class Shop:
    """What the tools did."""

    def __init__(self) -> None:
        self.ran: list[tuple[str, str]] = []
        self._lock = threading.Lock()

    def run(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """A tool."""
        with self._lock:
            self.ran.append((tool, str(arguments.get("order_id"))))
        return "done"


@dataclass(frozen=True)
class Attempt:
    """A call that was proposed: what came of it, and after how many seconds."""

    review: Review
    took: float

    @property
    def code(self) -> str:
        """The failure's code, empty when there was a decision."""
        return self.review.failure.code if self.review.failure is not None else ""


@dataclass
class Stage:
    """A gate over one engine, with sessions, shop and records; `parts` holds what faults work on."""

    engine: Engine
    gate: Gate
    file: Path
    parts: Mapping[str, Any] = field(default_factory=dict)
    shop: Shop = field(default_factory=Shop)

    def __post_init__(self) -> None:
        self.recorder = JsonlRecorder(self.file)

    def session(self, name: str) -> Session:
        """A session of its own that knows its customer, an order that can be cancelled and one that cannot."""
        session = retail.desk(self.gate, session_id=name, recorder=self.recorder)
        for number in ("#W7", "#W8"):
            retail.read_order(session, retail.order(number, "pending"))
        return session

    def propose(self, session: Session, call: Call) -> Attempt:
        """Have a call reviewed and, if it is admitted, run."""
        started = time.monotonic()
        review = retail.propose(session, call)
        took = time.monotonic() - started
        if review.ticket is not None:
            session.execute(review.ticket, self.shop.run)
        return Attempt(review, took)

    def propose_all(self, calls: Sequence[tuple[Session, Call]]) -> list[Attempt]:
        """Have calls of different sessions reviewed at the same time."""
        attempts: list[Attempt | BaseException] = [AssertionError("it never ended")] * len(calls)

        def propose(number: int, session: Session, call: Call) -> None:
            try:
                attempts[number] = self.propose(session, call)
            except BaseException as error:  # noqa: BLE001 - shown by the test that waits
                attempts[number] = error

        threads = [threading.Thread(target=propose, args=[number, *one]) for number, one in enumerate(calls)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert all(isinstance(one, Attempt) for one in attempts), attempts
        return [one for one in attempts if isinstance(one, Attempt)]

    def recovers(self, session: Session, call: Call) -> float:
        """Propose a call until it is allowed; the seconds that took."""
        started = time.monotonic()
        while (attempt := self.propose(session, call)).review.verdict != "allow":
            assert attempt.review.failure is not None, attempt.review.message
            assert time.monotonic() - started < RECOVERY, f"no recovery: {attempt.review.failure}"
            time.sleep(0.02)
        return time.monotonic() - started

    def records(self) -> list[dict[str, Any]]:
        """The record file, line by line."""
        return [json.loads(line) for line in self.file.read_text(encoding="ascii").splitlines()]

    def close(self) -> None:
        """Close what the stage opened."""
        self.recorder.close()
        self.engine.close()


Fault = AbstractContextManager[None]


def judged(records: Sequence[Mapping[str, Any]], session: str) -> list[str]:
    """What is on record of a session: verdicts with their errors, and outcomes."""
    return [
        row["outcome"] if row["kind"] == "outcome" else " ".join(filter(None, [row["verdict"], row["error"]]))
        for row in records
        if row["session"] == session
    ]


def blocked_in_time(attempts: Sequence[Attempt], codes: Sequence[str], says: str, budget: float = BUDGET) -> None:
    """Every attempt is a block for want of a decision, with one of the codes, a reason, and within the budget."""
    for attempt in attempts:
        review = attempt.review
        assert (review.verdict, review.ticket, review.decision) == ("block", None, None), review
        assert review.failure is not None
        assert review.failure.code in codes, review.failure
        assert re.search(says, review.failure.message), review.failure
        assert attempt.took < budget + SLACK, f"took {attempt.took:.2f} s of {budget} s: {review.failure}"
