"""What goes through the proxy unharmed, in both directions, and what it adds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from mcp import Client, MCPError, types
from mcp.server.lowlevel import Server
from mcp.shared.memory import create_client_server_memory_streams
from mcp.shared.message import SessionMessage
from mcp.types.jsonrpc import JSONRPCError, JSONRPCNotification, JSONRPCRequest

from ledgeragent.domain import Domain
from ledgeragent.gate import Gate
from ledgeragent.proxy import wire
from support import five
from support.mcp_proxy import Through, called, in_memory, service, text
from support.mcp_shop import declared

pytest_plugins = ["support.fixtures"]
# What the newest protocol gives up (sampling, roots, logging) still has to pass.
pytestmark = pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")

READ = "get_order_details"


class Everything:
    """A server that offers one of everything; its one tool's behaviour is the test's."""

    def __init__(self, domain: Domain) -> None:
        self.domain = domain
        self.seen: list[tuple[str, Any]] = []
        self.tool: Callable[[Any], Any] = self._nothing
        self.cancelled = anyio.Event()
        self.started = anyio.Event()

    async def _nothing(self, _: Any) -> str:
        return "{}"

    def server(self, **more: Any) -> Server[Any]:
        """With resources, prompts and completion."""
        return self.bare(
            on_list_resources=self._resources,
            on_read_resource=self._resource,
            on_list_resource_templates=self._templates,
            on_subscribe_resource=self._subscribed,
            on_unsubscribe_resource=self._subscribed,
            on_list_prompts=self._prompts,
            on_get_prompt=self._prompt,
            on_completion=self._completion,
            on_set_logging_level=self._level,
            **more,
        )

    def bare(self, **more: Any) -> Server[Any]:
        """With tools alone."""
        handlers = {"on_list_tools": self._tools, "on_call_tool": self._call, **more}
        return Server("everything", version="7", instructions="Be kind.", **handlers)

    async def _tools(self, _: Any, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        cursor = params.cursor if params is not None else None
        tools = declared(self.domain)
        if cursor is None:
            return types.ListToolsResult(tools=tools[:5], next_cursor="more")
        assert cursor == "more"
        return types.ListToolsResult(tools=tools[5:], _meta={"page": 2})

    async def _call(self, context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        self.seen.append((params.name, params.model_dump(by_alias=True, exclude_none=True)))
        self.started.set()
        try:
            said = await self.tool(context)
        except anyio.get_cancelled_exc_class():
            self.cancelled.set()
            raise
        if isinstance(said, types.CallToolResult):
            return said
        return types.CallToolResult(content=[types.TextContent(type="text", text=said)])

    async def _resources(self, _: Any, params: Any) -> types.ListResourcesResult:
        page = params.cursor if params is not None and params.cursor else "a"
        resource = types.Resource(name=page, uri=f"shop://{page}", _meta={"kept": True})
        fake = types.Resource(name="fake", uri=wire.LEDGER)
        return types.ListResourcesResult(resources=[resource, fake], next_cursor="b" if page == "a" else None)

    async def _templates(self, _: Any, __: Any) -> types.ListResourceTemplatesResult:
        template = types.ResourceTemplate(name="t", uri_template="shop://{x}")
        return types.ListResourceTemplatesResult(resource_templates=[template])

    async def _resource(self, _: Any, params: Any) -> types.ReadResourceResult:
        block = types.TextResourceContents(uri=params.uri, text="from the shop", mime_type="text/plain")
        return types.ReadResourceResult(contents=[block])

    async def _subscribed(self, _: Any, params: Any) -> types.EmptyResult:
        self.seen.append(("subscription", str(params.uri)))
        return types.EmptyResult()

    async def _prompts(self, _: Any, __: Any) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=[types.Prompt(name="greet")])

    async def _prompt(self, _: Any, params: Any) -> types.GetPromptResult:
        message = types.PromptMessage(role="user", content=types.TextContent(type="text", text=params.name))
        return types.GetPromptResult(messages=[message])

    async def _completion(self, _: Any, params: Any) -> types.CompleteResult:
        return types.CompleteResult(completion=types.Completion(values=[params.argument.value + "!"]))

    async def _level(self, _: Any, params: Any) -> types.EmptyResult:
        self.seen.append(("level", params.level))
        return types.EmptyResult()


@pytest.fixture
def everything(retail_domain: Domain) -> Everything:
    return Everything(retail_domain)


@asynccontextmanager
async def through(gate: Gate, server: Server[Any], **about: Any) -> AsyncIterator[Client]:
    """A real client, the proxy, a real server."""
    async with Client(Through(service(gate, in_memory(server))), mode="legacy", **about) as client:
        yield client


def test_lists_come_with_all_their_pages_and_fields(gate: Gate, everything: Everything) -> None:
    async def work() -> None:
        async with through(gate, everything.server()) as client, Client(everything.server(), mode="legacy") as bare:
            for cursor in (None, "more"):
                assert await client.list_tools(cursor=cursor) == await bare.list_tools(cursor=cursor)
            assert await client.list_prompts() == await bare.list_prompts()
            assert await client.list_resource_templates() == await bare.list_resource_templates()
            first, second = await client.list_resources(), await client.list_resources(cursor="b")
            assert [one.uri for one in first.resources] == [wire.LEDGER, "shop://a"]
            assert first.resources[1].meta == {"kept": True}
            assert (first.next_cursor, [one.uri for one in second.resources]) == ("b", ["shop://b"])

    asyncio.run(work())


def test_the_handshake_is_the_servers_with_the_ledger_to_subscribe_to(gate: Gate, everything: Everything) -> None:
    async def work() -> None:
        async with through(gate, everything.server()) as client, Client(everything.server(), mode="legacy") as bare:
            got, given = client.session.initialize_result, bare.session.initialize_result
            assert got is not None
            assert given is not None
            assert (got.server_info, got.instructions) == (given.server_info, "Be kind.")
            expected = given.capabilities.model_copy(deep=True)
            assert expected.resources is not None
            expected.resources.subscribe = True
            assert got.capabilities == expected

    asyncio.run(work())


def test_prompts_resources_completion_and_levels_go_to_the_server(gate: Gate, everything: Everything) -> None:
    async def work() -> None:
        async with through(gate, everything.server()) as client:
            prompt = (await client.get_prompt("greet")).messages[0].content
            assert isinstance(prompt, types.TextContent)
            assert prompt.text == "greet"
            content = (await client.read_resource("shop://a")).contents[0]
            assert isinstance(content, types.TextResourceContents)
            assert content.text == "from the shop"
            reference = types.PromptReference(type="ref/prompt", name="greet")
            completed = await client.complete(reference, {"name": "who", "value": "Ad"})
            assert completed.completion.values == ["Ad!"]
            await client.session.send_ping()

    asyncio.run(work())


def test_meta_of_a_call_and_of_its_result_are_kept(gate: Gate, everything: Everything) -> None:
    async def tool(_: Any) -> types.CallToolResult:
        block = types.TextContent(type="text", text="{}", _meta={"block": 1})
        return types.CallToolResult(content=[block], structured_content={"a": 1}, _meta={"x/y": [1]}, vendor="kept")

    everything.tool = tool

    async def work() -> None:
        async with through(gate, everything.server()) as client:
            result = await client.call_tool(READ, {"order_id": "#W1"}, meta={"vendor/trace": "abc"})
            assert (result.meta, result.structured_content) == ({"x/y": [1]}, {"a": 1})
            assert result.content[0].meta == {"block": 1}
            [(_, sent)] = everything.seen
            assert sent["_meta"]["vendor/trace"] == "abc"

    asyncio.run(work())


def test_progress_and_logging_reach_the_client(gate: Gate, everything: Everything) -> None:
    async def tool(context: Any) -> str:
        await context.session.report_progress(1, 2, "half")
        return "{}"

    everything.tool = tool
    heard: list[Any] = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        heard.append((done, total, message))

    async def work() -> None:
        async with through(gate, everything.server()) as client:
            await client.call_tool(READ, {"order_id": "#W1"}, progress_callback=progress)
        assert heard == [(1, 2, "half")]

    asyncio.run(work())


def test_sampling_elicitation_and_roots_reach_the_client_and_their_answers_the_server(
    gate: Gate, everything: Everything
) -> None:
    got: list[Any] = []

    async def tool(context: Any) -> str:
        message = types.SamplingMessage(role="user", content=types.TextContent(type="text", text="2+2"))
        got.append((await context.session.create_message([message], max_tokens=9)).content.text)
        schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}}
        got.append((await context.session.elicit_form("Sure?", schema)).content)
        got.append([str(one.uri) for one in (await context.session.list_roots()).roots])
        return "{}"

    everything.tool = tool

    async def sample(_: Any, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
        block = types.TextContent(type="text", text=params.messages[0].content.text + "=4")  # type: ignore[union-attr]
        return types.CreateMessageResult(role="assistant", content=block, model="m")

    async def elicit(_: Any, __: Any) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"ok": True})

    async def roots(_: Any) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[types.Root(uri="file:///here")])

    about = {"sampling_callback": sample, "elicitation_callback": elicit, "list_roots_callback": roots}

    async def work() -> None:
        async with through(gate, everything.server(), **about) as client:
            assert text(await client.call_tool(READ, {"order_id": "#W1"})) == "{}"
        assert got == ["2+2=4", {"ok": True}, ["file:///here"]]

    asyncio.run(work())


def test_a_cancelled_read_is_cancelled_at_the_server(gate: Gate, everything: Everything) -> None:
    async def tool(_: Any) -> str:
        await anyio.sleep_forever()
        return ""

    everything.tool = tool

    async def work() -> None:
        async with through(gate, everything.server()) as client, anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, READ, {"order_id": "#W1"})
            await everything.started.wait()
            tasks.cancel_scope.cancel()
        with anyio.fail_after(30):
            await everything.cancelled.wait()

    asyncio.run(work())


# Messages no client of the package would send ---------------------------------------------------------------------


class Raw:
    """The two ends of a proxied connection, message by message."""

    def __init__(self, client: Any, server: Any) -> None:
        self.client, self.server = client, server

    async def say(self, message: wire.Message) -> None:
        await self.client[1].send(SessionMessage(message))

    async def hear(self) -> Any:
        with anyio.fail_after(30):
            return (await self.client[0].receive()).message

    async def serve(self, message: wire.Message) -> None:
        await self.server[1].send(SessionMessage(message))

    async def asked(self) -> Any:
        with anyio.fail_after(30):
            return (await self.server[0].receive()).message

    async def begin(self) -> None:
        await self.say(wire.request(0, "initialize", {"protocolVersion": "2025-11-25", "capabilities": {}}))
        first = await self.asked()
        given = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "s"}}
        await self.serve(wire.result(first.id, given))
        await self.hear()

    async def list(self, domain: Domain) -> None:
        """Answer the proxy's own question for the tools."""
        listing = await self.asked()
        assert listing.method == "tools/list"
        tools = [one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in declared(domain)]
        await self.serve(wire.result(listing.id, {"tools": tools}))


@asynccontextmanager
async def raw(gate: Gate) -> AsyncIterator[Raw]:
    async with create_client_server_memory_streams() as (theirs, far):

        @asynccontextmanager
        async def upstream() -> AsyncIterator[Any]:
            yield theirs

        async with create_client_server_memory_streams() as (near, ours), anyio.create_task_group() as tasks:
            tasks.start_soon(service(gate, upstream).serve, ours, None)
            yield Raw(near, far)
            tasks.cancel_scope.cancel()


def test_what_is_not_known_here_passes_both_ways_with_every_field(gate: Gate) -> None:
    odd = {"deep": [{"x": None}], "_meta": {"a/b": 1}}

    async def work() -> None:
        async with raw(gate) as ends:
            await ends.begin()
            await ends.say(wire.request("id-7", "vendor/ask", odd))
            asked = await ends.asked()
            assert (asked.method, asked.params) == ("vendor/ask", odd)
            await ends.serve(wire.error(asked.id, -32001, "no", {"why": [1]}))
            assert await ends.hear() == wire.error("id-7", -32001, "no", {"why": [1]})
            await ends.say(JSONRPCNotification(jsonrpc="2.0", method="notifications/vendor/told", params=odd))
            assert await ends.asked() == wire.notification("notifications/vendor/told", odd)
            await ends.serve(JSONRPCRequest(jsonrpc="2.0", id=0, method="vendor/back"))
            assert await ends.hear() == JSONRPCRequest(jsonrpc="2.0", id=0, method="vendor/back")
            await ends.say(wire.result(0, odd))
            assert await ends.asked() == wire.result(0, odd)

    asyncio.run(work())


def test_an_answer_nobody_asked_for_goes_nowhere(gate: Gate) -> None:
    async def work() -> None:
        async with raw(gate) as ends:
            await ends.begin()
            await ends.say(wire.result(99, {}))  # the server asked nothing
            await ends.serve(wire.result(99, {}))  # nor the client
            await ends.say(wire.notification("notifications/vendor/told", {}))
            assert await ends.asked() == wire.notification("notifications/vendor/told", {})
            await ends.serve(wire.notification("notifications/vendor/told", {}))
            assert await ends.hear() == wire.notification("notifications/vendor/told", {})

    asyncio.run(work())


def test_a_late_answer_is_not_taken_for_the_answer_to_a_new_call_of_the_same_id(
    gate: Gate, retail_domain: Domain
) -> None:
    call = {"name": "find_user_id_by_email", "arguments": {"email": "a@b.example"}}

    async def work() -> None:
        async with raw(gate) as ends:
            await ends.begin()
            await ends.say(wire.request(1, "tools/call", call))
            await ends.list(retail_domain)
            first = await ends.asked()
            await ends.say(wire.notification("notifications/cancelled", {"requestId": 1}))
            assert (await ends.asked()).params == {"requestId": first.id}
            await ends.say(wire.request(1, "tools/call", call))
            second = await ends.asked()
            for asked, who in ((first, "mallory_1"), (second, "ada_quist_1001")):
                await ends.serve(wire.result(asked.id, {"content": [{"type": "text", "text": who}]}))
            assert (await ends.hear()).result["content"][0]["text"] == "ada_quist_1001"
            await ends.say(wire.request(2, "resources/read", {"uri": wire.LEDGER}))
            ledger = (await ends.hear()).result["contents"][0]["text"]
            assert "ada_quist_1001" in ledger
            assert "mallory" not in ledger

    asyncio.run(work())


def test_a_list_that_changed_is_read_again_before_the_next_call(gate: Gate, retail_domain: Domain) -> None:
    call = {"name": "find_user_id_by_email", "arguments": {"email": "a@b.example"}}

    async def work() -> None:
        async with raw(gate) as ends:
            await ends.begin()
            await ends.say(wire.request(1, "tools/call", call))
            await ends.list(retail_domain)
            first = await ends.asked()
            assert first.method == "tools/call"
            await ends.serve(wire.result(first.id, {"content": []}))
            await ends.hear()
            changed = JSONRPCNotification(jsonrpc="2.0", method="notifications/tools/list_changed")
            await ends.serve(changed)
            assert await ends.hear() == changed
            await ends.say(wire.request(2, "tools/call", call))
            listing = await ends.asked()
            assert listing.method == "tools/list"
            await ends.serve(wire.result(listing.id, {"tools": []}))
            answer = await ends.hear()
            assert answer.result["isError"]
            assert "the server does not offer it" in answer.result["content"][0]["text"]

    asyncio.run(work())


def test_an_id_that_is_under_way_cannot_be_used_again(gate: Gate) -> None:
    async def work() -> None:
        async with raw(gate) as ends:
            await ends.begin()
            await ends.say(wire.request(5, "vendor/ask", {}))
            await ends.say(wire.request("5", "vendor/ask", {}))
            refused = await ends.hear()
            assert isinstance(refused, JSONRPCError)
            assert (refused.id, refused.error.message) == ("5", "a request with this id is under way")

    asyncio.run(work())


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (wire.request(1, "tools/call", {"name": READ}), "begin a session with `initialize`"),
        (wire.request(1, "server/discover", {}), "a request without a session has no ledger"),
        (
            wire.request(1, "tools/call", {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}),
            "a request without a session has no ledger",
        ),
    ],
)
def test_a_request_of_no_session_is_refused(gate: Gate, request_: JSONRPCRequest, said: str) -> None:
    async def work() -> None:
        async with raw(gate) as ends:
            await ends.say(request_)
            refused = await ends.hear()
            assert isinstance(refused, JSONRPCError)
            assert said in refused.error.message

    asyncio.run(work())


def test_a_client_that_would_do_without_sessions_is_told_which_versions_have_them(
    gate: Gate, everything: Everything
) -> None:
    async def work() -> None:
        through_proxy = Through(service(gate, in_memory(everything.server())))
        async with Client(through_proxy, mode="auto") as client:
            assert client.session.protocol_version == "2025-11-25"
        async with Client(Through(service(gate, in_memory(everything.server()))), mode="2026-07-28") as client:
            with pytest.raises(MCPError, match="has no ledger"):
                await client.list_tools()

    asyncio.run(work())


# The ledger ------------------------------------------------------------------------------------------------------


def test_the_ledger_is_a_resource_even_of_a_server_that_has_none(gate: Gate, everything: Everything) -> None:
    async def tool(_: Any) -> str:
        return "ada_quist_1001"

    everything.tool = tool

    async def work() -> None:
        updates: list[str] = []
        updated = anyio.Event()

        async def heard(message: Any) -> None:
            if isinstance(message, types.ResourceUpdatedNotification):
                updates.append(str(message.params.uri))
                updated.set()

        async with through(gate, everything.bare(), message_handler=heard) as client:
            assert [one.uri for one in (await client.list_resources()).resources] == [wire.LEDGER]
            assert (await client.list_resource_templates()).resource_templates == []
            with pytest.raises(MCPError):
                await client.read_resource("shop://a")
            await client.session.subscribe_resource(wire.LEDGER)
            assert "Nothing has been read yet" in await ledger(client)
            await client.call_tool("find_user_id_by_email", {"email": five.EMAIL})
            with anyio.fail_after(30):
                await updated.wait()
            assert updates == [wire.LEDGER]
            assert 'auth.user_id = "ada_quist_1001"' in await ledger(client)

    asyncio.run(work())


async def ledger(client: Client) -> str:
    content = (await client.read_resource(wire.LEDGER)).contents[0]
    assert isinstance(content, types.TextResourceContents)
    return content.text


def test_a_servers_own_resource_of_that_name_is_not_to_be_had(gate: Gate, everything: Everything) -> None:
    async def work() -> None:
        async with through(gate, everything.server()) as client:
            assert "from the shop" not in await ledger(client)
            await client.session.subscribe_resource(wire.LEDGER)
            await client.session.subscribe_resource("shop://a")
        assert everything.seen == [("subscription", "shop://a")]

    asyncio.run(work())


def test_what_was_read_as_a_resource_is_nobodys_own_knowledge(
    gate: Gate, everything: Everything, retail_domain: Domain
) -> None:
    async def leak(_: Any, params: Any) -> types.ReadResourceResult:
        return types.ReadResourceResult(contents=[types.TextResourceContents(uri=params.uri, text=five.EMAIL)])

    async def tool(_: Any) -> str:
        return "ada_quist_1001"

    everything.tool = tool

    async def work(read_first: bool) -> str:
        server = everything.bare(on_list_resources=everything._resources, on_read_resource=leak)
        async with through(gate, server) as client:
            if read_first:
                await client.read_resource("shop://a")
            await called(client, *five.FIND)
            return await ledger(client)

    assert 'auth.user_id = "ada_quist_1001"' in asyncio.run(work(False))
    assert "proves nothing" in asyncio.run(work(True))
