"""Replay: judge recorded conversations as if the gate had been there.

The ledger grows from the recorded returns. Each recorded write (or undeclared tool) is judged when it comes, call by
call, in order, against the ledger at that moment; then the recording goes on with its recorded outcome, whatever the
verdict was. Reading files and printing is left to `conversation` and the command line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ledgeragent.contracts import Finding, Outcome
from ledgeragent.conversation import Conversation, RecordedCall
from ledgeragent.errors import BadInput, LedgerError
from ledgeragent.gate import Gate, Rehearsal
from ledgeragent.records import Recorder
from ledgeragent.session import Call, Observation, Review, Session


@dataclass(frozen=True)
class JudgedCall:
    """A judged call of a recording.

    Attributes:
        executed: whether the recorded tool did it; None when the recording holds no return.
    """

    conversation: str
    call: RecordedCall
    review: Review
    executed: bool | None
    reward: float | None

    def row(self) -> dict[str, Any]:
        """The JSON line of this call."""
        row: dict[str, Any] = {
            "conversation": self.conversation,
            "index": self.call.index,
            "call_id": self.call.call_id,
            "tool": self.call.tool,
            "verdict": self.review.verdict,
            "findings": [_finding_row(finding) for finding in findings(self.review)],
            "executed": self.executed,
            "reward": self.reward,
        }
        if self.review.failure is not None:
            row["error"] = self.review.failure.code
        return row


def findings(review: Review) -> list[Finding]:
    """The findings of a review that no grant lifts, none when no decision was accepted."""
    return [one for one in review.decision.findings if one.mode != "lifted"] if review.decision is not None else []


def _finding_row(finding: Finding) -> dict[str, Any]:
    return {
        "predicate": finding.predicate,
        "status": finding.status,
        "verdict": finding.verdict,
        "cause": cause(finding),
    }


def cause(finding: Finding) -> str:
    """`violated`, or for an unknown finding `missing` when a fact was never read, else `stale`."""
    if finding.status == "violated":
        return "violated"
    return "missing" if any(fact.cause == "missing" for fact in finding.missing) else "stale"


class RecordedSession(Session):
    """A session whose calls have already happened: outcomes are taken from the recording, not from tickets."""

    def take_recorded(self, call: RecordedCall, review: Review) -> None:
        """Go on with a write's recorded outcome, whatever the gate said."""
        outcome: Outcome = "uncertain" if not call.answered else ("refused" if self.failed(call) else "executed")
        if review.ticket is not None:
            self.redeem(review.ticket)
            self.report(review.ticket, outcome, call.content)
            return
        arguments = review.gate_input["action"]["arguments"]
        self.shown(call.content)
        if outcome != "refused" and isinstance(arguments, Mapping):
            self._settle(self._admit(call.tool, arguments), outcome)

    def failed(self, call: RecordedCall) -> bool:
        """Whether the recorded return says that nothing was done."""
        return call.error or self._reads_as_failure(call.content)


@dataclass(frozen=True)
class ReplayStep:
    """One call of a recording, for showing: what was observed, or how it was judged."""

    call: RecordedCall
    observation: Observation | None
    problem: str | None
    judged: JudgedCall | None


class Replay:
    """Replays one conversation; iterate over `steps`. The session is open to look at between the steps."""

    def __init__(
        self,
        conversation: Conversation,
        gate: Gate | Rehearsal,
        *,
        now: str | None = None,
        recorder: Recorder | None = None,
    ) -> None:
        """Open a session on the conversation's clock (the line's, else `now`, else the domain's).

        Args:
            conversation: the recording.
            gate: judges its calls.
            now: the clock of a recording that has none.
            recorder: keeps records as those of a session; None keeps none.

        Raises:
            BadInput: when the clock has no offset.
        """
        self.conversation = conversation
        clock = conversation.now or now or gate.domain.file.now
        self.session = RecordedSession(
            gate,
            now=clock,
            principal=conversation.principal,
            session_id=f"replay:{conversation.id}",
            recorder=recorder,
        )

    def steps(self) -> Iterator[ReplayStep]:
        """Every call of the agent, in order."""
        for turn in self.conversation.turns:
            self.session.next_turn()
            for number, call in enumerate(turn):
                if not call.by_user:
                    yield self._step(call, number)
        self.session.close("the recording ended")

    def judged(self) -> Iterator[JudgedCall]:
        """Every judged call, in order."""
        return (step.judged for step in self.steps() if step.judged is not None)

    def _step(self, call: RecordedCall, number: int) -> ReplayStep:
        if self.session.domain.is_write(call.tool):
            return ReplayStep(call, None, None, self._judge(call))
        try:
            # Call ids can repeat in a recording; message and position cannot.
            issued = self.session.issue(call.tool, call.arguments, f"{call.index}.{number}")
        except (BadInput, LedgerError) as problem:
            return ReplayStep(call, None, str(problem), None)
        if not call.answered:
            return ReplayStep(call, None, "the recording holds no return", None)
        return ReplayStep(call, self.session.observe(issued.call_id, call.content, error=call.error), None, None)

    def _judge(self, call: RecordedCall) -> JudgedCall:
        review = self.session.review([Call(call.tool, call.arguments, call.call_id)])[0]
        executed = not self.session.failed(call) if call.answered else None
        self.session.take_recorded(call, review)
        return JudgedCall(self.conversation.id, call, review, executed, self.conversation.reward)


@dataclass
class Tally:
    """Counts over judged calls: verdicts, findings by (predicate, verdict, cause), errors."""

    verdicts: Counter[str] = field(default_factory=Counter)
    findings: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)

    def add(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Count the rows of judged calls."""
        for row in rows:
            self.verdicts[row["verdict"]] += 1
            self.errors.update([row["error"]] if "error" in row else [])
            self.findings.update((one["predicate"], one["verdict"], one["cause"]) for one in row["findings"])

    def count(self, review: Review) -> None:
        """Count one review; of a shadow's, what it would have said."""
        self.verdicts[review.would] += 1
        self.errors.update([review.failure.code] if review.failure is not None else [])
        self.findings.update((one.predicate, one.verdict, cause(one)) for one in findings(review))
