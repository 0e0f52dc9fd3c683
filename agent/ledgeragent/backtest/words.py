"""The policies of a backtest in words: which revisions, whether they prove themselves, what their catalogues say.

Old and new stand beside each other, so that whoever reads what changed sees what was meant by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from ledgeragent.backtest.sides import unproved
from ledgeragent.catalogue import Entry, read_catalogue
from ledgeragent.errors import BadInput, LedgerAgentError
from ledgeragent.policies import domains
from ledgeragent.policysource import PolicySource, PolicySources

SHOWN: Final = ("title", "description", "tools", "evidence", "remedy", "severity", "policy")
_ABSENT: Final = "-"


@dataclass(frozen=True)
class Told:
    """One set of policies.

    Attributes:
        name: what it was asked for by.
        revisions: part → revision.
        unproved: domain → why its vectors do not hold.
        entries: predicate → entry of the catalogue.
        problems: why a domain has no catalogue.
    """

    name: str
    revisions: Mapping[str, str] = field(default_factory=dict)
    unproved: Mapping[str, str] = field(default_factory=dict)
    entries: Mapping[str, Entry] = field(default_factory=dict)
    problems: tuple[str, ...] = ()

    @classmethod
    def of(cls, source: PolicySource, names: Iterable[str], *, engine: str | None = None) -> Told:
        """What there is to say of policies.

        Args:
            source: the policies, ready to be asked.
            names: the domains that matter.
            engine: proves the vectors; None leaves that out.
        """
        wanted = [name for name in names if name in domains(source.schemas)]
        entries: dict[str, Entry] = {}
        problems = []
        for name in wanted:
            try:
                if not source.policies.is_dir():
                    raise LedgerAgentError("a bundle file has no catalogue: its METADATA is not in it")
                entries.update(
                    (one.id, one) for one in read_catalogue(name, rego=source.policies, schemas=source.schemas)
                )
            except LedgerAgentError as error:
                problems.append(f"no catalogue of {name} in {source.name}: {error}")
        failing = {}
        if engine is not None:
            failing = {name: why for name in wanted if (why := unproved(source, name, engine)) is not None}
        revisions = {part: own for part, own in source.revisions().items() if part == "gate" or part in wanted}
        return cls(source.name, revisions, failing, entries, tuple(problems))

    def as_json(self) -> dict[str, Any]:
        """Name, revisions and proof."""
        return {"name": self.name, "revisions": dict(self.revisions), "unproved": dict(self.unproved)}


def recorded_by(counts: Mapping[str, int], new: PolicySource) -> Told:
    """What there is to say of the policies that made records: those of each domain's most frequent revision.

    Args:
        counts: `domain|revision` → how many records.
        new: where to look first.
    """
    revisions: dict[str, str] = {}
    for key, _ in sorted(counts.items(), key=lambda one: one[1]):
        name, _, revision = key.partition("|")
        revisions[name] = revision
    entries: dict[str, Entry] = {}
    problems: list[str] = []
    with PolicySources() as sources:
        for name, revision in revisions.items():
            try:
                told = Told.of(sources.of_revision(revision or "none", among=(new,)), [name])
            except BadInput as error:
                problems.append(f"no catalogue of {name} as recorded: {error}")
                continue
            entries.update(told.entries)
            problems += told.problems
    return Told("the decisions as recorded", revisions, {}, entries, tuple(problems))


def differences(old: Told, new: Told) -> dict[str, dict[str, tuple[str, str]]]:
    """Predicate → what its catalogue entry says of itself, before and after, where these differ."""
    found = {}
    for predicate in sorted({*old.entries, *new.entries}):
        fields = entry_fields(old, new, predicate)
        differing = {name: both for name, both in fields.items() if both[0] != both[1]}
        if differing:
            found[predicate] = differing
    return found


def entry_fields(old: Told, new: Told, predicate: str) -> dict[str, tuple[str, str]]:
    """What the catalogue says of a predicate, before and after; empty when neither has it."""
    both = [told.entries.get(predicate) for told in (old, new)]
    if both == [None, None]:
        return {}
    sides = [_fields(one) for one in both]
    return {name: (sides[0].get(name, _ABSENT), sides[1].get(name, _ABSENT)) for name in SHOWN}


def _fields(entry: Entry | None) -> dict[str, str]:
    if entry is None:
        return {}
    said = asdict(entry)
    return {
        name: " ".join((", ".join(said[name]) if isinstance(said[name], tuple) else str(said[name])).split())
        for name in SHOWN
    }
