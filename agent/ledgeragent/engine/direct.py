"""OPA's API over sockets of our own: one request written, one answer read, nothing in between.

The layers of requests and opa-python-client cost as much as a decision does. This client does what a gate needs of them
and keeps every promise of `transport`: a budget for the whole exchange, from the name service to the last byte;
connections that never came about tried again exactly once and requests that were sent never; no redirects, proxies,
cookies or credentials of the environment; answers of bounded size; strict JSON; TLS files read again when they change;
and errors of ours only. It reads HTTP/1.1 strictly: an answer that could be understood in two ways is none, and its
connection is not used again. Which URL and which rule is `opa`'s part.
"""

from __future__ import annotations

import os
import re
import select
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from requests.utils import DEFAULT_CA_BUNDLE_PATH

from ledgeragent.engine.base import decode_answer, encode_input, raise_for_status
from ledgeragent.engine.exchange import CHUNK, check_size, connect_to, error_named, file_states, time_left
from ledgeragent.errors import EngineAnswer, EngineError, EngineTimeout, EngineUnreachable

_MAX_IDLE: Final = 32
_MAX_HEAD: Final = 65_536
_MAX_CHUNK_LINE: Final = 1024
_STATUS: Final = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9]{2})(?: [^\r\n]*)?")
_HEADER: Final = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\r\n\0]*?)[ \t]*")
_LENGTH: Final = re.compile(rb"[0-9]{1,18}")
_CHUNK_SIZE: Final = re.compile(rb"([0-9a-fA-F]{1,15})[ \t]*(?:;[^\r\n]*)?")

_Files = list[tuple[int, int, int]]


class _Cut(Exception):
    """The connection ended before the answer was complete: `begun` when something of it had come, `closed` when the
    other side said that it was done."""

    def __init__(self, begun: bool, closed: bool) -> None:
        super().__init__()
        self.begun = begun
        self.closed = closed


class _Unclear(Exception):
    """What came is not HTTP, or could be understood in two ways."""


@dataclass(frozen=True)
class _Kept:
    """A connection, with the state of the TLS files when it was made and the process that made it."""

    sock: socket.socket
    files: _Files
    process: int = field(default_factory=os.getpid)


class DirectClient:
    """Asks one OPA server; has what `OpaServer` needs of opa-python-client's client. Safe to share between threads.

    Args:
        where: which OPA, for messages.
        authorise: gives the header with the token; called for each request.
        host: name or address, an IPv6 one in brackets.
        port: the port.
        ssl: whether over TLS.
        ca: a PEM file with the authorities to trust instead of the usual ones.
        cert: PEM files of the client's certificate and key.
        timeout: the budget of one exchange in seconds.
        unix: the path of a Unix socket to use instead of host and port.
    """

    def __init__(
        self,
        *,
        where: str,
        authorise: Callable[[], dict[str, str]],
        host: str,
        port: int,
        ssl: bool,
        ca: str | None,
        cert: tuple[str, str] | None,
        timeout: float,
        unix: Path | None = None,
    ) -> None:
        self._where = where
        self._authorise = authorise
        self._host = host.strip("[]")
        self._port = port
        self._tls = ssl
        self._ca = ca
        self._cert = cert
        self._budget = timeout
        self._unix = unix
        self._files = [file for file in (ca, *(cert or ())) if file is not None]
        self._context: tuple[_Files, Any] | None = None
        self._idle: deque[_Kept] = deque()
        self._open = True
        self._head = f"Host: {host}:{port}\r\nAccept-Encoding: identity\r\nContent-Type: application/json\r\n"

    def query_rule(self, input_data: Any, package_path: str, rule_name: str, query_params: Mapping[str, str]) -> Any:
        """Ask for a rule's value and give OPA's answer document.

        Raises:
            EngineError: as `Engine.evaluate`.
            BadInput: the input cannot be sent.
        """
        body = encode_input({"input": input_data})
        authorised = "".join(f"{name}: {value}\r\n" for name, value in self._authorise().items())
        line = f"POST /v1/data/{package_path}/{rule_name}?{urlencode(query_params)} HTTP/1.1\r\n"
        head = f"{line}{self._head}{authorised}Content-Length: {len(body)}\r\n\r\n"
        status, raw = self._exchange(head.encode("ascii") + body)
        raise_for_status(status, raw, self._where)
        return decode_answer(raw, self._where)

    def close_connection(self) -> None:
        """Close what is idle; what is under way closes when it is done."""
        self._open = False
        while (kept := self._taken()) is not None:
            kept.sock.close()

    def _exchange(self, request: bytes) -> tuple[int, bytes]:
        deadline = time.monotonic() + self._budget
        files = file_states(self._files, self._where)
        kept = self._idle_one(files) or self._connected(files, deadline)
        again = False
        try:
            _send(kept.sock, request, deadline)
            status, raw, again = _Answer(kept.sock, deadline, self._where).read()
        except _Cut as cut:
            if cut.begun:
                raise EngineAnswer(f"{self._where} broke off in the middle of its answer") from None
            raise EngineUnreachable(
                f"{self._where} cannot be reached (it hung up without an answer); is OPA running there?"
            ) from None
        except _Unclear:
            raise EngineAnswer(f"{self._where} gave an answer that is not HTTP, or not clearly so") from None
        except OSError as error:
            raise self._translate(error) from None
        finally:
            self._put_back(kept, again)
        return status, raw

    def _taken(self) -> _Kept | None:
        try:
            return self._idle.pop()
        except IndexError:
            return None

    def _idle_one(self, files: _Files) -> _Kept | None:
        """An idle connection on which nothing has come since: neither its end nor bytes that nobody asked for.

        One that a fork copied is the parent's: both would read each other's answers.
        """
        while (kept := self._taken()) is not None:
            if kept.files == files and kept.process == os.getpid() and not _readable(kept.sock):
                return kept
            kept.sock.close()
        return None

    def _put_back(self, kept: _Kept, again: bool) -> None:
        if not again or len(self._idle) >= _MAX_IDLE:
            kept.sock.close()
            return
        self._idle.append(kept)
        if not self._open:
            self.close_connection()

    def _connected(self, files: _Files, deadline: float) -> _Kept:
        """A new connection; one that does not come about is tried once more, with what is left of the budget."""
        for tries_left in (1, 0):
            try:
                share = time_left(deadline) / (1 + tries_left)
                sock = self._reached(time.monotonic() + share)
                break
            except OSError as error:
                if not tries_left:
                    raise self._translate(error) from None
        try:
            return _Kept(self._secured(sock, files, deadline) if self._tls else sock, files)
        except OSError as error:
            sock.close()
            raise self._translate(error) from None

    def _reached(self, deadline: float) -> socket.socket:
        if self._unix is None:
            sock = connect_to(self._host, self._port, deadline)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return sock
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.settimeout(time_left(deadline))
            sock.connect(str(self._unix))
        except OSError:
            sock.close()
            raise
        return sock

    def _secured(self, sock: socket.socket, files: _Files, deadline: float) -> socket.socket:
        if self._context is None or self._context[0] != files:
            context = ssl.create_default_context(cafile=self._ca or DEFAULT_CA_BUNDLE_PATH)
            if self._cert is not None:
                context.load_cert_chain(*self._cert)
            self._context = files, context
        context = self._context[1]
        sock.settimeout(time_left(deadline))
        secured: ssl.SSLSocket = context.wrap_socket(
            sock,
            server_hostname=self._host.rstrip("."),
            do_handshake_on_connect=False,
            suppress_ragged_eofs=False,
        )
        try:
            _shake_hands(secured, deadline)
        except OSError:
            secured.close()
            raise
        return secured

    def _translate(self, error: OSError) -> EngineError:
        if isinstance(error, TimeoutError):
            return EngineTimeout(f"{self._where} gave no complete answer within {self._budget} s")
        return EngineUnreachable(f"{self._where} cannot be reached ({error_named(error)}); is OPA running there?")


class _Answer:
    """One answer, as it comes in."""

    def __init__(self, sock: socket.socket, deadline: float, where: str) -> None:
        self._sock = sock
        self._deadline = deadline
        self._where = where
        self._buffer = bytearray()
        self._begun = False

    def read(self) -> tuple[int, bytes, bool]:
        """Status, body, and whether the connection can be used again.

        Raises:
            _Cut, _Unclear: it is not complete, or not clearly HTTP.
            EngineAnswer: it is too large.
            OSError: the connection failed; `TimeoutError` when the budget is spent.
        """
        status, minor, headers = self._head()
        while 100 <= status < 200:
            if status == 101:
                raise _Unclear
            status, minor, headers = self._head()
        if headers.get(b"content-encoding", b"identity").lower() != b"identity":
            raise _Unclear
        body, delimited = self._body(status, headers)
        options = {one.strip() for one in headers.get(b"connection", b"").lower().split(b",")}
        return status, body, delimited and minor == 1 and b"close" not in options and not self._buffer

    def _head(self) -> tuple[int, int, dict[bytes, bytes]]:
        raw = self._until(b"\r\n\r\n", _MAX_HEAD)
        first, *lines = raw.split(b"\r\n")
        status = _STATUS.fullmatch(first)
        if status is None:
            raise _Unclear
        headers: dict[bytes, bytes] = {}
        for line in lines:
            header = _HEADER.fullmatch(line)
            if header is None:
                raise _Unclear
            name = header[1].lower()
            if name in headers and name in (b"content-length", b"transfer-encoding", b"content-encoding"):
                raise _Unclear
            headers[name] = header[2] if name not in headers else headers[name] + b"," + header[2]
        return int(status[2]), int(status[1]), headers

    def _body(self, status: int, headers: Mapping[bytes, bytes]) -> tuple[bytes, bool]:
        """The body, and whether its end was marked."""
        length, coding = headers.get(b"content-length"), headers.get(b"transfer-encoding")
        if status in (204, 304):
            return b"", False
        if coding is not None:
            if coding.lower() != b"chunked" or length is not None:
                raise _Unclear
            return self._chunks(), True
        if length is None:
            return self._rest(), False
        if not _LENGTH.fullmatch(length):
            raise _Unclear
        return self._exactly(int(length)), True

    def _chunks(self) -> bytes:
        body = bytearray()
        while True:
            size = _CHUNK_SIZE.fullmatch(self._until(b"\r\n", _MAX_CHUNK_LINE))
            if size is None:
                raise _Unclear
            count = int(size[1], 16)
            if count == 0:
                break
            check_size(len(body) + count, self._where)
            body += self._exactly(count)
            if self._exactly(2) != b"\r\n":
                raise _Unclear
        while self._until(b"\r\n", _MAX_HEAD):  # trailers say nothing that is wanted here
            pass
        return bytes(body)

    def _rest(self) -> bytes:
        try:
            while True:
                check_size(len(self._buffer), self._where)
                self._more()
        except _Cut as cut:
            if not cut.closed:
                raise
        return self._take(len(self._buffer))

    def _exactly(self, count: int) -> bytes:
        check_size(count, self._where)
        while len(self._buffer) < count:
            self._more()
        return self._take(count)

    def _until(self, end: bytes, most: int) -> bytes:
        """What stands before `end`, which is taken too."""
        searched = 0
        while (at := self._buffer.find(end, searched)) < 0:
            if len(self._buffer) > most:
                raise _Unclear
            searched = max(0, len(self._buffer) - len(end) + 1)
            self._more()
        if at > most:
            raise _Unclear
        found = self._take(at)
        self._take(len(end))
        return found

    def _take(self, count: int) -> bytes:
        found = bytes(self._buffer[:count])
        del self._buffer[:count]
        return found

    def _more(self) -> None:
        self._sock.settimeout(time_left(self._deadline))
        try:
            chunk = self._sock.recv(CHUNK)
        except TimeoutError:
            raise
        except OSError:
            if self._begun:
                raise _Cut(begun=True, closed=False) from None
            raise
        if not chunk:
            raise _Cut(self._begun, closed=True)
        self._begun = True
        self._buffer += chunk


def _send(sock: socket.socket, request: bytes, deadline: float) -> None:
    """Send all of it within the budget. A server may answer and hang up before it has read everything."""
    waiting = memoryview(request)
    try:
        while waiting:
            sock.settimeout(time_left(deadline))
            waiting = waiting[sock.send(waiting) :]
    except BrokenPipeError:
        if not _readable(sock):
            raise


def _shake_hands(secured: ssl.SSLSocket, deadline: float) -> None:
    """The TLS handshake, with what is left of the budget for each of its waits."""
    secured.setblocking(False)
    while True:
        try:
            return secured.do_handshake()
        except ssl.SSLWantReadError:
            _wait(secured, select.POLLIN, deadline)
        except ssl.SSLWantWriteError:
            _wait(secured, select.POLLOUT, deadline)


def _wait(sock: socket.socket, event: int, deadline: float) -> None:
    poll = select.poll()
    poll.register(sock, event)
    if not poll.poll(time_left(deadline) * 1000):
        raise TimeoutError("the budget is spent")


def _readable(sock: socket.socket) -> bool:
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))
