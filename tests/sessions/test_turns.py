"""Turns of one session: what one replica did the next one knows, and who was overtaken comes to nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from redis import Redis

from ledgeragent.contracts import OutcomeRecord, Principal
from ledgeragent.errors import (
    BadInput,
    RecordError,
    SessionBusy,
    SessionClosed,
    SessionConflict,
    SessionError,
    SessionLost,
    TicketError,
)
from ledgeragent.gate import Gate, ShadowGate
from ledgeragent.records import Record
from ledgeragent.session import Review, Session, Ticket
from ledgeragent.sessions import Sessions, Turn
from ledgeragent.sessions.in_redis import RedisStore
from support import retail
from support.redis_server import until
from support.retail import NOW, USER, admitted, cancel, give_back, propose
from support.stored import KEY, Shop, history, key_of, opened, overdue

pytest_plugins = ["support.fixtures"]

Replica = Callable[..., Sessions]


class Records:
    """Keeps records, unless it is told to fail."""

    def __init__(self) -> None:
        self.kept: list[Record] = []
        self.full = False

    def write(self, record: Record) -> None:
        if self.full:
            raise RecordError("the disk is full")
        self.kept.append(record)

    @property
    def outcomes(self) -> list[str]:
        return [one.outcome for one in self.kept if isinstance(one, OutcomeRecord)]


def repeats(review: Review) -> bool:
    """Whether a call is held back because it ran, or may have run, before."""
    return review.ticket is None and ("common.no_repeat_write", "violated") in retail.predicates(review)


def lost_at(sessions: Sessions, session_id: str, token: str, how_far: str) -> None:
    """A replica that is lost in the middle of a turn, after it proposed, redeemed or executed a cancellation."""
    turn, _ = sessions._begin(session_id, token, NOW)
    if how_far == "began":
        return
    ticket = admitted(turn.session, cancel())
    if how_far == "admitted":
        return
    turn.session.redeem(ticket)
    if how_far == "executed":
        turn.session.report(ticket, "executed")


# From turn to turn -----------------------------------------------------------------------------------------------


def test_any_replica_serves_the_next_turn(replica: Replica, session_id: str) -> None:
    token = opened(replica(), session_id)
    shop = Shop()
    with replica().turn(session_id, token, now=NOW) as turn:
        turn.session.execute(admitted(turn.session, cancel()), shop)
    with replica().turn(session_id, turn.token, now=NOW) as later:
        assert retail.history(later.session) == [("cancel_pending_order", "executed")]
        assert repeats(propose(later.session, cancel()))
    assert shop.ran == ["cancel_pending_order"]
    assert turn.token != later.token


def test_the_clock_is_that_of_the_turn(replica: Replica, session_id: str) -> None:
    sessions = replica()
    token = sessions.create(session_id, now=NOW)
    with sessions.turn(session_id, token, now="2024-05-17T00:00:00Z") as turn:
        assert turn.session.now == "2024-05-17T00:00:00Z"
    with pytest.raises(BadInput, match="now must be RFC 3339"), sessions.turn(session_id, turn.token, now="today"):
        pytest.fail("a turn without a clock")
    assert history(sessions, session_id, turn.token) == []


def test_a_turn_that_fails_in_the_middle_keeps_what_it_did(replica: Replica, session_id: str) -> None:
    sessions = replica()
    token = opened(sessions, session_id)
    with pytest.raises(ZeroDivisionError), sessions.turn(session_id, token, now=NOW) as turn:
        turn.session.execute(admitted(turn.session, cancel()), lambda tool, arguments: 1 / 0)
    assert history(sessions, session_id, turn.token) == [("cancel_pending_order", "uncertain")]


def test_a_ticket_can_be_redeemed_in_a_later_turn_and_once(replica: Replica, session_id: str) -> None:
    sessions = replica()
    with sessions.turn(session_id, opened(sessions, session_id), now=NOW) as first:
        ticket = admitted(first.session, cancel())
    shop = Shop()
    with replica().turn(session_id, first.token, now=NOW) as second:
        second.session.execute(ticket, shop)
    with replica().turn(session_id, second.token, now=NOW) as third, pytest.raises(TicketError, match="is spent"):
        third.session.execute(ticket, shop)
    assert shop.ran == ["cancel_pending_order"]


def test_a_long_running_write_is_reported_in_a_later_turn(replica: Replica, session_id: str) -> None:
    sessions = replica()
    with sessions.turn(session_id, opened(sessions, session_id), now=NOW) as first:
        ticket = admitted(first.session, cancel())
        first.session.redeem(ticket)
    with sessions.turn(session_id, first.token, now=NOW) as second:
        second.session.report(ticket, "executed")
    assert history(sessions, session_id, second.token) == [("cancel_pending_order", "executed")]


def test_a_turn_that_has_ended_lets_nothing_more_through(replica: Replica, session_id: str) -> None:
    sessions = replica()
    with sessions.turn(session_id, opened(sessions, session_id), now=NOW) as turn:
        ticket = admitted(turn.session, cancel())
    attempts: list[Callable[[Session], Any]] = [
        lambda session: session.review([give_back()]),
        lambda session: session.redeem(ticket),
        lambda session: session.issue("get_order_details", {"order_id": "#W1"}),
    ]
    for attempt in attempts:
        with pytest.raises(SessionClosed, match="it goes on elsewhere"):
            attempt(turn.session)
    with sessions.turn(session_id, turn.token, now=NOW) as later:
        later.session.execute(ticket, Shop())


def test_a_change_of_principal_ends_the_session_for_all_replicas(replica: Replica, session_id: str) -> None:
    sessions = replica()
    token = sessions.create(session_id, now=NOW, principal=Principal(id=USER, source="host"))
    with pytest.raises(SessionClosed), sessions.turn(session_id, token, now=NOW) as turn:
        turn.session.identify(Principal(id="eve_mallory_6666", source="host"))
    with replica().turn(session_id, turn.token, now=NOW) as later:
        assert later.session.principal == Principal(id=USER, source="host")
        with pytest.raises(SessionClosed, match="the principal changed"):
            later.session.review([cancel()])


def test_sessions_do_not_see_each_other(replica: Replica) -> None:
    sessions = replica()
    tokens = {name: opened(sessions, name) for name in ("one", "two")}
    with (
        sessions.turn("one", tokens["one"], now=NOW) as one,
        sessions.turn("two", tokens["two"], now=NOW) as two,
    ):
        retail.run(one.session, cancel())
        ticket = admitted(one.session, give_back())
        with pytest.raises(TicketError, match="of another session"):
            two.session.redeem(ticket)
        assert propose(two.session, cancel()).verdict == "allow"


# Creating and ending ---------------------------------------------------------------------------------------------


def test_a_session_is_created_once(replica: Replica, session_id: str) -> None:
    sessions = replica()
    token = sessions.create(session_id, now=NOW)
    for other in (sessions, replica()):
        with pytest.raises(SessionConflict, match="exists, or existed until recently"):
            other.create(session_id, now=NOW)
    assert history(sessions, session_id, token) == []


def test_a_session_that_nobody_created_is_lost_and_nothing_is_created(
    redis: Redis, replica: Replica, session_id: str
) -> None:
    sessions = replica()
    with (
        pytest.raises(SessionLost, match="it was never created, or long ago"),
        sessions.turn(session_id, None, now=NOW),
    ):
        pytest.fail("a turn of nothing")
    with pytest.raises(SessionLost):
        sessions.end(session_id, None)
    assert redis.dbsize() == 0


def test_an_ended_session_is_lost_and_its_id_is_not_free(replica: Replica, session_id: str) -> None:
    sessions = replica()
    sessions.end(session_id, opened(sessions, session_id))
    for attempt in (
        lambda: history(sessions, session_id, None),
        lambda: sessions.end(session_id, None),
    ):
        with pytest.raises(SessionLost, match="it has expired, was evicted or ended"):
            attempt()
    with pytest.raises(SessionConflict, match="existed until recently"):
        sessions.create(session_id, now=NOW)


def test_ending_a_session_settles_what_was_open(replica: Replica, session_id: str) -> None:
    records = Records()
    sessions = replica(recorder=records)
    with sessions.turn(session_id, opened(sessions, session_id), now=NOW) as turn:
        turn.session.redeem(admitted(turn.session, cancel()))
        admitted(turn.session, give_back())
    sessions.end(session_id, turn.token)
    assert records.outcomes == ["uncertain", "withheld"]


def test_a_session_at_work_cannot_be_ended(replica: Replica, session_id: str) -> None:
    sessions = replica()
    with sessions.turn(session_id, opened(sessions, session_id), now=NOW) as turn:
        with pytest.raises(SessionBusy):
            sessions.end(session_id, turn.token)
        retail.run(turn.session, cancel())


@pytest.mark.parametrize("session_id", ["{", "a b\n", "ü" * 300, "*"])
def test_an_id_may_be_any_text(replica: Replica, session_id: str) -> None:
    sessions = replica()
    assert history(sessions, session_id, sessions.create(session_id, now=NOW)) == []


@pytest.mark.parametrize("session_id", ["", "\ud800"])
def test_an_id_that_is_no_text_is_refused(replica: Replica, session_id: str) -> None:
    with pytest.raises(BadInput, match="id"):
        replica().create(session_id, now=NOW)


@pytest.mark.parametrize(
    ("about", "complaint"),
    [
        ({"keys": []}, "at least one key, each of at least 32"),
        ({"keys": [KEY, b"short"]}, "at least one key, each of at least 32"),
        ({"lifetime": 60, "hold": 60}, "must live longer"),
        ({"hold": 0}, "must live longer"),
    ],
)
def test_sessions_that_could_not_be_safe_are_refused(replica: Replica, about: dict[str, Any], complaint: str) -> None:
    with pytest.raises(BadInput, match=complaint):
        replica(**about)


# Expiry ----------------------------------------------------------------------------------------------------------


def test_a_session_lives_on_from_each_save_and_its_mark_twice_as_long(
    redis: Redis, replica: Replica, session_id: str
) -> None:
    sessions = replica(lifetime=1000)
    token = opened(sessions, session_id)
    for kind in ("state", "mark"):
        redis.pexpire(key_of(session_id, kind), 10_000)
    history(sessions, session_id, token)
    left = [redis.pttl(key_of(session_id, kind)) for kind in ("state", "mark")]
    assert 990_000 < left[0] <= 1_000_000
    assert 1_990_000 < left[1] <= 2_000_000
    assert redis.exists(key_of(session_id, "hold")) == 0


def test_an_expired_session_is_lost_and_not_made_anew(redis: Redis, replica: Replica, session_id: str) -> None:
    sessions = replica(lifetime=0.2, hold=0.1)
    token = opened(sessions, session_id)
    until(lambda: not redis.exists(key_of(session_id, "state")), "expiring")
    with pytest.raises(SessionLost, match="it has expired"):
        history(sessions, session_id, token)
    with pytest.raises(SessionConflict, match="existed until recently"):
        sessions.create(session_id, now=NOW)


def test_a_session_that_expires_in_the_middle_of_a_turn_is_lost(
    redis: Redis, replica: Replica, session_id: str
) -> None:
    sessions = replica()
    turn, _ = sessions._begin(session_id, opened(sessions, session_id), NOW)
    redis.delete(key_of(session_id, "state"))
    with pytest.raises(SessionLost, match="is gone: it has expired"):
        turn.session.review([cancel()])


# One at a time ---------------------------------------------------------------------------------------------------


def test_while_one_replica_is_at_work_no_other_begins(replica: Replica, session_id: str) -> None:
    first, second = replica(), replica()
    token = opened(first, session_id)
    with first.turn(session_id, token, now=NOW) as turn:
        with pytest.raises(SessionBusy, match="another replica is at work on it; try again when it is done"):
            history(second, session_id, token)
        retail.run(turn.session, cancel())
    assert history(second, session_id, turn.token) == [("cancel_pending_order", "executed")]


def test_a_replica_holds_a_session_only_for_so_long(redis: Redis, replica: Replica, session_id: str) -> None:
    sessions = replica(hold=0.1)
    token = opened(sessions, session_id)
    lost_at(sessions, session_id, token, "admitted")
    until(lambda: not redis.exists(key_of(session_id, "hold")), "the hold's end")
    assert history(replica(), session_id, token) == [("cancel_pending_order", "uncertain")]


def test_each_save_gives_the_replica_more_time(redis: Redis, replica: Replica, session_id: str) -> None:
    sessions = replica()
    with sessions.turn(session_id, opened(sessions, session_id), now=NOW) as turn:
        redis.pexpire(key_of(session_id, "hold"), 10_000)
        admitted(turn.session, cancel())
        assert redis.pttl(key_of(session_id, "hold")) > 100_000


def test_a_replica_that_was_slow_but_not_overtaken_goes_on(redis: Redis, replica: Replica, session_id: str) -> None:
    sessions = replica()
    with sessions.turn(session_id, opened(sessions, session_id), now=NOW) as turn:
        overdue(redis, session_id)
        retail.run(turn.session, cancel())
    assert history(sessions, session_id, turn.token) == [("cancel_pending_order", "executed")]


def _proposes(turn: Turn, ticket: Ticket) -> Any:
    return turn.session.review([give_back()])


def _executes(turn: Turn, ticket: Ticket) -> Any:
    return turn.session.execute(ticket, lambda tool, arguments: pytest.fail("it ran"))


def _ends(turn: Turn, ticket: Ticket) -> Any:
    return turn._let_go()


@pytest.mark.parametrize("attempt", [_proposes, _executes, _ends])
def test_what_a_replica_judged_is_void_once_another_has_begun(
    redis: Redis, replica: Replica, session_id: str, attempt: Callable[[Turn, Ticket], Any]
) -> None:
    records = Records()
    slow, quick = replica(recorder=records), replica()
    token = opened(slow, session_id)
    turn, _ = slow._begin(session_id, token, NOW)
    ticket = admitted(turn.session, cancel())
    overdue(redis, session_id)
    with quick.turn(session_id, token, now=NOW) as other:
        assert retail.history(other.session) == [("cancel_pending_order", "uncertain")]
        retail.run(other.session, give_back())
    with pytest.raises(SessionConflict, match="went on elsewhere meanwhile; what was judged here is void"):
        attempt(turn, ticket)
    assert history(quick, session_id, other.token) == [
        ("cancel_pending_order", "uncertain"),
        ("return_delivered_order_items", "executed"),
    ]
    assert "executed" not in records.outcomes


def test_a_write_that_ran_while_another_replica_began_is_told_and_stays_uncertain(
    redis: Redis, replica: Replica, session_id: str
) -> None:
    slow, quick, shop = replica(), replica(), Shop()
    token = opened(slow, session_id)

    def run(tool: str, arguments: dict[str, Any]) -> str:
        overdue(redis, session_id)
        assert history(quick, session_id, token) == [("cancel_pending_order", "uncertain")]
        return shop(tool, arguments)

    with pytest.raises(SessionConflict), slow.turn(session_id, token, now=NOW) as turn:
        turn.session.execute(admitted(turn.session, cancel()), run)
    with quick.turn(session_id, token, now=NOW) as later:
        assert repeats(propose(later.session, cancel()))
    assert shop.ran == ["cancel_pending_order"]


def test_a_failed_save_cannot_be_passed_over(redis: Redis, replica: Replica, session_id: str) -> None:
    sessions = replica()
    token = opened(sessions, session_id)

    def takes_no_notice() -> None:
        with sessions.turn(session_id, token, now=NOW) as turn:
            overdue(redis, session_id)
            history(replica(), session_id, token)
            with pytest.raises(SessionConflict):
                turn.session.review([cancel()])

    with pytest.raises(SessionConflict):
        takes_no_notice()


# A replica that was lost -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how_far", "known"),
    [
        ("began", []),
        ("admitted", [("cancel_pending_order", "uncertain")]),
        ("redeemed", [("cancel_pending_order", "uncertain")]),
        ("executed", [("cancel_pending_order", "executed")]),
    ],
)
def test_what_a_lost_replica_had_under_way_counts_as_having_happened(
    redis: Redis, replica: Replica, session_id: str, how_far: str, known: list[tuple[str, str]]
) -> None:
    sessions = replica()
    token = opened(sessions, session_id)
    lost_at(sessions, session_id, token, how_far)
    overdue(redis, session_id)
    with replica().turn(session_id, token, now=NOW) as turn:
        assert retail.history(turn.session) == known
        assert repeats(propose(turn.session, cancel())) == bool(known)


def test_after_a_lost_turn_what_the_customer_says_proves_nothing(
    redis: Redis, replica: Replica, session_id: str
) -> None:
    sessions = replica()
    token = sessions.create(session_id, now=NOW)
    turn, _ = sessions._begin(session_id, token, NOW)
    retail.read_profile(turn.session)  # the model has seen the e-mail, and nothing of it was saved
    overdue(redis, session_id)
    with sessions.turn(session_id, token, now=NOW) as later:
        assert retail.authenticate(later.session).paths == ()


def test_a_turn_that_ended_well_costs_no_trust(replica: Replica, session_id: str) -> None:
    sessions = replica()
    token = sessions.create(session_id, now=NOW)
    with sessions.turn(session_id, token, now=NOW) as turn:
        retail.read_order(turn.session)
    with sessions.turn(session_id, turn.token, now=NOW) as later:
        assert retail.authenticate(later.session).paths == (("auth", "user_id"),)


def test_what_a_lost_replica_left_is_on_record(redis: Redis, replica: Replica, session_id: str) -> None:
    records = Records()
    sessions = replica(recorder=records)
    token = opened(sessions, session_id)
    lost_at(sessions, session_id, token, "redeemed")
    overdue(redis, session_id)
    records.full = True
    with pytest.raises(RecordError, match="the disk is full"):
        history(sessions, session_id, token)
    records.full = False
    assert history(sessions, session_id, token) == [("cancel_pending_order", "uncertain")]
    assert records.outcomes == []  # it counts all the same


# The kinds of gate -----------------------------------------------------------------------------------------------


def test_from_shadow_to_enforcing_a_session_goes_on_unless_something_waits(
    gate: Gate, redis: Redis, shared_redis: Any, session_id: str
) -> None:
    with_store = {"keys": [KEY], "lifetime": 3600.0}
    store = RedisStore(shared_redis.client())
    shadow, enforcing = Sessions(store, ShadowGate(gate), **with_store), Sessions(store, gate, **with_store)
    with shadow.turn(session_id, opened(shadow, session_id), now=NOW) as turn:
        retail.run(turn.session, cancel("#W9"))
    assert history(enforcing, session_id, turn.token) == [("cancel_pending_order", "executed")]
    with shadow.turn(session_id, turn.token, now=NOW) as turn:
        admitted(turn.session, cancel("#W8"))
    with pytest.raises(SessionError, match="that a gate did not judge"):
        history(enforcing, session_id, turn.token)
    store.close()


def test_a_turn_that_cannot_be_written_down_counts_as_lost(redis: Redis, replica: Replica, session_id: str) -> None:
    sessions = replica()
    token = opened(sessions, session_id)
    with (
        pytest.raises(BadInput, match="the session's principal contains a set"),
        sessions.turn(session_id, token, now=NOW) as turn,
    ):
        turn.session.identify(Principal(id=USER, source="host", claims={"roles": {"a"}}))
    with pytest.raises(SessionBusy):
        history(sessions, session_id, token)
    overdue(redis, session_id)
    assert history(sessions, session_id, token) == []
