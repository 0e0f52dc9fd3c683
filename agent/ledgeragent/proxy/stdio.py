"""The client on standard input and output, as hosts on a desk start their servers: one connection, one session."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import Final, cast

import anyio
from mcp.server.stdio import stdio_server

from ledgeragent.proxy.service import Service

_TOO_LONG: Final = "{\n"
_AHEAD: Final = 16
_LAST_SECONDS: Final = 1


class Lines:
    """Lines of a file descriptor, each at most so long; a longer one comes as a line that is no message.

    Read by a thread that no exit waits for: a client that says nothing more must not hold the process.
    """

    def __init__(self, descriptor: int, max_bytes: int) -> None:
        """Begin to read; inside a running event loop."""
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[str | None] = asyncio.Queue(_AHEAD)
        self._max = max_bytes
        threading.Thread(target=self._read, args=(descriptor,), name="ledgeragent-stdin", daemon=True).start()

    def __aiter__(self) -> Lines:
        return self

    async def __anext__(self) -> str:
        line = await self._queue.get()
        if line is None:
            raise StopAsyncIteration
        return line

    def close(self) -> None:
        """Nothing more is wanted."""
        while not self._queue.empty():
            self._queue.get_nowait()
        self._queue.put_nowait(None)

    def _read(self, descriptor: int) -> None:
        held, skipping = b"", False
        while chunk := os.read(descriptor, 65_536):
            *lines, held = (held + chunk).split(b"\n")
            for line in lines:
                if not self._put(_TOO_LONG if skipping or len(line) > self._max else line.decode("utf-8", "replace")):
                    return
                skipping = False
            if len(held) > self._max:
                held, skipping = b"", True
        self._put(None)

    def _put(self, line: str | None) -> bool:
        try:
            asyncio.run_coroutine_threadsafe(self._queue.put(line), self._loop).result()
        except (RuntimeError, asyncio.CancelledError):  # the loop has ended
            return False
        return True


async def serve_stdio(service: Service, principal: str | None) -> bool:
    """Serve the client of this process until either side ends the connection.

    Args:
        service: opens its session.
        principal: whom the host authenticated, or None.

    Returns:
        Whether the client ended it; else the server did.
    """
    lines = Lines(0, service.limits.max_message)
    ended = "client"
    with anyio.CancelScope() as scope:
        async with stdio_server(stdin=cast("anyio.AsyncFile[str]", lines)) as streams:
            ended = await service.serve(streams, principal)
            await streams[1].aclose()
            lines.close()
            scope.deadline = anyio.current_time() + _LAST_SECONDS  # what was said last is still written
    return ended == "client"
