"""A conversation of 300 turns and 500 records: what a turn costs late and early, and what memory it takes.

    python bench/long_conversation.py [--json]

A scripted model drives the real `LedgerAgent`: every turn reads, every third turn five orders it has not read before,
every tenth turn writes. Times of ledger (issue, observe), gate (review on the embedded engine), and view (render) are
summed per turn; the median of turns 50 to 99 is compared with that of turns 250 to 299 of the same run. What a turn's
rendering may grow by is the copying of the block: the time to put its finished lines together is measured beside it.
Memory: as many turns again that read the same records anew, which must add nothing but their transcript.
The exit status is 1 when a bound is broken in each of three runs: ledger and gate over 1.3 times their early median,
rendering over 1.3 times its early median plus four copies of the block's growth, memory growing by more than 5 percent.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable, Mapping
from typing import Any, Final

from ledgeragent import Domain, Gate, LedgerAgent, Options, Toolset, open_engine
from ledgeragent.model import Definition, Generation, ProposedCall

TURNS: Final = 300
RECORDS: Final = 500
EARLY: Final = slice(50, 100)
LATE: Final = slice(250, 300)
MEASUREMENTS: Final = 3
MAX_RATIO: Final = 1.3
COPIES: Final = 4
CUSTOMER: Final = "ada_quist_1001"
ADDRESS: Final = dict.fromkeys(("address1", "address2", "city", "country", "state", "zip"), "1 Harbour Lane")
NOW: Final = "2024-05-15T15:00:00-05:00"


def order(number: int) -> dict[str, Any]:
    """An order of some two kilobytes, as the shop has them."""
    items = [
        {
            "name": "Lamp",
            "product_id": "7700",
            "item_id": f"{number}{item}",
            "price": 30.5,
            "options": {"colour": "red"},
        }
        for item in range(8)
    ]
    return {
        "order_id": f"#W{number}",
        "user_id": CUSTOMER,
        "address": ADDRESS,
        "items": items,
        "status": "pending",
        "fulfillments": [],
        "payment_history": [{"transaction_type": "payment", "amount": 244, "payment_method_id": "credit_card_1"}],
    }


class Script:
    """A model that reads and writes by plan: each turn a message of calls, then words."""

    def __init__(self, reads: Callable[[int], list[int]]) -> None:
        self._reads = reads
        self._turn = 0
        self._spoken = True

    def generate(self, _messages: object, _tools: list[Definition]) -> Generation:
        self._spoken = not self._spoken
        if self._spoken:
            return Generation("Done.")
        self._turn += 1
        made = [("get_order_details", {"order_id": f"#W{number}"}) for number in self._reads(self._turn)]
        if self._turn == 1:
            made.insert(0, ("find_user_id_by_email", {"email": "ada@example.org"}))
        if self._turn % 10 == 0:  # an order read in this very message's predecessor, so that it is allowed
            number = self._reads(self._turn - 1)[0]
            made.append(
                ("modify_pending_order_address", {"order_id": f"#W{number}", **ADDRESS, "zip": f"{self._turn}"})
            )
        return Generation("", tuple(ProposedCall("", name, json.dumps(given)) for name, given in made))


class Clocked:
    """Adds up the time spent in some methods."""

    def __init__(self) -> None:
        self.spent = 0.0

    def wrap(self, owner: Any, name: str) -> None:
        method = getattr(owner, name)

        def timed(*args: Any, **options: Any) -> Any:
            started = time.perf_counter()
            try:
                return method(*args, **options)
            finally:
                self.spent += time.perf_counter() - started

        setattr(owner, name, timed)

    def taken(self) -> float:
        spent, self.spent = self.spent, 0.0
        return spent


def fresh(turn: int) -> list[int]:
    """Orders read in a turn: five new ones every third turn (500 in 300), else one that is known."""
    return [turn // 3 * 5 + one for one in range(5)] if turn % 3 == 0 else [turn % 3]


def run_tool(name: str, arguments: Mapping[str, Any]) -> Any:
    """The shop."""
    if name == "find_user_id_by_email":
        return CUSTOMER
    return order(int(arguments["order_id"][2:])) if name == "get_order_details" else "done"


def begin(gate: Gate, reads: Callable[[int], list[int]]) -> LedgerAgent:
    """An agent with a view that leaves nothing out."""
    names = ("find_user_id_by_email", "get_order_details", "modify_pending_order_address")
    tools = Toolset.from_openai([{"name": name} for name in names], run_tool)
    return LedgerAgent(Script(reads), tools, gate, now=NOW, options=Options(view_bytes=10_000_000))  # type: ignore[arg-type]


def timed(gate: Gate) -> dict[str, Any]:
    """Medians of one run, in milliseconds per turn."""
    agent = begin(gate, fresh)
    clocks = {"ledger": Clocked(), "gate": Clocked(), "view": Clocked()}
    clocks["ledger"].wrap(agent.session, "issue")
    clocks["ledger"].wrap(agent.session, "observe")
    clocks["gate"].wrap(agent.session, "review")
    view = agent.loop._view
    clocks["view"].wrap(view, "render")
    rows: dict[str, list[float]] = {name: [] for name in (*clocks, "copy")}
    for _ in range(TURNS):
        agent.send("Go on.")
        for name, clock in clocks.items():
            rows[name].append(clock.taken() * 1000)
        rows["copy"].append(_copy_ms(view.render().text))  # type: ignore[union-attr]
        clocks["view"].taken()
    allowed = len(agent.session._state.writes)
    # Turns that write are few: the gate's medians are over those.
    writes = [row for row in rows["gate"] if row > 0.05]
    return {
        "records": len(agent.session.ledger),
        "block_bytes": view.render().size,  # type: ignore[union-attr]
        "writes": allowed,
        "ledger": _early_late(rows["ledger"]),
        "gate": {"early": statistics.median(writes[4:10]), "late": statistics.median(writes[-6:])},
        "view": _early_late(rows["view"]),
        "copy": _early_late(rows["copy"]),
    }


def _copy_ms(text: str) -> float:
    lines = text.split("\n")
    started = time.perf_counter()
    "\n".join(lines)
    return (time.perf_counter() - started) * 1000


def _early_late(row: list[float]) -> dict[str, float]:
    return {"early": statistics.median(row[EARLY]), "late": statistics.median(row[LATE])}


def memory(gate: Gate) -> dict[str, float]:
    """Bytes held after 300 turns of new facts, and after 300 more that only read them again; transcripts apart."""
    agent = begin(gate, lambda turn: fresh(turn if turn <= TURNS else turn - TURNS))
    tracemalloc.start()
    held = []
    for _ in range(2):
        for _ in range(TURNS):
            agent.send("Go on.")
            agent.loop._history.clear()  # the transcript and its calls' ids grow with every word
            agent.loop._used.clear()
        gc.collect()
        held.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    return {"after": held[0], "after_rereading": held[1], "facts": agent.session.ledger.size}


def broken(found: Mapping[str, Any]) -> list[str]:
    """The bounds that this measurement breaks."""
    problems = [
        f"{name}: {found[name]['late']:.3f} ms a turn against {found[name]['early']:.3f} early"
        for name in ("ledger", "gate")
        if found[name]["late"] > MAX_RATIO * found[name]["early"]
    ]
    growth = found["copy"]["late"] - found["copy"]["early"]
    if found["view"]["late"] > MAX_RATIO * found["view"]["early"] + COPIES * growth:
        problems.append(f"view: {found['view']['late']:.3f} ms a turn against {found['view']['early']:.3f} early")
    return problems


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--json", action="store_true", help="print JSON")
    as_json = parser.parse_args().json
    with open_engine("embedded") as engine:
        gate = Gate(Domain.load("retail"), engine)
        gate.prove()
        for _ in range(MEASUREMENTS):
            found = timed(gate)
            problems = broken(found)
            if not problems:
                break
        held = memory(gate)
    if held["after_rereading"] > 1.05 * held["after"]:
        problems.append(f"memory: {held['after_rereading']:,.0f} bytes against {held['after']:,.0f}")
    print(json.dumps({**found, "memory": held}) if as_json else _table(found, held))
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


def _table(found: Mapping[str, Any], held: Mapping[str, float]) -> str:
    lines = [
        f"{found['records']} records, {found['writes']} writes, the block is {found['block_bytes']:,} bytes",
        "",
        "| per turn, ms (median) | turns 50 to 99 | turns 250 to 299 | ratio |",
        "|---|---|---|---|",
    ]
    for name in ("ledger", "gate", "view", "copy"):
        early, late = found[name]["early"], found[name]["late"]
        lines.append(f"| {name} | {early:.3f} | {late:.3f} | {late / early:.2f} |")
    lines += [
        "",
        f"memory: {held['after'] / 1e6:.1f} MB after 300 turns, {held['after_rereading'] / 1e6:.1f} MB after 300 more "
        f"that read the same; the facts are {held['facts'] / 1e6:.1f} MB of JSON",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
