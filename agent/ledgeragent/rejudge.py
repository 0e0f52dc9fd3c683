"""Judging records again, offline, with the policies that each names and the policy data that it was made under.

Policies are found by `policysource`: those given first, then the shipped ones, then what git holds. A decision shows
that overrides, a floor or a freeze took part; what they were is no part of the record, so they have to be given, and
where a difference can come of their lack that is said instead.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import RootModel, ValidationError

from ledgeragent.contracts import Decision, DecisionRecord, FloorFile, FreezeFile, OverridesFile
from ledgeragent.domain import Domain
from ledgeragent.engine import Engine, open_engine
from ledgeragent.errors import BadInput, LedgerAgentError
from ledgeragent.gate import Judged, Rehearsal
from ledgeragent.policydata import read
from ledgeragent.policysource import PolicySource, PolicySources
from ledgeragent.redact import agrees

KINDS: Final[Mapping[str, type[RootModel[Any]]]] = {
    "overrides": OverridesFile,
    "floor": FloorFile,
    "freeze": FreezeFile,
}
"""Kinds of policy data that a decision can be made under."""

_ENDS: Final = {"floor": "gate.floor", "freeze": "gate.frozen"}
_Chosen = tuple[int | None, ...]


@dataclass(frozen=True)
class Again:
    """What came of judging a record again.

    Attributes:
        result: `same`, `differs`, `unclear` (it differs, and what is lacking can be why), or `failed` (it could not be
            judged).
        said: what is different, unclear or lacking, without a value of the record.
        decision: what the policies say now, where they said anything.
    """

    result: Literal["same", "differs", "unclear", "failed"]
    said: str = ""
    decision: Decision | None = None


class Rejudge:
    """Judges records again; owns the engines it needs, one per policies and policy data. Not thread-safe."""

    def __init__(
        self,
        engine: str = "embedded",
        *,
        policies: Sequence[str] = (),
        schemas: Path | None = None,
        repository: Path | None = None,
        data: Mapping[str, Sequence[Path]] | None = None,
    ) -> None:
        """Find the given policies and read the given policy data; no engine is opened yet.

        Args:
            engine: `embedded` or `opa`.
            policies: names as `PolicySources.find` takes them, looked at first.
            schemas: the schemas to use instead of those beside the policies.
            repository: a folder of the git repository to look into; default: the working folder.
            data: by kind (`overrides`, `floor`, `freeze`) the files there were; which of several applies is told by
                their sequence numbers.

        Raises:
            BadInput: when there are no such policies, or a file cannot be read.
        """
        self._engine = engine
        self._data = {kind: [_content(path, KINDS[kind]) for path in (data or {}).get(kind, ())] for kind in KINDS}
        self._sources = PolicySources(schemas=schemas, repository=repository)
        self._given = tuple(self._sources.find(name) for name in policies)
        self._found: dict[tuple[str, str], PolicySource | str] = {}
        self._opened: dict[tuple[PolicySource, _Chosen], Engine] = {}
        self._asked: dict[tuple[PolicySource, _Chosen, str], Rehearsal] = {}

    def close(self) -> None:
        """Close the engines and remove what was written."""
        for engine in self._opened.values():
            engine.close()
        self._opened.clear()
        self._asked.clear()
        self._sources.close()

    def again(self, record: DecisionRecord) -> Again:
        """Judge a record again and compare.

        Args:
            record: one with a decision; encrypted ones are to be opened before.
        """
        recorded = record.decision
        assert recorded is not None
        try:
            source = self._source(record)
            judged = self._ask(source, record, self._chosen(record, _shown_kinds(recorded)))
            if judged.decision is not None and not agrees(record, judged.decision):
                # Data without a number leaves no trace where it did not decide.
                judged = self._better(judged, self._ask(source, record, self._chosen(record, set(KINDS))), record)
        except LedgerAgentError as error:
            return Again("failed", str(error).splitlines()[0])
        if judged.decision is None:
            assert judged.failure is not None
            return Again("failed", f"{judged.failure.code}: {judged.failure.message}")
        return self._compared(record, judged.decision)

    @staticmethod
    def _better(first: Judged, second: Judged, record: DecisionRecord) -> Judged:
        return second if second.decision is not None and agrees(record, second.decision) else first

    def _compared(self, record: DecisionRecord, decision: Decision) -> Again:
        recorded = record.decision
        assert recorded is not None
        if agrees(record, decision):
            return Again("same", decision=decision)
        said = difference(recorded, decision)
        lacking = list(self._lacking(recorded, decision))
        if lacking:
            return Again("unclear", f"{said}; it was made under {', '.join(lacking)}", decision)
        if record.redacted is not None and record.redacted.judged_again == "by_equality":
            return Again("unclear", f"{said}; stand-ins were judged, which a rule can tell from texts", decision)
        return Again("differs", said, decision)

    # Policies ---------------------------------------------------------------------------------------------------

    def _source(self, record: DecisionRecord) -> PolicySource:
        assert record.decision is not None
        named = (record.decision.policy.revision, record.decision.policy.gate)
        if named not in self._found:
            self._found[named] = self._look_for(named, record)
        found = self._found[named]
        if isinstance(found, str):
            raise BadInput(found)
        return found

    def _look_for(self, named: tuple[str, str], record: DecisionRecord) -> PolicySource | str:
        for source in self._given:
            if source.policies.is_file() and self._decides_with(source, record) == named:
                return source
        try:
            return self._sources.of_revision(*named, among=self._given)
        except BadInput as error:
            return str(error)

    def _decides_with(self, bundle: PolicySource, record: DecisionRecord) -> tuple[str, str] | None:
        """What a bundle file holds is told by its decisions only."""
        try:
            said = self._ask(bundle, record, (None,) * len(KINDS)).decision
        except LedgerAgentError:
            return None
        return (said.policy.revision, said.policy.gate) if said is not None else None

    def _ask(self, source: PolicySource, record: DecisionRecord, chosen: _Chosen) -> Judged:
        name = record.input.domain
        key = (source, chosen, name)
        if key not in self._asked:
            domain = Domain.load(name, schemas=source.schemas, rego=None)
            self._asked[key] = Rehearsal(domain, self._open(source, chosen))
        return self._asked[key].judge(record.input.model_dump(mode="json"))

    def _open(self, source: PolicySource, chosen: _Chosen) -> Engine:
        key = (source, chosen)
        if key not in self._opened:
            under: dict[str, Any] = {
                kind: self._data[kind][at] for kind, at in zip(KINDS, chosen, strict=True) if at is not None
            }
            self._opened[key] = open_engine(self._engine, policies=source.policies, schemas=source.schemas, **under)
        return self._opened[key]

    # Policy data ------------------------------------------------------------------------------------------------

    def _chosen(self, record: DecisionRecord, kinds: set[str]) -> _Chosen:
        """Which version of each kind to judge under: the one with the recorded number, else the last."""
        assert record.decision is not None
        shown = record.decision.policy.sequence
        return tuple(
            self._version(kind, record.input.domain, getattr(shown, kind)) if kind in kinds else None for kind in KINDS
        )

    def _version(self, kind: str, domain: str, number: int) -> int | None:
        versions = self._data[kind]
        numbered = [at for at, one in enumerate(versions) if one.get(domain, {}).get("sequence", 0) == number]
        return numbered[-1] if numbered else len(versions) - 1 if versions else None

    def _lacking(self, recorded: Decision, decision: Decision) -> Iterator[str]:
        """The policy data that a decision was made under and that is not at hand."""
        for kind in KINDS:
            number = getattr(recorded.policy.sequence, kind)
            own = f"{kind} {number}" if number else f"{kind} without a number"
            if kind in _shown_kinds(recorded) and not self._data[kind]:
                yield f"{own}, not given (--{kind} FILE)"
            elif number != (given := getattr(decision.policy.sequence, kind)):
                yield f"{own}, and {'number ' + str(given) if given else 'none with a number'} is given"
        if any(not one.applied for one in recorded.overrides) and not self._data["floor"]:
            yield "a floor perhaps, not given (--floor FILE): an override was not applied"


def difference(recorded: Decision, decision: Decision) -> str:
    """What is different between two decisions: verdicts and ids of rules, no values."""
    if recorded.verdict != decision.verdict:
        said = f"recorded {recorded.verdict}, judged again {decision.verdict}"
    else:
        said = f"the same verdict ({recorded.verdict})"
    before, after = _told(recorded), _told(decision)
    gone, come = sorted((before - after).elements()), sorted((after - before).elements())
    parts = [f"{sign} {', '.join(ids)}" for sign, ids in (("no more:", gone), ("now:", come)) if ids]
    return "; ".join([said, *(parts or ["other words, evidence or overrides"])])


def _told(decision: Decision) -> Counter[str]:
    return Counter(f"{one.predicate} ({one.verdict}, {one.status})" for one in decision.findings)


def _shown_kinds(decision: Decision) -> set[str]:
    """The kinds of policy data that a decision shows to have taken part."""
    ids = {one.predicate for one in decision.findings}
    shown = {kind for kind in KINDS if getattr(decision.policy.sequence, kind) or _ENDS.get(kind) in ids}
    return shown | ({"overrides"} if decision.overrides else set())


def _content(path: Path, model: type[RootModel[Any]]) -> dict[str, Any]:
    """A file of policy data as it was in force, whatever has expired or is no longer known since."""

    def problems(document: Any) -> Iterator[str]:
        try:
            model.model_validate_json(json.dumps(document))
        except ValidationError as error:
            yield from (f"{'.'.join(str(part) for part in one['loc'])}: {one['msg']}" for one in error.errors())

    return read(path, problems)
