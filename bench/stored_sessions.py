"""What a turn of a stored session costs: beginning it, and each save, by the number of records in the ledger.

    python bench/stored_sessions.py

Starts a redis-server of its own, which writes to disk before it answers. Records have over a kilobyte. *Begin* is
loading, verifying, reading back and taking the session; *save* is writing and signing the whole state and storing it,
as before a ticket leaves the session. *Without Redis* is the session's own part. Milliseconds, the quickest of 25.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from redis import Redis

from ledgeragent import Domain, Gate, open_engine
from ledgeragent.sessions import Change, Sessions, Stored
from ledgeragent.sessions.in_redis import RedisStore
from long_conversation import NOW, order

SIZES: Final = (0, 10, 100, 1000)
TIMES: Final = 25


class InMemory:
    """A store that costs nothing: what is left is the session's own work."""

    def __init__(self) -> None:
        self._kept = Stored(b"", b"", None, taken=False)

    def create(self, _id: str, head: bytes, body: bytes, _lifetime: float) -> None:
        self._kept = Stored(head, body, 1, taken=False)

    def load(self, _id: str) -> Stored:
        return self._kept

    def save(self, _id: str, change: Change) -> None:
        body = change.body if change.body is not None else self._kept.body
        self._kept = Stored(change.head, body, change.version, taken=False)


def main() -> int:
    binary = shutil.which("redis-server")
    if binary is None:
        sys.exit("there is no redis-server here; scripts/redis-up installs it")
    gate = Gate(Domain.load("retail"), open_engine("embedded"))
    print("| records | stored | begin | without Redis | save | without Redis |\n|---|---|---|---|---|---|")
    with ExitStack() as stack:
        socket = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "redis.sock"
        words = ["--port", "0", "--unixsocket", socket, "--dir", socket.parent, "--appendonly", "yes"]
        server = subprocess.Popen(
            [binary, *map(str, words), "--appendfsync", "always", "--save", ""], stdout=subprocess.DEVNULL
        )
        stack.callback(server.wait)
        stack.callback(server.kill)
        redis = Redis(unix_socket_path=str(socket), socket_timeout=5)
        while not socket.exists() or not redis.ping():
            time.sleep(0.01)
        for size in SIZES:
            print(row(size, gate, RedisStore(redis)), flush=True)
    return 0


def row(size: int, gate: Gate, store: RedisStore) -> str:
    """One line of the table."""
    kept, alone = (Sessions(one, gate, keys=[bytes(32)], lifetime=3600) for one in (store, InMemory()))
    columns = []
    for sessions in (kept, alone):
        name = f"s{size}"
        with sessions.turn(name, sessions.create(name, now=NOW), now=NOW) as turn:
            for number in range(size):
                read(turn.session, number)
        begun: list[float] = []
        saved: list[float] = []
        for _ in range(TIMES):
            began = time.perf_counter()
            with sessions.turn(name, turn.token, now=NOW) as turn:
                begun.append(time.perf_counter() - began)
                saved.append(took(lambda turn=turn: turn._save(120)))
        columns.append((begun, saved))
    stored = len(store.load(f"s{size}").body)
    (begin, save), (own_begin, own_save) = columns
    cells = " | ".join(f"{min(one) * 1000:.1f}" for one in (begin, own_begin, save, own_save))
    return f"| {size:,} | {stored / 1000:,.0f} KB | {cells} |"


def read(session: Any, number: int) -> None:
    """An order becomes a fact."""
    issued = session.issue("get_order_details", {"order_id": f"#W{number}"})
    session.observe(issued.call_id, json.dumps(order(number)))


def took(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


if __name__ == "__main__":
    raise SystemExit(main())
