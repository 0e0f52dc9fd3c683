"""What a proxy's session says to a call: one ledger session, used from an event loop that serves many.

The gate may wait for a policy server and a record for the disk, so everything that touches the session is done in a
thread, one step at a time. Writes run one after the other, in the order in which they came; reads wait for no write.
Passing messages on is the business of `relay`.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

import anyio
import anyio.lowlevel
import anyio.to_thread

from ledgeragent.contracts import Outcome, ReadTool
from ledgeragent.errors import BadInput, LedgerAgentError, LedgerError, RecordError, TicketError
from ledgeragent.proxy.toollist import ToolList
from ledgeragent.session import Call, IssuedCall, Review, Session, Ticket
from ledgeragent.view import LedgerView

_T = TypeVar("_T")
_log = logging.getLogger(__name__)
_AS_DECLARED: Final = "{tool} was refused. Do not retry it; explain why to the user, or hand over:\n- [{rule}] {what}"
_UNDECLARED: Final = "gate.tool"


@dataclass(frozen=True)
class Rejection:
    """A call that does not run: what the model is told, and what a host may want to know."""

    text: str
    about: Mapping[str, Any]


@dataclass
class Running:
    """An admitted write: its arguments, and what became of it. Until it says otherwise it was never started."""

    ticket: Ticket
    arguments: dict[str, Any]
    outcome: Outcome = "uncertain"
    content: Any = None


class Guard:
    """The session of one connection."""

    def __init__(self, session: Session, clock: Callable[[], str]) -> None:
        """Guard a connection.

        Args:
            session: its own; nobody else uses it.
            clock: gives the time now, RFC 3339 with an offset.
        """
        self.session = session
        self.tools = ToolList(session.domain)
        self._clock = clock
        self._view = LedgerView(session.ledger)
        self._one = anyio.Lock()
        self._writing = anyio.Lock()
        rules = (rule for tool in session.domain.tools.values() if isinstance(tool, ReadTool) for rule in tool.facts)
        self._remembers = any(rule.unless_seen is not None for rule in rules)

    def reads(self, tool: str) -> bool:
        """Whether a call changes nothing: declared so, and offered as it is declared."""
        return not self.session.domain.is_write(tool) and self.tools.problem(tool) is None

    def as_json(self, tool: str) -> bool:
        """Whether a tool's return is read as JSON."""
        declared = self.session.domain.tools[tool]
        return any(rule.parse in ("json", "list") for rule in getattr(declared, "facts", ()))

    # Reads ------------------------------------------------------------------------------------------------------

    async def issue(self, tool: str, arguments: Any) -> str | None:
        """A read begins; gives its id, or None when it can give no facts: it passes all the same."""
        try:
            return (await self._do(self._issue, tool, arguments)).call_id
        except BadInput as problem:
            _log.warning("a call of %s passes and gives no facts: %s", tool, problem)
            return None

    def _issue(self, tool: str, arguments: Any) -> IssuedCall:
        self.session.set_clock(self._clock())
        self.session.next_turn()
        return self.session.issue(tool, arguments, f"mcp-{secrets.token_hex(8)}")

    async def observe(self, issued: str | None, content: str, *, failed: bool, beside: Any = None) -> None:
        """A read came back, or never will (`failed`); `beside` is what the model sees with it that is no fact."""
        await self.shown(beside)
        if issued is not None:
            with suppress(LedgerError):  # the session has ended meanwhile
                await self._do(self._observe, issued, content, failed)

    def _observe(self, issued: str, content: str, failed: bool) -> None:
        seen = self.session.observe(issued, content, error=failed)
        self._view.note(seen.problems, seen.paths)

    async def shown(self, content: Any) -> None:
        """The model is shown something that no tool returned: from then on it is not the customer's own knowledge."""
        if self._remembers and content is not None:
            await self._do(self.session.shown, content)

    # Writes -----------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def write(self, tool: str, arguments: Any) -> AsyncIterator[Running | Rejection]:
        """Have a write judged; inside, it runs. What `Running` then says is reported, however the inside ends."""
        async with self._writing:
            admitted = await self._judged(tool, arguments)
            if isinstance(admitted, Rejection):
                yield admitted
                return
            try:
                yield admitted
            finally:
                with anyio.CancelScope(shield=True):
                    await self._report(admitted.ticket, admitted.outcome, admitted.content)

    async def _judged(self, tool: str, arguments: Any) -> Running | Rejection:
        problem = self.tools.problem(tool) if tool in self.session.domain.tools else None
        try:
            review = await self._do(self._review, tool if problem is None else f"{tool} (changed)", arguments)
        except LedgerAgentError as error:  # the session has ended
            return Rejection(f"{tool} was not executed: {error}", {"verdict": "block", "error": type(error).__name__})
        if review.ticket is None:
            return _rejected(tool, review, problem)
        try:
            await anyio.lowlevel.checkpoint()  # a call that was cancelled meanwhile does not begin
            return Running(review.ticket, await self._do(self.session.redeem, review.ticket))
        except TicketError as error:
            return Rejection(f"{tool} was not executed: {error}", _about(review, "block"))
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self._report(review.ticket, "withheld", None)
            raise

    def _review(self, tool: str, arguments: Any) -> Review:
        self.session.set_clock(self._clock())
        self.session.next_turn()
        return self.session.review([Call(tool, arguments, f"mcp-{secrets.token_hex(8)}")])[0]

    async def _report(self, ticket: Ticket, outcome: Outcome, content: Any) -> None:
        try:
            await self._do(self.session.report, ticket, outcome, content)
        except TicketError:
            pass  # the session has ended and settled it
        except RecordError as problem:
            _log.error("an outcome could not be recorded: %s", problem)

    # The ledger -------------------------------------------------------------------------------------------------

    async def ledger_text(self) -> str:
        """The ledger as the model may see it."""
        return (await self._do(self._view.render)).text

    async def digest(self) -> str:
        """Changes when the ledger does."""
        return await self._do(lambda: self.session.ledger.digest)

    async def close(self) -> None:
        """End the session. Writes under way count as uncertain."""
        try:
            await self._do(self.session.close, "the connection ended")
        except RecordError as problem:
            _log.error("an outcome could not be recorded: %s", problem)

    async def _do(self, step: Callable[..., _T], *arguments: Any) -> _T:
        async with self._one:
            return await anyio.to_thread.run_sync(partial(step, *arguments))


def _rejected(tool: str, review: Review, changed: str | None) -> Rejection:
    if changed is None or review.failure is not None:
        return Rejection(review.message, _about(review, review.verdict))
    what = f"the server no longer offers it as it was declared and reviewed ({changed})."
    return Rejection(_AS_DECLARED.format(tool=tool, rule=_UNDECLARED, what=what), _about(review, review.verdict))


def _about(review: Review, verdict: str) -> dict[str, Any]:
    failure = {"error": review.failure.code} if review.failure is not None else {}
    return {"verdict": verdict, "request": review.gate_input["request"], **failure}
