"""The agent: what the model sees, what runs, and what the user hears, for a model that plays from a script."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgeragent.agent import AsyncLedgerAgent, LedgerAgent, Options, Reply
from ledgeragent.contracts import Principal
from ledgeragent.errors import BadInput, LedgerError, ModelUnreachable, SessionClosed
from ledgeragent.feedback import USER_FAILURE
from ledgeragent.gate import Gate, ShadowGate
from ledgeragent.ledger import Limits
from ledgeragent.loop import Admitted, Loop
from ledgeragent.model import Generation, Usage
from ledgeragent.session import Session, ToolRefused
from ledgeragent.toolset import Toolset
from support import retail
from support.scripted_model import AsyncScriptedModel, ScriptedModel, calls, problem_of, says

pytest_plugins = ["support.fixtures"]

FIND = ("find_user_id_by_email", {"email": retail.EMAIL})
READ = ("get_order_details", {"order_id": "#W1"})
CANCEL = ("cancel_pending_order", {"order_id": "#W1", "reason": "no longer needed"})
CANCEL_DELIVERED = ("cancel_pending_order", {"order_id": "#W2", "reason": "no longer needed"})
ORDERS = {"#W1": retail.PENDING, "#W2": retail.DELIVERED}


class Shop:
    """The tools of a small back end; `ran` holds what reached it."""

    def __init__(self) -> None:
        self.ran: list[tuple[str, Mapping[str, Any]]] = []
        self.fails: dict[str, BaseException] = {}

    @property
    def tools(self) -> Toolset:
        names = [FIND[0], READ[0], CANCEL[0], "calculate"]
        return Toolset.from_openai([{"name": name} for name in names], self.run)

    def run(self, name: str, arguments: Mapping[str, Any]) -> Any:
        self.ran.append((name, arguments))
        if name in self.fails:
            raise self.fails[name]
        if name == FIND[0]:
            return retail.USER
        if name == READ[0]:
            return ORDERS[arguments["order_id"]]
        return f"{name} done"


def begin(
    gate: Gate | ShadowGate, *answers: Generation | Exception, **options: Any
) -> tuple[LedgerAgent, ScriptedModel, Shop]:
    """An agent with a scripted model and a shop."""
    model, shop = ScriptedModel(*answers), Shop()
    agent = LedgerAgent(model, shop.tools, gate, now=retail.NOW, options=Options(system="Be kind.", **options))
    return agent, model, shop


def ended(reply: Reply) -> list[str]:
    """What each generation of a turn came to."""
    return [step.next for step in reply.steps]


# A turn -------------------------------------------------------------------------------------------------------------


def test_words_are_passed_on_and_stay_in_the_history(gate: Gate) -> None:
    agent, model, shop = begin(gate, says("Hello!"))
    reply = agent.send("Hi")
    assert (reply.text, reply.ended, ended(reply), shop.ran) == ("Hello!", "said", ["reply"], [])
    assert agent.history == [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello!"}]
    assert [message["role"] for message in model.asked[0]] == ["system", "user", "user"]


def test_reads_run_and_fill_the_ledger_that_the_next_request_shows(gate: Gate) -> None:
    agent, model, shop = begin(gate, calls(FIND, READ), says("Found."))
    agent.send("Where is #W1?")
    assert shop.ran == [FIND, READ]
    assert model.asked[0][-1]["content"].split("\n")[3] == "Nothing has been read yet."
    block = model.asked[1][-1]
    assert block["role"] == "user"
    assert f'auth.user_id = "{retail.USER}"' in block["content"]
    assert "orders.#W1 = {" in block["content"]
    assert not any("<ledger>" in message["content"] for message in agent.history)


def test_an_allowed_write_runs_with_what_was_judged(gate: Gate) -> None:
    agent, _, shop = begin(gate, calls(FIND, READ), calls(CANCEL), says("Done."))
    reply = agent.send("Cancel #W1")
    assert shop.ran == [FIND, READ, CANCEL]
    assert ended(reply) == ["run", "run", "reply"]
    assert [review.verdict for step in reply.steps for review in step.reviews] == ["allow"]


def test_a_revised_call_is_answered_with_what_would_mend_it_and_the_model_goes_on(gate: Gate) -> None:
    agent, model, shop = begin(gate, calls(FIND), calls(CANCEL), calls(READ), calls(CANCEL), says("Done."))
    reply = agent.send("Cancel #W1")
    assert ended(reply) == ["run", "generate", "run", "run", "reply"]
    assert shop.ran == [FIND, READ, CANCEL]
    told = model.asked[2][-2]
    assert told["role"] == "tool"
    assert "was not executed" in told["content"]
    assert 'get_order_details(order_id="#W1")' in told["content"]
    assert problem_of(agent.history) is None


def test_a_blocked_call_is_answered_as_final(gate: Gate) -> None:
    agent, model, shop = begin(
        gate, calls(FIND, ("get_order_details", {"order_id": "#W2"})), calls(CANCEL_DELIVERED), says("I can't.")
    )
    reply = agent.send("Cancel #W2")
    assert (reply.text, ended(reply)) == ("I can't.", ["run", "generate", "reply"])
    assert "Do not retry it" in model.asked[2][-2]["content"]
    assert CANCEL_DELIVERED not in shop.ran


def test_of_one_message_the_admitted_calls_run_and_the_rejected_ones_are_answered(gate: Gate) -> None:
    both = calls(CANCEL_DELIVERED, CANCEL, ("calculate", {"expression": "1"}), text="One moment.")
    agent, model, shop = begin(gate, calls(FIND, READ, ("get_order_details", {"order_id": "#W2"})), both, says("Done."))
    reply = agent.send("Cancel both")
    assert ended(reply) == ["run", "run", "reply"]
    assert shop.ran[3:] == [CANCEL, ("calculate", {"expression": "1"})]
    message, *answers = model.asked[2][-5:-1]
    assert message["content"] == "One moment."
    assert [answer["tool_call_id"] for answer in answers] == [call["id"] for call in message["tool_calls"]]
    assert "was refused" in answers[0]["content"]
    assert [answer["content"] for answer in answers[1:]] == ["cancel_pending_order done", "calculate done"]


def test_in_one_call_mode_the_user_is_answered_at_once_and_the_model_hears_why_next_time(gate: Gate) -> None:
    agent, model, shop = begin(
        gate, calls(FIND), calls(CANCEL, text="I cancelled it!"), says("Let me look."), mode="one-call"
    )
    reply = agent.send("Cancel #W1")
    assert (reply.text, reply.ended) == ("I need to look something up before I can do that.", "revisions")
    assert len(model.asked) == 2
    assert problem_of(agent.history) is None
    agent.send("Well?")
    assert [message["role"] for message in model.asked[2]][-5:] == ["assistant", "tool", "assistant", "user", "user"]
    assert shop.ran == [FIND]


def test_trying_again_within_a_turn_is_bounded(gate: Gate) -> None:
    stubborn = [calls(CANCEL) for _ in range(5)]
    agent, model, shop = begin(gate, calls(FIND), *stubborn, max_revisions=2)
    reply = agent.send("Cancel #W1")
    assert ended(reply) == ["run", "generate", "generate", "reply"]
    assert (reply.text, reply.ended) == ("I need to look something up before I can do that.", "revisions")
    assert agent.history[-1] == {"role": "assistant", "content": reply.text}
    assert shop.ran == [FIND]
    assert problem_of(agent.history) is None
    assert len(model.asked) == 4


def test_a_turn_ends_after_so_many_generations(gate: Gate) -> None:
    agent, model, _ = begin(gate, *[calls(READ) for _ in range(9)], max_generations=4)
    reply = agent.send("Hi")
    assert (reply.ended, len(reply.steps), len(model.asked)) == ("generations", 4, 4)
    assert agent.history[-1] == {"role": "assistant", "content": reply.text}


def test_two_switches_give_four_arms(gate: Gate) -> None:
    for view in (True, False):
        for gated in (True, False):
            arm = gate if gated else ShadowGate(gate)
            agent, model, shop = begin(arm, calls(FIND), calls(CANCEL_DELIVERED), says("Well."), view=view)
            reply = agent.send("Cancel #W2")
            assert ("<ledger>" in model.asked[0][-1]["content"]) is view
            assert (CANCEL_DELIVERED in shop.ran) is not gated
            assert [review.would for step in reply.steps for review in step.reviews] == ["revise"]
            assert len(model.asked) == 3


# What comes back ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raised", "history", "said"),
    [
        (ToolRefused("out of stock"), [], "Error: out of stock"),
        (
            TimeoutError(),
            ["uncertain"],
            "cancel_pending_order gave no definite answer and may have been carried out: TimeoutError: . ",
        ),
        (
            ValueError("odd"),
            ["uncertain"],
            "cancel_pending_order gave no definite answer and may have been carried out: ValueError: odd. ",
        ),
    ],
)
def test_a_refusal_undoes_a_write_and_a_crash_leaves_it_uncertain(
    gate: Gate, raised: Exception, history: list[str], said: str
) -> None:
    agent, model, shop = begin(gate, calls(FIND, READ), calls(CANCEL), says("Hm."))
    shop.fails[CANCEL[0]] = raised
    agent.send("Cancel #W1")
    [probe] = agent.session.review([retail.cancel("#W1")])
    assert [one["outcome"] for one in probe.gate_input["history"]] == history
    assert model.asked[2][-2]["content"].startswith(said)


def test_a_read_that_fails_is_told_and_is_no_fact(gate: Gate) -> None:
    agent, model, shop = begin(gate, calls(READ), says("Hm."))
    shop.fails[READ[0]] = ValueError("no such order")
    agent.send("Hi")
    assert model.asked[1][-2]["content"] == "Error: no such order"
    assert len(agent.session.ledger) == 0


def test_a_return_that_is_no_fact_is_shown_as_unusable(gate: Gate) -> None:
    agent, model, shop = begin(gate, calls(("get_order_details", {"order_id": "#W1"})), says("Hm."))
    shop.run = lambda name, arguments: "503 Service Unavailable"  # type: ignore[method-assign]
    agent.tools = Toolset.from_openai([{"name": READ[0]}], shop.run)
    agent.send("Hi")
    assert 'Unusable, not a fact: "orders.#W1"' in model.asked[1][-1]["content"]


def test_an_executor_gets_admitted_calls_only_each_with_its_ticket(gate: Gate) -> None:
    seen: list[Admitted] = []

    def executor(call: Admitted, arguments: dict[str, Any]) -> Any:
        seen.append(call)
        return shop.run(call.tool, arguments)

    shop = Shop()
    model = ScriptedModel(calls(FIND, READ), calls(CANCEL_DELIVERED, CANCEL), says("Done."))
    LedgerAgent(model, shop.tools, gate, now=retail.NOW, executor=executor).send("Cancel")
    assert [(call.tool, call.ticket is not None) for call in seen] == [
        (FIND[0], False),
        (READ[0], False),
        (CANCEL[0], True),
    ]
    assert seen[2].ticket is not None
    assert json.loads(seen[2].ticket.arguments) == seen[2].arguments == CANCEL[1]


def test_an_interrupted_write_is_uncertain_and_the_conversation_goes_on(gate: Gate) -> None:
    agent, model, shop = begin(gate, calls(FIND, READ), calls(CANCEL, READ), says("Sorry."))
    shop.fails[CANCEL[0]] = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        agent.send("Cancel #W1")
    agent.send("Hello?")
    assert problem_of(agent.history) is None
    told = [message["content"] for message in model.asked[2] if message["role"] == "tool"][-2:]
    assert told[0].startswith("cancel_pending_order gave no definite answer")
    assert told[1] == "get_order_details was not executed: interrupted before it returned."
    [probe] = agent.session.review([retail.cancel("#W1")])
    assert [one["outcome"] for one in probe.gate_input["history"]] == ["uncertain"]


def test_a_gate_that_cannot_be_asked_any_more_leaves_a_history_without_unanswered_calls(gate: Gate) -> None:
    agent, _, shop = begin(gate, calls(FIND), calls(CANCEL, READ))
    review = agent.session.review

    def ended(writes: Any, **about: Any) -> Any:
        if writes:
            agent.session.close()
        return review(writes, **about)

    agent.session.review = ended  # type: ignore[method-assign]
    with pytest.raises(SessionClosed):
        agent.send("Cancel #W1")
    assert problem_of(agent.history) is None
    assert shop.ran == [FIND]


def test_a_model_that_fails_leaves_a_conversation_that_can_be_resumed(gate: Gate) -> None:
    agent, model, _ = begin(gate, calls(READ), ModelUnreachable("away"), says("Here I am."))
    with pytest.raises(ModelUnreachable):
        agent.send("Hi")
    assert problem_of(agent.history) is None
    assert agent.resume().text == "Here I am."
    assert [message["role"] for message in model.asked[2]] == ["system", "user", "assistant", "tool", "user"]


def test_facts_that_change_between_admission_and_execution_withhold_the_write(gate: Gate) -> None:
    agent, model, shop = begin(gate, calls(FIND, READ), calls(READ, CANCEL), says("Hm."))
    moved = {**retail.PENDING, "status": "processed"}
    orders = iter([retail.PENDING, moved])
    agent.tools = Toolset.from_openai(
        [{"name": name} for name in (FIND[0], READ[0], CANCEL[0])],
        lambda name, given: next(orders) if name == READ[0] else shop.run(name, given),
    )
    agent.send("Cancel #W1")
    assert CANCEL not in shop.ran
    assert "facts that admitted cancel_pending_order have changed since" in model.asked[2][-2]["content"]


# What models do -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", ["{", "", "[1]", '"x"', "nul", '{"order_id": "#W1", "order_id": "#W2"}', "NaN"])
@pytest.mark.parametrize("name", [READ[0], CANCEL[0]])
@pytest.mark.parametrize("shadow", [False, True])
def test_malformed_arguments_never_run_and_the_history_stays_valid(
    gate: Gate, name: str, arguments: str, shadow: bool
) -> None:
    agent, _, shop = begin(ShadowGate(gate) if shadow else gate, calls((name, arguments)), says("Sorry."))
    reply = agent.send("Hi")
    assert (shop.ran, ended(reply)) == ([], ["generate", "reply"])
    assert problem_of(agent.history) is None
    told = agent.history[2]["content"]
    assert told.startswith(f"{name} was not executed")
    assert f"arguments of {name}" in told
    assert "JSON" in told


def test_a_tool_that_is_made_up_is_blocked_and_under_a_shadow_the_tools_say_no(gate: Gate) -> None:
    for arm, said in ((gate, "refund_all was refused"), (ShadowGate(gate), "Error: there is no tool refund_all")):
        agent, model, shop = begin(arm, calls(("refund_all", {})), says("Sorry."))
        agent.send("Hi")
        assert shop.ran == []
        assert model.asked[1][-2]["content"].startswith(said)


def test_calls_without_ids_or_with_the_same_id_get_ids_of_their_own(gate: Gate) -> None:
    one = calls(FIND).calls[0]
    twice = Generation("", (one, one))
    agent, _, shop = begin(gate, twice, twice, says("Done."))
    agent.send("Hi")
    assert len(shop.ran) == 4
    assert problem_of(agent.history) is None


def test_an_empty_answer_ends_the_turn_and_leaves_no_empty_message(gate: Gate) -> None:
    agent, _, _ = begin(gate, says(""))
    assert agent.send("Hi").text == ""
    assert agent.history == [{"role": "user", "content": "Hi"}]


def test_tokens_of_the_view_are_its_share_of_the_prompt(gate: Gate) -> None:
    agent, model, _ = begin(gate, says("Hi.", Usage(1000, 5)))
    [step] = agent.send("Hi").steps
    assert step.view_bytes == len(model.asked[0][-1]["content"].encode())
    assert step.view_tokens is not None
    assert 0 < step.view_tokens < 1000
    agent, _, _ = begin(gate, says("Hi.", Usage(1000, 5)), view=False)
    [step] = agent.send("Hi").steps
    assert (step.view_bytes, step.view_tokens) == (0, 0)


STEPS = st.sampled_from(
    [FIND, READ, CANCEL, CANCEL_DELIVERED, ("refund_all", {}), (READ[0], "{"), ("calculate", {"expression": "1"})]
)


@given(
    st.lists(
        st.one_of(st.just(says("Yes?")), st.lists(STEPS, min_size=1, max_size=4).map(lambda made: calls(*made))),
        max_size=8,
    ),
    st.booleans(),
)
def test_whatever_a_model_does_every_request_is_valid_and_extends_the_one_before(
    gate: Gate, answers: list[Generation], one_call: bool
) -> None:
    agent, model, shop = begin(gate, *answers, *[says("End.")] * 9, mode="one-call" if one_call else "same-turn")
    for _ in range(3):
        agent.send("Go on")
    for asked in model.asked:
        assert problem_of(asked) is None
        assert asked[-1]["content"].startswith("<ledger>")
        assert not any("<ledger>" in message["content"] for message in asked[:-1])
    for before, after in zip(model.asked, model.asked[1:], strict=False):
        assert after[: len(before) - 1] == before[:-1]
    assert CANCEL_DELIVERED not in shop.ran
    assert shop.ran.count(CANCEL) <= 1


# The conversation ---------------------------------------------------------------------------------------------------


def test_a_tool_that_the_domain_does_not_declare_is_no_tool_of_an_agent(gate: Gate) -> None:
    with pytest.raises(BadInput, match="domain 'retail' does not declare refund_all: nothing would guard them"):
        LedgerAgent(ScriptedModel(), Toolset.from_openai([{"name": "refund_all"}], print), gate, now=retail.NOW)


def test_the_clock_may_be_a_function_and_moves_with_every_message(gate: Gate) -> None:
    times = iter([retail.NOW, "2024-05-16T09:00:00-05:00"])
    agent = LedgerAgent(ScriptedModel(says("Hi.")), Shop().tools, gate, now=lambda: next(times))
    agent.send("Hi")
    assert agent.session.now == "2024-05-16T09:00:00-05:00"


def test_whom_the_host_authenticated_needs_no_read_to_be_known(gate: Gate) -> None:
    about: dict[str, Any] = {"now": retail.NOW, "principal": Principal(id=retail.USER, source="host")}
    shop = Shop()
    LedgerAgent(ScriptedModel(calls(READ), calls(CANCEL), says("Done.")), shop.tools, gate, **about).send("Cancel #W1")
    assert shop.ran == [READ, CANCEL]


def test_a_conversation_goes_on_in_another_process(gate: Gate) -> None:
    agent, _, _ = begin(gate, calls(FIND), calls(READ), says("It is pending."))
    agent.send("Where is #W1?")
    model, shop = ScriptedModel(calls(CANCEL), says("Cancelled.")), Shop()
    session = Session.from_json(agent.session.to_json(), gate)
    later = LedgerAgent(model, shop.tools, gate, now=retail.NOW, session=session, history=agent.history)
    assert later.send("Cancel it.").text == "Cancelled."
    assert [name for name, _ in shop.ran] == [CANCEL[0]]
    assert later.history[: len(agent.history)] == agent.history
    ids = [call["id"] for message in later.history for call in message.get("tool_calls", ())]
    assert (len(set(ids)), [problem_of(asked) for asked in model.asked]) == (3, [None, None])


@pytest.mark.parametrize("other", [{"session_id": "x"}, {"limits": Limits()}, {"gate": "shadow"}])
def test_a_session_to_go_on_with_keeps_what_it_has(gate: Gate, other: dict[str, Any]) -> None:
    about = {key: value for key, value in other.items() if key != "gate"}
    judge = ShadowGate(gate) if "gate" in other else gate
    with pytest.raises(BadInput, match="has its own gate, id, recorder, limits and approvals"):
        LedgerAgent(ScriptedModel(), Shop().tools, judge, now=retail.NOW, session=retail.desk(gate), **about)


def test_a_session_is_gone_on_with_only_for_the_same_principal(gate: Gate) -> None:
    session = retail.desk(gate)

    def go_on(who: str) -> LedgerAgent:
        principal = Principal(id=who, source="host")
        return LedgerAgent(ScriptedModel(), Shop().tools, gate, now=retail.NOW, session=session, principal=principal)

    assert go_on(retail.USER).session is session
    with pytest.raises(SessionClosed, match="the principal changed"):
        go_on("eve_mallory_6666")


def test_a_closed_conversation_takes_nothing_more(gate: Gate) -> None:
    agent, _, shop = begin(gate, calls(READ), says("Hi."))
    agent.close()
    with pytest.raises(SessionClosed):
        agent.send("Hi")
    assert shop.ran == []


def test_no_generation_while_calls_are_out_and_no_call_runs_twice(gate: Gate) -> None:
    loop = Loop(Session(gate, now=retail.NOW), [])
    loop.user_said("Hi")
    loop.request()
    [call] = loop.take(calls(READ)).admitted
    with pytest.raises(LedgerError, match="have not returned"):
        loop.request()
    with pytest.raises(LedgerError, match="was not started"):
        loop.returned(call, "x")
    loop.start(call)
    with pytest.raises(LedgerError, match="is not waiting to be run"):
        loop.start(call)
    assert loop.returned(call, retail.PENDING) == json.dumps(retail.PENDING)
    with pytest.raises(LedgerError, match="was not started"):
        loop.returned(call, retail.PENDING)


def test_an_engine_that_is_gone_blocks_and_the_user_hears_no_technicalities(gate: Gate) -> None:
    class Away:
        name, version, location = "away", "0", "nowhere"

        def evaluate(self, domain: str, rule: str, gate_input: Mapping[str, Any]) -> Any:
            raise OSError("boom")

        def close(self) -> None: ...

    agent, _, shop = begin(Gate(gate.domain, Away()), calls(CANCEL), mode="one-call")  # type: ignore[arg-type]
    assert agent.send("Cancel #W1").text == USER_FAILURE
    assert shop.ran == []


# Awaited ------------------------------------------------------------------------------------------------------------


def test_the_awaited_agent_does_the_same_with_plain_and_coroutine_tools(gate: Gate) -> None:
    script = [calls(FIND), calls(CANCEL), calls(READ), calls(CANCEL, FIND), says("Done.")]
    plain, model, shop = begin(gate, *script)
    expected = plain.send("Cancel #W1")

    async def tried(run: Callable[[str, Mapping[str, Any]], Any]) -> tuple[Reply, list[Any], list[Any]]:
        awaited = AsyncScriptedModel(*script)
        tools = Toolset.from_openai([{"name": name} for name in (FIND[0], READ[0], CANCEL[0], "calculate")], run)
        agent = AsyncLedgerAgent(awaited, tools, gate, now=retail.NOW, options=Options(system="Be kind."))
        return await agent.send("Cancel #W1"), agent.history, awaited.asked

    for coroutine in (False, True):
        other = Shop()

        async def run(name: str, arguments: Mapping[str, Any], other: Shop = other) -> Any:
            return other.run(name, arguments)

        reply, history, asked = asyncio.run(tried(run if coroutine else other.run))
        assert (reply.text, ended(reply), other.ran) == (expected.text, ended(expected), shop.ran)
        assert [message["content"] for message in history] == [message["content"] for message in plain.history]
        assert [messages[-1] for messages in asked] == [messages[-1] for messages in model.asked]


def test_a_cancelled_turn_leaves_the_write_uncertain_and_the_history_valid(gate: Gate) -> None:
    async def tried() -> AsyncLedgerAgent:
        running = asyncio.Event()
        shop = Shop()

        async def run(name: str, arguments: Mapping[str, Any]) -> Any:
            if name == CANCEL[0]:
                running.set()
                await asyncio.Event().wait()
            return shop.run(name, arguments)

        tools = Toolset.from_openai([{"name": name} for name in (FIND[0], READ[0], CANCEL[0])], run)
        agent = AsyncLedgerAgent(
            AsyncScriptedModel(calls(FIND, READ), calls(CANCEL), says("Sorry.")), tools, gate, now=retail.NOW
        )
        turn = asyncio.create_task(agent.send("Cancel #W1"))
        await running.wait()
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
        await agent.send("Hello?")
        return agent

    agent = asyncio.run(tried())
    assert problem_of(agent.history) is None
    [probe] = agent.session.review([retail.cancel("#W1")])
    assert [one["outcome"] for one in probe.gate_input["history"]] == ["uncertain"]
