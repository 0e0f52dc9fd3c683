"""A chat-completions endpoint that answers from a script: a real HTTP server on loopback, one thread per connection.

It counts what reaches it and answers as the script says, soundly or not. What a client makes of that is the tests'
part.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import cycle
from typing import Any, Final, Self

_PATH: Final = "/v1/chat/completions"
_LONGEST_HOLD: Final = 30.0
_SSE: Final = "text/event-stream"


@dataclass(frozen=True)
class Answer:
    """What the endpoint answers to one request.

    Attributes:
        content: the text; with an error status the error's message; None is a JSON null.
        calls: tool calls as (id, name, arguments as text). An empty id is left out.
        refusal: goes into the `refusal` field.
        finish: finish reason; default: `tool_calls` or `stop`.
        status: HTTP status; 0 hangs up without an answer.
        headers: further headers, which win over the usual ones.
        body: raw bytes instead of everything above but status and headers.
        usage: tokens of prompt and completion, and optionally of the prompt the cached ones; None: never reported.
        cut_after: hangs up after so many events of a stream, or bytes of another body.
        fragments: lengths of the pieces in which a stream delivers texts and arguments, over and over; () for whole.
        numbered: whether the tool-call deltas of a stream carry their index.
        hold: nothing is sent before it is set; with `held_after`, nothing more after so many events of a stream.
    """

    content: str | None = ""
    calls: Sequence[tuple[str, str, str]] = ()
    refusal: str = ""
    finish: str = ""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    usage: tuple[int, ...] | None = None
    cut_after: int | None = None
    fragments: Sequence[int] = ()
    numbered: bool = True
    hold: threading.Event | None = None
    held_after: int = 0


Script = Callable[[dict[str, Any], int], Answer] | Iterable[Answer]
"""Answers in order, or a function of the request's body and its number (from 0)."""


class ChatServer:
    """The endpoint, as a context manager: `url` ends in `/v1`.

    Attributes:
        requests: parsed bodies, one per request received, in order.
        headers: their HTTP headers.
    """

    def __init__(self, script: Script) -> None:
        """Answer from a script; a script that fails or runs out fails the `with` block."""
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self._script = script if callable(script) else _in_order(script)
        self._problems: list[Exception] = []
        self._lock = threading.Lock()
        self._server = _Listener(self)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.close()
        if error is None and self._problems:
            raise self._problems[0]

    def close(self) -> None:
        """Stop listening; open connections end with their clients."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    def answer(self, body: dict[str, Any], headers: Mapping[str, str]) -> Answer:
        """Count a request and look up its answer."""
        with self._lock:
            self.requests.append(body)
            self.headers.append(dict(headers))
            try:
                return self._script(body, len(self.requests) - 1)
            except Exception as problem:  # noqa: BLE001 - the test must hear of it, whatever it is
                self._problems.append(problem)
                return Answer(f"the test's script failed: {problem!r}", status=400)


def sse(*events: object) -> bytes:
    """A stream's body of these events: text as it is, everything else as JSON."""
    texts = (event if isinstance(event, str) else json.dumps(event) for event in events)
    return b"".join(f"data: {text}\n\n".encode() for text in texts)


def events_of(answer: Answer, *, with_usage: bool) -> list[object]:
    """What a stream delivers of an answer, event by event."""
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": "" if answer.content is not None else None}]
    deltas += [{"content": piece} for piece in _pieces(answer.content or "", answer.fragments)]
    deltas += [{"refusal": piece} for piece in _pieces(answer.refusal, answer.fragments)]
    for number, (call_id, name, arguments) in enumerate(answer.calls):
        index = {"index": number} if answer.numbered else {}
        own = {"id": call_id} if call_id else {}
        head = {**index, **own, "type": "function", "function": {"name": name, "arguments": ""}}
        deltas.append({"tool_calls": [head]})
        for piece in _pieces(arguments, answer.fragments):
            deltas.append({"tool_calls": [{**index, "function": {"arguments": piece}}]})
    events: list[object] = [_chunk([{"index": 0, "delta": delta, "finish_reason": None}]) for delta in deltas]
    events.append(_chunk([{"index": 0, "delta": {}, "finish_reason": _finish(answer)}]))
    if with_usage and answer.usage is not None:
        events.append({**_chunk([]), "usage": _usage(answer.usage)})
    return [*events, "[DONE]"]


def completion_of(answer: Answer) -> dict[str, Any]:
    """An answer as one object."""
    message: dict[str, Any] = {"role": "assistant", "content": answer.content, "refusal": answer.refusal or None}
    if answer.calls:
        message["tool_calls"] = [
            {**({"id": call_id} if call_id else {}), "type": "function", "function": {"name": name, "arguments": text}}
            for call_id, name, text in answer.calls
        ]
    whole = {
        "id": "chatcmpl-0",
        "object": "chat.completion",
        "created": 0,
        "model": "scripted",
        "choices": [{"index": 0, "message": message, "finish_reason": _finish(answer)}],
    }
    return whole if answer.usage is None else {**whole, "usage": _usage(answer.usage)}


def _chunk(choices: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": "chatcmpl-0",
        "object": "chat.completion.chunk",
        "created": 0,
        "model": "scripted",
        "choices": choices,
    }


def _finish(answer: Answer) -> str:
    return answer.finish or ("tool_calls" if answer.calls else "stop")


def _usage(counts: tuple[int, ...]) -> dict[str, Any]:
    prompt, completion, *cached = counts
    usage: dict[str, Any] = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }
    return usage | ({"prompt_tokens_details": {"cached_tokens": cached[0]}} if cached else {})


def _pieces(text: str, lengths: Sequence[int]) -> Iterator[str]:
    at = 0
    for length in cycle(lengths or (len(text),)):
        if at >= len(text):
            return
        yield text[at : at + max(length, 1)]
        at += max(length, 1)


def _in_order(answers: Iterable[Answer]) -> Callable[[dict[str, Any], int], Answer]:
    waiting = iter(answers)

    def following(_: dict[str, Any], number: int) -> Answer:
        answer = next(waiting, None)
        if answer is None:
            raise AssertionError(f"request {number} has no answer: the script is at its end")
        return answer

    return following


class _Listener(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, chat: ChatServer) -> None:
        self.chat = chat
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):  # a client may be gone
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: _Listener
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path != _PATH:
            self._whole(Answer(f"there is no {self.path}", status=404), stream=False)
            return
        body = json.loads(raw)
        answer = self.server.chat.answer(body, dict(self.headers))
        _hold(answer, 0)
        with suppress(OSError):  # a client may be gone
            self._give(answer, body)

    def _give(self, answer: Answer, body: dict[str, Any]) -> None:
        if answer.status == 0:
            self._hang_up()
        elif body.get("stream") and answer.status == 200 and answer.body is None:
            with_usage = bool((body.get("stream_options") or {}).get("include_usage"))
            self._stream(answer, events_of(answer, with_usage=with_usage))
        else:
            self._whole(answer, stream=bool(body.get("stream")))

    def _stream(self, answer: Answer, events: list[object]) -> None:
        self._head(answer, {"Content-Type": _SSE, "Transfer-Encoding": "chunked"})
        for number, event in enumerate(events[: answer.cut_after]):
            if number:
                _hold(answer, number)
            data = sse(event)
            self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        if answer.cut_after is not None:
            self._hang_up()
            return
        self.wfile.write(b"0\r\n\r\n")

    def _whole(self, answer: Answer, *, stream: bool) -> None:
        body = answer.body
        if body is None:
            body = json.dumps(completion_of(answer) if answer.status == 200 else _error(answer)).encode()
        kind = _SSE if stream and answer.status == 200 else "application/json"
        self._head(answer, {"Content-Type": kind, "Content-Length": str(len(body))})
        self.wfile.write(body[: answer.cut_after])
        if answer.cut_after is not None:
            self._hang_up()

    def _head(self, answer: Answer, usual: Mapping[str, str]) -> None:
        self.send_response(answer.status)
        for name, value in {**usual, **answer.headers}.items():
            self.send_header(name, value)
        self.end_headers()

    def _hang_up(self) -> None:
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Tests are quiet."""


def _hold(answer: Answer, sent: int) -> None:
    if answer.hold is not None and answer.held_after == sent:
        answer.hold.wait(_LONGEST_HOLD)


def _error(answer: Answer) -> dict[str, Any]:
    said = answer.content or HTTPStatus(answer.status).phrase
    return {"error": {"message": said, "type": "scripted", "param": None, "code": None}}
