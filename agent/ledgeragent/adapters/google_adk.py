"""Google ADK: an agent whose tools, and those of its sub-agents, are guarded.

A `before_tool_callback`, the last of the agent's, asks the guard; the tools are stand-ins that demand the ticket and
take the return before any `after_tool_callback` changes it. The calls of one model response are judged together. Tools
that run anywhere but here cannot be guarded, and an agent that has one does not start. Needs the extra `google-adk`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from google.adk.agents import BaseAgent, LlmAgent, LoopAgent, ParallelAgent, SequentialAgent
from google.adk.models import LlmRequest, LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.tools import AgentTool, BaseTool, FunctionTool, ToolContext
from google.adk.tools.set_model_response_tool import SetModelResponseTool
from google.adk.tools.transfer_to_agent_tool import TransferToAgentTool
from google.genai.types import Content, FunctionCall, Part

from ledgeragent.adapters.core import Call, Guard, Rejected, apart
from ledgeragent.errors import WiringError
from ledgeragent.session import ToolRefused

_FLOWS: Final = (SequentialAgent, ParallelAgent, LoopAgent)
_OWN: Final = (TransferToAgentTool, SetModelResponseTool)
"""ADK's own tools, which change nothing but whose turn it is."""


def guarded(agent: BaseAgent, guard: Guard, *, view: bool = True, state: Mapping[str, Any] | None = None) -> BaseAgent:
    """An agent for one conversation, like the one given, with all it can reach guarded. The given one stays as it is.

    Args:
        agent: with functions and tools that run here, and sub-agents that have no others.
        guard: the conversation's.
        view: whether the model sees the ledger at the end of every request.
        state: what the agents' instructions need of the session's state when the wiring is tried.

    Raises:
        WiringError: when it can reach something that cannot be guarded, or ADK does not ask the guard.
    """
    copies: list[LlmAgent] = []
    first = _guarded(agent, guard, view, copies)
    for one in copies:
        apart(_prove(one, guard, dict(state or {})))
    return first


def _guarded(agent: BaseAgent, guard: Guard, view: bool, copies: list[LlmAgent]) -> BaseAgent:
    update: dict[str, Any] = {"sub_agents": [_guarded(one, guard, view, copies) for one in agent.sub_agents]}
    if type(agent) in _FLOWS:
        return agent.clone(update)
    if type(agent) is not LlmAgent:
        raise WiringError(f"{type(agent).__name__} {agent.name!r} may do what nothing guards: give an LlmAgent")
    if agent.code_executor is not None:
        raise WiringError(f"agent {agent.name!r} runs code of the model's: nothing guards it")
    tools = [_Gated(_checked(agent, tool), guard) for tool in agent.tools]
    guard.check(tool.name for tool in tools)
    hook = _Hook(guard, tools, view)
    update["tools"] = tools
    update["before_tool_callback"] = [*agent.canonical_before_tool_callbacks, hook.before_tool]
    update["before_model_callback"] = [hook.trial, *agent.canonical_before_model_callbacks, hook.before_model]
    copies.append(agent.clone(update))
    return copies[-1]


def _checked(agent: LlmAgent, tool: Any) -> BaseTool:
    made = tool if isinstance(tool, BaseTool) else FunctionTool(tool) if callable(tool) else None
    named = f"{type(tool).__name__} {getattr(tool, 'name', '')!r} of agent {agent.name!r}"
    if made is None or isinstance(tool, BaseAgent):
        raise WiringError(f"{named} is no tool: give a toolset's own tools (`await toolset.get_tools()`)")
    if isinstance(made, AgentTool) or getattr(made, "_defers_response", False):
        raise WiringError(f"{named} is an agent with tools of its own: make it a sub-agent")
    if type(made).process_llm_request is not BaseTool.process_llm_request or made._get_declaration() is None:
        raise WiringError(f"{named} does not run here: nothing guards it")
    return made


class _Gated(BaseTool):  # type: ignore[misc]
    """Stands for a tool: the same to the model; runs it only for a call that was admitted."""

    def __init__(self, inner: BaseTool, guard: Guard) -> None:
        super().__init__(name=inner.name, description=inner.description, is_long_running=inner.is_long_running)
        self._inner = inner
        self._guard = guard

    def _get_declaration(self) -> Any:
        return self._inner._get_declaration()

    async def check_require_confirmation(self, args: dict[str, Any], tool_context: ToolContext) -> bool:
        asks = await self._inner.check_require_confirmation(args, tool_context) is True
        if asks and tool_context.tool_confirmation is None:
            self._guard.forgo(tool_context.function_call_id or "")
        return asks

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> Any:  # noqa: ARG002 - its signature
        kept: list[Any] = []
        call_id = tool_context.function_call_id or ""

        async def run(judged: dict[str, Any]) -> Any:
            kept.append(await self._inner.run_async(args=judged, tool_context=tool_context))
            if call_id in tool_context.actions.requested_tool_confirmations:
                raise ToolRefused("a person is asked first")
            return kept[0]

        returned = await self._guard.aexecute(self.name, call_id, run)
        return kept[0] if kept else {"error": returned.text}


class _Hook:
    def __init__(self, guard: Guard, tools: Sequence[_Gated], view: bool) -> None:
        self._guard = guard
        self._tools = {tool.name: tool for tool in tools}
        self._view = view

    async def before_tool(self, tool: BaseTool, args: dict[str, Any], tool_context: ToolContext) -> Any:
        if isinstance(tool, _OWN):
            return None
        call = Call(tool.name, args, tool_context.function_call_id or "")
        answer = await self._guard.ajudge(call, self._message(call.call_id, tool_context.session.events))
        return {"error": answer.message} if isinstance(answer, Rejected) else None

    def trial(self, callback_context: Any, llm_request: LlmRequest) -> LlmResponse | None:  # noqa: ARG002 - its signature
        """Plays the model for the canary; the agent's own callbacks are left out of it."""
        if not self._guard.on_trial:
            return None
        if any(part.function_response for content in llm_request.contents for part in content.parts or ()):
            return LlmResponse(content=Content(role="model", parts=[Part(text="done")]))
        calls = [FunctionCall(id=f"canary-{name}", name=name, args={}) for name in self._tools]
        return LlmResponse(content=Content(role="model", parts=[Part(function_call=call) for call in calls]))

    def before_model(self, callback_context: Any, llm_request: LlmRequest) -> None:  # noqa: ARG002 - its signature
        """Once more before every request: tools can have been added since."""
        strange = [tool for tool in llm_request.tools_dict.values() if not self._knows(tool)]
        hosted = [one for one in llm_request.config.tools or () if not getattr(one, "function_declarations", None)]
        if strange or hosted:
            raise WiringError("the model is offered tools that were added after the start: nothing guards them")
        if self._view:
            llm_request.contents.append(Content(role="user", parts=[Part(text=self._guard.ledger_text())]))

    def _knows(self, tool: BaseTool) -> bool:
        return isinstance(tool, _OWN) or self._tools.get(tool.name) is tool

    def _message(self, call_id: str, events: Sequence[Any]) -> list[Call]:
        """The calls of the response at hand that nothing has answered yet."""
        for at in range(len(events) - 1, -1, -1):
            calls = events[at].get_function_calls()
            if any(call.id == call_id for call in calls):
                answered = {one.id for event in events[at:] for one in event.get_function_responses()}
                own = [call for call in calls if call.name in self._tools and call.id not in answered]
                return [Call(call.name, call.args or {}, call.id or "") for call in own]
        return []


async def _prove(agent: LlmAgent, guard: Guard, state: dict[str, Any]) -> None:
    """Each tool is called once, in a run like any other; the guard must refuse."""
    if not agent.tools:
        return
    sessions = InMemorySessionService()
    where = {"user_id": "canary", "session_id": "canary"}
    await sessions.create_session(app_name="canary", state=state, **where)
    runner = Runner(app_name="canary", agent=agent, session_service=sessions)
    said = Content(role="user", parts=[Part(text="canary")])
    answers: dict[str, str] = {}
    with guard.canary() as canary:
        async for event in runner.run_async(new_message=said, **where):
            answers.update({str(one.name): str(one.response) for one in event.get_function_responses()})
        canary.check({tool.name: answers.get(tool.name, "") for tool in agent.tools})
