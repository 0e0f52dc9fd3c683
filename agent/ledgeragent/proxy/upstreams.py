"""The way to the server: a child process on its standard input and output, or a streamable HTTP endpoint."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final

import httpx2
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from ledgeragent.proxy import wire

Streams = tuple[wire.Reader, wire.Writer]
Upstream = Callable[[], AbstractAsyncContextManager[Streams]]
"""Opens a connection to the server; one for each session of the proxy, ended with it."""

_OURS: Final = "LEDGERAGENT_"
_CONNECT_SECONDS: Final = 30


def to_command(command: Sequence[str]) -> Upstream:
    """A server that is started for each session.

    Args:
        command: program and arguments. It gets this process's environment without what is ours alone (tokens, keys).
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}

    @asynccontextmanager
    async def opened() -> AsyncIterator[Streams]:
        parameters = StdioServerParameters(command=command[0], args=list(command[1:]), env=environment)
        async with stdio_client(parameters) as streams:
            yield streams

    return opened


def to_url(url: str, *, token: str | None, timeout: float, max_message: int) -> Upstream:
    """A server that listens.

    Args:
        url: its endpoint.
        token: the proxy's own bearer token there. What clients authenticate with is never passed on.
        timeout: seconds a tool may take.
        max_message: bytes of one message.
    """
    headers = {"Authorization": f"Bearer {token}"} if token is not None else {}
    trust = httpx2.create_ssl_context()  # once: it takes longer to read than everything else of a connection

    @asynccontextmanager
    async def opened() -> AsyncIterator[Streams]:
        limits = httpx2.Timeout(_CONNECT_SECONDS, read=timeout + _CONNECT_SECONDS)
        async with (
            httpx2.AsyncClient(headers=headers, timeout=limits, verify=trust) as client,
            streamable_http_client(url, http_client=client, max_sse_event_size=max_message) as streams,
        ):
            yield streams

    return opened
