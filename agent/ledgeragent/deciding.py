"""Which lines of Rego decided: read off OPA's own trace of a predicate, or, without OPA, off its file.

A predicate is the rule `holds` of its package. Of a trace only what happened in the predicate's own file is looked at;
the shared gate and the domain's facts are other people's lines. What the outcome means is `explain`'s business.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from ledgeragent.errors import EngineEvaluation

Event = Mapping[str, Any]

_SECONDS: Final = 60
_HOLDS: Final = "holds"
_HEAD: Final = re.compile(r"^holds\b")
_STEPS: Final = ("Eval", "Fail")


@dataclass(frozen=True)
class Line:
    """A line of a policy.

    Attributes:
        file: relative to the bundle root.
        row: from 1.
        text: what stands there.
        holds: whether it held; None where nothing was evaluated.
        because: the lines of the package's other rules that made it so.
    """

    file: str
    row: int
    text: str
    holds: bool | None
    because: tuple[Line, ...] = ()


@dataclass(frozen=True)
class Traced:
    """What OPA did to judge one predicate.

    Attributes:
        holds: whether it holds.
        evidence: the paths it asks for.
        lines: the lines that decided.
        steps: every line of its file that was evaluated, in order.
    """

    holds: bool
    evidence: tuple[tuple[str, ...], ...]
    lines: tuple[Line, ...]
    steps: tuple[Line, ...]


def predicate_file(rego: Path, predicate: str) -> Path:
    """Where a predicate's rules are."""
    family, _, name = predicate.partition(".")
    return rego / "ledgeragent" / family / name / f"{name}.rego"


def heads(rego: Path, predicate: str) -> tuple[Line, ...]:
    """The lines at which a predicate's `holds` begin: all that can be said without OPA."""
    file = predicate_file(rego, predicate)
    if not file.is_file():
        return ()
    rows = enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
    return tuple(Line(_name(rego, file), row, text, None) for row, text in rows if _HEAD.match(text))


def own_line(rego: Path, finding: str) -> tuple[Line, ...]:
    """The line of the gate that makes a finding of its own."""
    file = rego / "ledgeragent" / "gate" / "gate.rego"
    if not file.is_file():
        return ()
    for row, text in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        if f'"{finding}"' in text and "_beside" not in text:
            return (Line(_name(rego, file), row, text.strip(), None),)
    return ()


def trace(opa: Path, rego: Path, predicates: Sequence[str], gate_input: Mapping[str, Any]) -> dict[str, Traced]:
    """Have OPA judge predicates and say how.

    Args:
        opa: the `opa` to run.
        rego: a bundle root folder.
        predicates: ids.
        gate_input: what they are judged on.

    Raises:
        EngineEvaluation: when OPA does not evaluate them, in its own words.
    """
    document = json.loads(_run(opa, rego, _query(predicates), gate_input, "--coverage", "--format=json"))
    holding: Mapping[str, list[int]] = document["result"][0]["bindings"]["found"]
    covered = _covered(document["coverage"]["files"])
    evidence = _evidence(opa, rego, predicates, gate_input)
    found = {}
    for predicate in predicates:
        holds = bool(holding[predicate])
        began = [line for line in heads(rego, predicate) if (predicate_file(rego, predicate), line.row) in covered]
        if holds and len(began) == 1:
            found[predicate] = Traced(holds, evidence[predicate], (replace(began[0], holds=True),), ())
        else:
            found[predicate] = Traced(holds, evidence[predicate], *_read(opa, rego, predicate, gate_input, holds))
    return found


def _read(
    opa: Path, rego: Path, predicate: str, gate_input: Mapping[str, Any], holds: bool
) -> tuple[tuple[Line, ...], tuple[Line, ...]]:
    """The lines that decided and the steps; where OPA's trace is too long to be had, the lines it begins at."""
    try:
        text = _run(opa, rego, _query([predicate]), gate_input, "--explain=full", "--format=json")
    except EngineEvaluation:
        return heads(rego, predicate), ()
    file = predicate_file(rego, predicate)
    events = [one for one in json.loads(text)["explanation"] if (one.get("Location") or {}).get("file") == str(file)]
    reading = _Reading(rego, file, events, f"data.ledgeragent.{predicate}")
    return tuple(reading.decided(holds)), tuple(reading.steps())


def _covered(files: Mapping[str, Any]) -> set[tuple[Path, int]]:
    return {
        (Path(file), row)
        for file, report in files.items()
        for part in report.get("covered", ())
        for row in range(part["start"]["row"], part["end"]["row"] + 1)
    }


def _query(predicates: Sequence[str]) -> str:
    asked = ", ".join(f'"{one}": [1 | data.ledgeragent.{one}.holds == true]' for one in predicates)
    return f"found := {{{asked}}}"


def whole_trace(opa: Path, rego: Path, predicates: Sequence[str], gate_input: Mapping[str, Any]) -> str:
    """OPA's whole trace of predicates, as OPA prints it.

    Raises:
        EngineEvaluation: when OPA does not evaluate them, in its own words.
    """
    return _run(opa, rego, _query(predicates), gate_input, "--explain=full", "--format=pretty")


def _evidence(
    opa: Path, rego: Path, predicates: Sequence[str], gate_input: Mapping[str, Any]
) -> dict[str, tuple[tuple[str, ...], ...]]:
    asked = ", ".join(f'"{one}": [path | some path in data.ledgeragent.{one}.evidence]' for one in predicates)
    document = json.loads(_run(opa, rego, f"found := {{{asked}}}", gate_input, "--format=json"))
    found: Mapping[str, list[list[str]]] = document["result"][0]["bindings"]["found"]
    return {name: tuple(sorted(tuple(map(str, path)) for path in paths)) for name, paths in found.items()}


def _run(opa: Path, rego: Path, query: str, gate_input: Mapping[str, Any], *options: str) -> str:
    command = [str(opa), "eval", "--bundle", str(rego), "--ignore", "*_test.rego", "--stdin-input"]
    # An index would pass over the very condition that decided.
    command += ["--disable-indexing", "--disable-early-exit", *options, query]
    try:
        done = subprocess.run(
            command, input=json.dumps(gate_input), capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EngineEvaluation(f"opa eval: {type(error).__name__}") from None
    if done.returncode != 0:
        raise EngineEvaluation(f"opa eval: {(done.stderr or done.stdout).strip()[:2000]}")
    return done.stdout


@dataclass
class _Clause:
    """One evaluation of one rule: where it begins, whether it came to its end, where it failed."""

    row: int
    query: int
    ended: bool = False
    failed: list[Event] = field(default_factory=list)


class _Reading:
    """The events of one file."""

    def __init__(self, rego: Path, file: Path, events: Iterable[Event], package: str) -> None:
        self._package = package
        self._file = _name(rego, file)
        self._text = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
        self._events = list(events)
        self._clauses = self._read_clauses()

    def decided(self, holds: bool) -> Iterator[Line]:
        """The lines that made `holds` what it is."""
        yield from self._why(_HOLDS, holds, frozenset())

    def steps(self) -> Iterator[Line]:
        """The lines that were evaluated; one that failed once and held once is shown for each."""
        seen = set()
        failed = {(event["QueryID"], _row(event)) for event in self._events if event["Op"] == "Fail"}
        for event in self._events:
            if event["Op"] not in _STEPS or not self._is_own_step(event):
                continue
            step = (_row(event), (event["QueryID"], _row(event)) not in failed)
            if step not in seen:
                seen.add(step)
                yield self._line(step[0], step[1])

    def _is_own_step(self, event: Event) -> bool:
        node = event["Node"]
        return isinstance(node, Mapping) and "terms" in node and node["terms"] != {"type": "boolean", "value": True}

    def _read_clauses(self) -> dict[str, list[_Clause]]:
        found: dict[str, list[_Clause]] = {}
        by_query: dict[int, _Clause] = {}
        for event in self._events:
            node = event["Node"]
            if event["Op"] == "Enter" and isinstance(node, Mapping) and "head" in node:
                clause = _Clause(_row(event), event["QueryID"])
                by_query[clause.query] = clause
                found.setdefault(_rule_name(node["head"]), []).append(clause)
            known = by_query.get(event["QueryID"])
            if known is not None and event["Op"] == "Exit":
                known.ended = True
            if known is not None and event["Op"] == "Fail":
                known.failed.append(event)
        return found

    def _why(self, rule: str, holds: bool, above: frozenset[str]) -> Iterator[Line]:
        for clause in self._clauses.get(rule, ()):
            if holds and clause.ended:
                yield self._line(clause.row, True)
            elif not holds and clause.failed:
                yield self._failure(clause, above | {rule})

    def _failure(self, clause: _Clause, above: frozenset[str]) -> Line:
        """Where a body failed: what came furthest, where `some` tried several."""
        event = max(clause.failed, key=_row)
        negated = bool(event["Node"].get("negated"))
        because = [
            line
            for rule in _rules_named(event["Node"], self._package)
            if rule in self._clauses and rule not in above
            for line in self._why(rule, negated, above)
        ]
        return self._line(_row(event), False, _distinct(because))

    def _line(self, row: int, holds: bool, because: tuple[Line, ...] = ()) -> Line:
        text = self._text[row - 1].strip() if 0 < row <= len(self._text) else ""
        return Line(self._file, row, text, holds, because)


def _distinct(lines: Iterable[Line]) -> tuple[Line, ...]:
    return tuple(dict.fromkeys(lines))


def _row(event: Event) -> int:
    return int(event["Location"]["row"])


def _rule_name(head: Mapping[str, Any]) -> str:
    return str(head.get("name") or head["ref"][0]["value"])


def _rules_named(node: Any, package: str) -> Iterator[str]:
    """Names of the package's own rules that an expression refers to."""
    if isinstance(node, list):
        for one in node:
            yield from _rules_named(one, package)
    elif isinstance(node, Mapping):
        value = node.get("value")
        if node.get("type") == "ref" and isinstance(value, list):
            names = [str(part["value"]) for part in value if part["type"] in ("var", "string")]
            depth = package.count(".") + 1
            if ".".join(names[:depth]) == package and len(names) > depth:
                yield names[depth]
        for one in node.values():
            yield from _rules_named(one, package)


def _name(rego: Path, file: Path) -> str:
    return file.relative_to(rego).as_posix()
