"""Checking records: each on its own, judged again, and their order.

`Examiner` looks at one line and needs no other, so that lines can be shared out among processes; `Walk` takes what it
found in order and checks what only the order shows: the chain of digests, and that every outcome has its decision. What
is told names places, ids of rules and codes, and nothing of the facts.

What a chain does not show: a file whose end was cut off (a head kept elsewhere does), and one that somebody who may
write it made anew from some record on.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ledgeragent.contracts import DecisionRecord, OutcomeRecord
from ledgeragent.errors import BadInput
from ledgeragent.marks import MASKED
from ledgeragent.recordfiles import BEGINNING, Line, is_whole, line_digest
from ledgeragent.records import Record, parse_record
from ledgeragent.redact import opened
from ledgeragent.rejudge import Rejudge
from ledgeragent.sealing import PrivateKey

JUDGED: Final = ("exactly", "opened", "by_equality")
"""How decisions were judged again: as they stand, once opened, with stand-ins for texts."""

NOT_JUDGED: Final = ("when_opened", "no", "error")
"""Why decisions were not: they are sealed, what decides is masked, or there was no decision but an error."""


@dataclass(frozen=True)
class Problem:
    """Something that is to be said of a line.

    Attributes:
        kind: `chain`, `cut off`, `file`, `form`, `contradiction`, `facts`, `sealed`, `decision`, `unclear`, `policies`
            or `outcome`.
        said: what it is.
        differs: whether the records are not as they should be; else it is only to be known.
    """

    kind: str
    said: str
    differs: bool = True


@dataclass(frozen=True)
class Examined:
    """What a line holds, as far as its place among the others is concerned, and what is wrong with it alone.

    Attributes:
        file, number, of, ended: as in `Line`.
        digest: of its bytes; None when it is cut off.
        previous: the digest it carries.
        request: the decision's request id; None when it is no record.
        session: the session's id.
        outcome: whether it is an outcome; else a decision.
        runs: whether the call of a decision may have been run.
        how: one of `JUDGED` and `NOT_JUDGED`, for decisions.
        error: the code of a decision that there was none of.
        problems: what was found.
    """

    file: str
    number: int
    of: str
    ended: bool
    digest: str | None = None
    previous: str | None = None
    request: str | None = None
    session: str = ""
    outcome: bool = False
    runs: bool = False
    how: str | None = None
    error: str | None = None
    problems: tuple[Problem, ...] = ()


class Examiner:
    """Looks at lines one by one."""

    def __init__(self, rejudge: Rejudge | None, key: PrivateKey | None = None) -> None:
        """Prepare.

        Args:
            rejudge: judges decisions again; None: they are not.
            key: opens encrypted records, or None.
        """
        self._rejudge = rejudge
        self._key = key

    def examine(self, line: Line) -> Examined:
        """Everything that one line says by itself."""
        one = Examined(line.file, line.number, line.of, line.ended)
        try:
            record = parse_record(line.text.decode("ascii"), place="it")
        except (BadInput, UnicodeDecodeError) as error:
            return _no_record(one, line.text, str(error) if isinstance(error, BadInput) else "it is not ASCII")
        one = replace(one, digest=line_digest(line.text), previous=record.previous, session=record.session)
        if isinstance(record, OutcomeRecord):
            return replace(one, request=record.request, outcome=True)
        how, problems = self._decision(record)
        return replace(
            one,
            request=record.input.request,
            runs=record.verdict == "allow" or not record.enforced,
            how=how,
            error=record.error if record.decision is None else None,
            problems=(*(Problem("contradiction", said) for said in _contradictions(record)), *problems),
        )

    def _decision(self, record: DecisionRecord) -> tuple[str, tuple[Problem, ...]]:
        how: str = record.redacted.judged_again if record.redacted is not None else "exactly"
        if how == "when_opened" and self._key is not None:
            try:
                record, how = _as_decision(opened(record, self._key)), "opened"
            except BadInput as error:
                return how, (Problem("sealed", str(error)),)
        facts = tuple(_facts(record)) if record.redacted is None else ()
        if record.decision is None:
            return "error", facts
        if how not in JUDGED or self._rejudge is None:
            return how, facts
        again = self._rejudge.again(record)
        kinds = {"differs": "decision", "unclear": "unclear", "failed": "policies"}
        if again.result == "same":
            return how, facts
        return how, (*facts, Problem(kinds[again.result], again.said, again.result != "unclear"))


def _no_record(one: Examined, text: bytes, said: str) -> Examined:
    """A line that is none: cut off, or a whole one that does not fit, which has its place in the chain."""
    if not is_whole(text):
        return one
    previous = json.loads(text).get("previous")
    problem = Problem("form", said)
    carried = previous if isinstance(previous, str) else None
    return replace(one, digest=line_digest(text), previous=carried, problems=(problem,))


def _as_decision(record: Record) -> DecisionRecord:
    if not isinstance(record, DecisionRecord):
        raise BadInput("what was sealed is no decision, though the record around it is one")
    return record


def _contradictions(record: DecisionRecord) -> Iterator[str]:
    decision = record.decision
    if decision is None:
        if record.error is None or record.verdict != "block" or record.revision:
            yield "without a decision there is an error, the verdict is block and no revision is named"
    else:
        if record.error is not None:
            yield "there is a decision and an error"
        if record.revision != decision.policy.revision:
            yield "the revision is not the decision's"
        if record.verdict != decision.verdict:
            yield f"the verdict is {record.verdict}, the decision's is {decision.verdict}"
        if decision.request != record.input.request:
            yield "the decision answers another request"
    if record.session != record.input.session.id:
        yield "the session is not the input's"
    if record.call_id != record.input.action.call_id:
        yield "the call's id is not the input's"


def _facts(record: DecisionRecord) -> Iterator[Problem]:
    if "facts" not in record.model_fields_set:
        if record.input.ledger:
            yield Problem(
                "facts", "it does not say where its facts were read: an older version wrote it", differs=False
            )
        return
    read = {tuple(one.path) for one in record.facts}
    bare = [path for path in _leaves(record.input.ledger) if not any(path[:at] in read for at in range(len(path) + 1))]
    if bare:
        yield Problem("facts", f"{len(bare)} of the facts it was decided on were read nowhere")


def _leaves(value: Mapping[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for key, below in value.items():
        if isinstance(below, Mapping) and below:
            yield from _leaves(below, (*above, key))
        else:
            yield (*above, key)


# In order -------------------------------------------------------------------------------------------------------


@dataclass
class Walk:
    """Checks the order of what was examined, and counts.

    Memory grows by some hundred bytes with every admitted call that has no outcome.

    Attributes:
        after: digests that a first record may carry: heads of what came before.
        expected: heads that must be among the records.
        records: how many there are.
        decisions: by how they were judged (`JUDGED`, `NOT_JUDGED`).
        errors: decisions that there were none of, by code.
        outcomes: how many outcomes.
        linked: records that are in a chain.
        differences, notes: problems, by kind.
        head: digest of the last record.
    """

    after: frozenset[str] = frozenset()
    expected: frozenset[str] = frozenset()
    records: int = 0
    decisions: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    outcomes: int = 0
    linked: int = 0
    differences: Counter[str] = field(default_factory=Counter)
    notes: Counter[str] = field(default_factory=Counter)
    head: str | None = None
    _last: Examined | None = None
    _cut: list[Examined] = field(default_factory=list)
    _waiting: set[bytes] = field(default_factory=set)
    _begun: bool = True
    _missing: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._missing.update(self.expected)

    def take(self, one: Examined) -> Iterator[tuple[Examined, Problem]]:
        """Take the next line; what is to be said, of it or of those before it."""
        if one.digest is None:
            if one.ended:
                self._cut.append(one)
            else:
                yield self._told(one, _CUT_AT_END)
            return
        broken = self._link(one)
        yield from self._settle(goes_on=broken is None and one.previous is not None)
        if broken is not None:
            yield self._told(one, Problem("chain", broken))
        for problem in one.problems:
            yield self._told(one, problem)
        self._count(one)
        if one.outcome:
            yield from (self._told(one, problem) for problem in self._ended(one))
        elif one.runs and one.request is not None:
            self._waiting.add(_key(one))

    def damaged(self, file: str, said: str) -> tuple[Examined, Problem]:
        """A file could not be read to its end."""
        return self._told(Examined(file, 0, file, ended=True), Problem("file", said))

    def finish(self) -> Iterator[tuple[Examined, Problem]]:
        """What is to be said at the end."""
        yield from self._settle(goes_on=False)
        last = self._last or Examined("", 0, "", ended=True)
        for digest in sorted(self._missing):
            said = f"the head {digest} is not among the records: the end was cut off, or they are others"
            yield self._told(last, Problem("chain", said))

    def _link(self, one: Examined) -> str | None:
        """What is wrong with a record's place in the chain."""
        last, self._last = self._last, one
        above, self.head = self.head, one.digest
        other_set = last is None or last.of != one.of
        if one.previous is None:
            if last is not None and last.previous is not None and not other_set:
                return "it carries no digest of the record above, which is in a chain: one was put or left out here"
            return None
        self.linked += 1
        if one.previous == above or (one.previous == BEGINNING and other_set):
            return None
        if last is None:
            self._begun = False
            if one.previous in self.after:
                return None
        if other_set:
            return f"it follows a record that is not here; if that is in another file, say --after {one.previous}"
        return "it does not follow the record above: one was changed, removed, added or moved"

    def _settle(self, *, goes_on: bool) -> Iterator[tuple[Examined, Problem]]:
        """Lines that are no whole record: a chain that goes on over them was written after they were cut off."""
        for cut in self._cut:
            yield self._told(cut, _CUT_OFF if goes_on else _NO_RECORD)
        self._cut.clear()

    def _count(self, one: Examined) -> None:
        self.records += 1
        self.outcomes += one.outcome
        self.decisions.update([one.how] if one.how is not None else [])
        self.errors.update([one.error] if one.error is not None else [])
        self._missing.discard(one.digest or "")

    def _ended(self, one: Examined) -> Iterator[Problem]:
        if one.request == MASKED:
            return
        if _key(one) in self._waiting:
            self._waiting.remove(_key(one))
        elif self._begun:
            yield Problem(
                "outcome",
                "no admitted call of its session waits for it: there is none on record before it, it was rejected, or "
                "it has an outcome already",
            )
        else:
            yield Problem("outcome", "its decision is not here: it may be in what came before", differs=False)

    def _told(self, one: Examined, problem: Problem) -> tuple[Examined, Problem]:
        (self.differences if problem.differs else self.notes)[problem.kind] += 1
        return one, problem


_CUT_AT_END: Final = Problem(
    "cut off",
    "the last line is cut off: a crash or a full disk while it was written; nothing was let through on it",
    differs=False,
)
_CUT_OFF: Final = Problem(
    "cut off",
    "a line that a crash or a full disk cut off; nothing was let through on it, and the chain goes on over it",
    differs=False,
)
_NO_RECORD: Final = Problem(
    "form", "no whole record: cut off by a crash or a full disk, or changed; no chain tells which"
)


def _key(one: Examined) -> bytes:
    return hashlib.blake2b(f"{one.session}\0{one.request}".encode("utf-8", "surrogatepass"), digest_size=16).digest()


def heads(texts: Iterable[str]) -> frozenset[str]:
    """Digests from a command line.

    Raises:
        BadInput: for what is none.
    """
    found = frozenset(texts)
    for one in found:
        if not (one.startswith("sha256:") and len(one) == len("sha256:") + 64):
            raise BadInput(f"{one[:80]!r} is no digest of a record: sha256: and 64 hexadecimal digits")
    return found
