"""A model that answers from a list, and keeps what it was asked."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ledgeragent.model import Definition, Generation, Message, ProposedCall, Usage


class ScriptedModel:
    """Gives its answers in order; an exception among them is raised. `asked` holds the messages of every request."""

    def __init__(self, *answers: Generation | Exception) -> None:
        self.asked: list[list[Message]] = []
        self._answers = list(answers)

    def generate(self, messages: Sequence[Message], tools: Sequence[Definition]) -> Generation:
        self.asked.append(copy.deepcopy(list(messages)))
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


class AsyncScriptedModel:
    """The same, awaited."""

    def __init__(self, *answers: Generation | Exception) -> None:
        self._model = ScriptedModel(*answers)
        self.asked = self._model.asked

    async def generate(self, messages: Sequence[Message], tools: Sequence[Definition]) -> Generation:
        return self._model.generate(messages, tools)


def says(text: str, usage: Usage | None = None) -> Generation:
    """An answer in words."""
    return Generation(text, usage=usage)


def calls(*proposed: tuple[str, Mapping[str, Any] | str], text: str = "", usage: Usage | None = None) -> Generation:
    """An answer that calls tools: (name, arguments or their text) each."""
    made = tuple(
        ProposedCall(f"call-{number}", name, given if isinstance(given, str) else json.dumps(given))
        for number, (name, given) in enumerate(proposed)
    )
    return Generation(text, made, usage, "tool_calls")


def problem_of(messages: Iterable[Message]) -> str | None:
    """Why a provider would not take these messages, or None: what the chat-completions API asks of a history."""
    waiting: list[str] = []
    seen: set[str] = set()
    for number, message in enumerate(messages):
        if not isinstance(message.get("content"), str):
            return f"message {number} has no text content"
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                return f"message {number} answers no call that waits"
            waiting.remove(message["tool_call_id"])
            continue
        if waiting:
            return f"message {number} comes before the answers to {waiting}"
        for call in message.get("tool_calls", ()):
            if call["id"] in seen or call["type"] != "function":
                return f"message {number}: call {call['id']} is not a new function call"
            if not isinstance(json.loads(call["function"]["arguments"]), dict):
                return f"message {number}: the arguments are no object"
            seen.add(call["id"])
            waiting.append(call["id"])
        if message["role"] == "assistant" and not message["content"] and not message.get("tool_calls"):
            return f"message {number} is empty"
    return f"no answer to {waiting}" if waiting else None
