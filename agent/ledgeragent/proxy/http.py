"""Clients over streamable HTTP: each session has a transport, a principal, a ledger and a connection of its own.

A session's id is made here, and is worth nothing without the credential it was made for. Requests that belong to no
session are refused, whatever version of the protocol they speak: they would have no ledger.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import anyio
from anyio.abc import TaskGroup, TaskStatus
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser, BearerAuthBackend, RequireAuthMiddleware
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER, StreamableHTTPServerTransport
from mcp.server.transport_security import (
    RequestBodyLimitMiddleware,
    TransportSecurityMiddleware,
    TransportSecuritySettings,
)
from mcp.types import INVALID_REQUEST
from mcp.types.jsonrpc import JSONRPCError
from mcp.types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ledgeragent.errors import BadInput
from ledgeragent.jsonio import parse
from ledgeragent.proxy import wire
from ledgeragent.proxy.service import Service

PATH: Final = "/mcp"
_log = logging.getLogger(__name__)
_VERSION: Final = "mcp-protocol-version"
_NO_SESSION: Final = "begin a session with `initialize`, and name it in every request: without one there is no ledger"


class Tokens:
    """Who may come in: bearer tokens, known by their SHA-256 alone."""

    def __init__(self, principals: Mapping[str, str]) -> None:
        """Know tokens.

        Args:
            principals: SHA-256 of a token in hexadecimal → the principal's id.
        """
        self._principals = dict(principals)

    @classmethod
    def read(cls, path: Path) -> Tokens:
        """Read the file.

        Raises:
            BadInput: when it is not an object from SHA-256 digests to principals' ids.
        """
        try:
            found = parse(path.read_text(encoding="utf-8"), what=str(path))
        except (OSError, UnicodeError) as error:
            raise BadInput(f"{path} cannot be read: {error}") from None
        if not isinstance(found, dict) or not found or not all(_is_entry(*one) for one in found.items()):
            raise BadInput(f'{path} must be a JSON object, each entry "SHA-256 of a token in hexadecimal": "principal"')
        return cls(found)

    async def verify_token(self, token: str) -> AccessToken | None:
        """Whose token it is, as the protocol's package asks."""
        who = self._principals.get(hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest())
        return AccessToken(token="", client_id=who, subject=who, scopes=[]) if who is not None else None


def _is_entry(digest: str, principal: Any) -> bool:
    hexadecimal = len(digest) == 64 and all(char in "0123456789abcdef" for char in digest)
    return hexadecimal and isinstance(principal, str) and bool(principal)


@dataclass(frozen=True)
class _Open:
    transport: StreamableHTTPServerTransport
    principal: str | None


class Sessions:
    """The sessions of one listening proxy, as an ASGI application."""

    def __init__(self, service: Service, security: TransportSecuritySettings) -> None:
        """Serve nobody yet; inside `running` it does.

        Args:
            service: opens the sessions.
            security: which Host and Origin headers are taken.
        """
        self._service = service
        self._settings = security
        self._security = TransportSecurityMiddleware(security)
        self._open: dict[str, _Open] = {}
        self._tasks: TaskGroup | None = None

    def __len__(self) -> int:
        return len(self._open)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """While this lasts, sessions can be opened; at its end all are closed."""
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            try:
                yield
            finally:
                self._tasks = None
                tasks.cancel_scope.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request."""
        request = Request(scope, receive)
        refused = await self._security.validate_request(request, is_post=request.method == "POST")
        version = request.headers.get(_VERSION)
        if refused is None and version is not None and version not in HANDSHAKE_PROTOCOL_VERSIONS:
            refused = _refusal(wire.stateless(None, version[:40]), 400)
        if refused is not None:
            await refused(scope, receive, send)
            return
        user = scope.get("user")
        principal = user.username if isinstance(user, AuthenticatedUser) else None
        name = request.headers.get(MCP_SESSION_ID_HEADER)
        if name is None:
            await self._begin(principal, scope, receive, send)
            return
        held = self._open.get(name)
        if held is None or held.principal != principal:  # another's session is no session
            await _refusal(wire.error(None, INVALID_REQUEST, "there is no such session"), 404)(scope, receive, send)
            return
        if request.method == "DELETE":  # forgotten before anybody hears that it is
            del self._open[name]
        await held.transport.handle_request(scope, receive, send)

    async def _begin(self, principal: str | None, scope: Scope, receive: Receive, send: Send) -> None:
        body, again = await _read(receive)
        problem: Response | None = None
        if scope["method"] != "POST" or not _initializes(body):
            problem = _refusal(wire.error(None, INVALID_REQUEST, _NO_SESSION), 400)
        elif self._tasks is None or len(self._open) >= self._service.limits.max_sessions:
            problem = _refusal(wire.error(None, INVALID_REQUEST, "too many sessions are open"), 503)
        if problem is not None:
            await problem(scope, again, send)
            return
        name = uuid4().hex
        transport = StreamableHTTPServerTransport(
            mcp_session_id=name, security_settings=self._settings, idle_timeout=self._service.limits.idle
        )
        self._open[name] = _Open(transport, principal)
        begun = False

        async def watched(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = message["status"] < 400
                if not begun:  # forgotten before anybody hears that there is none
                    await self._forget(name)
            await send(message)

        try:
            assert self._tasks is not None
            await self._tasks.start(self._serve, name)
            await transport.handle_request(scope, again, watched)
        finally:
            if not begun:
                await self._forget(name)

    async def _serve(self, name: str, *, task_status: TaskStatus[None]) -> None:
        held = self._open[name]
        try:
            async with held.transport.connect() as streams:
                task_status.started()
                with held.transport.idle_scope or anyio.CancelScope():
                    await self._service.serve(streams, held.principal)
        except Exception:  # noqa: BLE001 - one session's failure is none of the others'
            _log.exception("a session failed")
        finally:
            await self._forget(name)

    async def _forget(self, name: str) -> None:
        held = self._open.pop(name, None)
        if held is not None and not held.transport.is_terminated:
            with anyio.CancelScope(shield=True):
                await held.transport.terminate()


def application(service: Service, *, hosts: Sequence[str], tokens: Tokens | None) -> tuple[Starlette, Sessions]:
    """The proxy as an application for any ASGI server.

    Args:
        service: opens the sessions.
        hosts: names under which clients may address it, with `:*` for any port.
        tokens: who may come in; None for everybody that reaches it.
    """
    origins = [f"{scheme}://{host}" for host in hosts for scheme in ("http", "https")]
    sessions = Sessions(service, TransportSecuritySettings(allowed_hosts=list(hosts), allowed_origins=origins))
    endpoint: ASGIApp = RequestBodyLimitMiddleware(sessions, service.limits.max_message)
    middleware: list[Middleware] = []
    if tokens is not None:
        endpoint = RequireAuthMiddleware(endpoint, [])
        middleware.append(Middleware(AuthenticationMiddleware, backend=BearerAuthBackend(tokens)))

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with sessions.running():
            yield

    return Starlette(routes=[Route(PATH, endpoint=endpoint)], middleware=middleware, lifespan=lifespan), sessions


async def _read(receive: Receive) -> tuple[bytes, Receive]:
    """The body of a request (its size was checked), and the request from its beginning again."""
    body, messages = b"", []
    while True:
        message = await receive()
        messages.append(message)
        body += message.get("body", b"")
        if message["type"] != "http.request" or not message.get("more_body", False):
            break

    async def again() -> Message:
        return messages.pop(0) if messages else await receive()

    return body, again


def _initializes(body: bytes) -> bool:
    try:
        message = json.loads(body)
    except ValueError:
        return False
    return isinstance(message, dict) and message.get("method") == "initialize" and "id" in message


def _refusal(body: JSONRPCError, status: int) -> Response:
    text = body.model_dump_json(by_alias=True, exclude_unset=True)
    return Response(text, status_code=status, media_type="application/json")
