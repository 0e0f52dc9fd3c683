"""What a backtest's journal amounts to: how many calls changed, by which predicates, and whether somebody meant it.

Reads the rows one by one and keeps counts and a few examples, so that its size does not grow with theirs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ledgeragent.backtest.allowed import AllowedChange, allowing
from ledgeragent.backtest.compare import counted, outcome

JSON = dict[str, Any]
EXAMPLES: Final = 20
"""Calls that a group keeps to show."""

ABOUT: Final = ("verdict", "untold")
"""Kinds of rows that say that a verdict is, or may be, another one."""


@dataclass
class Group:
    """Calls that changed in the same way by the same predicate.

    Attributes:
        kind: `verdict`, or `untold` where the records cannot tell.
        predicate: its id, or the code of an error.
        change: appeared, vanished, changed, evidence or words.
        finding: (before, after), in words.
        verdict: (before, after), of the call.
        tools: how many calls of which tool.
        allowed: how many of them somebody meant.
        examples: the first few rows.
    """

    kind: str
    predicate: str
    change: str
    finding: tuple[str, str]
    verdict: tuple[str, str]
    tools: Counter[str] = field(default_factory=Counter)
    allowed: int = 0
    examples: list[JSON] = field(default_factory=list)

    @property
    def calls(self) -> int:
        """How many calls."""
        return self.tools.total()

    def take(self, row: JSON, *, allowed: bool) -> None:
        """Count a call."""
        self.tools[row["tool"]] += 1
        self.allowed += allowed
        if len(self.examples) < EXAMPLES:
            self.examples.append(row)

    def as_json(self) -> JSON:
        """The group without its examples."""
        return {
            "kind": self.kind,
            "predicate": self.predicate,
            "change": self.change,
            "finding": list(self.finding),
            "verdict": list(self.verdict),
            "calls": self.calls,
            "allowed": self.allowed,
            "tools": dict(sorted(self.tools.items())),
        }


@dataclass
class Summary:
    """What a run found.

    Attributes:
        counts: as the journal has them.
        changed, untold: calls with another verdict; those of which records cannot tell.
        allowed: how many of both somebody meant.
        loops: changed calls in which `gate.loop` took part.
        groups: the most frequent first; a call stands in the group of every predicate that took part in it.
        unused: allowed changes that nothing fitted.
    """

    counts: Counter[str] = field(default_factory=Counter)
    changed: int = 0
    untold: int = 0
    allowed: int = 0
    loops: int = 0
    groups: list[Group] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, counts: Counter[str], rows: Iterable[JSON], patterns: Sequence[AllowedChange]) -> Summary:
        """Count the rows of a run."""
        summary = cls(counts)
        groups: dict[tuple[Any, ...], Group] = {}
        used: set[str] = set()
        for row in rows:
            if row["kind"] not in ABOUT:
                continue
            fitting = allowed_by(row, patterns)
            used.update(one.text for one in fitting or ())
            summary._count(row, allowed=fitting is not None)
            for change in counted(row["changes"]):
                _group(groups, row, change).take(row, allowed=fitting is not None)
        summary.groups = sorted(groups.values(), key=lambda one: (one.kind != "verdict", -one.calls, one.predicate))
        summary.unused = [one.text for one in patterns if one.text not in used]
        return summary

    def _count(self, row: Mapping[str, Any], *, allowed: bool) -> None:
        self.changed += row["kind"] == "verdict"
        self.untold += row["kind"] == "untold"
        self.allowed += allowed
        self.loops += bool(row["loop"])

    @property
    def unexpected(self) -> int:
        """Calls that changed, or may have, and nobody meant it."""
        return self.changed + self.untold - self.allowed

    @property
    def failed(self) -> bool:
        """Whether it takes a person to look: a change nobody meant, lines that could not be judged, or nothing was."""
        return bool(self.unexpected or self.counts["skipped"] or not self.counts["compared"])

    def below(self, name: str) -> dict[str, int]:
        """The counts of one name, by what stands behind it."""
        start = name + "|"
        return {key.removeprefix(start): count for key, count in sorted(self.counts.items()) if key.startswith(start)}

    def predicates(self) -> list[str]:
        """The predicates that took part in a change, each once."""
        return list(dict.fromkeys(one.predicate for one in self.groups))

    def as_json(self) -> JSON:
        """The numbers, without rows."""
        return {
            "compared": self.counts["compared"],
            "changed": self.changed,
            "untold": self.untold,
            "allowed": self.allowed,
            "unexpected": self.unexpected,
            "loops": self.loops,
            "groups": [one.as_json() for one in self.groups],
            "same_verdict": {name: self.counts[name] for name in ("findings", "messages")},
            "same_verdict_by": self.below("same"),
            "incomparable": self.below("incomparable"),
            "errors": self.below("error"),
            "domains": self.below("domain"),
            "conversations": self.counts["conversations"],
            "outcomes": self.counts["outcomes"],
            "overridden": self.counts["overridden"],
            "skipped": self.counts["skipped"],
            "unused": self.unused,
        }


def allowed_by(row: Mapping[str, Any], patterns: Sequence[AllowedChange]) -> list[AllowedChange] | None:
    """The patterns that allow a changed call, or None."""
    predicates = [one["predicate"] for one in counted(row["changes"])]
    return allowing(patterns, predicates, row["tool"], row["old"]["verdict"], row["new"]["verdict"])


def _group(groups: dict[tuple[Any, ...], Group], row: Mapping[str, Any], change: Mapping[str, Any]) -> Group:
    finding = outcome(change["old"]), outcome(change["new"])
    verdict = row["old"]["verdict"], row["new"]["verdict"]
    key = (row["kind"], change["predicate"], change["change"], finding, verdict)
    return groups.setdefault(key, Group(*key))
