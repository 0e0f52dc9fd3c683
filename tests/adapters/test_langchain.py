"""LangChain and LangGraph, the real ones, with a scripted chat model."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any

import pytest

from needs import need_framework

need_framework("langchain", "langchain")

from langchain.agents.middleware import AgentMiddleware, HumanInTheLoopMiddleware, ToolRetryMiddleware
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import StructuredTool, ToolException
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState
from langgraph.types import Command, interrupt

from ledgeragent.adapters.core import Guard
from ledgeragent.adapters.langchain import guarded_agent, guarded_node
from ledgeragent.errors import SessionClosed, TicketError, WiringError
from ledgeragent.session import Session, ToolRefused
from support import five, retail
from support.langchain_agents import Script, says, tool_of

pytest_plugins = ["support.fixtures"]

CANCEL = ("cancel_pending_order", retail.cancel().arguments)
READ = ("get_order_details", {"order_id": "#W1"})


def script(table: five.Table) -> Script:
    steps = [says((step.tool, step.arguments), first=at) for at, step in enumerate(table.conversation.steps)]
    return Script(answers=[*steps, AIMessage("Done.")])


def tools_of(table: five.Table) -> list[Any]:
    return [tool_of(name, table.run) for name in dict.fromkeys(step.tool for step in table.conversation.steps)]


def read(state: Any) -> list[str]:
    """What the model read in its calls' places."""
    return [str(one.content) for one in state["messages"] if isinstance(one, ToolMessage)]


HI = {"messages": [("user", "Go on.")]}


def test_an_agent_comes_to_the_same(table: five.Table, tmp_path: Path) -> None:
    agent = guarded_agent(Guard(table.session), script(table), tools_of(table))
    table.check(read(agent.invoke(HI)), tmp_path)


def test_so_does_one_that_is_awaited(table: five.Table, tmp_path: Path) -> None:
    agent = guarded_agent(Guard(table.session), script(table), tools_of(table))
    table.check(read(asyncio.run(agent.ainvoke(HI))), tmp_path)


def test_so_does_one_that_streams(table: five.Table, tmp_path: Path) -> None:
    agent = guarded_agent(Guard(table.session), script(table), tools_of(table))
    *_, last = agent.stream(HI, stream_mode="values")
    table.check(read(last), tmp_path)


def test_so_does_one_of_plain_functions(table: five.Table, tmp_path: Path) -> None:
    def find_user_id_by_email(email: str) -> Any:
        """Find a customer."""
        return table.run("find_user_id_by_email", {"email": email})

    def get_order_details(order_id: str) -> Any:
        """Look up an order."""
        return table.run("get_order_details", {"order_id": order_id})

    def cancel_pending_order(order_id: str, reason: str) -> Any:
        """Cancel an order."""
        return table.run("cancel_pending_order", {"order_id": order_id, "reason": reason})

    tools = [find_user_id_by_email, get_order_details, cancel_pending_order]
    agent = guarded_agent(Guard(table.session), script(table), tools)
    table.check(read(agent.invoke(HI)), tmp_path)


def test_so_does_a_tool_node_in_a_graph_of_ones_own(table: five.Table, tmp_path: Path) -> None:
    node = guarded_node(Guard(table.session), tools_of(table))
    graph = StateGraph(MessagesState).add_node("tools", node).add_edge(START, "tools").compile()
    answers = []
    for at, step in enumerate(table.conversation.steps):
        answers += read(graph.invoke({"messages": [says((step.tool, step.arguments), first=at)]}))
    table.check(answers, tmp_path)


def done(name: str, arguments: dict[str, Any]) -> str:
    return "done"


def play(session: Session, tools: list[Any], *proposed: tuple[str, Any], **about: Any) -> list[str]:
    """One message with these calls, then words."""
    agent = guarded_agent(
        Guard(session), Script(answers=[says(*proposed), AIMessage("Done.")]), tools, view=False, **about
    )
    return read(agent.invoke(HI))


def test_calls_of_one_message_see_each_other_as_siblings_and_run_in_its_order(session: Session) -> None:
    ran: list[str] = []
    proposed = [(call.tool, call.arguments) for call in (retail.move(), retail.give_back(), retail.cancel())]
    schema = {"type": "object", "properties": {}, "additionalProperties": True}
    tools = [
        StructuredTool(name=name, description=name, args_schema=schema, coroutine=_noting(ran, name))
        for name, _ in proposed
    ]
    agent = guarded_agent(Guard(session), Script(answers=[says(*proposed), AIMessage("Done.")]), tools)
    before = session.turn
    asyncio.run(agent.ainvoke(HI))
    assert session.turn == before + 1
    assert ran == [name for name, _ in proposed]
    assert retail.history(session) == [(name, "executed") for name, _ in proposed]


def _noting(ran: list[str], name: str) -> Any:
    async def call(**_: Any) -> str:
        ran.append(name)
        return "done"

    return call


@pytest.mark.parametrize(
    ("error", "said", "history"),
    [
        (ToolRefused("no"), "Error: no", []),
        (OSError("gone"), "may have been carried out", [("cancel_pending_order", "uncertain")]),
        (ToolException("gone"), "may have been carried out", [("cancel_pending_order", "uncertain")]),
    ],
)
@pytest.mark.parametrize("handled", [False, True])
def test_what_a_tool_raises_is_its_outcome_even_where_langchain_makes_text_of_it(
    session: Session, error: Exception, said: str, history: Any, handled: bool
) -> None:
    def fails(name: str, arguments: dict[str, Any]) -> None:
        raise error

    tool = tool_of("cancel_pending_order", fails)
    tool.handle_tool_error = handled
    [answer] = play(session, [tool], CANCEL)
    assert said in answer
    assert retail.history(session) == history


def test_arguments_that_the_graph_fills_in_reach_the_tool_and_not_the_gate(session: Session) -> None:
    got: list[Any] = []

    def cancel_pending_order(order_id: str, reason: str, state: Annotated[dict[str, Any], InjectedState]) -> str:
        """Cancel an order."""
        got.append((order_id, reason, len(state["messages"])))
        return "done"

    assert play(session, [cancel_pending_order], CANCEL) == ["done"]
    assert got == [("#W1", "no longer needed", 2)]


def test_an_interrupt_in_a_tool_reaches_the_graph_and_its_write_counts_as_uncertain(session: Session) -> None:
    def asks(name: str, arguments: dict[str, Any]) -> Any:
        return interrupt("Sure?")

    model = Script(answers=[says(CANCEL), AIMessage("Done.")])
    agent = guarded_agent(Guard(session), model, [tool_of("cancel_pending_order", asks)], checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "one"}}
    assert agent.invoke(HI, config)["__interrupt__"][0].value == "Sure?"
    assert retail.history(session) == [("cancel_pending_order", "uncertain")]


def test_a_call_that_a_person_edited_is_judged_as_it_then_stands(session: Session) -> None:
    agent = guarded_agent(
        Guard(session),
        Script(answers=[says(CANCEL), AIMessage("Done.")]),
        [tool_of("cancel_pending_order", done)],
        middleware=[HumanInTheLoopMiddleware({"cancel_pending_order": True})],
        checkpointer=InMemorySaver(),
    )
    config = {"configurable": {"thread_id": "one"}}
    agent.invoke(HI, config)
    assert retail.history(session) == []
    edited = {"name": CANCEL[0], "args": {**CANCEL[1], "order_id": "#W2"}}
    resume = Command(resume={"decisions": [{"type": "edit", "edited_action": edited}]})
    assert "was refused" in read(agent.invoke(resume, config))[0]


def test_a_call_that_a_person_turned_down_is_no_sibling_of_the_others(session: Session) -> None:
    move = (retail.move().tool, retail.move().arguments)
    agent = guarded_agent(
        Guard(session),
        Script(answers=[says(CANCEL, move), AIMessage("Done.")]),
        [tool_of(CANCEL[0], done), tool_of(move[0], done)],
        middleware=[HumanInTheLoopMiddleware({CANCEL[0]: True, move[0]: True})],
        checkpointer=InMemorySaver(),
    )
    config = {"configurable": {"thread_id": "one"}}
    agent.invoke(HI, config)
    decisions = [{"type": "reject", "message": "No."}, {"type": "approve"}]
    assert "done" in read(agent.invoke(Command(resume={"decisions": decisions}), config))
    assert retail.history(session) == [(move[0], "executed")]


def test_a_retried_write_is_judged_each_time(session: Session) -> None:
    def fails(name: str, arguments: dict[str, Any]) -> None:
        raise OSError("gone")

    retry = ToolRetryMiddleware(max_retries=2, initial_delay=0, retry_on=(Exception,))
    [answer] = play(session, [tool_of("cancel_pending_order", fails)], CANCEL, middleware=[retry])
    assert "may have been carried out" in answer
    assert retail.history(session) == [("cancel_pending_order", "uncertain")]


def test_the_model_sees_the_ledger_at_the_end_of_every_request_and_never_in_the_history(session: Session) -> None:
    guard, model = Guard(session), Script(answers=[AIMessage("Done.")])
    state = guarded_agent(guard, model, [tool_of(READ[0], done)]).invoke(HI)
    assert [message.content for message in model.asked[0]] == ["Go on.", guard.ledger_text()]
    assert [message.content for message in state["messages"]] == ["Go on.", "Done."]


# What does not start ------------------------------------------------------------------------------------------------


class Brings(AgentMiddleware):
    """Middleware with a tool of its own."""

    tools = [tool_of("get_order_details", done)]  # noqa: RUF012


class Answers(AgentMiddleware):
    """Middleware that answers in the tools' place."""

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        return ToolMessage("Fine.", tool_call_id=request.tool_call["id"])


class GoesAround(AgentMiddleware):
    """Middleware that puts a tool of its own in the place of the guarded one."""

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        return await request.tool.ainvoke({**request.tool_call, "type": "tool_call"})


@pytest.mark.parametrize(
    ("tools", "middleware", "reason"),
    [
        ([{"type": "web_search"}], [], "web_search runs at the model's provider"),
        ([tool_of("drop_table", done)], [], "does not declare drop_table"),
        ([], [Brings()], "Brings has tools of its own"),
        ([tool_of(*CANCEL[:1], done)], [Answers()], "was not answered by the guard"),
        ([tool_of(*CANCEL[:1], done)], [GoesAround()], "canary call reached the executor of cancel_pending_order"),
    ],
)
def test_an_agent_that_can_reach_what_cannot_be_guarded_does_not_start(
    session: Session, tools: list[Any], middleware: list[Any], reason: str
) -> None:
    with pytest.raises(WiringError, match=reason):
        guarded_agent(Guard(session), Script(answers=[]), tools, middleware=middleware)


def test_a_tool_that_middleware_offers_the_model_meanwhile_stops_the_run(session: Session) -> None:
    class Offers(AgentMiddleware):
        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            return handler(request.override(tools=[*request.tools, {"type": "web_search"}]))

    with pytest.raises(WiringError, match="offered tools that were added after the start"):
        play(session, [tool_of(*CANCEL[:1], done)], CANCEL, middleware=[Offers()])


# What goes around the guard -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [CANCEL[1], {"name": CANCEL[0], "args": CANCEL[1], "id": "c0", "type": "tool_call"}])
def test_a_tool_that_is_called_outside_its_guard_refuses(session: Session, given: Any) -> None:
    agent = guarded_agent(Guard(session), Script(answers=[]), [tool_of("cancel_pending_order", done)])
    [tool] = agent.nodes["tools"].bound.tools_by_name.values()
    with pytest.raises(TicketError, match="without having been judged"):
        tool.invoke(given)
    with pytest.raises(TicketError, match="without having been judged"):
        tool.run(CANCEL[1])
    assert retail.history(session) == []


def test_a_session_that_has_ended_stops_the_run(session: Session) -> None:
    session.close()
    with pytest.raises(SessionClosed):
        play(session, [tool_of("cancel_pending_order", done)], CANCEL)
