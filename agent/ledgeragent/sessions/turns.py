"""One turn of a session by one replica: load it, be the only one at work, keep what is admitted, let go.

Two things keep replicas apart. A *hold* with a time limit keeps a second replica from beginning while the first is at
work. But a replica can be paused for longer than any limit, so the hold is not what safety rests on: to begin a turn is
to store a new version, every save compares with the version before, and nothing that may be acted on (a ticket, the
arguments of a write that starts) leaves the session before it is saved. Whoever was overtaken finds out at the next
save: what it judged is void, and its tickets were never handed out or can no longer be redeemed.

A turn that never ended is seen in the head. What was under way then counts as uncertain.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ledgeragent.approval import Approvals
from ledgeragent.contracts import Principal
from ledgeragent.errors import (
    BadInput,
    LedgerError,
    SessionBusy,
    SessionClosed,
    SessionConflict,
    SessionDamaged,
    SessionRolledBack,
    shown_id,
)
from ledgeragent.gate import Gate, ShadowGate
from ledgeragent.jsonio import canonical
from ledgeragent.ledger import Limits
from ledgeragent.records import Recorder
from ledgeragent.session import Keeper, Session
from ledgeragent.sessions.seal import Head, Seal, Token, digest_of, token_of
from ledgeragent.sessions.store import Change, SessionStore, Stored


class Turn:
    """What `Sessions.turn` gives: the session, and the token of its latest version."""

    def __init__(self, sessions: Sessions, session: Session, sealed: bytes, version: int) -> None:
        """For `Sessions` only."""
        self.session = session
        self._sessions = sessions
        self._sealed = sealed
        self._version = version
        self._failure: BaseException | None = None

    @property
    def token(self) -> str:
        """Stands for the latest version that was saved: keep it with the conversation, pass it with the next turn."""
        return str(token_of(self._sealed, self._version))

    def _take(self, body: str) -> None:
        """Begin: from now on no other replica's save is accepted."""
        try:
            self._store(self._next(None, body, self._sessions._hold))
        except SessionConflict:
            raise SessionBusy(
                f"session {shown_id(self.session.id)}: another replica has just begun a turn; try again when it is done"
            ) from None

    def _save(self, hold: float) -> None:
        """Save the session's state; when that fails the turn is over."""
        if self._failure is not None:
            raise self._failure
        try:
            body = _text(self.session)
            self._store(self._next(body, digest_of(body), hold))
        except BaseException as error:
            self._failure = error
            raise

    def _let_go(self) -> None:
        """Save what the turn came to, for whoever goes on."""
        try:
            self._save(hold=0)
        finally:
            self.session.hand_over()
            self._failure = self._failure or SessionClosed("this turn has ended: begin another to go on")

    def _remove(self) -> None:
        own = self._sessions
        own._store.end(self.session.id, self._sealed, 2 * own._lifetime)

    def _store(self, change: Change) -> None:
        self._sessions._store.save(self.session.id, change)
        self._sealed, self._version = change.head, change.version

    def _next(self, body: bytes | None, digest: str, hold: float) -> Change:
        own, version = self._sessions, self._version + 1
        sealed = own._seal.close(self.session.id, version, turn=hold > 0, body=digest)
        return Change(self._sealed, sealed, body, version, own._lifetime, hold)


class Sessions:
    """The sessions of one service, in a store that all its replicas share. Thread-safe."""

    def __init__(
        self,
        store: SessionStore,
        gate: Gate | ShadowGate,
        *,
        keys: Sequence[bytes],
        lifetime: float,
        hold: float = 120.0,
        recorder: Recorder | None = None,
        limits: Limits | None = None,
        approvals: Approvals | None = None,
    ) -> None:
        """Nothing is asked of the store yet.

        Args:
            store: keeps them, such as a `RedisStore`.
            gate: judges the writes of all of them.
            keys: the deployment's secret keys, at least 32 random bytes each; the first signs, all are accepted.
            lifetime: seconds after its last turn until a session expires. An expired session is lost.
            hold: seconds between two saves of one turn after which another replica may take over: longer than the
                longest answer of the model or run of a tool.
            recorder: keeps a record of every decision and outcome, or None.
            limits: size caps of the ledgers.
            approvals: whose grants the sessions take; None: nobody's.

        Raises:
            BadInput: for missing or short keys, or a lifetime that is not longer than `hold`.
        """
        if not 0 < hold < lifetime:
            raise BadInput(f"sessions must live longer ({lifetime} s) than a replica may hold one ({hold} s)")
        self._store = store
        self._seal = Seal(keys)
        self._lifetime = lifetime
        self._hold = hold
        self._gate = gate
        self._recorder = recorder
        self._limits = limits
        self._approvals = approvals

    def create(self, session_id: str, *, now: str, principal: Principal | None = None) -> str:
        """Store a new, empty session. Nothing else ever makes one.

        Args:
            session_id: unique among all conversations, for ever: a random id.
            now: the session's clock, RFC 3339 with an offset.
            principal: whom the host authenticated, or None.

        Returns:
            The token to pass with the first turn.

        Raises:
            SessionConflict: when there is or was one under this id.
            SessionUnavailable: when the outcome is not known; take another id.
            BadInput: for an id that is empty or no text, a clock without an offset, or a principal the host did not
                authenticate.
        """
        if not session_id:
            raise BadInput("a session needs an id that is not empty")
        body = _text(Session(self._gate, now=now, principal=principal, session_id=session_id, limits=self._limits))
        sealed = self._seal.close(session_id, 1, turn=False, body=digest_of(body))
        self._store.create(session_id, sealed, body, self._lifetime)
        return str(token_of(sealed, 1))

    @contextmanager
    def turn(self, session_id: str, token: str | None, *, now: str | None) -> Iterator[Turn]:
        """Serve one turn: `with sessions.turn(session_id, token, now=now) as turn:`, then keep `turn.token`.

        The session is saved whenever something leaves it that may be acted on, and at the end, also when the block
        raises. When a save fails, nothing leaves the session, it is closed here, and the block ends with the error.

        Args:
            session_id: whose.
            token: the one that the last turn gave; None gives up noticing that all of the store was rolled back.
            now: the session's clock for this turn, RFC 3339 with an offset; None leaves it where it is.

        Raises:
            SessionError: one of its branch, see there; nothing was let through that is not saved.
            RecordError: when a lost turn's outcome could not be recorded; it counts all the same.
            BadInput: for a token that is none, or a clock without an offset.
        """
        turn, interrupted = self._begin(session_id, token, now)
        try:
            if interrupted:
                turn.session.recover()
            yield turn
        finally:
            turn._let_go()

    def end(self, session_id: str, token: str | None) -> None:
        """Close a session and remove it; its id cannot be used again for twice `lifetime`.

        Args:
            session_id: whose.
            token: as for `turn`.

        Raises:
            SessionError: as for `turn`.
            RecordError: when an outcome could not be recorded; the session has ended all the same.
            BadInput: for a token that is none.
        """
        turn, interrupted = self._begin(session_id, token, None)
        try:
            if interrupted:
                turn.session.recover()
            turn.session.close("ended by the host")
        finally:
            turn._remove()

    def _begin(self, session_id: str, token: str | None, now: str | None) -> tuple[Turn, bool]:
        seen = Token.parse(token) if token is not None else None
        stored = self._store.load(session_id)
        if stored.taken:
            raise SessionBusy(
                f"session {shown_id(session_id)}: another replica is at work on it; try again when it is done, at the "
                f"latest {self._hold:g} s after its last save"
            )
        head = self._seal.open(stored.head, session_id)
        _check(stored, head, seen)
        session = self._restored(stored, session_id, lambda _: turn._save(self._hold))
        if now is not None:
            session.set_clock(now)
        turn = Turn(self, session, stored.head, head.version)
        turn._take(head.body)
        return turn, head.turn

    def _restored(self, stored: Stored, session_id: str, keeper: Keeper) -> Session:
        try:
            return Session.from_json(
                json.loads(stored.body),
                self._gate,
                recorder=self._recorder,
                limits=self._limits,
                keeper=keeper,
                approvals=self._approvals,
            )
        except (LedgerError, BadInput) as error:
            raise SessionDamaged(
                f"session {shown_id(session_id)} is as it was stored, and this replica cannot go on with it: {error}"
            ) from error


def _check(stored: Stored, head: Head, seen: Token | None) -> None:
    """Whether what is vouched for is also the latest."""
    what = f"session {shown_id(head.session)}"
    if digest_of(stored.body) != head.body:
        raise SessionDamaged(f"{what}: its text is not the one that its head vouches for; nothing of it is used")
    if stored.mark != head.version:
        marked = f"version {stored.mark}" if stored.mark is not None else "none"
        raise SessionRolledBack(f"{what}: version {head.version} is stored, and {marked} is marked as the latest")
    if seen is None or head.version > seen.version:
        return
    if seen != token_of(stored.head, head.version):
        raise SessionRolledBack(
            f"{what}: version {head.version} is stored, which is not or does not follow version {seen.version}, which "
            f"the last turn gave: the store lost what came since. Find out what ran, and open a new session"
        )


def _text(session: Session) -> bytes:
    return canonical(session.to_json()).encode("ascii")
