"""What every adapter shares: one conversation's guard between a framework's dispatch and its tools.

A hook before the tool asks `judge`, which issues tickets; the wrapped tool runs through `execute`, which demands one.
A tool that is reached any other way refuses. How a framework calls its hooks is the business of its adapter; this
module knows no framework. `canary` is how an adapter proves at start that the hooks are really called.

Writes of one session run one after the other, in the order in which they reached their tools. Calls of one model
message are judged together, each seeing the admitted ones before it as siblings, where the adapter can tell which
belong together; else each call is a message of its own and sees the earlier ones as history.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import secrets
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import contextmanager, suppress
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, Final, TypeVar

from pydantic import ValidationError

from ledgeragent.agent import Asking, whole
from ledgeragent.approval import Approve
from ledgeragent.contracts import ApprovalRequest, Outcome, SignedGrant, described
from ledgeragent.errors import BadInput, LedgerError, TicketError, WiringError
from ledgeragent.jsonio import copied
from ledgeragent.loop import Admitted, Rejected, ToolOutcome, doubtful, outcome_of, plain, sort_out
from ledgeragent.session import MAX_GRANTS, Call, Session
from ledgeragent.view import DEFAULT_BYTES, LedgerView

__all__ = ["Admitted", "Call", "Canary", "Guard", "Rejected", "Returned", "apart"]

CANARY: Final = "ledgeragent_canary"
"""Name of the tool an adapter may add to be called at start; no domain declares it, so no policy lets it through."""
_log = logging.getLogger(__name__)
_T = TypeVar("_T")
_Answer = Admitted | Rejected
Stops = Callable[[ApprovalRequest], Any]
"""A framework's own way to ask a person: it ends the run by raising, and when the call comes again it gives the answer:
one or more signed grants as objects or as JSON has them. Anything else is a no."""
_WRITING: Final[ContextVar[frozenset[int]]] = ContextVar("ledgeragent_writing", default=frozenset())
"""The guards of which a write is running here."""


@dataclass(frozen=True)
class Returned:
    """What came of an admitted call.

    Attributes:
        content: what the tool returned; text for the model when it failed or was withheld.
        outcome: `executed`; `refused` (a definite no, or a read that failed); `uncertain` (a write that may have run);
            `withheld` (never started).
    """

    content: Any
    outcome: Outcome

    @property
    def text(self) -> str:
        """The content as the model reads it."""
        value = plain(self.content)
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


@dataclass
class Canary:
    """A trial of the wiring: every call is refused with `word` while it lasts, and no tool runs.

    Attributes:
        word: not to be guessed; an answer that holds it came from the guard.
        reached: tools whose executors were called all the same.
    """

    word: str = field(default_factory=lambda: f"{CANARY}:{secrets.token_hex(16)}")
    reached: list[str] = field(default_factory=list)

    def check(self, answers: Mapping[str, str]) -> None:
        """Hold against it what the framework gave back.

        Args:
            answers: by tool, what the model would have read.

        Raises:
            WiringError: when a call reached its executor, or was answered by anything but the guard.
        """
        if self.reached:
            raise WiringError(f"a canary call reached the executor of {', '.join(self.reached)}: nothing guards it")
        missed = [tool for tool, answer in answers.items() if self.word not in answer]
        if missed or not answers:
            what = ", ".join(missed) or "any tool"
            raise WiringError(f"a canary call of {what} was not answered by the guard: the framework does not ask it")


class Guard:
    """Guards the calls of one conversation. May be used from any thread and any event loop."""

    def __init__(
        self,
        session: Session,
        *,
        view_bytes: int = DEFAULT_BYTES,
        approve: Callable[[ApprovalRequest], Any] | None = None,
    ) -> None:
        """Guard a conversation.

        Args:
            session: the conversation's, with the gate that judges.
            view_bytes: size budget of the ledger's text.
            approve: asks a person where their consent is all that is wanting for a call, and gives their grants, or
                None; a plain or a coroutine function. The conversation waits for it, and it must not use the session.

        Raises:
            BadInput: for `approve` when the session takes nobody's grants.
        """
        if approve is not None and not session.takes_grants:
            raise BadInput("`approve` gives grants that the session takes nobody's of: open it with `approvals`")
        self.session = session
        self._approve = approve
        self._stopped: dict[tuple[str, str, str], _Answer] = {}
        self._view = LedgerView(session.ledger, view_bytes)
        self._lock = threading.Lock()
        self._judging = _Queue()
        self._writes = _Queue()
        self._message: tuple[tuple[str, str, str], ...] = ()
        self._judged: dict[tuple[str, str, str], _Answer] = {}
        self._admitted: dict[str, Admitted] = {}
        self._late: set[tuple[str, str]] = set()
        self._canary: Canary | None = None

    # Before a tool ----------------------------------------------------------------------------------------------

    def judge(self, call: Call, message: Sequence[Call] = (), *, stops: Stops | None = None) -> Admitted | Rejected:
        """What may become of a call; the hook before the tool asks it.

        Args:
            call: as the model proposed it. Without an id it gets one.
            message: all calls of its model message in order, where the framework tells; () for a call that is to be a
                message of its own. A call that is not among them as it stands there was edited: it is judged alone.
            stops: asks a person where consent is all that is wanting. With what they gave the call is judged alone.

        Returns:
            `Admitted`: have the tool run through `execute`, under this call id. `Rejected`: its message is for the
            model, in the place of the tool's return.

        Raises:
            SessionClosed: when the session has ended.
            SessionError: when what was admitted could not be kept; the session ends here.
            LedgerError: on an event loop, while a task of it is being answered (`ajudge`): it would wait for ever.
        """
        call = _as_text(call)
        if self._canary is not None:
            return Rejected(call, self._canary.word, None)
        with self._judging.turn() as turn:
            self._judging.wait(turn)
            approve = self._approve and _waiting(self._approve)
            answer = self._stopped.get(_key(call)) or self._judge(call, message, (), approve)
            grants = self._given(answer, stops)
            return self._judge(call, (), grants, None) if grants else answer

    async def ajudge(
        self, call: Call, message: Sequence[Call] = (), *, stops: Stops | None = None
    ) -> Admitted | Rejected:
        """As `judge`, awaited; the gate is asked in a thread."""
        call = _as_text(call)
        if self._canary is not None:
            return Rejected(call, self._canary.word, None)
        with self._judging.turn() as turn:
            await asyncio.wrap_future(turn)
            asking = self._approve and Asking(self._approve, asyncio.get_running_loop())
            answer = self._stopped.get(_key(call))
            if answer is None:
                judged = asyncio.to_thread(self._judge, call, message, (), asking)
                answer = await whole(judged, asking.stop if asking is not None else None)
            grants = self._given(answer, stops)
            return await whole(asyncio.to_thread(self._judge, call, (), grants, None)) if grants else answer

    def _given(self, answer: _Answer, stops: Stops | None) -> list[SignedGrant]:
        """What a person gave for a rejected call; the rejection is kept for when the call comes again with it."""
        review = answer.review if isinstance(answer, Rejected) and self.session.takes_grants else None
        if stops is None or review is None or review.request is None:
            return []
        key = _key(review.call)
        self._stopped[key] = answer
        grants = _granted(stops(review.request))
        del self._stopped[key]
        return grants

    def _judge(
        self, call: Call, message: Sequence[Call], grants: Sequence[SignedGrant], approve: Approve | None
    ) -> _Answer:
        self.forgo(call.call_id)  # asked anew: what was admitted before did not run
        if grants:
            [answer] = self._review((call,), grants, approve)
        else:
            answer = self._answer(call, tuple(_as_text(one) for one in message), approve)
        if isinstance(answer, Admitted):
            with self._lock:
                self._admitted[answer.call_id] = answer
        return answer

    def _answer(self, call: Call, message: tuple[Call, ...], approve: Approve | None) -> _Answer:
        key = _key(call)
        keys = tuple(_key(one) for one in message)
        if key in keys and keys != self._message and len({one.call_id for one in message}) == len(message):
            self._withhold_all()
            self._message = keys
            self._judged = dict(zip(keys, self._review(message, (), approve), strict=True))
        # What the message's answers do not hold is edited, repeated or alone.
        answer = self._judged.pop(key, None)
        return answer if answer is not None else self._review((call,), (), approve)[0]

    def _review(self, calls: Sequence[Call], grants: Sequence[SignedGrant], approve: Approve | None) -> list[_Answer]:
        self.session.next_turn()
        writes = [call for call in calls if self.session.domain.is_write(call.tool)]
        reviewed = self.session.review(writes, grants=grants, approve=approve)
        reviews = {review.call.call_id: review for review in reviewed}
        return [sort_out(call, reviews.get(call.call_id)) for call in calls]

    def forgo(self, call_id: str) -> None:
        """An admitted call does not run now: it is withheld, and judged anew should it come again."""
        with self._lock:
            answer = self._admitted.pop(call_id, None)
        self._withhold(answer)

    def give_up(self) -> None:
        """Admitted calls whose tools were never called are withheld: the framework went on without them."""
        with self._judging.turn() as turn:
            self._judging.wait(turn)
            self._withhold_all()

    def _withhold_all(self) -> None:
        with self._lock:
            left = (*self._judged.values(), *self._admitted.values())
            self._late.update((call.call_id, call.tool) for call in self._admitted.values())
            self._judged.clear()
            self._admitted.clear()
        for answer in left:
            self._withhold(answer)

    def _withhold(self, answer: _Answer | None) -> None:
        if isinstance(answer, Admitted) and answer.ticket is not None:
            with suppress(TicketError):  # it is over already
                self.session.report(answer.ticket, "withheld")

    # The tool ---------------------------------------------------------------------------------------------------

    def execute(
        self,
        tool: str,
        call_id: str,
        run: Callable[[dict[str, Any]], Any],
        *,
        passes: tuple[type[BaseException], ...] = (),
    ) -> Returned:
        """Run an admitted call; the wrapped tool's own code does.

        Args:
            tool: the tool.
            call_id: of the admitted call.
            run: called with the judged arguments. `ToolRefused` means a definite no; for a write anything else that it
                raises means that it may have run.
            passes: the framework's own exceptions that a tool may raise to steer it; for the outcome they count as any
                other, and are raised on.

        Raises:
            TicketError: when no such call was admitted, or it ran already: the guard was gone around.
            RecordError: when the outcome could not be recorded; it counts.
            SessionClosed: when the session has ended.
            LedgerError: on an event loop, while a task of it runs a write (`aexecute`): it would wait for ever.
        """
        call = self._take(tool, call_id)
        if isinstance(call, Returned):
            return call
        with self._under_way(call) as place:
            self._writes.wait(place.turn)
            running = self._start(call)
            if isinstance(running, Returned):
                return running
            place.begun = True
            try:
                content = run(running.arguments)
            except BaseException as error:  # noqa: BLE001 - raised on where it is no outcome
                return self._failed(running, error, passes)
            return self._ended(running, content, "executed")

    async def aexecute(
        self,
        tool: str,
        call_id: str,
        run: Callable[[dict[str, Any]], Awaitable[Any]],
        *,
        passes: tuple[type[BaseException], ...] = (),
    ) -> Returned:
        """As `execute`, awaited."""
        call = self._take(tool, call_id)
        if isinstance(call, Returned):
            return call
        with self._under_way(call) as place:
            await asyncio.wrap_future(place.turn)
            running = await whole(asyncio.to_thread(self._start, call))
            if isinstance(running, Returned):
                return running
            place.begun = True
            try:
                content = await run(running.arguments)
            except BaseException as error:  # noqa: BLE001 - raised on where it is no outcome
                return await whole(asyncio.to_thread(self._failed, running, error, passes))
            return await whole(asyncio.to_thread(self._ended, running, content, "executed"))

    def _take(self, tool: str, call_id: str) -> Admitted | Returned:
        if self._canary is not None:
            self._canary.reached.append(tool)
        with self._lock:
            call = self._admitted.get(call_id)
            if call is None and (call_id, tool) in self._late:  # agents side by side: another's message came between
                self._late.discard((call_id, tool))
                return Returned(f"{tool} was not executed: the conversation went on without it.", "withheld")
            if call is None or call.tool != tool:
                raise TicketError(f"{tool} was called without having been judged: it runs only through its guard")
            return self._admitted.pop(call_id)

    @contextmanager
    def _under_way(self, call: Admitted) -> Iterator[_Place]:
        """A place among the session's writes; a read waits for nothing."""
        if call.ticket is None or id(self) in _WRITING.get():
            yield _Place(_now())  # a write within a write would wait for itself: the session refuses it
            return
        mark = _WRITING.set(_WRITING.get() | {id(self)})
        begun = False
        try:
            with self._writes.turn() as turn:
                place = _Place(turn)
                try:
                    yield place
                finally:
                    begun = place.begun
        except BaseException:
            # Interrupted before it began, or as it was to begin; once it has begun, nobody knows.
            outcomes: tuple[Outcome, Outcome] = ("withheld", "uncertain" if begun else "refused")
            for outcome in outcomes:
                with suppress(TicketError):
                    self.session.report(call.ticket, outcome)
            raise
        finally:
            _WRITING.reset(mark)

    def _start(self, call: Admitted) -> _Running | Returned:
        if call.ticket is None:
            issued = self.session.issue(call.tool, call.arguments, secrets.token_hex(8))
            return _Running(call, issued.call_id, copied(issued.arguments))
        try:
            return _Running(call, call.call_id, self.session.redeem(call.ticket))
        except TicketError as problem:
            self._withhold(call)
            return Returned(f"{call.tool} was not executed: {problem}", "withheld")

    def _failed(self, running: _Running, error: BaseException, passes: tuple[type[BaseException], ...]) -> Returned:
        text, outcome = outcome_of(error, write=running.call.ticket is not None)
        returned = self._ended(running, text, outcome)
        if isinstance(error, passes) or not isinstance(error, Exception):
            raise error
        return returned

    def _ended(self, running: _Running, content: Any, outcome: ToolOutcome) -> Returned:
        call, value = running.call, plain(content)
        if call.ticket is not None:
            shown = doubtful(call.tool, value) if outcome == "uncertain" else content
            self.session.report(call.ticket, outcome, value)
            return Returned(shown, outcome)
        observed = self.session.observe(running.issued, value, error=outcome != "executed")
        with self._lock:
            self._view.note(observed.problems, observed.paths)
        return Returned(content, outcome)

    # The prompt, the start --------------------------------------------------------------------------------------

    def ledger_text(self) -> str:
        """The ledger's block for the prompt, as of now; for the end of a request, never for the history."""
        with self._lock:
            return self._view.render().text

    def check(self, tools: Iterable[str]) -> None:
        """Hold the names of an agent's tools against the domain.

        Raises:
            WiringError: when one is not declared, or a name comes twice.
        """
        names = list(tools)
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise WiringError(f"tools given twice: {', '.join(twice)}; the model could not tell them apart")
        domain = self.session.domain
        undeclared = [name for name in names if name not in domain.tools]
        if undeclared:
            raise WiringError(
                f"domain {domain.name!r} does not declare {', '.join(undeclared)}: nothing would guard them. "
                f"Declare them in its tools.json, or do not give them to the agent"
            )

    @property
    def on_trial(self) -> bool:
        """Whether a canary is under way."""
        return self._canary is not None

    @contextmanager
    def canary(self) -> Iterator[Canary]:
        """Try the wiring: while it lasts every call is refused and no tool runs. Nothing reaches session or record.

        Raises:
            LedgerError: when calls are under way.
            WiringError: for whatever is raised meanwhile.
        """
        with self._lock:
            if self._canary is not None or self._admitted:
                raise LedgerError("the wiring is tried at start, not while calls are under way")
            self._canary = canary = Canary()
        try:
            yield canary
        except WiringError:
            raise
        except Exception as error:
            canary.check({CANARY: canary.word})
            raise WiringError(f"canary calls were not carried out: {type(error).__name__}: {error}") from error
        finally:
            self._canary = None


@dataclass(frozen=True)
class _Running:
    call: Admitted
    issued: str
    arguments: dict[str, Any]


@dataclass
class _Place:
    """Among the session's writes: when it is its turn, and whether its tool was called."""

    turn: Future[None]
    begun: bool = False


class _Queue:
    """Lets in one at a time, in the order of asking, threads and tasks of any loop alike."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._places: deque[Future[None]] = deque()
        self._loops: dict[Future[None], asyncio.AbstractEventLoop | None] = {}

    @contextmanager
    def turn(self) -> Iterator[Future[None]]:
        """A place, done when it is its turn; given back at the end."""
        place: Future[None] = Future()
        with self._lock:
            self._places.append(place)
            self._loops[place] = _running_loop()
            self._call_first()
        try:
            yield place
        finally:
            with self._lock:
                self._places.remove(place)
                del self._loops[place]
                self._call_first()

    def wait(self, place: Future[None]) -> None:
        """Block until it is a place's turn.

        Raises:
            LedgerError: when a task of the event loop that runs here comes first: blocked, it could never end.
        """
        loop = _running_loop()
        with self._lock:
            ahead = list(takewhile(lambda other: other is not place, self._places))
            if loop is not None and not place.done() and any(self._loops[other] is loop for other in ahead):
                raise LedgerError(
                    "a task of this event loop is under way with the guard: await this call too, or make it in a thread"
                )
        place.result()

    def _call_first(self) -> None:
        if self._places and not self._places[0].done():
            with suppress(InvalidStateError):  # cancelled just now; whoever waited gives it back
                self._places[0].set_result(None)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    with suppress(RuntimeError):
        return asyncio.get_running_loop()
    return None


def _now() -> Future[None]:
    done: Future[None] = Future()
    done.set_result(None)
    return done


def apart(work: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine to its end on an event loop of its own, whether or not one is running here."""
    done: Future[_T] = Future()
    context = copy_context()

    def run() -> None:
        try:
            done.set_result(context.run(asyncio.run, work))
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            done.set_exception(error)

    thread = threading.Thread(target=run, name="ledgeragent-canary")
    thread.start()
    thread.join()
    return done.result()


def _granted(answer: Any) -> list[SignedGrant]:
    given = answer if isinstance(answer, list | tuple) else [answer] if answer else []
    try:
        return [one if isinstance(one, SignedGrant) else SignedGrant.model_validate(one) for one in given[:MAX_GRANTS]]
    except ValidationError as error:
        _log.error("the answer to an approval request is no signed grant, which counts as a no: %s", described(error))
        return []


def _waiting(approve: Callable[[ApprovalRequest], Any]) -> Approve:
    """`approve`, waited for here should it be a coroutine function."""

    async def awaited(given: Awaitable[Any]) -> Any:
        return await given

    def ask(request: ApprovalRequest) -> Any:
        given = approve(request)
        return apart(awaited(given)) if inspect.isawaitable(given) else given

    return ask


def _as_text(call: Call) -> Call:
    """The call with its arguments as text and an id."""
    given = call.arguments
    text = given if isinstance(given, str) else json.dumps(plain(given), ensure_ascii=False, default=str)
    return Call(call.tool, text, call.call_id or f"call_{secrets.token_hex(8)}")


def _key(call: Call) -> tuple[str, str, str]:
    return call.call_id, call.tool, call.arguments
