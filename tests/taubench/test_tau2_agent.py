"""The agent as the benchmark's orchestrator meets it: real environment, real gate, a model that answers as written."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pytest
from tau2.data_model.message import AssistantMessage, MultiToolMessage, ToolCall, ToolMessage, UserMessage
from tau2.domains.retail import environment as retail
from tau2.domains.retail.data_model import RetailDB
from tau2.domains.retail.utils import RETAIL_DB_PATH
from tau2.environment.environment import Environment
from tau2.environment.tool import as_tool
from tau2.registry import registry

from ledgeragent.adapters.tau2 import SETUP, FunctionCalling, GateOnly, LedgerAgent, Setup, ViewOnly, register
from ledgeragent.adapters.tau2.agent import ContextFull
from ledgeragent.arms import AGENTS
from ledgeragent.errors import BadInput
from ledgeragent.gate import Gate
from ledgeragent.model import Generation, ProposedCall, Usage
from ledgeragent.session import Call

ORDER = "#W5918442"
OWNER = "sofia_rossi_8776"
EMAIL = "sofia.rossi2645@example.com"
CANCEL = ("cancel_pending_order", {"order_id": ORDER, "reason": "no longer needed"})
FIND = ("find_user_id_by_email", {"email": EMAIL})
READ = ("get_order_details", {"order_id": ORDER})


@cache
def _order_and_owner() -> RetailDB:
    """The real database, cut down to what these tests touch: the whole one takes its time to load."""
    whole = RetailDB.load(str(RETAIL_DB_PATH))
    return RetailDB(products={}, users={OWNER: whole.users[OWNER]}, orders={ORDER: whole.orders[ORDER]})


def get_environment() -> Environment:
    """A fresh environment of the benchmark's."""
    return retail.get_environment(_order_and_owner().model_copy(deep=True))


def proposes(*calls: tuple[str, Any], text: str = "") -> Generation:
    """A generation with calls; arguments as they are when they are text."""
    return Generation(
        text,
        tuple(
            ProposedCall(f"c{number}", name, given if isinstance(given, str) else json.dumps(given))
            for number, (name, given) in enumerate(calls)
        ),
        Usage(100, 10),
        "tool_calls",
        0.5,
    )


def says(text: str) -> Generation:
    return Generation(text, (), Usage(100, 10), "stop", 0.5)


@dataclass
class Listed:
    """Answers from a list; an exception in it is raised."""

    answers: list[Generation | Exception]
    requests: list[list[Mapping[str, Any]]] = field(default_factory=list)

    def generate(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Any]) -> Generation:
        self.requests.append(deepcopy(list(messages)))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


class Talk:
    """Does what the orchestrator does between an agent and an environment."""

    def __init__(
        self,
        gate: Gate,
        answers: list[Any],
        kind: type[Any] = LedgerAgent,
        history: list[Any] | None = None,
        **about: Any,
    ) -> None:
        self.environment = get_environment()
        self.model = Listed(answers)
        self.named: list[tuple[str, Mapping[str, Any]]] = []
        setup = Setup(gate, model=self._made, **about)
        self.agent = kind(self.environment.get_tools(), "Policy.", "scripted", {"temperature": 0.0, SETUP: setup})
        self.agent.set_seed(7)
        self.state = self.agent.get_init_state(history or [AssistantMessage(role="assistant", content="Hi!", cost=0.0)])

    def _made(self, name: str, arguments: Mapping[str, Any]) -> Listed:
        self.named.append((name, arguments))
        return self.model

    def say(self, text: str) -> list[AssistantMessage]:
        """A message of the user, and everything that comes back until there is a text."""
        return self.go_on(UserMessage(role="user", content=text))

    def go_on(self, message: Any) -> list[AssistantMessage]:
        answers = []
        while True:
            answer, self.state = self.agent.generate_next_message(message, self.state)
            answers.append(answer)
            if not answer.is_tool_call():
                return answers
            message = self.run(answer)

    def run(self, answer: AssistantMessage) -> Any:
        returns = [self.environment.get_response(call) for call in answer.tool_calls]
        return returns[0] if len(returns) == 1 else MultiToolMessage(role="tool", tool_messages=returns)

    @property
    def status(self) -> str:
        return str(self.environment.tools.db.orders[ORDER].status)


Talks = Callable[..., Talk]


@pytest.fixture
def talk(gates: dict[str, Gate]) -> Talks:
    return lambda *args, **about: Talk(gates["retail"], *args, **about)


def calls_of(answers: list[AssistantMessage]) -> list[list[tuple[str, Any]]]:
    return [[(call.name, call.arguments) for call in answer.tool_calls or ()] for answer in answers]


def test_a_rejected_call_stays_private_and_what_it_cost_is_on_the_next_message(talk: Talks) -> None:
    it = talk([proposes(FIND), proposes(CANCEL, text="Done!"), proposes(READ), proposes(CANCEL), says("Cancelled.")])

    answers = it.say("Please cancel it.")

    assert calls_of(answers) == [[FIND], [READ], [CANCEL], []]
    assert [answer.content for answer in answers] == [None, None, None, "Cancelled."]
    assert [answer.usage for answer in answers] == [
        {"prompt_tokens": 100, "completion_tokens": 10},
        {"prompt_tokens": 200, "completion_tokens": 20},
        {"prompt_tokens": 100, "completion_tokens": 10},
        {"prompt_tokens": 100, "completion_tokens": 10},
    ]
    assert [answer.cost for answer in answers] == [0.5, 1.0, 0.5, 0.5]
    noted = answers[1].raw_data["ledgeragent"]
    [rejected] = noted.pop("rejected")
    assert rejected.pop("message").startswith("cancel_pending_order was not executed.")
    assert rejected == {
        "tool": CANCEL[0],
        "arguments": json.dumps(CANCEL[1]),
        "verdict": "revise",
        "predicates": ["retail.order_owner", "retail.order_pending"],
    }
    assert (noted.pop("view_bytes"), noted.pop("view_tokens")) > (0, 0)
    assert noted == {
        "generations": 2,
        "uncounted": 0,
        "verdicts": {"revise": 1},
        "predicates": {"retail.order_owner": 1, "retail.order_pending": 1},
        "ended": None,
    }
    told = it.model.requests[2]
    assert [message["role"] for message in told] == [
        *("system", "assistant", "user", "assistant", "tool", "assistant", "tool", "user"),
    ]
    assert told[5]["content"] == "Done!"
    assert told[6]["content"].startswith("cancel_pending_order was not executed.")
    assert told[7]["content"].startswith("<ledger>")
    assert it.status == "cancelled"


def test_a_text_beside_admitted_calls_goes_with_the_first_of_them(talk: Talks) -> None:
    it = talk([proposes(FIND, READ, CANCEL, text="One moment."), says("Done.")], FunctionCalling)

    answers = it.say("Please cancel it.")

    assert calls_of(answers) == [[FIND, READ], [CANCEL], []]
    assert [answer.content for answer in answers] == ["One moment.", None, "Done."]
    assert [answer.raw_data["ledgeragent"]["generations"] for answer in answers] == [1, 0, 1]
    assert [answer.usage["prompt_tokens"] for answer in answers] == [100, 0, 100]
    assert it.status == "cancelled"


def test_a_write_is_not_sent_when_a_read_of_the_same_message_shows_that_its_facts_have_changed(talk: Talks) -> None:
    it = talk([proposes(FIND), proposes(READ), proposes(READ, CANCEL), says("It has been processed meanwhile.")])
    look_up, _ = it.agent.generate_next_message(UserMessage(role="user", content="Cancel."), it.state)
    read, _ = it.agent.generate_next_message(it.run(look_up), it.state)
    returned = it.run(read)
    it.environment.tools.db.orders[ORDER].status = "processed"

    answers = it.go_on(returned)

    assert calls_of(answers) == [[READ], []]
    assert it.model.requests[-1][-2]["content"] == (
        "cancel_pending_order was not executed: facts that admitted cancel_pending_order have changed since; have it "
        "reviewed again"
    )
    assert it.status == "processed"


@pytest.mark.parametrize("arguments", ['{"order_id": ', "[1]", "null", '{"order_id": NaN}'])
def test_arguments_that_are_no_json_object_are_a_rejected_call_in_every_arm(talk: Talks, arguments: str) -> None:
    for kind in (FunctionCalling, LedgerAgent):
        for tool in (READ[0], CANCEL[0]):
            it = talk([proposes((tool, arguments)), says("Sorry.")], kind)

            [answer] = it.say("Please cancel it.")

            assert (answer.content, answer.raw_data["ledgeragent"]["generations"]) == ("Sorry.", 2)
            [rejected] = answer.raw_data["ledgeragent"]["rejected"]
            assert (rejected["tool"], rejected["arguments"]) == (tool, arguments)


def test_a_tool_that_does_not_exist_is_stopped_by_the_gate_and_answered_by_the_environment_without_it(
    talk: Talks,
) -> None:
    made_up = ("drop_all", {"really": True})
    gated = talk([proposes(made_up), says("Sorry.")]).say("Do it.")
    bare = talk([proposes(made_up), says("Sorry.")], FunctionCalling).say("Do it.")

    assert calls_of(gated) == [[]]
    assert gated[0].raw_data["ledgeragent"]["predicates"] == {"gate.tool": 1}
    assert calls_of(bare) == [[made_up], []]


@pytest.mark.parametrize(
    ("kind", "sees_ledger", "ends"),
    [
        (FunctionCalling, False, "cancelled"),
        (ViewOnly, True, "cancelled"),
        (GateOnly, False, "pending"),
        (LedgerAgent, True, "pending"),
    ],
)
def test_the_arms_differ_in_ledger_and_gate_and_in_nothing_else(
    talk: Talks, kind: type[Any], sees_ledger: bool, ends: str
) -> None:
    it = talk([proposes(CANCEL), says("Well.")], kind)

    answers = it.say("Please cancel it.")

    for request in it.model.requests:
        shown = [message for message in request if str(message["content"]).startswith("<ledger>")]
        assert shown == request[-1:] if sees_ledger else shown == []
        assert request[0] == {"role": "system", "content": it.agent.system_prompt}
    assert it.status == ends
    noted = [answer.raw_data["ledgeragent"] for answer in answers]
    assert sum(one["verdicts"].get("revise", 0) for one in noted) == 1
    assert sum(one["view_bytes"] > 0 for one in noted) == (len(noted) if sees_ledger else 0)


def test_what_the_environment_refuses_is_no_write_and_no_fact(talk: Talks) -> None:
    nothing = ("get_order_details", {"order_id": "#W0000000"})
    again = ("cancel_pending_order", {"order_id": "#W0000000", "reason": "no longer needed"})
    it = talk([proposes(nothing), proposes(again), proposes(CANCEL), says("Done.")], FunctionCalling)
    it.say("Please cancel it.")

    [review] = it.state.session.review([Call(*CANCEL)])

    assert [(one["tool"], one["outcome"]) for one in review.gate_input["history"]] == [(CANCEL[0], "executed")]
    assert len(it.state.session.ledger) == 0


def history(*, with_write: bool, returned: bool) -> list[Any]:
    environment = get_environment()
    wanted = [FIND, READ, CANCEL] if with_write else [FIND, READ]
    messages: list[Any] = [
        AssistantMessage(role="assistant", content="Hi!"),
        UserMessage(role="user", content="Please cancel it."),
    ]
    for number, (name, arguments) in enumerate(wanted):
        call = ToolCall(id=f"h{number}", name=name, arguments=arguments)
        messages.append(AssistantMessage(role="assistant", content=None, tool_calls=[call]))
        messages.append(environment.get_response(call))
    return messages if returned else messages[:-1]


def test_a_given_history_fills_the_ledger(talk: Talks) -> None:
    it = talk([proposes(CANCEL), says("Done.")], history=history(with_write=False, returned=True))

    answers = it.say("Yes, please.")

    assert calls_of(answers) == [[CANCEL], []]
    request = it.model.requests[0]
    assert [message["role"] for message in request] == [
        *("system", "assistant", "user", "assistant", "tool", "assistant", "tool", "user", "user"),
    ]
    assert request[3]["tool_calls"][0]["function"] == {"name": FIND[0], "arguments": '{"email":"' + EMAIL + '"}'}
    assert request[4] == {"role": "tool", "tool_call_id": "h0", "content": OWNER}
    assert f"auth.user_id = {json.dumps(OWNER)}" in request[-1]["content"]


def test_a_write_of_a_given_history_has_happened_whatever_the_gate_says_to_it(talk: Talks) -> None:
    it = talk([proposes(CANCEL), says("It is cancelled already.")], history=history(with_write=True, returned=True))

    [answer] = it.say("Cancel it again.")

    noted = answer.raw_data["ledgeragent"]
    assert noted["predicates"] == {"common.no_repeat_write": 1, "retail.order_pending": 1}
    assert "STALE" in it.model.requests[0][-1]["content"]


def test_a_given_history_may_end_with_a_call_under_way(talk: Talks) -> None:
    given = history(with_write=False, returned=False)
    it = talk([says("Shall I cancel it?")], history=given)

    [answer] = it.go_on(it.run(given[-1]))

    assert answer.content == "Shall I cancel it?"
    assert f"orders.{ORDER} = " in it.model.requests[0][-1]["content"]


def test_an_environment_with_a_tool_the_domain_does_not_declare_is_refused(gates: dict[str, Gate]) -> None:
    def wipe() -> str:
        """Wipe everything."""
        return ""

    tools = [*get_environment().get_tools(), as_tool(wipe)]
    with pytest.raises(BadInput, match="the environment offers wipe, which domain 'retail' does not declare"):
        LedgerAgent(tools, "Policy.", "scripted", {SETUP: Setup(gates["retail"])})
    with pytest.raises(BadInput, match="which domain 'airline' does not declare"):
        LedgerAgent(get_environment().get_tools(), "Policy.", "scripted", {SETUP: Setup(gates["airline"])})


def test_without_a_setup_the_gate_is_that_of_the_domain_that_declares_the_tools() -> None:
    agent = LedgerAgent(get_environment().get_tools(), "Policy.", "scripted", {"temperature": 0.5})

    assert (agent.setup.gate.domain.name, agent.llm_args) == ("retail", {"temperature": 0.5})


def test_the_seed_and_the_arguments_reach_the_model_and_the_setup_does_not(talk: Talks) -> None:
    it = talk([])

    assert it.named == [("scripted", {"temperature": 0.0, "seed": 7})]


def test_an_empty_answer_is_asked_for_again_three_times_and_then_given_up(talk: Talks) -> None:
    [answer] = talk([says(""), says(""), says(""), says("Here I am.")]).say("Hello?")
    assert (answer.content, answer.raw_data["ledgeragent"]["generations"]) == ("Here I am.", 4)

    it = talk([says("")] * 4 + [says("Back again.")])
    [answer] = it.say("Hello?")
    assert answer.content == "I could not finish this. A colleague will take over."
    assert answer.raw_data["ledgeragent"]["ended"] == "no answer"
    assert [one.content for one in it.say("Hello?")] == ["Back again."]


def test_a_conversation_that_is_too_long_for_the_model_is_given_up_in_words(talk: Talks) -> None:
    [answer] = talk([ContextFull("too long", status=400)]).say("Hello?")

    assert answer.content == "I could not finish this. A colleague will take over."
    assert answer.raw_data["ledgeragent"]["ended"] == "no answer"


def test_in_one_call_mode_a_rejected_message_costs_no_generation(talk: Talks) -> None:
    it = talk([proposes(FIND), proposes(CANCEL), proposes(READ), proposes(CANCEL), says("Done.")], mode="one-call")

    first = it.say("Please cancel it.")
    second = it.say("Please go on.")

    assert calls_of(first) == [[FIND], []]
    assert first[-1].content == "I need to look something up before I can do that."
    assert first[-1].raw_data["ledgeragent"]["ended"] == "revisions"
    assert calls_of(second) == [[READ], [CANCEL], []]
    assert it.model.answers == []


def test_the_four_agents_are_registered_once() -> None:
    register()
    register()

    kinds = {name: registry.get_agent_constructor(name) for name in AGENTS.values()}
    assert kinds == {
        "ledger_agent_fc": FunctionCalling,
        "ledger_agent_view": ViewOnly,
        "ledger_agent_gate": GateOnly,
        "ledger_agent": LedgerAgent,
    }


def test_tool_messages_arrive_alone_or_together(talk: Talks) -> None:
    it = talk([proposes(FIND, READ), says("Pending.")])
    first, _ = it.agent.generate_next_message(UserMessage(role="user", content="What about it?"), it.state)
    returns = it.run(first)
    assert isinstance(returns, MultiToolMessage)
    assert all(isinstance(one, ToolMessage) for one in returns.tool_messages)

    [answer] = it.go_on(returns)

    assert answer.content == "Pending."
    assert f"orders.{ORDER} = " in it.model.requests[-1][-1]["content"]
