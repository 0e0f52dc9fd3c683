"""`ledgeragent serve`: options of the sidecar; what it does is the business of `serve`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from ledgeragent.approval import Approvals
from ledgeragent.cli_collect import address
from ledgeragent.cli_gates import (
    EngineOption,
    FloorOption,
    FreezeOption,
    Gates,
    MinimumOption,
    OverridesOption,
    PinOption,
    PoliciesOption,
    SchemasOption,
)
from ledgeragent.errors import BadInput
from ledgeragent.gate import Gate, ShadowGate
from ledgeragent.policies import REGO, SCHEMAS, domains
from ledgeragent.records import JsonlRecorder, Recorder

if TYPE_CHECKING:
    from ledgeragent.serve.kept import Kept
    from ledgeragent.sessions.store import SessionStore

STORE_VARIABLE: Final = "LEDGERAGENT_SESSIONS_URL"
KEYS_VARIABLE: Final = "LEDGERAGENT_SESSIONS_KEYS"
_MAX_TOKEN_FILE: Final = 10_000


def serve(
    domain: Annotated[
        list[str] | None, typer.Option(help="Serve this domain; repeat it for more.", show_default="all")
    ] = None,
    listen: Annotated[str, typer.Option(help="host:port to listen on.")] = "127.0.0.1:8788",
    token_file: Annotated[
        Path | None,
        typer.Option(help="File with the clients' bearer token.", show_default="LEDGERAGENT_SERVE_TOKEN"),
    ] = None,
    sessions: Annotated[
        Literal["memory", "redis"],
        typer.Option(help=f"Where sessions are; redis is at {STORE_VARIABLE}, signed with {KEYS_VARIABLE}."),
    ] = "memory",
    idle: Annotated[float, typer.Option(min=1, help="Seconds without a call after which a session ends.")] = 3600.0,
    most: Annotated[int, typer.Option("--max-sessions", min=1, help="Most sessions in memory at once.")] = 10_000,
    threads: Annotated[int, typer.Option(min=1, max=256, help="Calls that may wait for the engine at once.")] = 16,
    drain: Annotated[
        float, typer.Option(min=0, help="Seconds to wait for outcomes of started writes when told to stop.")
    ] = 20.0,
    record: Annotated[
        Path | None, typer.Option(help="Append a record of every decision and outcome to this file (JSONL).")
    ] = None,
    approvals: Annotated[
        Path | None, typer.Option(help="Take the grants that the keys in this file verify.", show_default="none")
    ] = None,
    agent: Annotated[
        list[str] | None,
        typer.Option(help="An agent runs under this name: it can consent to nothing; repeat it for more."),
    ] = None,
    shadow: Annotated[bool, typer.Option("--shadow", help="Judge, but hold nothing back.")] = False,
    engine: EngineOption = "auto",
    policies: PoliciesOption = REGO,
    schemas: SchemasOption = SCHEMAS,
    overrides: OverridesOption = None,
    floor: FloorOption = None,
    freeze: FreezeOption = None,
    pin: PinOption = None,
    minimum: MinimumOption = None,
) -> None:
    """Own the sessions of agents in any language, over HTTP.

    GET /health, /ready and /openapi.json need no token; docs/sidecar.md explains the rest.
    """
    # The web server takes a moment to import, and no other command needs it.
    from ledgeragent.serve import http
    from ledgeragent.serve.desk import Desk
    from ledgeragent.serve.kept import InMemory

    host, port = address(listen)
    token = http.checked_token(_token(token_file, http.TOKEN_VARIABLE), host)
    store = _store(sessions)
    taken = _approvals(approvals, agent or [])
    with ExitStack() as stack:
        recorder = stack.enter_context(closing(JsonlRecorder(record))) if record is not None else None
        opened = stack.enter_context(Gates(engine, policies, schemas, overrides, floor, freeze, pin, minimum))
        gates = {name: opened.unproved(name, "--domain") for name in domain or domains(schemas)}
        judging = {name: ShadowGate(gate) if shadow else gate for name, gate in gates.items()}
        kept = (
            _stored(store, judging, idle, recorder, taken)
            if store is not None
            else InMemory(judging, idle_seconds=idle, most=most, recorder=recorder, approvals=taken)
        )
        http.serve(lambda: Desk(kept, gates, threads=threads), token=token, host=host, port=port, drain=drain)


def _approvals(file: Path | None, agents: list[str]) -> Approvals | None:
    if file is None and agents:
        raise BadInput("--agent says who can consent to nothing; without --approvals nobody can")
    return Approvals.load(file, agents=agents) if file is not None else None


def _token(file: Path | None, variable: str) -> str | None:
    given = os.environ.get(variable)
    if file is None:
        return given
    if given is not None:
        raise BadInput(f"give the token in {variable} or in --token-file, not both")
    try:
        text = file.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"--token-file {file} cannot be read: {type(error).__name__}") from None
    return text[:_MAX_TOKEN_FILE].strip()


@dataclass(frozen=True)
class _Store:
    """A store and the keys that sessions in it are signed with."""

    store: SessionStore
    keys: list[bytes]


def _store(where: str) -> _Store | None:
    """The store that replicas share, as the environment has it; None for memory."""
    if where == "memory":
        return None
    url, keys = os.environ.get(STORE_VARIABLE), os.environ.get(KEYS_VARIABLE)
    if not url or not keys:
        raise BadInput(
            f"--sessions redis needs {STORE_VARIABLE} (redis://…) and {KEYS_VARIABLE} (openssl rand -hex 32)"
        )
    try:
        secret = [bytes.fromhex(key) for key in keys.split(",")]
    except ValueError:
        raise BadInput(f"{KEYS_VARIABLE} must be hexadecimal keys, with commas between them") from None
    try:
        from ledgeragent.sessions.in_redis import RedisStore
    except ImportError:
        raise BadInput("--sessions redis needs an extra: pip install 'ledgeragent[redis]'") from None
    return _Store(RedisStore.from_url(url), secret)


def _stored(
    store: _Store,
    gates: Mapping[str, Gate | ShadowGate],
    idle: float,
    recorder: Recorder | None,
    approvals: Approvals | None,
) -> Kept:
    from ledgeragent.serve.kept import InStore
    from ledgeragent.sessions.turns import Sessions

    hold = min(120.0, idle / 2)
    made = {
        name: Sessions(
            store.store, gate, keys=store.keys, lifetime=idle, hold=hold, recorder=recorder, approvals=approvals
        )
        for name, gate in gates.items()
    }
    return InStore(store.store, made, idle_seconds=idle)
