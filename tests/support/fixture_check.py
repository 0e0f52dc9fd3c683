"""Holds fixtures made of records to what they promise: sampled records, `opa test`, and predicates taken away."""

from __future__ import annotations

import itertools
import json
import random
import re
import shutil
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ledgeragent.contracts import DecisionRecord
from ledgeragent.fixture import Fixture
from ledgeragent.records import read_records

OWN: Final[Mapping[str, tuple[str, str]]] = {
    "gate.arguments": ("problems := arguments.problems(", "problems := set() & arguments.problems("),
    "gate.loop": ("loop_limit := 3", "loop_limit := 1000000000"),
    "gate.tool": ('{_blocked("gate.tool", ', 'set() & {_blocked("gate.tool", '),
}
"""Finding of the gate itself → a change of gate.rego under which it is not made."""
_ALLOWED: Final = "every allow"


def sampled(files: Iterable[Path], count: int, seed: int) -> list[DecisionRecord]:
    """Decisions of record files: every domain with every verdict and status in turn, and of these other findings."""
    rng = random.Random(seed)
    groups: dict[Any, dict[Any, list[DecisionRecord]]] = defaultdict(lambda: defaultdict(list))
    for file in files:
        for record in read_records(file):
            if isinstance(record, DecisionRecord) and record.decision is not None:
                found = [(one.predicate, one.status) for one in record.decision.findings]
                status = found[0][1] if found else ""
                groups[(record.input.domain, record.verdict, status)][tuple(found)].append(record)
    queues = [_in_turns(kinds, rng) for _, kinds in sorted(groups.items())]
    rounds = itertools.chain.from_iterable(itertools.zip_longest(*queues))
    return [record for record in rounds if record is not None][:count]


def _in_turns(kinds: Mapping[Any, list[DecisionRecord]], rng: random.Random) -> list[DecisionRecord]:
    """The records of a group: one of each kind of findings, then a second of each, and so on."""
    queues = [
        sorted(records, key=lambda one: (one.session, one.call_id, one.at)) for _, records in sorted(kinds.items())
    ]
    rng.shuffle(queues)
    for queue in queues:
        rng.shuffle(queue)
    return [one for row in itertools.zip_longest(*queues) for one in row if one is not None]


def test_results(opa: Path, rego: Path, folder: Path) -> dict[str, bool]:
    """Run the tests of a folder on policies, without these policies' own: stem of the file → whether its test passed."""
    with tempfile.TemporaryDirectory() as name:
        alone = shutil.copytree(rego, Path(name) / "rego", ignore=shutil.ignore_patterns("*_test.rego"))
        done = subprocess.run(
            [str(opa), "test", "--format", "json", "--timeout", "60s", str(alone), str(folder)],
            capture_output=True,
            text=True,
            check=False,
        )
    try:
        rows: list[dict[str, Any]] = json.loads(done.stdout)
    except ValueError:
        raise AssertionError(f"opa test: {done.stdout[:2000]}{done.stderr[:2000]}") from None
    return {
        row["package"].rpartition(".")[2].removesuffix("_test"): not row.get("fail", False) and "error" not in row
        for row in rows
    }


test_results.__test__ = False  # type: ignore[attr-defined]


def without_predicate(rego: Path, predicate: str, target: Path) -> Path:
    """A copy of policies (tests left out) that no longer enforce a predicate: off the page and off the guards.

    Of the gate's own findings the rule is changed so that it is not made; with `every allow`, one predicate of every
    domain never holds.
    """
    shutil.copytree(rego, target, ignore=shutil.ignore_patterns("*_test.rego"))
    if predicate in OWN:
        before, after = OWN[predicate]
        gate = target / "ledgeragent" / "gate" / "gate.rego"
        text = gate.read_text(encoding="utf-8")
        assert before in text
        gate.write_text(text.replace(before, after), encoding="utf-8")
        return target
    if predicate == _ALLOWED:
        _tightened(target)
        return target
    for data in target.glob("ledgeragent/*/data.json"):
        document = json.loads(data.read_text(encoding="utf-8"))
        tools = document.get("declared", {}).get("tools", {})
        writes = {name: [one for one in tool["guarded_by"] if one != predicate] for name, tool in tools.items()}
        if writes == {name: tool["guarded_by"] for name, tool in tools.items()}:
            continue
        for name, tool in tools.items():
            tool["guarded_by"] = writes[name]
        data.write_text(json.dumps(document), encoding="utf-8")
        page = data.parent / f"{data.parent.name}.rego"
        row = f'\t"{predicate}": failing["{predicate}"],\n'
        text = page.read_text(encoding="utf-8")
        assert row in text
        page.write_text(text.replace(row, ""), encoding="utf-8")
    return target


def _tightened(rego: Path) -> None:
    file = rego / "ledgeragent" / "common" / "no_repeat_write" / "no_repeat_write.rego"
    text = file.read_text(encoding="utf-8")
    file.write_text(re.sub(r"^holds if ", "holds if false\n\nholds_no_longer if ", text, flags=re.M), encoding="utf-8")


def decided_by(fixtures: Sequence[Fixture]) -> dict[str, list[Fixture]]:
    """What must be taken away → the fixtures that must fail without it."""
    found: dict[str, list[Fixture]] = defaultdict(list)
    for fixture in fixtures:
        for finding in fixture.decision.findings:
            found[finding.predicate].append(fixture)
        if not fixture.decision.findings:
            found[_ALLOWED].append(fixture)
    return dict(found)


def survivors(opa: Path, rego: Path, fixtures: Sequence[Fixture], folder: Path, work: Path) -> dict[str, list[str]]:
    """Predicate → stems of the fixtures that still pass when it is taken away; empty when all fail as they must.

    Args:
        opa: the `opa` to run.
        rego: the policies of the records.
        fixtures: all written to `folder`.
        folder: where their tests are.
        work: an empty folder to work in.
    """
    found = {}
    for number, (predicate, given) in enumerate(sorted(decided_by(fixtures).items())):
        tests = work / f"tests-{number}"
        tests.mkdir(parents=True)
        for fixture in given:
            shutil.copy(folder / f"{fixture.stem}_test.rego", tests)
        results = test_results(opa, without_predicate(rego, predicate, work / f"rego-{number}"), tests)
        assert set(results) == {fixture.stem for fixture in given}
        alive = sorted(stem for stem, passed in results.items() if passed)
        if alive:
            found[predicate] = alive
    return found
