"""What a store of sessions has to do: keep two texts per session, and change them only by comparing first.

A store understands neither text. The *head* is small, differs after every change and is what a change is compared by;
the *body* is the session. Beside them the store keeps a *mark*, the number of the latest version, apart from the two,
and for how long a replica may be at work. Whether a head is to be believed is decided in `ledgeragent.sessions.seal`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Stored:
    """What is found under an id, all of it at one moment.

    Attributes:
        head: as it was last written.
        body: as it was last written.
        mark: number of the latest version, or None when the mark is gone or is no number.
        taken: whether some replica is at work on it and within its time.
    """

    head: bytes
    body: bytes
    mark: int | None
    taken: bool


@dataclass(frozen=True)
class Change:
    """The next version of a session.

    Attributes:
        before: the head that must still be there.
        head: the new one.
        body: the new one, or None to leave it.
        version: the new version's number, one more than the mark.
        lifetime: seconds until the session expires, unless it is changed again; its mark stays twice as long, so that
            an expired session can be told from one that never was.
        hold: seconds for which the replica that makes the change stays at work; 0 lets go.
    """

    before: bytes
    head: bytes
    body: bytes | None
    version: int
    lifetime: float
    hold: float


class SessionStore(Protocol):
    """Keeps sessions. Thread-safe. Each method is one atomic step and harmless to repeat.

    All raise `SessionUnavailable` when the outcome is not known; what was asked for may have been done then.
    """

    def create(self, session_id: str, head: bytes, body: bytes, lifetime: float) -> None:
        """Store version 1 of a new session.

        Raises:
            SessionConflict: when there is one under this id, or was one until recently.
        """
        ...

    def load(self, session_id: str) -> Stored:
        """What is stored under an id; nothing is changed.

        Raises:
            SessionLost: when nothing is.
        """
        ...

    def save(self, session_id: str, change: Change) -> None:
        """Make a change, if nobody else has made one.

        Raises:
            SessionLost: when the session is gone.
            SessionConflict: when head or mark are not as expected.
        """
        ...

    def end(self, session_id: str, before: bytes, remember: float) -> None:
        """Remove a session.

        Args:
            session_id: whose.
            before: the head that must still be there.
            remember: seconds until the id is free again.

        Raises:
            SessionLost: when it is gone already.
            SessionConflict: when the head is another.
        """
        ...
