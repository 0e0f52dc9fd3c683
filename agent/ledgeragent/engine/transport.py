"""The HTTP sessions under opa-python-client, made strict.

opa-python-client sends the request and knows OPA's API; what it leaves to its session is replaced here,
because a gate needs guarantees that requests and aiohttp do not give by default: a budget for the whole
exchange (requests' timeout starts anew with every byte), connection failures tried again exactly once and
answered requests never, no redirects (the token and the input would follow them), no proxies or credentials
from the environment, no cookies, answers of bounded size, strict JSON, and errors of ours only. Which URL
and which rule is `opa`'s part.
"""

from __future__ import annotations

import contextlib
import http.client
import io
import socket
import ssl
import threading
import time
from collections.abc import AsyncIterator, Callable
from http.cookiejar import DefaultCookiePolicy
from typing import Any, Final

import aiohttp
import requests
from opa_client.opa import OpaClient
from opa_client.opa_async import AsyncOpaClient
from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    NameResolutionError,
    NewConnectionError,
    ProtocolError,
    ReadTimeoutError,
)

from ledgeragent.engine.base import decode_answer, encode_input, raise_for_status
from ledgeragent.engine.exchange import CHUNK, check_size, connect_to, error_named, file_states, time_left
from ledgeragent.errors import EngineAnswer, EngineTimeout, EngineUnreachable

_POOL_SIZE: Final = 32
_JSON: Final = {"Content-Type": "application/json"}

_current = threading.local()


class _BudgetReader(io.RawIOBase):
    """Reads a socket, giving each `recv` only what is left of the exchange's budget."""

    def __init__(self, raw: Any, sock: Any, deadline: float) -> None:
        self._raw = raw
        self._sock = sock
        self._deadline = deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._sock.settimeout(time_left(self._deadline))
        count: int | None = self._raw.readinto(buffer)
        return count

    def close(self) -> None:
        if not self.closed:
            self._raw.close()
        super().close()


class _BudgetResponse(http.client.HTTPResponse):
    def __init__(self, sock: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(sock, *args, **kwargs)
        reader = _BudgetReader(self.fp.detach(), sock, _current.deadline)
        self.fp = io.BufferedReader(reader)


class _BudgetConnection(HTTPConnection):
    """Keeps name service, connecting, handshake and sending within the budget, where urllib3's limits begin anew."""

    response_class = _BudgetResponse

    def _new_conn(self) -> socket.socket:
        try:
            connected = connect_to(self._dns_host, self.port, time.monotonic() + float(self.timeout or 0))
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connected.settimeout(time_left(_current.deadline))
        except socket.gaierror as error:
            raise NameResolutionError(self.host, self, error) from error
        except TimeoutError as error:
            raise ConnectTimeoutError(self, f"no connection to {self.host}: {error}") from error
        except OSError as error:
            raise NewConnectionError(self, f"no connection to {self.host}: {error}") from error
        return connected

    def send(self, data: Any) -> None:
        if self.sock is not None:
            self.sock.settimeout(time_left(_current.deadline))
        super().send(data)


class _PlainConnection(_BudgetConnection):
    """Over HTTP."""


class _TlsConnection(_BudgetConnection, HTTPSConnection):
    """Over HTTPS."""


class _PlainPool(HTTPConnectionPool):
    ConnectionCls = _PlainConnection


class _TlsPool(HTTPSConnectionPool):
    ConnectionCls = _TlsConnection


class _Adapter(HTTPAdapter):
    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = {"http": _PlainPool, "https": _TlsPool}


class _Answer(requests.Response):
    """A complete answer with status 200, whose `json` is strict."""

    def __init__(self, raw: bytes, where: str) -> None:
        super().__init__()
        self.status_code = 200
        self._content = raw
        self._where = where

    def json(self, **_: Any) -> Any:
        return decode_answer(self._content or b"", self._where)


class _Session(requests.Session):
    """A requests session that keeps the promises of this module."""

    def __init__(
        self, where: str, budget: float, authorise: Callable[[], dict[str, str]], tls_files: list[str]
    ) -> None:
        super().__init__()
        self.trust_env = False
        self.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        self._tls_files = tls_files
        self._where = where
        self._budget = budget
        self._authorise = authorise
        adapter = _Adapter(pool_connections=1, pool_maxsize=_POOL_SIZE, max_retries=0)
        self.mount("http://", adapter)
        self.mount("https://", adapter)

    def request(self, method: str | bytes, url: str | bytes, *_: Any, json: Any = None, **__: Any) -> requests.Response:
        body = encode_input(json)
        headers = _JSON | self._authorise()
        file_states(self._tls_files, self._where)
        deadline = time.monotonic() + self._budget
        _current.deadline = deadline
        for tries_left in (1, 0):
            left = max(deadline - time.monotonic(), 0.001)
            # A connection gets a share of the budget, so that the second try has something left.
            timeout = (left / (1 + tries_left), left)
            try:
                with super().request(
                    method,
                    url,
                    data=body,
                    headers=headers,
                    timeout=timeout,
                    stream=True,
                    allow_redirects=False,
                ) as response:
                    return self._complete(response)
            except OSError as error:  # requests' errors are; so is a TLS file that is gone in this very moment
                if not (tries_left and _never_connected(error)):
                    raise self._translate(error) from None
        raise AssertionError("the last try returns or raises")

    def _complete(self, response: requests.Response) -> _Answer:
        try:
            raw = _read_all(response.raw, self._where)
        except (ReadTimeoutError, TimeoutError) as error:
            raise self._translate(error) from None
        except (HTTPError, OSError) as error:
            raise EngineAnswer(f"{self._where} broke off in the middle of its answer ({error_named(error)})") from None
        raise_for_status(response.status_code, raw, self._where)
        return _Answer(raw, self._where)

    def _translate(self, error: Exception) -> EngineTimeout | EngineUnreachable:
        reason = _reason(error)
        if isinstance(error, (requests.Timeout, ReadTimeoutError, TimeoutError)) or isinstance(reason, TimeoutError):
            return EngineTimeout(f"{self._where} gave no complete answer within {self._budget} s")
        return EngineUnreachable(f"{self._where} cannot be reached ({error_named(reason)}); is OPA running there?")


class StrictOpaClient(OpaClient):  # type: ignore[misc]
    """opa-python-client's client over a strict session."""

    def __init__(self, *, where: str, authorise: Callable[[], dict[str, str]], ca: str | None, **options: Any) -> None:
        self._where = where
        self._authorise = authorise
        self._ca = ca
        super().__init__(**options)

    def _init_session(self) -> requests.Session:
        files = [file for file in (self._ca, *(self.cert or ())) if file is not None]
        session = _Session(self._where, self.timeout, self._authorise, files)
        session.verify = self._ca or True
        session.cert = self.cert
        return session


class _AsyncAnswer:
    """What opa-python-client's async client needs of a response, for a complete answer with status 200."""

    def __init__(self, raw: bytes, where: str) -> None:
        self._raw = raw
        self._where = where

    def raise_for_status(self) -> None:
        """Nothing to do: every other status was raised while reading."""

    async def json(self) -> Any:
        return decode_answer(self._raw, self._where)


class StrictAsyncOpaClient(AsyncOpaClient):  # type: ignore[misc]
    """opa-python-client's async client with the same promises; its own retries (of answered 500s too) are
    not used."""

    def __init__(self, *, where: str, authorise: Callable[[], dict[str, str]], ca: str | None, **options: Any) -> None:
        self._where = where
        self._authorise = authorise
        self._ca = ca
        self._context: tuple[object, ssl.SSLContext] | None = None
        super().__init__(retries=0, **options)

    async def _init_session(self) -> None:
        self._session = aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar(), trust_env=False)

    def _tls(self) -> ssl.SSLContext | bool:
        """For new connections; made anew when one of the files has changed, as certificates are rotated."""
        if not self.ssl:
            return True
        files = [file for file in (self._ca, *(self.cert or ())) if file is not None]
        state = file_states(files, self._where)
        if self._context is None or self._context[0] != state:
            context = ssl.create_default_context(cafile=self._ca)
            if self.cert:
                context.load_cert_chain(*self.cert)
            self._context = state, context
        return self._context[1]

    @contextlib.asynccontextmanager
    async def _request(self, method: str, url: str, *, json: Any = None) -> AsyncIterator[_AsyncAnswer]:
        body = encode_input(json)
        headers = _JSON | self._authorise()
        deadline = time.monotonic() + self.timeout
        for tries_left in (1, 0):
            left = max(deadline - time.monotonic(), 0.001)
            timeout = aiohttp.ClientTimeout(total=left, connect=left / (1 + tries_left))
            try:
                answer = await self._exchange(method, url, body, headers, timeout)
                break
            except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
                if not tries_left:
                    raise self._translate(error) from None
            except (aiohttp.ClientPayloadError, aiohttp.ClientResponseError) as error:
                raise EngineAnswer(f"{self._where} gave an answer cut off or not HTTP ({error_named(error)})") from None
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                raise self._translate(error) from None
        yield answer

    async def _exchange(
        self, method: str, url: str, body: bytes, headers: dict[str, str], timeout: aiohttp.ClientTimeout
    ) -> _AsyncAnswer:
        async with self._session.request(
            method, url, data=io.BytesIO(body), headers=headers, timeout=timeout, allow_redirects=False, ssl=self._tls()
        ) as response:
            raw = b""
            async for chunk in response.content.iter_chunked(CHUNK):
                raw += chunk
                check_size(len(raw), self._where)
            raise_for_status(response.status, raw, self._where)
            return _AsyncAnswer(raw, self._where)

    def _translate(self, error: Exception) -> EngineTimeout | EngineUnreachable:
        if isinstance(error, TimeoutError):
            return EngineTimeout(f"{self._where} gave no complete answer within {self.timeout} s")
        return EngineUnreachable(f"{self._where} cannot be reached ({error_named(error)}); is OPA running there?")


def _never_connected(error: OSError) -> bool:
    return isinstance(error, requests.ConnectTimeout) or isinstance(_reason(error), NewConnectionError)


def _reason(error: Exception) -> Any:
    """What urllib3 says is behind an error of requests; the error itself when it says nothing."""
    cause = error.args[0] if error.args else error
    if isinstance(cause, ProtocolError):
        return cause.args[-1]
    return getattr(cause, "reason", None) or error


def _read_all(raw: Any, where: str) -> bytes:
    body = bytearray()
    while chunk := raw.read(CHUNK, decode_content=True):
        body += chunk
        check_size(len(body), where)
    return bytes(body)
