"""What differs between two answers to one call, by predicate, and the facts that decide it.

A change of verdict is told apart from what changes without it: other findings, or other words. A finding that appears
only because a record does not hold the fact it asks for is told apart too: the record cannot tell what would have been.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from ledgeragent.approval import consents, wanting
from ledgeragent.contracts import Decision, Finding, MissingFact
from ledgeragent.gate import Judged
from ledgeragent.marks import MASKED, Marks
from ledgeragent.masking import Masking
from ledgeragent.paths import NOTHING, Path, is_prefix
from ledgeragent.replay import cause
from ledgeragent.session import Review

JSON = dict[str, Any]
UNJUDGED: Final = "unjudged"
"""Verdict of a call that one of the policies takes for one that changes nothing."""

LOOP: Final = "gate.loop"
EFFECT: Final = "gate.effect"
"""Stands for a predicate where only one of the policies judges the tool at all."""

OBLIGATIONS: Final = "gate.obligations"
"""Stands for a predicate where decisions differ in what they oblige to."""

Kind = Literal["verdict", "untold", "findings", "messages"]
_COUNTED: Final = ("appeared", "vanished", "changed")
_LEDGER_LEVEL: Final = 1
_ASIDE: Final = {"shadow": " in shadow", "lifted": " lifted"}


@dataclass(frozen=True)
class Answer:
    """What one set of policies says to a call.

    Attributes:
        verdict: allow, revise, block, or `UNJUDGED`.
        decision: None when there is none: then `error` says why, or it was not judged.
        error: a code of the gate's failures.
        gate_input: what was asked; empty when it was not judged.
    """

    verdict: str
    decision: Decision | None
    error: str | None
    gate_input: Mapping[str, Any]

    @classmethod
    def of_review(cls, review: Review | None) -> Answer:
        """The answer to a replayed call; None stands for one that was not judged."""
        if review is None:
            return cls(UNJUDGED, None, None, {})
        failure = review.failure.code if review.failure is not None else None
        return cls(review.would, review.decision, failure, review.gate_input)

    @classmethod
    def of_judged(cls, judged: Judged, gate_input: Mapping[str, Any]) -> Answer:
        """The answer to a recorded input."""
        failure = judged.failure.code if judged.failure is not None else None
        return cls(judged.verdict, judged.decision, failure, gate_input)

    def findings(self) -> dict[str, Finding]:
        """Finding by predicate."""
        return {one.predicate: one for one in self.decision.findings} if self.decision is not None else {}

    def shown(self) -> JSON:
        """Verdict and error, for a row."""
        return {"verdict": self.verdict, **({"error": self.error} if self.error is not None else {})}


Told = Callable[[MissingFact], bool]
"""Whether the absence of a fact is one, and not only that of a record which never held such facts."""


def compared(old: Answer, new: Answer, *, words: bool = True, told: Told = lambda _: True) -> JSON | None:
    """What differs, as a row without the call it belongs to; None when nothing does.

    Args:
        old: what was said.
        new: what would be said.
        words: whether messages are compared; those of redacted records cannot be.
        told: see `Told`.
    """
    changes = list(_changes(old, new, words))
    kind = _kind(old, new, changes, told)
    if kind is None:
        return None
    return {"kind": kind, "old": old.shown(), "new": new.shown(), "changes": changes}


def _kind(old: Answer, new: Answer, changes: list[JSON], told: Told) -> Kind | None:
    appeared = {one["predicate"] for one in changes if one["change"] in ("appeared", "changed")}
    found = [one for one in new.findings().values() if one.predicate in appeared]
    if any(fact.cause == "missing" and not told(fact) for one in found for fact in one.missing):
        return "untold"
    if old.verdict != new.verdict:
        return "verdict"
    if not changes:
        return None
    return "messages" if all(one["change"] == "words" for one in changes) else "findings"


def _changes(old: Answer, new: Answer, words: bool) -> Iterator[JSON]:
    before, after = old.findings(), new.findings()
    for predicate in sorted({*before, *after}):
        how = _how(before.get(predicate), after.get(predicate), words)
        if how is not None:
            yield _change(predicate, how, before.get(predicate), after.get(predicate))
    if old.error != new.error:
        for code, how in ((old.error, "vanished"), (new.error, "appeared")):
            if code is not None:
                finding = {"status": "error", "verdict": "block", "mode": "enforce", "cause": "error"}
                yield {"predicate": code, "change": how, _SIDE[how]: finding, _OTHER[how]: None}
    if UNJUDGED in (old.verdict, new.verdict) and not before and not after:
        yield {"predicate": EFFECT, "change": "changed", "old": None, "new": None}
    if old.decision is not None and new.decision is not None and old.decision.obligations != new.decision.obligations:
        yield {"predicate": OBLIGATIONS, "change": "evidence", "old": _consents(old), "new": _consents(new)}


_SIDE: Final = {"appeared": "new", "vanished": "old"}
_OTHER: Final = {"appeared": "old", "vanished": "new"}


def _how(before: Finding | None, after: Finding | None, words: bool) -> str | None:
    if before is None or after is None:
        return "appeared" if before is None else "vanished"
    if any(getattr(before, name) != getattr(after, name) for name in ("status", "verdict", "mode")):
        return "changed"
    if before.missing != after.missing or before.paths != after.paths:
        return "evidence"
    return "words" if words and before.message != after.message else None


def _change(predicate: str, how: str, before: Finding | None, after: Finding | None) -> JSON:
    return {"predicate": predicate, "change": how, "old": _finding(before), "new": _finding(after)}


def _finding(one: Finding | None) -> JSON | None:
    if one is None:
        return None
    return {
        "status": one.status,
        "verdict": one.verdict,
        "mode": one.mode,
        "cause": cause(one),
        "message": one.message,
    }


def _consents(answer: Answer) -> JSON:
    """What a person's consent lifts or would lift, in the place of a finding."""
    done = consents(answer.decision, answer.gate_input.get("grants", ()))
    return {"consents": {**done, **wanting(answer.decision)}}


def counted(changes: list[JSON]) -> list[JSON]:
    """The changes that can have changed a verdict, of a row's; all of them when there are no such ones."""
    return [one for one in changes if one["change"] in _COUNTED] or changes


def outcome(finding: Mapping[str, Any] | None) -> str:
    """A finding in a word or two; a dash for none."""
    if finding is None:
        return "-"
    if "consents" in finding:
        return "; ".join(f"{name}: {words}" for name, words in finding["consents"].items()) or "no consent"
    aside = _ASIDE.get(finding["mode"], "")
    return f"{finding['verdict']} ({finding['cause']}){aside}"


# The facts -------------------------------------------------------------------------------------------------------


def deciding_facts(row: Mapping[str, Any], old: Answer, new: Answer, log: Mapping[str, Marks]) -> list[JSON]:
    """The evidence of the predicates that changed, with what the ledger says there.

    Args:
        row: from `compared`.
        old, new: what it was made of.
        log: the domain's allow-list, for what may be shown to everybody.

    Returns:
        `{path, value}` or `{path, cause}` (missing, stale, absent), each with `shown`: the same as far as it may be
        logged.
    """
    predicates = {one["predicate"] for one in counted(row["changes"])}
    found: dict[Path, JSON] = {}
    for answer in (new, old):
        for finding in answer.findings().values():
            if finding.predicate in predicates:
                causes = {tuple(fact.path): fact.cause for fact in finding.missing}
                for path in sorted({*map(tuple, finding.paths), *causes}):
                    found.setdefault(path, _fact(path, answer.gate_input, causes.get(path), log))
    return list(found.values())


def _fact(path: Path, gate_input: Mapping[str, Any], missing: str | None, log: Mapping[str, Marks]) -> JSON:
    value = value_at(gate_input.get("ledger", {}), path)
    masking = Masking(log)
    shown: JSON = {"path": masking.allowed({"path": True}, list(path))}
    if value is not NOTHING and missing is None:
        shown["value"] = _allowed(masking, path, value, log)
        return {"path": list(path), "value": value, "shown": shown}
    stale = any(is_prefix(tuple(one), path) for one in gate_input.get("stale", ()))
    why = missing or ("stale" if stale else "absent")
    return {"path": list(path), "cause": why, "shown": {**shown, "cause": why}}


def _allowed(masking: Masking, path: Path, value: Any, log: Mapping[str, Marks]) -> Any:
    """The value as the ledger shows it under this path and no other."""
    for key in reversed(path):
        value = {key: value}
    found = value_at(masking.allowed(log["input"]["fields"]["ledger"], value, level=_LEDGER_LEVEL), path)
    return MASKED if found is NOTHING else found


def value_at(node: Any, path: Path) -> Any:
    """What stands under a path of a ledger; `NOTHING` where nothing does."""
    for key in path:
        if not isinstance(node, Mapping) or key not in node:
            return NOTHING
        node = node[key]
    return node
