"""HTTP as `engine.direct` reads it: strictly, from any server, over TCP and Unix sockets."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ledgeragent.engine import AsyncOpaServer, OpaServer, open_engine
from ledgeragent.engine.direct import DirectClient
from ledgeragent.errors import BadInput, EngineAnswer, EngineUnreachable
from scripted import http_answer, read_request, says, scripted

OK = b'{"result": 1}'
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def asked(url: str, times: int = 1) -> list[Any]:
    with OpaServer(url) as engine:
        return [engine.evaluate("retail", "decision", {}) for _ in range(times)]


@pytest.mark.parametrize(
    "answer",
    [
        CHUNKED + b'7\r\n{"resul\r\n6;a=b\r\nt": 1}\r\n0\r\nTrailer: x\r\n\r\n',
        b'HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{"result": 1}',
        b'HTTP/1.0 200 OK\r\n\r\n{"result": 1}',
        b"HTTP/1.1 100 Continue\r\n\r\n" + http_answer(OK),
        b"HTTP/1.1 200\r\nContent-Length: 13\r\ncontent-encoding: identity\r\n\r\n" + OK,
    ],
    ids=["chunks", "until the end", "HTTP/1.0", "after a continue", "no reason"],
)
def test_every_way_to_mark_the_end_of_an_answer_is_read(answer: bytes) -> None:
    with scripted(says(answer)) as server:
        assert asked(server.url) == [1]


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\nContent-Length: 13\r\n\r\n" + OK,
        b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\nTransfer-Encoding: chunked\r\n\r\nd\r\n" + OK + b"\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\nd\r\n" + OK + b"\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: +13\r\n\r\n" + OK,
        b"HTTP/1.1 200 OK\r\nContent-Length: 13, 13\r\n\r\n" + OK,
        b"HTTP/1.1 200 OK\r\nContent-Length : 13\r\n\r\n" + OK,
        b"HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 13\r\n\r\n" + OK,
        b"HTTP/1.1 200 OK\nContent-Length: 13\n\n" + OK + b"\r\n\r\n",
        b"HTTP/2 200 OK\r\nContent-Length: 13\r\n\r\n" + OK,
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n" + http_answer(OK),
        b"HTTP/1.1 200 OK\r\n" + b"X: " + b"y" * 70_000 + b"\r\nContent-Length: 13\r\n\r\n" + OK,
        CHUNKED + b"-d\r\n" + OK + b"\r\n0\r\n\r\n",
        CHUNKED + b"d\r\n" + OK + b"..0\r\n\r\n",
        CHUNKED + b"d\r\n" + OK + b"\r\n",
    ],
    ids=[
        "two lengths",
        "length and chunks",
        "another coding",
        "signed length",
        "listed lengths",
        "space before the colon",
        "folded header",
        "bare line feeds",
        "another version",
        "another protocol",
        "endless header",
        "negative chunk",
        "chunk without its end",
        "no last chunk",
    ],
)
def test_an_answer_that_is_not_clearly_one_is_none(answer: bytes) -> None:
    with scripted(says(answer)) as server, pytest.raises(EngineAnswer):
        asked(server.url)
    assert len(server.requests) == 1


def test_bytes_beyond_an_answer_are_never_the_answer_to_the_next_request() -> None:
    def twice_at_once(connection: socket.socket) -> None:
        connection.sendall(http_answer(OK) + http_answer(b'{"result": "forged"}'))

    with scripted(twice_at_once) as server:
        assert asked(server.url, 2) == [1, 1]
    assert len(server.requests) == 2


def test_a_connection_that_the_server_closed_meanwhile_is_not_asked_over() -> None:
    closed = threading.Event()

    def once(connection: socket.socket) -> None:
        connection.sendall(http_answer(OK))
        connection.shutdown(socket.SHUT_RDWR)
        closed.set()

    with scripted(once) as server, OpaServer(server.url) as engine:
        assert engine.evaluate("retail", "decision", {}) == 1
        assert closed.wait(5)
        assert engine.evaluate("retail", "decision", {}) == 1
    assert len(server.requests) == 2


def test_a_request_that_was_sent_is_not_sent_again_when_the_server_hangs_up() -> None:
    def hangs_up_on_the_second(connection: socket.socket) -> None:
        connection.sendall(http_answer(OK))
        read_request(connection)

    with scripted(hangs_up_on_the_second) as server, OpaServer(server.url) as engine:
        assert engine.evaluate("retail", "decision", {}) == 1
        with pytest.raises(EngineUnreachable, match="hung up without an answer"):
            engine.evaluate("retail", "decision", {})
    assert len(server.requests) == 1


@contextmanager
def on_a_unix_socket(path: Path, script: Callable[[socket.socket], None]) -> Iterator[list[bytes]]:
    """Listens on a Unix socket; what was received."""
    requests: list[bytes] = []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                requests.append(read_request(connection))
                script(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        yield requests
        thread.join(5)


def test_an_opa_on_a_unix_socket_is_asked(tmp_path: Path) -> None:
    path = tmp_path / "opa.sock"
    with on_a_unix_socket(path, says(http_answer(OK))) as requests, open_engine(f"unix://{path}") as engine:
        assert engine.location == f"unix://{path}"
        assert engine.evaluate("retail", "decision", {}) == 1
    assert requests[0].startswith(b"POST /v1/data/ledgeragent/retail/decision?")


def test_a_unix_socket_on_which_nobody_listens_is_unreachable(tmp_path: Path) -> None:
    with pytest.raises(EngineUnreachable, match="No such file"):
        asked(f"unix://{tmp_path}/opa.sock")


@pytest.mark.parametrize("url", ["unix:", "unix://", "unix://opa.sock", "unix:///a?b", "unix:///a#b", "unix:///a%2fb"])
def test_a_unix_socket_is_named_by_its_absolute_path(url: str) -> None:
    with pytest.raises(BadInput, match="absolute path"):
        OpaServer(url)


def test_opa_python_client_knows_no_unix_sockets() -> None:
    with pytest.raises(BadInput, match="no Unix sockets"):
        OpaServer("unix:///run/opa.sock", client="opa-python-client")
    with pytest.raises(BadInput, match="no Unix sockets"):
        AsyncOpaServer("unix:///run/opa.sock")


def test_another_client_is_bad_input() -> None:
    other: Any = "curl"
    with pytest.raises(BadInput, match="direct or opa-python-client"):
        OpaServer("http://127.0.0.1:8181", client=other)


def test_a_process_that_was_forked_does_not_ask_over_its_parents_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    with scripted(says(http_answer(OK))) as server, OpaServer(server.url) as engine:
        assert engine.evaluate("retail", "decision", {}) == 1
        monkeypatch.setattr(
            "ledgeragent.engine.direct._readable", lambda _: False
        )  # the parent's connection looks as good as any
        monkeypatch.setattr(os, "getpid", lambda: -1)
        assert engine.evaluate("retail", "decision", {}) == 1
    assert len(server.requests) == 2


def test_idle_connections_are_closed_with_the_client() -> None:
    ended = threading.Event()

    def until_closed(connection: socket.socket) -> None:
        connection.sendall(http_answer(OK))
        ended.set() if connection.recv(1) == b"" else None

    with scripted(until_closed) as server:
        client = DirectClient(
            where="OPA",
            authorise=dict,
            host="127.0.0.1",
            port=int(server.url.rpartition(":")[2]),
            ssl=False,
            ca=None,
            cert=None,
            timeout=5,
        )
        assert client.query_rule({}, "ledgeragent/retail", "decision", {"a": "b"}) == {"result": 1}
        client.close_connection()
        assert ended.wait(5)
