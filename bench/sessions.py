"""Many sessions at once through one OPA: does one ever see another's facts, does anything fail, how long does it take?

    python bench/sessions.py [--sessions 1000] [--workers 8] [--processes 1] [--seconds 60] [--engine opa|URL] [--json]

Workers are threads that share one gate and one engine; with more processes each has its part of sessions and workers
and an engine of its own, and all write one record file. A session's turns may run on any worker. Every session has a
number of its own in its customer, orders and addresses. A turn reads an order and proposes a write that must be
allowed, must be revised (the order was not read), or must be blocked (it was delivered); whatever is asked, answered
and recorded may hold the session's own number only. The exit status is 1 when one holds another number, a verdict is
not the expected one, a review has no decision, or a record is missing. With a URL, the token is that of
LEDGERAGENT_OPA_TOKEN. *review* is what an agent waits for, its record on the disk included; *judge* is asking OPA and
checking the answer.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import re
import statistics
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ledgeragent import Call, Domain, Gate, JsonlRecorder, LedgerAgentError, LocalOpa, OpaServer, Review, Session
from ledgeragent.policies import REGO

NOW: Final = "2024-05-15T15:00:00-05:00"
EXPECTED: Final = ("allow", "revise", "block", "allow")
MARK: Final = re.compile(r"holder_(\d{6})|#W(\d{6})|session-(\d{6})|(\d{6}) Harbour Lane")
MOST_PROBLEMS: Final = 20


@dataclass
class Found:
    """What a worker, or all of them, found; times in milliseconds."""

    reviews: list[float] = field(default_factory=list)
    judged: list[float] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    records: int = 0
    turned: set[int] = field(default_factory=set)

    def add(self, other: Found) -> None:
        """Put another's findings to these."""
        self.reviews += other.reviews
        self.problems += other.problems
        self.records += other.records
        self.turned |= other.turned


class Talk:
    """One conversation, and what it may see."""

    def __init__(self, number: int, gate: Gate, recorder: JsonlRecorder) -> None:
        self.mark = f"{number:06}"
        self.number = number
        self._turns = number % len(EXPECTED)  # so that all kinds of writes come from the start
        self._user = f"holder_{self.mark}"
        self._session = Session(gate, now=NOW, session_id=f"session-{self.mark}", recorder=recorder)
        self._read("find_user_id_by_email", {"email": f"{self.mark}@example.com"}, f"mark_{self._user}")

    def turn(self, found: Found) -> None:
        """Read an order, propose a write, check everything that came back, run what is allowed."""
        order, expected = f"#W{self.mark}{self._turns:06}", EXPECTED[self._turns % len(EXPECTED)]
        self._turns += 1
        if expected != "revise":
            self._read("get_order_details", {"order_id": order}, json.dumps(self._order(order, expected)))
        call = self._call(order)
        started = time.perf_counter()
        self._session.next_turn()
        [review] = self._session.review([call])
        found.reviews.append((time.perf_counter() - started) * 1000)
        found.problems += self._problems(review, expected)
        found.records += 1
        found.turned.add(self.number)
        if review.ticket is not None:
            self._session.execute(review.ticket, lambda *_: "done")
            found.records += 1

    def _call(self, order: str) -> Call:
        if self._turns % len(EXPECTED):
            return Call("cancel_pending_order", {"order_id": order, "reason": "no longer needed"}, "c")
        return Call("modify_pending_order_address", {"order_id": order, **self._address()}, "c")

    def _problems(self, review: Review, expected: str) -> Iterator[str]:
        if review.failure is not None:
            yield f"session {self.mark}: {review.failure.code}: {review.failure.message}"
        elif review.verdict != expected:
            yield f"session {self.mark}: {review.verdict} instead of {expected}: {review.message}"
        decided = review.decision.model_dump() if review.decision is not None else {}
        strangers = foreign([review.gate_input, decided, review.message, review.user_message], self.mark)
        if strangers:
            yield f"session {self.mark}: sees {', '.join(sorted(strangers))}"

    def _read(self, tool: str, arguments: dict[str, Any], returned: str) -> None:
        issued = self._session.issue(tool, arguments)
        self._session.observe(issued.call_id, returned)

    def _address(self) -> dict[str, str]:
        parts = dict.fromkeys(("address2", "city", "country", "state", "zip"), "x")
        return {"address1": f"{self.mark} Harbour Lane", **parts}

    def _order(self, order: str, expected: str) -> dict[str, Any]:
        lamp = {"name": "Lamp", "product_id": "lamps", "item_id": f"lamp-{self.mark}", "price": 30, "options": {}}
        return {
            "order_id": order,
            "user_id": f"mark_{self._user}",
            "address": self._address(),
            "items": [lamp] * 3,
            "status": "delivered" if expected == "block" else "pending",
            "payment_history": [],
        }


def foreign(shown: Any, mark: str) -> set[str]:
    """The numbers of other sessions in what was shown; the word "none" when not even its own is there."""
    marks = {next(filter(None, found)) for found in MARK.findall(json.dumps(shown))}
    return marks - {mark} if marks else {"none"}


def work(talks: deque[Talk], until: float) -> Found:
    """One worker: takes the session that waited longest, gives it a turn, puts it back."""
    found = Found()
    while time.monotonic() < until:
        try:
            talk = talks.popleft()
        except IndexError:  # fewer sessions than workers
            continue
        try:
            talk.turn(found)
        except LedgerAgentError as error:
            found.problems.append(f"session {talk.mark}: {type(error).__name__}: {error}")
        talks.append(talk)
    return found


def run_part(url: str, token: str, file: str, numbers: Sequence[int], workers: int, seconds: float) -> Found:
    """A process's part of the sessions, on threads that share one gate."""
    found = Found()
    with OpaServer(url, token=token) as engine:
        gate = Gate(Domain.load("retail"), engine)
        gate.prove()
        recorder = JsonlRecorder(Path(file))
        talks = deque(Talk(number, gate, recorder) for number in numbers)
        until = time.monotonic() + seconds
        parts: list[Found] = []
        threads = [threading.Thread(target=lambda: parts.append(work(talks, until))) for _ in range(workers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        recorder.close()
    if len(parts) != workers:
        found.problems.append(f"{workers - len(parts)} worker(s) broke off")
    for part in parts:
        found.add(part)
    return found


def run_all(url: str, token: str, file: str, options: argparse.Namespace) -> Found:
    """All parts: in this process, or in several."""
    processes, numbers = options.processes, range(options.sessions)
    shares = [(url, token, file, numbers[part::processes], options.workers // processes) for part in range(processes)]
    if processes == 1:
        return run_part(*shares[0], options.seconds)
    found = Found()
    with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        for part in [pool.submit(run_part, *share, options.seconds) for share in shares]:
            found.add(part.result())
    return found


def check_records(file: Path, found: Found) -> None:
    """Every promised record is there, whole, and holds its own session's number only."""
    lines = file.read_text(encoding="ascii").splitlines()
    if len(lines) != found.records:
        found.problems.append(f"{len(lines)} records where {found.records} were promised")
    for line in lines:
        record = json.loads(line)
        found.judged += [record["latency_ms"]] if record["kind"] == "decision" else []
        mark = record["session"].removeprefix("session-")
        if foreign(record, mark):
            found.problems.append(f"the record of session {mark} holds {foreign(record, mark)}")


def quantiles(times: Sequence[float]) -> dict[str, float]:
    """The distribution of times."""
    cuts = statistics.quantiles(times, n=1000, method="inclusive") if len(times) > 1 else [0.0] * 999
    shown = {"p50": cuts[499], "p90": cuts[899], "p99": cuts[989], "p99.9": cuts[998], "max": max(times, default=0.0)}
    return {name: round(value, 2) for name, value in shown.items()}


@contextmanager
def one_opa(engine: str) -> Iterator[tuple[str, str]]:
    """(URL, token) of the OPA that all share."""
    if engine != "opa":
        yield engine, os.environ.get("LEDGERAGENT_OPA_TOKEN", "")
        return
    with LocalOpa(REGO) as opa:
        yield opa.location, opa.token


def measure(options: argparse.Namespace) -> tuple[dict[str, Any], list[str]]:
    """The figures, and what is wrong."""
    with one_opa(options.engine) as (url, token), tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "records.jsonl"
        found = run_all(url, token, str(file), options)
        check_records(file, found)
    return {
        "sessions": options.sessions,
        "took_part": len(found.turned),
        "workers": options.workers,
        "processes": options.processes,
        "seconds": options.seconds,
        "reviews": len(found.reviews),
        "records": found.records,
        "per_second": round(len(found.reviews) / options.seconds, 1),
        "problems": len(found.problems),
        "review_ms": quantiles(found.reviews),
        "judge_ms": quantiles(found.judged),
    }, found.problems


def table(figures: dict[str, Any]) -> str:
    """The figures as Markdown: a sentence and a table."""
    said = (
        f"{figures['took_part']} of {figures['sessions']} sessions, {figures['workers']} workers in "
        f"{figures['processes']} process(es), {figures['seconds']} s: {figures['reviews']} reviews "
        f"({figures['per_second']} a second), {figures['records']} records, {figures['problems']} problems"
    )
    head = ["ms", *figures["review_ms"]]
    body = [[name, *figures[f"{name}_ms"].values()] for name in ("review", "judge")]
    rows = "\n".join("| " + " | ".join(map(str, line)) + " |" for line in (head, ["---"] * len(head), *body))
    return f"{said}\n\n{rows}"


def main() -> int:
    """Run, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=8, help="threads, over all processes")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--engine", default="opa", help="opa (a local child), or the URL of an OPA server")
    parser.add_argument("--json", action="store_true", help="JSON instead of a table")
    options = parser.parse_args()
    try:
        figures, problems = measure(options)
    except LedgerAgentError as error:
        print(error, file=sys.stderr)
        return 1
    print(json.dumps(figures) if options.json else table(figures))
    for problem in problems[:MOST_PROBLEMS]:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
