"""The shipped models against a real HTTP endpoint that answers from a script, soundly or not; sync and async alike."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import importlib.util
import json
import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgeragent.errors import BadInput, ModelAnswer, ModelRefused, ModelUnreachable
from ledgeragent.model import Generation, ProposedCall, Usage
from ledgeragent.models.assembling import Assembler
from needs import need
from support.chat_server import Answer, ChatServer, events_of, sse

need(importlib.util.find_spec("openai"), "the package openai (pip install 'ledgeragent[openai]')")
from ledgeragent.models.openai import AsyncOpenAIModel, OpenAIModel  # noqa: E402 - an extra

KEY = "sk-live-0123456789"
HELLO = [{"role": "user", "content": "Hello"}]
LOOK_UP = {
    "type": "function",
    "function": {"name": "look_up", "description": "", "parameters": {"type": "object", "properties": {}}},
}
Ask = Callable[..., Generation]


@pytest.fixture(autouse=True)
def _an_impatient_client_without_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.001)
    for name in [name for name in os.environ if name.startswith("OPENAI_")]:
        monkeypatch.delenv(name)


def ask_now(url: str, messages: Sequence[Any] = HELLO, tools: Sequence[Any] = (), **about: Any) -> Generation:
    with OpenAIModel("scripted", base_url=url, **{"api_key": KEY, **about}) as model:
        return model.generate(messages, tools)


def ask_later(url: str, messages: Sequence[Any] = HELLO, tools: Sequence[Any] = (), **about: Any) -> Generation:
    async def ask() -> Generation:
        async with AsyncOpenAIModel("scripted", base_url=url, **{"api_key": KEY, **about}) as model:
            return await model.generate(messages, tools)

    return asyncio.run(ask())


@pytest.fixture(params=[ask_now, ask_later], ids=["sync", "async"])
def ask(request: pytest.FixtureRequest) -> Ask:
    """Asks an endpoint once, through either model."""
    return request.param  # type: ignore[no-any-return]


def chunks(*deltas: dict[str, Any], finish: str | None = "stop", **rest: Any) -> bytes:
    """A stream of these deltas."""
    choices: list[dict[str, Any]] = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": finish})
    return sse(*({"choices": [choice], **rest} for choice in choices), "[DONE]")


def call_part(name: str | None = None, arguments: Any = "", **rest: Any) -> dict[str, Any]:
    return {"tool_calls": [{**rest, "function": {"name": name, "arguments": arguments}}]}


# What is asked ------------------------------------------------------------------------------------------------------


def test_a_request_holds_the_conversation_the_tools_and_the_options_and_asks_for_usage(ask: Ask) -> None:
    options = {"temperature": 0.7, "seed": 3, "max_tokens": 50, "top_k": 4}
    with ChatServer([Answer("Hi.")]) as server:
        ask(server.url, tools=[LOOK_UP], options=options)
    assert server.requests == [
        {
            "model": "scripted",
            "messages": HELLO,
            "tools": [LOOK_UP],
            "stream": True,
            "stream_options": {"include_usage": True},
            **options,
        }
    ]
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"


def test_without_streaming_and_tools_neither_is_mentioned(ask: Ask) -> None:
    with ChatServer([Answer("Hi.")]) as server:
        ask(server.url, stream=False)
    assert server.requests == [{"model": "scripted", "messages": HELLO, "stream": False}]


def test_half_a_character_in_a_message_does_not_stop_the_conversation(ask: Ask) -> None:
    with ChatServer([Answer("Hi.")]) as server:
        ask(server.url, [{"role": "user", "content": "grüße \ud83d"}, {"role": "user", "content": "\ud83d\ude00"}])
    assert [message["content"] for message in server.requests[0]["messages"]] == ["grüße \ufffd", "😀"]


def test_endpoint_and_key_come_from_the_environment_where_they_are_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    with ChatServer([Answer("Hi.")]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "from the environment")
        with OpenAIModel("scripted") as model:
            model.generate(HELLO, [])
    assert server.headers[0]["authorization"] == "Bearer from the environment"


def test_an_endpoint_of_ones_own_needs_no_key(ask: Ask) -> None:
    with ChatServer([Answer("Hi.")]) as server:
        assert ask(server.url, api_key=None).content == "Hi."


@pytest.mark.parametrize(
    ("about", "said"),
    [
        ({}, "no API key: give api_key, set OPENAI_API_KEY, or give the base_url of an endpoint without"),
        ({"base_url": "localhost:8080/v1"}, "base_url must begin with http:// or https:// and a host"),
        ({"base_url": "http://[::1/v1"}, "base_url must begin with http:// or https:// and a host"),
        ({"api_key": KEY, "options": {"messages": [], "model": "x"}}, "options must not hold messages, model"),
        ({"api_key": KEY, "options": {"temperature": float("nan")}}, "options contains a number that is not finite"),
    ],
)
def test_what_can_never_work_is_refused_before_anything_is_sent(about: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput) as refused:
        OpenAIModel("scripted", **about)
    assert str(refused.value).startswith(said)


# What is answered ---------------------------------------------------------------------------------------------------

CALLS = [("call_1", "look_up", '{"order_id": "#W1"}'), ("call_2", "look_up", '{"order_id": "#W2"}')]
BOTH = tuple(ProposedCall(*call) for call in CALLS)


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize(
    ("answer", "generation"),
    [
        (Answer("Good day."), Generation("Good day.")),
        (Answer("Good day.", fragments=[1, 3], usage=(7, 2)), Generation("Good day.", (), Usage(7, 2))),
        (Answer(None, calls=CALLS, fragments=[2, 5]), Generation("", BOTH, None, "tool_calls")),
        (Answer("One moment.", calls=CALLS, usage=(9, 8, 4)), Generation("One moment.", BOTH, Usage(9, 8, 4), "tool_calls")),
        (Answer(None, refusal="I cannot help.", fragments=[4]), Generation("I cannot help.")),
        (Answer(None, finish="content_filter"), Generation("", finish="content_filter")),
        (Answer("", usage=(5, 0)), Generation("", (), Usage(5, 0))),
        (
            Answer("Cut", calls=[("call_1", "look_up", '{"order')], finish="length"),
            Generation("Cut", (ProposedCall("call_1", "look_up", '{"order'),), None, "length"),
        ),
        (
            Answer(calls=[("", "no_such_tool", '{"x": 1}'), ("", "look_up", "nonsense")], numbered=True),
            Generation("", (ProposedCall("", "no_such_tool", '{"x": 1}'), ProposedCall("", "look_up", "nonsense")), None, "tool_calls"),
        ),
        (Answer(calls=[("call_1", "look_up", "")]), Generation("", (ProposedCall("call_1", "look_up", "{}"),), None, "tool_calls")),
    ],
    ids=["text", "pieces", "null content", "text and calls", "refusal", "filtered", "empty", "cut off", "made up", "no arguments"],
)  # fmt: skip
def test_an_answer_is_taken_as_it_is_and_asked_for_once(
    ask: Ask, stream: bool, answer: Answer, generation: Generation
) -> None:
    with ChatServer([answer]) as server:
        assert ask(server.url, stream=stream) == generation
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("deltas", "calls"),
    [
        ([call_part("f", '{"a":', id="1"), call_part(None, " 1}"), call_part("g", "{}", id="2")], [("1", "f", '{"a": 1}'), ("2", "g", "{}")]),
        ([call_part("f", '{"a": 1}'), call_part("f", '{"a": 2}')], [("", "f", '{"a": 1}'), ("", "f", '{"a": 2}')]),
        ([call_part("f", "{}", index=0, id="1"), call_part("g", "{}", index=0, id="2")], [("1", "f", "{}"), ("2", "g", "{}")]),
        ([call_part("f", "{", index=0, id="1"), call_part("f", "}", index=0, id="1")], [("1", "f", "{}")]),
        ([call_part("f", "{", index=0, id="1"), call_part(None, "}", index=0, id="9")], [("1", "f", "{}")]),
        ([call_part("f", "{", index=0), call_part("g", "{", index=1), call_part("", "}", index=0), call_part("", "}", index=1)], [("", "f", "{}"), ("", "g", "{}")]),
        ([call_part("look", index=0, id="1"), call_part("_up", "{}", index=0)], [("1", "look_up", "{}")]),
        ([{"tool_calls": [{"index": 0, "id": "1"}]}, call_part("f", "{}", index=0)], [("1", "f", "{}")]),
        ([{"tool_calls": [{"id": "1"}]}, call_part("f", "{}")], [("1", "f", "{}")]),
        ([call_part("f", {"a": 1}, index=0, id="1")], [("1", "f", '{"a": 1}')]),
        ([call_part("f", None, index=0, id=None)], [("", "f", "{}")]),
        ([{"tool_calls": None, "content": None}], []),
    ],
    ids=["no index", "neither", "one index for all", "name repeated", "a new id each time", "no ids, interleaved", "name in pieces", "id first", "id first and no index", "an object", "null", "no calls"],
)  # fmt: skip
def test_calls_are_told_apart_whatever_an_endpoint_leaves_out(
    ask: Ask, deltas: list[dict[str, Any]], calls: list[tuple[str, str, str]]
) -> None:
    with ChatServer([Answer(body=chunks(*deltas))]) as server:
        assert ask(server.url) == Generation("", tuple(ProposedCall(*call) for call in calls))


def test_only_the_first_of_several_choices_counts_and_the_last_usage(ask: Ask) -> None:
    def chunk(index: int, text: str, tokens: int) -> dict[str, Any]:
        choice = {"index": index, "delta": {"content": text}, "finish_reason": "stop"}
        return {"choices": [choice], "usage": {"prompt_tokens": 5, "completion_tokens": tokens}}

    with ChatServer([Answer(body=sse(chunk(0, "One", 1), chunk(1, "Two", 2), "[DONE]"))]) as server:
        assert ask(server.url) == Generation("One", (), Usage(5, 2))


def test_what_follows_the_finish_reason_does_not_undo_it(ask: Ask) -> None:
    end = {"choices": [{"index": 0, "delta": {"content": "Hi."}, "finish_reason": "length"}]}
    after = {"choices": [{"index": 0, "delta": {}, "finish_reason": None}], "usage": {"prompt_tokens": 5}}
    with ChatServer([Answer(body=sse(end, after, "[DONE]"))]) as server:
        assert ask(server.url) == Generation("Hi.", (), Usage(5, 0), "length")


def test_a_character_cut_in_two_halves_is_joined_again(ask: Ask) -> None:
    with ChatServer([Answer(body=chunks({"content": "\ud83d"}, {"content": "\ude00 \ud83d"}))]) as server:
        assert ask(server.url).content == "😀 \ufffd"


def test_an_endpoint_that_does_not_stream_is_understood_all_the_same(ask: Ask) -> None:
    body = {"choices": [{"message": {"content": "Hi."}}], "usage": {"prompt_tokens": 4, "completion_tokens": 1}}
    answer = Answer(body=json.dumps(body).encode(), headers={"Content-Type": "application/json"})
    with ChatServer([answer]) as server:
        assert ask(server.url) == Generation("Hi.", (), Usage(4, 1))


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_text_is_handed_on_as_it_comes(ask: Ask, stream: bool) -> None:
    heard: list[str] = []
    with ChatServer([Answer("Good day", calls=CALLS, fragments=[5])]) as server:
        ask(server.url, stream=stream, on_text=heard.append)
    assert heard == (["Good ", "day"] if stream else ["Good day"])


def test_what_goes_wrong_in_the_listener_is_the_listeners_and_nothing_is_asked_again(ask: Ask) -> None:
    def refuses(_: str) -> None:
        raise ValueError("the terminal is gone")

    with ChatServer([Answer("Good day")]) as server:
        with pytest.raises(ValueError, match="the terminal is gone"):
            ask(server.url, on_text=refuses)
        assert len(server.requests) == 1


# What goes wrong ----------------------------------------------------------------------------------------------------

AT_ONCE = {"Retry-After": "0"}
AS_JSON = {"Content-Type": "application/json"}
OK = Answer("Hi.")


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("status", [408, 429, 500, 503])
def test_an_overloaded_endpoint_is_asked_again(ask: Ask, stream: bool, status: int) -> None:
    with ChatServer([Answer(status=status, headers=AT_ONCE), OK]) as server:
        assert ask(server.url, stream=stream) == Generation("Hi.")
    assert len(server.requests) == 2


@pytest.mark.parametrize("retries", [0, 2])
@pytest.mark.parametrize("status", [408, 429, 500, 503])
def test_but_only_so_many_times(ask: Ask, status: int, retries: int) -> None:
    with ChatServer(lambda *_: Answer("Too busy", status=status, headers=AT_ONCE)) as server:
        with pytest.raises(ModelUnreachable) as failed:
            ask(server.url, retries=retries)
        assert str(failed.value) == f"model 'scripted' at {server.url} answered {status}; try again later"
        assert failed.value.said == "'Too busy'"
        assert len(server.requests) == 1 + retries


@pytest.mark.parametrize(
    ("status", "hint"),
    [
        (400, "change the request or the base URL"),
        (401, "check the API key"),
        (403, "check what the API key may do"),
        (404, "check the model's name and the base URL, which mostly ends in /v1"),
        (422, "change the request or the base URL"),
    ],
)
def test_a_request_that_was_not_accepted_is_not_sent_again(ask: Ask, status: int, hint: str) -> None:
    with ChatServer([Answer("Not so", status=status)]) as server:
        with pytest.raises(ModelRefused) as refused:
            ask(server.url)
        assert str(refused.value) == f"model 'scripted' at {server.url} answered {status}; {hint}"
        assert refused.value.said == "'Not so'"
        assert refused.value.status == status
        assert len(server.requests) == 1


def test_a_redirect_is_not_followed_for_it_would_take_the_conversation_elsewhere(ask: Ask) -> None:
    with ChatServer([OK]) as elsewhere:
        to = {"Location": f"{elsewhere.url}/chat/completions"}
        with ChatServer([Answer(status=307, headers=to)]) as server, pytest.raises(ModelRefused, match="answered 307"):
            ask(server.url)
        assert elsewhere.requests == []


@pytest.mark.parametrize("cut_after", [0, 1, 3, 5])
def test_a_stream_that_broke_off_is_begun_anew(ask: Ask, cut_after: int) -> None:
    heard: list[str] = []
    cut = Answer("Good day", calls=CALLS, fragments=[4], cut_after=cut_after)
    with ChatServer([cut, OK]) as server:
        assert ask(server.url, on_text=heard.append) == Generation("Hi.")
        assert len(server.requests) == 2
    assert heard == [*["Good", " day"][: max(cut_after - 1, 0)], "Hi."]


def test_so_is_one_that_ends_without_saying_why(ask: Ask) -> None:
    ended = Answer(body=chunks({"content": "Good d"}, finish=None))
    with ChatServer([ended, OK]) as server:
        assert ask(server.url) == Generation("Hi.")
    with ChatServer([ended]) as server:
        with pytest.raises(ModelUnreachable, match="ended its answer without a finish reason"):
            ask(server.url, retries=0)
        assert len(server.requests) == 1


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_a_whole_answer_that_broke_off_is_asked_for_again(ask: Ask, stream: bool) -> None:
    cut = Answer(body=json.dumps({"choices": []}).encode(), headers=AS_JSON, cut_after=5)
    with ChatServer([cut, OK]) as server:
        assert ask(server.url, stream=stream) == Generation("Hi.")
    assert len(server.requests) == 2


def test_a_connection_that_is_dropped_before_the_answer_is_tried_again(ask: Ask) -> None:
    with ChatServer([Answer(status=0), OK]) as server:
        assert ask(server.url) == Generation("Hi.")
    assert len(server.requests) == 2


@pytest.mark.parametrize("retries", [0, 1, 2])
def test_all_kinds_of_retries_together_are_bounded(ask: Ask, retries: int) -> None:
    broken = [Answer("Good day", cut_after=2), Answer(status=503, headers=AT_ONCE), Answer("Good day", cut_after=2)]
    with ChatServer(broken) as server:
        with pytest.raises(ModelUnreachable):
            ask(server.url, retries=retries)
        assert len(server.requests) == 1 + retries


def test_a_stream_that_broke_off_for_good_says_so(ask: Ask) -> None:
    with ChatServer([Answer("Good day", cut_after=2)]) as server:
        with pytest.raises(ModelUnreachable) as failed:
            ask(server.url, retries=0)
        assert str(failed.value) == (
            f"model 'scripted' at {server.url} broke off in the middle of its answer (RemoteProtocolError); try again later"
        )


def test_where_nobody_listens_is_said(ask: Ask) -> None:
    with ChatServer([]) as server:
        pass
    with pytest.raises(ModelUnreachable) as failed:
        ask(server.url, retries=1)
    assert str(failed.value).startswith(f"model 'scripted' at {server.url} cannot be reached (ConnectError: ")


@pytest.fixture
def hold() -> Iterator[threading.Event]:
    """Held answers are let go at the end of the test."""
    event = threading.Event()
    yield event
    event.set()


@pytest.mark.parametrize("held_after", [0, 2], ids=["never begins", "stops coming"])
def test_an_answer_that_does_not_come_in_time_is_asked_for_again(
    ask: Ask, hold: threading.Event, held_after: int
) -> None:
    held = Answer("Too late.", hold=hold, held_after=held_after)
    # On a busy machine a sound answer may be late as well: how often it was asked for is not said exactly.
    with ChatServer(lambda _, number: OK if number else held) as server:
        assert ask(server.url, timeout=0.2, retries=20) == Generation("Hi.")
        assert len(server.requests) >= 2


def test_no_answer_in_time_says_how_long_it_waited(ask: Ask, hold: threading.Event) -> None:
    with ChatServer(lambda *_: Answer("Too late.", hold=hold)) as server:
        with pytest.raises(ModelUnreachable) as failed:
            ask(server.url, timeout=0.05, retries=0)
        assert str(failed.value) == (
            f"model 'scripted' at {server.url} gave no answer within 0.05 s; give it a longer timeout, or try again later"
        )


@pytest.mark.parametrize(
    ("answer", "problem", "said"),
    [
        (Answer(body=b"<html><body>Welcome</body></html>", headers={"Content-Type": "text/html"}), "(not JSON)", "'<html><body>Welcome</body></html>'"),
        (Answer(body=b'{"choices": [{"mess', headers=AS_JSON), "(not JSON)", "'{\"choices\": [{\"mess'"),
        (Answer(body=b"", headers=AS_JSON), "(not JSON)", "''"),
        (Answer(body=b"[" * 100_000, headers=AS_JSON), "(not JSON)", "'[[[["),
        (Answer(body=b"[]", headers=AS_JSON), "(no JSON object)", "'[]'"),
        (Answer(body=b'{"choices": []}', headers=AS_JSON), "(no message in it)", "'{\"choices\": []}'"),
        (Answer(body=b'{"choices": [{}]}', headers=AS_JSON), "(no message in it)", "'{\"choices\": [{}]}'"),
        (Answer(body=b'{"error": {"message": "no"}}', headers=AS_JSON), "(no message in it)", "'{\"error\": {\"message\": \"no\"}}'"),
        (Answer(body=b'{"choices": [{"message": {"content": 5}}]}', headers=AS_JSON), "(choices.0.message.content: Input should be a valid string)", ""),
        (Answer(body=sse({"choices": [{"delta": "Hi"}]})), "(choices.0.delta: Input should be a valid dictionary or instance of _Part)", ""),
        (Answer(body=sse("null")), "(no JSON object)", "'null'"),
        (Answer(body=sse("{nope")), "sent an event that is not JSON", ""),
        (Answer(body=b"data: \xff\n\n"), "sent an event that is not JSON", ""),
        (Answer(body=sse({"choices": []}, {"error": {"message": "out of memory"}})), "reported an error instead of an answer", "'out of memory'"),
    ],
    ids=["html", "half", "nothing", "deep", "a list", "no choice", "no message", "an error", "content", "delta", "null", "event", "bytes", "error event"],
)  # fmt: skip
def test_what_is_no_answer_is_never_asked_for_again(ask: Ask, answer: Answer, problem: str, said: str) -> None:
    with ChatServer([answer]) as server:
        with pytest.raises(ModelAnswer) as failed:
            ask(server.url)
        assert str(failed.value).startswith(f"model 'scripted' at {server.url} ")
        assert problem in str(failed.value)
        assert failed.value.said.startswith(said)
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    "answer",
    [
        Answer(f"Wrong key {KEY}", status=401),
        Answer(f"Busy, {KEY}", status=503),
        Answer(body=sse({"error": {"message": f"{KEY} is spent"}})),
        Answer(body=b"no JSON: " + KEY.encode(), headers=AS_JSON),
        Answer(body=sse({"choices": KEY})),
        Answer(body=chunks({}, finish=None)),
        Answer(cut_after=1),
    ],
)
def test_the_api_key_is_in_no_message_and_no_traceback(ask: Ask, answer: Answer) -> None:
    with ChatServer([answer]) as server:
        url = server.url.replace("http://", f"http://me:{KEY}@") + f"?key={KEY}"
        with pytest.raises((ModelRefused, ModelUnreachable, ModelAnswer)) as failed:
            ask(server.url, retries=0)
        assert KEY not in "".join(traceback.format_exception(failed.value)) + failed.value.said
        with OpenAIModel("scripted", base_url=url, api_key=KEY) as model:
            assert repr(model) == f"<OpenAIModel: model 'scripted' at {server.url}>"


def test_a_closed_model_says_so() -> None:
    with OpenAIModel("scripted", base_url="http://127.0.0.1:9/v1") as model:
        pass
    with pytest.raises(ModelUnreachable, match=r"^model 'scripted' at http://127\.0\.0\.1:9/v1 was closed"):
        model.generate(HELLO, [])


def test_without_its_package_the_module_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    monkeypatch.delitem(sys.modules, "ledgeragent.models.openai")
    with pytest.raises(BadInput) as refused:
        importlib.import_module("ledgeragent.models.openai")
    assert str(refused.value).startswith("ledgeragent.models.openai needs the package openai, version 3 (")
    assert str(refused.value).endswith("): pip install 'ledgeragent[openai]'")


# Several at once ----------------------------------------------------------------------------------------------------


def echo(body: dict[str, Any], number: int) -> Answer:
    """Says what was said; every third stream breaks off."""
    return Answer(body["messages"][0]["content"], fragments=[1], cut_after=3 if number % 3 == 0 else None)


def test_threads_can_share_a_model() -> None:
    texts = [f"text {number}" for number in range(20)]
    with (
        ChatServer(echo) as server,
        OpenAIModel("scripted", base_url=server.url, retries=9) as model,
        ThreadPoolExecutor(4) as pool,
    ):
        asked = pool.map(lambda text: model.generate([{"role": "user", "content": text}], []), texts)
        assert [one.content for one in asked] == texts


def test_tasks_can_share_a_model_and_a_cancelled_one_disturbs_no_other(hold: threading.Event) -> None:
    texts = [f"text {number}" for number in range(20)]

    def script(body: dict[str, Any], number: int) -> Answer:
        if body["messages"][0]["content"] == "stuck":
            return Answer("stuck", hold=hold, held_after=2)
        return echo(body, number)

    async def ask() -> list[str]:
        begun = asyncio.Event()
        about = {"base_url": server.url, "retries": 9}
        async with AsyncOpenAIModel("scripted", on_text=lambda _: begun.set(), **about) as model:
            stuck = asyncio.create_task(model.generate([{"role": "user", "content": "stuck"}], []))
            await begun.wait()
            stuck.cancel()
            with pytest.raises(asyncio.CancelledError):
                await stuck
            asked = [model.generate([{"role": "user", "content": text}], []) for text in texts]
            return [one.content for one in await asyncio.gather(*asked)]

    with ChatServer(script) as server:
        assert asyncio.run(ask()) == texts


# However it is cut --------------------------------------------------------------------------------------------------

TEXTS = st.text(max_size=12)
ARGUMENTS = st.dictionaries(TEXTS, st.one_of(TEXTS, st.integers(), st.lists(TEXTS, max_size=2)), max_size=3)
CALL = st.tuples(
    st.text(min_size=1, max_size=4),
    st.sampled_from(["look_up", "cancel_pending_order", "erfunden_ä"]),
    ARGUMENTS.map(json.dumps) | st.text(min_size=1, max_size=12),
)


@st.composite
def cut_answers(draw: st.DrawFn) -> tuple[list[dict[str, Any]], Generation]:
    """An answer, and deltas that deliver it: texts cut anywhere, calls interleaved as their order allows."""

    def cut(text: str) -> list[str]:
        at = sorted(draw(st.lists(st.integers(0, len(text)), max_size=4)))
        return [text[start:end] for start, end in zip([0, *at], [*at, len(text)], strict=True)]

    text, calls = draw(TEXTS), draw(st.lists(CALL, max_size=3, unique_by=lambda call: call[0]))
    strands: list[list[dict[str, Any]]] = [[{"content": piece} for piece in cut(text)]]
    for number, (call_id, name, arguments) in enumerate(calls):
        first, *rest = cut(arguments)
        head = {"index": number, "id": call_id, "type": "function", "function": {"name": name, "arguments": first}}
        parts = [{"index": number, "function": {"arguments": piece}} for piece in rest]
        strands.append([{"tool_calls": [part]} for part in [head, *parts]])
    deltas = [strand.pop(0) for strand in strands]  # the heads in order: they say the order of the calls
    while strands := [strand for strand in strands if strand]:
        deltas.append(draw(st.sampled_from(strands)).pop(0))
    return deltas, Generation(text, tuple(ProposedCall(*call) for call in calls))


@given(cut_answers())
def test_however_the_deltas_are_cut_the_same_generation_comes_out(
    case: tuple[list[dict[str, Any]], Generation],
) -> None:
    deltas, generation = case
    heard: list[str] = []
    assembler = Assembler("here", heard.append)
    for delta in deltas:
        assembler.feed({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
    assembler.feed({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    assert assembler.done() == generation
    assert "".join(heard) == generation.content


@pytest.fixture(scope="module")
def one_answer() -> Iterator[Callable[[Answer], list[Generation]]]:
    """Has one answer given twice, streamed and whole."""
    answers: list[Answer] = []
    with (
        ChatServer(lambda *_: answers[-1]) as server,
        OpenAIModel("scripted", base_url=server.url, api_key=KEY) as streamed,
        OpenAIModel("scripted", base_url=server.url, api_key=KEY, stream=False) as whole,
    ):

        def ask(answer: Answer) -> list[Generation]:
            answers.append(answer)
            return [model.generate(HELLO, []) for model in (streamed, whole)]

        yield ask


@settings(max_examples=40)
@given(text=TEXTS, calls=st.lists(CALL, max_size=3), fragments=st.lists(st.integers(1, 5), max_size=3))
def test_over_http_too_streamed_or_whole(
    one_answer: Callable[[Answer], list[Generation]],
    text: str,
    calls: list[tuple[str, str, str]],
    fragments: list[int],
) -> None:
    proposed = tuple(ProposedCall(*call) for call in calls)
    expected = Generation(text, proposed, Usage(3, 4), "tool_calls" if calls else "stop")
    assert one_answer(Answer(text, calls=calls, fragments=fragments, usage=(3, 4))) == [expected] * 2


@given(TEXTS | st.recursive(st.none() | st.booleans() | st.integers() | TEXTS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["choices", "delta", "message", "content", "tool_calls", "function", "index", "usage"]), inner, max_size=3), max_leaves=8))  # fmt: skip
def test_whatever_comes_is_an_answer_or_one_of_our_errors(junk: Any) -> None:
    body = junk if isinstance(junk, str) else json.dumps(junk)
    with contextlib.suppress(ModelAnswer):
        assert isinstance(Assembler("here").whole(body), Generation)
    with contextlib.suppress(ModelAnswer):
        Assembler("here").feed(junk)


def test_the_server_of_these_tests_ends_a_stream_as_the_protocol_does() -> None:
    events = events_of(Answer("Hi.", usage=(1, 2)), with_usage=True)
    assert events[-1] == "[DONE]"
    assert events_of(Answer("Hi.", usage=(1, 2)), with_usage=False) == [*events[:-2], "[DONE]"]
