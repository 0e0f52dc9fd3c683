"""Makes one `Generation` of what a chat-completions endpoint sends: chunk by chunk, or as one object.

Pure: bytes come from elsewhere. It takes what endpoints really send (deltas without index or id, `content: null`,
usage in any chunk or none) and refuses what is no answer, rather than guess.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from ledgeragent.errors import ModelAnswer, ModelUnreachable
from ledgeragent.model import Generation, ProposedCall, Usage

_MAX_QUOTED: Final = 200

OnText = Callable[[str], None]
"""Takes text as it comes, piece by piece."""


class _Function(BaseModel):
    name: str | None = None
    arguments: Any = None


class _CallPart(BaseModel):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Part(BaseModel):
    content: str | None = None
    refusal: str | None = None
    tool_calls: list[_CallPart] | None = None


class _Choice(BaseModel):
    index: int | None = None
    delta: _Part | None = None
    message: _Part | None = None
    finish_reason: str | None = None


class _CachedTokens(BaseModel):
    cached_tokens: int | None = None


class _Tokens(BaseModel):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _CachedTokens | None = None


class _Chunk(BaseModel):
    choices: list[_Choice] | None = None
    usage: _Tokens | None = None


@dataclass
class _Call:
    id: str = ""
    name: str = ""
    arguments: str = ""

    @property
    def proposed(self) -> ProposedCall:
        # Some endpoints send nothing at all for a call without arguments.
        return ProposedCall(*map(whole_characters, (self.id, self.name, self.arguments or "{}")))


class Assembler:
    """Assembles one answer."""

    def __init__(self, where: str, on_text: OnText | None = None, safe: Callable[[str], str] = str) -> None:
        """Begin an answer.

        Args:
            where: the endpoint, for error messages.
            on_text: is handed the text as it comes.
            safe: takes secrets out of what the endpoint said, for error messages.
        """
        self._where = where
        self._on_text = on_text
        self._safe = safe
        self._text: list[str] = []
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._usage: Usage | None = None
        self._finish: str | None = None

    def feed(self, chunk: object) -> None:
        """Take the next chunk of a stream, as its JSON value.

        Raises:
            ModelAnswer: when it is not a chunk of a chat completion.
        """
        read = self._read(chunk)
        for choice in read.choices or ():
            if choice.index in (None, 0):
                self._take(choice.delta or _Part())
                self._finish = choice.finish_reason or self._finish

    def done(self) -> Generation:
        """The answer, at the end of its stream.

        Raises:
            ModelUnreachable: when the stream ended without saying why: it was cut off.
        """
        if self._finish is None:
            raise ModelUnreachable(
                f"{self._where} ended its answer without a finish reason: it broke off; try again, or without streaming"
            )
        return self._generation(self._finish)

    def whole(self, text: str) -> Generation:
        """An answer that came as one body.

        Raises:
            ModelAnswer: when it is not a chat completion.
        """
        try:
            document = json.loads(text)
        except (ValueError, RecursionError):
            raise self._no_answer("not JSON", text) from None
        choices = [one for one in self._read(document).choices or () if one.index in (None, 0)]
        if not choices or choices[0].message is None:
            raise self._no_answer("no message in it", text)
        message = choices[0].message
        for number, call in enumerate(message.tool_calls or ()):
            call.index = number
        self._take(message)
        return self._generation(choices[0].finish_reason or "stop")

    def _generation(self, finish: str) -> Generation:
        calls = tuple(one.proposed for one in self._calls)
        return Generation(whole_characters("".join(self._text)), calls, self._usage, finish)

    def _read(self, chunk: object) -> _Chunk:
        try:
            read = _Chunk.model_validate(chunk)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = ".".join(str(key) for key in first["loc"])
            problem = f"{place}: {first['msg']}" if place else "no JSON object"
            raise self._no_answer(problem, json.dumps(chunk, ensure_ascii=False)) from None
        if read.usage is not None:
            cached = read.usage.prompt_tokens_details
            self._usage = Usage(
                read.usage.prompt_tokens or 0,
                read.usage.completion_tokens or 0,
                (cached.cached_tokens if cached is not None else None) or 0,
            )
        return read

    def _take(self, part: _Part) -> None:
        for text in (part.content, part.refusal):
            if text:
                self._text.append(text)
                if self._on_text is not None:
                    self._on_text(text)
        for piece in part.tool_calls or ():
            self._take_call(piece)

    def _take_call(self, piece: _CallPart) -> None:
        function = piece.function or _Function()
        name = function.name or ""
        call = self._continued(piece, name)
        if call is None:
            call = _Call()
            self._calls.append(call)
        if piece.index is not None:
            self._by_index[piece.index] = call
        call.id = call.id or piece.id or ""
        if name != call.name:  # some repeat the whole name with every piece
            call.name += name
        call.arguments += _text(function.arguments)

    def _continued(self, piece: _CallPart, name: str) -> _Call | None:
        """The call a piece goes on with; None when it begins another.

        The index says it. Endpoints that leave it out, or give all calls the same, tell calls apart by their ids, and
        those without ids send each call whole: a name then begins a call.
        """
        latest = self._calls[-1] if self._calls else None
        call = latest if piece.index is None else self._by_index.get(piece.index)
        if call is None or not (name and call.name):
            return call
        another = piece.id != call.id if piece.id else piece.index is None
        return None if another else call

    def _no_answer(self, problem: str, text: str) -> ModelAnswer:
        return ModelAnswer(
            f"{self._where} gave an answer that is no chat completion ({problem}). "
            f"Does the base URL lead to a chat-completions API?",
            said=quoted(self._safe(text)),
        )


def quoted(text: str) -> str:
    """What an endpoint said, short and on one line."""
    line = " ".join(text.split())
    return repr(line if len(line) <= _MAX_QUOTED else line[:_MAX_QUOTED] + "…")


def _text(arguments: Any) -> str:
    """The arguments as text; some endpoints give the object itself."""
    if arguments is None:
        return ""
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def whole_characters(text: str) -> str:
    """The text with halves of characters (surrogates) joined, where endpoints cut between them, or replaced."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
