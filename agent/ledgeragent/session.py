"""A session: one conversation's ledger, history and tickets, tied to a gate.

The session is the only way facts get in and calls get out. It issues reads and takes their returns, has writes judged
in order, gives every admitted write a one-use ticket, and takes the outcomes. All its methods may be called from any
thread; they are serialised. It can be written as a document and read back by another process; where that is kept, and
who may go on with it, is the business of `ledgeragent.sessions`.
"""

from __future__ import annotations

import logging
import re
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, Self, get_args

from pydantic import ValidationError

from ledgeragent import telemetry
from ledgeragent.approval import Approvals, Approve, asked
from ledgeragent.contracts import (
    GATE_INPUT,
    RECORD,
    ApprovalRequest,
    Decision,
    DecisionRecord,
    EngineShown,
    FactRead,
    GateInput,
    Outcome,
    OutcomeRecord,
    Principal,
    ReadTool,
    SignedGrant,
    Verdict,
    WriteTool,
    described,
    is_instant,
)
from ledgeragent.errors import BadInput, LedgerError, RecordError, SessionClosed, TicketError, origin, shown_id
from ledgeragent.feedback import (
    USER_FAILURE,
    SuggestedRead,
    failure_message,
    model_message,
    suggested_reads,
    user_message,
)
from ledgeragent.gate import Failure, Gate, Judged, Rehearsal, ShadowGate
from ledgeragent.jsonio import canonical, check, copied, digest, parse
from ledgeragent.ledger import Absorbed, Ledger, Limits, NotAFact, Provenance, Slice
from ledgeragent.paths import NOTHING, Path, Scope
from ledgeragent.records import Recorder, wall_clock
from ledgeragent.saved import SavedSession, SavedTicket, from_document, to_document

__all__ = ["Call", "IssuedCall", "Keeper", "Observation", "Review", "Session", "Ticket", "ToolRefused"]

Keeper = Callable[["Session"], None]
"""Keeps a session's state where other processes find it, before a ticket, the arguments to run a write with, or the
answer to a reported outcome leave the session. What it raises keeps them in and ends the session here."""

_MAX_SEEN: Final = 500_000
_MAX_REMEMBERED: Final = 1_000_000
MAX_GRANTS: Final = 20
"""Most grants with one review."""
_MAX_REJECTED: Final = 1000
"""Of so many rejected calls it is counted how often they came: new ones for ever do not fill the memory."""
_log = logging.getLogger(__name__)
_WORD: Final = re.compile(r"[\w@.+'-]+")


class ToolRefused(Exception):
    """Raised by a tool inside `Session.execute` for a definite no: nothing was changed."""


@dataclass(frozen=True)
class Call:
    """A call as the model proposes it.

    Attributes:
        tool: the tool's name.
        arguments: an object, or the JSON text a provider gave.
        call_id: the provider's id for the call.
    """

    tool: str
    arguments: Any
    call_id: str = ""


@dataclass(frozen=True)
class IssuedCall:
    """A call that changes nothing, on its way to its tool: `call_id` is what its return must name."""

    call_id: str
    tool: str
    arguments: Mapping[str, Any]
    issued: int
    proves: bool


@dataclass(frozen=True)
class Observation:
    """What became of a return: the paths it filled, and what was kept out and why."""

    call_id: str
    tool: str
    paths: tuple[Path, ...] = ()
    problems: tuple[NotAFact, ...] = ()


@dataclass(frozen=True)
class Ticket:
    """The right to run one admitted write once, with exactly these arguments.

    Attributes:
        id: random, not to be guessed.
        tool: the tool.
        arguments: the parsed arguments to run it with, as canonical JSON text.
        request: the decision's request id.
    """

    id: str
    call_id: str
    tool: str
    arguments: str
    request: str


@dataclass(frozen=True)
class Review:
    """What the gate says to one proposed call.

    Attributes:
        verdict: allow, revise or block: what applies.
        would: what the gate says; another verdict than `verdict` only under a `ShadowGate`, which holds nothing back.
        decision: the accepted decision, or None when there is none (then `failure` says why, and it is a block).
        reads: reads that would settle what is missing.
        message: for the model.
        user_message: for the user.
        ticket: what the executor must be shown; only with allow.
        request: what somebody must consent to; None when that would not be enough, and with allow.
        refused_grants: why grants passed with the call were not taken for it, one line each.
    """

    call: Call
    verdict: Verdict
    decision: Decision | None
    failure: Failure | None
    reads: tuple[SuggestedRead, ...]
    message: str
    user_message: str
    ticket: Ticket | None
    gate_input: Mapping[str, Any]
    would: Verdict
    request: ApprovalRequest | None = None
    refused_grants: tuple[str, ...] = ()


@dataclass
class _Write:
    """An admitted write. `number` orders it among the session's writes."""

    number: int
    tool: str
    arguments: dict[str, Any]
    outcome: str = "pending"

    @property
    def ran(self) -> bool:
        """Whether it ran or may have run."""
        return self.outcome != "pending"


@dataclass
class _OpenTicket:
    ticket: Ticket
    write: _Write
    records: Mapping[Path, str | None]
    running: bool = False


@dataclass
class _Rejected:
    ledger: str
    count: int


@dataclass
class _State:
    event: int = 0
    turn: int = 0
    writes: list[_Write] = field(default_factory=list)
    issued: dict[str, IssuedCall] = field(default_factory=dict)
    tickets: dict[str, _OpenTicket] = field(default_factory=dict)
    rejected: dict[str, _Rejected] = field(default_factory=dict)
    spent: set[str] = field(default_factory=set)
    seen: set[str] = field(default_factory=set)
    seen_all: bool = False
    closed: str | None = None


class Session:
    """One conversation under a gate."""

    def __init__(
        self,
        gate: Gate | ShadowGate | Rehearsal,
        *,
        now: str,
        principal: Principal | None = None,
        session_id: str | None = None,
        recorder: Recorder | None = None,
        limits: Limits | None = None,
        keeper: Keeper | None = None,
        approvals: Approvals | None = None,
    ) -> None:
        """Open a session with an empty ledger.

        Args:
            gate: judges the writes; a `ShadowGate` only watches; a `Rehearsal` gives no tickets.
            now: the session's clock, RFC 3339 with an offset; policies read no other.
            principal: whom the host authenticated itself (source `host`), or None.
            session_id: default: a random one.
            recorder: keeps a record of every decision and outcome, or None.
            limits: size caps of the ledger.
            keeper: keeps the session's state beyond this process, or None.
            approvals: whose grants it takes; None: nobody's.

        Raises:
            BadInput: for a clock without an offset, or a principal the host did not authenticate.
        """
        self.gate = gate
        self.domain = gate.domain
        self.id = session_id or secrets.token_hex(8)
        self.ledger = Ledger(gate.domain, limits or Limits())
        self._recorder = recorder
        self._keeper = keeper
        self._approvals = approvals
        self._lock = threading.RLock()
        self._state = _State()
        self._host_principal: Principal | None = None
        self.now = now
        self.set_clock(now)
        if principal is not None:
            self.identify(principal)

    # Clock, turn, principal -------------------------------------------------------------------------------------

    def set_clock(self, now: str) -> None:
        """Move the session's clock forward. An earlier time than the session has seen is not taken: what is over, be it
        a day for cancelling or an override, does not begin again because a host's clock jumped.

        Raises:
            BadInput: unless it is RFC 3339 with an offset (`2024-05-15T15:00:00-05:00`).
        """
        moved = _instant(now)
        if moved < _instant(self.now):
            _log.warning("a session's clock went back to %s; it keeps %s", now, self.now)
            return
        self.now = now

    def next_turn(self) -> int:
        """A new model message begins."""
        with self._lock:
            self._state.turn += 1
            return self._state.turn

    @property
    def turn(self) -> int:
        """The number of the model message at hand."""
        return self._state.turn

    def identify(self, principal: Principal) -> None:
        """The host authenticated somebody. A session has one principal: a change ends it.

        Raises:
            BadInput: when the source is not `host` or the id is empty.
            SessionClosed: when another principal was known; nothing of this session is used for the new one.
        """
        if principal.source != "host":
            raise BadInput("only a principal that the host authenticated (source 'host') can be passed in")
        principal = principal.model_copy(update={"claims": copied(principal.claims)})  # as they read in a document
        with self._lock:
            self._must_be_open()
            known = self.principal
            if known is not None and (known.id != principal.id or self._host_principal not in (None, principal)):
                self.close("the principal changed")
                raise SessionClosed("the principal changed: this session has ended, open a new one")
            self._host_principal = principal

    @property
    def principal(self) -> Principal | None:
        """The principal: the host's, else the one an authentication read proved (or the customer claimed)."""
        if self._host_principal is not None:
            return self._host_principal
        known = self.ledger.lookup(tuple(self.domain.file.principal_path))
        source = self.domain.file.principal
        if known is NOTHING or not isinstance(known, str) or not known or source == "host":
            return None
        return Principal(id=known, source=source)

    # Reads ------------------------------------------------------------------------------------------------------

    def issue(self, tool: str, arguments: Any, call_id: str | None = None) -> IssuedCall:
        """Register a call that changes nothing, before it is made.

        Args:
            tool: a declared read, or a tool without effect.
            arguments: an object, or the provider's JSON text.
            call_id: the provider's id; default: a random one.

        Raises:
            LedgerError: when the tool is a write or undeclared (have it reviewed), or the id is already under way.
            BadInput: when the arguments are no JSON object.
        """
        with self._lock:
            self._must_be_open()
            if self.domain.is_write(tool):
                what = self._named(tool)
                raise LedgerError(f"{what} may change the environment: have it reviewed, do not issue it as a read")
            parsed = parse(arguments, what=f"arguments of {tool}") if isinstance(arguments, str) else arguments
            check(parsed, what=f"arguments of {tool}")
            if not isinstance(parsed, Mapping):
                raise BadInput(f"arguments of {tool} must be a JSON object, not {type(parsed).__name__}")
            own_id = call_id or secrets.token_hex(8)
            if own_id in self._state.issued:
                raise LedgerError(f"a call of {tool} with this id is already under way; wait for its return")
            own = copied(parsed)  # the caller may go on changing theirs
            issued = IssuedCall(own_id, tool, own, self._next_event(), self._proves(tool, own))
            self._state.issued[own_id] = issued
            return issued

    def observe(self, call_id: str, content: Any, *, error: bool = False) -> Observation:
        """Take the return of an issued call.

        Args:
            call_id: the id the return names.
            content: the returned text (or the value, where the host parsed it).
            error: whether the tool says it failed.

        Returns:
            What became a fact and what did not. A failed read changes nothing.

        Raises:
            LedgerError: when no such call is under way: never issued, or already answered.
        """
        with self._lock:
            self._must_be_open()
            call = self._state.issued.pop(call_id, None)
            if call is None:
                raise LedgerError("no such call is under way in this session: never issued, or already answered")
            read = _read(content)
            observation = self._observed(call, content, read, error)
            self._remember(content, read)
            return observation

    def shown(self, content: Any) -> None:
        """The model sees something that no issued call returned (a document, a prompt): no fact, but from now on no
        authentication read takes it for the customer's own knowledge.

        Args:
            content: the text, or a JSON value.
        """
        with self._lock:
            self._remember(content, _read(content))

    def _observed(self, call: IssuedCall, content: Any, read: Any, error: bool) -> Observation:
        tool = self.domain.tools[call.tool]
        if error or self._reads_as_failure(content) or not isinstance(tool, ReadTool):
            return Observation(call.call_id, call.tool)
        absorbed = self.ledger.absorb(
            tool,
            call.arguments,
            content,
            Provenance(call.tool, call.call_id, self.turn, self.now, call.issued),
            proves=call.proves,
            principal=self._principal_id(),
            read=read,
        )
        return Observation(call.call_id, call.tool, absorbed.paths, absorbed.problems)

    def _reads_as_failure(self, content: Any) -> bool:
        return isinstance(content, str) and any(pattern.match(content) for pattern in self.domain.failures)

    # Writes -----------------------------------------------------------------------------------------------------

    def review(
        self, calls: Sequence[Call], *, grants: Sequence[SignedGrant] = (), approve: Approve | None = None
    ) -> list[Review]:
        """Judge the writes of one model message, in order.

        Args:
            calls: writes (or undeclared tools) as the model proposed them; each sees the admitted ones before it.
            grants: consents to some of them. One that is not taken lifts nothing; the review says why. One by which a
                call is admitted is spent, whatever becomes of the call.
            approve: is asked, once for a call, where consent is all that is wanting; what it gives counts at once, for
                this call before those after it. The session waits meanwhile. What it raises is no consent.

        Returns:
            One review per call. Admitted calls carry a ticket; run them in order.

        Raises:
            LedgerError: when one of them changes nothing: issue it as a read.
            BadInput: for grants, or somebody to ask, in a session that takes none; or for more grants than are taken.
            SessionError: when what was admitted could not be kept: then none of it is, and the session ends here.
        """
        with self._lock:
            self._must_be_open()
            for call in calls:
                if not self.domain.is_write(call.tool):
                    raise LedgerError(f"{call.tool!r} changes nothing: issue it and observe its return")
            if not self.takes_grants and (grants or approve is not None):
                raise BadInput("this session takes no grants: open it with `approvals`")
            if len(grants) > MAX_GRANTS:
                raise BadInput(f"{len(grants)} grants at once; at most {MAX_GRANTS} are taken")
            siblings: list[_Write] = []
            reviews = [self._consented(call, siblings, grants, approve) for call in calls]
            if siblings:
                self._keep()
            return reviews

    def _consented(
        self, call: Call, siblings: list[_Write], grants: Sequence[SignedGrant], approve: Approve | None
    ) -> Review:
        review = self._watched(call, siblings, grants)
        if approve is None or review.request is None:
            return review
        given = _consent(approve, review.request)
        return self._watched(call, siblings, [*grants, *given]) if given else review

    def _watched(self, call: Call, siblings: list[_Write], grants: Sequence[SignedGrant]) -> Review:
        declared = call.tool if call.tool in self.domain.tools else None
        with telemetry.reviewing(self.domain.name, declared, enforced=self.enforced) as tell:
            review = self._review(call, siblings, grants)
            tell(review.would, review.decision, review.failure.code if review.failure is not None else None)
            return review

    def _review(self, call: Call, siblings: list[_Write], grants: Sequence[SignedGrant]) -> Review:
        gate_input, cut = self._gate_input(call, siblings)
        refused = self._take(grants, gate_input)
        judged = self.gate.judge(gate_input)
        judged = self._kept(gate_input, cut, call, judged)
        if judged.decision is None or judged.verdict != "allow":
            if judged.decision is not None:  # an engine that fails says nothing about the call
                self._count_rejection(gate_input)
            rejection = replace(self._rejection(call, judged, gate_input, cut), refused_grants=refused)
            # Even a shadow cannot let through what is no call.
            if self.enforced or self._rehearses or not isinstance(gate_input["action"]["arguments"], Mapping):
                return rejection
            return self._admitted(rejection, siblings, cut.records)
        message = model_message(call.tool, judged.decision, ())
        allowed = Review(
            call, "allow", judged.decision, None, (), message, "", None, gate_input, "allow", None, refused
        )
        if self._rehearses:
            return allowed
        # Before anything of it leaves the session, so that it is kept with the admission.
        self._state.spent |= {one.grant for one in judged.decision.obligations if one.grant is not None}
        return self._admitted(allowed, siblings, cut.records)

    def _take(self, grants: Sequence[SignedGrant], gate_input: dict[str, Any]) -> tuple[str, ...]:
        """Put the grants for this call into the gate input; why others are not taken."""
        taken, refused = [], []
        for signed in grants:
            problem = self._problem_of(signed, gate_input)
            if problem is None:
                taken.append(signed.grant.model_dump())
            else:
                refused.append(f"grant {shown_id(signed.grant.id)}: {problem}")
        gate_input["grants"] = sorted(taken, key=lambda grant: str(grant["id"]))
        return tuple(refused)

    def _problem_of(self, signed: SignedGrant, gate_input: Mapping[str, Any]) -> str | None:
        if self._approvals is None:
            return "this session takes none"
        if signed.grant.id in self._state.spent:
            return "it was used before"
        return self._approvals.problem(signed, gate_input)

    @property
    def takes_grants(self) -> bool:
        """Whether it was opened with somebody's keys."""
        return self._approvals is not None

    @property
    def enforced(self) -> bool:
        """Whether the gate holds back what it does not allow."""
        return isinstance(self.gate, Gate)

    @property
    def _rehearses(self) -> bool:
        """Whether the policies are only asked: then there are no tickets, and nothing runs."""
        return isinstance(self.gate, Rehearsal)

    def _admitted(self, review: Review, siblings: list[_Write], records: Mapping[Path, str | None]) -> Review:
        call, gate_input = review.call, review.gate_input
        write = self._admit(call.tool, gate_input["action"]["arguments"])
        siblings.append(write)
        ticket = Ticket(
            secrets.token_hex(16), call.call_id, call.tool, canonical(write.arguments), gate_input["request"]
        )
        self._state.tickets[ticket.id] = _OpenTicket(ticket, write, records)
        return replace(review, verdict="allow", ticket=ticket)

    def _rejection(self, call: Call, judged: Judged, gate_input: Mapping[str, Any], cut: Slice) -> Review:
        decision = judged.decision
        if decision is None:
            failure = judged.failure or Failure("host.internal", "no decision")
            text = failure_message(call.tool, failure.code)
            return Review(call, "block", None, failure, (), text, USER_FAILURE, None, gate_input, "block")
        reads = suggested_reads(self.domain, decision.findings)
        message = model_message(call.tool, decision, reads)
        said, verdict = user_message(decision), decision.verdict
        request = asked(gate_input, decision, cut.read) if self.enforced else None
        return Review(call, verdict, decision, None, reads, message, said, None, gate_input, verdict, request)

    def _gate_input(self, call: Call, siblings: Sequence[_Write]) -> tuple[dict[str, Any], Slice]:
        arguments = _understood(call.arguments)
        scope = self._scope(arguments)
        cut = self.ledger.slice(self.domain.needs.get(call.tool, ()), scope)
        principal = self.principal
        numbers = {write.number for write in siblings}
        earlier = [write for write in self._state.writes if write.number not in numbers]
        gate_input = {
            "contract": GATE_INPUT,
            "request": secrets.token_hex(16),
            "domain": self.domain.name,
            "session": {
                "id": self.id,
                "now": self.now,
                "turn": self.turn,
                "principal": principal.model_dump() if principal is not None else None,
                "rejections": self._rejections(call.tool, arguments),
            },
            "action": {"call_id": call.call_id, "tool": call.tool, "arguments": arguments},
            "ledger": cut.ledger,
            "stale": cut.stale,
            "history": [
                {"tool": write.tool, "arguments": copied(write.arguments), "outcome": write.outcome}
                for write in earlier
            ],
            "siblings": [{"tool": write.tool, "arguments": copied(write.arguments)} for write in siblings],
            "grants": [],
        }
        return gate_input, cut

    def _kept(self, gate_input: Mapping[str, Any], cut: Slice, call: Call, judged: Judged) -> Judged:
        """Put the decision on record; without a record there is no decision to act on."""
        if self._recorder is None:
            return judged
        revision = judged.decision.policy.revision if judged.decision is not None else ""
        try:
            self._recorder.write(
                DecisionRecord(
                    contract=RECORD,
                    kind="decision",
                    at=wall_clock(),
                    session=self.id,
                    call_id=call.call_id,
                    input=GateInput.model_validate(gate_input),
                    decision=judged.decision,
                    error=judged.failure.code if judged.failure is not None else None,
                    verdict=judged.verdict,
                    enforced=self.enforced,
                    revision=revision,
                    engine=EngineShown(
                        name=self.gate.engine.name, version=self.gate.engine.version, decision_id=judged.decision_id
                    ),
                    ledger_digest=self.ledger.digest,
                    facts=[
                        FactRead(path=list(path), tool=of.tool, call_id=of.call_id, turn=of.turn, at=of.at)
                        for path, of in cut.read.items()
                    ],
                    latency_ms=judged.latency_ms,
                )
            )
        except (RecordError, ValueError) as error:
            what = f"it fits no record: {described(error)}" if isinstance(error, ValidationError) else str(error)
            if not self.enforced:
                _log.error("a shadow's decision could not be recorded: %s", what)
                return judged
            return Judged("block", None, Failure("host.record", what), judged.latency_ms)
        return judged

    def _admit(self, tool: str, arguments: Mapping[str, Any]) -> _Write:
        """At once the write is pending in the history and what it changes is stale."""
        write = _Write(self._next_event(), tool, copied(arguments))
        self._state.writes.append(write)
        self.ledger.mark(write.number, self.domain.changes.get(tool, ()), self._scope(arguments))
        return write

    # Tickets and outcomes ---------------------------------------------------------------------------------------

    def redeem(self, ticket: Ticket) -> dict[str, Any]:
        """Begin to run an admitted write.

        Returns:
            The arguments to run it with: the parsed ones that were judged.

        Raises:
            TicketError: when it is not this session's, already spent, another write is running, or a fact that
                decided was read anew with another value since (then it is withheld: have the call reviewed again).
            SessionError: when it could not be kept that it runs: then it must not, and the session ends here.
        """
        with self._lock:
            self._must_be_open()
            held = self._held(ticket)
            named = self._named(ticket.tool)
            if held.running:
                raise TicketError(f"ticket for {named} is already spent: a ticket runs one call once")
            if any(one.running for one in self._state.tickets.values()):
                raise TicketError(f"{named} must wait: another write of this session is running")
            later = {one.number for one in self._state.writes if one.number > held.write.number and one.ran}
            moved = not self.ledger.unchanged(held.records) or self.ledger.touched_by(later, held.records)
            if moved and self.enforced:
                self._finish(held, "withheld")
                raise TicketError(f"facts that admitted {named} have changed since; have it reviewed again")
            held.running = True
            self._keep(started=held)
            arguments: dict[str, Any] = parse(ticket.arguments, what="the ticket's arguments")
            return arguments

    def report(self, ticket: Ticket, outcome: Outcome, content: Any = None) -> None:
        """Say what became of an admitted write.

        Args:
            ticket: its ticket.
            outcome: `executed`, `refused` (a definite no, nothing changed), `uncertain` (it may have run), or
                `withheld` (it was never started).
            content: what the tool returned; never a fact, unless the domain takes write returns for reads.

        Raises:
            TicketError: when it was not redeemed, already reported, or `withheld` is said of one that was started.
            RecordError: when the outcome could not be recorded; it counts all the same.
            SessionError: when the outcome could not be kept; whoever goes on counts the write as uncertain.
        """
        with self._lock:
            held = self._held(ticket)
            if outcome not in get_args(Outcome):
                raise TicketError(f"{outcome!r} is no outcome of a call: use {', '.join(get_args(Outcome))}")
            if held.running == (outcome == "withheld"):
                what = "was started and cannot be withheld" if held.running else "was not redeemed"
                raise TicketError(f"the ticket for {self._named(ticket.tool)} {what}")
            read = _read(content)
            self._remember(content, read)
            self._finish(held, outcome)
            tool = self.domain.tools.get(ticket.tool)
            if outcome == "executed" and self.domain.file.absorb_write_returns and isinstance(tool, WriteTool):
                self._absorb_write(tool, held, content, read)
            self._keep()

    def ticket(self, ticket_id: str) -> Ticket:
        """The open ticket with this id, for a host that was given no more than the id.

        Raises:
            TicketError: when there is none: spent, withheld, or of another session.
        """
        with self._lock:
            held = self._state.tickets.get(ticket_id)
            if held is None:
                raise TicketError("no open ticket has this id: it is spent, withheld, or of another session")
            return held.ticket

    def open_tickets(self) -> list[tuple[Ticket, bool]]:
        """Tickets that were not reported yet, oldest first, and whether each was redeemed: its write may be running."""
        with self._lock:
            return [(held.ticket, held.running) for held in self._state.tickets.values()]

    def execute(self, ticket: Ticket, run: Callable[[str, dict[str, Any]], Any]) -> Any:
        """Redeem a ticket, run the tool and report, in one go.

        Args:
            ticket: the ticket of an admitted write.
            run: called with the tool's name and the judged arguments. `ToolRefused` means a definite no; any other
                exception means that it may have run.

        Returns:
            What `run` returned.

        Raises:
            TicketError: as `redeem`; and whatever `run` raises, after the outcome was taken.
        """
        with self._lock:
            arguments = self.redeem(ticket)
            try:
                content = run(ticket.tool, arguments)
            except ToolRefused:
                self.report(ticket, "refused")
                raise
            except BaseException:
                self.report(ticket, "uncertain")
                raise
            self.report(ticket, "executed", content)
            return content

    def _absorb_write(self, tool: WriteTool, held: _OpenTicket, content: Any, read: Any) -> Absorbed:
        provenance = Provenance(tool.name, held.ticket.call_id, self.turn, self.now, self._next_event())
        return self.ledger.absorb(
            tool, held.write.arguments, content, provenance, principal=self._principal_id(), read=read
        )

    def _held(self, ticket: Ticket) -> _OpenTicket:
        held = self._state.tickets.get(ticket.id)
        if held is None or held.ticket != ticket:
            named = self._named(ticket.tool)
            raise TicketError(f"no open ticket for {named}: it is spent, withheld, or of another session")
        return held

    def _finish(self, held: _OpenTicket, outcome: Outcome) -> None:
        del self._state.tickets[held.ticket.id]
        self._settle(held.write, outcome)
        if self._recorder is None:
            return
        try:
            self._recorder.write(
                OutcomeRecord(
                    contract=RECORD,
                    kind="outcome",
                    at=wall_clock(),
                    session=self.id,
                    call_id=held.ticket.call_id,
                    request=held.ticket.request,
                    outcome=outcome,
                )
            )
        except RecordError as error:
            if self.enforced:
                raise
            _log.error("a shadow's outcome could not be recorded: %s", error)

    def _settle(self, write: _Write, outcome: Outcome) -> None:
        if outcome in ("refused", "withheld"):
            self._state.writes.remove(write)
            self.ledger.unmark(write.number)
        else:
            write.outcome = outcome
            self.ledger.settle(write.number, self._next_event())

    def close(self, reason: str = "closed by the host") -> None:
        """End the session. Writes under way count as uncertain, admitted ones that were not started as withheld."""
        with self._lock:
            self._state.closed = self._state.closed or reason
            open_now = self._state.tickets.values()
            self._finish_all({one.ticket.id: "uncertain" if one.running else "withheld" for one in open_now})

    def recover(self) -> None:
        """Go on after the process that held this session was lost in the middle of a turn.

        Writes under way count as uncertain, even those it had not been seen to start; reads under way are given up;
        and since returns may have been shown of which nothing was kept, no authentication read proves anything here
        any more.

        Raises:
            RecordError: when an outcome could not be recorded; it counts all the same.
        """
        with self._lock:
            self._state.issued.clear()
            self._state.seen_all = True
            self._finish_all(dict.fromkeys(self._state.tickets, "uncertain"))

    def hand_over(self) -> None:
        """The session goes on elsewhere from what was kept of it: this object takes part in nothing any more.

        Unlike `close` it settles nothing: what is under way can be redeemed and reported where the session goes on.
        """
        with self._lock:
            self._state.closed = self._state.closed or "it goes on elsewhere"

    # A document -------------------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """Everything that decides, as a JSON value that `from_json` reads.

        Raises:
            BadInput: when something the host put in (a claim, an id) has no form in JSON.
        """
        with self._lock:
            state = self._state
            return to_document(
                {
                    "id": self.id,
                    "domain": self.domain.name,
                    "enforced": self.enforced,
                    "now": self.now,
                    "turn": state.turn,
                    "event": state.event,
                    "principal": self._host_principal.model_dump() if self._host_principal is not None else None,
                    "closed": state.closed,
                    "writes": [{**vars(one), "arguments": copied(one.arguments)} for one in state.writes],
                    "tickets": [_saved(held) for held in state.tickets.values()],
                    "issued": [{**vars(one), "arguments": copied(one.arguments)} for one in state.issued.values()],
                    "rejected": [{"call": call, **vars(one)} for call, one in state.rejected.items()],
                    "spent": sorted(state.spent),
                    "seen": sorted(state.seen),
                    "seen_all": state.seen_all,
                    "ledger": self.ledger.to_json(),
                }
            )

    @classmethod
    def from_json(
        cls,
        document: Mapping[str, Any],
        gate: Gate | ShadowGate,
        *,
        recorder: Recorder | None = None,
        limits: Limits | None = None,
        keeper: Keeper | None = None,
        approvals: Approvals | None = None,
    ) -> Self:
        """Read a session back. Nothing here says whether the document is the session's latest: see `Sessions`.

        Args:
            document: what `to_json` gave.
            gate: of the same domain; judges from now on.
            recorder: as for a new session.
            limits: as for a new session.
            keeper: as for a new session.
            approvals: as for a new session.

        Raises:
            LedgerError: when it is of another domain or contract, something does not fit, or a `ShadowGate` let writes
                through that wait to run under a gate.
        """
        saved = from_document(document, gate.domain)
        session = cls(
            gate,
            now=saved.now,
            session_id=saved.id,
            recorder=recorder,
            limits=limits,
            keeper=keeper,
            approvals=approvals,
        )
        if saved.tickets and session.enforced and not saved.enforced:
            raise LedgerError(
                "a shadow gate let writes of this session through that a gate did not judge; they are open"
            )
        session.ledger = Ledger.from_json(saved.ledger, gate.domain, limits)
        session._state = _restored(saved)
        session._host_principal = saved.principal
        return session

    # Inside -----------------------------------------------------------------------------------------------------

    def _keep(self, started: _OpenTicket | None = None) -> None:
        """Have the state kept; when that fails nothing leaves the session, and it is over here."""
        if self._keeper is None:
            return
        try:
            self._keeper(self)
        except BaseException as error:
            if started is not None:
                started.running = False
            try:
                self.close(f"its state could not be kept: {error}")
            except RecordError as problem:
                _log.error("an outcome could not be recorded: %s", problem)
            raise

    def _finish_all(self, outcomes: Mapping[str, Outcome]) -> None:
        problems: list[RecordError] = []
        for ticket_id, outcome in outcomes.items():
            try:
                self._finish(self._state.tickets[ticket_id], outcome)
            except RecordError as problem:
                problems.append(problem)
        if problems:
            raise problems[0]

    def _named(self, tool: str) -> str:
        """A tool for messages: what nobody declared can be any text."""
        return tool if tool in self.domain.tools else "a tool that is not declared"

    def _must_be_open(self) -> None:
        if self._state.closed is not None:
            raise SessionClosed(f"this session has ended ({self._state.closed}): open a new one")

    def _next_event(self) -> int:
        self._state.event += 1
        return self._state.event

    def _principal_id(self) -> str | None:
        principal = self.principal
        return principal.id if principal is not None else None

    def _scope(self, arguments: Any) -> Scope:
        return Scope({"arguments": arguments if isinstance(arguments, Mapping) else {}}, self._principal_id())

    def _rejections(self, tool: str, arguments: Any) -> int:
        if not self._state.rejected:
            return 0
        held = self._state.rejected.get(digest([tool, arguments]))
        return held.count if held is not None and held.ledger == self.ledger.digest else 0

    def _count_rejection(self, gate_input: Mapping[str, Any]) -> None:
        action = gate_input["action"]
        key = digest([action["tool"], action["arguments"]])
        count = int(gate_input["session"]["rejections"]) + 1
        rejected = self._state.rejected
        rejected.pop(key, None)  # the latest last
        rejected[key] = _Rejected(self.ledger.digest, count)
        while len(rejected) > _MAX_REJECTED:
            del rejected[next(iter(rejected))]

    def _proves(self, tool: str, arguments: Mapping[str, Any]) -> bool:
        """Whether an authentication read would prove anything: not when the agent knew the answer from its tools."""
        declared = self.domain.tools[tool]
        identifying = [
            [arguments.get(name) for name in rule.unless_seen]
            for rule in (declared.facts if isinstance(declared, ReadTool) else ())
            if rule.unless_seen is not None
        ]
        return not any(all(self._was_seen(value) for value in values) for values in identifying)

    def _was_seen(self, value: Any) -> bool:
        if self._state.seen_all or len(self._state.seen) >= _MAX_SEEN:
            return True  # too much to remember: then nothing counts as the customer's own knowledge
        return all(word in self._state.seen for word in _words(value))

    def _remember(self, content: Any, read: Any) -> None:
        """Keep every text of a tool return, to tell the customer's knowledge from the agent's; `read` is its value."""
        if isinstance(content, str) and len(content) > _MAX_REMEMBERED:
            self._state.seen_all = True
            return
        texts: list[str] = []
        stack = [read]
        while stack and len(self._state.seen) < _MAX_SEEN:
            one = stack.pop()
            if isinstance(one, str):
                texts.append(one)
            elif isinstance(one, dict):
                texts.extend(one)
                stack.extend(one.values())
            elif isinstance(one, list | tuple):
                stack.extend(one)
            elif isinstance(one, Mapping):
                stack.extend((*one, *one.values()))
            elif one is not None and not isinstance(one, bool):
                texts.append(str(one))
        self._state.seen.update(_words(" ".join(texts)))


def _consent(approve: Approve, request: ApprovalRequest) -> Sequence[SignedGrant]:
    try:
        given = approve(request)
        found = () if given is None else (given,) if isinstance(given, SignedGrant) else tuple(given)[:MAX_GRANTS]
        if not all(isinstance(one, SignedGrant) for one in found):
            raise TypeError
    except Exception as error:  # noqa: BLE001 - the calls before this one are admitted: their tickets must not be lost
        _log.error("nobody could be asked for consent: %s", origin(error))
        return ()
    return found


def _instant(now: str) -> datetime:
    problem = BadInput("now must be RFC 3339 with an offset, such as 2024-05-15T15:00:00-05:00")
    if not is_instant(now):
        raise problem
    try:
        return datetime.fromisoformat(now)
    except ValueError:  # no day of the calendar
        raise problem from None


def _saved(held: _OpenTicket) -> dict[str, Any]:
    return {
        "id": held.ticket.id,
        "call_id": held.ticket.call_id,
        "request": held.ticket.request,
        "write": held.write.number,
        "records": [{"path": list(path), "digest": value} for path, value in held.records.items()],
        "running": held.running,
    }


def _restored(saved: SavedSession) -> _State:
    writes = {one.number: _Write(one.number, one.tool, one.arguments, one.outcome) for one in saved.writes}
    return _State(
        event=saved.event,
        turn=saved.turn,
        writes=list(writes.values()),
        issued={
            one.call_id: IssuedCall(one.call_id, one.tool, one.arguments, one.issued, one.proves)
            for one in saved.issued
        },
        tickets={one.id: _open_ticket(one, writes[one.write]) for one in saved.tickets},
        rejected={one.call: _Rejected(one.ledger, one.count) for one in saved.rejected},
        spent=set(saved.spent),
        seen=set(saved.seen),
        seen_all=saved.seen_all,
        closed=saved.closed,
    )


def _open_ticket(saved: SavedTicket, write: _Write) -> _OpenTicket:
    ticket = Ticket(saved.id, saved.call_id, write.tool, canonical(write.arguments), saved.request)
    return _OpenTicket(ticket, write, {tuple(one.path): one.digest for one in saved.records}, saved.running)


def _read(content: Any) -> Any:
    if not isinstance(content, str):
        return content
    try:
        return parse(content, what="the return")
    except BadInput:
        return content


def _words(value: Any) -> list[str]:
    """The words of a text, whatever stands between them: JSON that was cut off or put into a text shows as much."""
    return [word.strip(".-+'") for word in _WORD.findall(str(value).casefold())]


def _understood(arguments: Any) -> Any:
    """The arguments as JSON; a text that is not I-JSON stays a text, which fits no tool's parameters."""
    if isinstance(arguments, str):
        try:
            return parse(arguments, what="arguments")
        except BadInput:
            return arguments.encode("utf-8", "replace").decode("utf-8")[:10_000]
    try:
        check(arguments, what="arguments")
    except BadInput as problem:
        return str(problem)
    return copied(arguments)
