"""What the proxy needs to serve a connection, whichever way it came in: a new session, a way to the server, limits."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import anyio
from mcp.shared.message import SessionMessage
from mcp.types import CONNECTION_CLOSED
from mcp.types.jsonrpc import JSONRPCRequest

from ledgeragent.contracts import Principal
from ledgeragent.gate import Gate
from ledgeragent.proxy import wire
from ledgeragent.proxy.guard import Guard
from ledgeragent.proxy.relay import Relay
from ledgeragent.proxy.upstreams import Streams, Upstream
from ledgeragent.records import Recorder
from ledgeragent.session import Session

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Limits:
    """What one proxy may use.

    Attributes:
        timeout: seconds a tool may take.
        max_message: bytes of one message of a client.
        max_sessions: sessions at a time (HTTP).
        idle: seconds without a request after which a session ends (HTTP).
    """

    timeout: float = 600
    max_message: int = 4 * 1024 * 1024
    max_sessions: int = 1000
    idle: float = 1800


@dataclass(frozen=True)
class Service:
    """Opens a session of its own for every connection.

    Attributes:
        gate: judges the writes of all of them.
        upstream: opens a connection to the server.
        clock: gives the time now, RFC 3339 with an offset.
        recorder: keeps decisions and outcomes, or None.
        limits: what it may use.
    """

    gate: Gate
    upstream: Upstream
    clock: Callable[[], str]
    recorder: Recorder | None
    limits: Limits

    async def serve(self, client: Streams, principal: str | None) -> Literal["client", "server"]:
        """Serve one connection to its end.

        Args:
            client: the client's streams.
            principal: the id of whoever was authenticated there, or None.

        Returns:
            Which side ended it.
        """
        who = Principal(id=principal, source="host") if principal is not None else None
        session = Session(self.gate, now=self.clock(), principal=who, recorder=self.recorder)
        guard = Guard(session, self.clock)
        try:
            async with self.upstream() as server:
                return await Relay(guard, client, server, timeout=self.limits.timeout).run()
        except (OSError, ExceptionGroup) as error:
            _log.error("the connection to the server failed: %s", _first(error))
            await _cannot(client)
            return "server"


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def _cannot(client: Streams) -> None:
    """Whoever begins a session now is told that there is no server."""
    reader, writer = client
    try:
        with anyio.move_on_after(1):
            item = await reader.receive()
            if isinstance(item, SessionMessage) and isinstance(item.message, JSONRPCRequest):
                text = "the server behind this proxy cannot be reached"
                await writer.send(SessionMessage(wire.error(item.message.id, CONNECTION_CLOSED, text)))
    except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
        return
