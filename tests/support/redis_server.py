"""A redis-server of one's own, in a folder of its own, and a go-between that spoils what passes through it."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from redis import Redis
from redis.exceptions import ConnectionError as NoConnection

from needs import need

_PATIENCE = 10.0


def free_port() -> int:
    """A port of loopback that nobody listened on a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def until(what: Callable[[], object], doing: str) -> None:
    """Poll until something holds."""
    end = time.monotonic() + _PATIENCE
    while not what():
        assert time.monotonic() < end, f"{doing} took longer than {_PATIENCE} s"
        time.sleep(0.005)


class RedisServer:
    """A redis-server on loopback that can be hurt.

    Args:
        folder: its own.
        durable: whether everything is on disk before it answers; else it keeps nothing.
    """

    def __init__(self, folder: Path, *, durable: bool = True) -> None:
        binary = shutil.which("redis-server")
        need(binary, "redis-server (`scripts/redis-up` installs it)")
        self.folder = folder
        self._binary = str(binary)
        self._durable = durable
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0
        self.start()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"redis://127.0.0.1:{self.port}/0"

    def client(self) -> Redis:
        """A plain client, for the hand that meddles."""
        return Redis(port=self.port, socket_timeout=_PATIENCE)

    def start(self) -> None:
        """Start, or start again with the same data; the first time on a free port."""
        port = self.port or free_port()
        options = {
            "port": port,
            "bind": "127.0.0.1",
            "dir": self.folder,
            "appendonly": "yes" if self._durable else "no",
            "appendfsync": "always",
            "save": "",
            "daemonize": "no",
            "repl-diskless-sync-delay": 0,
        }
        words = [str(word) for name, value in options.items() for word in (f"--{name}", value)]
        with (self.folder / "redis.log").open("ab") as log:
            self._process = subprocess.Popen([self._binary, *words], stdout=log, stderr=log)
        self.port = port
        until(self._answers, "starting redis-server")

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self.folder / "redis.log").read_text(encoding="utf-8", errors="replace")
        try:
            with self.client() as client:
                return bool(client.ping())
        except NoConnection:
            return False

    def kill(self) -> None:
        """End it as a crash would."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(_PATIENCE)

    def pause(self) -> None:
        """Let it hang: connections are taken, nothing is answered."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """End the pause."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGCONT)


@contextmanager
def running(folder: Path, *, durable: bool = True) -> Iterator[RedisServer]:
    """A server for a `with` block."""
    server = RedisServer(folder, durable=durable)
    try:
        yield server
    finally:
        with suppress(ProcessLookupError):
            server.resume()
        server.kill()


Spoil = Callable[[socket.socket, bytes], bytes | None]
"""Given the connection to Redis and a request: what the client gets, or None to hang up."""


def passes_on(redis: socket.socket, request: bytes) -> bytes | None:
    """What nobody notices."""
    redis.sendall(request)
    return redis.recv(1_000_000)


class Between:
    """Stands between a client and Redis. `spoil` treats one request and what comes back; the client waits meanwhile."""

    def __init__(self, port: int) -> None:
        self.spoil: Spoil = passes_on
        self._port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"redis://127.0.0.1:{self._listener.getsockname()[1]}/0"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(5)

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._relay, args=(client,), daemon=True).start()

    def _relay(self, client: socket.socket) -> None:
        with client, suppress(OSError), socket.create_connection(("127.0.0.1", self._port), 5) as redis:
            while request := client.recv(1_000_000):
                spoil = self.spoil if b"EVAL" in request else passes_on
                answer = spoil(redis, request)
                if not answer:
                    return
                client.sendall(answer)
