"""What an OPA server engine makes of a server that is absent, slow, wrong or hostile; blocking and async alike."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ledgeragent.engine import AsyncOpaServer, OpaServer
from ledgeragent.engine.base import MAX_ANSWER_BYTES, MAX_INPUT_BYTES
from ledgeragent.engine.opa import Client
from ledgeragent.errors import (
    BadInput,
    EngineAnswer,
    EngineClosed,
    EngineError,
    EngineEvaluation,
    EnginePolicies,
    EngineRefused,
    EngineStatus,
    EngineTimeout,
    EngineUndefined,
    EngineUnreachable,
)
from needs import need
from scripted import drips, http_answer, read_request, says, scripted

Ask = Callable[..., Any]
TOKEN = "a-token-of-this-test"


def ask_blocking(url: str, gate_input: Any = None, domain: str = "retail", **options: Any) -> Any:
    with OpaServer(url, **options) as engine:
        return engine.evaluate(domain, "decision", {} if gate_input is None else gate_input)


def ask_async(url: str, gate_input: Any = None, domain: str = "retail", **options: Any) -> Any:
    async def ask() -> Any:
        async with AsyncOpaServer(url, **options) as engine:
            return await engine.aevaluate(domain, "decision", {} if gate_input is None else gate_input)

    return asyncio.run(ask())


def ask_requests(url: str, *more: Any, **options: Any) -> Any:
    return ask_blocking(url, *more, client="opa-python-client", **options)


CLIENTS = ("direct", "opa-python-client")


@pytest.fixture(params=[ask_blocking, ask_requests, ask_async], ids=["blocking", "requests", "async"])
def ask(request: pytest.FixtureRequest) -> Ask:
    asks: Ask = request.param
    return asks


def unused_url() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"http://127.0.0.1:{server.getsockname()[1]}"


def test_the_result_is_returned_and_the_request_is_the_public_one(ask: Ask) -> None:
    with scripted(says(http_answer(b'{"result": {"verdict": "allow"}}'))) as server:
        assert ask(server.url, {"request": "r1"}, token=TOKEN) == {"verdict": "allow"}
    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    assert lines[0] == "POST /v1/data/ledgeragent/retail/decision?strict-builtin-errors=true&provenance=true HTTP/1.1"
    assert f"Authorization: Bearer {TOKEN}" in lines
    assert json.loads(body) == {"input": {"request": "r1"}}


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (http_answer(b"{}"), EngineUndefined),
        (http_answer(b'{"warning": {"code": "api_usage_warning"}}'), EngineUndefined),
        (http_answer(b"[]"), EngineAnswer),
        (http_answer(b"null"), EngineAnswer),
        (http_answer(b""), EngineAnswer),
        (http_answer(b'{"result": {"verdict": "allo'), EngineAnswer),
        (http_answer(b'{"result": NaN}'), EngineAnswer),
        (http_answer(b'{"result": 1e999}'), EngineAnswer),
        (http_answer(b'{"result": 1, "result": 2}'), EngineAnswer),
        (http_answer(b'{"result": {"verdict": "block", "verdict": "allow"}}'), EngineAnswer),
        (http_answer(b'{"result": "\xff"}'), EngineAnswer),
        (http_answer(b'{"result": "\\ud800"}'), EngineAnswer),
        (http_answer(b'{"result": 1} {"result": 2}'), EngineAnswer),
        (http_answer(b"[" * 100_000), EngineAnswer),
        (http_answer(b"<html>a proxy</html>"), EngineAnswer),
        (b'HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\n{"result": {"verdict": "allow"}}', EngineAnswer),
        (b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"res', EngineAnswer),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Encoding: gzip\r\n\r\nabc", EngineAnswer),
        (http_answer(b"{}", "401 Unauthorized"), EngineRefused),
        (http_answer(b"{}", "403 Forbidden"), EngineRefused),
        (http_answer(b"{}", "400 Bad Request"), EngineStatus),
        (http_answer(b"{}", "404 Not Found"), EngineStatus),
        (http_answer(b"{}", "429 Too Many Requests"), EngineStatus),
        (http_answer(b"{}", "503 Service Unavailable"), EngineStatus),
        (http_answer(b'{"result": 1}', "201 Created"), EngineStatus),
        (http_answer(b'{"result": 1}', "302 Found", "Location: http://127.0.0.1:1/\r\n"), EngineStatus),
        (http_answer(b"{}", "500 Internal Server Error"), EngineEvaluation),
        (b"SSH-2.0-OpenSSH_9.6\r\n\r\n", EngineError),
        (b"", EngineError),
    ],
)
def test_every_wrong_answer_is_an_error_and_is_never_asked_for_again(
    ask: Ask, answer: bytes, error: type[EngineError]
) -> None:
    with scripted(says(answer)) as server, pytest.raises(error):
        ask(server.url)
    assert len(server.requests) == 1


def test_of_opas_error_its_codes_and_places_are_told_and_not_its_words(ask: Ask) -> None:
    conflict = {"code": "eval_conflict_error", "message": "for ada", "location": {"file": "gate/gate.rego", "row": 12}}
    odd = {"code": "ada", "message": "ada", "location": {"file": "ada", "row": "ada"}}
    body = json.dumps({"code": "internal_error", "message": "ada", "errors": [conflict, odd, *[odd] * 9000]})
    with (
        scripted(says(http_answer(body.encode(), "500 Internal Server Error"))) as server,
        pytest.raises(EngineEvaluation) as caught,
    ):
        ask(server.url)
    told = "internal_error, eval_conflict_error at gate/gate.rego:12, error, error, error, error"
    assert str(caught.value).endswith(f"could not evaluate (HTTP 500): {told}")


def test_why_there_is_no_connection_is_told_in_the_systems_words(ask: Ask) -> None:
    with pytest.raises(EngineUnreachable, match=r"cannot be reached \(.*(Connection refused|Connect call failed)"):
        ask(unused_url())


def test_an_answer_that_never_ends_is_cut_off(ask: Ask) -> None:
    def endless(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + b'"' * (MAX_ANSWER_BYTES + 100_000))

    with scripted(endless) as server, pytest.raises(EngineAnswer, match="more than"):
        ask(server.url)


@pytest.mark.parametrize(
    "script",
    [
        lambda _: time.sleep(2),
        drips(http_answer(b'{"result": {"verdict": "allow"}}'), 0.1),
        drips(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 100, 0.1),
        drips(b"HTTP/1.1 100 Continue\r\n\r\n" * 100, 0.1),
    ],
    ids=["silent", "slow", "slow headers", "continues for ever"],
)
def test_the_budget_is_for_the_whole_exchange(ask: Ask, script: Callable[[socket.socket], None]) -> None:
    with scripted(script) as server:
        started = time.monotonic()
        with pytest.raises(EngineTimeout, match=r"within 0\.3 s"):
            ask(server.url, timeout=0.3)
        assert time.monotonic() - started < 1.5


@pytest.mark.parametrize("client", CLIENTS)
def test_a_name_service_that_does_not_answer_is_not_waited_for(client: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [ended.wait(10)])
    started = time.monotonic()
    with pytest.raises(EngineTimeout, match=r"opa\.invalid"):
        ask_blocking("http://opa.invalid:8181", timeout=0.3, client=client)
    took = time.monotonic() - started
    ended.set()
    assert took < 1.5


def test_addresses_that_are_dead_leave_time_for_the_one_that_lives(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        socket.create_server(("127.0.0.1", 0), backlog=0) as full,
        socket.create_connection(full.getsockname()),
        scripted(says(http_answer(b'{"result": 1}'))) as server,
    ):
        ports = [*[full.getsockname()[1]] * 3, int(server.url.rpartition(":")[2])]
        found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port)) for port in ports]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        started = time.monotonic()
        assert ask("http://opa.invalid:8181", timeout=2) == 1
        assert time.monotonic() - started < 2


@pytest.mark.parametrize("client", CLIENTS)
def test_a_server_that_does_not_take_the_request_in_time_is_a_timeout(client: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        started = time.monotonic()
        with pytest.raises(EngineTimeout):
            ask_blocking(
                f"http://127.0.0.1:{server.getsockname()[1]}", {"a": "x" * 15_000_000}, timeout=0.5, client=client
            )
        assert time.monotonic() - started < 1.5


def test_an_input_of_megabytes_arrives_whole(ask: Ask) -> None:
    with scripted(says(http_answer(b'{"result": 1}'))) as server:
        assert ask(server.url, {"a": "x" * 15_000_000}) == 1
    assert len(server.requests[0].partition(b"\r\n\r\n")[2]) > 15_000_000


def test_an_ipv6_address_is_asked(ask: Ask) -> None:
    need(socket.has_ipv6 and Path("/proc/net/if_inet6").exists(), "IPv6 on loopback")
    with scripted(says(http_answer(b'{"result": 1}')), host="::1") as server:
        assert ask(server.url) == 1


def test_nobody_listening_is_unreachable_and_names_the_address(ask: Ask) -> None:
    url = unused_url()
    with pytest.raises(EngineUnreachable, match=url):
        ask(url)


def test_an_unknown_name_is_unreachable(ask: Ask) -> None:
    with pytest.raises(EngineUnreachable, match=r"no-such-host\.invalid"):
        ask("http://no-such-host.invalid:8181")


def test_a_refused_connection_is_tried_a_second_time(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    url = unused_url()
    tries: list[object] = []
    connect = socket.socket.connect

    def counted(self: socket.socket, address: Any) -> None:
        tries.append(address)
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", counted)
    with pytest.raises(EngineUnreachable):
        ask(url)
    assert len(tries) == 2


@pytest.mark.parametrize("client", CLIENTS)
def test_connections_are_kept_for_the_next_request(client: Client) -> None:
    def twice(connection: socket.socket) -> None:
        connection.sendall(http_answer(b'{"result": 1}'))
        read_request(connection)
        connection.sendall(http_answer(b'{"result": 2}'))

    async def ask_twice(url: str) -> list[Any]:
        async with AsyncOpaServer(url) as engine:
            return [await engine.aevaluate("retail", "decision", {}) for _ in range(2)]

    with scripted(twice) as server, OpaServer(server.url, client=client) as engine:
        assert [engine.evaluate("retail", "decision", {}) for _ in range(2)] == [1, 2]
        assert len(server.requests) == 1
        assert asyncio.run(ask_twice(server.url)) == [1, 2]
        assert len(server.requests) == 2


def test_redirects_are_not_followed(ask: Ask) -> None:
    with scripted(says(http_answer(b'{"result": "forged"}'))) as elsewhere:
        answer = http_answer(b"", "307 Temporary Redirect", f"Location: {elsewhere.url}/v1/data\r\n")
        with scripted(says(answer)) as server, pytest.raises(EngineStatus) as caught:
            ask(server.url, token=TOKEN)
    assert caught.value.status == 307
    assert elsewhere.requests == []


def test_proxies_of_the_environment_are_not_used(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    with scripted(says(http_answer(b'{"result": "forged"}'))) as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        with scripted(says(http_answer(b'{"result": "own"}'))) as server:
            assert ask(server.url) == "own"
    assert proxy.requests == []


def test_a_netrc_file_adds_no_credentials(ask: Ask, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login somebody password secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    with scripted(says(http_answer(b'{"result": 1}'))) as server:
        ask(server.url)
    assert b"authorization" not in server.requests[0].lower()


@pytest.mark.parametrize("client", CLIENTS)
def test_the_version_is_learned_once_and_an_unsupported_one_is_refused(client: Client) -> None:
    good = b'{"provenance": {"version": "1.22.3"}, "result": 1}'
    answer = http_answer(good, headers="Connection: close\r\n")
    with scripted(says(answer)) as server, OpaServer(server.url, client=client) as engine:
        assert engine.version == "unknown"
        engine.evaluate("retail", "decision", {})
        assert engine.version == "1.22.3"
        engine.evaluate("retail", "decision", {})
    assert [b"provenance" in request for request in server.requests] == [True, False]


@pytest.mark.parametrize("version", ["1.9.0", "0.70.0", "1.20.0", "1.21.0", "latest", "1.10"])
def test_an_unsupported_version_is_refused(ask: Ask, version: str) -> None:
    body = json.dumps({"provenance": {"version": version}, "result": {"verdict": "allow"}}).encode()
    with scripted(says(http_answer(body))) as server, pytest.raises(EnginePolicies, match=r"use 1\.10 or later"):
        ask(server.url)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "127.0.0.1:8181",
        "ftp://127.0.0.1",
        "http://",
        "http://127.0.0.1:99999",
        "http://127.0.0.1:port",
        "http://user:secret@127.0.0.1:8181",
        "http://127.0.0.1:8181/v1/data",
        "http://127.0.0.1:8181/?a=b",
        "http://127.0.0.1:8181/#a",
        "http://127.0.0.1 :8181",
        "http://[::1",
        "http://[fe80::1%25eth0]:8181",
        "http://a..b:8181",
        "http://-a:8181",
        "http://ä.example:8181",
        "http://*:8181",
        "http://%41:8181",
        "http://x\0y:8181",
        pytest.param(f"http://{'a' * 64}.example:8181", id="long label"),
        pytest.param(f"http://{'a.' * 130}example:8181", id="long name"),
    ],
)
def test_another_kind_of_url_is_bad_input(url: str) -> None:
    with pytest.raises(BadInput) as caught:
        OpaServer(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("token", ["", "two words", "line\nend", "tøken"])
def test_a_token_that_no_header_can_carry_is_bad_input(token: str) -> None:
    with pytest.raises(BadInput, match="token"):
        OpaServer("http://127.0.0.1:8181", token=token)


def test_a_token_comes_from_one_place() -> None:
    with pytest.raises(BadInput, match="not both"):
        OpaServer("http://127.0.0.1:8181", token=TOKEN, token_file=Path("token"))


@pytest.mark.parametrize("client", CLIENTS)
def test_a_token_file_is_read_for_each_request(client: Client, tmp_path: Path) -> None:
    file = tmp_path / "token"
    answer = http_answer(b'{"result": 1}', headers="Connection: close\r\n")
    with scripted(says(answer)) as server, OpaServer(server.url, token_file=file, client=client) as engine:
        with pytest.raises(EngineRefused, match="token file"):
            engine.evaluate("retail", "decision", {})
        for token in ("first", "second"):
            file.write_text(token + "\n")
            engine.evaluate("retail", "decision", {})
    assert [b"Bearer first" in server.requests[0], b"Bearer second" in server.requests[1]] == [True, True]


def test_a_token_sent_in_the_clear_to_another_machine_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        OpaServer("http://opa.internal:8181", token=TOKEN).close()
    assert "unencrypted" in caplog.text
    assert TOKEN not in caplog.text


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf")])
def test_a_budget_is_a_positive_number_of_seconds(timeout: float) -> None:
    with pytest.raises(BadInput, match="timeout"):
        OpaServer("http://127.0.0.1:8181", timeout=timeout)


@pytest.mark.parametrize("domain", ["", "Retail", "retail/../x", "retail%2f", "1a", "a.b", "retail\n", "ä"])
def test_a_domain_name_that_could_change_the_path_is_never_sent(ask: Ask, domain: str) -> None:
    with scripted(says(http_answer(b'{"result": 1}'))) as server, pytest.raises(BadInput, match="domain name"):
        ask(server.url, domain=domain)
    assert server.requests == []


@pytest.mark.parametrize(
    "gate_input", [{"a": float("nan")}, {"a": "\ud800"}, {"a": object()}, {"a": "x" * MAX_INPUT_BYTES}]
)
def test_an_input_that_no_engine_can_take_is_never_sent(ask: Ask, gate_input: Any) -> None:
    with scripted(says(http_answer(b'{"result": 1}'))) as server, pytest.raises(BadInput, match="gate input"):
        ask(server.url, gate_input)
    assert server.requests == []


@pytest.mark.parametrize("client", CLIENTS)
def test_a_closed_engine_says_so(client: Client) -> None:
    engine = OpaServer("http://127.0.0.1:8181", client=client)
    engine.close()
    engine.close()
    with pytest.raises(EngineClosed):
        engine.evaluate("retail", "decision", {})


def test_a_closed_async_engine_says_so() -> None:
    async def ask() -> None:
        engine = AsyncOpaServer("http://127.0.0.1:8181")
        await engine.aclose()
        await engine.aclose()
        with pytest.raises(EngineClosed):
            await engine.aevaluate("retail", "decision", {})

    asyncio.run(ask())


@pytest.mark.parametrize("host", ["opa", "opa_1.ns.svc.cluster.local.", "10.0.0.1", "[::1]", "a-b.example"])
def test_usual_hosts_are_taken(host: str) -> None:
    with OpaServer(f"http://{host}:8181") as engine:
        assert engine.location == f"http://{host}:8181"


@pytest.mark.parametrize("client", CLIENTS)
def test_one_engine_serves_many_threads(client: Client) -> None:
    def echo(connection: socket.socket) -> None:
        connection.sendall(http_answer(b'{"result": true}', headers="Connection: close\r\n"))

    results: list[Any] = []
    with scripted(echo) as server, OpaServer(server.url, client=client) as engine:
        threads = [
            threading.Thread(target=lambda: results.append(engine.evaluate("retail", "decision", {})))
            for _ in range(16)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert results == [True] * 16
