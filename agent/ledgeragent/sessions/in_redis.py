"""Sessions in Redis. Needs the extra `redis`.

Three keys per session: a hash with head and body, the mark of the latest version, and the hold of the replica at work.
They share a hash slot and expire by Redis's own clock. Every step is one script, so it is done whole or not at all, and
says so when it finds itself done already: an answer that was lost can be asked for again.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any, Final, Self

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as NoConnection
from redis.exceptions import ResponseError
from redis.exceptions import TimeoutError as NoAnswer
from redis.retry import Retry

from ledgeragent.errors import BadInput, SessionConflict, SessionLost, SessionUnavailable, shown_id
from ledgeragent.sessions.store import Change, Stored

_QUOTABLE: Final = (NoConnection, NoAnswer, ResponseError)
"""Errors whose text is Redis's or the client's own, never a part of a session."""
_NUMBER: Final = re.compile(rb"[0-9]{1,15}")
_LOAD: Final = """
local state = redis.call('HMGET', KEYS[1], 'head', 'body')
return {state[1], state[2], redis.call('GET', KEYS[2]), redis.call('EXISTS', KEYS[3])}
"""
_CREATE: Final = """
local head, body, lifetime = ARGV[1], ARGV[2], ARGV[3]
if redis.call('HGET', KEYS[1], 'head') == head then return 'done' end
if redis.call('EXISTS', KEYS[1], KEYS[2]) > 0 then return 'there' end
redis.call('HSET', KEYS[1], 'head', head, 'body', body)
redis.call('PEXPIRE', KEYS[1], lifetime)
redis.call('SET', KEYS[2], '1', 'PX', 2 * lifetime)
return 'done'
"""
_SAVE: Final = """
local before, head, version, lifetime, hold = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local found = redis.call('HGET', KEYS[1], 'head')
if found == head then return 'done' end
if not found then return 'lost' end
if found ~= before or tonumber(redis.call('GET', KEYS[2])) ~= version - 1 then return 'moved' end
redis.call('HSET', KEYS[1], 'head', head)
if ARGV[6] then redis.call('HSET', KEYS[1], 'body', ARGV[6]) end
redis.call('PEXPIRE', KEYS[1], lifetime)
redis.call('SET', KEYS[2], version, 'PX', 2 * lifetime)
if hold == '0' then redis.call('DEL', KEYS[3]) else redis.call('SET', KEYS[3], '1', 'PX', hold) end
return 'done'
"""
_END: Final = """
local before, remember = ARGV[1], ARGV[2]
local found = redis.call('HGET', KEYS[1], 'head')
if not found and redis.call('GET', KEYS[2]) == 'ended' then return 'done' end
if not found then return 'lost' end
if found ~= before then return 'moved' end
redis.call('DEL', KEYS[1], KEYS[3])
redis.call('SET', KEYS[2], 'ended', 'PX', remember)
return 'done'
"""


class RedisStore:
    """A `SessionStore` in one Redis (or its primary, found by Sentinel). Thread-safe."""

    def __init__(
        self, client: Redis, *, prefix: str = "ledgeragent", replicas: int = 0, replica_timeout: float = 1.0
    ) -> None:
        """Use a client; nothing is asked of it yet.

        Args:
            client: with a `socket_timeout`, and without `decode_responses`.
            prefix: of all keys.
            replicas: so many replicas must have each change before it counts; without, a change that Redis confirmed
                can be lost when a replica takes over.
            replica_timeout: seconds to wait for them.

        Raises:
            BadInput: for a client that could wait for ever, or decodes what it gets.
        """
        about = client.get_connection_kwargs()
        if not about.get("socket_timeout"):
            raise BadInput("the Redis client has no socket_timeout: a Redis that hangs would hang the agent; set one")
        if about.get("decode_responses"):
            raise BadInput("the Redis client has decode_responses set: sessions are bytes; give it a client of its own")
        self._client = client
        self._prefix = prefix
        self._replicas = replicas
        self._replica_ms = round(replica_timeout * 1000)

    @classmethod
    def from_url(cls, url: str, *, timeout: float = 2.0, **about: Any) -> Self:
        """A store with a client of its own, which tries once more where a connection breaks.

        Args:
            url: `redis://`, `rediss://` (TLS) or `unix://`, as redis-py takes it.
            timeout: seconds to wait for a connection, and for an answer.
            about: as for the constructor.

        Raises:
            BadInput: for a URL that is none.
        """
        try:
            client = Redis.from_url(
                url, socket_timeout=timeout, socket_connect_timeout=timeout, retry=Retry(NoBackoff(), 1)
            )
        except ValueError as error:
            raise BadInput(f"not the URL of a Redis: {error}") from None
        return cls(client, **about)

    def close(self) -> None:
        """Close the client's connections; a later call opens new ones."""
        self._client.close()

    def create(self, session_id: str, head: bytes, body: bytes, lifetime: float) -> None:
        """As the protocol has it."""
        said = self._write(_CREATE, session_id, head, body, _ms(lifetime))
        if said == b"there":
            raise SessionConflict(
                f"session {shown_id(session_id)} exists, or existed until recently; go on with it, or take an id that "
                f"was never used"
            )
        _raise_unless_done(said, session_id)

    def load(self, session_id: str) -> Stored:
        """As the protocol has it."""
        found = self._asked(_LOAD, session_id)
        match found:
            case [bytes() | None as head, bytes() | None as body, bytes() | None as mark, int() as held]:
                pass
            case _:
                raise SessionUnavailable(f"session {shown_id(session_id)}: this is no answer of Redis")
        if head is None:
            was = "it has expired, was evicted or ended" if mark is not None else "it was never created, or long ago"
            raise SessionLost(
                f"there is no session {shown_id(session_id)}: {was}. Nothing is known of what it did: open a new one, "
                f"under a new id, only when somebody has found out what ran"
            )
        number = int(mark) if mark is not None and _NUMBER.fullmatch(mark) else None
        return Stored(head, body or b"", number, bool(held))

    def save(self, session_id: str, change: Change) -> None:
        """As the protocol has it."""
        times = (_ms(change.lifetime), _ms(change.hold))
        body = () if change.body is None else (change.body,)
        said = self._write(_SAVE, session_id, change.before, change.head, change.version, *times, *body)
        _raise_unless_done(said, session_id)

    def end(self, session_id: str, before: bytes, remember: float) -> None:
        """As the protocol has it."""
        _raise_unless_done(self._write(_END, session_id, before, _ms(remember)), session_id)

    def _write(self, script: str, session_id: str, *arguments: bytes | int) -> Any:
        return self._asked(script, session_id, *arguments, replicas=self._replicas)

    def _asked(self, script: str, session_id: str, *arguments: bytes | int, replicas: int = 0) -> Any:
        keys = self._keys(session_id)
        try:
            with self._client.pipeline(transaction=False) as pipeline:
                pipeline.eval(script, len(keys), *keys, *arguments)
                if replicas:  # of this connection's writes, so it has to be asked on the same one
                    pipeline.wait(replicas, self._replica_ms)
                # An error that the pipeline raises itself would quote the command.
                said, *copies = pipeline.execute(raise_on_error=False)
            for answer in (said, *copies):
                if isinstance(answer, Exception):
                    raise answer
        except Exception as error:  # noqa: BLE001 - whatever a client stumbles over, the outcome is not known
            cause = error if isinstance(error, _QUOTABLE) else None
            why = type(error).__name__ + (f": {error}" if cause is not None else "")
            raise SessionUnavailable(
                f"session {shown_id(session_id)}: Redis gave no usable answer ({why}); nothing is let through till then"
            ) from cause
        if replicas and not (isinstance(copies[0], int) and copies[0] >= replicas):
            raise SessionUnavailable(
                f"session {shown_id(session_id)}: the change is not known to be on {replicas} replica(s); "
                f"nothing is let through until they keep up"
            )
        return said

    def _keys(self, session_id: str) -> tuple[str, str, str]:
        # Ids may hold anything, also what is nobody's business; the braces keep the keys in one slot of a cluster.
        name = hashlib.sha256(session_id.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        return (
            f"{self._prefix}:{{{name}}}:state",
            f"{self._prefix}:{{{name}}}:mark",
            f"{self._prefix}:{{{name}}}:hold",
        )


def _raise_unless_done(said: Any, session_id: str) -> None:
    what = f"session {shown_id(session_id)}"
    if said == b"lost":
        raise SessionLost(f"{what} is gone: it has expired, was evicted or was ended; what was judged since is void")
    if said == b"moved":
        raise SessionConflict(
            f"{what} went on elsewhere meanwhile; what was judged here is void, nothing of it may run"
        )
    if said != b"done":
        raise SessionUnavailable(f"{what}: this is no answer of Redis")


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
