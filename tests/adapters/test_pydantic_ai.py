"""pydantic-ai, the real one, with its function model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from needs import need_framework

need_framework("pydantic_ai", "pydantic-ai")

from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, ToolApproved
from pydantic_ai.capabilities import AbstractCapability, NativeTool
from pydantic_ai.exceptions import ApprovalRequired, ModelRetry
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.native_tools import WebSearchTool
from pydantic_ai.output import TextOutput, ToolOutput
from pydantic_ai.tools import RunContext, Tool, ToolDefinition
from pydantic_ai.toolsets import CombinedToolset, ExternalToolset, FunctionToolset

from ledgeragent.adapters.core import Guard
from ledgeragent.adapters.pydantic_ai import guarded
from ledgeragent.contracts import DecisionRecord
from ledgeragent.errors import SessionClosed, WiringError
from ledgeragent.gate import Gate
from ledgeragent.records import JsonlRecorder, read_records
from ledgeragent.session import Session, ToolRefused
from support import five, retail

pytest_plugins = ["support.fixtures"]

CANCEL = ("cancel_pending_order", retail.cancel().arguments)
READ = ("get_order_details", {"order_id": "#W1"})
Run = Callable[[str, dict[str, Any]], Any]


def tool_of(name: str, run: Run, **about: Any) -> Tool[Any]:
    """A tool with any arguments."""

    async def call(**arguments: Any) -> Any:
        return run(name, arguments)

    schema = {"type": "object", "properties": {}, "additionalProperties": True}
    made = Tool.from_schema(call, name, name, schema)
    for key, value in about.items():
        setattr(made, key, value)
    return made


class Script:
    """Gives its answers in order; `asked` holds the messages of every request."""

    def __init__(self, *answers: list[Any]) -> None:
        self.answers = list(answers)
        self.asked: list[Any] = []

    def __call__(self, messages: list[Any], info: AgentInfo) -> ModelResponse:
        self.asked.append(list(messages))
        return ModelResponse(self.answers.pop(0))


def says(*proposed: tuple[str, Any], first: int = 0) -> list[Any]:
    """One message of the model."""
    return [ToolCallPart(name, dict(given), f"c{at}") for at, (name, given) in enumerate(proposed, first)]


DONE = [TextPart("Done.")]


def script(table: five.Table) -> FunctionModel:
    steps = [says((step.tool, step.arguments), first=at) for at, step in enumerate(table.conversation.steps)]
    return FunctionModel(Script(*steps, DONE))


def read(messages: list[Any]) -> list[str]:
    """What the model read in its calls' places."""
    parts = [part for message in messages for part in message.parts]
    return [part.model_response_str() for part in parts if isinstance(part, ToolReturnPart)]


def agent_of(table: five.Table) -> Agent[Any, Any]:
    names = dict.fromkeys(step.tool for step in table.conversation.steps)
    return Agent(script(table), tools=[tool_of(name, table.run) for name in names])


def test_an_agent_comes_to_the_same(table: five.Table, tmp_path: Path) -> None:
    result = asyncio.run(guarded(agent_of(table), Guard(table.session)).run("Go on."))
    table.check(read(result.all_messages()), tmp_path)


def test_so_does_one_of_decorated_functions(table: five.Table, tmp_path: Path) -> None:
    agent = Agent(script(table))

    @agent.tool_plain
    def find_user_id_by_email(email: str) -> Any:
        return table.run("find_user_id_by_email", {"email": email})

    @agent.tool
    async def get_order_details(ctx: RunContext[Any], order_id: str) -> Any:
        return table.run("get_order_details", {"order_id": order_id})

    @agent.tool_plain
    def cancel_pending_order(order_id: str, reason: str) -> Any:
        return table.run("cancel_pending_order", {"order_id": order_id, "reason": reason})

    result = asyncio.run(guarded(agent, Guard(table.session)).run("Go on."))
    table.check(read(result.all_messages()), tmp_path)


def test_so_does_one_that_is_iterated(table: five.Table, tmp_path: Path) -> None:
    async def play() -> list[Any]:
        async with guarded(agent_of(table), Guard(table.session)).iter("Go on.") as run:
            async for _ in run:
                pass
            return run.all_messages()

    table.check(read(asyncio.run(play())), tmp_path)


def done(name: str, arguments: dict[str, Any]) -> str:
    return "done"


def play(session: Session, tools: list[Any], *proposed: tuple[str, Any], **about: Any) -> list[str]:
    """One message with these calls, then words."""
    agent: Agent[Any, Any] = Agent(FunctionModel(Script(says(*proposed), DONE)), tools=tools, **about)
    return read(asyncio.run(guarded(agent, Guard(session)).run("Go on.")).all_messages())


def test_calls_of_one_message_see_each_other_as_siblings_and_run_in_its_order(session: Session) -> None:
    ran: list[str] = []
    proposed = [(call.tool, call.arguments) for call in (retail.move(), retail.give_back(), retail.cancel())]
    before = session.turn
    play(session, [tool_of(name, lambda name, _: ran.append(name)) for name, _ in proposed], *proposed)
    assert session.turn == before + 1
    assert ran == [name for name, _ in proposed]
    assert retail.history(session) == [(name, "executed") for name, _ in proposed]


@pytest.mark.parametrize(
    ("error", "said", "history"),
    [
        (ToolRefused("no"), "Error: no", []),
        (OSError("gone"), "may have been carried out", [("cancel_pending_order", "uncertain")]),
        (ModelRetry("Once more."), "Once more.", [("cancel_pending_order", "uncertain")]),
    ],
)
def test_what_a_tool_raises_is_its_outcome(session: Session, error: Exception, said: str, history: Any) -> None:
    def fails(name: str, arguments: dict[str, Any]) -> None:
        raise error

    [answer] = play(session, [tool_of("cancel_pending_order", fails)], CANCEL)
    assert said in answer
    assert retail.history(session) == history


def test_a_revise_is_a_retry_and_a_block_is_not(session: Session) -> None:
    revised = (CANCEL[0], {**CANCEL[1], "reason": "changed my mind"})
    blocked = (CANCEL[0], {**CANCEL[1], "order_id": "#W2"})
    model = FunctionModel(Script(says(revised), says(blocked, first=1), DONE))
    agent = guarded(Agent(model, tools=[tool_of(CANCEL[0], done)]), Guard(session))
    messages = asyncio.run(agent.run("Go on.")).all_messages()
    parts = [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
    assert [part.outcome for part in parts] == ["retried", "failed"]


def test_a_model_may_try_again_three_times_in_a_row_and_not_more(session: Session) -> None:
    revised = (CANCEL[0], {**CANCEL[1], "reason": "changed my mind"})
    model = FunctionModel(Script(*(says(revised, first=at) for at in range(2)), says(CANCEL, first=9), DONE))
    agent = guarded(Agent(model, tools=[tool_of(CANCEL[0], done)]), Guard(session))
    assert read(asyncio.run(agent.run("Go on.")).all_messages())[-1] == "done"


def test_a_function_gets_the_values_its_types_say_made_of_the_judged_arguments(session: Session) -> None:
    got: list[Any] = []
    agent = Agent(FunctionModel(Script(says(CANCEL), DONE)))

    @agent.tool_plain
    def cancel_pending_order(order_id: str, reason: str, copies: int = 3) -> str:
        got.append((order_id, reason, copies))
        return "done"

    assert read(asyncio.run(guarded(agent, Guard(session)).run("Go on.")).all_messages()) == ["done"]
    assert got == [("#W1", "no longer needed", 3)]


class Edits(AbstractCapability[Any]):
    """Another capability that changes arguments."""

    async def before_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: dict[str, Any]) -> dict[str, Any]:
        return {**args, "order_id": "#W2"}


def test_arguments_that_another_capability_changed_are_judged_as_they_then_stand(session: Session) -> None:
    [answer] = play(session, [tool_of(CANCEL[0], done)], CANCEL, capabilities=[Edits()])
    assert "#W2" in answer
    assert "was refused" in answer


def approved(session: Session, agent: Agent[Any, Any], approval: Any) -> list[str]:
    own = guarded(agent, Guard(session))

    async def both() -> list[Any]:
        first = await own.run("Go on.")
        assert isinstance(first.output, DeferredToolRequests)
        assert retail.history(session) == []
        results = DeferredToolResults(approvals={first.output.approvals[0].tool_call_id: approval})
        second = await own.run(message_history=first.all_messages(), deferred_tool_results=results)
        return second.all_messages()

    return read(asyncio.run(both()))


@pytest.mark.parametrize("asks", ["by declaration", "from within"])
def test_a_call_after_a_persons_approval_is_judged_as_it_then_stands(session: Session, asks: str) -> None:
    model = FunctionModel(Script(says(CANCEL), DONE))
    agent: Agent[Any, Any] = Agent(model, output_type=[str, DeferredToolRequests])

    @agent.tool(requires_approval=asks == "by declaration")
    def cancel_pending_order(ctx: RunContext[Any], order_id: str, reason: str) -> str:
        if not ctx.tool_call_approved:
            raise ApprovalRequired
        return "done"

    assert approved(session, agent, ToolApproved()) == ["done"]
    assert retail.history(session) == [("cancel_pending_order", "executed")]


def test_a_call_that_waits_for_a_person_is_no_sibling_of_the_others(session: Session) -> None:
    move = (retail.move().tool, retail.move().arguments)
    tools = [tool_of(CANCEL[0], done, requires_approval=True), tool_of(move[0], done)]
    play(session, tools, CANCEL, move, output_type=[str, DeferredToolRequests])
    assert retail.history(session) == [(move[0], "executed")]


def test_what_ran_before_a_person_was_asked_is_not_judged_again(gate: Gate, tmp_path: Path) -> None:
    session = retail.desk(gate, recorder=JsonlRecorder(tmp_path / "record.jsonl"))
    move = (retail.move().tool, retail.move().arguments)
    asked: list[str] = []

    def asks_once(name: str, arguments: dict[str, Any]) -> str:
        if not asked:
            asked.append(name)
            raise ApprovalRequired
        return "done"

    model = FunctionModel(Script(says(move, CANCEL), DONE))
    tools = [tool_of(move[0], done), tool_of(CANCEL[0], asks_once)]
    agent: Agent[Any, Any] = Agent(model, tools=tools, output_type=[str, DeferredToolRequests])

    async def both() -> None:
        first = await guarded(agent, Guard(session)).run("Go on.")
        results = DeferredToolResults(approvals={"c1": ToolApproved()})
        elsewhere = guarded(agent, Guard(session))
        await elsewhere.run(message_history=first.all_messages(), deferred_tool_results=results)

    asyncio.run(both())
    records = read_records(tmp_path / "record.jsonl")
    judged = [one.input.action.tool for one in records if isinstance(one, DecisionRecord)]
    assert judged == [move[0], CANCEL[0], CANCEL[0]]


def test_a_person_who_changes_the_arguments_changes_what_is_judged(session: Session) -> None:
    model = FunctionModel(Script(says(CANCEL), DONE))
    agent: Agent[Any, Any] = Agent(model, output_type=[str, DeferredToolRequests])
    agent.tool_plain(requires_approval=True)(cancel_pending_order)
    [answer] = approved(session, agent, ToolApproved(override_args={**CANCEL[1], "order_id": "#W2"}))
    assert "was refused" in answer


def shouted(text: str) -> str:
    return text.upper()


def cancel_pending_order(order_id: str, reason: str) -> str:
    """Cancel an order."""
    return f"{order_id} done"


def test_the_model_sees_the_ledger_at_the_end_of_every_request_and_never_in_the_history(session: Session) -> None:
    guard, model = Guard(session), Script(DONE)
    result = asyncio.run(guarded(Agent(FunctionModel(model), tools=[tool_of(READ[0], done)]), guard).run("Hi."))
    assert [part.content for message in model.asked[0] for part in message.parts] == ["Hi.", guard.ledger_text()]
    assert "<ledger>" not in str(result.all_messages())


# What does not start ------------------------------------------------------------------------------------------------


class Answers(AbstractCapability[Any]):
    """A capability that answers in the tools' place."""

    async def wrap_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: Any, handler: Any) -> Any:
        return "Fine."


class Adds(AbstractCapability[Any]):
    """A capability that puts a tool beside the agent's."""

    def get_wrapper_toolset(self, toolset: Any) -> Any:
        return CombinedToolset([toolset, FunctionToolset([tool_of("drop_table", done)])])


@pytest.mark.parametrize(
    ("about", "reason"),
    [
        ({"capabilities": [Adds()]}, "does not declare drop_table"),
        ({"tools": [tool_of("drop_table", done)]}, "does not declare drop_table"),
        ({"toolsets": [ExternalToolset([ToolDefinition(name=READ[0])])]}, "runs elsewhere, after the run has ended"),
        ({"capabilities": [NativeTool(WebSearchTool())]}, "web_search runs at the model's provider"),
        ({"output_type": cancel_pending_order}, "an output function"),
        ({"output_type": [str, ToolOutput(cancel_pending_order)]}, "an output function"),
        ({"output_type": TextOutput(shouted)}, "an output function"),
        ({"tools": [tool_of(CANCEL[0], done)], "capabilities": [Answers()]}, "was not answered by the guard"),
    ],
)
def test_an_agent_that_can_reach_what_cannot_be_guarded_does_not_start(
    session: Session, about: dict[str, Any], reason: str
) -> None:
    with pytest.raises(WiringError, match=reason):
        guarded(Agent(FunctionModel(Script()), **about), Guard(session))


def test_what_is_added_to_the_agent_later_is_guarded_or_stops_the_run(session: Session) -> None:
    agent = Agent(FunctionModel(Script(says((CANCEL[0], {**CANCEL[1], "order_id": "#W2"})), DONE)))
    own = guarded(agent, Guard(session))
    agent.tool_plain(cancel_pending_order)
    assert "was refused" in read(asyncio.run(own.run("Go on.")).all_messages())[0]
    with pytest.raises(WiringError, match="does not declare drop_table"):
        asyncio.run(own.run("Go on.", toolsets=[FunctionToolset([tool_of("drop_table", done)])]))


@pytest.mark.parametrize(
    ("about", "reason"), [({"spec": {}}, "a spec"), ({"output_type": [str, shouted]}, "an output function")]
)
def test_a_run_that_brings_what_cannot_be_guarded_is_not_begun(
    session: Session, about: dict[str, Any], reason: str
) -> None:
    own = guarded(Agent(FunctionModel(Script(DONE))), Guard(session))
    with pytest.raises(WiringError, match=reason):
        asyncio.run(own.run("Go on.", **about))
    with pytest.raises(WiringError, match="realtime"):
        own.realtime("any")


def test_a_session_that_has_ended_stops_the_run(session: Session) -> None:
    session.close()
    with pytest.raises(SessionClosed):
        play(session, [tool_of("cancel_pending_order", done)], CANCEL)


def test_the_agent_that_was_given_stays_as_it_was(session: Session) -> None:
    blocked = (CANCEL[0], {**CANCEL[1], "order_id": "#W2"})
    agent = Agent(FunctionModel(Script(says(blocked), DONE)), tools=[cancel_pending_order])
    guarded(agent, Guard(session))
    assert read(asyncio.run(agent.run("Go on.")).all_messages()) == ["#W2 done"]
