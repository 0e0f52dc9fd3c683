"""OpenAI Agents SDK: an agent whose function tools, and those of the agents it can hand over to, are guarded.

A tool input guardrail asks the guard (allow, reject content, raise); the tool's invoker demands the ticket. What one
model response calls is one message. Tools that run anywhere but here cannot be guarded, and an agent that has one does
not start. Needs the extra `openai-agents`.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from typing import Any, Final

from agents import (
    Agent,
    AgentHooks,
    FunctionTool,
    ModelResponse,
    RunConfig,
    RunContextWrapper,
    Runner,
    ToolGuardrailFunctionOutput,
    ToolInputGuardrail,
    ToolInputGuardrailData,
)
from agents.items import ToolCallOutputItem
from agents.run import CallModelData, ModelInputData
from agents.testing import ScriptedModel, assistant_message, function_call
from agents.tool import set_function_tool_failure_error_function
from agents.tool_context import ToolContext

from ledgeragent.adapters.core import Call, Guard, Rejected, apart
from ledgeragent.errors import LedgerAgentError, WiringError

_PARTS: Final = {
    "mcp_servers": "the tools of its MCP servers",
    "prompt": "the tools of a prompt kept elsewhere",
}


def guarded(agent: Agent[Any], guard: Guard) -> Agent[Any]:
    """An agent for one conversation, like the one given, with all it can reach guarded. The given one stays as it is.

    Args:
        agent: with function tools and, as hand-overs, agents.
        guard: the conversation's.

    Raises:
        WiringError: when it can reach something that cannot be guarded, or the SDK does not ask the guard.
    """
    copies: dict[int, Agent[Any]] = {}
    first = _guarded(agent, guard, copies)
    for one in copies.values():
        apart(_prove(one, guard))
    return first


def with_ledger(guard: Guard, config: RunConfig | None = None) -> RunConfig:
    """A run's configuration under which the model sees the ledger as the last message of every request."""

    def shown(data: CallModelData[Any]) -> ModelInputData:
        given = data.model_data
        return ModelInputData([*given.input, {"role": "user", "content": guard.ledger_text()}], given.instructions)

    changed = copy.copy(config or RunConfig())
    changed.call_model_input_filter = shown
    return changed


def _guarded(agent: Agent[Any], guard: Guard, copies: dict[int, Agent[Any]]) -> Agent[Any]:
    if id(agent) in copies:
        return copies[id(agent)]
    if type(agent) is not Agent:
        raise WiringError(f"{type(agent).__name__} {agent.name!r} may bring tools of its own: give a plain Agent")
    for part, what in _PARTS.items():
        if getattr(agent, part):
            raise WiringError(f"agent {agent.name!r} has {part}: {what} cannot be guarded here")
    guard.check(_function_tool(agent, tool).name for tool in agent.tools)
    hooks = _Hooks(agent.hooks)
    hooks.tools = [_gated(tool, guard, hooks) for tool in agent.tools if isinstance(tool, FunctionTool)]
    own = copies[id(agent)] = agent.clone(tools=list(hooks.tools), hooks=hooks, handoffs=[])
    own.handoffs = [_guarded(_agent(agent, to), guard, copies) for to in agent.handoffs]
    return own


def _function_tool(agent: Agent[Any], tool: Any) -> FunctionTool:
    if not isinstance(tool, FunctionTool):
        raise WiringError(f"agent {agent.name!r} has a {type(tool).__name__}: it does not run here, nothing guards it")
    if getattr(tool, "_is_agent_tool", False):
        raise WiringError(f"tool {tool.name!r} is an agent with tools of its own: make it a hand-over")
    return tool


def _agent(agent: Agent[Any], to: Any) -> Agent[Any]:
    if not isinstance(to, Agent):
        raise WiringError(f"agent {agent.name!r} hands over through a {type(to).__name__}: give the agent itself")
    return to


class _Hooks(AgentHooks[Any]):  # type: ignore[misc]
    """Notes what the model calls in one message; whatever hooks the agent had are called too."""

    def __init__(self, before: Any) -> None:
        self.message: Sequence[Call] = ()
        self.tools: list[FunctionTool] = []
        self._before = before if before is not None else AgentHooks()

    def __getattribute__(self, name: str) -> Any:
        own = name in ("on_llm_start", "on_llm_end") or not name.startswith("on_")
        return object.__getattribute__(self, name) if own else getattr(self._before, name)

    async def on_llm_start(self, context: RunContextWrapper[Any], agent: Any, *more: Any) -> None:
        """Once more before every request: the list of tools can have been changed since."""
        if [id(tool) for tool in agent.tools] != [id(tool) for tool in self.tools] or agent.mcp_servers:
            raise WiringError(f"the tools of agent {agent.name!r} were changed after the start")
        await self._before.on_llm_start(context, agent, *more)

    async def on_llm_end(self, context: RunContextWrapper[Any], agent: Any, response: ModelResponse) -> None:
        self.message = [
            Call(item.name, item.arguments or "{}", item.call_id)
            for item in response.output
            if getattr(item, "type", None) == "function_call"
        ]
        await self._before.on_llm_end(context, agent, response)


def _gated(tool: FunctionTool, guard: Guard, hooks: _Hooks) -> FunctionTool:
    """A copy of a tool that asks the guard, and runs only what it admitted, with the arguments it judged."""
    inner, gated = copy.copy(tool), copy.copy(tool)
    # What the tool raises is its outcome; the SDK would make text of it first.
    set_function_tool_failure_error_function(inner, None)

    async def ask(data: ToolInputGuardrailData) -> ToolGuardrailFunctionOutput:
        at = data.context
        try:
            answer = await guard.ajudge(Call(tool.name, at.tool_arguments or "{}", at.tool_call_id), hooks.message)
        except LedgerAgentError as error:
            return ToolGuardrailFunctionOutput.raise_exception(error)
        if isinstance(answer, Rejected):
            return ToolGuardrailFunctionOutput.reject_content(answer.message, answer.review)
        return ToolGuardrailFunctionOutput.allow()

    async def invoke(context: ToolContext[Any], _: str) -> Any:
        returned = await guard.aexecute(
            tool.name, context.tool_call_id, lambda judged: inner.on_invoke_tool(context, json.dumps(judged))
        )
        return returned.content

    gated.on_invoke_tool = invoke
    gated.tool_input_guardrails = [*(tool.tool_input_guardrails or ()), ToolInputGuardrail(ask, "ledgeragent")]
    return gated


async def _prove(agent: Agent[Any], guard: Guard) -> None:
    """A scripted model calls each tool once, through the SDK's own runner; the guard must refuse."""
    tools = [tool for tool in agent.tools if isinstance(tool, FunctionTool)]
    if not tools:
        return
    calls = [function_call(tool.name, "{}", call_id=f"canary-{tool.name}") for tool in tools]
    trial = agent.clone(
        tools=[_at_once(tool) for tool in tools],
        input_guardrails=[],
        output_guardrails=[],
        output_type=None,
        tool_use_behavior="run_llm_again",
        handoffs=[],
        hooks=None,
    )
    config = RunConfig(model=ScriptedModel([calls, [assistant_message("done")]]), tracing_disabled=True)
    with guard.canary() as canary:
        result = await Runner.run(trial, "canary", run_config=config)
        outputs = [item for item in result.new_items if isinstance(item, ToolCallOutputItem)]
        answers = {item.raw_item["call_id"]: str(item.output) for item in outputs}
        canary.check({tool.name: answers.get(f"canary-{tool.name}", "") for tool in tools})


def _at_once(tool: FunctionTool) -> FunctionTool:
    """The tool itself, unless a person's approval or a condition would keep the canary from reaching it."""
    if tool.is_enabled is True and tool.needs_approval is False and len(tool.tool_input_guardrails or ()) == 1:
        return tool
    now = copy.copy(tool)
    now.is_enabled, now.needs_approval = True, False
    now.tool_input_guardrails = (tool.tool_input_guardrails or [])[-1:]
    return now
