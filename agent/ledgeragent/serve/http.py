"""The sidecar's HTTP side: one route per operation, the token, the limits, and an orderly end.

Whatever goes wrong is answered as JSON with a code of `refusals.CODES` and another status than 200 or 201.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import logging
import re
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final

from aiohttp import web
from opentelemetry import context, propagate

from ledgeragent.errors import BadInput
from ledgeragent.jsonio import canonical, parse
from ledgeragent.serve.bodies import ErrorShown, Refused
from ledgeragent.serve.desk import Asked, Desk
from ledgeragent.serve.openapi import document
from ledgeragent.serve.operations import LEDGER, OPERATIONS, SHOW
from ledgeragent.serve.refusals import Refusal, refusal_of

TOKEN_VARIABLE: Final = "LEDGERAGENT_SERVE_TOKEN"
MIN_TOKEN: Final = 16
"""Shortest token that is taken, in characters."""
MAX_BODY: Final = 4_000_000
"""Largest request, in bytes."""
READ_SECONDS: Final = 30.0
"""How long a client may take to send its request's body."""
DRAIN_SECONDS: Final = 20.0
"""How long the outcomes of started writes are waited for when the sidecar stops."""
VERSION_HEADER: Final = "Ledgeragent-Version"
KEY_HEADER: Final = "Idempotency-Key"

_MAX_HEADER: Final = 200
_EXPIRE_SECONDS: Final = 5.0
_TOKEN: Final = re.compile(r"[\x21-\x7e]+")
_log = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address (a name other than localhost is not looked up)."""
    if host.casefold() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def checked_token(token: str | None, host: str) -> str | None:
    """The token that clients must show.

    Args:
        token: as it was given, or None.
        host: the address to listen on.

    Raises:
        BadInput: it is too short or no token, or there is none and others than this machine can reach the address.
    """
    if token is None:
        if not is_loopback(host):
            raise BadInput(
                f"{host} can be reached from other machines: set {TOKEN_VARIABLE} or --token-file, or use 127.0.0.1"
            )
        return None
    if len(token) < MIN_TOKEN or not _TOKEN.fullmatch(token):
        raise BadInput(f"the sidecar's token must be at least {MIN_TOKEN} printable ASCII characters without spaces")
    return token


class Server:
    """The application over a desk."""

    def __init__(self, desk: Desk, *, token: str | None) -> None:
        """Serve nothing yet.

        Args:
            desk: does what is asked.
            token: what clients have to show; None only on loopback, see `checked_token`.
        """
        self._desk = desk
        self._bearer = f"Bearer {token}".encode() if token is not None else None
        self._openapi = canonical(document())

    def app(self) -> web.Application:
        """The application, for a runner or a test."""
        app = web.Application(client_max_size=MAX_BODY, middlewares=[self._answered])
        app.router.add_get("/health", self._health)
        app.router.add_get("/ready", self._ready)
        app.router.add_get("/openapi.json", self._described)
        app.router.add_post("/v1/sessions", self._guarded(self._open))
        app.router.add_get("/v1/sessions/{session}", self._guarded(self._show))
        app.router.add_delete("/v1/sessions/{session}", self._guarded(self._end))
        app.router.add_get("/v1/sessions/{session}/ledger", self._guarded(self._ledger))
        for name in OPERATIONS:
            app.router.add_post(f"/v1/sessions/{{session}}/{name}", self._guarded(self._do))
        return app

    @web.middleware
    async def _answered(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Whatever happens, the answer is JSON, and no cache keeps it."""
        try:
            response = await handler(request)
        except web.HTTPException as error:
            response = _refused(_refusal_of_http(error))
        except Exception as error:  # noqa: BLE001 - nothing but a refusal may come of it
            response = _refused(refusal_of(error))
        response.headers["Cache-Control"] = "no-store"
        response.headers["X-Content-Type-Options"] = "nosniff"
        return response

    def _guarded(self, handler: Handler) -> Handler:
        async def guarded(request: web.Request) -> web.StreamResponse:
            self._check_caller(request)
            with _traced(request):
                return await handler(request)

        return guarded

    def _check_caller(self, request: web.Request) -> None:
        if self._bearer is None:
            # A page in this machine's browser can be made to ask us, but under a name of its own.
            if not is_loopback(_host_of(request)):
                raise Refusal("request.host", "without a token only requests to localhost are served")
            return
        shown = request.headers.get("Authorization", "").encode("utf-8", "surrogateescape")
        if not hmac.compare_digest(shown, self._bearer):
            raise Refusal("request.token", "the bearer token is missing or another")

    # Routes -----------------------------------------------------------------------------------------------------

    async def _health(self, _: web.Request) -> web.Response:
        return _json(self._desk.alive())

    async def _ready(self, _: web.Request) -> web.Response:
        ready, text = await self._desk.ready()
        return _json(text, 200 if ready else 503)

    async def _described(self, _: web.Request) -> web.Response:
        return _json(self._openapi)

    async def _open(self, request: web.Request) -> web.Response:
        return _json(await self._desk.open(await _asked(request)), 201)

    async def _show(self, request: web.Request) -> web.Response:
        return _json(await self._desk.do(request.match_info["session"], SHOW, _about(request, {})))

    async def _ledger(self, request: web.Request) -> web.Response:
        return _json(await self._desk.do(request.match_info["session"], LEDGER, _about(request, {})))

    async def _end(self, request: web.Request) -> web.Response:
        return _json(await self._desk.end(request.match_info["session"], _about(request, {})))

    async def _do(self, request: web.Request) -> web.Response:
        operation = OPERATIONS[request.path.rpartition("/")[2]]
        return _json(await self._desk.do(request.match_info["session"], operation, await _asked(request)))


async def _asked(request: web.Request) -> Asked:
    if request.content_type != "application/json":  # a web page cannot send that without being allowed to
        raise Refusal("request.type", "send JSON: Content-Type: application/json")
    if request.headers.get("Content-Encoding", "identity") != "identity":
        raise Refusal("request.type", "send the request as it is, not compressed")
    try:
        async with asyncio.timeout(READ_SECONDS):
            data = await request.read()
    except TimeoutError:
        raise Refusal("request.slow", f"the request was not here whole within {READ_SECONDS:g} s") from None
    try:
        body = parse(data.decode("utf-8"), what="the request", limit=MAX_BODY)
    except UnicodeDecodeError:
        raise Refusal("request.form", "the request is not UTF-8") from None
    return _about(request, body)


def _about(request: web.Request, body: Any) -> Asked:
    def gone() -> bool:
        return request.transport is None or request.transport.is_closing()

    return Asked(body, _header(request, KEY_HEADER), _header(request, VERSION_HEADER), gone)


def _header(request: web.Request, name: str) -> str | None:
    value = request.headers.get(name)
    if value is not None and (not value or len(value) > _MAX_HEADER or not value.isascii()):
        raise Refusal("request.form", f"{name} must be 1 to {_MAX_HEADER} ASCII characters")
    return value


def _host_of(request: web.Request) -> str:
    host = request.headers.get("Host", "")
    return host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]


@contextmanager
def _traced(request: web.Request) -> Iterator[None]:
    """What is done in here belongs to the caller's trace (`traceparent`), if there is one."""
    token = context.attach(propagate.extract(request.headers))
    try:
        yield
    finally:
        context.detach(token)


def _json(text: str, status: int = 200) -> web.Response:
    return web.Response(text=text, status=status, content_type="application/json")


def _refused(refusal: Refusal) -> web.Response:
    said = Refused(error=ErrorShown(code=refusal.code, message=refusal.message))
    response = _json(canonical(said.model_dump()), refusal.status)
    if refusal.status == 503:
        response.headers["Retry-After"] = "1"
    if refusal.status == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    if refusal.code in ("request.slow", "request.size"):
        response.force_close()
    return response


def _refusal_of_http(error: web.HTTPException) -> Refusal:
    known = {404: "request.path", 405: "request.method", 413: "request.size"}
    words = {
        404: "there is nothing under this path; /openapi.json says what there is",
        405: "this path does not take this method; /openapi.json says what there is",
        413: f"the request is larger than {MAX_BODY:,} bytes",
    }
    return Refusal(known.get(error.status, "request.form"), words.get(error.status, "the request is not understood"))


# Running --------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def listening(desk: Desk, *, token: str | None, host: str, port: int) -> AsyncIterator[str]:
    """Serve a desk inside an `async with` block; gives the URL. At its end nothing new is begun.

    Raises:
        OSError: the address cannot be listened on.
    """
    runner = web.AppRunner(Server(desk, token=token).app(), access_log=None, shutdown_timeout=5.0, lingering_time=1.0)
    await runner.setup()
    expiring = asyncio.create_task(_expire(desk))
    try:
        await web.TCPSite(runner, host, port).start()
        where = runner.addresses[0]
        yield f"http://{f'[{where[0]}]' if ':' in where[0] else where[0]}:{where[1]}"
    finally:
        expiring.cancel()
        await runner.cleanup()
        await desk.close()


async def _expire(desk: Desk) -> None:
    while True:
        await asyncio.sleep(_EXPIRE_SECONDS)
        try:
            await desk.expire()
        except Exception as error:  # noqa: BLE001 - the next time may go better
            _log.error("expiring idle sessions failed: %s", type(error).__name__)


def serve(make: Callable[[], Desk], *, token: str | None, host: str, port: int, drain: float = DRAIN_SECONDS) -> None:
    """Serve until the process is told to stop (SIGTERM, SIGINT), and then to the end of what was begun.

    Args:
        make: makes the desk, on the event loop.
        token: what clients have to show.
        host: address to listen on.
        port: 0 for any; stderr says which.
        drain: how long outcomes of started writes are waited for, in seconds; a second signal ends the waiting.

    Raises:
        BadInput: there is no token and others can reach the address.
        OSError: the address cannot be listened on.
    """
    asyncio.run(_serve(make, checked_token(token, host), host, port, drain))


async def _serve(make: Callable[[], Desk], token: str | None, host: str, port: int, drain: float) -> None:
    desk, loop, signals = make(), asyncio.get_running_loop(), asyncio.Queue[None]()
    for one in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(one, signals.put_nowait, None)
    async with listening(desk, token=token, host=host, port=port) as url:
        print(f"serving on {url}", file=sys.stderr, flush=True)  # noqa: T201 - what a script waits for
        await signals.get()
        desk.stopping = True
        waiting = {asyncio.ensure_future(desk.drain(drain)), asyncio.ensure_future(signals.get())}
        _, left = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for task in left:
            task.cancel()
