"""A sidecar of one's own on loopback, and a client that holds everything it says against the OpenAPI document."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import requests
from jsonschema import Draft202012Validator

from ledgeragent.gate import Gate, ShadowGate
from ledgeragent.serve.desk import Desk
from ledgeragent.serve.http import listening
from ledgeragent.serve.kept import InMemory, Kept
from ledgeragent.serve.openapi import document
from support.retail import NOW

TOKEN: Final = "the-token-of-these-tests"
_DOCUMENT: Final = document()


@dataclass(frozen=True)
class Answer:
    """Status and body of an answer."""

    status: int
    body: dict[str, Any]

    @property
    def code(self) -> str | None:
        """The code of a refusal, which has nothing else that could be taken for more."""
        error = self.body.get("error")
        if error is None:
            return None
        assert self.status >= 400
        assert set(self.body) == {"contract", "error"}
        return str(error["code"])


class Client:
    """Asks a sidecar; every request that is taken and every answer must fit the document."""

    def __init__(self, url: str, token: str | None = TOKEN) -> None:
        self.url = url
        self.token = token

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """Send a request; a body that is bytes is sent as it is."""
        sent = {"Content-Type": "application/json"} if body is not None else {}
        if self.token is not None:
            sent["Authorization"] = f"Bearer {self.token}"
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        answered = requests.request(method, self.url + path, data=data, headers=sent, timeout=30)
        assert answered.headers["Content-Type"] == "application/json; charset=utf-8"
        answer = Answer(answered.status_code, answered.json())
        fits(method, path, None if isinstance(body, bytes) else body, answer)
        return answer

    def get(self, path: str, **headers: str) -> Answer:
        """A GET."""
        return self.ask("GET", path, **headers)

    def post(self, path: str, body: Any, **headers: str) -> Answer:
        """A POST."""
        return self.ask("POST", path, body, **headers)

    def open(self, **about: Any) -> Talk:
        """Open a session."""
        answer = self.post("/v1/sessions", {"domain": "retail", "now": NOW, **about})
        assert answer.status == 201, answer
        return Talk(self, answer.body["session"], about.get("now", NOW))


class Talk:
    """One session over HTTP."""

    def __init__(self, client: Client, session: str, now: str) -> None:
        self.client = client
        self.id = session
        self.now = now

    @property
    def path(self) -> str:
        return f"/v1/sessions/{self.id}"

    def post(self, what: str, headers: Mapping[str, str] | None = None, **body: Any) -> Answer:
        """Post to the session."""
        return self.client.post(f"{self.path}/{what}", {"now": self.now, **body}, **(headers or {}))

    def shown(self) -> dict[str, Any]:
        """The session."""
        return self.client.get(self.path).body

    def read(self, tool: str, arguments: Any, content: Any, **about: Any) -> dict[str, Any]:
        """A read from issue to observation; what became of its return."""
        issued = self.post("reads", tool=tool, arguments=arguments, **about)
        assert issued.status == 200, issued
        text = content if isinstance(content, str) else json.dumps(content)
        return self.post("observations", call_id=issued.body["call_id"], content=text).body

    def review(self, tool: str, arguments: Any, call_id: str = "c1", **about: Any) -> dict[str, Any]:
        """What the gate says to one call."""
        answer = self.post("reviews", calls=[{"tool": tool, "arguments": arguments, "call_id": call_id}], **about)
        assert answer.status == 200, answer
        [review] = answer.body["reviews"]
        return dict(review)

    def run(self, review: Mapping[str, Any], outcome: str = "executed", content: Any = "done") -> dict[str, Any]:
        """Redeem and report; what was to be run."""
        redeemed = self.post("redemptions", ticket=review["ticket"])
        assert redeemed.status == 200, redeemed
        reported = self.post("outcomes", ticket=review["ticket"], outcome=outcome, content=content)
        assert reported.status == 200, reported
        return redeemed.body


def fits(method: str, path: str, body: Any, answer: Answer) -> None:
    """Hold an exchange against the document, which does not describe itself."""
    if path == "/openapi.json":
        return
    for template, methods in _DOCUMENT["paths"].items():
        if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", template), path) and method.lower() in methods:
            operation = methods[method.lower()]
            break
    else:
        assert answer.status in (404, 405, 401)
        return
    said = operation["responses"].get(str(answer.status), operation["responses"].get("default"))
    if "$ref" in said:
        said = _DOCUMENT["components"]["responses"]["refused"]
    _check(said["content"]["application/json"]["schema"]["$ref"], answer.body)
    if body is not None and answer.status < 400:
        _check(operation["requestBody"]["content"]["application/json"]["schema"]["$ref"], body)


def _check(ref: str, value: Any) -> None:
    _validator(ref).validate(value)


@cache
def _validator(ref: str) -> Any:
    return Draft202012Validator({"$ref": ref, "components": _DOCUMENT["components"]})


@contextmanager
def serving(
    gate: Gate | ShadowGate | Mapping[str, Gate],
    *,
    kept: Kept | None = None,
    token: str | None = TOKEN,
    threads: int = 16,
    stopped: Callable[[Desk], None] | None = None,
    **memory: Any,
) -> Iterator[Client]:
    """A sidecar in a thread of its own, for a `with` block.

    Args:
        gate: that of retail, or gates by domain.
        kept: keeps the sessions; default: memory, with `memory` as its options.
        token: what it wants to see.
        threads: see `Desk`.
        stopped: is given the desk before it begins.
    """
    proved: Any = gate if isinstance(gate, Mapping) else {"retail": getattr(gate, "_gate", gate)}
    judging: Any = gate if isinstance(gate, Mapping) else {"retail": gate}
    ready, done = threading.Event(), asyncio.Event()
    state: dict[str, Any] = {}

    async def run() -> None:
        own = kept or InMemory(judging, **{"idle_seconds": 3600.0, "most": 1000, **memory})
        desk = Desk(own, proved, threads=threads)
        if stopped is not None:
            stopped(desk)
        async with listening(desk, token=token, host="127.0.0.1", port=0) as url:
            state.update(url=url, loop=asyncio.get_running_loop())
            ready.set()
            await done.wait()

    def target() -> None:
        try:
            asyncio.run(run())
        except Exception as error:  # noqa: BLE001 - the test says what it was
            state["error"] = error
        finally:
            ready.set()

    thread = threading.Thread(target=target)
    thread.start()
    ready.wait(30)
    try:
        assert "url" in state, state.get("error")
        yield Client(state["url"], token)
    finally:
        if "loop" in state:
            state["loop"].call_soon_threadsafe(done.set)
        thread.join(30)
    assert "error" not in state, state["error"]
