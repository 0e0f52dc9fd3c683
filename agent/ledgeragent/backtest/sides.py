"""The two sets of policies of a backtest: made ready to be asked, and asked about one line of a file.

Policies that were edited since they were compiled are compiled for the occasion, in a folder of the run's own; nothing
is written where they come from. They are asked by a `Rehearsal`: nobody need have proved them.
"""

from __future__ import annotations

import hashlib
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from ledgeragent.backtest.compare import LOOP, Answer, Told, compared, counted, deciding_facts, value_at
from ledgeragent.compile import Sources, compiled_files, data_texts, encoded, page_texts, write
from ledgeragent.contracts import DecisionRecord, MissingFact, OutcomeRecord
from ledgeragent.conversation import read_conversation
from ledgeragent.domain import Domain
from ledgeragent.engine import Engine, find_opa, open_engine
from ledgeragent.engine.embedded import compiled_module
from ledgeragent.engine.local import opa_version
from ledgeragent.engine.versions import PINNED
from ledgeragent.errors import BadInput, EnginePolicies, LedgerAgentError
from ledgeragent.gate import Gate, Rehearsal
from ledgeragent.masking import Masking
from ledgeragent.paths import PathTemplate, Scope, is_prefix
from ledgeragent.policies import compiled_for, domains, sources_digest
from ledgeragent.policysource import PolicySource, PolicySources
from ledgeragent.records import parse_record
from ledgeragent.replay import Replay, ReplayStep

JSON = dict[str, Any]
RECORDED: Final = "recorded"
"""In place of a set of policies: the decisions as they stand in the records."""

_JUDGED_AGAIN: Final = ("exactly", "by_equality")
Inputs = Literal["records", "conversations"]


@dataclass(frozen=True)
class Job:
    """What every worker of a run needs to know; it can be sent to another process.

    Attributes:
        inputs: what the lines are.
        new, old: the policies, ready to be asked; None as `old` stands for the decisions as recorded.
        engine: "embedded" or "opa".
        domain: of conversations that name none.
        now: clock of conversations that have none.
        deployed: the deployment's overrides, floor and freeze, for both sides.
        everything: whether calls that change without their verdict become rows too.
    """

    inputs: Inputs
    new: PolicySource
    old: PolicySource | None
    engine: str = "embedded"
    domain: str | None = None
    now: str | None = None
    deployed: Mapping[str, Any] = field(default_factory=dict)
    everything: bool = False


def ready(source: PolicySource, engine: str, folder: Path) -> PolicySource:
    """Policies as an engine takes them.

    Args:
        source: a bundle file, or folders; what is generated there may be out of date.
        engine: "embedded" or "opa".
        folder: where to write what must be made anew.

    Raises:
        BadInput: when they would have to be compiled and there is no OPA that can, with what to do.
        LedgerAgentError: when they cannot be loaded or compiled at all.
    """
    if not source.policies.is_dir():
        return source
    try:
        compiled_module(source.policies, source.schemas, compiled_for(source.policies))
        return source
    except EnginePolicies:  # edited since, or never compiled
        pass
    own = Sources.under(folder)
    shutil.copytree(source.policies, own.rego)
    shutil.copytree(source.schemas, own.schemas)
    write(encoded(page_texts(own)))
    write(encoded(data_texts(own)))
    if engine == "embedded":
        opa = find_opa()
        if opa is None or opa_version(opa) != PINNED:
            raise BadInput(
                f"{source.name}: these policies were edited since they were compiled, and there is no opa {PINNED} to "
                "compile them with. Install it (`make opa`), or compile them where there is one (`ledgeragent domain "
                "compile`), or add --engine opa to ask another OPA"
            )
        write(compiled_files(own, opa, PINNED))
    return PolicySource(source.name, own.rego, own.schemas)


def fingerprint(source: PolicySource) -> str:
    """Digest of what a set of policies decides by."""
    if source.policies.is_dir():
        return sources_digest(source.policies, source.schemas)
    return "sha256:" + hashlib.sha256(source.policies.read_bytes()).hexdigest()


def unproved(source: PolicySource, name: str, engine: str) -> str | None:
    """Why policies do not hold their domain's vectors; None when they do."""
    try:
        with ExitStack() as stack:
            opened = open_engine(engine, policies=source.policies, schemas=source.schemas)
            stack.callback(opened.close)
            domain = Domain.load(name, schemas=source.schemas, rego=None)
            Gate(domain, opened, vectors=source.schemas / "vectors" / f"{name}.json").prove()
    except LedgerAgentError as error:
        return str(error)
    return None


class Side:
    """One set of policies: its engine, opened when it is first asked, and its domains."""

    def __init__(self, source: PolicySource, engine: str, deployed: Mapping[str, Any]) -> None:
        self.source = source
        self._spec = engine
        self._deployed = deployed
        self._engine: Engine | None = None
        self._asked: dict[str, Rehearsal] = {}

    def rehearsal(self, name: str, place: str) -> Rehearsal:
        """Asks the policies of a domain.

        Raises:
            BadInput: when they know no such domain.
        """
        if name not in self._asked:
            if name not in domains(self.source.schemas):
                known = ", ".join(domains(self.source.schemas)) or "none"
                raise BadInput(f"{place}: {self.source.name} has no domain {name[:80]!r} (there: {known})")
            self._asked[name] = Rehearsal(Domain.load(name, schemas=self.source.schemas, rego=None), self._open())
        return self._asked[name]

    def _open(self) -> Engine:
        if self._engine is None:
            self._engine = open_engine(
                self._spec, policies=self.source.policies, schemas=self.source.schemas, **self._deployed
            )
        return self._engine

    def close(self) -> None:
        """Close the engine, if it was opened."""
        if self._engine is not None:
            self._engine.close()


@dataclass
class Found:
    """What came of some lines: counts, the rows of calls that changed, and what is wrong with lines."""

    counts: Counter[str] = field(default_factory=Counter)
    rows: list[JSON] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


class Bench:
    """Judges lines with both sides; one per worker."""

    def __init__(self, job: Job) -> None:
        """Open nothing yet."""
        self._job = job
        self._new = Side(job.new, job.engine, job.deployed)
        self._old = Side(job.old, job.engine, job.deployed) if job.old is not None else None
        self._sources = PolicySources()
        self._recording: dict[tuple[str, str], Domain | None] = {}

    def judge(self, name: str, lines: Sequence[tuple[int, str | None]]) -> Found:
        """Judge lines of a file."""
        found = Found()
        line_of = self._conversation if self._job.inputs == "conversations" else self._record
        for number, text in lines:
            place = f"{name} line {number}"
            try:
                if text is None:
                    raise BadInput(f"{place} is too long to be read")
                before = len(found.rows)
                line_of(text, place, found)
                for row in found.rows[before:]:
                    row.update(file=name, line=number)
            except BadInput as error:
                found.counts["skipped"] += 1
                found.problems.append(str(error))
        return found

    def close(self) -> None:
        """Close both engines."""
        for side in (self._new, self._old):
            if side is not None:
                side.close()
        self._sources.close()

    # Conversations ----------------------------------------------------------------------------------------------

    def _conversation(self, text: str, place: str, found: Found) -> None:
        assert self._old is not None
        conversation = read_conversation(text, place=place)
        name = conversation.domain or self._job.domain
        if name is None:
            raise BadInput(f"{place} names no domain; add --domain")
        sides = [side.rehearsal(name, place) for side in (self._old, self._new)]
        runs = [Replay(conversation, rehearsal, now=self._job.now) for rehearsal in sides]
        found.counts["conversations"] += 1
        position: Counter[int] = Counter()
        for old, new in zip(*(run.steps() for run in runs), strict=True):
            at = position[new.call.index]
            position[new.call.index] += 1
            if old.judged is None and new.judged is None:
                continue
            where = {"conversation": conversation.id, "index": new.call.index, "position": at}
            call = {"call_id": new.call.call_id, "tool": new.call.tool, "executed": _executed(old, new)}
            answers = [Answer.of_review(step.judged.review if step.judged else None) for step in (old, new)]
            self._pair(answers[0], answers[1], sides[1].domain, {**where, **call}, found)

    # Records ----------------------------------------------------------------------------------------------------

    def _record(self, text: str, place: str, found: Found) -> None:
        record = parse_record(text, place=place)
        if isinstance(record, OutcomeRecord):
            found.counts["outcomes"] += 1
            return
        why = self._incomparable(record)
        if why is not None:
            found.counts[f"incomparable|{why}"] += 1
            return
        asked = record.input.model_dump(mode="json")
        rehearsal = self._new.rehearsal(record.input.domain, place)
        new = Answer.of_judged(rehearsal.judge(asked), asked)
        old = self._recorded(record, asked, place)
        if self._old is None and record.decision is not None and any(one.applied for one in record.decision.overrides):
            found.counts["overridden"] += 1
        if self._old is None:
            found.counts[f"revision|{record.input.domain}|{record.revision}"] += 1
        where = {"session": record.session, "request": record.input.request, "at": record.at}
        call = {"call_id": record.call_id, "tool": record.input.action.tool, "executed": None}
        words = record.redacted is None
        self._pair(old, new, rehearsal.domain, {**where, **call}, found, words, lambda one: self._told(record, one))

    def _incomparable(self, record: DecisionRecord) -> str | None:
        if record.redacted is not None and record.redacted.judged_again not in _JUDGED_AGAIN:
            return f"{record.redacted.form}: judged again {record.redacted.judged_again.replace('_', ' ')}"
        if self._old is None and record.decision is None:
            return f"no decision was recorded ({record.error})"
        return None

    def _recorded(self, record: DecisionRecord, asked: JSON, place: str) -> Answer:
        if self._old is not None:
            return Answer.of_judged(self._old.rehearsal(record.input.domain, place).judge(asked), asked)
        return Answer(record.verdict, record.decision, record.error, asked)

    def _told(self, record: DecisionRecord, fact: MissingFact) -> bool:
        """Whether a record would show a fact if the session had it: the policies it was made with asked for it."""
        domain = self._made_with(record)
        if domain is None:
            return False
        asked = record.input
        principal = asked.session.principal
        scope = Scope(
            {"arguments": asked.action.arguments},
            principal.id if principal is not None else None,
            lambda path: value_at(asked.ledger, path),
        )
        return any(_covers(template, scope, tuple(fact.path)) for template in domain.needs.get(asked.action.tool, ()))

    def _made_with(self, record: DecisionRecord) -> Domain | None:
        key = (record.input.domain, record.revision)
        if key not in self._recording:
            self._recording[key] = self._find(record)
        return self._recording[key]

    def _find(self, record: DecisionRecord) -> Domain | None:
        given = tuple(side.source for side in (self._old, self._new) if side is not None)
        source: PolicySource | None = self._old.source if self._old is not None else None
        with suppress(BadInput):
            source = self._sources.of_revision(record.revision or "none", among=given)
        if source is None or record.input.domain not in domains(source.schemas):
            return None
        return Domain.load(record.input.domain, schemas=source.schemas, rego=None)

    # Both -------------------------------------------------------------------------------------------------------

    def _pair(
        self,
        old: Answer,
        new: Answer,
        domain: Domain,
        call: JSON,
        found: Found,
        words: bool = True,
        told: Told = lambda _: True,
    ) -> None:
        found.counts.update(["compared", f"domain|{domain.name}"])
        found.counts.update(f"error|{side}|{one.error}" for side, one in (("old", old), ("new", new)) if one.error)
        row = compared(old, new, words=words, told=told)
        if row is None:
            return
        if row["kind"] in ("findings", "messages"):
            found.counts[row["kind"]] += 1
            found.counts.update(f"same|{one['predicate']}|{one['change']}" for one in row["changes"])
            if not self._job.everything:
                return
        asked = new.gate_input or old.gate_input
        arguments = asked["action"]["arguments"]
        shown = Masking(domain.log).allowed(domain.log["tools"].get(call["tool"], {}), arguments)
        found.rows.append(
            {
                **call,
                "domain": domain.name,
                "arguments": arguments,
                **row,
                "facts": deciding_facts(row, old, new, domain.log),
                "loop": any(one["predicate"] == LOOP for one in counted(row["changes"])),
                "shown": {"arguments": shown},
            }
        )


def _executed(old: ReplayStep, new: ReplayStep) -> bool | None:
    judged = new.judged or old.judged
    return judged.executed if judged is not None else None


def _covers(template: PathTemplate, scope: Scope, path: tuple[str, ...]) -> bool:
    """Whether a slice by this template shows what stands at a path, or would show a part of it."""
    for pattern in template.fill_widely(scope):
        keys = pattern[:-1] if template.absent else pattern
        if is_prefix(keys, path) or is_prefix(keys[: len(path)], path):
            return True
    return False
