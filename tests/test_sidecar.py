"""The sidecar: sessions behind HTTP. What it refuses is never a permission, and what was answered once is answered alike."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import requests
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st
from openapi_spec_validator import validate
from typer.testing import CliRunner

from ledgeragent import cli
from ledgeragent.engine import Engine, OpaServer
from ledgeragent.errors import DECISION_CODES, ENGINE_CODES, SESSION_CODES, BadInput
from ledgeragent.gate import Gate, ShadowGate
from ledgeragent.policies import REGO
from ledgeragent.records import JsonlRecorder, read_records
from ledgeragent.serve import desk as desk_module
from ledgeragent.serve import http
from ledgeragent.serve.desk import Desk
from ledgeragent.serve.kept import InMemory
from ledgeragent.serve.openapi import document
from ledgeragent.serve.refusals import CODES
from support import otel, retail
from support.engines import Meddled
from support.redis_server import until
from support.retail import EMAIL, NOW, PENDING, USER
from support.sidecar import TOKEN, Client, Talk, serving

pytest_plugins = ["support.fixtures"]

CANCEL = {"order_id": "#W1", "reason": "no longer needed"}
DOCUMENT = REGO.parent / "docs" / "sidecar.openapi.json"


@pytest.fixture(scope="module")
def client(gate: Gate) -> Any:
    """A sidecar that all tests of this module share which leave it well."""
    with serving(gate) as client:
        yield client


@pytest.fixture
def talk(client: Client) -> Talk:
    """A session in which the customer and a pending order were read."""
    return learned(client.open())


def learned(talk: Talk) -> Talk:
    talk.read("find_user_id_by_email", {"email": EMAIL}, USER)
    talk.read("get_order_details", {"order_id": "#W1"}, PENDING)
    return talk


def cancel(talk: Talk, **about: Any) -> dict[str, Any]:
    return talk.review("cancel_pending_order", CANCEL, **about)


# The way through --------------------------------------------------------------------------------------------------


def test_a_write_is_refused_until_its_facts_were_read_and_then_runs_once(client: Client) -> None:
    talk = client.open()
    talk.read("find_user_id_by_email", {"email": EMAIL}, USER)
    early = cancel(talk)
    assert (early["verdict"], early["ticket"], early["error"]) == ("revise", None, None)
    assert early["reads"] == [
        {"tool": "get_order_details", "arguments": {"order_id": "#W1"}, "ask": [], "path": ["orders", "#W1", "user_id"]}
    ]
    seen = talk.read("get_order_details", {"order_id": "#W1"}, PENDING)
    assert (seen["paths"], seen["problems"]) == ([["orders", "#W1"]], [])
    admitted = cancel(talk)
    assert admitted["verdict"] == admitted["would"] == admitted["decision"]["verdict"] == "allow"
    redeemed = talk.run(admitted)
    assert (redeemed["tool"], redeemed["arguments"], redeemed["call_id"]) == ("cancel_pending_order", CANCEL, "c1")
    assert cancel(talk)["verdict"] != "allow"
    assert talk.shown()["open"] == []


def test_the_rendered_ledger_is_that_of_the_session(talk: Talk, gate: Gate) -> None:
    own = retail.Session(gate, now=NOW)
    retail.authenticate(own)
    retail.read_order(own)
    from ledgeragent.view import LedgerView

    shown = talk.client.get(f"{talk.path}/ledger").body
    rendered = LedgerView(own.ledger).render()
    assert (shown["text"], shown["records"], shown["omitted"]) == (rendered.text, rendered.records, 0)


def test_a_return_that_is_no_fact_is_told_and_rendered_as_unusable(client: Client) -> None:
    talk = client.open()
    seen = talk.read("get_order_details", {"order_id": "#W1"}, {**PENDING, "order_id": "#W9"})
    assert seen["paths"] == []
    assert len(seen["problems"]) == 1
    assert "Unusable" in client.get(f"{talk.path}/ledger").body["text"]


def test_the_principal_is_the_openers_word_and_nobody_elses(client: Client) -> None:
    talk = client.open(principal={"id": USER, "claims": {"level": 2}})
    assert talk.shown()["principal"] == {"id": USER, "source": "host", "claims": {"level": 2}}
    for body in ({"principal": {"id": "other"}}, {"principal": {"id": USER}}):
        refused = talk.post("reviews", calls=[{"tool": "cancel_pending_order", "arguments": CANCEL}], **body)
        assert refused.code == "request.form"
    assert client.ask("POST", f"{talk.path}/principal", {"id": "other"}).code == "request.path"
    assert client.post("/v1/sessions", {"domain": "retail", "principal": {"id": USER, "source": "proof"}}).status == 400


def test_a_closed_session_is_gone_and_its_tickets_are_withheld(gate: Gate, tmp_path: Path) -> None:
    with serving(gate, recorder=JsonlRecorder(tmp_path / "r.jsonl")) as client:
        talk = learned(client.open())
        cancel(talk)
        assert client.ask("DELETE", talk.path).body["closed"] is True
        gone = [
            client.ask("DELETE", talk.path),
            client.get(talk.path),
            talk.post("reads", tool="calculate", arguments={}),
        ]
    assert {(one.status, one.code) for one in gone} == {(404, "session.lost")}
    assert outcomes(tmp_path / "r.jsonl") == ["withheld"]


def outcomes(record: Path) -> list[str]:
    return [one.outcome for one in read_records(record) if one.kind == "outcome"]


# What is refused --------------------------------------------------------------------------------------------------


def test_others_than_this_machine_are_served_only_with_a_token() -> None:
    for host in ("0.0.0.0", "::", "10.1.2.3", "example.org", ""):
        with pytest.raises(BadInput, match="can be reached from other machines"):
            http.checked_token(None, host)
    for host in ("127.0.0.1", "127.9.9.9", "::1", "localhost"):
        assert http.checked_token(None, host) is None
    assert http.checked_token(TOKEN, "0.0.0.0") == TOKEN
    for token in ("", "short", "with a space in the middle", "x" * 15, "ü" * 20):
        with pytest.raises(BadInput, match="at least 16"):
            http.checked_token(token, "127.0.0.1")


def test_the_command_does_not_listen_to_others_without_a_token(tmp_path: Path) -> None:
    def refused(*options: str, **environment: str | None) -> str:
        said = CliRunner().invoke(cli.app, ["serve", *options], env={http.TOKEN_VARIABLE: None, **environment})
        assert isinstance(said.exception, BadInput)
        return str(said.exception)

    file = tmp_path / "token"
    file.write_text("short\n")
    assert "0.0.0.0 can be reached from other machines" in refused("--listen", "0.0.0.0:0")
    assert "write host:port" in refused("--listen", "8788")
    assert "at least 16" in refused("--token-file", str(file))
    assert "cannot be read" in refused("--token-file", str(tmp_path / "none"))
    assert "not both" in refused("--token-file", str(file), **{http.TOKEN_VARIABLE: TOKEN})
    assert "needs LEDGERAGENT_SESSIONS_URL" in refused("--sessions", "redis")
    stored = {"LEDGERAGENT_SESSIONS_URL": "redis://127.0.0.1:1", "LEDGERAGENT_SESSIONS_KEYS": "no key"}
    assert "must be hexadecimal" in refused("--sessions", "redis", **stored)


@pytest.mark.parametrize(
    "headers", [{"Authorization": ""}, {"Authorization": f"Bearer {TOKEN}x"}, {"Authorization": TOKEN}], ids=str
)
def test_without_the_token_nothing_is_served_but_health(client: Client, talk: Talk, headers: dict[str, str]) -> None:
    asked = [
        client.post("/v1/sessions", {"domain": "retail"}, **headers),
        client.get(talk.path, **headers),
        client.get(f"{talk.path}/ledger", **headers),
        client.ask("DELETE", talk.path, **headers),
        *(client.post(f"{talk.path}/{name}", {}, **headers) for name in desk_module.OPERATIONS),
    ]
    assert {(one.status, one.code) for one in asked} == {(401, "request.token")}
    assert [client.get(path, **headers).status for path in ("/health", "/ready", "/openapi.json")] == [200, 200, 200]
    assert talk.shown()["open"] == []


def test_without_a_token_a_name_that_is_not_this_machines_is_not_served(gate: Gate) -> None:
    with serving(gate, token=None) as client:
        assert client.open().shown()["turn"] == 0
        refused = client.post("/v1/sessions", {"domain": "retail"}, Host="rebound.example.org")
    assert (refused.status, refused.code) == (403, "request.host")


REVIEW = b'{"calls": [{"tool": "cancel_pending_order", "arguments": %s}]}'


@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        (b"", "request.form", "not JSON"),
        (b"{", "request.form", "not JSON"),
        (b"[]", "request.form", "the whole document"),
        (b"null", "request.form", "the whole document"),
        (b"\xff{}", "request.form", "not UTF-8"),
        (REVIEW % b'{"order_id": "#W1", "order_id": "#W2"}', "request.form", "a key twice"),
        (REVIEW % b'{"amount": NaN}', "request.form", "NaN"),
        (REVIEW % b'{"amount": -Infinity}', "request.form", "Infinity"),
        (REVIEW % b'{"amount": 9007199254740993}', "request.form", "beyond"),
        (REVIEW % b'{"amount": 1e400}', "request.form", "finite"),
        (REVIEW % b'{"text": "\\ud800"}', "request.form", "surrogate"),
        (REVIEW % (b"[" * 40 + b"]" * 40), "request.form", "deep"),
        (b'{"calls": []}', "request.form", "calls"),
        (b'{"calls": [{"tool": "", "arguments": {}}]}', "request.form", "calls.0.tool"),
        (b'{"calls": [{"tool": "x", "arguments": {}}], "allow": true}', "request.form", "Extra"),
        (b'{"calls": [{"tool": "x", "arguments": {}, "verdict": "allow"}]}', "request.form", "Extra"),
        (b'{"calls": [{"tool": "x", "arguments": {}}], "now": "tomorrow"}', "request.form", "now"),
        (b'{"calls": [{"tool": "x", "arguments": {}}], "now": "2024-02-30T00:00:00Z"}', "request.form", "offset"),
        (b'{"calls": [{"tool": "get_order_details", "arguments": {}}]}', "call.refused", "changes nothing"),
    ],
    ids=repr,
)
def test_what_is_no_review_is_refused_whole(talk: Talk, body: bytes, code: str, words: str) -> None:
    refused = talk.client.post(f"{talk.path}/reviews", body)
    assert (refused.status, refused.code) == (CODES[code], code)
    assert words in refused.body["error"]["message"]
    assert talk.shown()["open"] == []


def test_a_models_broken_arguments_are_judged_as_the_text_they_are(talk: Talk) -> None:
    for text in ('{"order_id": "#W1", "order_id": "#W1"}', '{"order_id": NaN}', "{", "[]", '{"order_id": 1e999}'):
        review = talk.review("cancel_pending_order", text)
        assert (review["verdict"], review["ticket"]) == ("revise", None)
        assert review["decision"]["findings"][0]["predicate"] == "gate.arguments"
    assert talk.review("cancel_pending_order", json.dumps(CANCEL))["verdict"] == "allow"


def test_a_return_keeps_its_text_to_the_letter(client: Client) -> None:
    talk = client.open()
    text = json.dumps(PENDING)
    twice = text.replace('"status"', '"status": "delivered", "status"')
    assert talk.read("get_order_details", {"order_id": "#W1"}, twice)["paths"] == []
    assert talk.read("get_order_details", {"order_id": "#W1"}, text.replace("190", "1e400"))["paths"] == []
    exact = talk.read("get_order_details", {"order_id": "#W1"}, text.replace("190", "9007199254740991"))
    assert exact["paths"] == [["orders", "#W1"]]


def test_every_refusal_has_its_status_and_code(
    client: Client, talk: Talk, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "READ_SECONDS", 0.2)
    held = cancel(talk)["ticket"]
    asked = {
        "path": client.get("/v1/nothing"),
        "method": client.ask("PUT", "/v1/sessions", {}),
        "domain": client.post("/v1/sessions", {"domain": "no_such"}),
        "lost": client.get("/v1/sessions/retail.0123"),
        "type": client.ask("POST", "/v1/sessions", b"{}", Content_Type="text/plain"),
        "packed": client.ask("POST", "/v1/sessions", b"{}", Content_Encoding="gzip"),
        "large": client.ask("POST", "/v1/sessions", b" " * (http.MAX_BODY + 1)),
        "read of a write": talk.post("reads", tool="cancel_pending_order", arguments=CANCEL),
        "read of nothing": talk.post("reads", tool="no_such_tool", arguments={}),
        "no such call": talk.post("observations", call_id="never issued", content="x"),
        "no such ticket": talk.post("redemptions", ticket="0" * 32),
        "not redeemed": talk.post("outcomes", ticket=held, outcome="executed"),
        "no outcome": talk.post("outcomes", ticket=held, outcome="allow"),
        "both names": talk.post("outcomes", ticket=held, request="r", outcome="withheld"),
        "long key": talk.post("reads", {"Idempotency-Key": "k" * 201}, tool="calculate", arguments={}),
    }
    assert {name: (one.status, one.code) for name, one in asked.items()} == {
        "path": (404, "request.path"),
        "method": (405, "request.method"),
        "domain": (400, "request.form"),
        "lost": (404, "session.lost"),
        "type": (415, "request.type"),
        "packed": (415, "request.type"),
        "large": (413, "request.size"),
        "read of a write": (409, "call.refused"),
        "read of nothing": (409, "call.refused"),
        "no such call": (409, "call.refused"),
        "no such ticket": (409, "ticket.refused"),
        "not redeemed": (409, "ticket.refused"),
        "no outcome": (400, "request.form"),
        "both names": (400, "request.form"),
        "long key": (400, "request.form"),
    }


def test_a_body_that_does_not_come_is_not_waited_for(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "READ_SECONDS", 0.2)
    with serving(gate) as client:
        port = int(client.url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), 10) as slow:
            slow.sendall(
                b"POST /v1/sessions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                b"Authorization: Bearer " + TOKEN.encode() + b"\r\nContent-Length: 100\r\n\r\n{"
            )
            said = b"".join(iter(lambda: slow.recv(10_000), b""))
    assert said.startswith(b"HTTP/1.1 408 ")
    assert b'"request.slow"' in said


def test_the_codes_are_a_closed_list_apart_from_those_of_decisions() -> None:
    assert set(SESSION_CODES) <= set(CODES)
    assert set(CODES) & {*ENGINE_CODES, *DECISION_CODES} == {"host.record", "host.internal"}
    assert min(CODES.values()) >= 400


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(arguments=JSON, tool=st.sampled_from(["cancel_pending_order", "exchange_delivered_order_items", "made_up"]))
def test_whatever_is_proposed_before_anything_was_read_gets_no_ticket(
    client: Client, arguments: Any, tool: str
) -> None:
    talk = client.open()
    answer = talk.post("reviews", calls=[{"tool": tool, "arguments": arguments}])
    if answer.status == 200:
        [review] = answer.body["reviews"]
        assert review["verdict"] != "allow"
        assert review["ticket"] is None
    else:
        assert answer.code == "request.form"
    assert talk.shown()["open"] == []
    client.ask("DELETE", talk.path)


def test_an_engine_that_fails_gives_a_block_with_its_error_and_no_ticket(gate: Gate, embedded: Engine) -> None:
    def break_it(rule: str, answer: dict[str, Any]) -> Any:
        return answer if rule == "proof" else {**answer, "verdict": "allow", "findings": [], "request": "another"}

    with serving(Gate(gate.domain, Meddled(embedded, break_it))) as client:
        review = cancel(learned(client.open()))
    assert (review["verdict"], review["ticket"], review["decision"]) == ("block", None, None)
    assert review["error"]["code"] == "decision.request"


def test_a_decision_that_cannot_be_recorded_is_a_block(gate: Gate, tmp_path: Path) -> None:
    recorder = JsonlRecorder(tmp_path / "r.jsonl")
    with serving(gate, recorder=recorder) as client:
        talk = learned(client.open())
        admitted = cancel(talk)
        recorder.close()
        assert cancel(talk)["error"]["code"] == "host.record"
        assert talk.post("redemptions", ticket=admitted["ticket"]).status == 200
        assert talk.post("outcomes", ticket=admitted["ticket"], outcome="executed").code == "host.record"
        assert talk.shown()["open"] == []


def test_what_breaks_inside_is_told_without_a_word_of_it(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> Any:
        raise RuntimeError("a secret")

    with serving(gate) as client:
        talk = learned(client.open())
        monkeypatch.setattr("ledgeragent.session.Session.review", broken)
        refused = talk.post("reviews", calls=[{"tool": "cancel_pending_order", "arguments": CANCEL}])
    assert (refused.status, refused.code) == (500, "host.internal")
    assert "secret" not in json.dumps(refused.body)


def test_a_shadow_says_in_every_answer_that_it_holds_nothing_back(gate: Gate) -> None:
    with serving(ShadowGate(gate)) as client:
        talk = client.open()
        review = cancel(talk)
        assert talk.shown()["enforced"] is False
    assert (review["verdict"], review["would"]) == ("allow", "revise")
    assert review["ticket"] is not None


# Repeated requests ------------------------------------------------------------------------------------------------


def test_a_repeated_observation_is_answered_alike_and_another_is_refused(client: Client) -> None:
    talk = client.open()
    issued = [talk.post("reads", tool="get_order_details", arguments={"order_id": "#W1"}, call_id="r") for _ in "12"]
    assert issued[0] == issued[1]
    content = json.dumps(PENDING)
    seen = [talk.post("observations", call_id="r", content=content) for _ in "12"]
    assert seen[0] == seen[1]
    assert seen[0].body["paths"] == [["orders", "#W1"]]
    assert talk.post("observations", call_id="r", content="{}").code == "request.repeated"
    again = talk.post("reads", tool="get_order_details", arguments={"order_id": "#W1"}, call_id="r")
    assert again.status == 200
    assert talk.post("observations", call_id="r", content="{}").body["paths"] == []


def test_a_repeated_outcome_is_answered_alike_and_another_is_refused(talk: Talk) -> None:
    review = cancel(talk)
    talk.post("redemptions", ticket=review["ticket"])
    told = [talk.post("outcomes", ticket=review["ticket"], outcome="executed", content="done") for _ in "12"]
    assert told[0] == told[1]
    assert told[0].status == 200
    assert talk.post("outcomes", ticket=review["ticket"], outcome="refused").code == "request.repeated"
    assert talk.post("outcomes", request=review["request"], outcome="executed").code == "ticket.refused"


def test_a_request_with_a_key_is_done_once(talk: Talk) -> None:
    key = {"Idempotency-Key": "message-7"}
    calls = [{"tool": "cancel_pending_order", "arguments": CANCEL, "call_id": "c1"}]
    first, second = (talk.post("reviews", key, calls=calls) for _ in "12")
    assert first == second
    assert len(talk.shown()["open"]) == 1
    assert talk.post("reviews", key, calls=[{**calls[0], "call_id": "c2"}]).code == "request.repeated"
    assert talk.post("redemptions", key, ticket=first.body["reviews"][0]["ticket"]).code == "request.repeated"
    redeemed = [
        talk.post("redemptions", {"Idempotency-Key": "run-7"}, ticket=first.body["reviews"][0]["ticket"]) for _ in "12"
    ]
    assert redeemed[0] == redeemed[1]
    assert redeemed[0].body["arguments"] == CANCEL


def test_without_a_key_a_ticket_is_redeemed_once(talk: Talk) -> None:
    ticket = cancel(talk)["ticket"]
    assert [talk.post("redemptions", ticket=ticket).code for _ in "12"] == [None, "ticket.refused"]


def test_only_so_many_answers_are_kept(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk_module, "_REMEMBERED", 2)
    issued = [
        talk.post("reads", {"Idempotency-Key": str(number)}, tool="calculate", arguments={"expression": "1"}).body[
            "call_id"
        ]
        for number in (1, 2, 3, 3, 1)
    ]
    assert issued[2] == issued[3]
    assert issued[4] not in issued[:4]


def test_who_lost_the_answer_to_a_review_can_see_and_withhold_what_it_admitted(talk: Talk) -> None:
    lost = cancel(talk)
    [pending] = talk.shown()["open"]
    assert pending == {
        "request": lost["request"], "tool": "cancel_pending_order", "call_id": "c1", "started": False
    }  # fmt: skip
    assert lost["ticket"] not in json.dumps(talk.shown())
    assert cancel(talk)["verdict"] != "allow"  # it may still run
    assert talk.post("outcomes", request=lost["request"], outcome="withheld").status == 200
    assert talk.post("redemptions", ticket=lost["ticket"]).code == "ticket.refused"
    assert cancel(talk)["verdict"] == "allow"


def test_tickets_that_nobody_was_there_to_take_are_withheld(gate: Gate, embedded: Engine, tmp_path: Path) -> None:
    asked, go_on = threading.Event(), threading.Event()

    def wait(rule: str, answer: Any) -> Any:
        if rule == "decision" and not asked.is_set():
            asked.set()
            go_on.wait(10)
        return answer

    slow = Gate(gate.domain, Meddled(embedded, wait))
    slow.prove()
    with serving(slow, recorder=JsonlRecorder(tmp_path / "r.jsonl")) as client:
        talk = learned(client.open())
        body = json.dumps({"now": NOW, "calls": [{"tool": "cancel_pending_order", "arguments": CANCEL}]}).encode()
        with socket.create_connection(("127.0.0.1", int(client.url.rpartition(":")[2]))) as hanging:
            hanging.sendall(
                f"POST {talk.path}/reviews HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                f"Authorization: Bearer {TOKEN}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
                + body
            )
            assert asked.wait(10)
        # The server's loop has seen the hang-up once it has answered somebody who came later.
        assert client.get("/health").status == 200
        assert client.get("/health").status == 200
        go_on.set()
        until(lambda: outcomes(tmp_path / "r.jsonl") == ["withheld"], "withholding")
        assert talk.shown()["open"] == []
        assert cancel(talk)["verdict"] == "allow"


# Many at once -----------------------------------------------------------------------------------------------------


def test_calls_of_one_session_are_answered_one_after_the_other(talk: Talk) -> None:
    with ThreadPoolExecutor(10) as pool:
        found = list(pool.map(lambda number: cancel(talk, call_id=f"c{number}"), range(10)))
    assert sorted(one["verdict"] for one in found).count("allow") == 1
    assert talk.shown()["turn"] == 10


def test_many_sessions_wait_for_a_slow_engine_side_by_side_and_none_is_mixed_up(gate: Gate, embedded: Engine) -> None:
    many = 12
    together = threading.Barrier(many)

    def meet(rule: str, answer: Any) -> Any:
        if rule == "decision":
            together.wait(20)  # none goes on before all have come
        return answer

    slow = Gate(gate.domain, Meddled(embedded, meet))
    slow.prove()
    with serving(slow, threads=many) as client, ThreadPoolExecutor(many) as pool:
        talks = [client.open() for _ in range(many)]

        def play(number: int) -> tuple[Any, Any]:
            order = {**PENDING, "order_id": f"#W{number}"}
            talks[number].read("find_user_id_by_email", {"email": EMAIL}, USER)
            talks[number].read("get_order_details", {"order_id": order["order_id"]}, order)
            review = talks[number].review("cancel_pending_order", {**CANCEL, "order_id": order["order_id"]})
            return review["verdict"], talks[number].run(review)["arguments"]["order_id"]

        assert list(pool.map(play, range(many))) == [("allow", f"#W{number}") for number in range(many)]


def test_a_long_line_is_not_joined(gate: Gate, embedded: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk_module, "MAX_WAITING", 0)
    asked, go_on = threading.Event(), threading.Event()

    def wait(rule: str, answer: Any) -> Any:
        if rule == "decision":
            asked.set()
            go_on.wait(10)
        return answer

    slow = Gate(gate.domain, Meddled(embedded, wait))
    slow.prove()
    with serving(slow) as client, ThreadPoolExecutor(1) as pool:
        talk = learned(client.open())
        first = pool.submit(cancel, talk)
        assert asked.wait(10)
        busy = client.get(talk.path)
        other = client.open().shown()
        go_on.set()
        assert first.result()["verdict"] == "allow"
    assert (busy.status, busy.code, other["turn"]) == (503, "serve.busy", 0)


def test_so_many_calls_are_under_way_and_no_more(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(gate) as client:
        monkeypatch.setattr(desk_module, "MAX_AT_WORK", 0)
        assert client.post("/v1/sessions", {"domain": "retail"}).code == "serve.busy"
        assert client.get("/health").status == 200


def test_there_are_so_many_sessions_and_idle_ones_end(gate: Gate, tmp_path: Path, retail_domain: Any) -> None:
    time = [0.0]
    record = tmp_path / "r.jsonl"
    kept = InMemory({"retail": gate}, idle_seconds=100.0, most=2, recorder=JsonlRecorder(record), clock=lambda: time[0])
    desks: list[Desk] = []
    with serving(gate, kept=kept, stopped=desks.append) as client:
        busy, idle = client.open(), learned(client.open())
        cancel(idle)
        full = client.post("/v1/sessions", {"domain": "retail"})
        time[0] = 99.0
        busy.shown()
        time[0] = 150.0
        assert kept.expire() == [idle.id]
        assert [client.get(one.path).code for one in (busy, idle)] == [None, "session.lost"]
        assert client.open().shown()["turn"] == 0
    assert (full.status, full.code) == (503, "serve.full")
    assert outcomes(record) == ["withheld"]


def test_the_desk_forgets_what_ended(gate: Gate) -> None:
    desks: list[Desk] = []
    with serving(gate, stopped=desks.append, idle_seconds=0.0001) as client:
        for _ in range(3):
            client.open().shown()
        known = set(desks[0]._lines)
        client.get("/v1/sessions/retail.unknown")
        client.ask("DELETE", "/v1/sessions/retail.unknown")
        assert set(desks[0]._lines) == known
        asyncio.run(desks[0].expire())
        assert desks[0]._lines == {}
        assert desks[0]._running == set()


# Health, telemetry, the document ----------------------------------------------------------------------------------


def test_it_is_alive_without_an_engine_and_ready_only_with_one(retail_domain: Any, gate: Gate) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        nobody = f"http://127.0.0.1:{listener.getsockname()[1]}"
    with OpaServer(nobody) as engine, serving({"retail": Gate(retail_domain, engine)}) as client:
        assert client.get("/health").status == 200
        found = client.get("/ready")
        review = cancel(client.open())
    assert (found.status, found.body["ready"], found.body["domains"]) == (503, False, {"retail": "engine.unreachable"})
    assert (review["verdict"], review["ticket"], review["error"]["code"]) == ("block", None, "engine.unreachable")
    with serving(gate) as client:
        found = client.get("/ready")
    assert (found.status, found.body["domains"], found.body["sessions"]) == (200, {"retail": None}, None)


def test_policies_that_do_not_prove_themselves_are_not_ready(gate: Gate, embedded: Engine) -> None:
    unsound = Gate(gate.domain, Meddled(embedded, lambda _, answer: {**answer, "verdict": "allow", "findings": []}))
    with serving(unsound) as client:
        assert client.get("/ready").body["domains"] == {"retail": "decision.proof"}
        assert cancel(learned(client.open()))["error"]["code"] == "decision.proof"


def test_a_review_is_counted_and_belongs_to_the_callers_trace(gate: Gate, sinks: otel.Sinks) -> None:
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    with serving(gate) as client:
        talk = learned(client.open())
        body = {"now": NOW, "calls": [{"tool": "cancel_pending_order", "arguments": CANCEL}]}
        client.post(f"{talk.path}/reviews", body, traceparent=f"00-{trace}-00f067aa0ba902b7-01")
    [span] = sinks.spans
    assert f"{span.context.trace_id:032x}" == trace


def test_the_document_is_sound_and_is_what_is_kept_and_served(client: Client) -> None:
    made = document()
    validate(made)
    assert json.loads(DOCUMENT.read_text(encoding="utf-8")) == made
    assert requests.get(f"{client.url}/openapi.json", timeout=10).json() == made


def test_every_route_is_in_the_document_and_nothing_else(gate: Gate) -> None:
    async def routes() -> set[tuple[str, str]]:
        desk = Desk(InMemory({"retail": gate}, idle_seconds=1, most=1), {"retail": gate}, threads=1)
        app = http.Server(desk, token=None).app()
        await desk.close()
        return {
            (route.method.lower(), route.resource.canonical)
            for route in app.router.routes()
            if isinstance(route.resource, web.Resource) and route.method != "HEAD"
        }

    described = {(method, path) for path, methods in document()["paths"].items() for method in methods}
    assert asyncio.run(routes()) - {("get", "/openapi.json")} == described


# The command ------------------------------------------------------------------------------------------------------


def command(*options: str, token: str | None = None, **environment: str) -> subprocess.Popen[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LEDGERAGENT_S")} | environment
    return subprocess.Popen(
        [sys.executable, "-m", "ledgeragent", "serve", "--domain", "retail", "--engine", "embedded", *options],
        env=kept | ({http.TOKEN_VARIABLE: token} if token is not None else {}),
        stderr=subprocess.PIPE,
        text=True,
    )


def started(request: pytest.FixtureRequest, *options: str, **environment: str) -> tuple[subprocess.Popen[str], Client]:
    process = command("--listen", "127.0.0.1:0", *options, token=TOKEN, **environment)
    assert process.stderr is not None
    request.addfinalizer(process.stderr.close)
    request.addfinalizer(process.wait)
    request.addfinalizer(process.kill)
    said = process.stderr.readline()
    assert said.startswith("serving on "), said + process.stderr.read()
    return process, Client(said.split()[2])


def test_told_to_stop_it_begins_nothing_and_takes_the_outcomes_of_what_was_begun(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    process, client = started(request, "--record", str(tmp_path / "r.jsonl"))
    talk, other = learned(client.open()), learned(client.open())
    review = cancel(talk)
    talk.post("redemptions", ticket=review["ticket"])
    cancel(other)
    process.send_signal(signal.SIGTERM)
    until(lambda: client.get("/ready").status == 503, "stopping")
    refused = [
        client.post("/v1/sessions", {"domain": "retail"}),
        talk.post("reviews", calls=[{"tool": "cancel_pending_order", "arguments": CANCEL}]),
        talk.post("reads", tool="calculate", arguments={}),
    ]
    assert {(one.status, one.code) for one in refused} == {(503, "serve.stopping")}
    assert talk.post("outcomes", ticket=review["ticket"], outcome="executed").status == 200
    assert process.wait(20) == 0
    assert sorted(outcomes(tmp_path / "r.jsonl")) == ["executed", "withheld"]


@pytest.mark.parametrize(("signals", "drain"), [(1, "0.1"), (2, "60")])
def test_a_started_write_that_is_not_reported_in_time_is_uncertain(
    request: pytest.FixtureRequest, tmp_path: Path, signals: int, drain: str
) -> None:
    process, client = started(request, "--record", str(tmp_path / "r.jsonl"), "--drain", drain)
    talk = learned(client.open())
    talk.post("redemptions", ticket=cancel(talk)["ticket"])
    for _ in range(signals):
        process.send_signal(signal.SIGINT)
        if signals == 2:
            until(lambda: client_sees_it_stop(client), "stopping")
    assert process.wait(20) == 0
    assert outcomes(tmp_path / "r.jsonl") == ["uncertain"]


def client_sees_it_stop(client: Client) -> bool:
    try:
        return client.get("/ready").status == 503
    except requests.ConnectionError:
        return True
