"""What the tests of the LangChain adapter build agents of: a scripted chat model, and tools made of a function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import StructuredTool
from pydantic import Field

Run = Callable[[str, dict[str, Any]], Any]


class Script(BaseChatModel):
    """Gives its answers in order; `asked` holds the messages of every request."""

    answers: list[Any]
    asked: list[Any] = Field(default_factory=list)

    def _generate(self, messages: list[Any], *_: Any, **__: Any) -> ChatResult:
        self.asked.append(messages)
        return ChatResult(generations=[ChatGeneration(message=self.answers.pop(0))])

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self

    @property
    def _llm_type(self) -> str:
        return "script"


def says(*proposed: tuple[str, Any], first: int = 0) -> AIMessage:
    """One message of the model."""
    return AIMessage(
        "",
        tool_calls=[
            {"name": name, "args": dict(given), "id": f"c{at}"} for at, (name, given) in enumerate(proposed, first)
        ],
    )


def tool_of(name: str, run: Run, fields: Sequence[str] = ("email", "order_id", "reason")) -> StructuredTool:
    """A tool that takes these texts."""
    schema = {"type": "object", "properties": {key: {"type": "string"} for key in fields}}

    def call(**arguments: Any) -> Any:
        return run(name, arguments)

    async def acall(**arguments: Any) -> Any:
        return run(name, arguments)

    return StructuredTool(name=name, description=name, args_schema=schema, func=call, coroutine=acall)
