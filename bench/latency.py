"""Decision latency per engine and ledger size, with the slice and with the whole ledger.

    python bench/latency.py [--engine SPEC]... [--rounds N] [--json]

One write with nine predicates is judged again and again while the session's ledger holds 5, 50 and 500 records.
`review` is what an agent waits for: slice, evaluation and all checks of the answer; `evaluate` is the engine alone.
Sizes take turns within a round, so that a slow moment of the machine meets all of them. With the slice, latency must
not grow with the ledger: the exit status is 1 when the median at 500 records is over 1.5 times that at 5. A busy
machine can make it seem so once; real growth shows in each of three measurements.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Final

from ledgeragent.domain import Domain
from ledgeragent.engine import Engine, find_opa, open_engine
from ledgeragent.errors import LedgerAgentError
from ledgeragent.gate import Gate
from ledgeragent.session import Call, Session

SIZES: Final = (5, 50, 500)
MAX_RATIO: Final = 1.5
MEASUREMENTS: Final = 3
WARM_UP: Final = 10
CUSTOMER: Final = "ada_quist_1001"
VARIANTS: Final = 12
CALL: Final = Call(
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


class Bench:
    """One session with a ledger of one size, and the four things to time on it."""

    def __init__(self, gate: Gate, size: int) -> None:
        self._gate = gate
        self._session = Session(gate, now=gate.domain.file.now)
        for tool, arguments, content in records(size):
            issued = self._session.issue(tool, arguments)
            observation = self._session.observe(issued.call_id, content)
            if observation.problems:
                raise LedgerAgentError(f"a made-up record does not fit: {observation.problems}")
        if len(self._session.ledger) != size:
            raise LedgerAgentError(f"{len(self._session.ledger)} records where {size} were wanted")
        (review,) = self._session.review([CALL])
        self._sliced = review.gate_input
        self._undo(review.ticket)

    def timed(self) -> Mapping[tuple[str, str], Callable[[], float]]:
        """(what is sent, what is timed) → a function that does it once and gives the milliseconds."""
        return {
            ("slice", "evaluate"): lambda: self._evaluate(self._sliced),
            ("slice", "review"): self._review,
            ("whole ledger", "evaluate"): lambda: self._evaluate(self._whole()),
            ("whole ledger", "review"): self._review_whole,
        }

    def _review(self) -> float:
        started = time.perf_counter()
        (review,) = self._session.review([CALL])
        elapsed = time.perf_counter() - started
        self._undo(review.ticket)
        return elapsed * 1000

    def _review_whole(self) -> float:
        started = time.perf_counter()
        judged = self._gate.judge(self._whole())
        elapsed = time.perf_counter() - started
        _must_allow(judged.verdict)
        return elapsed * 1000

    def _evaluate(self, document: Mapping[str, Any]) -> float:
        started = time.perf_counter()
        decision = self._gate.engine.evaluate("retail", "decision", document)
        elapsed = time.perf_counter() - started
        _must_allow(decision["verdict"])
        return elapsed * 1000

    def _whole(self) -> dict[str, Any]:
        return {**self._sliced, "ledger": self._session.ledger.tree(), "stale": []}

    def _undo(self, ticket: Any) -> None:
        """Refused by the tool: the session is as it was."""
        _must_allow("allow" if ticket is not None else "another verdict")
        self._session.redeem(ticket)
        self._session.report(ticket, "refused")


def _must_allow(verdict: str) -> None:
    if verdict != "allow":
        raise LedgerAgentError(f"the call to time must be allowed; the verdict is {verdict}")


@dataclass
class Cell:
    """The samples of one engine, ledger size, kind of input and path, in milliseconds."""

    engine: str
    sent: str
    path: str
    size: int
    samples: list[float] = field(default_factory=list)

    @property
    def p50(self) -> float:
        """Median."""
        return statistics.median(self.samples)

    @property
    def p95(self) -> float:
        """95th percentile."""
        return statistics.quantiles(self.samples, n=20)[-1]


def measure(engine: Engine, rounds: int) -> list[Cell]:
    """All cells of one engine; sizes take turns."""
    gate = Gate(Domain.load("retail"), engine)
    gate.prove()
    benches = {size: Bench(gate, size) for size in SIZES}
    cells: list[Cell] = []
    for sent, path in benches[SIZES[0]].timed():
        of_sizes = [Cell(engine.name, sent, path, size) for size in SIZES]
        # The whole ledger takes long enough to be measured with fewer rounds.
        for round_ in range(WARM_UP + (rounds if sent == "slice" else max(20, rounds // 5))):
            for cell in of_sizes:
                sample = benches[cell.size].timed()[sent, path]()
                if round_ >= WARM_UP:
                    cell.samples.append(sample)
        cells += of_sizes
    return cells


def ratios(cells: list[Cell]) -> dict[tuple[str, str, str], float]:
    """(engine, sent, path) → median with the largest ledger over median with the smallest."""
    medians = {(cell.engine, cell.sent, cell.path, cell.size): cell.p50 for cell in cells}
    return {
        (engine, sent, path): medians[engine, sent, path, SIZES[-1]] / median
        for (engine, sent, path, size), median in medians.items()
        if size == SIZES[0]
    }


def grown(cells: list[Cell]) -> dict[tuple[str, str, str], float]:
    """The ratios with the slice that are too large."""
    return {key: ratio for key, ratio in ratios(cells).items() if key[1] == "slice" and ratio > MAX_RATIO}


def measure_surely(engine: Engine, rounds: int) -> list[Cell]:
    """The first measurement in which latency does not grow with the ledger, or the last one."""
    for _ in range(MEASUREMENTS):
        cells = measure(engine, rounds)
        if not grown(cells):
            break
    return cells


def table(cells: list[Cell]) -> str:
    """The figures as a Markdown table."""
    sizes = [f"{size} records: p50 / p95 ms" for size in SIZES]
    head = ["engine", "sent", "timed", *sizes, f"p50 {SIZES[-1]} : {SIZES[0]}"]
    body = []
    for (engine, sent, path), ratio in ratios(cells).items():
        of_sizes = [cell for cell in cells if (cell.engine, cell.sent, cell.path) == (engine, sent, path)]
        body.append([engine, sent, path, *(f"{cell.p50:.2f} / {cell.p95:.2f}" for cell in of_sizes), f"{ratio:.2f}"])
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, ["---"] * len(head), *body))


def as_json(cells: list[Cell]) -> str:
    """The figures as JSON, times in milliseconds."""
    rows = [
        {"engine": one.engine, "sent": one.sent, "timed": one.path, "records": one.size, "p50": one.p50, "p95": one.p95}
        for one in cells
    ]
    return json.dumps({"python": platform.python_version(), "unit": "ms", "cells": rows}, indent=2)


def main() -> int:
    """Print the figures; exit status 1 when latency with the slice grows with the ledger."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", action="append", help="embedded, opa, or the URL of an OPA server; can be repeated")
    parser.add_argument("--rounds", type=int, default=200, help="samples per figure")
    parser.add_argument("--json", action="store_true", help="JSON instead of a table")
    options = parser.parse_args()
    engines: list[str] = options.engine or ["embedded", *(["opa"] if find_opa() is not None else [])]
    if engines == ["embedded"]:
        print("NOT MEASURED: a local OPA, as there is none (run `make opa`)", file=sys.stderr)
    cells: list[Cell] = []
    try:
        for spec in engines:
            with closing(open_engine(spec)) as engine:
                cells += measure_surely(engine, options.rounds)
    except LedgerAgentError as error:
        print(error, file=sys.stderr)
        return 1
    print(as_json(cells) if options.json else table(cells))
    for key, ratio in grown(cells).items():
        print(f"latency grows with the ledger: {', '.join(key)}: {ratio:.2f} times", file=sys.stderr)
    return 1 if grown(cells) else 0


if __name__ == "__main__":
    sys.exit(main())
