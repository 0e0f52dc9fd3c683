"""What tests of stored sessions share: keys, a shop that counts, and what lies under a session's id in Redis."""

from __future__ import annotations

import hashlib
from typing import Any, Final

from redis import Redis

from ledgeragent.sessions import Sessions
from support import retail
from support.retail import NOW

KEY: Final = b"k" * 32


class Shop:
    """Runs tools and keeps what it ran."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def __call__(self, tool: str, arguments: dict[str, Any]) -> str:
        self.ran.append(tool)
        return "done"


def opened(sessions: Sessions, session_id: str) -> str:
    """A session in which everything of the retail desk was read; its token."""
    with sessions.turn(session_id, sessions.create(session_id, now=NOW), now=NOW) as turn:
        retail.learn(turn.session)
    return turn.token


def history(sessions: Sessions, session_id: str, token: str | None) -> list[tuple[str, str]]:
    """(tool, outcome) of a session's writes, as a replica finds them that begins a turn."""
    with sessions.turn(session_id, token, now=NOW) as turn:
        return retail.history(turn.session)


def key_of(session_id: str, kind: str) -> str:
    """Redis's key of a session's `state`, `mark` or `hold`."""
    return f"ledgeragent:{{{hashlib.sha256(session_id.encode()).hexdigest()[:32]}}}:{kind}"


def overdue(redis: Redis, session_id: str) -> None:
    """The replica at work has taken longer than it may."""
    assert redis.delete(key_of(session_id, "hold")) == 1


def snapshot(redis: Redis, session_id: str, *kinds: str) -> dict[str, bytes]:
    """What lies under some of a session's keys, for `restore`."""
    kept = {key: redis.dump(key) for key in (key_of(session_id, kind) for kind in kinds)}
    return {key: value for key, value in kept.items() if value is not None}


def restore(redis: Redis, kept: dict[str, bytes]) -> None:
    """Put back what was there."""
    for key, value in kept.items():
        redis.restore(key, 0, value, replace=True)
