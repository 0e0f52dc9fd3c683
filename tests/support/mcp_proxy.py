"""The MCP proxy between a real client and a real server: in memory, on standard input and output, over HTTP."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final

import anyio
import uvicorn
from mcp import Client, StdioServerParameters, types
from mcp.server.lowlevel import Server
from mcp.shared.memory import create_client_server_memory_streams
from starlette.types import ASGIApp

from ledgeragent.gate import Gate
from ledgeragent.proxy.service import Limits, Service
from ledgeragent.proxy.upstreams import Streams, Upstream
from ledgeragent.records import Recorder

NOW: Final = "2024-05-15T15:00:00-05:00"
TESTS: Final = Path(__file__).resolve().parent.parent
SHOP: Final = (sys.executable, "-m", "support.mcp_shop")


def environment(**more: str) -> dict[str, str]:
    """This process's, with the way to the package and to the tests."""
    paths = [str(TESTS.parent / "agent"), str(TESTS)]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **more}


def arguments(*options: str) -> list[str]:
    """What starts a proxy for the retail domain, after the interpreter."""
    return ["-m", "ledgeragent", "mcp-proxy", "--domain", "retail", "--now", NOW, *options]


def on_stdio(*options: str, **more: str) -> StdioServerParameters:
    """A proxy that a client starts."""
    return StdioServerParameters(command=sys.executable, args=arguments(*options), env=environment(**more))


@contextmanager
def listening(*options: str, says: str = "", **more: str) -> Iterator[str]:
    """A proxy that listens; gives its URL, and interrupts it at the end, which must be clean.

    Args:
        options: of the command.
        says: what it tells the operator in its first line, if anything.
        more: of its environment.
    """
    command = [sys.executable, *arguments("--listen", "127.0.0.1:0", *options)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment(**more))
    assert process.stderr is not None
    try:
        if says:
            assert says in process.stderr.readline()
        first = process.stderr.readline()
        found = re.fullmatch(r"ledgeragent: listening on (\S+)\n", first)
        assert found, first + process.stderr.read()
        yield found[1]
    finally:
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()
        process.stderr.close()
        assert (process.wait(), said) == (130, "")


@contextmanager
def served(app: ASGIApp) -> Iterator[str]:
    """An application behind a real HTTP server in this process; gives its URL without a path."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=1))
        started = threading.Event()
        server.startup = _telling(server.startup, started)  # type: ignore[method-assign]
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            assert started.wait(30)
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


def _telling(startup: Any, started: threading.Event) -> Any:
    async def told(*arguments: Any, **named: Any) -> None:
        await startup(*arguments, **named)
        started.set()

    return told


def in_memory(server: Server[Any]) -> Upstream:
    """A way to a server in this process: a connection of its own for each session."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[Streams]:
        async with create_client_server_memory_streams() as (ours, theirs), anyio.create_task_group() as tasks:
            options = server.create_initialization_options()
            tasks.start_soon(server.run, *theirs, options)
            yield ours  # type: ignore[misc]
            tasks.cancel_scope.cancel()

    return opened


def service(
    gate: Gate, upstream: Upstream, *, recorder: Recorder | None = None, limits: Limits | None = None
) -> Service:
    """A service with a fixed clock."""
    return Service(gate, upstream, lambda: NOW, recorder, limits or Limits())


class Through:
    """A transport for a real client, through a proxy in this process."""

    def __init__(self, serves: Service, principal: str | None = None) -> None:
        self._serves, self._principal = serves, principal
        self.ended: str | None = None

    async def __aenter__(self) -> Any:
        self._context = self._opened()
        return await self._context.__aenter__()

    async def __aexit__(self, *error: Any) -> bool | None:
        return await self._context.__aexit__(*error)

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[Any]:
        async with create_client_server_memory_streams() as (ours, theirs), anyio.create_task_group() as tasks:

            async def serve() -> None:
                self.ended = await self._serves.serve(theirs, self._principal)
                await theirs[1].aclose()

            tasks.start_soon(serve)
            yield ours
            await ours[1].aclose()


def text(result: types.CallToolResult) -> str:
    """What the model reads."""
    return "\n".join(block.text for block in result.content if isinstance(block, types.TextContent))


async def called(client: Client, tool: str, arguments: Mapping[str, Any]) -> str:
    """Call a tool; what the model reads."""
    return text(await client.call_tool(tool, dict(arguments)))
