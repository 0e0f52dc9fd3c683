"""Sidecars that share a Redis: any of them goes on with a session, and none with one that is not the latest."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

import test_sidecar_approvals as approvals
from ledgeragent.gate import Gate
from ledgeragent.records import JsonlRecorder
from ledgeragent.serve.kept import InStore
from ledgeragent.sessions import Sessions
from ledgeragent.sessions.in_redis import RedisStore
from support import five
from support.redis_server import Between, RedisServer
from support.retail import EMAIL, NOW, PENDING, USER
from support.sidecar import Client, Talk, serving
from support.stored import KEY, restore, snapshot

pytest_plugins = ["support.fixtures"]

CANCEL = {"order_id": "#W1", "reason": "no longer needed"}


def kept(url: str, gate: Gate, stack: ExitStack, **about: Any) -> InStore:
    store = stack.enter_context(closing(RedisStore.from_url(url, timeout=1.0)))
    sessions = Sessions(store, gate, keys=[KEY], lifetime=3600.0, hold=60.0, **about)
    return InStore(store, {"retail": sessions}, idle_seconds=3600.0)


@pytest.fixture
def two(redis: Redis, shared_redis: RedisServer, gate: Gate) -> Iterator[tuple[Client, Client]]:
    """Two replicas of a sidecar."""
    with ExitStack() as stack:
        yield tuple(  # type: ignore[misc]
            stack.enter_context(serving(gate, kept=kept(shared_redis.url, gate, stack))) for _ in "12"
        )


def learned(talk: Talk) -> Talk:
    talk.read("find_user_id_by_email", {"email": EMAIL}, USER)
    talk.read("get_order_details", {"order_id": "#W1"}, PENDING)
    return talk


def elsewhere(talk: Talk, client: Client) -> Talk:
    return Talk(client, talk.id, NOW)


@pytest.mark.parametrize("conversation", [one for one in five.FIVE if not one.engine_down], ids=lambda one: one.name)
def test_a_conversation_spread_over_replicas_comes_to_the_same(
    redis: Redis, shared_redis: RedisServer, gate: Gate, tmp_path: Path, conversation: five.Conversation
) -> None:
    from test_sidecar_five import step_over_http

    record = tmp_path / "record.jsonl"
    with ExitStack() as stack:
        table = five.laid(conversation, gate, tmp_path / "unused.jsonl")
        table.record = record
        clients = [
            stack.enter_context(serving(gate, kept=kept(shared_redis.url, gate, stack, recorder=JsonlRecorder(record))))
            for _ in "12"
        ]
        opened = clients[0].open(now=table.shop.now)
        answers = [
            step_over_http(table, Talk(clients[number % 2], opened.id, table.shop.now), step, f"call-{number}")
            for number, step in enumerate(conversation.steps)
        ]
    table.check(answers, tmp_path)


def test_a_ticket_of_one_replica_is_redeemed_at_the_other_once(two: tuple[Client, Client]) -> None:
    talk = learned(two[0].open())
    review = talk.review("cancel_pending_order", CANCEL)
    other = elsewhere(talk, two[1])
    assert other.post("redemptions", ticket=review["ticket"]).body["arguments"] == CANCEL
    assert talk.post("redemptions", ticket=review["ticket"]).code == "ticket.refused"
    assert talk.post("outcomes", ticket=review["ticket"], outcome="executed").status == 200
    assert other.post("outcomes", ticket=review["ticket"], outcome="executed").code == "ticket.refused"
    assert other.client.ask("DELETE", talk.path).status == 200
    assert talk.client.get(talk.path).code == "session.lost"


def test_the_command_goes_on_with_a_session_after_it_was_started_again(
    redis: Redis, shared_redis: RedisServer, request: pytest.FixtureRequest
) -> None:
    from test_sidecar import started

    stored = {
        "LEDGERAGENT_SESSIONS_URL": shared_redis.url,
        "LEDGERAGENT_SESSIONS_KEYS": f"{KEY.hex()},{bytes(32).hex()}",
    }
    process, client = started(request, "--sessions", "redis", **stored)
    talk = learned(client.open())
    review = talk.review("cancel_pending_order", CANCEL)
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0
    _, again = started(request, "--sessions", "redis", **stored)
    assert elsewhere(talk, again).run(review)["arguments"] == CANCEL


def test_a_store_that_went_back_is_noticed_by_whoever_saw_more(redis: Redis, two: tuple[Client, Client]) -> None:
    talk = learned(two[0].open())
    before = snapshot(redis, talk.id, "state", "mark")
    version = talk.post("reads", tool="calculate", arguments={"expression": "1"}).body["version"]
    restore(redis, before)
    assert talk.client.get(talk.path).code == "session.rolled_back"
    other = elsewhere(talk, two[1])
    refused = other.client.get(talk.path, **{"Ledgeragent-Version": version})
    assert (refused.status, refused.code) == (500, "session.rolled_back")
    assert other.client.get(talk.path, **{"Ledgeragent-Version": "no version"}).code == "request.form"


def test_an_edited_session_is_not_gone_on_with(redis: Redis, two: tuple[Client, Client]) -> None:
    talk = learned(two[0].open())
    [key] = list(redis.keys("*:state"))
    body = redis.hget(key, "body")
    redis.hset(key, "body", body.replace(b'"pending"', b'"delivered"'))
    assert talk.client.get(talk.path).code == "session.damaged"


def test_without_its_store_nothing_is_let_through_and_it_is_not_ready(
    redis: Redis, shared_redis: RedisServer, gate: Gate
) -> None:
    between = Between(shared_redis.port)
    with ExitStack() as stack:
        stack.callback(between.close)
        client = stack.enter_context(serving(gate, kept=kept(between.url, gate, stack)))
        assert client.get("/ready").status == 200
        talk = learned(client.open())
        ticket = talk.review("cancel_pending_order", CANCEL)["ticket"]
        between.spoil = lambda *_: None
        asked = [
            talk.post("redemptions", ticket=ticket),
            talk.post("reviews", calls=[{"tool": "cancel_pending_order", "arguments": CANCEL}]),
            client.post("/v1/sessions", {"domain": "retail"}),
        ]
    assert {(one.status, one.code) for one in asked} == {(503, "session.unavailable")}


def test_the_state_of_the_store_is_a_part_of_being_ready(gate: Gate) -> None:
    with ExitStack() as stack, serving(gate, kept=kept("redis://127.0.0.1:1/0", gate, stack)) as client:
        found = client.get("/ready")
    assert (found.status, found.body["sessions"], found.body["domains"]) == (
        503,
        "session.unavailable",
        {"retail": None},
    )


def test_a_session_of_a_domain_that_is_not_served_is_lost(two: tuple[Client, Client]) -> None:
    assert two[0].get("/v1/sessions/airline.0123456789abcdef").code == "session.lost"


def test_what_is_not_saved_does_not_leave_the_sidecar(redis: Redis, two: tuple[Client, Client]) -> None:
    talk = learned(two[0].open())
    [key] = redis.keys("*:mark")
    redis.delete(key)
    refused = talk.post("reviews", calls=[{"tool": "cancel_pending_order", "arguments": CANCEL}])
    assert refused.code == "session.rolled_back"
    assert "ticket" not in json.dumps(refused.body)


def test_the_command_knows_after_a_crash_which_grants_were_spent(
    redis: Redis, shared_redis: RedisServer, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    from test_sidecar import started

    stored = {"LEDGERAGENT_SESSIONS_URL": shared_redis.url, "LEDGERAGENT_SESSIONS_KEYS": KEY.hex()}
    options = [*approvals.options(tmp_path), "--sessions", "redis"]
    process, client = started(request, *options, **stored)
    talk = approvals.learned(client)
    grant = approvals.granted(approvals.reviewed(talk))
    said = []
    for _ in "12":
        process.kill()
        process.wait()
        process, client = started(request, *options, **stored)
        review = approvals.reviewed(Talk(client, talk.id, talk.now), grant)
        said.append((review["verdict"], approvals.said(review)))
    assert said == [("allow", []), ("block", ["it was used before"])]
