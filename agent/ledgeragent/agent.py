"""A tool-calling agent that keeps to policy: any chat model, any tools, a ledger in every prompt, a gate before writes.

`LedgerAgent` drives a `Loop`: it calls the model, runs what is admitted and goes on until there is something to say.
`AsyncLedgerAgent` is the same, awaited. What a tool may do is the domain's business, what is allowed the gate's.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar

from ledgeragent.approval import Approvals
from ledgeragent.contracts import ApprovalRequest, Principal, SignedGrant
from ledgeragent.errors import BadInput, TicketError
from ledgeragent.gate import Gate, ShadowGate
from ledgeragent.ledger import Limits
from ledgeragent.loop import Admitted, Loop, Mode, Step, outcome_of
from ledgeragent.model import AsyncModel, Message, Model
from ledgeragent.records import Recorder
from ledgeragent.session import Session, ToolRefused
from ledgeragent.toolset import Toolset
from ledgeragent.view import DEFAULT_BYTES, LedgerView

Executor = Callable[[Admitted, dict[str, Any]], Any]
"""Runs an admitted call with its parsed arguments; raises as a tool does. Gets nothing that was not admitted."""
_T = TypeVar("_T")
Clock = str | Callable[[], str]
_MAX_GENERATIONS: Final = 40
_GAVE_UP: Final = "I could not finish this. A colleague will take over."


@dataclass(frozen=True)
class Options:
    """How an agent goes about it.

    Attributes:
        system: the system prompt.
        view: whether the model sees the ledger.
        view_bytes: size budget of the ledger's block; the oldest records are left out of the view.
        mode: what follows when a message lost all its calls.
        max_revisions: in `same-turn`, so many times in a row the model may try again.
        max_generations: a turn ends after so many.
    """

    system: str = ""
    view: bool = True
    view_bytes: int = DEFAULT_BYTES
    mode: Mode = "same-turn"
    max_revisions: int = 3
    max_generations: int = _MAX_GENERATIONS


@dataclass(frozen=True)
class Reply:
    """What came of one message of the user.

    Attributes:
        text: for the user.
        ended: the model `said` it, or the turn ran out of `revisions` or `generations`.
        steps: every generation of the turn, with what the gate said to it.
    """

    text: str
    ended: Literal["said", "revisions", "generations"]
    steps: tuple[Step, ...]


class _Agent:
    """What both agents share: a session, its loop, its tools."""

    def __init__(
        self,
        tools: Toolset,
        gate: Gate | ShadowGate,
        *,
        now: Clock,
        options: Options | None = None,
        principal: Principal | None = None,
        session_id: str | None = None,
        executor: Executor | None = None,
        recorder: Recorder | None = None,
        limits: Limits | None = None,
        on_step: Callable[[Step], None] | None = None,
        session: Session | None = None,
        history: Sequence[Message] = (),
        approvals: Approvals | None = None,
        approve: Callable[[ApprovalRequest], Any] | None = None,
    ) -> None:
        self._clock = now
        self._approve = approve
        self._on_step = on_step
        self.tools = tools
        self.options = options or Options()
        undeclared = [tool.name for tool in tools if tool.name not in gate.domain.tools]
        if undeclared:
            raise BadInput(
                f"domain {gate.domain.name!r} does not declare {', '.join(undeclared)}: nothing would guard them. "
                f"Declare them in its tools.json, or do not give them to the agent"
            )
        if session is None:
            self.session = Session(
                gate,
                now=self._now(),
                principal=principal,
                session_id=session_id,
                recorder=recorder,
                limits=limits,
                approvals=approvals,
            )
        else:
            if session.gate is not gate or any(one is not None for one in (session_id, recorder, limits, approvals)):
                raise BadInput(
                    "a session to go on with has its own gate, id, recorder, limits and approvals: pass no others"
                )
            self.session = session
            if principal is not None:
                session.identify(principal)
        if approve is not None and not self.session.takes_grants:
            raise BadInput("`approve` gives grants that the session takes nobody's of: pass `approvals` too")
        own = self.options
        self.loop = Loop(
            self.session,
            tools.definitions,
            system=own.system,
            view=LedgerView(self.session.ledger, own.view_bytes) if own.view else None,
            mode=own.mode,
            max_revisions=own.max_revisions,
            history=history,
            approve=self._consent if approve is not None else None,
        )
        self._execute = executor or self._run_tool

    @property
    def history(self) -> list[Message]:
        """The conversation so far, as chat messages; valid for the provider's API at any time between turns."""
        return self.loop.history

    def close(self) -> None:
        """End the conversation. Writes under way count as uncertain."""
        self.loop.give_up()
        self.session.close()

    def _consent(self, request: ApprovalRequest) -> SignedGrant | Sequence[SignedGrant] | None:
        assert self._approve is not None
        return self._approve(request)  # type: ignore[no-any-return]

    def _run_tool(self, call: Admitted, arguments: dict[str, Any]) -> Any:
        if call.tool not in self.tools:
            raise ToolRefused(f"there is no tool {call.tool}")
        return self.tools[call.tool].run(call.tool, arguments)

    def _now(self) -> str:
        return self._clock if isinstance(self._clock, str) else self._clock()

    def _said(self, text: str) -> None:
        self.session.set_clock(self._now())
        self.loop.user_said(text)

    def _went(self, step: Step, steps: list[Step]) -> None:
        steps.append(step)
        if self._on_step is not None:
            self._on_step(step)

    def _give_up(self, steps: list[Step]) -> Reply:
        self.loop.assistant_said(_GAVE_UP)
        return Reply(_GAVE_UP, "generations", tuple(steps))

    def _failed(self, call: Admitted, error: BaseException) -> None:
        text, outcome = outcome_of(error, write=call.ticket is not None)
        self.loop.returned(call, text, outcome)


class LedgerAgent(_Agent):
    """An agent for one conversation."""

    def __init__(self, model: Model, tools: Toolset, gate: Gate | ShadowGate, **about: Any) -> None:
        """Begin a conversation.

        Args:
            model: anything with `generate`.
            tools: what the model may call, each declared in the gate's domain.
            gate: judges the writes; a `ShadowGate` only watches.
            about: `now` (RFC 3339 with an offset, or a function that gives it), and optionally `options`, `principal`
                (whom the host authenticated), `session_id`, `executor` (runs the admitted calls instead of the
                tools' own functions), `recorder`, `limits`, `on_step` (is handed every step before its calls run),
                `approvals` (whose grants it takes) and `approve` (asks a person for one, or gives one that came
                meanwhile; it must not use the session, which waits for it). To go on with a conversation: its
                `session`, which has its own id, recorder, limits and approvals, and its `history`.

        Raises:
            BadInput: when a tool is not declared in the domain, `now` has no offset, the session is another gate's, or
                there is `approve` without `approvals`.
            SessionClosed: when the session to go on with has another principal.
        """
        super().__init__(tools, gate, **about)
        self.model = model

    def send(self, text: str) -> Reply:
        """Take a message of the user, do what it needs, and give the answer.

        Args:
            text: the user's message.

        Raises:
            ModelError: when the model gives no answer; the conversation can go on with `resume`.
            SessionClosed: when the session has ended.
            RecordError: when an outcome could not be recorded.
        """
        self._said(text)
        return self.resume()

    def resume(self) -> Reply:
        """Go on where an exception broke off; as `send` without a new message. Calls under way are given up."""
        self.loop.give_up()
        steps: list[Step] = []
        while len(steps) < self.options.max_generations:
            request = self.loop.request()
            step = self.loop.take(self.model.generate(request.messages, request.tools))
            self._went(step, steps)
            if step.next == "reply":
                return Reply(step.text, step.ended or "said", tuple(steps))
            for call in step.admitted:
                self._run(call)
        return self._give_up(steps)

    def _run(self, call: Admitted) -> None:
        try:
            arguments = self.loop.start(call)
        except TicketError:
            return
        try:
            content = self._execute(call, arguments)
        except Exception as error:  # noqa: BLE001 - whatever a tool raises is an outcome
            self._failed(call, error)
        except BaseException as error:
            self._failed(call, error)
            raise
        else:
            self.loop.returned(call, content)


class AsyncLedgerAgent(_Agent):
    """As `LedgerAgent`, awaited; tools, executor and `approve` may be coroutine functions. The gate is asked in a
    thread."""

    def __init__(self, model: AsyncModel, tools: Toolset, gate: Gate | ShadowGate, **about: Any) -> None:
        """As `LedgerAgent`."""
        super().__init__(tools, gate, **about)
        self.model = model
        self._asking: Asking | None = None

    async def send(self, text: str) -> Reply:
        """As `LedgerAgent.send`."""
        self._said(text)
        return await self.resume()

    async def resume(self) -> Reply:
        """As `LedgerAgent.resume`."""
        if self._approve is not None:
            self._asking = Asking(self._approve, asyncio.get_running_loop())
        self.loop.give_up()
        steps: list[Step] = []
        while len(steps) < self.options.max_generations:
            request = self.loop.request()
            generation = await self.model.generate(request.messages, request.tools)
            step = await whole(
                asyncio.to_thread(self.loop.take, generation), self._asking.stop if self._asking is not None else None
            )
            self._went(step, steps)
            if step.next == "reply":
                return Reply(step.text, step.ended or "said", tuple(steps))
            for call in step.admitted:
                await self._run(call)
        return self._give_up(steps)

    def _consent(self, request: ApprovalRequest) -> SignedGrant | Sequence[SignedGrant] | None:
        assert self._asking is not None
        return self._asking(request)  # type: ignore[no-any-return]

    async def _run(self, call: Admitted) -> None:
        try:
            arguments = self.loop.start(call)
        except TicketError:
            return
        try:
            content = await self._awaited(call, arguments)
        except Exception as error:  # noqa: BLE001 - whatever a tool raises is an outcome
            self._failed(call, error)
        except BaseException as error:
            self._failed(call, error)
            raise
        else:
            self.loop.returned(call, content)

    async def _awaited(self, call: Admitted, arguments: dict[str, Any]) -> Any:
        # What only blocks is called in a thread, so that one conversation does not hold up the others.
        content = await asyncio.to_thread(self._execute, call, arguments)
        return await content if inspect.isawaitable(content) else content


class Asking:
    """Asks a person from the thread that judges; a coroutine is awaited on the event loop that waits for the thread."""

    def __init__(self, approve: Callable[[ApprovalRequest], Any], events: asyncio.AbstractEventLoop) -> None:
        """Ask nobody yet.

        Args:
            approve: gives grants or None, plain or a coroutine function.
            events: the loop.
        """
        self._approve = approve
        self._events = events
        self._under_way: concurrent.futures.Future[Any] | None = None
        self._left = False

    def __call__(self, request: ApprovalRequest) -> Any:
        """What `approve` gives; None once nobody waits for it any more."""
        given = self._approve(request) if not self._left else None
        if not inspect.isawaitable(given):
            return given
        self._under_way = asyncio.run_coroutine_threadsafe(_awaited(given), self._events)
        if self._left:
            self._under_way.cancel()
        try:
            return self._under_way.result()
        except concurrent.futures.CancelledError:
            return None

    def stop(self) -> None:
        """Whoever waited was cancelled: nobody waits for a person any more, and nobody consented."""
        self._left = True
        if self._under_way is not None:
            self._under_way.cancel()


async def _awaited(given: Awaitable[_T]) -> _T:
    return await given


async def whole(work: Coroutine[Any, Any, _T], cancelled: Callable[[], None] | None = None) -> _T:
    """Await something that must come to its end even when the caller is cancelled meanwhile, which it is then told."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if cancelled is not None:
            cancelled()
        await asyncio.wait([task])
        raise


__all__ = ["Asking", "AsyncLedgerAgent", "Executor", "LedgerAgent", "Options", "Reply", "whole"]
