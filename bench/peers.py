"""Other people's policy layers on the same write, rules and facts, beside our own `review`, in one run.

    python bench/peers.py [--peer NAME]... [--rounds N] [--json FILE] [--offline]

The write is the one of decision_world.py: nine rules, ledgers of 5, 50 and 500 records. Each peer is installed from its
registry into an environment of its own below the cache folder, gets the facts the way its own documentation passes
state, and asks the pinned OPA where it uses one: once with *our* rules, the very Rego of ours, and once with *plain*
rules, which refuse the same calls in as few lines as they can and say nothing of what would settle them. Before
anything is timed it must allow a call that is allowed, and refuse one that breaks a rule and one whose facts are not
there; what it says to a fact that a write has overtaken is told, not demanded. Everything then takes turns, so that a
slow moment of the machine meets all. What does not install is left out, and said.

The folder peers/ has both sets of rules, and for each peer how it is installed, driven and described. Exit status 1: a
peer that is installed could not be measured, or gave a wrong verdict.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from decision_world import WRITE, Desk, allowed
from ledgeragent.domain import Domain
from ledgeragent.engine import Engine, find_opa, open_engine
from ledgeragent.engine.local import opa_version
from ledgeragent.gate import Gate
from ledgeragent.session import Review
from peer_cases import JSON, MIDDLE, SIZES, cases, write_cases
from peer_set_up import (
    NAMES,
    RULES,
    Driver,
    NotInstalled,
    NotMeasured,
    command_of,
    install,
    opa_server,
    write_policies,
)
from peer_tables import CASES, Row, about, as_json, report

WARM_UP: Final = 5
DEMANDED: Final = {"allowed": True, "violated": False, "missing": False}
Ask = Callable[[int], float]
"""Judges the allowed call once at a ledger size; milliseconds."""

Asked = tuple[Row, Ask]


def open_peer(
    peer: str, rules: str, environment: Path, made: Path, opa: Path, stack: ExitStack
) -> tuple[list[Asked], JSON]:
    """Start and check a peer; its rows with what to time, and its versions.

    Args:
        peer: one of NAMES.
        rules: one of RULES.
        environment: where it is installed.
        made: the file with the cases.
        opa: the executable.
        stack: ends what is started here.

    Raises:
        NotMeasured: it cannot be started, or gives a wrong verdict.
    """
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    policies = write_policies(peer, rules, folder, environment, opa)
    url = stack.enter_context(opa_server(opa, policies))
    variables = os.environ | {"OPA_URL": url, "OPA": str(opa), "PATH": f"{opa.parent}:{os.environ['PATH']}"}
    driver = Driver([*command_of(peer, environment), str(made), str(policies)], variables)
    stack.callback(driver.close)
    told = about(peer)
    rows = []
    for variant, it in told["variants"].items():
        if rules not in it.get("rules", RULES):
            continue
        row = Row(told["title"], it["how"], it["kind"], rules, it.get("why", ""))
        row.verdicts = {case: verdict_of(driver, variant, case) for case in CASES}
        rows.append((row, lambda size, variant=variant: float(driver.ask(variant, f"allowed@{size}")["ms"])))
    return rows, driver.versions


def verdict_of(driver: Driver, variant: str, case: str) -> str:
    """What a peer says to a case, in a word or two.

    Raises:
        NotMeasured: it is not what must be said.
    """
    answer = driver.ask(variant, f"{case}@{MIDDLE}")
    if DEMANDED.get(case, answer["allowed"]) is not answer["allowed"]:
        raise NotMeasured(f"wrong verdict: {variant}, {case}: {answer['allowed']} {answer['said']}")
    return "allowed" if answer["allowed"] else f"refused: {answer['said']}"


def ours(engine: Engine, kind: str) -> list[Asked]:
    """Our own review over an engine, and the engine alone: its slice of the same facts, nothing made or checked."""
    gate = Gate(Domain.load("retail"), engine)
    gate.prove()
    review = Row("ledgeragent", f"`review`, {engine.name}", kind)
    for name, (session, _) in cases(gate).items():
        review.verdicts.setdefault(name.partition("@")[0], told(session.review([WRITE])[0]))
    alone = Row("ledgeragent", f"the engine alone, {engine.name}", kind)
    desks = {size: Desk(gate, size) for size in SIZES}
    return [
        (review, lambda size: desks[size].review()),
        (alone, lambda size: _evaluated(engine, desks[size].document)),
    ]


def _evaluated(engine: Engine, document: Mapping[str, Any]) -> float:
    started = time.perf_counter()
    decision = engine.evaluate("retail", "decision", document)
    elapsed = time.perf_counter() - started
    allowed(decision["verdict"])
    return elapsed * 1000


def told(review: Review) -> str:
    """Our verdict, with what decided and the reads that would settle it."""
    if review.decision is None or review.verdict == "allow":
        return review.verdict
    found = ", ".join(dict.fromkeys(finding.predicate for finding in review.decision.findings))
    reads = ", ".join(map(str, review.reads))
    return f"{review.verdict}: {found}" + (f"; read {reads}" if reads else "")


def measure(asked: Sequence[Asked], rounds: int) -> None:
    """Take the samples: in each round all rows and sizes, in another order.

    Those that start processes are asked in every fifth round only.
    """
    pairs = [(row, ask, size) for row, ask in asked for size in SIZES]
    order = random.Random(8)
    for number in range(WARM_UP + rounds):
        for row, ask, size in order.sample(pairs, len(pairs)):
            if row.kind == "process" and number % 5:
                continue
            elapsed = ask(size)
            if number >= WARM_UP:
                row.samples[size].append(elapsed)


def main() -> int:
    """Install, check, time, tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", action="append", choices=NAMES, help="measure only this one; can be repeated")
    parser.add_argument("--rounds", type=int, default=100, help="samples per figure, at least 10")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there as well")
    parser.add_argument("--offline", action="store_true", help="ask no registry: only what is installed already")
    options = parser.parse_args()
    if options.rounds < 10:
        parser.error("--rounds: at least 10")
    opa = find_opa()
    if opa is None:
        print("NOT MEASURED: the peers ask a real OPA, and there is none (run `make opa`)", file=sys.stderr)
        return 1
    with ExitStack() as stack:
        asked = [
            *ours(stack.enter_context(contextlib.closing(open_engine("opa"))), "server"),
            *ours(stack.enter_context(contextlib.closing(open_engine("embedded"))), "in process"),
        ]
        versions: dict[str, JSON] = {"ledgeragent": {"python": sys.version.split()[0], "opa": opa_version(opa)}}
        left_out: dict[str, NotMeasured] = {}
        made = write_cases(Path(stack.enter_context(tempfile.TemporaryDirectory())))
        for peer in options.peer or NAMES:
            try:
                environment = install(peer, offline=options.offline)
                for rules in RULES:
                    rows, versions[peer] = open_peer(peer, rules, environment, made, opa, stack)
                    asked += rows
            except NotMeasured as reason:
                left_out[peer] = reason
                print(f"NOT MEASURED: {peer}: {reason}", file=sys.stderr)
        measure(asked, options.rounds)
    shown = sorted((row for row, _ in asked), key=lambda row: RULES.index(row.rules))
    print(report(shown, versions, left_out))
    if options.json:
        options.json.write_text(as_json(shown, versions, left_out) + "\n", encoding="utf-8")
    return 1 if any(not isinstance(reason, NotInstalled) for reason in left_out.values()) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
