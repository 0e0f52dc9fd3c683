"""A session as a document: what has to survive when another process goes on with it.

Strict models, so that nothing is coerced on the way in and nothing is written that could not be read back, and the
conditions that hold between the parts of a sound session. Where documents are kept, and how one is proved to be
unchanged, is the business of `ledgeragent.sessions`; the ledger has a document of its own inside this one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

from pydantic import ValidationError

from ledgeragent.contracts import Contract, Count, DomainName, Instant, Name, Path, Principal, described
from ledgeragent.domain import Domain
from ledgeragent.errors import BadInput, LedgerError
from ledgeragent.jsonio import check

SESSION: Final = "ledgeragent.session/1"


class SavedWrite(Contract):
    """An admitted write."""

    number: Count
    tool: str
    arguments: dict[str, Any]
    outcome: Literal["executed", "uncertain", "pending"]


class SavedDigest(Contract):
    """A record that decided, as it was then; None where nothing had been read."""

    path: Path
    digest: str | None


class SavedTicket(Contract):
    """The open ticket of a pending write."""

    id: Name
    call_id: str
    request: Name
    write: Count
    """The write's number; tool and arguments are the write's."""
    records: list[SavedDigest]
    running: bool


class SavedRead(Contract):
    """A read that was issued and has not returned."""

    call_id: Name
    tool: Name
    arguments: dict[str, Any]
    issued: Count
    proves: bool


class SavedRejection(Contract):
    """How often a call was rejected, and at which ledger."""

    call: Name
    """Digest of tool and arguments."""
    ledger: Name
    count: Count


class SavedSession(Contract):
    """Everything about a session that decides."""

    contract: Literal["ledgeragent.session/1"]
    id: Name
    domain: DomainName
    enforced: bool
    """Whether a `Gate` admitted its writes, or a `ShadowGate` let them through."""
    now: Instant
    turn: Count
    event: Count
    principal: Principal | None
    """Whom the host authenticated; one that a read proved is in the ledger."""
    closed: str | None
    writes: list[SavedWrite]
    tickets: list[SavedTicket]
    issued: list[SavedRead]
    rejected: list[SavedRejection]
    spent: list[Name]
    """Ids of the grants that were used, sorted."""
    seen: list[str]
    """Every word of every tool return, sorted."""
    seen_all: bool
    ledger: dict[str, Any]


def to_document(parts: Mapping[str, Any]) -> dict[str, Any]:
    """The document made of a session's parts.

    Raises:
        BadInput: when something in it could not be read back.
    """
    document = {"contract": SESSION, **parts}
    try:
        SavedSession.model_validate(document)
    except ValidationError as error:
        raise BadInput(f"the session cannot be written as a document: {described(error)}") from None
    for name in ("principal", "writes", "issued"):
        check(document[name], what=f"the session's {name}")
    return document


def from_document(document: Mapping[str, Any], domain: Domain) -> SavedSession:
    """Read a document.

    Raises:
        LedgerError: when it is not a sound session of this domain.
    """
    if document.get("contract") != SESSION or document.get("domain") != domain.name:
        raise LedgerError(f"not a session of domain {domain.name!r} under contract {SESSION!r}")
    try:
        saved = SavedSession.model_validate(document)
        for write in saved.writes:
            check(write.arguments, what="arguments of a write")
        for read in saved.issued:
            check(read.arguments, what="arguments of a read")
    except (ValidationError, BadInput) as error:
        what = described(error) if isinstance(error, ValidationError) else error
        raise LedgerError(f"the session's text is damaged: {what}") from None
    problem = _problem(saved, domain)
    if problem is not None:
        raise LedgerError(f"the session's text is damaged: {problem}")
    return saved


def _problem(saved: SavedSession, domain: Domain) -> str | None:
    """The first thing about it that no session can come to."""
    numbers = [write.number for write in saved.writes]
    if numbers != sorted(set(numbers)) or any(number > saved.event for number in numbers):
        return "the writes are not in the order in which they were admitted"
    pending = sorted(write.number for write in saved.writes if write.outcome == "pending")
    if pending != sorted(ticket.write for ticket in saved.tickets):
        return "a pending write has no ticket, or a ticket no pending write"
    if sum(ticket.running for ticket in saved.tickets) > 1:
        return "more than one write is running"
    if _repeats(ticket.id for ticket in saved.tickets):
        return "two tickets have one id"
    if _repeats(read.call_id for read in saved.issued) or any(read.issued > saved.event for read in saved.issued):
        return "a read is under way twice, or was issued in the future"
    if _repeats(one.call for one in saved.rejected):
        return "the rejections of one call are counted twice"
    if any(domain.is_write(read.tool) for read in saved.issued):
        return f"what is under way as a read is none in domain {domain.name!r}"
    return None


def _repeats(names: Iterable[str]) -> bool:
    listed = list(names)
    return len(set(listed)) != len(listed)
