"""OpenAI Agents SDK, the real one, with its scripted model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from needs import need_framework

need_framework("agents", "openai-agents")

from agents import (
    Agent,
    AgentHooks,
    FunctionTool,
    RunConfig,
    Runner,
    WebSearchTool,
    function_tool,
    handoff,
)
from agents.exceptions import ToolInputGuardrailTripwireTriggered
from agents.items import ToolCallOutputItem
from agents.testing import ScriptedModel, assistant_message, function_call
from agents.tool_context import ToolContext

from ledgeragent.adapters.core import Guard
from ledgeragent.adapters.openai_agents import guarded, with_ledger
from ledgeragent.errors import SessionClosed, WiringError
from ledgeragent.gate import Gate
from ledgeragent.session import Session, ToolRefused
from support import five, retail

pytest_plugins = ["support.fixtures"]

CANCEL = retail.cancel().arguments
Run = Callable[[str, dict[str, Any]], Any]


def tool_of(name: str, run: Run) -> FunctionTool:
    """A tool made of a function, as the SDK makes them."""

    async def invoke(context: ToolContext[Any], arguments: str) -> Any:
        return five.as_text(run(name, json.loads(arguments)))

    return FunctionTool(name, name, {"type": "object", "properties": {}}, invoke, strict_json_schema=False)


def agent_of(run: Run, *names: str, **about: Any) -> Agent[Any]:
    return Agent("desk", tools=[tool_of(name, run) for name in names], **about)


def config(*steps: Any) -> RunConfig:
    return RunConfig(model=ScriptedModel(steps), tracing_disabled=True)


def calls(*proposed: tuple[str, Any], first: int = 0) -> list[Any]:
    """One message of the model."""
    return [function_call(name, given, call_id=f"c{number}") for number, (name, given) in enumerate(proposed, first)]


def answers(items: list[Any]) -> list[str]:
    """What the model read in its calls' places."""
    return [str(item.output) for item in items if isinstance(item, ToolCallOutputItem)]


def script(table: five.Table) -> RunConfig:
    steps = [calls((step.tool, step.arguments), first=at) for at, step in enumerate(table.conversation.steps)]
    return config(*steps, [assistant_message("Done.")])


def desk_of(table: five.Table) -> Agent[Any]:
    names = dict.fromkeys(step.tool for step in table.conversation.steps)
    return guarded(agent_of(table.run, *names), Guard(table.session))


def test_an_agent_comes_to_the_same(table: five.Table, tmp_path: Path) -> None:
    result = asyncio.run(Runner.run(desk_of(table), "Go on.", run_config=script(table)))
    table.check(answers(result.new_items), tmp_path)


def test_so_does_one_that_streams(table: five.Table, tmp_path: Path) -> None:
    async def play() -> list[str]:
        result = Runner.run_streamed(desk_of(table), "Go on.", run_config=script(table))
        async for _ in result.stream_events():
            pass
        return answers(result.new_items)

    table.check(asyncio.run(play()), tmp_path)


def test_so_does_one_of_decorated_functions(table: five.Table, tmp_path: Path) -> None:
    @function_tool
    def find_user_id_by_email(email: str) -> str:
        return str(table.run("find_user_id_by_email", {"email": email}))

    @function_tool
    def get_order_details(order_id: str) -> str:
        return five.as_text(table.run("get_order_details", {"order_id": order_id}))

    @function_tool
    def cancel_pending_order(order_id: str, reason: str) -> str:
        return str(table.run("cancel_pending_order", {"order_id": order_id, "reason": reason}))

    agent = Agent("desk", tools=[find_user_id_by_email, get_order_details, cancel_pending_order])
    result = asyncio.run(Runner.run(guarded(agent, Guard(table.session)), "Go on.", run_config=script(table)))
    table.check(answers(result.new_items), tmp_path)


def play(agent: Agent[Any], *proposed: tuple[str, Any]) -> list[str]:
    """One message with these calls, then words."""
    run_config = config(calls(*proposed), [assistant_message("Done.")])
    return answers(asyncio.run(Runner.run(agent, "Go on.", run_config=run_config)).new_items)


def done(name: str, arguments: dict[str, Any]) -> str:
    return "done"


def test_calls_of_one_message_see_each_other_as_siblings_and_run_in_its_order(session: Session) -> None:
    ran: list[str] = []
    move, back, cancel = retail.move(), retail.give_back(), retail.cancel()
    proposed = [(call.tool, call.arguments) for call in (move, back, cancel)]
    agent = guarded(agent_of(lambda name, _: ran.append(name), *(name for name, _ in proposed)), Guard(session))
    before = session.turn
    play(agent, *proposed)
    assert session.turn == before + 1
    assert ran == [name for name, _ in proposed]
    assert retail.history(session) == [(name, "executed") for name, _ in proposed]


@pytest.mark.parametrize(
    ("error", "said", "history"),
    [
        (ToolRefused("no"), "Error: no", []),
        (OSError("gone"), "may have been carried out", [("cancel_pending_order", "uncertain")]),
    ],
)
def test_what_a_decorated_function_raises_is_its_outcome_and_not_its_return(
    session: Session, error: Exception, said: str, history: Any
) -> None:
    @function_tool
    def cancel_pending_order(order_id: str, reason: str) -> str:
        raise error

    [answer] = play(guarded(Agent("desk", tools=[cancel_pending_order]), Guard(session)), (*_CANCEL,))
    assert said in answer
    assert retail.history(session) == history


_CANCEL = ("cancel_pending_order", CANCEL)


def test_no_arguments_at_all_are_an_empty_object(session: Session) -> None:
    proposed = ("list_all_product_types", "")
    assert play(guarded(agent_of(done, "list_all_product_types"), Guard(session)), proposed) == ["done"]


def test_the_tools_of_an_agent_it_hands_over_to_are_guarded_both_ways(session: Session) -> None:
    first = agent_of(done, "get_order_details")
    second = Agent("second", tools=[tool_of("cancel_pending_order", done)], handoffs=[first])
    first.handoffs = [second]
    agent = guarded(first, Guard(session))
    to = calls(("transfer_to_second", {}))
    blocked = calls(("cancel_pending_order", {**CANCEL, "order_id": "#W2"}), first=1)
    result = asyncio.run(Runner.run(agent, "Go on.", run_config=config(to, blocked, [assistant_message("No.")])))
    assert "was refused" in answers(result.new_items)[-1]
    assert agent.handoffs[0].handoffs == [agent]  # type: ignore[union-attr]


def test_the_model_sees_the_ledger_at_the_end_of_every_request_and_never_in_the_history(session: Session) -> None:
    guard = Guard(session)
    model = ScriptedModel([[assistant_message("Done.")]])
    shown = with_ledger(guard, RunConfig(model=model, tracing_disabled=True))
    result = asyncio.run(Runner.run(guarded(agent_of(done, "get_order_details"), guard), "Hi.", run_config=shown))
    assert [item["content"] for item in model.calls[0].input] == ["Hi.", guard.ledger_text()]  # type: ignore[index,union-attr]
    assert "<ledger>" not in json.dumps(result.to_input_list())


def test_hooks_that_the_agent_had_are_still_called(session: Session) -> None:
    heard: list[str] = []

    class Hears(AgentHooks[Any]):
        async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
            heard.append("answer")

        async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
            heard.append(tool.name)

    play(guarded(agent_of(done, "cancel_pending_order", hooks=Hears()), Guard(session)), _CANCEL)
    assert heard == ["answer", "cancel_pending_order", "answer"]


# What does not start ------------------------------------------------------------------------------------------------


async def _to(agent: Agent[Any]) -> Agent[Any]:
    return agent


@pytest.mark.parametrize(
    ("about", "reason"),
    [
        ({"tools": [WebSearchTool()]}, "WebSearchTool: it does not run here"),
        ({"tools": [tool_of("drop_table", done)]}, "does not declare drop_table"),
        ({"tools": [Agent("inner").as_tool("get_order_details", "x")]}, "is an agent with tools of its own"),
        ({"handoffs": [handoff(Agent("other"))]}, "hands over through a Handoff"),
        ({"handoffs": [Agent("other", tools=[WebSearchTool()])]}, "agent 'other' has a WebSearchTool"),
        ({"mcp_servers": [object()]}, "MCP servers cannot be guarded"),
        ({"prompt": {"id": "pmpt_1"}}, "a prompt kept elsewhere cannot be guarded"),
    ],
)
def test_an_agent_that_can_reach_what_cannot_be_guarded_does_not_start(
    session: Session, about: dict[str, Any], reason: str
) -> None:
    with pytest.raises(WiringError, match=reason):
        guarded(Agent("desk", **about), Guard(session))


def test_nor_does_one_of_a_kind_that_brings_its_own_tools(session: Session) -> None:
    class Special(Agent[Any]):
        pass

    with pytest.raises(WiringError, match="Special 'desk' may bring tools of its own"):
        guarded(Special("desk"), Guard(session))


@pytest.mark.parametrize(
    ("instead", "reason"),
    [(None, "reached the executor of cancel_pending_order"), ("Fine.", "was not answered by the guard")],
)
def test_nor_does_one_whose_dispatch_does_not_ask(
    session: Session, monkeypatch: pytest.MonkeyPatch, instead: str | None, reason: str
) -> None:
    async def asks_nobody(**_: Any) -> str | None:
        return instead

    monkeypatch.setattr("agents.run_internal.tool_execution._execute_tool_input_guardrails", asks_nobody)
    with pytest.raises(WiringError, match=reason):
        guarded(agent_of(done, "cancel_pending_order"), Guard(session))


def test_a_condition_or_an_approval_does_not_keep_the_canary_away(session: Session) -> None:
    tool = tool_of("cancel_pending_order", done)
    tool.is_enabled, tool.needs_approval = False, True
    agent = guarded(Agent("desk", tools=[tool]), Guard(session))
    assert (agent.tools[0].is_enabled, agent.tools[0].needs_approval) == (False, True)  # type: ignore[union-attr]


def test_a_call_after_a_persons_approval_is_judged_then_and_not_before(session: Session) -> None:
    tool = tool_of("cancel_pending_order", done)
    tool.needs_approval = True
    agent = guarded(Agent("desk", tools=[tool]), Guard(session))
    run_config = config(calls(_CANCEL), [assistant_message("Done.")])

    async def approved() -> list[str]:
        result = await Runner.run(agent, "Go on.", run_config=run_config)
        assert retail.history(session) == []
        state = result.to_state()
        state.approve(result.interruptions[0])
        return answers((await Runner.run(agent, state, run_config=run_config)).new_items)

    assert asyncio.run(approved()) == ["done"]
    assert retail.history(session) == [("cancel_pending_order", "executed")]


# What goes around the guard -----------------------------------------------------------------------------------------


def test_a_tool_whose_guardrail_is_taken_away_refuses(session: Session) -> None:
    agent = guarded(agent_of(done, "cancel_pending_order"), Guard(session))
    [tool] = agent.tools
    tool.tool_input_guardrails = []  # type: ignore[union-attr]
    with pytest.raises(Exception, match="without having been judged"):
        play(agent, _CANCEL)
    assert retail.history(session) == []


def test_a_tool_that_is_added_after_the_start_stops_the_run(session: Session) -> None:
    agent = guarded(agent_of(done, "cancel_pending_order"), Guard(session))
    agent.tools.append(tool_of("get_order_details", done))
    with pytest.raises(Exception, match="were changed after the start"):
        play(agent, ("get_order_details", {"order_id": "#W1"}))


def test_a_session_that_has_ended_stops_the_run(session: Session) -> None:
    agent = guarded(agent_of(done, "cancel_pending_order"), Guard(session))
    session.close()
    with pytest.raises(ToolInputGuardrailTripwireTriggered) as stopped:
        play(agent, _CANCEL)
    assert isinstance(stopped.value.output.output_info, SessionClosed)


def test_the_agent_that_was_given_stays_as_it_was(session: Session, gate: Gate) -> None:
    agent = agent_of(done, "cancel_pending_order")
    guarded(agent, Guard(session))
    assert play(agent, _CANCEL) == ["done"]
    assert "Not read" in play(guarded(agent, Guard(Session(gate, now=retail.NOW))), _CANCEL)[0]
