"""A proxy between the gate and a real OPA that does what networks and proxies do when they are broken."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from scripted import http_answer, read_request


class Exchange:
    """One request that came in, and what can be done with it."""

    def __init__(
        self, connection: socket.socket, request: bytes, upstream: str, ended: threading.Event, seen: list[bytes]
    ) -> None:
        self.connection = connection
        self.ended = ended
        """Set when the fault is over: what hangs may let go."""
        self.closes = isinstance(connection, ssl.SSLSocket)
        """Whether no connection is kept: each request then sees the certificate that is shown now."""
        self.seen = seen
        """Answers to decisions that came through, of all sessions."""
        head, _, self.body = request.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        self.path = lines[0].split(" ")[1]
        self._headers = dict(line.split(": ", 1) for line in lines[1:])
        self._upstream = urlsplit(upstream)

    @property
    def is_decision(self) -> bool:
        """Whether it asks for a decision, not for a proof."""
        return self.path.partition("?")[0].endswith("/decision")

    def asked(self) -> bytes:
        """What OPA answers, as a whole HTTP answer."""
        upstream = http.client.HTTPConnection(str(self._upstream.hostname), self._upstream.port, timeout=30)
        headers = {name: value for name, value in self._headers.items() if name in ("Authorization", "Content-Type")}
        try:
            upstream.request("POST", self.path, self.body, headers)
            response = upstream.getresponse()
            more = "Connection: close\r\n" if self.closes else ""
            answer = http_answer(response.read(), f"{response.status} {response.reason}", more)
            self.seen += [answer] if self.is_decision else []
            return answer
        finally:
            upstream.close()

    def send(self, answer: bytes) -> None:
        """Send bytes."""
        self.connection.sendall(answer)

    def reset(self) -> None:
        """Drop the connection as a crashing process does."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()


Behaviour = Callable[[Exchange], None]


def passes(exchange: Exchange) -> None:
    """No fault."""
    exchange.send(exchange.asked())


def decisions_only(behaviour: Behaviour) -> Behaviour:
    """A fault that proofs are spared of."""
    return lambda exchange: behaviour(exchange) if exchange.is_decision else passes(exchange)


def says(answer: bytes) -> Behaviour:
    """The same answer to everything."""
    return lambda exchange: exchange.send(answer)


def rewrites(change: Callable[[Any], Any]) -> Behaviour:
    """Another document than OPA's in answer to a decision."""

    def behaviour(exchange: Exchange) -> None:
        document = json.loads(exchange.asked().partition(b"\r\n\r\n")[2])
        exchange.send(http_answer(json.dumps(change(document)).encode()))

    return decisions_only(behaviour)


def hangs(exchange: Exchange) -> None:
    """Takes the request and says nothing."""
    exchange.ended.wait(60)


def drips(exchange: Exchange) -> None:
    """Answers a byte at a time, so that no wait for the next one is long."""
    for byte in exchange.asked():
        exchange.send(bytes([byte]))
        if exchange.ended.wait(0.05):
            return


def resets(exchange: Exchange) -> None:
    """Drops the connection instead of answering."""
    exchange.reset()


def resets_midway(exchange: Exchange) -> None:
    """Drops the connection in the middle of the answer."""
    answer = exchange.asked()
    exchange.send(answer[: -len(answer) // 3])
    exchange.reset()


def hangs_up(exchange: Exchange) -> None:
    """Closes the connection in the middle of the answer, politely."""
    answer = exchange.asked()
    exchange.send(answer[: -len(answer) // 3])
    exchange.connection.close()


class Swaps:
    """Gives each of two interleaved requests the other one's answer."""

    def __init__(self) -> None:
        self._meet = threading.Barrier(2)
        self._lock = threading.Lock()
        self._answers: list[bytes] = []

    def __call__(self, exchange: Exchange) -> None:
        own = exchange.asked()
        with self._lock:
            self._answers.append(own)
        with suppress(threading.BrokenBarrierError):
            self._meet.wait(5)
        with self._lock:
            other = next(answer for answer in self._answers if answer is not own)
        exchange.send(other)


class Replays:
    """Gives the first answer that it saw to everybody."""

    def __init__(self) -> None:
        self._first: bytes | None = None

    def __call__(self, exchange: Exchange) -> None:
        self._first = self._first or exchange.asked()
        exchange.send(self._first)


def replays(exchange: Exchange) -> None:
    """Gives the first decision that came through, whoever it was for."""
    exchange.send(exchange.seen[0])


def answers_twice(exchange: Exchange) -> None:
    """Sends an earlier decision after the right one, where the next answer on this connection would stand."""
    earlier = exchange.seen[0]
    exchange.send(exchange.asked() + earlier)


class Between:
    """The proxy; `upstream`, `behaviour` and `tls` can be exchanged at any time."""

    def __init__(self, upstream: str, tls: ssl.SSLContext | None = None) -> None:
        self.upstream = upstream
        self.tls = tls
        self._behaviour: Behaviour = passes
        self._ended = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self._listener.getsockname()[1]}"
        self._open: set[socket.socket] = set()
        self._seen: list[bytes] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def behaviour(self) -> Behaviour:
        """What it does with a request."""
        return self._behaviour

    @behaviour.setter
    def behaviour(self, behaviour: Behaviour) -> None:
        self._ended.set()
        self._ended = threading.Event()
        self._behaviour = behaviour

    def drop(self) -> None:
        """Close every connection, so that the next request needs a new one."""
        for connection in list(self._open):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Stop listening, let go of what hangs."""
        self._ended.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.drop()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=[connection], daemon=True).start()

    def _serve(self, plain: socket.socket) -> None:
        plain.settimeout(60)
        try:
            connection = self.tls.wrap_socket(plain, server_side=True) if self.tls is not None else plain
        except OSError:
            plain.close()
            return
        self._open.add(connection)
        with connection, suppress(OSError, EOFError, ValueError):
            while connection.fileno() != -1:
                request = read_request(connection)
                self._behaviour(Exchange(connection, request, self.upstream, self._ended, self._seen))
        self._open.discard(connection)
