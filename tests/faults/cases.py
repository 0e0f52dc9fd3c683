"""Every fault on the way to a decision, with the error that must name it. One row here is a line of the table."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Final

from faults.between import (
    Behaviour,
    Replays,
    Swaps,
    decisions_only,
    drips,
    hangs,
    hangs_up,
    passes,
    replays,
    resets,
    resets_midway,
    rewrites,
    says,
)
from faults.bundles import CONFLICT_ORDER, SLOW_ORDER
from faults.opa_process import TOKEN, wait_until_busy, wait_until_stopped
from scripted import http_answer
from support.toy import but

Parts = Any
Fault = Callable[[Parts], AbstractContextManager[None]]
PROXY: Final = ("opa", "opa-requests", "opa-async")
"""An OPA server behind a proxy, asked by threads, over sockets of our own and over requests, and by an event loop."""
PROCESS: Final = (*PROXY, "opa-local")
"""An OPA that is a process of its own, and one that is the engine's."""
ALL: Final = (*PROCESS, "embedded")


@dataclass(frozen=True)
class Case:
    """A fault.

    Attributes:
        name: what is wrong.
        codes: the error that a blocked review carries; some faults can show in two ways.
        says: pattern of the error's message.
        fault: begins and ends it, given the parts of the stage.
        place: what stands at the other end: `proxy`, `tls` (a proxy that speaks TLS), `process`, or `policies`.
        engines: which engines it is tried on.
        order: the order that the sessions want to cancel.
        sessions: how many of them at once.
        proved: whether the gate has decided before the fault begins.
        pinned: whether the gate accepts only the revisions of the shipped policies.
        recovers: whether the same gate can decide once the fault is over.
        budget: seconds that the engine has for an answer; more where a decision waits for a proof of many.
    """

    name: str
    codes: tuple[str, ...]
    says: str
    fault: Fault
    place: str = "proxy"
    engines: Sequence[str] = PROXY
    order: str = "#W1"
    sessions: int = 3
    proved: bool = True
    pinned: bool = False
    recovers: bool = True
    budget: float = 1.0


def behaves(make: Callable[[], Behaviour]) -> Fault:
    """The proxy does something else for a while."""

    @contextmanager
    def fault(parts: Parts) -> Iterator[None]:
        parts.between.behaviour = make()
        try:
            yield
        finally:
            parts.between.behaviour = passes

    return fault


def answers(body: bytes, status: str = "200 OK") -> Fault:
    """Everything is answered with one text."""
    return behaves(lambda: says(http_answer(body, status)))


def decides(result: str) -> Fault:
    """Decisions are answered with one result; proofs are as ever."""
    return behaves(lambda: decisions_only(says(http_answer(f'{{"result": {result}}}'.encode()))))


def changes(*places: tuple[str, Any]) -> Fault:
    """Decisions come back changed in some places."""
    return behaves(lambda: rewrites(lambda document: but(document, *places)))


def other_bundle(name: str) -> Fault:
    """Another OPA answers for a while."""

    @contextmanager
    def fault(parts: Parts) -> Iterator[None]:
        parts.between.upstream = parts.opas[name].url
        try:
            yield
        finally:
            parts.between.upstream = parts.opas["sound"].url

    return fault


def shows(certificate: str) -> Fault:
    """The server shows another certificate to new connections."""

    @contextmanager
    def fault(parts: Parts) -> Iterator[None]:
        parts.between.tls = getattr(parts.certificates, certificate)
        parts.between.drop()
        try:
            yield
        finally:
            parts.between.tls = parts.certificates.good
            parts.between.drop()

    return fault


@contextmanager
def client_certificate_expired(parts: Parts) -> Iterator[None]:
    """The server asks for a client certificate, and the one in the file is over; it is replaced in the file."""
    parts.certificates.client(expired=True)
    parts.between.tls = parts.certificates.asks
    parts.between.drop()
    try:
        yield
    finally:
        parts.certificates.client()
        parts.between.drop()


def unreadable(file: str, content: bytes | None) -> Fault:
    """A TLS file is gone, or holds something else, for a while."""

    @contextmanager
    def fault(parts: Parts) -> Iterator[None]:
        path = getattr(parts.certificates, file)
        sound = path.read_bytes()
        path.unlink()
        if content is not None:
            path.write_bytes(content)
        parts.between.drop()
        try:
            yield
        finally:
            path.write_bytes(sound)

    return fault


@contextmanager
def token_replaced(parts: Parts) -> Iterator[None]:
    """OPA wants another token than the file holds; the file is written anew."""
    parts.token_file.write_text("a-token-that-has-been-replaced\n", encoding="ascii")
    try:
        yield
    finally:
        parts.token_file.write_text(TOKEN + "\n", encoding="ascii")


@contextmanager
def token_gone(parts: Parts) -> Iterator[None]:
    """The token file is missing for a while."""
    parts.token_file.unlink()
    try:
        yield
    finally:
        parts.token_file.write_text(TOKEN + "\n", encoding="ascii")


@contextmanager
def killed(parts: Parts) -> Iterator[None]:
    """OPA is dead, and is started again."""
    parts.process.kill()
    try:
        yield
    finally:
        parts.process.start()


@contextmanager
def killed_while_it_decides(parts: Parts) -> Iterator[None]:
    """OPA dies once it has begun to evaluate."""

    def kill() -> None:
        wait_until_busy(parts.process.pid)
        parts.process.kill()

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        yield
    finally:
        killer.join()
        parts.process.start()


@contextmanager
def paused(parts: Parts) -> Iterator[None]:
    """OPA is stopped: its sockets take connections and nobody answers."""
    os.kill(parts.process.pid, signal.SIGSTOP)
    wait_until_stopped(parts.process.pid)
    try:
        yield
    finally:
        os.kill(parts.process.pid, signal.SIGCONT)


def nothing(_: Parts) -> AbstractContextManager[None]:
    """The fault is in the policies, and shows with some calls only."""
    return nullcontext()


HTML: Final = b"<html><body>Welcome to the hotel's network</body></html>"
STATUSES: Final[Mapping[str, str]] = {
    "404 Not Found": "engine.status",
    "413 Request Entity Too Large": "engine.status",
    "429 Too Many Requests": "engine.status",
    "500 Internal Server Error": "engine.evaluation",
    "503 Service Unavailable": "engine.status",
}

CASES: Final = (
    # The process --------------------------------------------------------------------------------------------------
    Case(
        "OPA is dead before a decision",
        ("engine.unreachable",),
        "cannot be reached|died",
        killed,
        "process",
        PROXY,
    ),
    Case(
        "OPA is not there at the first decision",
        ("engine.unreachable",),
        "cannot be reached",
        killed,
        "process",
        PROXY,
        proved=False,
    ),
    Case(
        "OPA dies while it decides",
        ("engine.unreachable",),
        "cannot be reached|died",
        killed_while_it_decides,
        "process",
        PROCESS,
        SLOW_ORDER,
        budget=20,
    ),
    Case("OPA is paused", ("engine.timeout",), "no complete answer within", paused, "process", PROCESS),
    Case(
        "OPA is paused at the first decision",
        ("engine.timeout",),
        "no complete answer within",
        paused,
        "process",
        PROCESS,
        proved=False,
    ),
    # The network --------------------------------------------------------------------------------------------------
    Case("the connection is reset", ("engine.unreachable",), "cannot be reached", behaves(lambda: resets)),
    Case(
        "the connection is reset in mid-answer", ("engine.answer",), "broke off|cut off", behaves(lambda: resets_midway)
    ),
    Case("the connection is closed in mid-answer", ("engine.answer",), "broke off|cut off", behaves(lambda: hangs_up)),
    Case("the answer comes a byte at a time", ("engine.timeout",), "no complete answer within", behaves(lambda: drips)),
    Case("no answer comes", ("engine.timeout",), "no complete answer within", behaves(lambda: hangs)),
    Case(
        "no answer comes to a proof",
        ("engine.timeout",),
        "no complete answer within",
        behaves(lambda: hangs),
        proved=False,
    ),
    # Answers ------------------------------------------------------------------------------------------------------
    Case("200 with nothing", ("engine.answer",), "no strict JSON", answers(b"")),
    Case("200 with HTML", ("engine.answer",), "no strict JSON.*markup", answers(HTML)),
    Case(
        "200 with half a JSON", ("engine.answer",), "no strict JSON", answers(b'{"result": {"verdict": "allow", "find')
    ),
    Case("200 without a result", ("engine.undefined",), "is undefined", answers(b"{}")),
    Case('{"result": true}', ("decision.schema",), "not a decision", decides("true")),
    Case('{"result": {"verdict": "deny"}}', ("decision.schema",), "not a decision", decides('{"verdict": "deny"}')),
    Case('{"result": {"verdict": "allow"}}', ("decision.schema",), "not a decision", decides('{"verdict": "allow"}')),
    Case("an unknown verdict", ("decision.schema",), "not a decision: verdict", changes(("result/verdict", "permit"))),
    Case("predicates are missing", ("decision.predicates",), "must be judged", changes(("result/predicates/0", ...))),
    Case(
        "no predicates at all",
        ("decision.predicates", "decision.schema"),
        "must be judged|does not list",
        changes(("result/predicates", [])),
    ),
    Case(
        "another session's decision",
        ("decision.request",),
        "another request",
        behaves(lambda: decisions_only(Swaps())),
        sessions=1,
    ),
    Case(
        "another session's decision, again and again",
        ("decision.request",),
        "another request",
        behaves(lambda: decisions_only(Swaps())),
        sessions=3,
    ),
    Case(
        "another session's decision, replayed",
        ("decision.request",),
        "another request",
        behaves(lambda: decisions_only(replays)),
    ),
    Case("one answer to every proof", ("decision.request",), "another request", behaves(Replays), proved=False),
    # HTTP ---------------------------------------------------------------------------------------------------------
    *(Case(f"HTTP {status}", (code,), status[:3], answers(b"{}", status)) for status, code in STATUSES.items()),
    Case("HTTP 401, as the token was replaced", ("engine.refused",), "401.*check the token", token_replaced),
    Case("the token file is missing", ("engine.refused",), "token file .* cannot be read", token_gone),
    # TLS ----------------------------------------------------------------------------------------------------------
    Case("a certificate of another name", ("engine.unreachable",), "certificate", shows("wrong_name"), "tls"),
    Case("an expired certificate", ("engine.unreachable",), "certificate", shows("expired"), "tls"),
    Case("a certificate from the future", ("engine.unreachable",), "certificate", shows("not_yet"), "tls"),
    Case(
        "the client's certificate has expired",
        ("engine.unreachable", "engine.answer"),
        "cannot be reached|broke off|cut off",
        client_certificate_expired,
        "tls",
    ),
    Case(
        "the authority's file is missing",
        ("engine.unreachable",),
        "the TLS file .*ca.pem cannot be read",
        unreadable("ca", None),
        "tls",
    ),
    Case(
        "the authority's file is cut off",
        ("engine.unreachable",),
        "cannot be reached",
        unreadable("ca", b"-----BEGIN"),
        "tls",
    ),
    Case(
        "the client's key is missing",
        ("engine.unreachable",),
        "the TLS file .*client.key cannot be read",
        unreadable("client_key", None),
        "tls",
    ),
    # Bundles ------------------------------------------------------------------------------------------------------
    Case("an old bundle, where one is pinned", ("decision.pin",), "is not pinned", other_bundle("old"), pinned=True),
    Case(
        "an old bundle that allows too much", ("decision.proof",), "do not decide vector", other_bundle("lax"), budget=5
    ),
    Case(
        "a decision of another revision than proved",
        ("decision.revision",),
        "than those in use",
        changes(("result/policy/revision", "sha256:other")),
        budget=5,
    ),
    Case("a bundle without the domain", ("engine.undefined",), "is undefined", other_bundle("without")),
    Case(
        "a bundle that has no domain from the start",
        ("engine.undefined",),
        "is undefined",
        nothing,
        "without",
        ("opa-local", "embedded"),
        proved=False,
        recovers=False,
    ),
    # wasmtime keeps one exception for all threads: of several that fail at once, some lose the words and keep the code.
    Case(
        "a bundle with a conflict",
        ("engine.evaluation",),
        "conflict|python exception",
        nothing,
        "policies",
        ALL,
        CONFLICT_ORDER,
    ),
    Case(
        "a bundle that does not come to an end",
        ("engine.timeout", "engine.evaluation"),
        "no complete answer|time limit",
        nothing,
        "policies",
        ALL,
        SLOW_ORDER,
    ),
)
