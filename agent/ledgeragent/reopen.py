"""The policies a record was judged with, opened again: to explain a decision, or to make a test of it.

Finding policies by revision is `policysource`'s part. They are asked in this process where their compiled module is at
hand, else with a local OPA; a configured server is not asked, since its policies need not be the record's.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from pydantic import BaseModel, ValidationError

from ledgeragent.contracts import Decision, DecisionRecord, FloorFile, FreezeFile, OverridesFile, described
from ledgeragent.domain import Domain
from ledgeragent.engine import Engine, find_opa, open_engine
from ledgeragent.errors import BadInput, LedgerAgentError
from ledgeragent.gate import Rehearsal
from ledgeragent.jsonio import parse
from ledgeragent.policies import ROOTS
from ledgeragent.policysource import PolicySource, PolicySources

_KINDS: Final[Mapping[str, type[BaseModel]]] = {
    "overrides": OverridesFile,
    "floor": FloorFile,
    "freeze": FreezeFile,
}
_MAX_FILE: Final = 10_000_000
_MASKED: Final = frozenset({"no", "when_opened"})


@dataclass(frozen=True)
class Deployed:
    """The policy data that stood beside the policies.

    Attributes:
        content: kind (`overrides`, `floor`, `freeze`) → its content, by domain.
    """

    content: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @classmethod
    def read(cls, files: Mapping[str, Path | None]) -> Deployed:
        """Read what was in force then; whether an override has expired since does not matter here.

        Args:
            files: kind → its JSON file, or None.

        Raises:
            BadInput: when a file cannot be read or is not of its kind.
        """
        found = {}
        for kind, path in files.items():
            if path is None:
                continue
            try:
                document = parse(path.read_text(encoding="utf-8"), what=str(path), limit=_MAX_FILE)
                _KINDS[kind].model_validate(document)
            except (OSError, UnicodeError) as error:
                raise BadInput(f"{path} cannot be read: {type(error).__name__}") from None
            except ValidationError as error:
                raise BadInput(f"{path} holds no {kind}: {described(error)}") from None
            found[kind] = document
        return cls(found)

    def of(self, domain: str) -> dict[str, Any]:
        """Root in OPA → what concerns one domain."""
        return {ROOTS[kind]: {domain: all_[domain]} for kind, all_ in self.content.items() if domain in all_}


@dataclass(frozen=True)
class Reopened:
    """A domain with policies to ask.

    Attributes:
        source: where they are.
        domain: the domain as these policies have it.
        engine: answers with them.
    """

    source: PolicySource
    domain: Domain
    engine: Engine

    def decide(self, gate_input: Mapping[str, Any]) -> Decision | None:
        """What these policies decide; None when they give no decision."""
        return Rehearsal(self.domain, self.engine).judge(gate_input).decision


class Reopener:
    """Opens the policies that records name, each once; a context manager that owns what it opened."""

    def __init__(self, sources: PolicySources, policies: str | None = None, deployed: Deployed | None = None) -> None:
        """Begin with nothing open.

        Args:
            sources: finds policies.
            policies: the name of policies to look into before the shipped ones and git.
            deployed: the policy data to judge with; default: none.
        """
        self._sources = sources
        self._among = () if policies is None else (sources.find(policies),)
        self.deployed = deployed or Deployed()
        self._stack = ExitStack()
        self._engines: dict[Path, Engine] = {}
        self._open: dict[tuple[str, str, str], Reopened] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stack.close()

    def of(self, record: DecisionRecord) -> Reopened:
        """The policies of a record.

        Raises:
            BadInput: when no policies at hand have its revision; the message says where was looked.
            LedgerAgentError: when they cannot be opened.
        """
        gate = record.decision.policy.gate if record.decision is not None else None
        key = (record.input.domain, record.revision, gate or "")
        if key not in self._open:
            if not record.revision:
                raise BadInput(f"the record names no policies: {record.error or 'no decision was accepted'}")
            source = self._sources.of_revision(record.revision, gate, among=self._among)
            self._open[key] = self._opened(source, record.input.domain)
        return self._open[key]

    def _opened(self, source: PolicySource, domain: str) -> Reopened:
        rego = source.policies if source.policies.is_dir() else None
        loaded = Domain.load(domain, schemas=source.schemas, rego=rego)
        if source.policies not in self._engines:
            self._engines[source.policies] = self._engine(source)
            self._stack.callback(self._engines[source.policies].close)
        return Reopened(source, loaded, self._engines[source.policies])

    def _engine(self, source: PolicySource) -> Engine:
        try:
            return self._asked("embedded", source)
        except LedgerAgentError as error:
            if find_opa() is None:
                raise BadInput(
                    f"the policies of {source.name} have no compiled module ({error}), and there is no opa on PATH"
                ) from None
            return self._asked("opa", source)

    def _asked(self, spec: str, source: PolicySource) -> Engine:
        data: dict[str, Any] = dict(self.deployed.content)
        return open_engine(spec, policies=source.policies, schemas=source.schemas, **data)


def must_be_whole(record: DecisionRecord) -> None:
    """Refuse a record whose input no longer says what was decided on.

    Raises:
        BadInput: when it is redacted so that its input cannot be judged again; the message says what can be done.
    """
    redacted = record.redacted
    if redacted is None or redacted.judged_again not in _MASKED:
        return
    if redacted.judged_again == "when_opened":
        raise BadInput(
            f"the record is encrypted for the key {redacted.key}: open it first with "
            "`ledgeragent records open FILE --key PRIVATE_KEY`"
        )
    raise BadInput(
        f"the record is kept as {redacted.form}: {len(redacted.masked)} places that decide are masked, so that its "
        "input cannot be judged again"
    )
