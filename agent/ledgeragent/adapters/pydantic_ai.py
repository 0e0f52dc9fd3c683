"""pydantic-ai: an agent whose tools are guarded in every run, however it is run and whatever toolsets it is given.

A capability wraps the agent's assembled toolset. A revise comes back as `ModelRetry`, a block as `ToolFailed`. What the
hooks of other capabilities, or a person who approved, made of the arguments is what is judged. Tools that run anywhere
but here, and output functions, cannot be guarded. Needs the extra `pydantic-ai`.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from pydantic_ai import Agent
from pydantic_ai.agent import WrapperAgent
from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, ModelRetry, ToolFailed, ToolRetryError
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.output import TextOutput
from pydantic_ai.tools import RunContext
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool, WrapperToolset
from pydantic_core import SchemaValidator, ValidationError, core_schema

from ledgeragent.adapters.core import Call, Guard, Rejected, apart
from ledgeragent.errors import WiringError
from ledgeragent.loop import plain
from ledgeragent.session import ToolRefused

_PASSES: Final = (ModelRetry, ToolFailed, CallDeferred, ToolRetryError)
_ANYTHING: Final = SchemaValidator(core_schema.dict_schema())


def guarded(
    agent: Agent[Any, Any], guard: Guard, *, deps: Any = None, view: bool = True, max_revisions: int = 3
) -> WrapperAgent[Any, Any]:
    """An agent for one conversation that is run as the given one is. The given one stays as it is.

    Args:
        agent: the agent; its tools, also those that come with a run, must be declared in the domain.
        guard: the conversation's.
        deps: what the agent's instructions and toolsets need when the wiring is tried.
        view: whether the model sees the ledger as the last part of every request.
        max_revisions: so many times in a row the model may try a tool again; more where the tool says more.

    Raises:
        WiringError: when it can reach something that cannot be guarded, or pydantic-ai does not ask the guard.
    """
    own = _Agent(agent, guard, view, max_revisions)
    apart(_prove(own, guard, deps))
    return own


class _Agent(WrapperAgent[Any, Any]):  # type: ignore[misc]
    def __init__(self, agent: Agent[Any, Any], guard: Guard, view: bool, max_revisions: int) -> None:
        super().__init__(agent)
        self._hook = _Hook(guard, view, max_revisions)

    @asynccontextmanager
    async def iter(self, *given: Any, capabilities: Sequence[Any] | None = None, **about: Any) -> AsyncIterator[Any]:
        if about.get("spec") is not None:
            raise WiringError("a spec replaces what an agent can do: give a guarded agent none")
        if _runs_functions(self.output_type) or _runs_functions(about.get("output_type")):
            raise WiringError("an output function runs what the model decides, and nothing would guard it")
        async with super().iter(*given, capabilities=[*(capabilities or ()), self._hook], **about) as run:
            yield run

    def realtime(self, *_: Any, **__: Any) -> Any:
        raise WiringError("a realtime session does not go through the guard")


@dataclass
class _Hook(AbstractCapability[Any]):  # type: ignore[misc]
    guard: Guard
    view: bool
    max_revisions: int

    def get_ordering(self) -> CapabilityOrdering:
        return CapabilityOrdering(position="outermost")

    def get_wrapper_toolset(self, toolset: AbstractToolset[Any]) -> AbstractToolset[Any]:
        return _Guarded(toolset, self.guard, self.max_revisions)

    async def prepare_model_request(self, ctx: RunContext[Any], request_context: Any) -> Any:  # noqa: ARG002 - its signature
        native = request_context.model_request_parameters.native_tools
        if native:
            raise WiringError(f"{native[0].kind} runs at the model's provider: nothing guards it")
        ledger = [ModelRequest([UserPromptPart(self.guard.ledger_text())])] if self.view else []
        return replace(request_context, messages=[*request_context.messages, *ledger])


@dataclass
class _Guarded(WrapperToolset[Any]):  # type: ignore[misc]
    guard: Guard
    max_revisions: int

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        tools = await super().get_tools(ctx)
        self.guard.check(tools)
        away = [name for name, tool in tools.items() if tool.tool_def.kind == "external"]
        if away:
            raise WiringError(f"{', '.join(away)} runs elsewhere, after the run has ended: nothing guards it")
        return {name: self._open(tool) for name, tool in tools.items()}

    def _open(self, tool: ToolsetTool[Any]) -> ToolsetTool[Any]:
        tries = max(tool.max_retries, self.max_revisions)
        if not self.guard.on_trial:
            return replace(tool, max_retries=tries)
        at_once = replace(tool.tool_def, kind="function")
        return replace(tool, tool_def=at_once, max_retries=tries, args_validator=_ANYTHING, args_validator_func=None)

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        message = _message(ctx)
        raw = next((part.args for part in message if part.tool_call_id == ctx.tool_call_id), None)
        call = Call(name, _given(raw, tool_args, ctx, tool), ctx.tool_call_id or "")
        others = [Call(part.tool_name, part.args or "{}", part.tool_call_id) for part in message if _runs(part, ctx)]
        answer = await self.guard.ajudge(call, () if ctx.tool_call_approved else others)
        if isinstance(answer, Rejected):
            final = answer.review is not None and answer.review.verdict == "block"
            raise ToolFailed(answer.message) if final else ModelRetry(answer.message)
        asks: list[ApprovalRequired] = []

        async def run(judged: dict[str, Any]) -> Any:
            values = tool.args_validator.validate_json(json.dumps(judged), context=ctx.validation_context)
            try:
                return await self.wrapped.call_tool(name, values, ctx, tool)
            except ApprovalRequired as error:
                asks.append(error)
                raise ToolRefused("a person is asked first") from error

        returned = await self.guard.aexecute(name, answer.call_id, run, passes=_PASSES)
        if asks:
            raise asks[0]
        return returned.content


def _given(raw: Any, validated: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]) -> Any:
    """The arguments as the model wrote them; where they were edited since, as they are now."""
    text = raw if isinstance(raw, str) and raw else json.dumps(raw or {})
    try:
        same = tool.args_validator.validate_json(text, context=ctx.validation_context) == validated
    except ValidationError:
        same = False
    return text if same else plain(validated)


def _message(ctx: RunContext[Any]) -> list[ToolCallPart]:
    last = next((one for one in reversed(ctx.messages) if isinstance(one, ModelResponse)), None)
    return [part for part in last.parts if isinstance(part, ToolCallPart)] if last is not None else []


def _runs(part: ToolCallPart, ctx: RunContext[Any]) -> bool:
    """Whether a call of the message at hand runs now, and not after a person's approval or as the run's output."""
    found = ctx.tool_manager.get_tool_def(part.tool_name) if ctx.tool_manager is not None else None
    return found is not None and found.kind == "function"


def _runs_functions(output: Any) -> bool:
    if isinstance(output, Sequence):
        return any(map(_runs_functions, output))
    inner = getattr(output, "output", getattr(output, "outputs", None))
    known = output is None or isinstance(output, type) or hasattr(output, "__origin__")
    return _runs_functions(inner) if inner is not None else isinstance(output, TextOutput) or not known


async def _prove(agent: _Agent, guard: Guard, deps: Any) -> None:
    """A scripted model calls each tool once, in a run like any other; the guard must refuse."""
    asked: list[str] = []
    answers: dict[str, str] = {}

    def script(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if asked or not info.function_tools:
            parts = [part for message in messages[1:] for part in message.parts]
            answers.update({one.tool_name: str(one.content) for one in parts if isinstance(one, ToolReturnPart)})
            raise _Enough
        asked.extend(tool.name for tool in info.function_tools)
        return ModelResponse([ToolCallPart(name, {}, f"canary-{name}") for name in asked])

    with guard.canary() as canary:
        with suppress(_Enough):
            await agent.run("canary", model=FunctionModel(script), deps=deps)
        if asked:
            canary.check({name: answers.get(name, "") for name in asked})


class _Enough(Exception):
    """The canary's run is over."""
