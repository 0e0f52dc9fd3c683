"""Google ADK, the real one, with a scripted model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import pytest

from needs import need_framework

need_framework("google.adk", "google-adk")

from google.adk.agents import BaseAgent, LlmAgent, RunConfig, SequentialAgent
from google.adk.agents.run_config import StreamingMode
from google.adk.code_executors import UnsafeLocalCodeExecutor
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.tools import AgentTool, BaseTool, FunctionTool, google_search
from google.genai import types
from google.genai.types import Content, FunctionCall, FunctionResponse, Part
from pydantic import Field

from ledgeragent.adapters.core import Guard
from ledgeragent.adapters.google_adk import guarded
from ledgeragent.contracts import DecisionRecord
from ledgeragent.errors import SessionClosed, TicketError, WiringError
from ledgeragent.gate import Gate
from ledgeragent.records import JsonlRecorder, read_records
from ledgeragent.session import Session, ToolRefused
from support import five, retail

pytest_plugins = ["support.fixtures"]

CANCEL = ("cancel_pending_order", retail.cancel().arguments)
READ = ("get_order_details", {"order_id": "#W1"})
Run = Callable[[str, dict[str, Any]], Any]


class Script(BaseLlm):
    """Gives its answers in order; `asked` holds the contents of every request."""

    model: str = "script"
    answers: list[Any] = Field(default_factory=list)
    asked: list[Any] = Field(default_factory=list)

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> AsyncGenerator[LlmResponse, None]:
        self.asked.append(list(llm_request.contents))
        yield LlmResponse(content=Content(role="model", parts=self.answers.pop(0)))


def says(*proposed: tuple[str, Any], first: int = 0) -> list[Part]:
    """One message of the model."""
    return [
        Part(function_call=FunctionCall(id=f"c{at}", name=name, args=dict(given)))
        for at, (name, given) in enumerate(proposed, first)
    ]


DONE = [Part(text="Done.")]


class AnyTool(BaseTool):
    """A tool with any arguments."""

    def __init__(self, name: str, run: Run) -> None:
        super().__init__(name=name, description=name)
        self._run = run

    def _get_declaration(self) -> types.FunctionDeclaration:
        return types.FunctionDeclaration(name=self.name, description=self.description)

    async def run_async(self, *, args: dict[str, Any], tool_context: Any) -> Any:
        return self._run(self.name, args)


def agent_of(answers: list[Any], *tools: Any, name: str = "desk", **about: Any) -> LlmAgent:
    return LlmAgent(name=name, model=Script(answers=answers), tools=list(tools), **about)


class Talk:
    """A conversation with an agent; `read` is what the model read in its calls' places."""

    def __init__(self, agent: BaseAgent, mode: StreamingMode = StreamingMode.NONE, goes_on: Talk | None = None) -> None:
        self.events: list[Any] = []
        self._service = goes_on._service if goes_on is not None else InMemorySessionService()
        self._runner = Runner(app_name="desk", agent=agent, session_service=self._service, auto_create_session=True)
        self._config = RunConfig(streaming_mode=mode)

    def say(self, *parts: Part) -> Talk:
        asyncio.run(self._say(list(parts) or [Part(text="Go on.")]))
        return self

    async def _say(self, parts: list[Part]) -> None:
        said = Content(role="user", parts=parts)
        where = {"user_id": "ada", "session_id": "one"}
        async for event in self._runner.run_async(new_message=said, run_config=self._config, **where):
            self.events.append(event)

    @property
    def read(self) -> list[str]:
        responses = [one.response for event in self.events for one in event.get_function_responses()]
        return [five.as_text(one["result"] if list(one) == ["result"] else one) for one in responses]


def script(table: five.Table) -> list[Any]:
    steps = [says((step.tool, step.arguments), first=at) for at, step in enumerate(table.conversation.steps)]
    return [*steps, DONE]


@pytest.mark.parametrize("mode", [StreamingMode.NONE, StreamingMode.SSE])
def test_an_agent_comes_to_the_same(table: five.Table, tmp_path: Path, mode: StreamingMode) -> None:
    names = dict.fromkeys(step.tool for step in table.conversation.steps)
    agent = agent_of(script(table), *(AnyTool(name, table.run) for name in names))
    table.check(Talk(guarded(agent, Guard(table.session)), mode).say().read, tmp_path)


def test_so_does_one_of_plain_functions(table: five.Table, tmp_path: Path) -> None:
    def find_user_id_by_email(email: str) -> Any:
        """Find a customer."""
        return table.run("find_user_id_by_email", {"email": email})

    async def get_order_details(order_id: str) -> Any:
        """Look up an order."""
        return table.run("get_order_details", {"order_id": order_id})

    def cancel_pending_order(order_id: str, reason: str) -> Any:
        """Cancel an order."""
        return table.run("cancel_pending_order", {"order_id": order_id, "reason": reason})

    agent = agent_of(script(table), find_user_id_by_email, get_order_details, FunctionTool(cancel_pending_order))
    table.check(Talk(guarded(agent, Guard(table.session))).say().read, tmp_path)


def done(name: str, arguments: dict[str, Any]) -> str:
    return "done"


def play(session: Session, tools: list[Any], *proposed: tuple[str, Any], **about: Any) -> list[str]:
    """One message with these calls, then words."""
    agent = agent_of([says(*proposed), DONE], *tools, **about)
    return Talk(guarded(agent, Guard(session))).say().read


def test_calls_of_one_message_see_each_other_as_siblings_and_run_in_its_order(session: Session) -> None:
    ran: list[str] = []
    proposed = [(call.tool, call.arguments) for call in (retail.move(), retail.give_back(), retail.cancel())]
    before = session.turn
    play(session, [AnyTool(name, lambda name, _: ran.append(name)) for name, _ in proposed], *proposed)
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
def test_what_a_tool_raises_is_its_outcome(session: Session, error: Exception, said: str, history: Any) -> None:
    def fails(name: str, arguments: dict[str, Any]) -> None:
        raise error

    [answer] = play(session, [AnyTool("cancel_pending_order", fails)], CANCEL)
    assert said in answer
    assert retail.history(session) == history


def test_what_callbacks_make_of_arguments_and_returns_is_judged_and_is_not_fact(session: Session) -> None:
    def edits(tool: Any, args: dict[str, Any], tool_context: Any) -> None:
        args["order_id"] = "#W2"

    [answer] = play(session, [AnyTool(CANCEL[0], done)], CANCEL, before_tool_callback=edits)
    assert "was refused" in answer

    def forges(tool: Any, args: dict[str, Any], tool_context: Any, tool_response: Any) -> Any:
        return None if "error" in tool_response else {**retail.PENDING, "status": "delivered"}

    play(session, [AnyTool(READ[0], lambda *_: retail.PENDING)], READ, after_tool_callback=forges)
    assert '"status":"pending"' in Guard(session).ledger_text()


def test_a_sub_agent_is_guarded_and_can_be_handed_over_to(session: Session) -> None:
    blocked = (CANCEL[0], {**CANCEL[1], "order_id": "#W2"})
    second = agent_of([says(blocked, first=1), DONE], AnyTool(CANCEL[0], done), name="second")
    first = agent_of(
        [says(("transfer_to_agent", {"agent_name": "second"}))], AnyTool(*READ[:1], done), sub_agents=[second]
    )
    assert "was refused" in Talk(guarded(first, Guard(session))).say().read[-1]


@pytest.mark.filterwarnings("ignore:SequentialAgent is deprecated")
def test_so_are_the_steps_of_a_flow(session: Session) -> None:
    blocked = (CANCEL[0], {**CANCEL[1], "order_id": "#W2"})
    flow = SequentialAgent(name="flow", sub_agents=[agent_of([says(blocked), DONE], AnyTool(CANCEL[0], done))])
    assert "was refused" in Talk(guarded(flow, Guard(session))).say().read[-1]


def cancel_pending_order(order_id: str, reason: str) -> str:
    """Cancel an order."""
    return f"{order_id} done"


def asks_within(order_id: str, reason: str, tool_context: Any) -> Any:
    """Cancel an order."""
    if tool_context.tool_confirmation is None:
        tool_context.request_confirmation(hint="Sure?")
        return {"error": "a person is asked"}
    return cancel_pending_order(order_id, reason)


asks_within.__name__ = "cancel_pending_order"


class Asks(AnyTool):
    """A tool for which ADK asks a person."""

    async def check_require_confirmation(self, args: dict[str, Any], tool_context: Any) -> bool:
        return True


def yes_to(talk: Talk) -> Part:
    """A person's answer to what was asked."""
    calls = [call for event in talk.events for call in event.get_function_calls()]
    asked = next(call for call in calls if call.name == "adk_request_confirmation")
    return Part(function_response=FunctionResponse(id=asked.id, name=asked.name, response={"confirmed": True}))


@pytest.mark.parametrize(
    "tool",
    [
        FunctionTool(cancel_pending_order, require_confirmation=True),
        FunctionTool(asks_within),
        Asks(CANCEL[0], lambda *_: "#W1 done"),
    ],
)
def test_a_call_that_a_person_confirmed_is_judged_again(session: Session, tool: BaseTool) -> None:
    talk = Talk(guarded(agent_of([says(CANCEL), DONE, DONE], tool), Guard(session))).say()
    assert talk.say(yes_to(talk)).read[-1] == "#W1 done"
    assert retail.history(session) == [("cancel_pending_order", "executed")]


def test_what_ran_before_a_person_was_asked_is_not_judged_again(gate: Gate, tmp_path: Path) -> None:
    session = retail.desk(gate, recorder=JsonlRecorder(tmp_path / "record.jsonl"))
    move = (retail.move().tool, retail.move().arguments)
    agent = agent_of([says(move, CANCEL), DONE, DONE], AnyTool(move[0], done), Asks(CANCEL[0], done))
    talk = Talk(guarded(agent, Guard(session))).say()
    elsewhere = Talk(guarded(agent, Guard(session)), goes_on=talk)
    assert elsewhere.say(yes_to(talk)).read == ["done"]
    records = read_records(tmp_path / "record.jsonl")
    judged = [one.input.action.tool for one in records if isinstance(one, DecisionRecord)]
    assert judged == [move[0], CANCEL[0], CANCEL[0]]


def test_the_model_sees_the_ledger_at_the_end_of_every_request_and_never_in_the_history(session: Session) -> None:
    guard, agent = Guard(session), agent_of([DONE, DONE], AnyTool(READ[0], done))
    Talk(guarded(agent, guard)).say(Part(text="Hi.")).say(Part(text="And?"))
    asked = [[content.parts[0].text for content in contents] for contents in agent.model.asked]
    assert asked == [["Hi.", guard.ledger_text()], ["Hi.", "Done.", "And?", guard.ledger_text()]]


# What does not start ------------------------------------------------------------------------------------------------


class Special(LlmAgent):
    """An agent that may do anything."""


def answers(tool: Any, args: Any, tool_context: Any) -> Any:
    """A callback that answers in the tools' place."""
    return {"result": "Fine."}


@pytest.mark.parametrize(
    ("agent", "reason"),
    [
        (agent_of([], google_search), "does not run here"),
        (agent_of([], AnyTool("drop_table", done)), "does not declare drop_table"),
        (agent_of([], AgentTool(agent_of([], name="inner"))), "is an agent with tools of its own"),
        (agent_of([], code_executor=UnsafeLocalCodeExecutor()), "runs code of the model's"),
        (agent_of([], sub_agents=[agent_of([], google_search, name="other")]), "of agent 'other' does not run here"),
        (Special(name="desk"), "Special 'desk' may do what nothing guards"),
        (agent_of([], AnyTool(CANCEL[0], done), before_tool_callback=answers), "was not answered by the guard"),
    ],
)
def test_an_agent_that_can_reach_what_cannot_be_guarded_does_not_start(
    session: Session, agent: LlmAgent, reason: str
) -> None:
    with pytest.raises(WiringError, match=reason):
        guarded(agent, Guard(session))


def test_the_models_callbacks_hear_nothing_of_the_trial(session: Session) -> None:
    heard: list[Any] = []
    agent = agent_of([DONE], AnyTool(CANCEL[0], done), before_model_callback=lambda **about: heard.append(about))
    own = guarded(agent, Guard(session))
    assert heard == []
    Talk(own).say()
    assert len(heard) == 1


def test_nor_does_one_whose_dispatch_does_not_ask(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LlmAgent, "canonical_before_tool_callbacks", [])
    with pytest.raises(WiringError, match="reached the executor of cancel_pending_order"):
        guarded(agent_of([], AnyTool(CANCEL[0], done)), Guard(session))


def test_a_tool_that_is_added_after_the_start_stops_the_run(session: Session) -> None:
    agent = guarded(agent_of([says(READ)], AnyTool(CANCEL[0], done)), Guard(session))
    agent.tools.append(AnyTool(READ[0], done))
    with pytest.raises(WiringError, match="added after the start"):
        Talk(agent).say()


# What goes around the guard -----------------------------------------------------------------------------------------


def test_a_tool_that_is_called_outside_its_guard_refuses(session: Session) -> None:
    agent = guarded(agent_of([says(CANCEL), DONE], AnyTool(CANCEL[0], done)), Guard(session))
    agent.before_tool_callback = []
    with pytest.raises(TicketError, match="without having been judged"):
        Talk(agent).say()
    assert retail.history(session) == []


def test_a_session_that_has_ended_stops_the_run(session: Session) -> None:
    session.close()
    with pytest.raises(SessionClosed):
        play(session, [AnyTool(CANCEL[0], done)], CANCEL)


def test_the_agent_that_was_given_stays_as_it_was(session: Session) -> None:
    agent = agent_of([says((CANCEL[0], {**CANCEL[1], "order_id": "#W2"})), DONE], cancel_pending_order)
    guarded(agent, Guard(session))
    assert Talk(agent).say().read == ["#W2 done"]
