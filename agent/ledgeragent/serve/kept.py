"""Where the sidecar's sessions are: in this process, or in the store that all replicas of a service share.

Both hand one session at a time to one caller; that no second call of a session comes meanwhile is the caller's part.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from ledgeragent.approval import Approvals
from ledgeragent.contracts import Principal
from ledgeragent.errors import RecordError, SessionError, SessionLost, SessionRolledBack, shown_id
from ledgeragent.gate import Gate, ShadowGate
from ledgeragent.ledger import Limits
from ledgeragent.records import Recorder
from ledgeragent.serve.operations import InUse
from ledgeragent.serve.refusals import Refusal
from ledgeragent.session import Session
from ledgeragent.sessions.seal import Token
from ledgeragent.sessions.store import SessionStore
from ledgeragent.sessions.turns import Sessions
from ledgeragent.view import LedgerView

_log = logging.getLogger(__name__)


@dataclass
class Use:
    """One use of a session: what it is, and the version that stands for it afterwards (where it is stored)."""

    at: InUse
    version: str | None = None


class Kept(Protocol):
    """Keeps sessions. `session_id`s are its own: nobody else chooses one."""

    idle_seconds: float

    def open(self, domain: str, now: str, principal: Principal | None) -> tuple[str, str | None]:
        """Open a session: its id and version.

        Raises:
            Refusal: when there are too many.
            LedgerAgentError: as `Session` or `Sessions.create`.
        """
        ...

    def use(self, session_id: str, now: str | None, version: str | None) -> AbstractContextManager[Use]:
        """Use a session: `with kept.use(…) as use:`.

        Raises:
            SessionError: when there is none, or it cannot be gone on with.
        """
        ...

    def end(self, session_id: str, version: str | None) -> None:
        """End a session: what was not started counts as withheld, what was as uncertain."""
        ...

    def expire(self) -> list[str]:
        """End the sessions that were idle for too long; their ids. A session in use is not idle."""
        ...

    def problem(self) -> str | None:
        """The code of what keeps sessions from being used, or None."""
        ...

    def close(self) -> None:
        """End all sessions that end with this process."""
        ...


def new_id(domain: str) -> str:
    """An id that says whose policies judge the session, and is otherwise random."""
    return f"{domain}.{secrets.token_hex(16)}"


def domain_of(session_id: str, known: Mapping[str, object]) -> str:
    """The domain of a session.

    Raises:
        SessionLost: when it is none of ours.
    """
    domain = session_id.partition(".")[0]
    if domain not in known:
        raise SessionLost(f"session {shown_id(session_id)}: there is no such session here")
    return domain


@dataclass
class _Held:
    session: Session
    view: LedgerView
    used: float
    in_use: threading.Lock = field(default_factory=threading.Lock)


class InMemory:
    """Sessions in this process: gone when it ends, or when they are idle for too long."""

    def __init__(
        self,
        gates: Mapping[str, Gate | ShadowGate],
        *,
        idle_seconds: float,
        most: int,
        recorder: Recorder | None = None,
        limits: Limits | None = None,
        approvals: Approvals | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Keep no session yet.

        Args:
            gates: by domain.
            idle_seconds: after so long without a call a session ends.
            most: so many sessions at once, at most.
            recorder: keeps a record of every decision and outcome, or None.
            limits: size caps of the ledgers.
            approvals: whose grants the sessions take; None: nobody's.
            clock: seconds, for what is idle.
        """
        self.idle_seconds = idle_seconds
        self._gates = gates
        self._most = most
        self._recorder = recorder
        self._limits = limits
        self._approvals = approvals
        self._clock = clock
        self._sessions: dict[str, _Held] = {}
        self._lock = threading.Lock()

    def open(self, domain: str, now: str, principal: Principal | None) -> tuple[str, str | None]:
        """See `Kept.open`."""
        session = Session(
            self._gates[domain],
            now=now,
            principal=principal,
            session_id=new_id(domain),
            recorder=self._recorder,
            limits=self._limits,
            approvals=self._approvals,
        )
        with self._lock:
            if len(self._sessions) >= self._most:
                raise Refusal("serve.full", f"{self._most} sessions are open, which is the limit; close some, or wait")
            self._sessions[session.id] = _Held(session, LedgerView(session.ledger), self._clock())
        return session.id, None

    @contextmanager
    def use(self, session_id: str, now: str | None, version: str | None) -> Iterator[Use]:  # noqa: ARG002 - stored only
        """See `Kept.use`."""
        held = self._sessions.get(session_id)
        if held is None:
            raise SessionLost(
                f"session {shown_id(session_id)}: there is no such session here; it was never opened, was closed or "
                "idle for too long, or ended with the process that had it"
            )
        with held.in_use:
            try:
                if now is not None:
                    held.session.set_clock(now)
                yield Use(InUse(held.session, held.view, self.idle_seconds))
            finally:
                held.used = self._clock()

    def end(self, session_id: str, version: str | None) -> None:
        """See `Kept.end`."""
        with self.use(session_id, None, version) as use:
            self._sessions.pop(session_id, None)
            use.at.session.close("ended by the host")

    def expire(self) -> list[str]:
        """See `Kept.expire`."""
        before = self._clock() - self.idle_seconds
        over = [one for one, held in list(self._sessions.items()) if held.used < before and not held.in_use.locked()]
        for session_id in over:
            self._close(session_id, "it was idle for too long")
        return over

    def problem(self) -> str | None:
        """See `Kept.problem`: memory is always there."""
        return None

    def close(self) -> None:
        """See `Kept.close`."""
        for session_id in list(self._sessions):
            self._close(session_id, "the sidecar stopped")

    def _close(self, session_id: str, reason: str) -> None:
        held = self._sessions.pop(session_id, None)
        if held is None:
            return
        try:
            held.session.close(reason)
        except RecordError as error:
            _log.error("an outcome could not be recorded: %s", error)


class InStore:
    """Sessions in a store that replicas share; each call is a turn there. They expire by the store's clock."""

    def __init__(
        self,
        store: SessionStore,
        sessions: Mapping[str, Sessions],
        *,
        idle_seconds: float,
        most_remembered: int = 10_000,
    ) -> None:
        """Use a store.

        Args:
            store: asked whether it is there.
            sessions: by domain, in this store.
            idle_seconds: the lifetime they were made with.
            most_remembered: of so many sessions the newest version seen here is remembered.
        """
        self.idle_seconds = idle_seconds
        self._store = store
        self._sessions = sessions
        self._most = most_remembered
        self._versions: dict[str, str] = {}
        self._lock = threading.Lock()

    def open(self, domain: str, now: str, principal: Principal | None) -> tuple[str, str | None]:
        """See `Kept.open`."""
        session_id = new_id(domain)
        version = self._sessions[domain].create(session_id, now=now, principal=principal)
        self._remember(session_id, version)
        return session_id, version

    @contextmanager
    def use(self, session_id: str, now: str | None, version: str | None) -> Iterator[Use]:
        """See `Kept.use`."""
        own = self._sessions[domain_of(session_id, self._sessions)]
        with own.turn(session_id, self._newest(session_id, version), now=now) as turn:
            use = Use(InUse(turn.session, LedgerView(turn.session.ledger), self.idle_seconds))
            try:
                yield use
            finally:
                self._remember(session_id, turn.token)
        use.version = turn.token
        self._remember(session_id, turn.token)

    def end(self, session_id: str, version: str | None) -> None:
        """See `Kept.end`."""
        self._sessions[domain_of(session_id, self._sessions)].end(session_id, self._newest(session_id, version))
        with self._lock:
            self._versions.pop(session_id, None)

    def expire(self) -> list[str]:
        """See `Kept.expire`: the store does it."""
        return []

    def problem(self) -> str | None:
        """See `Kept.problem`."""
        try:
            self._store.load("is the store there?")
        except SessionLost:
            return None
        except SessionError as error:
            return error.code
        return None

    def close(self) -> None:
        """See `Kept.close`: they go on elsewhere."""

    def _newest(self, session_id: str, version: str | None) -> str | None:
        known = self._versions.get(session_id)
        if version is None or known is None:
            return version or known
        theirs, ours = Token.parse(version), Token.parse(known)
        if theirs.version == ours.version and theirs != ours:
            raise SessionRolledBack(f"session {shown_id(session_id)}: two versions of one number were seen")
        return version if theirs.version > ours.version else known

    def _remember(self, session_id: str, version: str) -> None:
        with self._lock:
            self._versions.pop(session_id, None)
            self._versions[session_id] = version
            while len(self._versions) > self._most:
                del self._versions[next(iter(self._versions))]
