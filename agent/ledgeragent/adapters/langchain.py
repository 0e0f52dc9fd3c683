"""LangChain and LangGraph: an agent, or a tool node for a graph of your own, whose tools are guarded.

`wrap_tool_call` asks the guard, as the innermost middleware: what others change before is what is judged. The tools in
the node are stand-ins that demand the ticket and call the real ones. The calls of one model message are judged
together. Needs the extra `langchain`.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool, tool
from langgraph.errors import GraphBubbleUp
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import interrupt
from pydantic import PrivateAttr

from ledgeragent.adapters.core import Call, Guard, Rejected, Stops, apart
from ledgeragent.errors import WiringError
from ledgeragent.toolset import ToolFailed

_ALIKE = ("name", "description", "return_direct", "tags", "metadata", "response_format", "extras", "func", "coroutine")
_WAYS = ("wrap_tool_call", "awrap_tool_call")


def guarded_agent(
    guard: Guard,
    model: Any,
    tools: Sequence[Any],
    *,
    middleware: Sequence[AgentMiddleware[Any, Any]] = (),
    view: bool = True,
    interrupts: bool = False,
    **about: Any,
) -> Any:
    """An agent for one conversation, as `create_agent` makes it.

    Args:
        guard: the conversation's.
        model: as for `create_agent`.
        tools: functions and tools that run here, each declared in the domain.
        middleware: as for `create_agent`; none with tools of its own.
        view: whether the model sees the ledger as the last message of every request.
        interrupts: whether the graph stops with an approval request, to be resumed with a grant; see the page.
        about: anything else for `create_agent`.

    Raises:
        WiringError: when it can reach something that cannot be guarded, or LangChain does not ask the guard.
    """
    for one in middleware:
        if getattr(one, "tools", ()):
            raise WiringError(f"middleware {type(one).__name__} has tools of its own: nothing would guard them")
    gated = _gated(guard, tools)
    hook = _Hook(guard, gated, view, (lambda asked: interrupt(asked.model_dump())) if interrupts else None)
    agent = create_agent(model, gated, middleware=[*middleware, hook], **about)
    if gated:
        _prove(guard, agent.nodes["tools"].bound, gated, _ways(middleware))
    return agent


def guarded_node(guard: Guard, tools: Sequence[Any], **about: Any) -> ToolNode:
    """A tool node for a graph of your own, as `guarded_agent`. What other nodes do is not looked at."""
    hook = _Hook(guard, gated := _gated(guard, tools), view=False)
    node = ToolNode(gated, wrap_tool_call=hook.wrap_tool_call, awrap_tool_call=hook.awrap_tool_call, **about)
    _prove(guard, node, gated, _WAYS)
    return node


class _Hook(AgentMiddleware[Any, Any]):  # type: ignore[misc]
    def __init__(self, guard: Guard, tools: Sequence[BaseTool], view: bool, stops: Stops | None = None) -> None:
        super().__init__()
        self._guard, self._known, self._view, self._stops = guard, list(tools), view, stops

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[Any], Any]) -> Any:
        answer = self._guard.judge(*_asked(request), stops=self._stops)
        return _rejected(answer) if isinstance(answer, Rejected) else handler(request)

    async def awrap_tool_call(self, request: ToolCallRequest, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        answer = await self._guard.ajudge(*_asked(request), stops=self._stops)
        return _rejected(answer) if isinstance(answer, Rejected) else await handler(request)

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        return handler(self._shown(request))

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        return await handler(self._shown(request))

    def _shown(self, request: Any) -> Any:
        """Other middleware can have added tools; the ledger goes to the end and not into the history."""
        if not all(any(one is known for known in self._known) for one in request.tools):
            raise WiringError("the model is offered tools that were added after the start: nothing guards them")
        shown = [HumanMessage(self._guard.ledger_text())] if self._view else []
        return request.override(messages=[*request.messages, *shown])


class _Gated(BaseTool):  # type: ignore[misc]
    """Stands for a tool: the same to the model; runs it only for a call that was admitted."""

    func: Any = None
    """Only looked at, for the arguments that the graph fills in."""
    coroutine: Any = None
    _inner: BaseTool = PrivateAttr()
    _guard: Guard = PrivateAttr()

    def invoke(self, input: Any, config: Any = None, **more: Any) -> Any:  # noqa: A002 - its name in LangChain
        kept: list[Any] = []

        def run(judged: dict[str, Any]) -> Any:
            kept.append(self._inner.invoke({**input, "args": {**input["args"], **judged}}, config, **more))
            return _content(kept[0])

        returned = self._guard.execute(self.name, _id(input), run, passes=(GraphBubbleUp,))
        return kept[0] if returned.outcome == "executed" else _failed(self.name, _id(input), returned.text)

    async def ainvoke(self, input: Any, config: Any = None, **more: Any) -> Any:  # noqa: A002 - its name in LangChain
        kept: list[Any] = []

        async def run(judged: dict[str, Any]) -> Any:
            kept.append(await self._inner.ainvoke({**input, "args": {**input["args"], **judged}}, config, **more))
            return _content(kept[0])

        returned = await self._guard.aexecute(self.name, _id(input), run, passes=(GraphBubbleUp,))
        return kept[0] if returned.outcome == "executed" else _failed(self.name, _id(input), returned.text)

    def _run(self, *_: Any, **__: Any) -> Any:
        return self.invoke({})


def _gated(guard: Guard, tools: Iterable[Any]) -> list[BaseTool]:
    made = []
    for one in tools:
        if isinstance(one, dict):
            name = one.get("name", one.get("type"))
            raise WiringError(f"tool {name} runs at the model's provider: nothing guards it")
        inner = one if isinstance(one, BaseTool) else tool(one)
        alike = {name: getattr(inner, name, None) for name in _ALIKE}
        gated = _Gated(args_schema=inner.args_schema or inner.get_input_schema(), **alike)
        gated._inner, gated._guard = inner, guard
        made.append(gated)
    guard.check(one.name for one in made)
    return made


def _ways(middleware: Iterable[Any]) -> list[str]:
    """How the agent can be run: a middleware that wraps tool calls in one way leaves only that."""
    own = [{way for way in _WAYS if getattr(type(one), way) is not getattr(AgentMiddleware, way)} for one in middleware]
    return [way for way in _WAYS if all(way in ways or not ways for ways in own)]


def _prove(guard: Guard, node: ToolNode, tools: Sequence[BaseTool], ways: Sequence[str]) -> None:
    """Each tool is called once through the node itself, in a graph of its own; the guard must refuse."""
    if list(node.tools_by_name.values()) != list(tools):
        raise WiringError("the agent's tool node does not hold the tools it was given")
    graph = StateGraph(MessagesState).add_node("tools", node).add_edge(START, "tools").compile()
    calls = [{"name": one.name, "args": {}, "id": f"canary-{one.name}"} for one in tools]
    given = {"messages": [AIMessage("", tool_calls=calls)]}
    with guard.canary() as canary:
        for way in ways:
            state = graph.invoke(given) if way == "wrap_tool_call" else apart(graph.ainvoke(given))
            read = {one.tool_call_id: str(one.content) for one in state["messages"] if isinstance(one, ToolMessage)}
            canary.check({one.name: read.get(f"canary-{one.name}", "") for one in tools})


def _asked(request: ToolCallRequest) -> tuple[Call, list[Call]]:
    """The call, and those of its message that nothing has answered yet."""
    state = request.state
    messages = state if isinstance(state, list) else state.get("messages", []) if isinstance(state, dict) else []
    answered = {one.tool_call_id for one in messages if isinstance(one, ToolMessage)}
    said: list[Any] = next((one.tool_calls for one in reversed(messages) if isinstance(one, AIMessage)), [])
    own, *message = [Call(one["name"], one["args"], one["id"] or "") for one in (request.tool_call, *said)]
    return own, [call for call in message if call.call_id not in answered]


def _rejected(answer: Rejected) -> ToolMessage:
    return _failed(answer.call.tool, answer.call.call_id, answer.message)


def _failed(name: str, call_id: str, text: str) -> ToolMessage:
    return ToolMessage(text, name=name, tool_call_id=call_id, status="error")


def _id(given: Any) -> str:
    return str(given.get("id") or "") if isinstance(given, dict) else ""


def _content(returned: Any) -> Any:
    """What the tool returned, for the ledger; a tool that hides its failure in a message has failed."""
    if not isinstance(returned, ToolMessage):
        return json.dumps(str(returned))  # a command to the graph: no fact
    if returned.status == "error":
        raise ToolFailed(str(returned.content))
    return returned.content
