"""Fixtures of sampled records, held to what they promise.

Replays conversations with a recorder, samples records of every domain, verdict and status with a fixed seed, makes a
fixture of each, and runs them with `opa test`: on the policies of the records, where all must pass, and on copies in
which one predicate after the other is taken away, where those it decided must fail.

    python bench/fixtures.py --count 200
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from ledgeragent.conversation import open_lines, read_conversation
from ledgeragent.domain import Domain
from ledgeragent.engine import find_opa, open_engine
from ledgeragent.fixture import Fixture, make_fixture, write_fixture
from ledgeragent.gate import Gate
from ledgeragent.policies import EXAMPLES, REGO, domains
from ledgeragent.policysource import PolicySources
from ledgeragent.reopen import Reopener
from support.fixture_check import decided_by, sampled, survivors, test_results
from support.recorded import write_records

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data" / "conversations"


def main() -> int:
    """Run it; the exit status is 1 when a fixture does not keep its promise."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=200, help="records to sample")
    parser.add_argument("--seed", type=int, default=6)
    parser.add_argument("--conversations", type=Path, default=SHARED if SHARED.is_dir() else EXAMPLES / "conversations")
    chosen = parser.parse_args()
    opa = find_opa()
    if opa is None:
        sys.exit("the fixtures are run with a real OPA: run `make opa`")
    with tempfile.TemporaryDirectory() as name:
        return run(chosen.conversations, chosen.count, chosen.seed, opa, Path(name))


def run(conversations: Path, count: int, seed: int, opa: Path, work: Path) -> int:
    """Sample, make, run, print."""
    records = sampled(recorded(conversations, work), count, seed)
    began = time.monotonic()
    with PolicySources() as sources, Reopener(sources) as policies:
        fixtures = [make_fixture(record, policies.of(record)) for record in records]
    seconds = time.monotonic() - began
    for fixture in fixtures:
        write_fixture(fixture, work / "fixtures")
    results = test_results(opa, REGO, work / "fixtures")
    alive = survivors(opa, REGO, fixtures, work / "fixtures", work / "mutated")
    told(fixtures, seconds)
    failed = sorted(stem for stem, passed in results.items() if not passed)
    groups = decided_by(fixtures)
    print(f"pass on the policies of their records: {len(results) - len(failed)} of {len(fixtures)}")
    for stem in failed:
        print(f"  fails: {stem}")
    pairs = sum(len(given) for given in groups.values())
    print(f"fail when what decided is taken away: {pairs - sum(map(len, alive.values()))} of {pairs}")
    for predicate, stems in alive.items():
        print(f"  without {predicate} still pass: {', '.join(stems)}")
    return 1 if failed or alive or len(results) != len(fixtures) else 0


def recorded(conversations: Path, work: Path) -> list[Path]:
    """Record files of all conversations, one a domain."""
    found = []
    with open_engine("embedded") as engine:  # type: ignore[attr-defined]
        for domain in domains():
            [file] = conversations.glob(f"{domain}.jsonl*")
            gate = Gate(Domain.load(domain), engine)
            talks = (read_conversation(line, place=place) for place, line in open_lines(str(file)))
            found.append(write_records(work / f"{domain}.records.jsonl", talks, gate))
    return found


def told(fixtures: list[Fixture], seconds: float) -> None:
    """What was made."""
    print(f"{len(fixtures)} fixtures in {seconds:.0f} s")
    for what, names in (
        ("domains", [one.domain for one in fixtures]),
        ("verdicts", [one.decision.verdict for one in fixtures]),
        ("findings", [found.status for one in fixtures for found in one.decision.findings]),
    ):
        print(f"{what}: " + ", ".join(f"{name} {number}" for name, number in sorted(Counter(names).items())))
    print(f"predicates that decided: {len(decided_by(fixtures))}")
    left, all_ = (sum(one.facts[at] for one in fixtures) for at in (0, 1))
    print(f"values of the ledger: {left} left of {all_}; texts with stand-ins: {sum(one.replaced for one in fixtures)}")
    print(f"vectors: {sum(one.vector is not None for one in fixtures)}")
    for fixture in fixtures:
        for note in fixture.notes:
            print(f"  {fixture.stem}: {note}")


if __name__ == "__main__":
    sys.exit(main())
