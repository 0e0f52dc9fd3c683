"""Models behind an OpenAI-compatible endpoint, through the `openai` package (extra `openai`).

`OpenAIModel` and `AsyncOpenAIModel` ask, read the answer and say what went wrong in errors of ours. Only the transport
is ever tried again, never what the model said. What an answer is made of is `assembling`'s part.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Self
from urllib.parse import urlsplit

from ledgeragent.errors import BadInput, ModelAnswer, ModelError, ModelRefused, ModelUnreachable
from ledgeragent.jsonio import check
from ledgeragent.model import Definition, Generation, Message
from ledgeragent.models.assembling import Assembler, OnText, quoted, whole_characters

try:
    import httpx2
    import openai
except ModuleNotFoundError as missing:
    raise BadInput(
        f"ledgeragent.models.openai needs the package openai, version 3 ({missing}): pip install 'ledgeragent[openai]'"
    ) from None

_NO_KEY: Final = "none"  # the package insists on a key, endpoints of one's own need none
_OURS: Final = frozenset({"model", "messages", "tools", "stream"})
_OVERLOADED: Final = frozenset({408, 429})
_HINTS: Final = {
    401: "check the API key",
    403: "check what the API key may do",
    404: "check the model's name and the base URL, which mostly ends in /v1",
}
_END: Final = object()


class _Chat:
    """What both models share: how to ask, and what went wrong."""

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float = 60.0,
        retries: int = 2,
        stream: bool = True,
        options: Mapping[str, Any] = MappingProxyType({}),
        on_text: OnText | None = None,
    ) -> None:
        """Set up a model; nothing is sent yet.

        Args:
            model: its name at the endpoint.
            base_url: of the API, mostly ending in `/v1`; default: `OPENAI_BASE_URL`, else OpenAI's own.
            api_key: default: `OPENAI_API_KEY`; an endpoint of one's own may need none.
            timeout: seconds to wait for a connection, and for the next bytes of an answer.
            retries: so many times in all a request is sent again: when the endpoint cannot be reached, says nothing in
                time, answers 408, 409, 429 or 5xx, or breaks off a stream.
            stream: whether to ask for the answer piece by piece.
            options: go into every request as they are (`temperature`, `seed`, `max_tokens`, …).
            on_text: is handed the text as it comes; after a stream that broke off the answer begins anew.

        Raises:
            BadInput: when base URL, key or options cannot be used.
        """
        base_url = base_url or os.environ.get("OPENAI_BASE_URL")
        api_key = api_key or os.environ.get("OPENAI_API_KEY")
        if not base_url and not api_key:
            raise BadInput("no API key: give api_key, set OPENAI_API_KEY, or give the base_url of an endpoint without")
        check(dict(options), what="options")
        if taken := _OURS & options.keys():
            raise BadInput(f"options must not hold {', '.join(sorted(taken))}: the model sets them itself")
        self.model = model
        self._key = api_key
        self._timeout = timeout
        self._retries = retries
        self._stream = stream
        self._options = dict(options)
        self._on_text = on_text
        self._where = f"model {model!r} at {_shown(base_url)}"
        self._client = self._open(base_url=base_url, api_key=api_key or _NO_KEY, timeout=timeout)

    def _open(self, **about: Any) -> Any:
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self._where}>"

    def _request(self, messages: Sequence[Message], tools: Sequence[Definition]) -> dict[str, Any]:
        if self._client.is_closed():
            raise ModelUnreachable(f"{self._where} was closed; make another one")
        request: dict[str, Any] = {
            "model": self.model,
            "messages": [_sendable(message) for message in messages],
            "stream": self._stream,
            "extra_body": self._options,
        }
        if self._stream:
            request["stream_options"] = {"include_usage": True}
        if tools:
            request["tools"] = list(tools)
        return request

    def _assembler(self) -> Assembler:
        return Assembler(self._where, self._on_text, self._safe)

    @contextlib.contextmanager
    def _asking(self) -> Iterator[None]:
        """Errors before an answer began; the package has tried again by then."""
        try:
            yield
        except openai.APIStatusError as error:
            raise self._refusal(error) from None
        except openai.APITimeoutError:
            raise ModelUnreachable(
                f"{self._where} gave no answer within {self._timeout} s; give it a longer timeout, or try again later"
            ) from None
        except openai.APIConnectionError as error:
            raise ModelUnreachable(
                f"{self._where} cannot be reached ({self._cause(error)}); is it running there?"
            ) from None
        except (openai.OpenAIError, RuntimeError) as error:
            raise ModelUnreachable(
                f"{self._where} cannot be asked ({type(error).__name__})", said=self._quoted(error)
            ) from None

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        """Errors once an answer began."""
        try:
            yield
        except (openai.APIConnectionError, httpx2.HTTPError) as error:
            raise ModelUnreachable(
                f"{self._where} broke off in the middle of its answer ({self._cause(error)}); try again later"
            ) from None
        except openai.APIError as error:
            raise ModelAnswer(f"{self._where} reported an error instead of an answer", said=self._said(error)) from None
        except (ValueError, RecursionError) as error:
            raise ModelAnswer(
                f"{self._where} sent an event that is not JSON ({error}); does the base URL lead to a "
                f"chat-completions API?"
            ) from None

    def _refusal(self, error: openai.APIStatusError) -> ModelError:
        status, said = error.status_code, self._said(error)
        if status in _OVERLOADED or status >= 500:
            return ModelUnreachable(f"{self._where} answered {status}; try again later", said=said)
        hint = _HINTS.get(status, "change the request or the base URL")
        return ModelRefused(f"{self._where} answered {status}; {hint}", status=status, said=said)

    def _said(self, error: openai.APIError) -> str:
        said = error.body.get("message") if isinstance(error.body, Mapping) else error.body
        return quoted(self._safe(str(said or error.message)))

    def _cause(self, error: Exception) -> str:
        cause = error.__cause__ or error
        # What goes wrong before anything is exchanged is told in the system's words; later ones quote the exchange.
        said = f": {cause}" if isinstance(cause, httpx2.ConnectError | httpx2.ConnectTimeout) else ""
        return self._safe(type(cause).__name__ + said)

    def _quoted(self, error: Exception) -> str:
        return quoted(self._safe(str(error)))

    def _safe(self, text: str) -> str:
        """Without the key, which some endpoints repeat."""
        return text.replace(self._key, "[API key]") if self._key else text


class OpenAIModel(_Chat):
    """A model behind an OpenAI-compatible endpoint. May be shared by threads; `close` it or use it in a `with`."""

    def _open(self, **about: Any) -> openai.OpenAI:
        return openai.OpenAI(http_client=openai.DefaultHttpxClient(follow_redirects=False), **about)

    def generate(self, messages: Sequence[Message], tools: Sequence[Definition]) -> Generation:
        """As `Model.generate`.

        Raises:
            ModelUnreachable: no connection, no answer in time, an overloaded endpoint or a stream that broke off,
                after all retries.
            ModelRefused: the endpoint did not take key or request.
            ModelAnswer: what came is no chat completion.
        """
        request, left = self._request(messages, tools), self._retries
        while True:
            with self._asking():
                client = self._client.with_options(max_retries=left)
                raw = client.chat.completions.with_raw_response.create(**request)
            left -= raw.retries_taken
            try:
                return self._read(raw)
            except ModelUnreachable:
                if not left:
                    raise
                left -= 1

    def _read(self, raw: Any) -> Generation:
        assembler = self._assembler()
        with contextlib.closing(raw.http_response):
            if not _is_stream(raw):
                with self._reading():
                    raw.http_response.read()
                return assembler.whole(raw.text)
            events = iter(raw.parse(to=openai.Stream[object]))
            while True:
                with self._reading():
                    event = next(events, _END)
                if event is _END:
                    return assembler.done()
                assembler.feed(event)

    def close(self) -> None:
        """Close its connections."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncOpenAIModel(_Chat):
    """As `OpenAIModel`, awaited; for one event loop."""

    def _open(self, **about: Any) -> openai.AsyncOpenAI:
        return openai.AsyncOpenAI(http_client=openai.DefaultAsyncHttpxClient(follow_redirects=False), **about)

    async def generate(self, messages: Sequence[Message], tools: Sequence[Definition]) -> Generation:
        """As `OpenAIModel.generate`."""
        request, left = self._request(messages, tools), self._retries
        while True:
            with self._asking():
                client = self._client.with_options(max_retries=left)
                raw = await client.chat.completions.with_raw_response.create(**request)
            left -= raw.retries_taken
            try:
                return await self._read(raw)
            except ModelUnreachable:
                if not left:
                    raise
                left -= 1

    async def _read(self, raw: Any) -> Generation:
        assembler = self._assembler()
        async with contextlib.aclosing(raw.http_response):
            if not _is_stream(raw):
                with self._reading():
                    await raw.http_response.aread()
                return assembler.whole(raw.text)
            events = aiter(raw.parse(to=openai.AsyncStream[object]))
            while True:
                with self._reading():
                    event = await anext(events, _END)
                if event is _END:
                    return assembler.done()
                assembler.feed(event)

    async def close(self) -> None:
        """Close its connections."""
        await self._client.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _is_stream(raw: Any) -> bool:
    return str(raw.headers.get("content-type", "")).startswith("text/event-stream")


def _shown(base_url: str | None) -> str:
    """The endpoint for messages: without the credentials and parameters an address can carry."""
    if base_url is None:
        return "OpenAI"
    try:
        parts = urlsplit(base_url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        parts, port = urlsplit(""), ""
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise BadInput("base_url must begin with http:// or https:// and a host, as http://localhost:8080/v1 does")
    return f"{parts.scheme}://{parts.hostname}{port}{parts.path}"


def _sendable(message: Message) -> Message:
    """A message that can be written as UTF-8: half a character in a text would stop every further request."""
    content = message.get("content")
    if not isinstance(content, str) or content.isascii():
        return message
    return {**message, "content": whole_characters(content)}
