"""What the loop needs of a chat model: one method, and the shapes it takes and gives.

Messages and tool definitions are those of the chat-completions protocol, as plain JSON values; a model that speaks
another protocol translates inside its method. `ledgeragent.models` has the one that is shipped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

Message = Mapping[str, Any]
"""One chat message: `role`, `content`, and `tool_calls` or `tool_call_id` where they belong."""
Definition = Mapping[str, Any]
"""One tool as the model sees it: `{"type": "function", "function": {"name", "description", "parameters"}}`."""


@dataclass(frozen=True)
class Usage:
    """Tokens of one generation, as the provider counts them.

    Attributes:
        prompt: tokens of the request.
        completion: tokens of the answer.
        cached: tokens of the request that the provider had at hand; 0 where it does not say.
    """

    prompt: int
    completion: int
    cached: int = 0


@dataclass(frozen=True)
class ProposedCall:
    """A tool call as the model wrote it.

    Attributes:
        id: the provider's id; may be empty.
        name: the tool's name, which may be made up.
        arguments: the JSON text, which may be malformed.
    """

    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class Generation:
    """One answer of a model.

    Attributes:
        content: its text, or "". A refusal is text.
        calls: the tool calls it proposes, in order.
        usage: tokens, or None where the provider does not count.
        finish: why it ended, in the provider's word (`stop`, `tool_calls`, `length`, …).
        cost: in the provider's currency, or None.
    """

    content: str = ""
    calls: tuple[ProposedCall, ...] = ()
    usage: Usage | None = None
    finish: str = "stop"
    cost: float | None = None


class Model(Protocol):
    """Anything with this method is a model."""

    def generate(self, messages: Sequence[Message], tools: Sequence[Definition]) -> Generation:
        """Answer a conversation.

        Args:
            messages: the conversation, oldest first.
            tools: what it may call.

        Raises:
            ModelError: when there is no answer.
        """
        ...


class AsyncModel(Protocol):
    """The same, awaited."""

    async def generate(self, messages: Sequence[Message], tools: Sequence[Definition]) -> Generation:
        """As `Model.generate`."""
        ...
