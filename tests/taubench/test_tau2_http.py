"""The whole way of a run over real HTTP: litellm on one side, a server that plays the scripts on the other."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from ledgeragent.adapters.tau2.agent import ContextFull, LiteModel
from ledgeragent.errors import ModelRefused, ModelUnreachable
from ledgeragent.model import Generation, ProposedCall, Usage
from support.chat_server import Answer, ChatServer
from taubench.scripted_bench import Bench, counted, tool_calls

pytestmark = pytest.mark.filterwarnings("ignore")  # what litellm warns of is not ours to mend

TASK = "[service_issue]overdue_bill_suspension|unseat_sim_card[PERSONA:Easy]"


def server(bench: Bench) -> ChatServer:
    """Plays the agent's model."""

    def answer(body: dict[str, Any], number: int) -> Answer:
        line = bench.line(body["messages"])
        if line.call is None:
            return Answer(line.text, usage=(100, 10))
        name, arguments = line.call
        return Answer(None, calls=[(f"call_{number}", name, json.dumps(arguments))], usage=(100, 10))

    return ChatServer(answer)


def asked(body: Mapping[str, Any]) -> dict[str, Any]:
    """A request without what the benchmark's own conversion adds: a second name per call, null for an empty text."""
    messages = [
        {
            "role": message["role"],
            "content": message.get("content") or "",
            "calls": [
                (call["function"]["name"], json.loads(call["function"]["arguments"]))
                for call in message.get("tool_calls") or ()
            ],
        }
        for message in body["messages"]
    ]
    return {**{key: value for key, value in body.items() if key != "messages"}, "messages": messages}


def test_the_baseline_asks_the_model_exactly_what_the_benchmarks_own_agent_asks(
    benches: dict[str, Bench], played: Any
) -> None:
    bench = benches["telecom"]
    with server(bench) as bare:
        arguments = {"api_base": bare.url, "api_key": "unused", "num_retries": 3, "temperature": 0.0}
        simulation = bench.bare(TASK, llm_agent="openai/scripted", llm_args_agent=arguments, seed=626_729)
    with server(bench) as fc:
        [ours] = played("telecom", "fc", (TASK,), base_url=fc.url).values()

    assert [asked(body) for body in fc.requests] == [asked(body) for body in bare.requests]
    assert tool_calls(ours) == tool_calls(simulation.model_dump(mode="json"))
    assert ours["reward_info"]["reward"] == simulation.reward_info.reward == 1.0


def test_where_nothing_is_rejected_there_are_as_many_requests_as_without_us(
    benches: dict[str, Bench], played: Any
) -> None:
    bench = benches["telecom"]
    task = next(one for one in bench.tasks if all(action["requestor"] == "user" for action in bench.actions(one)))
    with server(bench) as bare:
        bench.bare(task, llm_agent="openai/scripted", llm_args_agent={"api_base": bare.url, "api_key": "unused"})
    with server(bench) as both:
        played("telecom", "both", (task,), base_url=both.url)

    assert len(bare.requests) > 2
    assert [asked(body)["messages"] for body in bare.requests] == [
        asked({**body, "messages": body["messages"][:-1]})["messages"] for body in both.requests
    ]


def test_each_rejection_costs_one_generation_and_each_read_it_names_another(
    benches: dict[str, Bench], played: Any
) -> None:
    bench = benches["telecom"]
    with server(bench) as fc:
        played("telecom", "fc", (TASK,), base_url=fc.url)
    with server(bench) as both:
        [simulation] = played("telecom", "both", (TASK,), base_url=both.url).values()

    rejected = counted(simulation, "rejected")
    reads = [call for call in tool_calls(simulation) if call[0].startswith("get_")]
    assert len(rejected) > 0
    assert len(both.requests) == len(fc.requests) + len(rejected) + len(reads)
    assert counted(simulation, "generations") == len(both.requests)
    prompt = sum((message.get("usage") or {}).get("prompt_tokens", 0) for message in simulation["messages"])
    assert prompt == 100 * len(both.requests)
    assert all(body["messages"][-1]["content"].startswith("<ledger>") for body in both.requests)


def test_calls_come_through_as_the_model_wrote_them() -> None:
    answer = Answer("Wait.", calls=[("a", "read", '{"x": '), ("b", "read", "")], usage=(7, 3))
    with ChatServer([answer]) as endpoint:
        generation = model(endpoint).generate([{"role": "user", "content": "Hi"}], [])

    calls = (ProposedCall("a", "read", '{"x": '), ProposedCall("b", "read", "{}"))
    assert generation == Generation("Wait.", calls, Usage(7, 3), "tool_calls", 0.0)
    assert "tools" not in endpoint.requests[0]


def test_malformed_arguments_end_the_benchmarks_own_agent_and_cost_ours_a_generation(
    benches: dict[str, Bench], played: Any
) -> None:
    bench = benches["telecom"]

    def broken_once(body: dict[str, Any], number: int) -> Answer:
        if number == 0:
            return Answer("", calls=[("c", "get_customer_by_id", '{"customer_id": ')], usage=(100, 10))
        line = bench.line([one for one in body["messages"] if not is_about_broken(one)])
        return Answer(line.text, calls=[(f"c{number}", line.call[0], json.dumps(line.call[1]))] if line.call else ())

    with ChatServer(broken_once) as endpoint, pytest.raises(json.JSONDecodeError):
        bench.bare(TASK, llm_agent="openai/scripted", llm_args_agent={"api_base": endpoint.url, "api_key": "unused"})
    with ChatServer(broken_once) as endpoint:
        [simulation] = played("telecom", "fc", (TASK,), base_url=endpoint.url).values()

    assert simulation["reward_info"]["reward"] == 1.0
    assert [one["tool"] for one in counted(simulation, "rejected")] == ["get_customer_by_id"]
    assert counted(simulation, "uncounted") == len(endpoint.requests) - 1


def is_about_broken(message: Mapping[str, Any]) -> bool:
    calls = message.get("tool_calls") or ()
    return message.get("tool_call_id") == "c" or any(call["id"] == "c" for call in calls)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (Answer("This model's maximum context length is 8192 tokens.", status=400), ContextFull),
        (Answer("no such model", status=404), ModelRefused),
        (Answer("who are you", status=401), ModelRefused),
        (Answer("slow down", status=429), ModelUnreachable),
        (Answer("on fire", status=500), ModelUnreachable),
        (Answer(status=0), ModelUnreachable),
    ],
)
def test_an_endpoint_that_gives_no_answer_is_one_of_our_errors(answer: Answer, kind: type[Exception]) -> None:
    with ChatServer(lambda *_: answer) as endpoint, pytest.raises(kind) as raised:
        model(endpoint).generate([{"role": "user", "content": "Hi"}], [])

    assert type(raised.value) is kind
    assert str(raised.value).startswith("openai/scripted: ")


def model(endpoint: ChatServer) -> LiteModel:
    return LiteModel("openai/scripted", {"api_base": endpoint.url, "api_key": "unused", "max_retries": 0})
