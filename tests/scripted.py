"""A server that answers as told, byte by byte: for what no well-behaved OPA would do."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

Script = Callable[[socket.socket], None]


def http_answer(body: bytes, status: str = "200 OK", headers: str = "") -> bytes:
    """One complete HTTP answer."""
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{headers}\r\n".encode() + body


def says(answer: bytes) -> Script:
    """A script that sends `answer` and hangs up."""
    return lambda connection: connection.sendall(answer)


def drips(answer: bytes, pause: float) -> Script:
    """A script that sends one byte at a time, so that no single wait is long."""

    def script(connection: socket.socket) -> None:
        for byte in answer:
            connection.sendall(bytes([byte]))
            time.sleep(pause)

    return script


class ScriptedServer:
    """Listens on loopback; `requests` holds what was received, one entry per connection."""

    def __init__(self, script: Script, host: str = "127.0.0.1") -> None:
        self.requests: list[bytes] = []
        self._script = script
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, 0), family=family)
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{self._listener.getsockname()[1]}"
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
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection, suppress(OSError, EOFError):
                connection.settimeout(5)
                self.requests.append(read_request(connection))
                self._script(connection)


@contextmanager
def scripted(script: Script, host: str = "127.0.0.1") -> Iterator[ScriptedServer]:
    """Run a `ScriptedServer` for a `with` block."""
    server = ScriptedServer(script, host)
    try:
        yield server
    finally:
        server.close()


def read_request(connection: socket.socket) -> bytes:
    """Read one HTTP request from a connection, head and body.

    Raises:
        EOFError: when the other side has gone.
    """
    received = b""
    while b"\r\n\r\n" not in received:
        received += _read_some(connection)
    head, _, body = received.partition(b"\r\n\r\n")
    length = next(
        int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")
    )
    while len(body) < length:
        body += _read_some(connection)
    return head + b"\r\n\r\n" + body


def _read_some(connection: socket.socket) -> bytes:
    chunk = connection.recv(65536)
    if not chunk:
        raise EOFError("the other side has gone")
    return chunk
