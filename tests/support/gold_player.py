"""Plays a written list of calls as a chat model would, and the customer who lets it: for the benchmark's orchestrator.

What comes next is read off the conversation alone, so the same script serves a model in this process, one behind HTTP,
and the benchmark's own agent. A call that is not let through gets the reads that its rejection names, and is proposed
again; after three rejections, or a refusal, the script goes on without it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

JSON = Any
Arguments = Mapping[str, Any]
Fill = Callable[[str, Arguments, Arguments], list[Arguments] | None]
"""Tool of a named read, its arguments as far as they are given, arguments of the rejected write → the reads to make;
None when this alternative cannot be taken."""

CLOSING = "That is all."
GO_ON = "Please go on."
_PLEASE = "On your device, please do "
_READ = re.compile(r'(\w+)\(((?:[^()"]|"(?:[^"\\]|\\.)*")*)\)')
_ARGUMENT = re.compile(r'(\w+)=("(?:[^"\\]|\\.)*"|<ask the user>)')
_SETTLE = "Settle it first, then propose the call again: "


@dataclass(frozen=True)
class Script:
    """What to play.

    Attributes:
        actions: the calls, as tasks list them; those of the user are asked for.
        closing: what the customer has to be told in the end.
        fill: knows what the rejections leave open.
    """

    actions: Sequence[JSON]
    closing: str
    fill: Fill


@dataclass(frozen=True)
class Line:
    """The next message: a call, or a text."""

    text: str = ""
    call: tuple[str, Arguments] | None = None


def next_line(script: Script, messages: Sequence[Mapping[str, Any]]) -> Line:
    """What the model says next.

    Args:
        script: what to play.
        messages: the conversation as chat messages.
    """
    place = _Place(script)
    for message in messages:
        place.take(message)
    return place.next()


class _Place:
    """Where in its script a conversation is."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._at = 0
        self._rejections = 0
        self._reads: list[tuple[str, Arguments]] = []
        self._calls: dict[str, tuple[str, Arguments]] = {}
        self._asked = False

    @property
    def _action(self) -> JSON | None:
        actions = self._script.actions
        return actions[self._at] if self._at < len(actions) else None

    def take(self, message: Mapping[str, Any]) -> None:
        if message["role"] == "tool":
            self._returned(self._calls[message["tool_call_id"]], message["content"])
        elif message["role"] == "assistant":
            for call in message.get("tool_calls") or ():
                self._calls[call["id"]] = (call["function"]["name"], json.loads(call["function"]["arguments"]))
            self._asked = (message.get("content") or "").startswith(_PLEASE)
        elif message["role"] == "user" and self._asked and not message["content"].startswith("<ledger>"):
            self._go_on()

    def next(self) -> Line:
        if self._reads:
            return Line(call=self._reads[0])
        action = self._action
        if action is None:
            return Line(text=f"{CLOSING} {self._script.closing}")
        if action.get("requestor") == "user":
            return Line(text=_PLEASE + json.dumps({"name": action["name"], "arguments": action["arguments"]}))
        return Line(call=(action["name"], action["arguments"]))

    def _returned(self, call: tuple[str, Arguments], content: str) -> None:
        if self._reads:
            assert call == self._reads.pop(0)
            return
        assert self._action is not None
        assert call == (self._action["name"], self._action["arguments"])
        tool, arguments = call
        if not content.startswith((f"{tool} was not executed", f"{tool} was refused")):
            self._go_on()
            return
        self._rejections += 1
        self._reads = _named_reads(content, arguments, self._script.fill)
        if self._rejections == 3 or content.startswith(f"{tool} was refused"):
            self._go_on()

    def _go_on(self) -> None:
        self._at += 1
        self._rejections = 0
        self._reads = []
        self._asked = False


def _named_reads(content: str, write: Arguments, fill: Fill) -> list[tuple[str, Arguments]]:
    """The reads that a rejection names: of alternatives the first that can be taken."""
    _, _, named = content.partition(_SETTLE)
    found: list[tuple[str, Arguments]] = []
    for wanted in named.split(", and "):
        for tool, text in _READ.findall(wanted):
            given = {name: json.loads(value) for name, value in _ARGUMENT.findall(text) if value[0] == '"'}
            reads = fill(tool, given, write)
            if reads is not None:
                found += [(tool, arguments) for arguments in reads if (tool, arguments) not in found]
                break
    return found


def asked_for(text: str) -> tuple[str, Arguments] | None:
    """What the agent asks the customer to do on their device."""
    if not text.startswith(_PLEASE):
        return None
    wanted = json.loads(text.removeprefix(_PLEASE))
    return wanted["name"], wanted["arguments"]
