"""What somebody who can write to Redis, or a backup put back, makes of a session: never an empty one, never an old one."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import pytest
from redis import Redis

from ledgeragent.contracts import Principal
from ledgeragent.domain import Domain
from ledgeragent.errors import (
    BadInput,
    SessionBusy,
    SessionConflict,
    SessionDamaged,
    SessionError,
    SessionLost,
    SessionRolledBack,
    SessionUnavailable,
)
from ledgeragent.ledger import Limits
from ledgeragent.sessions import Sessions
from ledgeragent.sessions.in_redis import RedisStore
from ledgeragent.sessions.seal import Seal, _code
from ledgeragent.sessions.store import Change
from support import retail, toy
from support.redis_server import RedisServer
from support.retail import NOW, USER, admitted, cancel
from support.stored import KEY, history, key_of, opened, restore, snapshot

pytest_plugins = ["support.fixtures"]

Replica = Callable[..., Sessions]
OTHER: Final = b"o" * 32


def after_a_write(sessions: Sessions, session_id: str, token: str) -> str:
    """A turn in which an order is cancelled; its token."""
    with sessions.turn(session_id, token, now=NOW) as turn:
        retail.run(turn.session, cancel())
    return turn.token


def refused(sessions: Sessions, session_id: str, token: str | None) -> type[SessionError]:
    """The error that a turn ends with before it begins; ending the session ends with the same."""
    with pytest.raises(SessionError) as error:
        history(sessions, session_id, token)
    with pytest.raises(error.type):
        sessions.end(session_id, token)
    return error.type


# Edits -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("field", ["head", "body"])
def test_no_byte_of_a_stored_session_can_be_changed(
    redis: Redis, replica: Replica, session_id: str, field: str
) -> None:
    sessions = replica()
    token = sessions.create(session_id, now=NOW, principal=Principal(id=USER, source="host"))
    key = key_of(session_id, "state")
    stored = redis.hget(key, field)
    assert isinstance(stored, bytes)
    for at in range(len(stored)):
        redis.hset(key, field, stored[:at] + bytes([stored[at] ^ 1]) + stored[at + 1 :])
        with pytest.raises(SessionDamaged, match="nothing of it is used"), sessions.turn(session_id, token, now=NOW):
            pytest.fail(f"byte {at} could be changed")
    for edited in (b"", stored[:-1], stored + b" ", stored * 2):
        redis.hset(key, field, edited)
        assert refused(sessions, session_id, None) is SessionDamaged
    assert redis.exists(key_of(session_id, "hold")) == 0
    redis.hset(key, field, stored)
    assert history(sessions, session_id, token) == []


@pytest.mark.parametrize(
    ("meddle", "error"),
    [
        (lambda redis, key: redis.hdel(key, "head"), SessionLost),
        (lambda redis, key: redis.hdel(key, "body"), SessionDamaged),
        (lambda redis, key: redis.set(key, "text"), SessionUnavailable),
        (lambda redis, key: redis.delete(key), SessionLost),
        (lambda redis, key: redis.flushall(), SessionLost),
        (lambda redis, key: redis.hset(key, "head", "0" * 64 + "{}"), SessionDamaged),
    ],
)
def test_a_session_that_is_gone_or_overwritten_is_not_made_anew(
    redis: Redis, replica: Replica, session_id: str, meddle: Callable[[Redis, str], Any], error: type[SessionError]
) -> None:
    sessions = replica()
    token = opened(sessions, session_id)
    meddle(redis, key_of(session_id, "state"))
    before = redis.dbsize()
    assert (refused(sessions, session_id, token), refused(sessions, session_id, None)) == (error, error)
    assert redis.dbsize() == before


def test_one_session_cannot_be_put_in_anothers_place(redis: Redis, replica: Replica) -> None:
    sessions = replica()
    tokens = {name: opened(sessions, name) for name in ("ada", "eve")}
    for kind in ("state", "mark"):
        redis.copy(key_of("eve", kind), key_of("ada", kind), replace=True)
    with (
        pytest.raises(SessionDamaged, match=r"under session sha256:[0-9a-f]{16} another session is stored"),
        sessions.turn("ada", tokens["ada"], now=NOW),
    ):
        pytest.fail("a turn of somebody else")
    assert history(sessions, "eve", tokens["eve"]) == []


def test_head_and_body_of_two_sessions_do_not_go_together(redis: Redis, replica: Replica) -> None:
    sessions = replica()
    for name in ("ada", "eve"):
        opened(sessions, name)
    redis.hset(key_of("ada", "state"), "body", redis.hget(key_of("eve", "state"), "body") or b"")
    assert refused(sessions, "ada", None) is SessionDamaged


# Keys ------------------------------------------------------------------------------------------------------------


def test_keys_are_rotated_without_losing_a_session(replica: Replica, session_id: str) -> None:
    before, while_rotating, after = replica(), replica(keys=[OTHER, KEY]), replica(keys=[OTHER])
    token = opened(before, session_id)
    assert refused(after, session_id, token) is SessionDamaged
    token = after_a_write(while_rotating, session_id, token)
    assert refused(before, session_id, token) is SessionDamaged
    assert history(after, session_id, token) == [("cancel_pending_order", "executed")]


def test_what_is_signed_with_an_unknown_key_says_what_may_be_wrong(replica: Replica, session_id: str) -> None:
    token = opened(replica(), session_id)
    with (
        pytest.raises(
            SessionDamaged, match=r"none of the 1 accepted key\(s\) vouches .* a key that is not accepted any"
        ),
        replica(keys=[OTHER]).turn(session_id, token, now=NOW),
    ):
        pytest.fail("a turn under another key")


def test_a_head_of_another_release_is_refused(redis: Redis, replica: Replica, session_id: str) -> None:
    opened(replica(), session_id)
    seal = Seal([KEY])
    sealed = seal.close(session_id, 3, turn=False, body="b").replace(b'"turn":false', b'"turn":0')
    text = sealed[64:]
    redis.hset(key_of(session_id, "state"), "head", _code(KEY, text) + text)
    with (
        pytest.raises(SessionDamaged, match="another release of LedgerAgent uses the same store and keys"),
        replica().turn(session_id, None, now=NOW),
    ):
        pytest.fail("a turn of another release")


# Rolled back -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kinds", [("state",), ("mark",)])
def test_an_old_version_put_back_is_refused_even_without_a_token(
    redis: Redis, replica: Replica, session_id: str, kinds: tuple[str, ...]
) -> None:
    sessions = replica()
    token = opened(sessions, session_id)
    kept = snapshot(redis, session_id, *kinds)
    latest = after_a_write(sessions, session_id, token)
    restore(redis, kept)
    for seen in (latest, token, None):
        assert refused(sessions, session_id, seen) is SessionRolledBack


def test_a_backup_put_back_whole_is_refused_by_whoever_holds_a_token(
    redis: Redis, replica: Replica, session_id: str
) -> None:
    sessions = replica()
    token = opened(sessions, session_id)
    backup = snapshot(redis, session_id, "state", "mark")
    latest = after_a_write(sessions, session_id, token)
    restore(redis, backup)
    with (
        pytest.raises(SessionRolledBack, match=r"the store lost what came since\. Find out what ran"),
        sessions.turn(session_id, latest, now=NOW),
    ):
        pytest.fail("a turn of an old version")


def test_a_backup_put_back_whole_is_not_noticed_without_a_token_or_with_an_old_one(
    redis: Redis, replica: Replica, session_id: str
) -> None:
    # The limit that docs/operate/sessions.md names: if this ever fails, it has become better than its word.
    sessions = replica()
    token = opened(sessions, session_id)
    backup = snapshot(redis, session_id, "state", "mark")
    after_a_write(sessions, session_id, token)
    for seen in (None, token):
        restore(redis, backup)
        assert history(sessions, session_id, seen) == []


def test_a_version_of_the_same_number_and_another_past_is_refused(
    redis: Redis, replica: Replica, session_id: str
) -> None:
    sessions = replica()
    token = opened(sessions, session_id)
    backup = snapshot(redis, session_id, "state", "mark")
    seen = after_a_write(sessions, session_id, token)
    restore(redis, backup)
    other = after_a_write(sessions, session_id, token)
    assert (seen.partition(".")[0], seen == other) == (other.partition(".")[0], False)
    assert refused(sessions, session_id, seen) is SessionRolledBack
    assert history(sessions, session_id, other) == [("cancel_pending_order", "executed")]


@pytest.mark.parametrize("mark", [b"1", b"99", b"-5", b"5.0", b" 5", b"x", b"", b"\xff", b"ended", b"9" * 5000, None])
def test_a_mark_that_was_edited_or_evicted_is_no_longer_believed(
    redis: Redis, replica: Replica, session_id: str, mark: bytes | None
) -> None:
    sessions = replica()
    token = opened(sessions, session_id)
    key = key_of(session_id, "mark")
    assert redis.get(key) == b"3"
    if mark is None:
        redis.delete(key)
    else:
        redis.set(key, mark)
    assert refused(sessions, session_id, token) is SessionRolledBack


def test_a_mark_that_goes_in_the_middle_of_a_turn_ends_it(redis: Redis, replica: Replica, session_id: str) -> None:
    sessions = replica()
    turn, _ = sessions._begin(session_id, opened(sessions, session_id), NOW)
    redis.delete(key_of(session_id, "mark"))
    with pytest.raises(SessionConflict):
        admitted(turn.session, cancel())


def test_an_old_version_put_back_in_the_middle_of_a_turn_ends_it(
    redis: Redis, replica: Replica, session_id: str
) -> None:
    sessions = replica()
    token = opened(sessions, session_id)
    backup = snapshot(redis, session_id, "state", "mark")
    turns = []
    for _ in range(2):
        restore(redis, backup)
        redis.delete(key_of(session_id, "hold"))
        turns.append(sessions._begin(session_id, token, NOW)[0])
    assert [turn.token.partition(".")[0] for turn in turns] == ["4", "4"]
    with pytest.raises(SessionConflict):
        admitted(turns[0].session, cancel())
    admitted(turns[1].session, cancel())


def test_taking_the_hold_away_lets_others_in_and_nothing_through_twice(
    redis: Redis, replica: Replica, session_id: str
) -> None:
    sessions = replica()
    turn, _ = sessions._begin(session_id, opened(sessions, session_id), NOW)
    ticket = admitted(turn.session, cancel())
    redis.delete(key_of(session_id, "hold"))
    assert history(replica(), session_id, None) == [("cancel_pending_order", "uncertain")]
    with pytest.raises(SessionConflict):
        turn.session.redeem(ticket)


def test_a_made_up_hold_stops_the_session_and_lets_nothing_through(
    redis: Redis, replica: Replica, session_id: str
) -> None:
    sessions = replica()
    token = opened(sessions, session_id)
    redis.set(key_of(session_id, "hold"), "for ever")
    assert refused(sessions, session_id, token) is SessionBusy


# Tokens ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("token", ["", "3", "0." + "a" * 64, "3." + "A" * 64, "3." + "a" * 63, "3." + "a" * 64 + "\n"])
def test_what_is_no_token_is_refused(replica: Replica, session_id: str, token: str) -> None:
    sessions = replica()
    opened(sessions, session_id)
    with pytest.raises(
        BadInput, match="this is no token of a session; pass the one that the last turn gave, unchanged"
    ):
        history(sessions, session_id, token)


def test_a_token_that_promises_more_than_there_is_is_refused(replica: Replica, session_id: str) -> None:
    sessions = replica()
    token = opened(sessions, session_id)
    for made_up in ("4." + "a" * 64, "3." + "a" * 64, re.sub(r"^\d+", "9999999999", token)):
        assert refused(sessions, session_id, made_up) is SessionRolledBack


# Another replica's ideas -----------------------------------------------------------------------------------------


def test_a_replica_with_tighter_limits_does_not_go_on_and_spoils_nothing(replica: Replica, session_id: str) -> None:
    token = opened(replica(), session_id)
    with (
        pytest.raises(SessionDamaged, match=r"this replica cannot go on with it: .* its limit is 1"),
        replica(limits=Limits(records=1)).turn(session_id, token, now=NOW),
    ):
        pytest.fail("a turn beyond its limits")
    assert history(replica(), session_id, token) == []


def test_a_replica_of_another_domain_does_not_go_on(
    redis: Redis, shared_redis: RedisServer, replica: Replica, toy_domain: Domain, tmp_path: Any, session_id: str
) -> None:
    token = opened(replica(), session_id)
    store = RedisStore.from_url(shared_redis.url)
    other = Sessions(store, toy.gate(toy_domain, tmp_path), keys=[KEY], lifetime=3600)
    assert refused(other, session_id, token) is SessionDamaged
    store.close()


# The store by itself ---------------------------------------------------------------------------------------------


def test_every_step_of_the_store_is_harmless_to_repeat(redis: Redis, shared_redis: RedisServer) -> None:
    store = RedisStore.from_url(shared_redis.url)
    begin = Change(b"h1", b"h2", None, 2, 60.0, 5.0)
    save = Change(b"h2", b"h3", b"b3", 3, 60.0, 0.0)
    for _ in range(2):
        store.create("s", b"h1", b"b1", 60.0)
    for change in (begin, begin, save, save):
        store.save("s", change)
    found = store.load("s")
    assert (found.head, found.body, found.mark, found.taken) == (b"h3", b"b3", 3, False)
    for change in (begin, Change(b"h2", b"hx", b"bx", 3, 60.0, 0.0), Change(b"h3", b"hx", b"bx", 5, 60.0, 0.0)):
        with pytest.raises(SessionConflict):
            store.save("s", change)
    with pytest.raises(SessionConflict):
        store.end("s", b"h2", 60.0)
    for _ in range(2):
        store.end("s", b"h3", 60.0)
    with pytest.raises(SessionLost):
        store.load("s")
    with pytest.raises(SessionLost):
        store.save("s", begin)
    store.close()


@pytest.mark.parametrize(
    ("about", "complaint"),
    [({"socket_timeout": None}, "has no socket_timeout"), ({"decode_responses": True}, "has decode_responses set")],
)
def test_a_client_that_could_hang_or_decodes_is_refused(about: dict[str, Any], complaint: str) -> None:
    with Redis(**{"socket_timeout": 1, **about}) as client, pytest.raises(BadInput, match=complaint):
        RedisStore(client)


def test_a_url_that_is_none_is_refused() -> None:
    with pytest.raises(BadInput, match="not the URL of a Redis"):
        RedisStore.from_url("http://127.0.0.1")


def test_keys_name_nobody_and_lie_in_one_slot(redis: Redis, replica: Replica) -> None:
    opened(replica(), "ada.quist@example.com")
    keys = redis.keys("*")
    assert len(keys) == 2
    assert not [key for key in keys if b"ada" in key]
    assert len({key[key.index(b"{") : key.index(b"}")] for key in keys}) == 1
