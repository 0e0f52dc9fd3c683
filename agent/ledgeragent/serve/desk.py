"""The sidecar without HTTP: who is served now, one call of a session after the other, repeated calls answered alike.

What blocks (engines, records, the store) runs in threads; everything else here runs on the event loop, so no more locks
are needed than one per session.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from pydantic import ValidationError

from ledgeragent import __version__
from ledgeragent.contracts import Contract, Principal, described
from ledgeragent.errors import DECISION_CODES, BadInput, EngineError, SessionLost, origin
from ledgeragent.gate import Gate
from ledgeragent.jsonio import canonical, digest
from ledgeragent.records import wall_clock
from ledgeragent.serve.bodies import Alive, Closed, OpenSession, Readiness, Request, SessionShown
from ledgeragent.serve.kept import Kept, Use
from ledgeragent.serve.operations import OPERATIONS, Fields, Operation, show, withdraw
from ledgeragent.serve.refusals import Refusal

MAX_WAITING: Final = 16
"""So many calls of one session may wait for the one that is being answered."""
MAX_AT_WORK: Final = 512
"""So many calls may be under way in all."""
_REMEMBERED: Final = 32
"""So many answers per session are kept, to be given again."""
_READY_SECONDS: Final = 1.0
"""How long an answer to `/ready` stands."""

_log = logging.getLogger(__name__)
T = TypeVar("T")
Model = TypeVar("Model", bound=Contract)


@dataclass(frozen=True)
class Asked:
    """A request, as far as it is the same for all.

    Attributes:
        body: parsed JSON.
        key: what the client calls this request (`Idempotency-Key`), or None.
        version: the newest version of the session the client saw, or None.
        gone: whether the client has hung up.
    """

    body: Any
    key: str | None = None
    version: str | None = None
    gone: Callable[[], bool] = lambda: False


@dataclass
class _Line:
    """The calls of one session: one is answered, the others wait; and what was answered lately."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    waiting: int = 0
    used: float = 0.0
    answers: OrderedDict[str, tuple[str, str]] = field(default_factory=OrderedDict)

    def remembered(self, key: str | None, asked: str) -> str | None:
        """The answer that this request got before.

        Raises:
            Refusal: when another request had its key.
        """
        if key is None or key not in self.answers:
            return None
        before, answer = self.answers[key]
        if before != asked:
            raise Refusal(
                "request.repeated",
                "this was asked before in other words, and is answered once; the first answer stands",
            )
        return answer

    def remember(self, key: str | None, asked: str, answer: str) -> None:
        """Keep an answer; the oldest goes."""
        if key is None:
            return
        self.answers[key] = (asked, answer)
        while len(self.answers) > _REMEMBERED:
            self.answers.popitem(last=False)


class Desk:
    """Serves the sessions of some domains. For one event loop."""

    def __init__(self, kept: Kept, gates: Mapping[str, Gate], *, threads: int) -> None:
        """Serve nobody yet.

        Args:
            kept: keeps the sessions.
            gates: by domain; asked whether they are ready.
            threads: so many calls may block at once.
        """
        self._kept = kept
        self._gates = gates
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="ledgeragent-serve")
        self._lines: dict[str, _Line] = {}
        self._running: set[tuple[str, str]] = set()
        self._at_work = 0
        self._readiness: tuple[float, Readiness] | None = None
        self._asking = asyncio.Lock()
        self.stopping = False

    # Sessions ---------------------------------------------------------------------------------------------------

    async def open(self, asked: Asked) -> str:
        """Open a session; the answer, as JSON text."""
        body = _read(OpenSession, asked.body)
        if body.domain not in self._gates:
            raise Refusal("request.form", f"domain {body.domain!r} is not served here: {', '.join(self._gates)} is")
        self._accept()
        who = body.principal
        principal = Principal(id=who.id, source="host", claims=who.claims) if who is not None else None
        now = body.now or wall_clock()
        return await self._counted(lambda: self._open(body.domain, now, principal))

    def _open(self, domain: str, now: str, principal: Principal | None) -> str:
        session_id, version = self._kept.open(domain, now, principal)
        with self._kept.use(session_id, None, version) as use:
            fields = show(use.at, Request())
        return _text(SessionShown, session_id, use, fields)

    async def do(self, session_id: str, operation: Operation, asked: Asked) -> str:
        """Do something with a session; the answer, as JSON text."""
        body = _read(operation.asked, asked.body)
        if not operation.winding_down:
            self._accept()
        key = f"key {asked.key}" if asked.key is not None else operation.repeats(body)
        said = digest([operation.answered.__name__, {**asked.body, "now": None}])
        line = self._line(session_id)
        async with _turn_of(line):
            answered = line.remembered(key, said)
            if answered is not None:
                return answered
            try:
                text, done = await self._counted(lambda: self._done(session_id, operation, body, asked))
            except SessionLost:
                self._forget([session_id])
                raise
            self._note(session_id, operation, done)
            line.answers.pop(operation.ends(body) or "", None)
            line.remember(key, said, text)
            line.used = time.monotonic()
        return text

    def _done(self, session_id: str, operation: Operation, body: Request, asked: Asked) -> tuple[str, Fields]:
        # Looking at a session does not move its clock.
        now = None if operation.asked is Request else body.now or wall_clock()
        with self._kept.use(session_id, now, asked.version) as use:
            fields = operation.run(use.at, body)
            if operation is OPERATIONS["reviews"] and asked.gone():
                withdraw(use.at, fields)
                raise Refusal("ticket.refused", "nobody was there to take the tickets: they are withheld")
        return _text(operation.answered, session_id, use, fields), fields

    def _note(self, session_id: str, operation: Operation, done: Fields) -> None:
        if operation is OPERATIONS["redemptions"]:
            self._running.add((session_id, done["request"]))
        elif operation is OPERATIONS["outcomes"]:
            self._running.discard((session_id, done["request"]))

    async def end(self, session_id: str, asked: Asked) -> str:
        """End a session; the answer, as JSON text."""
        try:
            async with _turn_of(self._line(session_id)):
                await self._counted(lambda: self._kept.end(session_id, asked.version))
        except SessionLost:
            self._forget([session_id])
            raise
        self._forget([session_id])
        return canonical(Closed(session=session_id).model_dump())

    async def expire(self) -> None:
        """End what is idle, and forget what was answered long ago."""
        self._forget(await self._in_thread(self._kept.expire))
        before = time.monotonic() - self._kept.idle_seconds
        self._forget([one for one, line in self._lines.items() if line.used < before and not line.waiting])

    def _forget(self, session_ids: list[str]) -> None:
        for session_id in session_ids:
            self._lines.pop(session_id, None)
            self._running = {one for one in self._running if one[0] != session_id}

    def _line(self, session_id: str) -> _Line:
        return self._lines.setdefault(session_id, _Line(used=time.monotonic()))

    # Health -----------------------------------------------------------------------------------------------------

    def alive(self) -> str:
        """That the process serves."""
        return canonical(Alive(version=__version__).model_dump())

    async def ready(self) -> tuple[bool, str]:
        """Whether calls would be judged now, and as JSON text why not. Asked often, it asks the engine seldom."""
        async with self._asking:
            now = time.monotonic()
            if self._readiness is None or now - self._readiness[0] > _READY_SECONDS:
                self._readiness = now, await self._in_thread(self._looked)
            found = self._readiness[1].model_copy(update={"stopping": self.stopping})
        found = found.model_copy(update={"ready": found.ready and not self.stopping})
        return found.ready, canonical(found.model_dump())

    def _looked(self) -> Readiness:
        states = {name: _state(gate) for name, gate in self._gates.items()}
        sessions = self._kept.problem()
        ready = sessions is None and not any(states.values())
        return Readiness(ready=ready, stopping=False, domains=states, sessions=sessions)

    # Stopping ---------------------------------------------------------------------------------------------------

    async def drain(self, seconds: float) -> None:
        """Begin nothing any more; wait for what is under way, and for the outcomes of writes that were started."""
        self.stopping = True
        until = time.monotonic() + seconds
        while (self._at_work or self._running) and time.monotonic() < until:
            await asyncio.sleep(0.05)
        if self._running:
            _log.error("stopping: %d started writes were not reported; they count as uncertain", len(self._running))

    async def close(self) -> None:
        """End what ends with this process."""
        self.stopping = True
        await self._in_thread(self._kept.close)
        self._pool.shutdown(wait=True)

    # Inside -----------------------------------------------------------------------------------------------------

    def _accept(self) -> None:
        if self.stopping:
            raise Refusal("serve.stopping", "the sidecar stops: outcomes are taken, nothing new is begun")

    async def _counted(self, work: Callable[[], T]) -> T:
        if self._at_work >= MAX_AT_WORK:
            raise Refusal("serve.busy", f"{MAX_AT_WORK} calls are under way, which is the limit; try again")
        self._at_work += 1
        try:
            return await self._in_thread(work)
        finally:
            self._at_work -= 1

    async def _in_thread(self, work: Callable[[], T]) -> T:
        context = contextvars.copy_context()  # the caller's trace goes along
        done = asyncio.get_running_loop().run_in_executor(self._pool, lambda: context.run(work))
        return await asyncio.shield(done)  # what was begun is finished


class _turn_of:  # noqa: N801 - reads as what it is used for
    """Wait for one's turn with a session; not in a long line."""

    def __init__(self, line: _Line) -> None:
        self._line = line

    async def __aenter__(self) -> None:
        if self._line.waiting > MAX_WAITING:
            raise Refusal("serve.busy", f"{MAX_WAITING} calls of this session are waiting, which is the limit")
        self._line.waiting += 1
        try:
            await self._line.lock.acquire()
        except BaseException:
            self._line.waiting -= 1
            raise

    async def __aexit__(self, *_: object) -> None:
        self._line.waiting -= 1
        self._line.lock.release()


def _state(gate: Gate) -> str | None:
    """The code of why a gate would not judge, or None."""
    try:
        if not gate.revisions:
            gate.prove()
        gate.in_use()
    except EngineError as error:
        return error.code
    except BadInput as error:
        code = str(error).partition(":")[0]
        return code if code in DECISION_CODES else "host.internal"
    except Exception as error:  # noqa: BLE001 - a probe is answered, whatever is wrong
        _log.error("a gate could not be asked: %s", origin(error))
        return "host.internal"
    return None


def _read(model: type[Model], body: Any) -> Model:
    try:
        return model.model_validate(body)
    except ValidationError as error:
        raise Refusal("request.form", f"the request is not what its schema says: {described(error)}") from None


def _text(model: type[Contract], session_id: str, use: Use, fields: Fields) -> str:
    answer = model.model_validate({**fields, "session": session_id, "version": use.version})
    return canonical(answer.model_dump())
