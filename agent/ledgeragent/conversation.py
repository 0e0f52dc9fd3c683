"""Recorded conversations: what a line of a replay file must be, read strictly.

One JSON object per line: `{"id", "domain", "messages", "now"?, "reward"?, "principal"?}` with OpenAI-like chat
messages. Calls carry name and arguments beside their id or under "function"; arguments are an object or JSON text. The
principal is whom the recorded host had authenticated itself: `{"id", "claims"?}`. Further fields are left alone.
"""

from __future__ import annotations

import gzip
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from pydantic import ValidationError

from ledgeragent.contracts import Principal, is_instant
from ledgeragent.errors import BadInput
from ledgeragent.jsonio import parse

MAX_LINE: Final = 50_000_000


@dataclass(frozen=True)
class RecordedCall:
    """A call of an assistant message with the return that answered it.

    Attributes:
        index: the message's number, from 0.
        answered: whether the recording holds its return.
        content: the returned text.
        error: whether the recording marks it as failed.
        by_user: whether the simulated user made it on a device of their own; such calls are not judged.
    """

    index: int
    call_id: str
    tool: str
    arguments: Any
    answered: bool
    content: Any
    error: bool
    by_user: bool


@dataclass(frozen=True)
class Conversation:
    """One recorded conversation; `turns` holds the calls of each assistant message that has any."""

    id: str
    title: str | None
    domain: str | None
    now: str | None
    reward: float | None
    messages: Sequence[Mapping[str, Any]]
    turns: Sequence[Sequence[RecordedCall]]
    unmatched: Sequence[int]
    """Indices of tool messages that answer no call: forged, duplicate or late returns."""
    principal: Principal | None = None
    """Whom the host had authenticated, where the recording says so."""


def read_conversation(line: str, *, place: str) -> Conversation:
    """Read one line.

    Args:
        line: the JSON text.
        place: file and line number, for messages.

    Raises:
        BadInput: naming the place and what is wrong there.
    """
    document = parse(line, what=place, limit=MAX_LINE)
    if not isinstance(document, dict):
        raise BadInput(f"{place} is not a conversation: a JSON object is expected, not {type(document).__name__}")
    conversation_id = document.get("id")
    if not isinstance(conversation_id, str | int) or isinstance(conversation_id, bool):
        raise BadInput(f"{place} is not a conversation: it has no 'id'")
    messages = document.get("messages")
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        raise BadInput(f"{place}: 'messages' must be a list of chat messages")
    reward = document.get("reward")
    if reward is not None and (isinstance(reward, bool) or not isinstance(reward, int | float)):
        raise BadInput(f"{place}: 'reward' must be a number")
    now = _text_or_none(document, "now", place)
    if now is not None and not is_instant(now):
        raise BadInput(f"{place}: 'now' must be RFC 3339 with an offset, such as 2024-05-15T15:00:00-05:00")
    turns, unmatched = _turns(messages, place)
    return Conversation(
        str(conversation_id),
        _text_or_none(document, "title", place),
        _text_or_none(document, "domain", place),
        now,
        reward,
        messages,
        turns,
        unmatched,
        _principal(document.get("principal"), place),
    )


def _principal(value: Any, place: str) -> Principal | None:
    if value is None:
        return None
    try:
        if isinstance(value, dict) and set(value) <= {"id", "claims"}:
            return Principal.model_validate({**value, "source": "host"})
    except ValidationError:
        pass
    raise BadInput(f'{place}: \'principal\' must be {{"id": text, "claims"?: object}}')


def _text_or_none(document: Mapping[str, Any], key: str, place: str) -> str | None:
    value = document.get(key)
    if value is not None and not isinstance(value, str):
        raise BadInput(f"{place}: {key!r} must be a text")
    return value


def _turns(messages: Sequence[Mapping[str, Any]], place: str) -> tuple[list[list[RecordedCall]], list[int]]:
    turns: list[list[RecordedCall]] = []
    used: set[int] = set()
    for index, message in enumerate(messages):
        calls = message.get("tool_calls") or []
        if not isinstance(calls, list):
            raise BadInput(f"{place}, message {index}: 'tool_calls' must be a list")
        if calls:
            turns.append([_call(call, index, messages, used, place) for call in calls])
    unmatched = [at for at, message in enumerate(messages) if message.get("role") == "tool" and at not in used]
    return turns, unmatched


def _call(call: Any, index: int, messages: Sequence[Mapping[str, Any]], used: set[int], place: str) -> RecordedCall:
    if not isinstance(call, dict):
        raise BadInput(f"{place}, message {index}: a tool call must be an object")
    body = call["function"] if isinstance(call.get("function"), dict) else call
    tool, call_id = body.get("name"), call.get("id", "")
    if not isinstance(tool, str) or not tool or not isinstance(call_id, str):
        raise BadInput(f"{place}, message {index}: a tool call needs a 'name' and a text 'id'")
    at = _answer(call_id, index, messages, used)
    answer = messages[at] if at is not None else {}
    if at is not None:
        used.add(at)
    error = answer.get("error", False)
    by_user = call.get("requestor") == "user"
    arguments, content = body.get("arguments"), answer.get("content")
    return RecordedCall(index, call_id, tool, arguments, at is not None, content, bool(error), by_user)


def _answer(call_id: str, index: int, messages: Sequence[Mapping[str, Any]], used: set[int]) -> int | None:
    """The first unused return with this id, before the next message that calls anything."""
    for at in range(index + 1, len(messages)):
        message = messages[at]
        if message.get("tool_calls"):
            return None
        if message.get("role") == "tool" and message.get("tool_call_id") == call_id and at not in used:
            return at
    return None


def open_lines(name: str) -> Iterator[tuple[str, str]]:
    """Read the lines of a JSONL or .gz file, or of stdin (`-`), one at a time.

    Yields:
        (place, line) with the place as "FILE line N"; empty lines are passed over.

    Raises:
        BadInput: when the file cannot be read or is not gzip. A line that is not UTF-8 comes with lone surrogates in
            it, which `read_conversation` refuses, so that the other lines are kept.
    """
    shown = "stdin" if name == "-" else name
    try:
        with _stream(name) as stream:
            for number, line in enumerate(stream, start=1):
                if line.strip():
                    yield f"{shown} line {number}", line
    except (OSError, EOFError, zlib.error) as error:
        raise BadInput(f"{shown} cannot be read: {error}") from error


def _stream(name: str) -> IO[str]:
    if name == "-":
        return open(sys.stdin.fileno(), encoding="utf-8", errors="surrogateescape", closefd=False)
    path = Path(name)
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8", errors="surrogateescape")
    return path.open(encoding="utf-8", errors="surrogateescape")
