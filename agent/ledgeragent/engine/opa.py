"""A running Open Policy Agent as the policy decision point.

`OpaServer` is the blocking form, `AsyncOpaServer` the one for event loops; both speak to `POST
/v1/data/ledgeragent/<domain>/<rule>?strict-builtin-errors=true` and give the same errors. How the bytes
travel is `direct`'s part, or, through opa-python-client, `transport`'s; starting an OPA of one's own is `local`'s.
"""

from __future__ import annotations

import ipaddress
import logging
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, get_args
from urllib.parse import urlsplit

from ledgeragent import telemetry
from ledgeragent.engine.base import (
    UNKNOWN_VERSION,
    Answer,
    ClosesOnExit,
    Rule,
    decision_id_of,
    result_of,
    rule_path,
)
from ledgeragent.engine.breaker import Breaker
from ledgeragent.engine.direct import DirectClient
from ledgeragent.engine.transport import StrictAsyncOpaClient, StrictOpaClient
from ledgeragent.engine.versions import check_version
from ledgeragent.errors import BadInput, EngineClosed, EngineRefused

_log = logging.getLogger(__name__)

Client = Literal["direct", "opa-python-client"]
"""What carries a request: sockets of our own, or opa-python-client over requests. Both keep the same promises."""

DEFAULT_TIMEOUT: Final = 5.0
_STRICT: Final = {"strict-builtin-errors": "true"}
# With `provenance`, OPA says which version it is; it is asked for until it has.
_ASK_VERSION: Final = _STRICT | {"provenance": "true"}
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_HOST = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*\.?")


@dataclass(frozen=True)
class Target:
    """Where an OPA server is and how to show it who is asking."""

    tls: bool
    host: str
    port: int
    token: str | None
    token_file: Path | None
    ca: Path | None
    cert: tuple[Path, Path] | None
    unix: Path | None = None

    @property
    def url(self) -> str:
        """The address for people, in one form."""
        if self.unix is not None:
            return f"unix://{self.unix}"
        return f"http{'s' if self.tls else ''}://{self._bracketed}:{self.port}"

    @property
    def _bracketed(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host

    def authorise(self) -> dict[str, str]:
        """Return the header with the token; the file is read each time, as tokens in files are rotated.

        Raises:
            EngineRefused: the token file cannot be read or is empty.
        """
        token = self.token if self.token_file is None else _read_token(self.token_file)
        return {} if token is None else {"Authorization": f"Bearer {token}"}

    def must_be_remote(self) -> None:
        """Refuse what only `direct` can reach.

        Raises:
            BadInput: it is a Unix socket.
        """
        if self.unix is not None:
            raise BadInput(f"OPA URL {self.url!r}: opa-python-client knows no Unix sockets; use http://host:port")

    def options(self, timeout: float) -> dict[str, Any]:
        """Return what every client is built with."""
        return {
            "where": f"OPA at {self.url}",
            "authorise": self.authorise,
            "ca": None if self.ca is None else str(self.ca),
            "host": self._bracketed,
            "port": self.port,
            "ssl": self.tls,
            "cert": None if self.cert is None else (str(self.cert[0]), str(self.cert[1])),
            "timeout": timeout,
        }


def target(
    url: str,
    *,
    token: str | None = None,
    token_file: Path | None = None,
    ca: Path | None = None,
    cert: tuple[Path, Path] | None = None,
) -> Target:
    """Check and take apart the address of an OPA server.

    Args:
        url: `http://host:port` or `https://host:port` with nothing after it, or `unix:///path/of/a/socket`.
        token: the bearer token, or None.
        token_file: a file that holds it; read before each request.
        ca: a PEM file with the authorities to trust instead of the usual ones.
        cert: PEM files of the client's certificate and key.

    Raises:
        BadInput: the URL has another form, both tokens are given, or TLS files go with a URL that is not
        https.
    """
    unix = _socket_path(url)
    tls, host, port = (False, "localhost", 80) if unix is not None else _take_apart(url)
    if token is not None and token_file is not None:
        raise BadInput("give the OPA token or the file that holds it, not both")
    if token is not None and not _is_token(token):
        raise BadInput("the OPA token is empty or holds spaces, line ends or characters outside ASCII")
    if not tls and (ca is not None or cert is not None):
        raise BadInput(f"OPA URL {url!r}: a CA or client certificate needs https")
    for file in (ca, *(cert or ())):
        if file is not None and not file.is_file():
            raise BadInput(f"TLS file {file}: there is no such file")
    if not tls and (token or token_file) and not _is_loopback(host):
        _log.warning("the OPA token travels unencrypted to %s; use https outside a private network", host)
    return Target(tls, host, port, token, token_file, ca, cert, unix)


def _socket_path(url: str) -> Path | None:
    """The path in `unix:///path`; None for another kind of URL."""
    if not url.startswith("unix:"):
        return None
    path = url.removeprefix("unix://")
    if not path.startswith("/") or not path.isprintable() or "?" in path or "#" in path or "%" in path:
        raise BadInput(f"OPA URL {url!r}: write unix:// and the absolute path of the socket")
    return Path(path)


def _take_apart(url: str) -> tuple[bool, str, int]:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise BadInput(f"OPA URL {url!r}: {error}") from error
    if parts.scheme not in _DEFAULT_PORTS or not parts.hostname or any(c.isspace() for c in url):
        raise BadInput(f"OPA URL {url!r}: write http://host:port or https://host:port")
    if not _is_ip(parts.hostname) and (len(parts.hostname) > 253 or not _HOST.fullmatch(parts.hostname)):
        raise BadInput(f"OPA URL {url!r}: the host is neither an IP address nor an ASCII host name")
    if parts.username is not None or parts.password is not None:
        raise BadInput("OPA URL: credentials do not belong in the URL; use the token")
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        raise BadInput(f"OPA URL {url!r}: nothing may follow host and port")
    return parts.scheme == "https", parts.hostname, port or _DEFAULT_PORTS[parts.scheme]


class OpaServer(ClosesOnExit):
    """An OPA server, asked over one pool of kept-alive connections; safe to share between threads.

    Args:
        url, token, token_file, ca, cert: see `target`.
        client: what carries the requests; opa-python-client is slower and knows no Unix sockets.
        timeout: the budget of one evaluation in seconds, connecting and a second connection attempt included.
        breaker: when not to ask; default: one of its own. An engine never shares its breaker.

    Raises:
        BadInput: the address or the budget is not usable.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        token_file: Path | None = None,
        timeout: float = DEFAULT_TIMEOUT,
        ca: Path | None = None,
        cert: tuple[Path, Path] | None = None,
        breaker: Breaker | None = None,
        client: Client = "direct",
    ) -> None:
        to = target(url, token=token, token_file=token_file, ca=ca, cert=cert)
        self._client = _client(client, to, _budget(timeout))
        self._closed = threading.Event()
        self.name = "opa"
        self.version = UNKNOWN_VERSION
        self.location = to.url
        self.breaker = breaker or Breaker()
        telemetry.watch_breaker(self.location, self.breaker)

    def evaluate(self, domain: str, rule: Rule, gate_input: Mapping[str, Any]) -> Any:
        """See `Engine.evaluate`."""
        return self.answer(domain, rule, gate_input).value

    def answer(self, domain: str, rule: Rule, gate_input: Mapping[str, Any]) -> Answer:
        """See `Logs.answer`."""
        path = rule_path(domain, rule)
        if self._closed.is_set():
            raise EngineClosed(f"the engine for OPA at {self.location} is closed; open a new one")
        where = f"OPA at {self.location}"
        with self.breaker.attempt(where):
            answer = self._client.query_rule(gate_input, f"ledgeragent/{domain}", rule, _parameters(self.version))
            self.version = _told_version(answer, self.version, self.location)
            return Answer(result_of(answer, path, where), decision_id_of(answer))

    def close(self) -> None:
        """Close the connections."""
        self._closed.set()
        self._client.close_connection()


class AsyncOpaServer:
    """An OPA server for one event loop; the arguments and errors are those of `OpaServer`."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        token_file: Path | None = None,
        timeout: float = DEFAULT_TIMEOUT,
        ca: Path | None = None,
        cert: tuple[Path, Path] | None = None,
        breaker: Breaker | None = None,
    ) -> None:
        to = target(url, token=token, token_file=token_file, ca=ca, cert=cert)
        to.must_be_remote()
        self._client = StrictAsyncOpaClient(**to.options(_budget(timeout)))
        self._opened = False
        self._closed = False
        self.name = "opa"
        self.version = UNKNOWN_VERSION
        self.location = to.url
        self.breaker = breaker or Breaker()
        telemetry.watch_breaker(self.location, self.breaker)

    async def __aenter__(self) -> AsyncOpaServer:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aevaluate(self, domain: str, rule: Rule, gate_input: Mapping[str, Any]) -> Any:
        """See `Engine.evaluate`."""
        path = rule_path(domain, rule)
        if self._closed:
            raise EngineClosed(f"the engine for OPA at {self.location} is closed; open a new one")
        if not self._opened:
            self._opened = True
            await self._client.__aenter__()
        where = f"OPA at {self.location}"
        with self.breaker.attempt(where):
            answer = await self._client.query_rule(gate_input, f"ledgeragent/{domain}", rule, _parameters(self.version))
            self.version = _told_version(answer, self.version, self.location)
            return result_of(answer, path, where)

    async def aclose(self) -> None:
        """Close the connections. May be called more than once."""
        self._closed = True
        await self._client.close_connection()


def _client(kind: Client, to: Target, timeout: float) -> Any:
    if kind not in get_args(Client):
        raise BadInput(f"client {kind!r}: use {' or '.join(get_args(Client))}")
    if kind == "direct":
        return DirectClient(**to.options(timeout), unix=to.unix)
    to.must_be_remote()
    return StrictOpaClient(**to.options(timeout))


def _parameters(version: str) -> dict[str, str]:
    return dict(_ASK_VERSION if version == UNKNOWN_VERSION else _STRICT)


def _told_version(answer: Any, known: str, location: str) -> str:
    if known != UNKNOWN_VERSION or not isinstance(answer, dict):
        return known
    provenance = answer.get("provenance")
    version = provenance.get("version") if isinstance(provenance, dict) else None
    if not isinstance(version, str) or not version:
        return known
    check_version(version, f"OPA at {location}")
    return version


def _budget(timeout: float) -> float:
    if not 0 < timeout <= 3600:
        raise BadInput(f"engine timeout {timeout!r}: give seconds above 0 and up to 3600")
    return timeout


def _read_token(file: Path) -> str:
    try:
        token = file.read_text(encoding="ascii").strip()
    except (OSError, ValueError) as error:
        raise EngineRefused(f"the OPA token file {file} cannot be read: {error}") from error
    if not _is_token(token):
        raise EngineRefused(f"the OPA token file {file} does not hold one token")
    return token


def _is_token(token: str) -> bool:
    return token.isascii() and token.isprintable() and bool(token) and " " not in token


def _is_ip(host: str) -> bool:
    try:
        return "%" not in str(ipaddress.ip_address(host))
    except ValueError:
        return False


def _is_loopback(host: str) -> bool:
    return host == "localhost" or (_is_ip(host) and ipaddress.ip_address(host).is_loopback)
