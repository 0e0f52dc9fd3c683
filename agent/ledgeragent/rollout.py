"""What a shadow would have held back, counted from record files: the numbers behind the step to enforcing.

A finding counts when it held nothing back only because something watched: a `ShadowGate` (`enforced: false` in the
record), or a predicate that a deployment put in shadow. Findings that were enforced have had their effect and are left
out. Reading is lenient, for a count must not stop at a line that a full disk cut off: such lines are counted too.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ledgeragent.contracts import Finding
from ledgeragent.replay import cause

_RAN: Final = frozenset({"executed", "uncertain"})


@dataclass
class Cost:
    """What one predicate would have done.

    Attributes:
        findings: how often, by (verdict, cause); the cause is violated, missing or stale.
        alone: calls that nothing else speaks against.
        ran: calls it speaks against that ran, or may have.
    """

    findings: Counter[tuple[str, str]] = field(default_factory=Counter)
    alone: int = 0
    ran: int = 0


@dataclass
class Rollout:
    """What shadows watched.

    Attributes:
        watched: decisions that a shadow was part of: all of a `ShadowGate`, and those of a `Gate` in which a predicate
            in shadow spoke.
        enforced: the other decisions.
        verdicts: what a `ShadowGate`'s decisions would have been.
        errors: decisions that it could not have made, by code; each would have been a block.
        predicates: id → what it would have done.
        unreadable: lines that are no record.
    """

    watched: int = 0
    enforced: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    predicates: dict[str, Cost] = field(default_factory=dict)
    unreadable: int = 0

    @classmethod
    def of(cls, lines: Iterable[str]) -> Rollout:
        """Count the lines of record files, in the order in which they were written."""
        rollout = cls()
        waiting: dict[str, list[str]] = {}
        for line in filter(str.strip, lines):
            record = _read(line)
            if record is None:
                rollout.unreadable += 1
            elif record["kind"] == "outcome":
                rollout._ended(waiting.pop(str(record.get("request")), []), record)
            else:
                waiting[_request(record)] = rollout._decided(record, _findings(record))
        return rollout

    def _decided(self, record: Mapping[str, Any], findings: list[Finding]) -> list[str]:
        """Count a decision; the predicates that would have held the call back."""
        is_shadow = record.get("enforced") is False
        found = [one for one in findings if one.mode == "shadow" or (is_shadow and one.mode == "enforce")]
        if not is_shadow and not found:
            self.enforced += 1
            return []
        self.watched += 1
        if is_shadow:
            self.verdicts[str(record.get("verdict"))] += 1
            self.errors.update([record["error"]] if record.get("error") else [])
        for one in found:
            self.predicates.setdefault(one.predicate, Cost()).findings[one.verdict, cause(one)] += 1
        if len(found) == 1:
            self.predicates[found[0].predicate].alone += 1
        return [one.predicate for one in found]

    def _ended(self, predicates: Iterable[str], record: Mapping[str, Any]) -> None:
        if record.get("outcome") in _RAN:
            for one in predicates:
                self.predicates[one].ran += 1

    def rows(self) -> list[dict[str, Any]]:
        """One row per predicate, the costliest first."""
        rows = [
            {
                "predicate": predicate,
                "revise": _sum(cost, "revise"),
                "block": _sum(cost, "block"),
                **{why: sum(n for (_, own), n in cost.findings.items() if own == why) for why in _CAUSES},
                "alone": cost.alone,
                "ran": cost.ran,
            }
            for predicate, cost in self.predicates.items()
        ]
        return sorted(rows, key=lambda row: (-row["revise"] - row["block"], row["predicate"]))


_CAUSES: Final = ("violated", "missing", "stale")


def _sum(cost: Cost, verdict: str) -> int:
    return sum(count for (own, _), count in cost.findings.items() if own == verdict)


def _read(line: str) -> Mapping[str, Any] | None:
    try:
        record = json.loads(line)
        if not isinstance(record, dict) or record.get("kind") not in ("decision", "outcome"):
            return None
        _findings(record)
    except (ValueError, RecursionError):
        return None
    return record


def _findings(record: Mapping[str, Any]) -> list[Finding]:
    decision = record.get("decision")
    found = decision.get("findings") if isinstance(decision, dict) else None
    return [Finding.model_validate(one) for one in found] if isinstance(found, list) else []


def _request(record: Mapping[str, Any]) -> str:
    asked = record.get("input")
    return str(asked.get("request")) if isinstance(asked, dict) else ""
