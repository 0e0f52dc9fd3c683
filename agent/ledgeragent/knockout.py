"""The knock-out: proof that a domain's predicates lean on the evidence they name.

From every vector that is allowed, each path that a guarding predicate lists as evidence is deleted, set to null, given
another type, made stale, and its lists emptied; so is all evidence of one predicate at once. None of it may still be
allowed, and what is only deleted or stale may never be blocked: unknown is not false. Evidence that does not decide in
a vector is not listed there, so there is nothing to exempt but one thing: null, where the ledger schema has it, is a
known absence and not a loss. Where a grant lifts a finding, every binding of the grant is
changed as well, one at a time: none of that may be allowed. A host takes no grant for other facts than the person saw,
so that what such a predicate decided on is given another type without the grants.

It asks the `opa` command line, since it needs the value of `evidence`, which no engine gives.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ledgeragent.domain import LedgerSchema, Validator
from ledgeragent.errors import BadInput
from ledgeragent.jsonio import parse
from ledgeragent.opacli import evaluate
from ledgeragent.policies import check_name

Keys = tuple[str, ...]

_OTHER_TYPES: Final[tuple[Any, ...]] = (True, 7, "text", [], ["text"], {}, {"text": {"text": "text"}})
_UNKNOWN: Final = ("deleted", "stale")
_EARLIER: Final = "0001-01-01T00:00:00Z"
_LATER: Final = "9999-12-31T23:59:59Z"
_OTHER_GRANTS: Final[tuple[tuple[str, Any], ...]] = (
    ("kind", "other"),
    ("predicates", ["other.rule"]),
    ("predicates", []),
    ("domain", "other"),
    ("session", "other"),
    ("tool", "other"),
    ("arguments", {"other": 1}),
    ("issued", _LATER),
    ("expires", {"session": _EARLIER, "host": _LATER}),
    ("expires", {"host": _LATER}),
)
"""Field of a grant → a value with which it fits no call."""


@dataclass(frozen=True)
class Case:
    """One knock-out.

    Attributes:
        vector: the name of the allowed vector it was made from.
        predicate: the predicate whose evidence was touched.
        paths: the dotted paths that were touched.
        how: what was done to them.
        input: the gate input to judge.
    """

    vector: str
    predicate: str
    paths: tuple[str, ...]
    how: str
    input: Mapping[str, Any]


@dataclass(frozen=True)
class KnockOut:
    """What the knock-out showed.

    Attributes:
        cases: how many inputs were judged.
        problems: every case that was decided wrongly, as a sentence.
        idle: predicates that list no evidence in any allowed vector; a domain should know why.
    """

    cases: int
    problems: tuple[str, ...]
    idle: frozenset[str]


def knock_out(rego: Path, schemas: Path, domain: str, vectors: Sequence[Mapping[str, Any]], opa: Path) -> KnockOut:
    """Knock out the evidence of a domain's predicates.

    Args:
        rego: the bundle root, with the domain's generated `data.json`.
        schemas: the folder with one folder per domain.
        domain: the domain's name.
        vectors: the domain's vectors, as `schemas/vectors/<domain>.json` has them.
        opa: the `opa` to ask.

    Raises:
        BadInput: no vector is allowed, the policies no longer allow one that should be, or the schema is none.
        EngineEvaluation: OPA's own words when the policies do not compile or fail.
    """
    rule = f"data.ledgeragent.{check_name(domain)}"
    allowed = [one for one in vectors if one["decision"]["verdict"] == "allow"]
    if not allowed:
        raise BadInput(f"the vectors of {domain} hold no allowed input to knock evidence out of")
    predicates = sorted({one for vector in allowed for one in vector["decision"].get("predicates", ())})
    packages = ", ".join(f'"{one}": data.ledgeragent.{one}' for one in predicates)
    guarding = f"{{id: own.evidence | some id, own in {{{packages}}}; id in object.keys({rule}.predicates)}}"
    granted = f"{{one.predicate: one.grant | some one in {rule}.proof.obligations; one.grant != null}}"
    listed = evaluate(opa, rego, f"[{rule}.proof.verdict, {guarding}, {granted}]", [one["input"] for one in allowed])
    for vector, answer in zip(allowed, listed, strict=True):
        if answer is None or answer[0] != "allow":
            raise BadInput(f"vector {vector['name']!r} should be allowed and is not: prove the vectors first")
    evidence = [answer[1] for answer in listed]
    nullable = _nullable(schemas / domain / "ledger.schema.json")
    cases = [
        case
        for vector, found, answer in zip(allowed, evidence, listed, strict=True)
        for case in knocked(vector["name"], vector, found, nullable, answer[2])
    ]
    verdicts = evaluate(opa, rego, f"{rule}.proof.verdict", [case.input for case in cases])
    problems = tuple(
        problem for case, verdict in zip(cases, verdicts, strict=True) for problem in _problems(case, verdict)
    )
    active = {predicate for found in evidence for predicate, paths in found.items() if paths}
    return KnockOut(len(cases), problems, frozenset({name for found in evidence for name in found} - active))


def _nullable(file: Path) -> Callable[[Keys], bool]:
    schema = LedgerSchema(parse(file.read_text(encoding="utf-8"), what=str(file)))

    def nullable(path: Keys) -> bool:
        node = schema.at(path)
        return node is not None and bool(Validator({**node, "$defs": schema.document.get("$defs", {})}).is_valid(None))

    return nullable


def knocked(
    name: str,
    vector: Mapping[str, Any],
    evidence: Mapping[str, Sequence[Sequence[str]]],
    nullable: Callable[[Keys], bool],
    lifted: Mapping[str, str] | None = None,
) -> Iterator[Case]:
    """Every knock-out of one vector.

    Args:
        name: the vector's name.
        vector: the vector; only its `input` is used, and not changed.
        evidence: predicate id → the paths it lists for this input.
        nullable: whether the fact under a path may be null: it is then not knocked out that way.
        lifted: predicate id → the id of the grant that lifts its finding.
    """
    given = vector["input"]
    lifted = lifted or {}
    for predicate, grant in lifted.items():
        for field, changed in _without_consent(given, grant):
            yield Case(name, predicate, (f"the grant's {field}",), "changed", changed)
    for predicate, listed in evidence.items():
        paths = [tuple(path) for path in listed]
        for path in paths:
            for how, changed in _changed(given, path, nullable):
                if predicate not in lifted or how in _UNKNOWN:
                    yield Case(name, predicate, (".".join(path),), how, changed)
                elif not how.startswith("emptied"):  # it did not hold for what was in the list
                    yield Case(name, predicate, (".".join(path),), how, {**changed, "grants": []})
        if len(paths) > 1:
            dotted = tuple(".".join(path) for path in paths)
            yield Case(name, predicate, dotted, "deleted", _without(given, paths))
            yield Case(name, predicate, dotted, "stale", _stale(given, paths))


def _changed(
    given: Mapping[str, Any], path: Keys, nullable: Callable[[Keys], bool]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield "deleted", _without(given, [path])
    yield "stale", _stale(given, [path])
    holder = _holder(given["ledger"], path)
    if holder is None:
        return
    value = holder[path[-1]]
    if not nullable(path):
        yield "null", _with(given, path, None)
    for other in _OTHER_TYPES:
        if type(other) is not type(value) and not (isinstance(other, int) and isinstance(value, float)):
            yield f"replaced by {other!r}", _with(given, path, other)
    for inner in _lists(value):
        yield f"emptied at {'.'.join(map(str, inner)) or 'itself'}", _with(given, (*path, *inner), [])


def _without_consent(given: Mapping[str, Any], grant: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The input with the grant gone, and with each field of it such that it fits no call any more."""
    others = [one for one in given["grants"] if one["id"] != grant]
    own = next(one for one in given["grants"] if one["id"] == grant)
    yield "existence", {**given, "grants": others}
    principal = (given["session"]["principal"] or {}).get("id", "")
    stranger = ("approver", principal if own["kind"] == "approval" else f"not {principal}")
    mistyped = [(field, other) for field in own for other in _OTHER_TYPES if type(other) is not type(own[field])]
    for field, value in (*_OTHER_GRANTS, stranger, *mistyped):
        yield field, {**given, "grants": [*others, {**own, field: value}]}


def _problems(case: Case, verdict: Any) -> Iterator[str]:
    what = f"vector {case.vector!r}: with {', '.join(case.paths)} {case.how}"
    if verdict not in ("allow", "revise", "block"):
        yield f"{what} there is no decision"
    elif verdict == "allow":
        yield f"{what} the call is still allowed, though {case.predicate} lists it as evidence"
    elif verdict == "block" and case.how in _UNKNOWN:
        yield f"{what} the call is blocked; {case.predicate} must be unknown there"


def _holder(ledger: Any, path: Sequence[Any]) -> Any:
    """What holds the last key of the path, if it is there."""
    for key in path[:-1]:
        ledger = ledger.get(key) if isinstance(ledger, Mapping) else None
    return ledger if isinstance(ledger, Mapping) and path[-1] in ledger else None


def _without(given: Mapping[str, Any], paths: Sequence[Keys]) -> dict[str, Any]:
    copied = copy.deepcopy(dict(given))
    for path in paths:
        holder = _holder(copied["ledger"], path)
        if holder is not None:
            del holder[path[-1]]
    return copied


def _stale(given: Mapping[str, Any], paths: Sequence[Keys]) -> dict[str, Any]:
    copied = _without(given, paths)
    copied["stale"] += [list(path) for path in paths if list(path) not in copied["stale"]]
    return copied


def _with(given: Mapping[str, Any], path: Sequence[Any], value: Any) -> dict[str, Any]:
    copied = copy.deepcopy(dict(given))
    node = copied["ledger"]
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = value
    return copied


def _lists(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where in a value lists with members stand."""
    if isinstance(value, list) and value:
        yield above
    inner = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield from _lists(one, (*above, key))
