"""`ledgeragent mcp-proxy`: a gate between any MCP client and any MCP server.

Reads options and opens what they name; passing messages and judging calls is the business of `proxy`. On standard input
and output only the protocol is spoken: whatever there is to say to people goes to stderr.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import urlsplit

import typer

from ledgeragent.cli_gates import (
    EngineOption,
    FloorOption,
    FreezeOption,
    Gates,
    OverridesOption,
    PoliciesOption,
    SchemasOption,
)
from ledgeragent.errors import BadInput, EngineError
from ledgeragent.policies import REGO, SCHEMAS, domains
from ledgeragent.records import JsonlRecorder, wall_clock

if TYPE_CHECKING:
    from ledgeragent.proxy.http import Tokens
    from ledgeragent.proxy.service import Limits, Service
    from ledgeragent.proxy.upstreams import Upstream

_log = logging.getLogger(__name__)
_SERVER_ENDED: Final = 1
_INTERRUPTED: Final = 130
_MEGABYTE: Final = 1024 * 1024


def mcp_proxy(
    domain: Annotated[
        str, typer.Option(help="A domain's name, or a folder with rego/ and schemas/.", metavar="NAME|DIR")
    ],
    command: Annotated[
        list[str] | None,
        typer.Argument(help="What starts the server, after `--`; each session has its own.", metavar="COMMAND"),
    ] = None,
    upstream: Annotated[str | None, typer.Option(help="The server's URL (streamable HTTP), for COMMAND.")] = None,
    upstream_token_env: Annotated[
        str | None, typer.Option(help="The environment variable with the proxy's own token there.", metavar="NAME")
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option(help="Serve HTTP there, at /mcp.", metavar="HOST:PORT", show_default="stdio"),
    ] = None,
    tokens: Annotated[
        Path | None, typer.Option(help="Who may come in over HTTP: JSON, SHA-256 of a token to a principal's id.")
    ] = None,
    host: Annotated[
        list[str] | None, typer.Option("--host", help="Another name that clients use for this host; repeat it.")
    ] = None,
    principal: Annotated[
        str | None, typer.Option(help="Whom you authenticated, on stdio.", show_default="nobody")
    ] = None,
    record: Annotated[
        Path | None, typer.Option(help="Append a record of every decision and outcome to this file (JSONL).")
    ] = None,
    engine: EngineOption = "auto",
    policies: PoliciesOption = REGO,
    schemas: SchemasOption = SCHEMAS,
    overrides: OverridesOption = None,
    floor: FloorOption = None,
    freeze: FreezeOption = None,
    now: Annotated[
        str | None, typer.Option(help="A fixed clock, to try things out.", show_default="the host's")
    ] = None,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds a tool may take.")] = 600,
    idle: Annotated[float, typer.Option(min=0.1, help="Seconds without a request that end a session (HTTP).")] = 1800,
    max_sessions: Annotated[int, typer.Option(min=1, help="Sessions at a time (HTTP).")] = 1000,
    max_message: Annotated[float, typer.Option(min=0.001, help="Megabytes of one message.")] = 4,
) -> None:
    """Stand between an MCP client and an MCP server: reads pass and fill a ledger, writes go through the gate.

    Exit status: 0 the client ended it, 1 the server did, 2 it could not start, 130 interrupted.
    """
    _need_mcp()
    from ledgeragent.proxy.http import Tokens
    from ledgeragent.proxy.service import Limits

    _sane(command, upstream, upstream_token_env, listen, tokens, principal)
    name, policies, schemas = _deployment(domain, policies, schemas)
    limits = Limits(timeout, int(max_message * _MEGABYTE), max_sessions, idle)
    known = Tokens.read(tokens) if tokens is not None else None
    clock: Callable[[], str] = wall_clock if now is None else lambda: now
    with ExitStack() as stack:
        stack.enter_context(_told())
        gates = stack.enter_context(Gates(engine, policies, schemas, overrides, floor, freeze))
        gate = gates.unproved(name, "--domain")
        _try(gate.prove)
        recorder = stack.enter_context(closing(JsonlRecorder(record))) if record is not None else None
        from ledgeragent.proxy.service import Service

        service = Service(gate, _upstream(command, upstream, upstream_token_env, limits), clock, recorder, limits)
        status = _run_stdio(service, principal) if listen is None else _run_http(service, listen, host or (), known)
    raise typer.Exit(status)


def _need_mcp() -> None:
    try:
        import mcp  # noqa: F401 - an extra
    except ImportError:
        raise BadInput("this needs the package `mcp`: pip install 'ledgeragent[mcp]'") from None


def _sane(
    command: Sequence[str] | None,
    upstream: str | None,
    token: str | None,
    listen: str | None,
    tokens: Path | None,
    principal: str | None,
) -> None:
    if (not command) == (upstream is None):
        raise BadInput("name one server: its COMMAND after `--`, or its URL with --upstream")
    if upstream is not None and urlsplit(upstream).scheme not in ("http", "https"):
        raise BadInput(f"--upstream {upstream}: an http or https URL is expected")
    if token is not None and (upstream is None or token not in os.environ):
        raise BadInput(f"--upstream-token-env names {token}: it must be set, and goes with --upstream")
    if listen is not None and principal is not None:
        raise BadInput("--principal is for stdio: over HTTP the clients' tokens say who they are (--tokens)")
    if listen is None and tokens is not None:
        raise BadInput("--tokens is for HTTP (--listen): on stdio say who it is with --principal")


def _deployment(domain: str, policies: Path, schemas: Path) -> tuple[str, Path, Path]:
    """(name, policies, schemas): a folder brings its own."""
    folder = Path(domain)
    if not (folder / "schemas").is_dir():
        return domain, policies, schemas
    found = domains(folder / "schemas")
    if len(found) != 1:
        known = ", ".join(found) or "none"
        raise BadInput(
            f"{folder} has {known}: name one with --domain, and the folder with --policies {folder}/rego and "
            f"--schemas {folder}/schemas"
        )
    return found[0], folder / "rego", folder / "schemas"


def _try(prove: Callable[[], object]) -> None:
    """Wrong policies stop the start; an engine that is away does not: until it is there, every write is blocked."""
    try:
        prove()
    except EngineError as problem:
        _log.error("the policy check is not available (%s): reads pass, every write is blocked", problem.code)


def _upstream(command: Sequence[str] | None, url: str | None, token: str | None, limits: Limits) -> Upstream:
    from ledgeragent.proxy.upstreams import to_command, to_url

    if url is None:
        return to_command(command or ())
    own = os.environ[token] if token is not None else None
    return to_url(url, token=own, timeout=limits.timeout, max_message=limits.max_message)


@contextmanager
def _told() -> Iterator[None]:
    """What the package says to the operator; the transports' own chatter does not belong there."""
    for noisy in ("mcp", "uvicorn", "sse_starlette", "asyncio"):
        logging.getLogger(noisy).setLevel(logging.CRITICAL)
    yield


def _run_stdio(service: Service, principal: str | None) -> int:
    from ledgeragent.proxy.stdio import serve_stdio

    try:
        ended = asyncio.run(serve_stdio(service, principal))
    except KeyboardInterrupt:
        return _INTERRUPTED
    return 0 if ended else _SERVER_ENDED


def _run_http(service: Service, listen: str, hosts: Sequence[str], tokens: Tokens | None) -> int:
    import uvicorn

    from ledgeragent.proxy.http import PATH, application

    name, bound = _bound(listen, guarded=tokens is not None)
    port = bound.getsockname()[1]
    names = ("127.0.0.1", "localhost", "[::1]", name, *hosts)
    allowed = [f"{one}{any_port}" for one in names for any_port in ("", ":*")]
    app, _ = application(service, hosts=allowed, tokens=tokens)
    config = uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=2, lifespan="on")
    with closing(bound):
        typer.echo(f"ledgeragent: listening on http://{name}:{port}{PATH}", err=True)
        try:
            uvicorn.Server(config).run(sockets=[bound])
        except KeyboardInterrupt:
            return _INTERRUPTED
    return 0


def _bound(listen: str, *, guarded: bool) -> tuple[str, socket.socket]:
    """(host as it is written in a URL, the listening socket)."""
    host, _, port = listen.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal() or int(port) > 65_535:
        raise BadInput(f"--listen {listen}: write HOST:PORT, such as 127.0.0.1:8080 (port 0: any that is free)")
    if not guarded and not _is_loopback(host):
        raise BadInput(f"--listen {listen} can be reached by others: say who may come in with --tokens FILE")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, int(port)))
        listening.listen()  # before anybody is told where: who connects at once waits in line
    except OSError as error:
        listening.close()
        raise BadInput(f"--listen {listen}: {error}") from None
    return f"[{host}]" if family == socket.AF_INET6 else host, listening


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
