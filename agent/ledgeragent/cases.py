"""Vectors from what a person states.

A vectors file proves an engine before it is used, so it holds whole gate inputs and whole decisions; nobody should
write those by hand. A cases file says what matters: shared facts, and for each case the call, what differs, and the
verdict and findings it must get. The policies fill in the rest, and a decision that is not as stated is an error.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import Field, ValidationError

from ledgeragent.approval import facts_digest
from ledgeragent.contracts import (
    GATE_INPUT,
    Consent,
    Contract,
    Count,
    DomainName,
    HistoryEntry,
    Instant,
    Name,
    Sibling,
    Verdict,
)
from ledgeragent.contracts import (
    Path as Keys,
)
from ledgeragent.domain import Domain
from ledgeragent.errors import BadInput, LedgerError
from ledgeragent.gate import VECTORS
from ledgeragent.jsonio import parse
from ledgeragent.ledger import Ledger
from ledgeragent.opacli import evaluate
from ledgeragent.paths import Scope

CASES: Final = "ledgeragent.cases/1"
_IN_FORCE: Final = timedelta(minutes=15)


class Somebody(Contract):
    """Whom the host authenticated."""

    id: Name
    claims: dict[str, Any] = Field(default_factory=dict)


class Consented(Contract):
    """A grant for the case's call, made out as it must be."""

    kind: Consent
    by: Name
    predicates: list[Name]


class Change(Contract):
    """Another value at a path of the ledger."""

    path: Keys
    value: Any


class Given(Contract):
    """What all cases share."""

    now: Instant
    principal: Somebody | None
    ledger: dict[str, Any]


class Case(Contract):
    """One call, what differs from the shared facts, and what the gate must say to it."""

    name: Name
    tool: Name
    arguments: dict[str, Any]
    verdict: Verdict
    findings: list[tuple[Name, Literal["violated", "unknown"]]] = Field(default_factory=list)
    """(predicate, status), in the order of the decision; what a consent lifts is there as well."""
    now: Instant | None = None
    principal: Somebody | Literal["nobody"] | None = None
    """Somebody else is signed in, or nobody."""
    change: list[Change] = Field(default_factory=list)
    forget: list[Keys] = Field(default_factory=list)
    """Records that were not read."""
    stale: list[Keys] = Field(default_factory=list)
    history: list[HistoryEntry] = Field(default_factory=list)
    siblings: list[Sibling] = Field(default_factory=list)
    rejections: Count = 0
    consents: list[Consented] = Field(default_factory=list)


class CasesFile(Contract):
    """`schemas/vectors/<domain>.cases.json`."""

    contract: Literal["ledgeragent.cases/1"]
    domain: DomainName
    given: Given
    cases: list[Case]


def cases_path(schemas: Path, domain: str) -> Path:
    """Where a domain's cases are."""
    return schemas / "vectors" / f"{domain}.cases.json"


def load_cases(path: Path, domain: str) -> CasesFile:
    """Read a cases file.

    Raises:
        BadInput: with every place that is not as the contract has it.
    """
    try:
        document = parse(path.read_text(encoding="utf-8"), what=str(path), limit=10_000_000)
        file = CasesFile.model_validate_json(json.dumps(document))
    except (OSError, UnicodeError) as error:
        raise BadInput(f"{path}: cannot be read: {error}") from None
    except ValidationError as error:
        found = [f"{path}: {'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]
        raise BadInput("\n".join(found)) from None
    if file.domain != domain:
        raise BadInput(f"{path}: domain is {file.domain!r}, the file is that of {domain!r}")
    return file


def gate_input(given: Given, case: Case, domain: Domain) -> dict[str, Any]:
    """The gate input of a case, with the slice of the ledger that a host would send.

    Raises:
        BadInput: when its facts are none.
    """
    principal = None if case.principal == "nobody" else case.principal or given.principal
    scope = Scope({"arguments": case.arguments}, principal.id if principal is not None else None)
    try:
        ledger = Ledger.of(domain, _facts(given.ledger, case), [tuple(path) for path in case.stale])
        cut = ledger.slice(domain.needs.get(case.tool, ()), scope)
    except (LedgerError, BadInput, KeyError, TypeError) as error:
        raise BadInput(f"case {case.name!r}: the facts cannot be those of a ledger: {error}") from None
    asked: dict[str, Any] = {
        "contract": GATE_INPUT,
        "request": "vector",
        "domain": domain.name,
        "session": {
            "id": "vectors",
            "now": case.now or given.now,
            "turn": 1,
            "principal": {**principal.model_dump(), "source": "host"} if principal is not None else None,
            "rejections": case.rejections,
        },
        "action": {"call_id": "call-1", "tool": case.tool, "arguments": case.arguments},
        "ledger": cut.ledger,
        "stale": cut.stale,
        "history": [one.model_dump() for one in case.history],
        "siblings": [one.model_dump() for one in case.siblings],
        "grants": [],
    }
    return {**asked, "grants": [_grant(asked, one, number) for number, one in enumerate(case.consents, 1)]}


def _grant(asked: Mapping[str, Any], consent: Consented, number: int) -> dict[str, Any]:
    now = asked["session"]["now"]
    until = (datetime.fromisoformat(now) + _IN_FORCE).isoformat()
    return {
        "id": f"grant-{number}",
        "kind": consent.kind,
        "predicates": consent.predicates,
        "domain": asked["domain"],
        "session": asked["session"]["id"],
        "tool": asked["action"]["tool"],
        "arguments": copy.deepcopy(asked["action"]["arguments"]),
        "facts": facts_digest(asked),
        "approver": consent.by,
        "issued": now,
        "expires": {"session": until, "host": until},
    }


def _facts(shared: Mapping[str, Any], case: Case) -> dict[str, Any]:
    facts = copy.deepcopy(dict(shared))
    for change in case.change:
        _holder(facts, change.path)[change.path[-1]] = change.value
    for path in case.forget:
        del _holder(facts, path)[path[-1]]
    return facts


def _holder(facts: dict[str, Any], path: Sequence[str]) -> Any:
    node: Any = facts
    for key in path[:-1]:
        node = node[key]
    return node


def vectors(file: CasesFile, domain: Domain, rego: Path, opa: Path) -> dict[str, Any]:
    """The vectors file that the cases stand for.

    Args:
        file: the cases.
        domain: the domain.
        rego: the bundle root, with its generated page and data.
        opa: the `opa` to ask.

    Raises:
        BadInput: with every case that is decided otherwise than stated.
        EngineEvaluation: OPA's own words when the policies do not compile or fail.
    """
    inputs = [gate_input(file.given, case, domain) for case in file.cases]
    decisions = evaluate(opa, rego, f"data.ledgeragent.{domain.name}.proof", inputs)
    rows, problems = [], []
    for case, asked, decision in zip(file.cases, inputs, decisions, strict=True):
        problem = _difference(case, decision)
        problems += [problem] if problem is not None else []
        kept = {key: value for key, value in (decision or {}).items() if key not in ("request", "policy")}
        rows.append({"name": case.name, "input": asked, "decision": kept})
    if problems:
        raise BadInput("\n".join(problems))
    return {"contract": VECTORS, "domain": domain.name, "vectors": rows}


def _difference(case: Case, decision: Any) -> str | None:
    if decision is None:
        return f"case {case.name!r}: there is no decision; is the domain compiled?"
    found = [(one["predicate"], one["status"]) for one in decision["findings"]]
    if (decision["verdict"], found) == (case.verdict, list(case.findings)):
        return None
    decided, stated = _shown(decision["verdict"], found), _shown(case.verdict, case.findings)
    return f"case {case.name!r}: stated {stated}, decided {decided}"


def _shown(verdict: str, findings: Sequence[tuple[str, str]]) -> str:
    return f"{verdict} ({', '.join(f'{predicate} {status}' for predicate, status in findings) or 'no finding'})"
