"""What can be done with a session that is at hand: each operation takes a request and gives the answer's fields.

They block (an engine is asked, a record is written) and are called by one thread per session at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ledgeragent.errors import TicketError
from ledgeragent.serve.bodies import (
    Answer,
    IssueRead,
    LedgerShown,
    Observe,
    Observed,
    OutcomeTaken,
    ReadIssued,
    Redeem,
    Redeemed,
    ReportOutcome,
    Request,
    ReviewCalls,
    ReviewsGiven,
    SessionShown,
)
from ledgeragent.serve.refusals import Refusal
from ledgeragent.session import Call, Review, Session, Ticket
from ledgeragent.view import LedgerView

Fields = dict[str, Any]


@dataclass(frozen=True)
class InUse:
    """A session in use.

    Attributes:
        session: itself.
        view: renders its ledger.
        idle_seconds: how long it may be idle.
    """

    session: Session
    view: LedgerView
    idle_seconds: float


def show(at: InUse, _: Request) -> Fields:
    """The session as it is."""
    session = at.session
    principal = session.principal
    return {
        "domain": session.domain.name,
        "enforced": session.enforced,
        "now": session.now,
        "turn": session.turn,
        "principal": principal.model_dump() if principal is not None else None,
        "ledger_digest": session.ledger.digest,
        "open": [
            {"request": one.request, "tool": one.tool, "call_id": one.call_id, "started": started}
            for one, started in session.open_tickets()
        ],
        "idle_seconds": at.idle_seconds,
    }


def ledger(at: InUse, _: Request) -> Fields:
    """The ledger rendered for the model."""
    rendered = at.view.render()
    return {"text": rendered.text, "records": rendered.records, "omitted": rendered.omitted}


def issue(at: InUse, asked: IssueRead) -> Fields:
    """Register a read."""
    if asked.new_turn:
        at.session.next_turn()
    issued = at.session.issue(asked.tool, asked.arguments, asked.call_id)
    return {"call_id": issued.call_id, "tool": issued.tool, "arguments": dict(issued.arguments)}


def observe(at: InUse, asked: Observe) -> Fields:
    """Take a return."""
    seen = at.session.observe(asked.call_id, asked.content, error=asked.error)
    at.view.note(seen.problems, seen.paths)
    return {
        "call_id": seen.call_id,
        "tool": seen.tool,
        "paths": [list(path) for path in seen.paths],
        "problems": [{"path": one.path, "reason": one.reason} for one in seen.problems],
    }


def review(at: InUse, asked: ReviewCalls) -> Fields:
    """Judge the writes of one message."""
    session = at.session
    if asked.grants and not session.takes_grants:
        raise Refusal("request.form", "no grants are taken here: the sidecar was started without --approvals")
    if asked.new_turn:
        session.next_turn()
    calls = [Call(one.tool, one.arguments, one.call_id) for one in asked.calls]
    reviews = session.review(calls, grants=asked.grants)
    return {"turn": session.turn, "reviews": [_reviewed(one, session.takes_grants) for one in reviews]}


def _reviewed(one: Review, takes_grants: bool) -> Fields:
    request = one.request if takes_grants else None
    return {
        "call_id": one.call.call_id,
        "tool": one.call.tool,
        "verdict": one.verdict,
        "would": one.would,
        "request": one.gate_input["request"],
        "ticket": one.ticket.id if one.ticket is not None else None,
        "message": one.message,
        "user_message": one.user_message,
        "reads": [
            {"tool": read.tool, "arguments": dict(read.arguments), "ask": list(read.ask), "path": list(read.path)}
            for read in one.reads
        ],
        "decision": one.decision.model_dump() if one.decision is not None else None,
        "error": {"code": one.failure.code, "message": one.failure.message} if one.failure is not None else None,
        "approval_request": request.model_dump() if request is not None else None,
        "refused_grants": list(one.refused_grants),
    }


def withdraw(at: InUse, given: Fields) -> None:
    """Withhold what a review admitted whose answer nobody took."""
    for one in given["reviews"]:
        if one["ticket"] is not None:
            at.session.report(at.session.ticket(one["ticket"]), "withheld")


def redeem(at: InUse, asked: Redeem) -> Fields:
    """Begin to run an admitted write."""
    ticket = at.session.ticket(asked.ticket)
    arguments = at.session.redeem(ticket)
    return {
        "ticket": ticket.id,
        "request": ticket.request,
        "call_id": ticket.call_id,
        "tool": ticket.tool,
        "arguments": arguments,
    }


def report(at: InUse, asked: ReportOutcome) -> Fields:
    """Take the outcome of an admitted write."""
    ticket = _named(at.session, asked)
    at.session.report(ticket, asked.outcome, asked.content)
    return {"request": ticket.request, "outcome": asked.outcome}


def _named(session: Session, asked: ReportOutcome) -> Ticket:
    if asked.ticket is not None:
        return session.ticket(asked.ticket)
    for ticket, _ in session.open_tickets():
        if ticket.request == asked.request:
            return ticket
    raise TicketError("no open write of this session has this request: it was reported, or never admitted")


def _read_key(asked: IssueRead) -> str | None:
    return asked.call_id and f"reads {asked.call_id}"


@dataclass(frozen=True)
class Operation:
    """One thing to do with a session.

    Attributes:
        run: does it.
        asked: the request's model.
        answered: the answer's model.
        repeats: what a request is about, such that the same one again gets the same answer; None for nothing.
        ends: what such an answer makes a thing of the past: the same request again means another one then.
        winding_down: whether it is still done while the sidecar stops: it ends things and begins none.
    """

    run: Callable[[InUse, Any], Fields]
    asked: type[Request]
    answered: type[Answer]
    repeats: Callable[[Any], str | None] = lambda _: None
    ends: Callable[[Any], str | None] = lambda _: None
    winding_down: bool = False


OPERATIONS: Final[Mapping[str, Operation]] = {
    "reads": Operation(
        issue, IssueRead, ReadIssued, _read_key, lambda asked: asked.call_id and f"observations {asked.call_id}"
    ),
    "observations": Operation(
        observe,
        Observe,
        Observed,
        lambda asked: f"observations {asked.call_id}",
        lambda asked: f"reads {asked.call_id}",
        winding_down=True,
    ),
    "reviews": Operation(review, ReviewCalls, ReviewsGiven),
    "redemptions": Operation(redeem, Redeem, Redeemed),
    "outcomes": Operation(
        report,
        ReportOutcome,
        OutcomeTaken,
        lambda asked: f"outcomes {asked.ticket or asked.request}",
        winding_down=True,
    ),
}
"""By the last part of the path that a request is posted to."""

SHOW: Final = Operation(show, Request, SessionShown, winding_down=True)
LEDGER: Final = Operation(ledger, Request, LedgerShown, winding_down=True)
