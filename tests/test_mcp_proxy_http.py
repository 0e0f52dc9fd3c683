"""Clients over HTTP: whose session it is, who may come in, and what ends a session."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client, MCPError, types
from mcp.client.streamable_http import streamable_http_client
from mcp.server.lowlevel import Server

from ledgeragent.domain import Domain
from ledgeragent.errors import BadInput
from ledgeragent.gate import Gate
from ledgeragent.proxy import wire
from ledgeragent.proxy.http import Sessions, Tokens, application
from ledgeragent.proxy.service import Limits
from ledgeragent.proxy.upstreams import to_url
from ledgeragent.session import Session
from ledgeragent.shops import open_shop
from support import five
from support.mcp_proxy import called, in_memory, served, service
from support.mcp_shop import declared, server_of

pytest_plugins = ["support.fixtures"]
# What the newest protocol gives up (roots) still has to pass.
pytestmark = pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")

LOOPBACK = ["127.0.0.1", "127.0.0.1:*"]
ADA, BOB = "token-of-ada", "token-of-bob"
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}},
}
ACCEPT = {"accept": "application/json, text/event-stream"}


def digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


Listening = Callable[..., Any]


@pytest.fixture
def listening(gate: Gate, retail_domain: Domain) -> Listening:
    """A proxy in this process, on a real port, before a shop in memory; gives its URL and its sessions."""

    @contextmanager
    def listen(**about: Any) -> Iterator[tuple[str, Sessions]]:
        tokens = about.pop("tokens", None)
        serves = service(gate, in_memory(server_of(open_shop("retail"), retail_domain, [])), **about)
        app, sessions = application(serves, hosts=LOOPBACK, tokens=tokens)
        with served(app) as url:
            yield f"{url}/mcp", sessions

    return listen


def post(url: str, message: Any, **headers: str) -> httpx2.Response:
    return httpx2.post(
        url, json=message, headers={**ACCEPT, **{key.replace("_", "-"): one for key, one in headers.items()}}
    )


def opened(url: str, **headers: str) -> str:
    """The id of a session that was begun."""
    return post(url, INITIALIZE, **headers).headers["mcp-session-id"]


def test_the_proxy_makes_a_sessions_id_whatever_the_client_asks_for(listening: Listening) -> None:
    with listening() as (url, _):
        chosen = post(url, INITIALIZE, mcp_session_id="mine")
        assert (chosen.status_code, chosen.json()["error"]["message"]) == (404, "there is no such session")
        assert opened(url) != opened(url)


def test_a_session_belongs_to_the_principal_that_began_it(listening: Listening) -> None:
    tokens = Tokens({digest(ADA): "ada", digest(BOB): "bob"})
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    with listening(tokens=tokens) as (url, sessions):
        session = opened(url, authorization=f"Bearer {ADA}")
        assert post(url, ping, authorization=f"Bearer {ADA}", mcp_session_id=session).status_code == 200
        for_bob = post(url, ping, authorization=f"Bearer {BOB}", mcp_session_id=session)
        assert for_bob.status_code == 404
        ended = httpx2.delete(url, headers={"authorization": f"Bearer {BOB}", "mcp-session-id": session})
        assert (ended.status_code, len(sessions)) == (404, 1)


def test_without_a_token_of_the_file_nobody_comes_in(listening: Listening) -> None:
    with listening(tokens=Tokens({digest(ADA): "ada"})) as (url, sessions):
        assert post(url, INITIALIZE).status_code == 401
        assert post(url, INITIALIZE, authorization="Bearer guess").status_code == 401
        assert post(url, INITIALIZE, authorization=f"Bearer {digest(ADA)}").status_code == 401
        assert len(sessions) == 0


def test_the_principal_of_a_token_is_the_sessions(
    listening: Listening, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []

    class Noting(Session):
        def __init__(self, *arguments: Any, **about: Any) -> None:
            seen.append(about["principal"])
            super().__init__(*arguments, **about)

    monkeypatch.setattr("ledgeragent.proxy.service.Session", Noting)
    with listening(tokens=Tokens({digest(ADA): "ada"})) as (url, _):
        opened(url, authorization=f"Bearer {ADA}")
    with listening() as (url, _):
        opened(url)
    assert [one and (one.id, one.source) for one in seen] == [("ada", "host"), None]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 421),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "http://127.0.0.1:1"}, 200),
    ],
)
def test_other_hosts_and_origins_are_refused(listening: Listening, headers: dict[str, str], status: int) -> None:
    with listening() as (url, sessions):
        assert post(url, INITIALIZE, **headers).status_code == status
        assert len(sessions) == (status == 200)


@pytest.mark.parametrize(
    "message",
    [
        {"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
        {"jsonrpc": "2.0", "method": "initialize"},
        [INITIALIZE],
        "nonsense",
    ],
)
def test_a_request_without_a_session_is_refused(listening: Listening, message: Any) -> None:
    with listening() as (url, sessions):
        refused = post(url, message)
        assert (refused.status_code, len(sessions)) == (400, 0)
        assert "begin a session with `initialize`" in refused.json()["error"]["message"]
        assert httpx2.get(url, headers=ACCEPT).status_code == 400


def test_a_beginning_that_the_transport_refuses_leaves_no_session(listening: Listening) -> None:
    with listening() as (url, sessions):
        refused = httpx2.post(url, json=INITIALIZE, headers={"accept": "text/plain"})
        assert (refused.status_code, len(sessions)) == (406, 0)


def test_a_version_without_sessions_is_refused_and_named_those_that_have_them(listening: Listening) -> None:
    with listening() as (url, sessions):
        refused = post(url, INITIALIZE, mcp_protocol_version="2026-07-28")
        assert (refused.status_code, refused.json()["error"]["code"], len(sessions)) == (400, -32022, 0)
        assert "2025-11-25" in refused.json()["error"]["data"]["supported"]

        async def work() -> None:
            async with Client(url, mode="auto") as client:  # finds out, and begins a session
                assert client.session.protocol_version == "2025-11-25"
            with pytest.RaisesGroup(MCPError, flatten_subgroups=True, allow_unwrapped=True):
                async with Client(url, mode="2026-07-28") as client:
                    await client.list_tools()

        asyncio.run(work())


def test_limits_hold(listening: Listening) -> None:
    with listening(limits=Limits(max_sessions=1, max_message=2000)) as (url, _):
        session = opened(url)
        assert post(url, INITIALIZE).status_code == 503
        long = {"jsonrpc": "2.0", "id": 1, "method": "vendor/x", "params": {"x": "x" * 2000}}
        assert post(url, long, mcp_session_id=session).status_code == 413
        assert httpx2.delete(url, headers={"mcp-session-id": session}).status_code == 200
        assert post(url, INITIALIZE).status_code == 200


def test_an_idle_session_ends_and_its_ledger_with_it(listening: Listening, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = threading.Event()

    class Noting(Session):
        def close(self, reason: str = "") -> None:
            super().close(reason)
            closed.set()

    monkeypatch.setattr("ledgeragent.proxy.service.Session", Noting)
    with listening(limits=Limits(idle=0.2)) as (url, sessions):
        session = opened(url)
        assert closed.wait(30)
        gone = post(url, {"jsonrpc": "2.0", "id": 1, "method": "ping"}, mcp_session_id=session)
        assert (gone.status_code, len(sessions)) == (404, 0)


def test_two_clients_see_their_own_facts_alone(listening: Listening) -> None:
    async def one(url: str, email: str, reads: anyio.Event, go_on: anyio.Event) -> str:
        async with Client(url, mode="legacy") as client:
            await called(client, "find_user_id_by_email", {"email": email})
            reads.set()
            await go_on.wait()
            content = (await client.read_resource(wire.LEDGER)).contents[0]
            return content.text  # type: ignore[union-attr]

    async def work(url: str) -> list[str]:
        first, second = anyio.Event(), anyio.Event()
        emails = ("ines.marchetti@example.com", "tobias.wren@example.com")
        return await asyncio.gather(one(url, emails[0], first, second), one(url, emails[1], second, first))

    with listening() as (url, _):
        ines, other = asyncio.run(work(url))
    assert "ines_marchetti_4021" in ines
    assert "ines_marchetti_4021" not in other


def test_sampling_and_progress_come_on_the_stream_of_their_call(gate: Gate, retail_domain: Domain) -> None:
    """A client that has opened no stream for other messages hears them all the same."""

    async def tools(_: Any, __: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=declared(retail_domain))

    async def call(context: Any, _: Any) -> types.CallToolResult:
        await context.session.report_progress(1, 2)
        roots = await context.session.list_roots()
        return types.CallToolResult(content=[types.TextContent(type="text", text=str(roots.roots[0].uri))])

    app, _ = application(
        service(gate, in_memory(Server("s", on_list_tools=tools, on_call_tool=call))), hosts=LOOPBACK, tokens=None
    )
    with served(app) as at:
        url = f"{at}/mcp"
        begin = {**INITIALIZE, "params": {**INITIALIZE["params"], "capabilities": {"roots": {}}}}  # type: ignore[dict-item]
        session = post(url, begin).headers["mcp-session-id"]
        params = {"name": "find_user_id_by_email", "arguments": {"email": "x"}, "_meta": {"progressToken": "p"}}
        heard: list[Any] = []
        request = {"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params}
        with httpx2.stream("POST", url, json=request, headers={**ACCEPT, "mcp-session-id": session}) as stream:
            for line in stream.iter_lines():
                if not line.startswith("data: "):
                    continue
                message = json.loads(line.removeprefix("data: "))
                heard.append(message.get("method") or message["result"]["content"][0]["text"])
                if message.get("method") == "roots/list":
                    answer = {"jsonrpc": "2.0", "id": message["id"], "result": {"roots": [{"uri": "file:///r"}]}}
                    assert post(url, answer, mcp_session_id=session).status_code == 202
    assert heard == ["notifications/progress", "roots/list", "file:///r"]


def test_closed_sessions_leave_nothing_behind(listening: Listening) -> None:
    def alive() -> int:
        gc.collect()
        return sum(isinstance(one, Session) for one in gc.get_objects())

    async def work(url: str) -> None:
        async with Client(url, mode="legacy") as client:
            await called(client, *five.FIND)

    before = alive()
    with listening() as (url, sessions):
        for _ in range(5):
            asyncio.run(work(url))
        assert len(sessions) == 0
    assert alive() == before


def test_a_server_that_is_away_is_said_at_once(gate: Gate) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        away = f"http://127.0.0.1:{free.getsockname()[1]}/mcp"
    app, sessions = application(
        service(gate, to_url(away, token=None, timeout=60, max_message=1_000_000)), hosts=LOOPBACK, tokens=None
    )
    with served(app) as at:
        answer = post(f"{at}/mcp", INITIALIZE)
        [told] = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: ")]
        assert json.loads(told)["error"]["message"].startswith("the server ended the connection")
    assert len(sessions) == 0


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"token": "ada"}', json.dumps({"a" * 64: ""}), json.dumps({"A" * 64: "ada"})]
)
def test_a_file_of_tokens_that_is_none_stops_the_start(tmp_path: Path, content: str) -> None:
    (tmp_path / "tokens.json").write_text(content)
    with pytest.raises(BadInput):
        Tokens.read(tmp_path / "tokens.json")


def test_what_clients_authenticate_with_is_not_passed_on(gate: Gate, retail_domain: Domain) -> None:
    got: list[str | None] = []
    shop: Any = None

    async def upstream(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            got.append(dict(scope["headers"]).get(b"authorization", b"").decode() or None)
        await shop(scope, receive, send)

    async def work(url: str) -> None:
        async with (
            httpx2.AsyncClient(headers={"authorization": f"Bearer {ADA}"}) as http,
            Client(streamable_http_client(url, http_client=http), mode="legacy") as client,
        ):
            assert await called(client, *five.FIND) == "ines_marchetti_4021"

    for own, expected in ((None, {None}), ("of-the-proxy", {"Bearer of-the-proxy"})):
        got.clear()
        shop = server_of(open_shop("retail"), retail_domain, []).streamable_http_app()
        with served(upstream) as there:
            way = to_url(f"{there}/mcp", token=own, timeout=60, max_message=1_000_000)
            app, _ = application(service(gate, way), hosts=LOOPBACK, tokens=Tokens({digest(ADA): "ada"}))
            with served(app) as here:
                asyncio.run(work(f"{here}/mcp"))
        assert set(got) == expected
