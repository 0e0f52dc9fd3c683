"""A public MCP server that has one of everything, with the official client: bare, and through the proxy."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters, types

from ledgeragent.contracts import ToolsFile
from ledgeragent.domain import Domain
from ledgeragent.gate import Gate
from ledgeragent.policies import SCHEMAS
from ledgeragent.proxy import wire
from ledgeragent.proxy.upstreams import to_command
from ledgeragent.toolsource import close
from needs import need
from support.mcp_proxy import Through, service, text
from test_docs_mcp_proxy import HOW, SERVERS

pytest_plugins = ["support.fixtures"]
# What the newest protocol gives up (sampling, roots, logging) still has to pass.
pytestmark = pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")

SERVER = SERVERS / "node_modules" / ".bin" / "mcp-server-everything"


@pytest.fixture
def server() -> list[str]:
    """What starts it."""
    need(SERVER.exists() and shutil.which("node"), HOW)
    return [str(SERVER), "stdio"]


async def sample(_: Any, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
    block = types.TextContent(type="text", text="sampled here")
    return types.CreateMessageResult(role="assistant", content=block, model="none")


async def elicit(_: Any, __: Any) -> types.ElicitResult:
    return types.ElicitResult(action="decline")


async def roots(_: Any) -> types.ListRootsResult:
    return types.ListRootsResult(roots=[types.Root(uri="file:///here")])


ABOUT: dict[str, Any] = {"sampling_callback": sample, "elicitation_callback": elicit, "list_roots_callback": roots}


@asynccontextmanager
async def bare(server: list[str]) -> AsyncIterator[Client]:
    parameters = StdioServerParameters(command=server[0], args=server[1:], env=dict(os.environ))
    async with Client(parameters, mode="legacy", **ABOUT) as client:
        yield client


async def offered(client: Client) -> list[types.Tool]:
    """Its tools; it offers some only once it has asked the client for its roots."""
    with anyio.fail_after(30):
        while True:
            tools = (await client.list_tools()).tools
            if any(one.name == "get-roots-list" for one in tools):
                return tools
            await anyio.sleep(0.05)


def all_reads(tools: list[types.Tool], folder: Path) -> Domain:
    """A domain that takes every one of the tools for a read."""
    declared = [
        {
            "effect": "read",
            "name": one.name,
            "description": one.description or one.title or one.name,
            "parameters": close(one.model_dump(mode="json", by_alias=True)["inputSchema"]).parameters,
            "facts": [],
        }
        for one in tools
    ]
    about = {"contract": "ledgeragent.tools/1", "domain": "everything", "title": "Everything", "principal": "host"}
    about |= {"now": "2026-01-01T00:00:00Z", "principal_path": ["auth", "principal"]}
    ToolsFile.model_validate_json(json.dumps({**about, "tools": declared}))
    principal = {"type": "string", "pattern": "^[a-z]+$", "x-id": None}
    auth = {"type": "object", "additionalProperties": False, "properties": {"principal": principal}}
    schema = {"type": "object", "additionalProperties": False, "properties": {"auth": auth}, "$defs": {}}
    (folder / "everything").mkdir()
    (folder / "everything" / "tools.json").write_text(json.dumps({**about, "tools": declared}))
    (folder / "everything" / "ledger.schema.json").write_text(json.dumps(schema))
    return Domain.load("everything", schemas=folder, rego=None)


async def everything(client: Client, heard: list[Any]) -> dict[str, Any]:
    """What a client gets to see of it."""

    async def progress(done: float, total: float | None, _: str | None) -> None:
        heard.append((done, total))

    found: dict[str, Any] = {"tools": await offered(client), "prompts": await client.list_prompts()}
    found["templates"] = await client.list_resource_templates()
    resources = (await client.list_resources()).resources
    found["resources"] = [one for one in resources if str(one.uri) != wire.LEDGER]
    found["prompt"] = await client.get_prompt("simple-prompt")
    found["document"] = await client.read_resource(str(found["resources"][0].uri))
    for tool, arguments in (
        ("echo", {"message": "hello"}),
        ("get-sum", {"a": 2, "b": 3}),
        ("get-annotated-message", {"messageType": "error", "includeImage": True}),
        ("get-structured-content", {"location": "Chicago"}),
        ("get-tiny-image", {}),
        ("get-resource-links", {"count": 2}),
        ("get-roots-list", {}),
        ("trigger-sampling-request", {"prompt": "say", "maxTokens": 9}),
        ("trigger-elicitation-request", {}),
    ):
        found[tool] = await client.call_tool(tool, arguments)
    steps = {"duration": 0.2, "steps": 2}
    found["long"] = await client.call_tool("trigger-long-running-operation", steps, progress_callback=progress)
    return found


def test_everything_is_the_same_through_the_proxy(server: list[str], gate: Gate, tmp_path: Path) -> None:
    async def work() -> None:
        direct: list[Any] = []
        through: list[Any] = []
        async with bare(server) as client:
            expected = await everything(client, direct)
        domain = all_reads(expected["tools"], tmp_path)
        vectors = tmp_path / "vectors.json"  # some: the gate is asked about nothing here
        some = json.loads((SCHEMAS / "vectors" / "retail.json").read_text())
        vectors.write_text(json.dumps({**some, "domain": "everything"}))
        serves = service(Gate(domain, gate.engine, vectors=vectors), to_command(server))
        async with Client(Through(serves), mode="legacy", **ABOUT) as client:
            got = await everything(client, through)
        assert got == expected
        assert through == direct == [(1, 2), (2, 2)]
        assert "sampled here" in text(got["trigger-sampling-request"])
        assert "file:///here" in text(got["get-roots-list"])

    asyncio.run(work())
