"""Why a decision was what it was: the call, the facts, every predicate's outcome, and what an allow would take.

Everything is taken from the record and from the policies it names. Where these are at hand the call is judged again;
with an `opa`, the deciding lines are those that it went through (`deciding`). Of a redacted record only what it shows
is told. Finding records and policies is the caller's part, printing `cli_why`'s.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from ledgeragent.approval import consents, wanting
from ledgeragent.catalogue import package_metadata
from ledgeragent.contracts import DecisionRecord, FactRead, Finding, HistoryEntry, OutcomeRecord, Sibling, WriteTool
from ledgeragent.deciding import Line, Traced, heads, own_line, predicate_file, trace
from ledgeragent.domain import Domain
from ledgeragent.errors import BadInput, LedgerAgentError
from ledgeragent.feedback import suggested_reads
from ledgeragent.paths import ANY, NOTHING, Pattern, Scope, is_prefix
from ledgeragent.redact import agrees
from ledgeragent.reopen import Reopened, must_be_whole

Status = Literal["holds", "unknown", "violated"]
Known = Literal["known", "missing", "stale"]
Keys = tuple[str, ...]

_LONGEST: Final = 200


@dataclass(frozen=True)
class Fact:
    """A fact that a predicate asked for.

    Attributes:
        path: where it is in the ledger.
        known: `known`, `missing` or `stale`.
        value: what was known, None where nothing was.
        read: where and when its record was read; None when the record does not say.
        stale_by: the writes that may have changed it, as calls.
        used_by: the predicates that asked for it.
    """

    path: Keys
    known: Known
    value: Any
    read: FactRead | None
    stale_by: tuple[str, ...]
    used_by: tuple[str, ...]


@dataclass(frozen=True)
class Outcome:
    """What became of one predicate.

    Attributes:
        predicate: its id.
        status: as recorded.
        verdict: what it asks for, None when it holds.
        mode: `enforce`, `shadow` or `lifted`, None when it holds.
        message: its words, empty when it holds.
        again: the status when it is judged again now; None when it was not.
        lines: the lines of Rego that decided; without a trace, those at which its rules begin.
        steps: the lines that OPA went through.
        needed: what has to be done or true for it to hold.
        lifted: by whose consent its finding is lifted, empty where it is not.
        consent: whose consent would lift it, empty where none would.
    """

    predicate: str
    status: Status
    verdict: str | None
    mode: str | None
    message: str
    again: Status | None
    lines: tuple[Line, ...]
    steps: tuple[Line, ...]
    needed: str
    lifted: str
    consent: str


@dataclass(frozen=True)
class Explanation:
    """Everything about one decision.

    Attributes:
        record: the decision's record.
        became: the records of what became of the call, in order.
        policies: where the policies of the record are, None when they are not at hand.
        facts: what the predicates asked for, sorted by path; without a trace, what those that did not hold asked for.
        others: records of the ledger that the decision could look at and no fact in `facts` is of.
        outcomes: of every predicate, those that did not hold first.
        reads: the reads that would settle what is missing, as calls.
        same: whether judging again gives the recorded decision; None when it was not judged again.
        notes: what could not be told, and why.
    """

    record: DecisionRecord
    became: tuple[OutcomeRecord, ...]
    policies: str | None
    facts: tuple[Fact, ...]
    others: tuple[FactRead, ...]
    outcomes: tuple[Outcome, ...]
    reads: tuple[str, ...]
    same: bool | None
    notes: tuple[str, ...]


def explain(
    record: DecisionRecord, became: Sequence[OutcomeRecord], policies: Reopened | None, opa: Path | None
) -> Explanation:
    """Explain a decision.

    Args:
        record: the decision's record.
        became: the outcome records of its call.
        policies: those that the record names, or None when they are not at hand.
        opa: the `opa` to trace with, or None.
    """
    return _Explaining(record, policies, opa).explained(became)


class _Explaining:
    def __init__(self, record: DecisionRecord, policies: Reopened | None, opa: Path | None) -> None:
        self._record = record
        self._input: dict[str, Any] = record.input.model_dump(mode="json")
        self._policies = policies
        self._notes: list[str] = []
        self._whole = self._is_whole()
        self._findings: Mapping[str, Finding] = (
            {one.predicate: one for one in record.decision.findings} if record.decision is not None else {}
        )
        self._again = self._judged_again()
        self._traced = self._traces(opa)

    def explained(self, became: Sequence[OutcomeRecord]) -> Explanation:
        facts = tuple(sorted(self._facts(), key=lambda one: one.path))
        shown = {tuple(one.read.path) for one in facts if one.read is not None}
        others = tuple(one for one in self._record.facts if tuple(one.path) not in shown)
        domain = self._policies.domain if self._policies is not None else None
        reads = suggested_reads(domain, list(self._findings.values())) if domain is not None else ()
        return Explanation(
            record=self._record,
            became=tuple(became),
            policies=self._policies.source.name if self._policies is not None else None,
            facts=facts,
            others=others,
            outcomes=tuple(self._outcomes()),
            reads=tuple(str(one) for one in reads),
            same=self._same(),
            notes=tuple(self._notes),
        )

    # What can be told

    def _is_whole(self) -> bool:
        try:
            must_be_whole(self._record)
        except BadInput as problem:
            self._notes.append(f"not judged again: {problem}")
            return False
        if self._record.redacted is not None and self._record.redacted.form == "pseudonyms":
            self._notes.append("texts that begin with ~ are stand-ins; what the policies only compare is judged alike")
        return True

    def _judged_again(self) -> Any:
        if self._policies is None:
            self._notes.append("not judged again: the policies that the record names are not at hand")
            return None
        if not self._whole:
            return None
        decision = self._policies.decide(self._input)
        if decision is None:
            self._notes.append("judged again, the policies give no decision")
        return decision

    def _same(self) -> bool | None:
        return agrees(self._record, self._again) if self._again is not None else None

    def _traces(self, opa: Path | None) -> Mapping[str, Traced]:
        rego = self._rego()
        decision = self._record.decision
        if rego is None or not self._whole or decision is None or not decision.predicates:
            return {}
        if opa is None:
            self._notes.append("no opa on PATH: shown are the lines at which rules begin, not those that decided")
            return {}
        try:
            return trace(opa, rego, decision.predicates, self._input)
        except LedgerAgentError as error:
            self._notes.append(f"no trace: {error}")
            return {}

    def _rego(self) -> Path | None:
        if self._policies is None:
            return None
        return self._policies.source.policies if self._policies.source.policies.is_dir() else None

    # Predicates

    def _outcomes(self) -> Iterator[Outcome]:
        judged = self._record.decision.predicates if self._record.decision is not None else []
        for name in [*self._findings, *(one for one in judged if one not in self._findings)]:
            yield self._outcome(name)

    def _outcome(self, name: str) -> Outcome:
        finding = self._findings.get(name)
        traced = self._traced.get(name)
        return Outcome(
            predicate=name,
            status=finding.status if finding is not None else "holds",
            verdict=finding.verdict if finding is not None else None,
            mode=finding.mode if finding is not None else None,
            message=finding.message if finding is not None else "",
            again=self._status_again(name),
            lines=traced.lines if traced is not None else self._where(name),
            steps=traced.steps if traced is not None else (),
            needed=self._needed(name) if finding is not None else "",
            lifted=consents(self._record.decision, self._input["grants"]).get(name, ""),
            consent=wanting(self._record.decision).get(name, ""),
        )

    def _status_again(self, name: str) -> Status | None:
        if self._again is None:
            return None
        found: dict[str, Status] = {one.predicate: one.status for one in self._again.findings}
        return found.get(name, "holds")

    def _where(self, name: str) -> tuple[Line, ...]:
        rego = self._rego()
        if rego is None:
            return ()
        return own_line(rego, name) if name.startswith("gate.") else heads(rego, name)

    def _needed(self, name: str) -> str:
        """The remedy, in the words of the predicate's author."""
        if name.startswith("gate."):
            return _OWN.get(name, "")
        rego = self._rego()
        if rego is None:
            return ""
        try:
            return str(package_metadata(predicate_file(rego, name)).get("custom", {}).get("remedy", ""))
        except BadInput:
            return ""

    # Facts

    def _facts(self) -> Iterator[Fact]:
        users: dict[Keys, list[str]] = {}
        for name, finding in self._findings.items():
            for path in finding.paths:
                users.setdefault(tuple(path), []).append(name)
        for name, traced in self._traced.items():
            for keys in traced.evidence:
                if name not in users.setdefault(keys, []):
                    users[keys].append(name)
        causes: dict[Keys, Known] = {
            tuple(fact.path): fact.cause for one in self._findings.values() for fact in one.missing
        }
        for keys, names in users.items():
            value = _at(self._input["ledger"], keys)
            stale = any(is_prefix(tuple(one), keys) for one in self._input["stale"])
            # A fact that is not there and that nobody misses is a known absence.
            known: Known = causes.get(keys, "stale" if stale else "known")
            yield Fact(
                path=keys,
                known=known,
                value=None if value is NOTHING else value,
                read=self._read(keys),
                stale_by=tuple(self._changed_by(keys)) if known == "stale" else (),
                used_by=tuple(sorted(names)),
            )

    def _read(self, path: Keys) -> FactRead | None:
        return next((one for one in self._record.facts if is_prefix(tuple(one.path), path)), None)

    def _changed_by(self, path: Keys) -> Iterator[str]:
        if self._policies is None:
            return
        principal = self._record.input.session.principal
        writes: list[HistoryEntry | Sibling] = [*self._record.input.history, *self._record.input.siblings]
        for write in writes:
            if _changes(self._policies.domain, write, path, principal.id if principal is not None else None):
                outcome = write.outcome if isinstance(write, HistoryEntry) else "admitted in the same message"
                yield f"{call_text(write.tool, write.arguments)}, {outcome}"


_OWN: Final[Mapping[str, str]] = {
    "gate.input": "The host must send a request that fits its contract (schemas/gate_input.schema.json).",
    "gate.tool": "Declare the tool in tools.json, or do not offer it to the model.",
    "gate.arguments": "The arguments must fit the tool's parameters in tools.json.",
    "gate.unguarded": "Policies and generated data must be of one compilation (`make compile`).",
    "gate.loop": "The ledger must change first: mend what the other findings say before the call is sent again.",
    "gate.frozen": "The freeze must be lifted by its owner.",
    "gate.floor": "The policies must have what the organisation demands for this tool.",
}


def _changes(domain: Domain, write: HistoryEntry | Sibling, path: Keys, principal: str | None) -> bool:
    if not isinstance(domain.tools.get(write.tool), WriteTool):
        return False
    scope = Scope({"arguments": write.arguments}, principal)
    for template in domain.changes[write.tool]:
        for pattern in template.fill_widely(scope):
            whole = pattern[:-1] if pattern[-1] == "?" else pattern
            if is_prefix(whole, path) or _lies_above(path, whole):
                return True
    return False


def _lies_above(path: Keys, pattern: Pattern) -> bool:
    return len(path) <= len(pattern) and all(own is ANY or own == key for own, key in zip(pattern, path, strict=False))


def _at(ledger: Any, path: Keys) -> Any:
    for key in path:
        if not isinstance(ledger, Mapping) or key not in ledger:
            return NOTHING
        ledger = ledger[key]
    return ledger


def call_text(tool: str, arguments: Any) -> str:
    """A call in one line, whole."""
    if not isinstance(arguments, Mapping):
        return f"{tool}({_short(arguments)})"
    return f"{tool}({', '.join(f'{key}={_short(value)}' for key, value in arguments.items())})"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
