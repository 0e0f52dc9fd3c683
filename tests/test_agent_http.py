"""The agent over real HTTP: what a provider receives, request by request, and how many requests there are.

Counted where they arrive, against a bare loop over the same script; every request is checked by a validator of its own.
"""

from __future__ import annotations

import asyncio
import copy
import importlib.util
import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgeragent.agent import AsyncLedgerAgent, LedgerAgent, Options, Reply
from ledgeragent.errors import ModelUnreachable
from ledgeragent.gate import Gate, ShadowGate
from ledgeragent.model import Message
from ledgeragent.session import ToolRefused
from ledgeragent.toolset import Toolset
from needs import need
from support import retail
from support.chat_server import Answer, ChatServer

need(importlib.util.find_spec("openai"), "the package openai (pip install 'ledgeragent[openai]')")
from ledgeragent.models.openai import AsyncOpenAIModel, OpenAIModel  # noqa: E402 - an extra

pytest_plugins = ["support.fixtures"]

SYSTEM: Final = "You work for a shop. Be kind."
ARMS: Final = {"fc": (False, False), "ledger": (True, False), "gate": (False, True), "both": (True, True)}
"""Whether the model sees the ledger, and whether the gate holds back what it does not allow."""


@pytest.fixture(autouse=True)
def _an_impatient_client_without_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.001)
    for name in [name for name in os.environ if name.startswith("OPENAI_")]:
        monkeypatch.delenv(name)


@pytest.fixture(params=["sync", "async"])
def kind(request: pytest.FixtureRequest) -> str:
    """Which of the two agents."""
    return request.param  # type: ignore[no-any-return]


@pytest.fixture(params=list(ARMS))
def arm(request: pytest.FixtureRequest) -> str:
    """Which of the four combinations of view and gate."""
    return request.param  # type: ignore[no-any-return]


# A desk, a conversation, and a bare loop ----------------------------------------------------------------------------


class Desk:
    """A back end of two orders and five tools, which checks nothing; `cancelled` holds the orders that were."""

    def __init__(self) -> None:
        self._orders = {order["order_id"]: copy.deepcopy(order) for order in (retail.PENDING, retail.DELIVERED)}
        self.cancelled: list[tuple[str, str]] = []
        self.tools = Toolset.from_functions(
            self.find_user_id_by_email,
            self.get_order_details,
            self.get_user_details,
            self.cancel_pending_order,
            self.calculate,
        )

    def find_user_id_by_email(self, email: str) -> str:
        """Find a customer."""
        if email != retail.EMAIL:
            raise ToolRefused("user not found")
        return retail.USER

    def get_order_details(self, order_id: str) -> dict[str, Any]:
        """Read an order."""
        if order_id not in self._orders:
            raise ToolRefused("order not found")
        return self._orders[order_id]

    def get_user_details(self, user_id: str) -> dict[str, Any]:
        """Read a profile."""
        return retail.PROFILE

    def cancel_pending_order(self, order_id: str, reason: str) -> dict[str, Any]:
        """Cancel an order."""
        self.cancelled.append((order_id, reason))
        self._orders[order_id]["status"] = "cancelled"
        return self._orders[order_id]

    def calculate(self, expression: str) -> str:
        """Calculate."""
        return "4"


def call(name: str, *, call_id: str = "call_1", **arguments: Any) -> tuple[str, str, str]:
    return (call_id, name, json.dumps(arguments))


def read(order_id: str, call_id: str = "call_1") -> tuple[str, str, str]:
    return call("get_order_details", order_id=order_id, call_id=call_id)


def cancel(order_id: str = "#W1", reason: str = "no longer needed", call_id: str = "call_1") -> tuple[str, str, str]:
    return call("cancel_pending_order", order_id=order_id, reason=reason, call_id=call_id)


def calls(*made: tuple[str, str, str], text: str = "") -> Answer:
    return Answer(text, calls=made, usage=(900, 30), fragments=[7])


FIND: Final = calls(call("find_user_id_by_email", email=retail.EMAIL))
WRONG: Final = calls(cancel(reason="changed my mind"))
RIGHT: Final = calls(cancel())
DONE: Final = Answer("Done.", usage=(900, 5))


@dataclass
class Talk:
    """What came of a conversation: the agent's replies, what the endpoint received, and the back end."""

    replies: list[Reply]
    requests: list[dict[str, Any]]
    desk: Desk

    @property
    def history(self) -> list[dict[str, Any]]:
        """The conversation in the last request, without the ledger."""
        return [one for one in self.requests[-1]["messages"] if "<ledger>" not in one["content"]]

    @property
    def steps(self) -> list[str]:
        """What each generation came to."""
        return [step.next for reply in self.replies for step in reply.steps]

    @property
    def revised(self) -> int:
        """Generations that lost all their calls."""
        return sum(bool(step.rejected) and not step.admitted for reply in self.replies for step in reply.steps)


def talk(
    kind: str, arm: str, gate: Gate, script: Sequence[Answer], said: Sequence[str] = ("Cancel #W1.",), **options: Any
) -> Talk:
    """A whole conversation through the HTTP endpoint; checks every request it sent."""
    view, gated = ARMS[arm]
    desk = Desk()
    about: dict[str, Any] = {
        "now": retail.NOW,
        "options": Options(system=SYSTEM, view=view, **options),
    }
    judge = gate if gated else ShadowGate(gate)

    async def later(url: str) -> list[Reply]:
        async with AsyncOpenAIModel("scripted", base_url=url) as model:
            agent = AsyncLedgerAgent(model, desk.tools, judge, **about)
            return [await agent.send(text) for text in said]

    def now(url: str) -> list[Reply]:
        with OpenAIModel("scripted", base_url=url) as model:
            agent = LedgerAgent(model, desk.tools, judge, **about)
            return [agent.send(text) for text in said]

    with ChatServer(script) as server:
        replies = now(server.url) if kind == "sync" else asyncio.run(later(server.url))
    check_requests(server.requests, view=view)
    return Talk(replies, server.requests, desk)


def bare_loop(script: Sequence[Answer], said: Sequence[str] = ("Cancel #W1.",)) -> tuple[int, Desk]:
    """Generate, run the calls, generate again: without ledger and gate. How many requests it takes, and what it did."""
    desk = Desk()
    messages: list[Message] = [{"role": "system", "content": SYSTEM}]
    with ChatServer(script) as server, OpenAIModel("scripted", base_url=server.url) as model:
        for text in said:
            messages.append({"role": "user", "content": text})
            while True:
                answer = model.generate(messages, desk.tools.definitions)
                made = [
                    {"id": one.id, "type": "function", "function": {"name": one.name, "arguments": one.arguments}}
                    for one in answer.calls
                ]
                if not made:
                    messages.append({"role": "assistant", "content": answer.content})
                    break
                messages.append({"role": "assistant", "content": answer.content, "tool_calls": made})
                for one in answer.calls:
                    result = desk.tools[one.name].run(one.name, json.loads(one.arguments))
                    messages.append({"role": "tool", "tool_call_id": one.id, "content": json.dumps(result)})
        return len(server.requests), desk


# What every request must be -----------------------------------------------------------------------------------------


def check_requests(requests: Sequence[dict[str, Any]], *, view: bool) -> None:
    """Every request is valid, ends with the ledger where it is shown, and extends the one before it byte for byte."""
    before: list[str] = []
    for request in requests:
        messages = list(request["messages"])
        check_valid(messages)
        shown = [number for number, message in enumerate(messages) if "<ledger>" in message["content"]]
        if view:
            last = messages.pop()
            assert shown == [len(messages)]
            assert last["role"] == "user"
            assert last["content"].startswith("<ledger>\n")
            assert last["content"].endswith("\n</ledger>")
        else:
            assert shown == []
        assert messages[0] == {"role": "system", "content": SYSTEM}
        assert messages[-1]["role"] in ("user", "tool")
        written = [json.dumps(message) for message in messages]
        assert written[: len(before)] == before
        assert request["tools"] == requests[0]["tools"]
        before = written


def check_valid(messages: Sequence[dict[str, Any]]) -> None:
    """What the chat-completions API asks of a conversation."""
    ids: set[str] = set()
    waiting: list[str] = []
    for message in messages:
        assert isinstance(message["content"], str)
        if message["role"] == "tool":
            assert set(message) == {"role", "content", "tool_call_id"}
            waiting.remove(message["tool_call_id"])
            continue
        assert waiting == []
        assert message["role"] in ("system", "user", "assistant")
        assert set(message) <= {"role", "content"} | ({"tool_calls"} if message["role"] == "assistant" else set())
        assert message["content"] or message.get("tool_calls") or message["role"] == "user"
        for made in message.get("tool_calls", []):
            assert set(made) == {"id", "type", "function"}
            assert made["id"]
            assert made["id"] not in ids
            assert made["type"] == "function"
            assert set(made["function"]) == {"name", "arguments"}
            assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", made["function"]["name"])
            assert isinstance(json.loads(made["function"]["arguments"]), dict)
            ids.add(made["id"])
            waiting.append(made["id"])
    assert waiting == []


# How many generations -----------------------------------------------------------------------------------------------

QUIET: Final = [
    FIND,
    calls(read("#W1"), call("get_user_details", user_id=retail.USER, call_id="call_2"), text="One moment."),
    RIGHT,
    DONE,
    calls(read("#W2"), call("calculate", expression="2+2", call_id="call_2")),
    DONE,
    Answer("Bye."),
]
QUIETLY_SAID: Final = ("Cancel #W1.", "And where is #W2?", "Bye.")


def test_where_nothing_is_revised_there_are_exactly_as_many_generations_as_in_a_bare_loop(
    kind: str, arm: str, gate: Gate
) -> None:
    counted, desk = bare_loop(QUIET, QUIETLY_SAID)
    seen = talk(kind, arm, gate, QUIET, QUIETLY_SAID)
    assert len(seen.requests) == counted == 7
    assert seen.desk.cancelled == desk.cancelled == [("#W1", "no longer needed")]
    assert seen.steps == ["run", "run", "run", "reply", "run", "reply", "reply"]


@pytest.mark.parametrize("revisions", [0, 1, 2, 3])
def test_each_revise_costs_exactly_one_more(kind: str, arm: str, gate: Gate, revisions: int) -> None:
    straight = [FIND, calls(read("#W1")), RIGHT, DONE]
    script = [*straight[:2], *[WRONG] * revisions, *straight[2:]]
    without, _ = bare_loop(straight)
    same, ungated = bare_loop(script)
    seen = talk(kind, arm, gate, script)
    assert (without, same, len(seen.requests)) == (4, 4 + revisions, 4 + revisions)
    wrong = [("#W1", "changed my mind")] * revisions
    if arm in ("gate", "both"):
        assert seen.revised == revisions
        assert seen.desk.cancelled == [("#W1", "no longer needed")]
    else:
        assert seen.revised == 0
        assert seen.desk.cancelled == ungated.cancelled == [*wrong, ("#W1", "no longer needed")]


def test_trying_again_is_bounded(kind: str, gate: Gate) -> None:
    seen = talk(kind, "both", gate, [FIND, calls(read("#W1")), *[WRONG] * 4])
    assert len(seen.requests) == 6
    assert seen.steps == ["run", "run", "generate", "generate", "generate", "reply"]
    assert seen.desk.cancelled == []


def test_in_one_call_mode_a_revise_costs_none(kind: str, gate: Gate) -> None:
    script = [FIND, calls(read("#W1")), WRONG, RIGHT, DONE]
    said = ("Cancel #W1.", "I no longer need it.")
    seen = talk(kind, "both", gate, script, said, mode="one-call")
    assert [len(reply.steps) for reply in seen.replies] == [3, 2]
    assert len(seen.requests) == 5
    in_the_same_turns, _ = bare_loop([*script[:3], DONE, *script[3:]], said)
    assert in_the_same_turns == 6
    assert seen.steps == ["run", "run", "reply", "run", "reply"]
    assert seen.desk.cancelled == [("#W1", "no longer needed")]


@pytest.mark.parametrize("mode", ["same-turn", "one-call"])
def test_calls_rejected_beside_admitted_ones_cost_none_in_either_mode(kind: str, gate: Gate, mode: str) -> None:
    script = [
        FIND,
        calls(read("#W1"), read("#W2", "call_2")),
        calls(cancel("#W2"), cancel("#W1", call_id="call_2"), text="Both."),
        DONE,
    ]
    counted, desk = bare_loop(script)
    seen = talk(kind, "both", gate, script, mode=mode)
    assert len(seen.requests) == counted == 4
    assert [order for order, _ in desk.cancelled] == ["#W2", "#W1"]
    assert [order for order, _ in seen.desk.cancelled] == ["#W1"]
    *_, message, refused, ran = seen.history
    assert message["content"] == "Both."
    assert refused["content"].startswith("cancel_pending_order was refused")
    assert json.loads(ran["content"])["status"] == "cancelled"


# Everything a model and a network do --------------------------------------------------------------------------------

TROUBLE: Final = [
    Answer(None, calls=[("", "find_user_id_by_email", json.dumps({"email": retail.EMAIL}))]),
    calls(read("#W1"), read("#W2", "call_2"), text="One moment."),
    Answer("Too many requests", status=429, headers={"Retry-After": "0"}),
    calls(cancel("#W1"), cancel("#W2", call_id="call_2"), call("calculate", expression="1", call_id="call_3"), text="Both."),
    calls(cancel("#W2", call_id="again")),
    Answer("I am", calls=[cancel("#W2")], fragments=[2], cut_after=4),
    Answer(calls=[("m", "cancel_pending_order", '{"order_id": "#W')]),
    calls(read("#W1", "call_1"), ("", "get_order_details", "[1]")),
    Answer(calls=[("n", "get_order_details", "nonsense"), ("n", "get_user_details", '"x"')]),
    calls(("h", "functions.delete order!", "{}")),
    Answer(status=0),
    DONE,
    Answer(None, refusal="I cannot help with that."),
    Answer(""),
    Answer("Bye.", usage=(900, 2)),
]  # fmt: skip


def test_whatever_happens_every_request_is_valid_and_nothing_is_asked_twice(kind: str, arm: str, gate: Gate) -> None:
    seen = talk(kind, arm, gate, TROUBLE, ("Cancel #W1 and #W2.", "Write me a poem.", "Hello?", "Bye."))
    assert len(seen.requests) == len(TROUBLE)
    assert len(seen.steps) == len(TROUBLE) - 3  # the 429, the broken stream and the dropped connection
    assert [reply.text for reply in seen.replies] == ["Done.", "I cannot help with that.", "", "Bye."]
    held_back = arm in ("gate", "both")
    assert [order for order, _ in seen.desk.cancelled] == (["#W1"] if held_back else ["#W1", "#W2", "#W2"])
    assert seen.steps == [
        "run",  # who it is
        "run",  # both orders, in parallel
        "run",  # two of three
        "generate" if held_back else "run",  # none
        "generate",  # malformed write
        "run",  # one of two
        "generate",  # malformed reads
        "generate" if held_back else "run",  # no such tool
        *["reply"] * 4,
    ]


def test_every_rejected_call_is_answered_with_what_was_wrong(kind: str, gate: Gate) -> None:
    seen = talk(kind, "both", gate, TROUBLE, ("Cancel #W1 and #W2.", "Write me a poem.", "Hello?", "Bye."))
    made = [call for message in seen.history for call in message.get("tool_calls", [])]
    names = {call["id"]: call["function"]["name"] for call in made}
    answers = [(names[one["tool_call_id"]], one["content"]) for one in seen.history if one["role"] == "tool"]
    rejected = [(name, said) for name, said in answers if re.search("was (refused|not executed)", said)]
    told = [
        ("cancel_pending_order", '[retail.order_pending] The status of order #W2 is "delivered"'),
        ("cancel_pending_order", '[retail.order_pending] The status of order #W2 is "delivered"'),
        ("cancel_pending_order", "[gate.arguments] The arguments do not fit cancel_pending_order"),
        ("get_order_details", "arguments of get_order_details must be a JSON object, not list"),
        ("get_order_details", "arguments of get_order_details is not JSON"),
        ("get_user_details", "arguments of get_user_details must be a JSON object, not str"),
        ("functions_delete_order_", '[gate.tool] The tool "functions.delete order!" is not declared in this domain'),
    ]
    assert [name for name, _ in rejected] == [name for name, _ in told]
    for (_, said), (_, expected) in zip(rejected, told, strict=True):
        assert expected in said


def test_a_resend_after_a_broken_stream_asks_the_very_same(kind: str, gate: Gate) -> None:
    seen = talk(kind, "both", gate, [FIND, Answer("Do", cut_after=2), Answer("", status=503), DONE])
    assert seen.requests[1] == seen.requests[2] == seen.requests[3]
    assert [reply.text for reply in seen.replies] == ["Done."]


def test_the_ledgers_share_of_the_tokens_is_reported_per_generation(kind: str, gate: Gate) -> None:
    script = [FIND, calls(read("#W1")), DONE]
    shown = talk(kind, "both", gate, script)
    [reply] = shown.replies
    for step in reply.steps:
        assert step.view_tokens is not None
        assert 0 < step.view_tokens < 900
    assert reply.steps[2].view_bytes > reply.steps[1].view_bytes > reply.steps[0].view_bytes
    hidden = talk(kind, "gate", gate, script)
    assert [(step.view_bytes, step.view_tokens) for step in hidden.replies[0].steps] == [(0, 0)] * 3


def test_an_endpoint_that_stays_away_ends_the_turn_and_the_conversation_can_go_on(gate: Gate) -> None:
    desk = Desk()
    down = Answer("Down", status=503, headers={"Retry-After": "0"})
    with (
        ChatServer([FIND, down, down, calls(read("#W1")), DONE]) as server,
        OpenAIModel("scripted", base_url=server.url, retries=1) as model,
    ):
        agent = LedgerAgent(model, desk.tools, gate, now=retail.NOW, options=Options(system=SYSTEM))
        with pytest.raises(ModelUnreachable, match="answered 503; try again"):
            agent.send("Where is #W1?")
        assert agent.resume().text == "Done."
    assert len(server.requests) == 5
    check_requests(server.requests, view=True)


# By property --------------------------------------------------------------------------------------------------------

ODD_CALLS: Final = st.tuples(
    st.sampled_from(["", "call_1", "call_2", "x"]),
    st.sampled_from(["get_order_details", "cancel_pending_order", "calculate", "no such tool", "", "ä"]),
    st.sampled_from([
        '{"order_id": "#W1"}',
        '{"order_id": "#W1", "reason": "no longer needed"}',
        '{"order_id": "#W2", "reason": "no longer needed"}',
        '{"order_id": 5}',
        "{",
        "[]",
        "",
        '{"a": 1, "a": 2}',
        '{"expression": "<ledger>"}',
    ]),
)  # fmt: skip
ODD_ANSWERS: Final = st.builds(
    Answer,
    content=st.sampled_from([None, "", "Done.", "One \ud83d moment."]),
    calls=st.lists(ODD_CALLS, max_size=3),
    status=st.sampled_from([200, 200, 200, 503]),
    headers=st.just({"Retry-After": "0"}),
    fragments=st.sampled_from([(), (1,), (3, 2)]),
    cut_after=st.sampled_from([None, None, None, 2]),
)


@pytest.fixture(scope="module")
def endpoint() -> Iterator[tuple[ChatServer, OpenAIModel, list[Answer]]]:
    """An endpoint whose answers are set as the test goes; when they are spent it says `Done.`."""
    answers: list[Answer] = []
    script = lambda *_: answers.pop(0) if answers else DONE  # noqa: E731
    with ChatServer(script) as server, OpenAIModel("scripted", base_url=server.url, api_key="k", retries=30) as model:
        yield server, model, answers


@settings(max_examples=60)
@given(
    script=st.lists(ODD_ANSWERS, max_size=8),
    arm=st.sampled_from(list(ARMS)),
    mode=st.sampled_from(["same-turn", "one-call"]),
)
def test_whatever_a_model_says_no_request_is_invalid(
    endpoint: tuple[ChatServer, OpenAIModel, list[Answer]],
    gate: Gate,
    script: list[Answer],
    arm: str,
    mode: Any,
) -> None:
    server, model, answers = endpoint
    answers[:] = [FIND, *script]
    begun, (view, gated), desk = len(server.requests), ARMS[arm], Desk()
    options = Options(system=SYSTEM, view=view, mode=mode)
    agent = LedgerAgent(model, desk.tools, gate if gated else ShadowGate(gate), now=retail.NOW, options=options)
    for text in ("Cancel #W1.", "Go on.", "Bye."):
        agent.send(text)
    check_requests(server.requests[begun:], view=view)
    if gated:
        assert desk.cancelled in ([], [("#W1", "no longer needed")])
