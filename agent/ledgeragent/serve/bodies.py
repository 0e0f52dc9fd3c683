"""What the sidecar is sent and what it answers, as models: strict and closed, as all contracts are.

The OpenAPI document is made of them, so the docstrings here are what its readers see.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import Field, StringConstraints, model_validator

from ledgeragent.contracts import (
    ApprovalRequest,
    Contract,
    Count,
    Decision,
    DomainName,
    Instant,
    Name,
    Outcome,
    Path,
    SignedGrant,
    Verdict,
)
from ledgeragent.session import MAX_GRANTS

SIDECAR: Final = "ledgeragent.sidecar/1"
MAX_CALLS: Final = 64
"""Most calls in one review."""


CallId = Annotated[str, StringConstraints(max_length=256)]


class Request(Contract):
    """What every request may say."""

    now: Instant | None = None
    """The session's clock, RFC 3339 with an offset. Left out: the sidecar's own. It never goes back; whoever sends it
    once should send it always."""


class OpenedBy(Contract):
    """Whom the host authenticated. There is no other way to set it, and none to change it."""

    id: Name
    """Byte for byte as the records name it."""
    claims: dict[str, Any] = Field(default_factory=dict)
    """What the host knows about the principal beyond the id; policies can read it."""


class OpenSession(Request):
    """Opens a session: one conversation with one principal."""

    domain: DomainName
    principal: OpenedBy | None = None


class IssueRead(Request):
    """A call that changes nothing, before it is made."""

    tool: Name
    arguments: Any
    """An object, or the JSON text that a provider gave."""
    call_id: Annotated[CallId, Field(min_length=1)] | None = None
    """The provider's id for the call; left out: a random one."""
    new_turn: bool = False
    """Whether a new model message begins with this call."""


class Observe(Request):
    """The return of a call that was issued."""

    call_id: Name
    content: Any
    """The text the tool returned, as it came (or the value, where the host parsed it)."""
    error: bool = False
    """Whether the tool says that it failed."""


class ProposedCall(Contract):
    """A write as the model proposes it."""

    tool: Name
    arguments: Any
    """An object, or better: the JSON text that the provider gave, as it came."""
    call_id: CallId = ""


class ReviewCalls(Request):
    """The writes of one model message, in order."""

    calls: Annotated[list[ProposedCall], Field(min_length=1, max_length=MAX_CALLS)]
    grants: Annotated[list[SignedGrant], Field(max_length=MAX_GRANTS)] = Field(default_factory=list)
    """Consents to some of them. One by which a call is admitted is spent; one that is not taken lifts nothing."""
    new_turn: bool = True
    """Whether a new model message begins with these calls: not when a read of the same message was issued before."""


class Redeem(Request):
    """Begins to run an admitted write: the executor's first step."""

    ticket: Name


class ReportOutcome(Request):
    """What became of an admitted write: of `ticket`, or, when the ticket is not at hand, of the decision `request`."""

    ticket: Name | None = None
    request: Name | None = None
    outcome: Outcome
    """`executed`; `refused`: a definite no, nothing changed; `uncertain`: it may have run; `withheld`: not started."""
    content: Any = None
    """What the tool returned."""

    @model_validator(mode="after")
    def _one_of_them(self) -> ReportOutcome:
        if (self.ticket is None) == (self.request is None):
            raise ValueError("name the write by its ticket or by its request")
        return self


class Answer(Contract):
    """What every answer about a session says."""

    session: Name
    version: str | None = None
    """Where sessions are stored: stands for the version of the session after this call. Send the newest you saw as
    `Ledgeragent-Version`, and a store that lost its latest state is noticed."""


class ShownPrincipal(Contract):
    """Whose authority the session acts under."""

    id: Name
    source: Literal["host", "proof", "claimed"]
    """Passed at opening, proved by an authentication read, or only claimed."""
    claims: dict[str, Any]


class OpenTicket(Contract):
    """An admitted write that was not reported yet. Its ticket is not shown: who lost it can only report."""

    request: Name
    tool: Name
    call_id: str
    started: bool
    """Whether the ticket was redeemed. If so it ends as executed, refused or uncertain, else as withheld."""


class SessionShown(Answer):
    """A session."""

    domain: DomainName
    enforced: bool
    """False: a shadow, which judges and holds nothing back."""
    now: Instant
    turn: Count
    principal: ShownPrincipal | None
    ledger_digest: Name
    open: list[OpenTicket]
    idle_seconds: float
    """After so long without a call the session ends."""


class ReadIssued(Answer):
    """A read may be made now; its return must name `call_id`."""

    call_id: Name
    tool: Name
    arguments: dict[str, Any]


class Unusable(Contract):
    """A part of a return that is no fact, and why."""

    path: str
    reason: str


class Observed(Answer):
    """What became of a return. A failed read changes nothing."""

    call_id: Name
    tool: Name
    paths: list[Path]
    problems: list[Unusable]


class Wanted(Contract):
    """A read that would settle what is missing."""

    tool: Name
    arguments: dict[str, str]
    ask: list[str]
    """Arguments that only the user can give."""
    path: Path


class NoDecision(Contract):
    """Why there is no decision: the engine or the host, never a policy."""

    code: Name
    message: str


class Reviewed(Contract):
    """What the gate says to one call. It may run only with a ticket."""

    call_id: str
    tool: str
    verdict: Verdict
    would: Verdict
    """What the gate says; differs from `verdict` only in a shadow."""
    request: Name
    ticket: str | None
    """With allow, else null."""
    message: str
    """For the model."""
    user_message: str
    """For the user."""
    reads: list[Wanted]
    decision: Decision | None
    error: NoDecision | None
    approval_request: ApprovalRequest | None
    """What somebody must consent to, and see before. Null when it would not be enough, or no grants are taken here."""
    refused_grants: list[str]
    """Why grants of the request were not taken for this call, one line each."""


class ReviewsGiven(Answer):
    """One review per call, in order. Run the admitted ones in order, each with its ticket."""

    turn: Count
    reviews: list[Reviewed]


class Redeemed(Answer):
    """Run the tool now, once, with exactly these arguments, then report the outcome."""

    ticket: Name
    request: Name
    call_id: str
    tool: Name
    arguments: dict[str, Any]


class OutcomeTaken(Answer):
    """The outcome is known."""

    request: Name
    outcome: Outcome


class LedgerShown(Answer):
    """The ledger as one block of text: the last message of the next model request, never in the system role."""

    text: str
    records: Count
    omitted: Count
    """Records left out of the text for its size; the gate has them."""


class Closed(Answer):
    """The session is gone; its id is never used again."""

    closed: Literal[True] = True


class ErrorShown(Contract):
    """Why nothing was done."""

    code: str
    message: str


class Refused(Contract):
    """Every answer with another status than 200 or 201. Never a verdict: nothing may run on it."""

    contract: Literal["ledgeragent.sidecar/1"] = SIDECAR
    error: ErrorShown


class Alive(Contract):
    """The process serves."""

    contract: Literal["ledgeragent.sidecar/1"] = SIDECAR
    version: str


class Readiness(Contract):
    """Whether calls would be judged now: by domain null, or why not. `sessions` is their store's."""

    contract: Literal["ledgeragent.sidecar/1"] = SIDECAR
    ready: bool
    stopping: bool
    domains: dict[str, str | None]
    sessions: str | None
