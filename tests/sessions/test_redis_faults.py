"""A Redis that fails, at every step of a turn: no write is let through, the error says so in time, and all goes on after.

Each case hurts a server of its own right before one step, looks at what the step comes to, heals the server, and looks
at what the next turn knows.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
from redis import Redis

from ledgeragent.errors import SessionLost, SessionRolledBack, SessionUnavailable
from ledgeragent.gate import Gate
from ledgeragent.session import Ticket
from ledgeragent.sessions import Sessions, Turn
from ledgeragent.sessions.in_redis import RedisStore
from support import retail
from support.redis_server import Between, RedisServer, Spoil, running, until
from support.retail import NOW, USER, admitted, cancel
from support.stored import KEY, Shop, history, key_of, opened

pytest_plugins = ["support.fixtures"]

HANG: Final = ("hangs", "half an answer", "nothing")
TIMEOUT: Final = 0.5
BUDGET: Final = 4.0
"""What a step may take at most when Redis hangs: it is tried twice, and connecting too."""
CANCEL: Final = "cancel_pending_order"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A server that is hurt and healed."""
    with running(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
def between(server: RedisServer) -> Iterator[Between]:
    """A go-between in front of it."""
    proxy = Between(server.port)
    yield proxy
    proxy.close()


def replica_at(url: str, gate: Gate, fault: str = "", **about: Any) -> Sessions:
    """A replica that waits long, so that a busy machine is no fault, unless the fault is to be waited for."""
    store = RedisStore.from_url(url, timeout=TIMEOUT if fault in HANG else 10.0, **about)
    return Sessions(store, gate, keys=[KEY], lifetime=3600)


# Steps of a turn -------------------------------------------------------------------------------------------------


class Attempt:
    """A turn that is taken up to a step, and the step."""

    def __init__(self, sessions: Sessions, session_id: str, token: str, step: str) -> None:
        self.sessions, self.session_id, self.token, self.step = sessions, session_id, token, step
        self.shop = Shop()
        self.turn: Turn
        self.ticket: Ticket
        if step == "begin":
            return
        self.turn, _ = sessions._begin(session_id, token, NOW)
        if step in ("redeem", "report"):
            self.ticket = admitted(self.turn.session, cancel())
        if step == "report":
            self.shop(self.ticket.tool, self.turn.session.redeem(self.ticket))

    def go(self) -> Any:
        """The step."""
        if self.step == "begin":
            return self.sessions._begin(self.session_id, self.token, NOW)
        if self.step == "review":
            return self.turn.session.review([cancel()])
        if self.step == "redeem":
            return self.turn.session.execute(self.ticket, self.shop)
        if self.step == "report":
            return self.turn.session.report(self.ticket, "executed", "done")
        return self.turn._let_go()


STEPS: Final = ("begin", "review", "redeem", "report", "end")
RAN: Final = {"begin": [], "review": [], "redeem": [], "report": [CANCEL], "end": []}
MAY_BE_KNOWN: Final[dict[str, list[list[tuple[str, str]]]]] = {
    "begin": [[]],
    "review": [[], [(CANCEL, "uncertain")]],
    "redeem": [[(CANCEL, "uncertain")]],
    "report": [[(CANCEL, "uncertain")], [(CANCEL, "executed")]],
    "end": [[]],
}
"""What the next turn may know: a step whose answer was lost may have been taken, or not."""


def fails_safely(attempt: Attempt) -> None:
    """The step fails within its budget, with the error of its list, and nothing can be done with the turn any more."""
    began = time.monotonic()
    with pytest.raises(SessionUnavailable, match=r"Redis gave no usable answer|is not known to be on 1 replica"):
        attempt.go()
    assert time.monotonic() - began < BUDGET
    assert attempt.shop.ran == RAN[attempt.step]
    if attempt.step != "begin":
        with pytest.raises(SessionUnavailable):
            attempt.turn._let_go()
        assert attempt.turn.session.to_json()["closed"] is not None


def goes_on(server: RedisServer, attempt: Attempt, gate: Gate) -> None:
    """Once Redis is well and the hold is over, the next turn knows what may have happened, and repeats nothing."""
    sessions = replica_at(server.url, gate)
    if attempt.step != "begin":
        with pytest.raises(SessionUnavailable):  # the turn is over, even if it could be saved now
            attempt.turn._let_go()
    with server.client() as redis:
        redis.delete(key_of(attempt.session_id, "hold"))
    with sessions.turn(attempt.session_id, attempt.token, now=NOW) as turn:
        known = retail.history(turn.session)
        assert known in MAY_BE_KNOWN[attempt.step]
        assert bool(known) == (turn.session.review([cancel()])[0].ticket is None)


# Ways to fail ----------------------------------------------------------------------------------------------------


def _kill(server: RedisServer, redis: Redis) -> Callable[[], object]:
    server.kill()
    return server.start


def _pause(server: RedisServer, redis: Redis) -> Callable[[], object]:
    server.pause()
    return server.resume


def _configured(**options: str) -> Callable[[RedisServer, Redis], Callable[[], object]]:
    def hurt(server: RedisServer, redis: Redis) -> Callable[[], object]:
        names = [name.replace("_", "-") for name in options]
        before = {name: value for one in names for name, value in redis.config_get(one).items()}
        redis.config_set(*[word for pair in zip(names, options.values(), strict=True) for word in pair])

        def heal() -> None:
            redis.config_set(*[word for pair in before.items() for word in pair])

        return heal

    return hurt


def _read_only(server: RedisServer, redis: Redis) -> Callable[[], object]:
    redis.replicaof("127.0.0.1", "1")
    return lambda: redis.replicaof("NO", "ONE")


def _locked(server: RedisServer, redis: Redis) -> Callable[[], object]:
    redis.execute_command("ACL", "SETUSER", "default", "-eval")
    return lambda: redis.execute_command("ACL", "SETUSER", "default", "+eval")


FAULTS: Final = {
    "killed": _kill,
    "hangs": _pause,
    "full": _configured(maxmemory="1", maxmemory_policy="noeviction"),
    "too few replicas": _configured(min_replicas_to_write="1"),
    "read-only": _read_only,
    "not permitted": _locked,
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_redis_that_fails_lets_nothing_through_and_nothing_happens_twice(
    server: RedisServer, gate: Gate, session_id: str, fault: str, step: str
) -> None:
    sessions = replica_at(server.url, gate, fault)
    attempt = Attempt(sessions, session_id, opened(sessions, session_id), step)
    with server.client() as redis:
        heal = FAULTS[fault](server, redis)
        try:
            fails_safely(attempt)
        finally:
            heal()
    goes_on(server, attempt, gate)


# Answers that are none -------------------------------------------------------------------------------------------


def _asks_and_hangs_up(redis: socket.socket, request: bytes) -> None:
    redis.sendall(request)
    redis.recv(1_000_000)


def _hangs_up(redis: socket.socket, request: bytes) -> None:
    return None


def _says(answer: bytes) -> Spoil:
    return lambda redis, request: answer


SPOILED: Final[dict[str, Spoil]] = {
    "the answer is lost": _asks_and_hangs_up,
    "the request is lost": _hangs_up,
    "html": _says(b"HTTP/1.1 503 Service Unavailable\r\n\r\n<html>"),
    "half an answer": _says(b"$100\r\ndo"),
    "another type": _says(b":1\r\n"),
    "nothing": _says(b"$-1\r\n"),
    "another word": _says(b"+OK\r\n"),
    "a list of nothing": _says(b"*0\r\n"),
    "a list of other things": _says(b"*4\r\n:1\r\n:1\r\n:1\r\n:1\r\n"),
    "an error": _says(b"-LOADING Redis is loading the dataset in memory\r\n"),
    "no protocol": _says(b"\x00\x01\x02\r\n\r\n"),
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("how", SPOILED)
def test_what_is_no_answer_of_a_store_is_not_taken_for_one(
    server: RedisServer, between: Between, gate: Gate, session_id: str, how: str, step: str
) -> None:
    sessions = replica_at(between.url, gate, how)
    attempt = Attempt(sessions, session_id, opened(sessions, session_id), step)
    between.spoil = SPOILED[how]
    began = time.monotonic()
    with pytest.raises(SessionUnavailable):
        attempt.go()
    assert time.monotonic() - began < BUDGET
    assert attempt.shop.ran == RAN[step]
    goes_on(server, attempt, gate)


@pytest.mark.parametrize("step", STEPS)
def test_a_redis_killed_in_the_middle_of_a_step_has_taken_it_or_not(
    server: RedisServer, between: Between, gate: Gate, session_id: str, step: str
) -> None:
    sessions = replica_at(between.url, gate)
    attempt = Attempt(sessions, session_id, opened(sessions, session_id), step)

    def kill(redis: socket.socket, request: bytes) -> None:
        redis.sendall(request)
        server.kill()

    between.spoil = kill
    try:
        fails_safely(attempt)
    finally:
        server.start()
    goes_on(server, attempt, gate)


@pytest.mark.parametrize("how", ["html", "half an answer", "no protocol", "echo", "error"])
def test_no_error_quotes_a_session(
    server: RedisServer, between: Between, gate: Gate, session_id: str, how: str
) -> None:
    sessions = replica_at(between.url, gate, how)
    attempt = Attempt(sessions, session_id, opened(sessions, session_id), "review")
    between.spoil = {**SPOILED, "echo": lambda redis, request: request, "error": _says(b"-ERR no\r\n")}[how]
    with pytest.raises(SessionUnavailable) as problem:
        attempt.go()
    told: list[str] = []
    error: BaseException | None = problem.value
    while error is not None:
        told.append(str(error))
        error = error.__cause__
    assert [text for text in told if USER in text or "head" in text] == []


def test_a_lost_answer_is_asked_for_again_and_nothing_is_done_twice(
    server: RedisServer, between: Between, gate: Gate, session_id: str
) -> None:
    sessions = replica_at(between.url, gate)
    token = opened(sessions, session_id)
    lost: list[bytes] = []

    def every_first(redis: socket.socket, request: bytes) -> bytes | None:
        redis.sendall(request)
        answer = redis.recv(1_000_000)
        lost.append(request)
        return None if len(lost) % 2 else answer

    between.spoil = every_first
    shop = Shop()
    with sessions.turn(session_id, token, now=NOW) as turn:
        turn.session.execute(admitted(turn.session, cancel()), shop)
    assert (shop.ran, len(lost)) == ([CANCEL], 12)
    assert lost[::2] == lost[1::2]
    assert history(replica_at(server.url, gate), session_id, turn.token) == [(CANCEL, "executed")]


def test_creating_where_redis_fails_creates_nothing_that_is_used(
    server: RedisServer, gate: Gate, session_id: str
) -> None:
    server.pause()
    try:
        with pytest.raises(SessionUnavailable):
            replica_at(server.url, gate, "hangs").create(session_id, now=NOW)
    finally:
        server.resume()


def test_a_redis_that_was_never_there_is_unavailable(gate: Gate, session_id: str) -> None:
    with pytest.raises(SessionUnavailable, match="Redis gave no usable answer"):
        history(replica_at("redis://127.0.0.1:1/0", gate), session_id, None)


# Replicas of Redis -----------------------------------------------------------------------------------------------


@pytest.fixture
def follower(server: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A server that follows the first."""
    with running(tmp_path_factory.mktemp("redis")) as second:
        with second.client() as redis:
            redis.replicaof("127.0.0.1", str(server.port))
            until(lambda: redis.info("replication")["master_link_status"] == "up", "replicating")
        yield second


@pytest.mark.parametrize("step", STEPS[:-1])
def test_what_is_not_on_as_many_replicas_as_asked_does_not_count(
    server: RedisServer, follower: RedisServer, gate: Gate, session_id: str, step: str
) -> None:
    sessions = replica_at(server.url, gate, replicas=1, replica_timeout=1.5)
    attempt = Attempt(sessions, session_id, opened(sessions, session_id), step)
    follower.pause()
    try:
        fails_safely(attempt)
    finally:
        follower.resume()
    goes_on(server, attempt, gate)


def test_a_failover_that_loses_a_save_is_noticed_by_whoever_holds_a_token(
    server: RedisServer, follower: RedisServer, gate: Gate, session_id: str
) -> None:
    sessions = replica_at(server.url, gate)
    token = opened(sessions, session_id)
    with follower.client() as redis:
        until(lambda: redis.get(key_of(session_id, "mark")) == b"3", "replicating")
        redis.replicaof("127.0.0.1", "1")  # cut off
    with sessions.turn(session_id, token, now=NOW) as turn:
        retail.run(turn.session, cancel())
    with follower.client() as redis:
        redis.replicaof("NO", "ONE")
    with pytest.raises(SessionRolledBack, match="the store lost what came since"):
        history(replica_at(follower.url, gate), session_id, turn.token)


def test_a_failover_loses_nothing_that_was_on_the_replica(
    server: RedisServer, follower: RedisServer, gate: Gate, session_id: str
) -> None:
    sessions = replica_at(server.url, gate, replicas=1, replica_timeout=4)
    token = opened(sessions, session_id)
    turn, _ = sessions._begin(session_id, token, NOW)
    turn.session.redeem(admitted(turn.session, cancel()))
    server.pause()
    try:
        with follower.client() as redis:
            redis.replicaof("NO", "ONE")
            redis.delete(key_of(session_id, "hold"))
        assert history(replica_at(follower.url, gate), session_id, token) == [(CANCEL, "uncertain")]
    finally:
        server.resume()


def test_a_redis_that_restarts_empty_has_lost_its_sessions(
    tmp_path_factory: pytest.TempPathFactory, gate: Gate, session_id: str
) -> None:
    with running(tmp_path_factory.mktemp("redis")) as own:
        sessions = replica_at(own.url, gate)
        token = opened(sessions, session_id)
        with own.client() as redis:
            redis.flushall()
        own.kill()
        own.start()
        with pytest.raises(SessionLost):
            history(sessions, session_id, token)


def test_evicted_keys_are_noticed(tmp_path_factory: pytest.TempPathFactory, gate: Gate) -> None:
    with running(tmp_path_factory.mktemp("redis")) as own, own.client() as redis:
        sessions = replica_at(own.url, gate)
        tokens = {f"s{number}": opened(sessions, f"s{number}") for number in range(20)}
        redis.config_set("maxmemory-policy", "allkeys-random")
        redis.config_set("maxmemory", str(redis.info("memory")["used_memory"] - 1))
        redis.config_set("maxmemory", "0")
        gone = [name for name in tokens if redis.exists(key_of(name, "state"), key_of(name, "mark")) < 2]
        assert gone
        for name, token in tokens.items():
            if name not in gone:
                assert history(sessions, name, token) == []
                continue
            with pytest.raises((SessionLost, SessionRolledBack)):
                history(sessions, name, token)
