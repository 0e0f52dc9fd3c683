"""`ledgeragent collect`: options of the decision-log collector; what it does is `collector`'s."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from ledgeragent.errors import BadInput

_MEGABYTE = 1_000_000


def collect(
    out: Annotated[Path, typer.Option(help="Folder of the files; made if it is not there.")],
    listen: Annotated[str, typer.Option(help="host:port to listen on.")] = "127.0.0.1:9090",
    rotate: Annotated[int, typer.Option(min=1, help="Begin another file after this many megabytes.")] = 100,
) -> None:
    """Keep Open Policy Agent's decision logs on disk.

    OPA posts them to /logs with the token of LEDGERAGENT_COLLECTOR_TOKEN; GET /health needs none.
    """
    # The web server takes a moment to import, and no other command needs it.
    from ledgeragent.collector import TOKEN_VARIABLE, DecisionLog, serve

    host, port = address(listen)
    log = DecisionLog(out, max_bytes=rotate * _MEGABYTE)
    serve(log, token=os.environ.get(TOKEN_VARIABLE, ""), host=host, port=port)


def address(listen: str) -> tuple[str, int]:
    """Host and port of an option `--listen`.

    Raises:
        BadInput: for another form than host:port.
    """
    host, colon, port = listen.rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise BadInput(f"--listen {listen[:80]!r}: write host:port, for example 127.0.0.1:9090")
    return host.strip("[]"), int(port)
