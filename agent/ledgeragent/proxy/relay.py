"""One connection: a client's messages to a server and back, with the calls of tools taken out and given to the guard.

Everything else goes through as it is, in both directions and in order: lists, prompts, resources, completion,
progress, logging, cancellation, sampling, elicitation, roots, and whatever is unknown here. Requests get ids of the
proxy's own on their way to the server, never used twice, so that no late or made-up answer is taken for another's.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import anyio
from anyio.abc import TaskGroup
from mcp.shared.message import ClientMessageMetadata, ServerMessageMetadata, SessionMessage
from mcp.types import (
    CONNECTION_CLOSED,
    INVALID_PARAMS,
    INVALID_REQUEST,
    PARSE_ERROR,
    PROTOCOL_VERSION_META_KEY,
)
from mcp.types.jsonrpc import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse
from mcp.types.version import HANDSHAKE_PROTOCOL_VERSIONS

from ledgeragent.proxy import resource, wire
from ledgeragent.proxy.guard import Guard, Rejection, Running

_log = logging.getLogger(__name__)
_MAX_UNDER_WAY: Final = 256
_MAX_PAGES: Final = 100
_LAST_SECONDS: Final = 5
_GONE: Final = "the server ended the connection; what was under way may have been carried out"
_NOTIFICATIONS: Final = "notifications/"
_HEADER: Final = "mcp-protocol-version"
_BEFORE_SESSION: Final = frozenset(("initialize", "ping"))
_NOT_SHOWN: Final = frozenset(("initialize", "ping", "tools/list", "logging/setLevel"))
_MAY_HAVE_RUN: Final = "{tool} gave no definite answer and may have been carried out. Check before you go on."

Wait = Callable[[wire.Answer | None], None]
Side = Literal["client", "server"]


@dataclass
class _Asked:
    """A request of the client's that is under way."""

    id: wire.Id
    method: str
    params: Mapping[str, Any]
    metadata: Any
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    sent: int | None = None


class _Awaited:
    """An answer that a task of the proxy waits for; None when the connection broke."""

    def __init__(self) -> None:
        self.answer: wire.Answer | None = None
        self.there = anyio.Event()

    def take(self, answer: wire.Answer | None) -> None:
        self.answer = answer
        self.there.set()


class Relay:
    """Passes the messages of one connection until either side ends it."""

    def __init__(
        self,
        guard: Guard,
        client: tuple[wire.Reader, wire.Writer],
        server: tuple[wire.Reader, wire.Writer],
        *,
        timeout: float,
    ) -> None:
        """Stand between a client and a server.

        Args:
            guard: the connection's own.
            client: where the client's messages come from and go to.
            server: the same for the server.
            timeout: seconds a tool may take, after which its call is given up; a write then counts as uncertain.
        """
        self._guard = guard
        self._from_client, self._to_client = client
        self._from_server, self._to_server = server
        self._timeout = timeout
        self._under_way: dict[str, _Asked] = {}
        self._waiting: dict[str, tuple[_Asked | None, Wait | None]] = {}
        self._server_asked: set[str] = set()
        self._number = 0
        self._headers: dict[str, str] | None = None
        self._begun: str | None = None
        self._has_resources = False
        self._list_change = 0
        self._list_known: int | None = None
        self._listing = anyio.Lock()
        self._subscribed = False
        self._gone: anyio.Event | None = None

    async def run(self) -> Side:
        """Pass messages.

        Returns:
            Which side ended the connection: `client` or `server`.
        """
        ended: list[Side] = []
        try:
            async with anyio.create_task_group() as tasks:

                async def pump(side: Side, one: wire.Reader, take: Callable[[Any], Awaitable[None]]) -> None:
                    await _each(one, take)
                    ended.append(side)
                    if side == "server":
                        await self._server_is_gone()
                    tasks.cancel_scope.cancel()

                tasks.start_soon(pump, "client", self._from_client, lambda one: self._of_client(one, tasks))
                tasks.start_soon(pump, "server", self._from_server, self._of_server)
        finally:
            with anyio.CancelScope(shield=True):
                with anyio.move_on_after(_LAST_SECONDS):  # whoever still listens is not left waiting
                    await self._give_up()
                await self._guard.close()
        return ended[0] if ended else "client"

    async def _server_is_gone(self) -> None:
        """Everything under way gets an answer: what was not sent yet does not begin, what was may have run."""
        self._gone = anyio.Event()
        for asked in list(self._under_way.values()):
            _, wait = self._waiting.get(str(asked.sent), (None, None))
            if wait is not None:
                wait(None)
            else:
                await self._answer(asked, wire.error(asked.id, CONNECTION_CLOSED, _GONE))
                asked.scope.cancel()
        if self._under_way:
            with anyio.move_on_after(_LAST_SECONDS):
                await self._gone.wait()

    async def _give_up(self) -> None:
        for asked in list(self._under_way.values()):
            await self._answer(asked, wire.error(asked.id, CONNECTION_CLOSED, _GONE))

    # From the client --------------------------------------------------------------------------------------------

    async def _of_client(self, item: SessionMessage | Exception, tasks: TaskGroup) -> None:
        if isinstance(item, Exception):
            await self._say(wire.error(None, PARSE_ERROR, "this is no message of the protocol"))
            return
        message = item.message
        if isinstance(message, JSONRPCRequest):
            await self._request(message, item.metadata, tasks)
        elif isinstance(message, JSONRPCNotification):
            await self._told_by_client(message)
        elif message.id is not None and str(message.id) in self._server_asked:
            self._server_asked.discard(str(message.id))
            await self._pass_on(message)

    async def _request(self, message: JSONRPCRequest, metadata: Any, tasks: TaskGroup) -> None:
        asked = _Asked(message.id, message.method, message.params or {}, metadata)
        problem = self._refused(message)
        if problem is not None:
            await self._say(problem, message.id)
            return
        self._under_way[str(message.id)] = asked
        if message.method == "tools/call":
            tasks.start_soon(self._call, asked)
        elif message.params is not None and message.params.get("uri") == wire.LEDGER:
            tasks.start_soon(self._of_ledger, asked)
        elif message.method.startswith("resources/") and not self._has_resources:
            await self._answer(asked, resource.alone(asked.id, message.method))
        else:
            if message.method == "initialize":
                self._begun = ""
            await self._send(message.method, message.params, asked=asked)

    def _refused(self, message: JSONRPCRequest) -> JSONRPCError | None:
        """What is wrong with a request that goes nowhere."""
        meta = (message.params or {}).get("_meta")
        if message.method == "server/discover" or (isinstance(meta, Mapping) and PROTOCOL_VERSION_META_KEY in meta):
            version = meta.get(PROTOCOL_VERSION_META_KEY) if isinstance(meta, Mapping) else None
            return wire.stateless(message.id, str(version)[:40])
        if str(message.id) in self._under_way:
            return wire.error(message.id, INVALID_REQUEST, "a request with this id is under way")
        if (message.method == "initialize") == (self._begun is not None) and message.method != "ping":
            what = "this session has begun" if self._begun is not None else "begin a session with `initialize`"
            return wire.error(message.id, INVALID_REQUEST, what)
        if len(self._under_way) >= _MAX_UNDER_WAY:
            return wire.error(message.id, INVALID_REQUEST, f"more than {_MAX_UNDER_WAY} requests are under way")
        return None

    async def _told_by_client(self, message: JSONRPCNotification) -> None:
        if not message.method.startswith(_NOTIFICATIONS):
            # A server that takes it for a request would carry it out unseen: a call, say.
            _log.warning("a message of the client's without an id that is no notification goes nowhere")
            return
        if message.method != "notifications/cancelled":
            await self._pass_on(message)
            return
        asked = self._under_way.get(str((message.params or {}).get("requestId")))
        if asked is None:
            return
        if asked.sent is not None:
            params = {**(message.params or {}), "requestId": asked.sent}
            await self._pass_on(wire.notification(message.method, params))
            self._waiting.pop(str(asked.sent), None)
        del self._under_way[str(asked.id)]
        asked.scope.cancel()
        ended = getattr(asked.metadata, "on_request_unanswered", None)
        if ended is not None:  # over HTTP the request's stream ends only so
            await ended()

    async def _send(
        self, method: str, params: Mapping[str, Any] | None, *, asked: _Asked | None = None, wait: Wait | None = None
    ) -> str:
        """Send a request to the server under an id of our own."""
        self._number += 1
        if asked is not None:
            asked.sent = self._number
        self._waiting[str(self._number)] = (asked, wait)
        number = self._number
        await self._pass_on(wire.request(number, method, params))
        return str(number)

    async def _pass_on(self, message: wire.Message) -> None:
        metadata = ClientMessageMetadata(headers=self._headers) if self._headers is not None else None
        try:
            await self._to_server.send(SessionMessage(message, metadata))
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            _log.debug("the server is gone")

    # From the server --------------------------------------------------------------------------------------------

    async def _of_server(self, item: SessionMessage | Exception) -> None:
        if isinstance(item, Exception):
            _log.warning("what the server sent is no message of the protocol: %s", type(item).__name__)
            return
        message = item.message
        if isinstance(message, JSONRPCRequest):
            self._server_asked.add(str(message.id))
            await self._guard.shown(message.params)
            await self._say(message, self._latest())
        elif isinstance(message, JSONRPCNotification):
            await self._told_by_server(message)
        else:
            await self._answered(message)

    async def _told_by_server(self, message: JSONRPCNotification) -> None:
        params = message.params or {}
        if message.method == "notifications/tools/list_changed":
            self._list_change += 1
        elif message.method == "notifications/cancelled":
            self._server_asked.discard(str(params.get("requestId")))
        elif message.method == "notifications/resources/updated" and params.get("uri") == wire.LEDGER:
            return
        await self._say(message, self._of_token(params.get("progressToken")) or self._latest())

    def _of_token(self, token: Any) -> wire.Id | None:
        for asked in self._under_way.values() if token is not None else ():
            meta = asked.params.get("_meta")
            if isinstance(meta, Mapping) and meta.get("progressToken") == token:
                return asked.id
        return None

    def _latest(self) -> wire.Id | None:
        """The request that was begun last: over HTTP its stream is where the client surely listens."""
        return next(reversed(self._under_way.values())).id if self._under_way else None

    async def _answered(self, answer: wire.Answer) -> None:
        asked, wait = self._waiting.pop(str(answer.id), (None, None))
        if wait is not None:
            wait(answer)
        elif asked is not None:
            if isinstance(answer, JSONRPCResponse):
                answer = await self._taken(asked, answer)
            elif asked.method == "initialize":
                self._begun = None
            else:
                await self._guard.shown(answer.model_dump(mode="json"))
            await self._answer(asked, answer)

    async def _taken(self, asked: _Asked, answer: JSONRPCResponse) -> wire.Answer:
        """What of an answer concerns the proxy itself."""
        if asked.method == "initialize":
            return self._initialized(answer)
        if asked.method == "tools/list":
            self._tell(self._guard.tools.shown(wire.listed(answer, "tools")))
        if asked.method not in _NOT_SHOWN:
            await self._guard.shown(answer.result)
        if asked.method == "resources/list":
            return resource.beside(answer, first=not asked.params.get("cursor"))
        return answer

    def _initialized(self, answer: JSONRPCResponse) -> wire.Answer:
        version = answer.result.get("protocolVersion")
        if version not in HANDSHAKE_PROTOCOL_VERSIONS:
            what = f"the server speaks {str(version)[:40]}, which has no sessions or is not known here"
            return wire.error(answer.id, INVALID_REQUEST, what)
        self._begun, self._headers = version, {_HEADER: version}
        self._has_resources = resource.has(answer)
        return resource.offered(answer)

    async def _answer(self, asked: _Asked, answer: wire.Answer) -> None:
        if self._under_way.get(str(asked.id)) is asked:  # else it was cancelled: no answer is due
            await self._say(wire.answered(answer, asked.id))
            self._under_way.pop(str(asked.id), None)
        if self._gone is not None and not self._under_way:
            self._gone.set()

    async def _say(self, message: wire.Message, related: wire.Id | None = None) -> None:
        """Tell the client; over HTTP on the stream of the request it belongs to."""
        metadata = ServerMessageMetadata(related_request_id=related) if related is not None else None
        try:
            await self._to_client.send(SessionMessage(message, metadata))
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            _log.debug("the client is gone")

    def _tell(self, news: list[str]) -> None:
        for line in news:
            _log.error("%s", line)

    # Calls of tools ---------------------------------------------------------------------------------------------

    async def _call(self, asked: _Asked) -> None:
        with asked.scope:
            tool, arguments = asked.params.get("name"), asked.params.get("arguments")
            if not isinstance(tool, str) or not tool or not isinstance(arguments, Mapping | None):
                await self._answer(asked, wire.error(asked.id, INVALID_PARAMS, "a call needs a name, and an object"))
                return
            before = await self._digest()
            await self._know_tools()
            run = self._read if self._guard.reads(tool) else self._write
            await self._answer(asked, await run(asked, tool, dict(arguments or {})))
            if before != await self._digest():
                await self._say(wire.notification("notifications/resources/updated", {"uri": wire.LEDGER}))

    async def _read(self, asked: _Asked, tool: str, arguments: dict[str, Any]) -> wire.Answer:
        issued = await self._guard.issue(tool, arguments)
        answer: wire.Answer | None = None
        try:
            answer = await self._ask(asked, asked.params)
        finally:
            with anyio.CancelScope(shield=True):
                await self._observed(issued, tool, answer)
        return answer or wire.error(asked.id, CONNECTION_CLOSED, f"{tool} gave no answer")

    async def _observed(self, issued: str | None, tool: str, answer: wire.Answer | None) -> None:
        if not isinstance(answer, JSONRPCResponse) or not wire.is_tool_result(answer):
            await self._guard.observe(issued, "", failed=True, beside=answer and answer.model_dump(mode="json"))
            return
        text = wire.returned(answer.result, as_json=self._guard.as_json(tool))
        failed = bool(answer.result.get("isError"))
        await self._guard.observe(issued, text, failed=failed, beside=answer.result)

    async def _write(self, asked: _Asked, tool: str, arguments: dict[str, Any]) -> wire.Answer:
        async with self._guard.write(tool, arguments) as admitted:
            if isinstance(admitted, Rejection):
                return wire.rejection(asked.id, admitted.text, admitted.about)
            answer = await self._ask(asked, {**asked.params, "arguments": admitted.arguments})
            return await self._outcome(asked, tool, admitted, answer)

    async def _outcome(self, asked: _Asked, tool: str, admitted: Running, answer: wire.Answer | None) -> wire.Answer:
        """A write is `executed` when its tool says so, else uncertain: MCP has no word for "nothing was changed"."""
        text = _MAY_HAVE_RUN.format(tool=tool)
        if answer is None:
            return wire.rejection(asked.id, text, {"outcome": "uncertain"})
        await self._guard.shown(answer.model_dump(mode="json"))
        if not isinstance(answer, JSONRPCResponse) or not wire.is_tool_result(answer):
            return answer
        admitted.content = wire.returned(answer.result, as_json=True)
        if answer.result.get("isError"):
            return wire.doubtful(answer, text)
        admitted.outcome = "executed"
        return answer

    async def _ask(self, asked: _Asked, params: Mapping[str, Any]) -> wire.Answer | None:
        """Send a call to the server and wait; None when its time is over or the connection broke."""
        if self._gone is not None:
            return None
        awaited = _Awaited()
        number = await self._send("tools/call", params, asked=asked, wait=awaited.take)
        try:
            with anyio.move_on_after(self._timeout):
                await awaited.there.wait()
                return awaited.answer
        finally:
            self._waiting.pop(number, None)
        await self._pass_on(
            wire.notification("notifications/cancelled", {"requestId": asked.sent, "reason": "time-out"})
        )
        return None

    async def _know_tools(self) -> None:
        """Have the server's list of tools as it is since its last change."""
        async with self._listing:
            if self._list_known == self._list_change:
                return
            change = self._list_change
            tools = await self._whole_list()
            self._tell(self._guard.tools.offered(tools or ()))
            self._list_known = change if tools is not None else None

    async def _whole_list(self) -> list[Any] | None:
        tools: list[Any] = []
        params: dict[str, Any] | None = None
        for _ in range(_MAX_PAGES):
            awaited = _Awaited()
            number = await self._send("tools/list", params, wait=awaited.take)
            try:
                with anyio.move_on_after(self._timeout):
                    await awaited.there.wait()
            finally:
                self._waiting.pop(number, None)
            if not isinstance(awaited.answer, JSONRPCResponse):
                break
            tools += wire.listed(awaited.answer, "tools")
            params = {"cursor": awaited.answer.result.get("nextCursor")}
            if not params["cursor"]:
                return tools
        _log.error("the server's list of tools cannot be read to its end: until it can, every call is blocked")
        return None

    # The ledger as a resource -----------------------------------------------------------------------------------

    async def _of_ledger(self, asked: _Asked) -> None:
        if asked.method == "resources/read":
            await self._answer(asked, resource.read(asked.id, await self._guard.ledger_text()))
        elif asked.method in ("resources/subscribe", "resources/unsubscribe"):
            self._subscribed = asked.method == "resources/subscribe"
            await self._answer(asked, wire.result(asked.id, {}))
        else:
            await self._send(asked.method, asked.params, asked=asked)

    async def _digest(self) -> str:
        return await self._guard.digest() if self._subscribed else ""


async def _each(reader: wire.Reader, take: Callable[[Any], Awaitable[None]]) -> None:
    """Everything a side says, until it ends the connection."""
    while True:
        try:
            item = await reader.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
            return
        await take(item)
