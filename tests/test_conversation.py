"""Recorded conversations: what a line must be, and which return answers which call."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgeragent.contracts import Principal
from ledgeragent.conversation import Conversation, RecordedCall, open_lines, read_conversation
from ledgeragent.errors import BadInput

PLACE = "calls.jsonl line 3"


def line(*messages: Any, **fields: Any) -> str:
    return json.dumps({"id": "c1", "domain": "retail", "messages": list(messages), **fields})


def read(*messages: Any, **fields: Any) -> Conversation:
    return read_conversation(line(*messages, **fields), place=PLACE)


def call(call_id: str = "a", name: str = "get_order_details", **rest: Any) -> dict[str, Any]:
    return {"id": call_id, "name": name, "arguments": {"order_id": "#W1"}, **rest}


def asks(*calls: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": list(calls)}


def answers(call_id: str, content: Any, **rest: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content, **rest}


def contents(conversation: Conversation) -> list[list[Any]]:
    """The content that answers each call, turn by turn; `...` where none does."""
    return [[one.content if one.answered else ... for one in turn] for turn in conversation.turns]


def test_a_line_is_read_with_its_calls_and_their_returns() -> None:
    messages = [{"role": "user", "content": "hi"}, asks(call()), answers("a", "{}", error=True)]
    conversation = read(*messages, now="2024-05-15T15:00:00-05:00", reward=0.5, source="x")
    assert conversation == Conversation(
        id="c1",
        title=None,
        domain="retail",
        now="2024-05-15T15:00:00-05:00",
        reward=0.5,
        messages=messages,
        turns=[[RecordedCall(1, "a", "get_order_details", {"order_id": "#W1"}, True, "{}", True, False)]],
        unmatched=[],
    )


def test_what_a_line_may_leave_out() -> None:
    conversation = read_conversation('{"id": 7, "messages": []}', place=PLACE)
    assert conversation == Conversation("7", None, None, None, None, [], [], [])


@pytest.mark.parametrize("arguments", [{"order_id": "#W1"}, '{"order_id": "#W1"}'])
@pytest.mark.parametrize("nested", [True, False])
def test_calls_may_carry_name_and_arguments_beside_the_id_or_under_function(arguments: Any, nested: bool) -> None:
    body = {"name": "get_order_details", "arguments": arguments}
    written = {"id": "a", "type": "function", **({"function": body} if nested else body)}
    [[found]] = read(asks(written)).turns
    assert (found.tool, found.arguments, found.call_id) == ("get_order_details", arguments, "a")


def test_calls_of_the_simulated_user_are_marked() -> None:
    [turn] = read(asks(call("a"), call("b", requestor="user"), call("c", requestor="assistant"))).turns
    assert [one.by_user for one in turn] == [False, True, False]


@pytest.mark.parametrize(
    ("messages", "found", "unmatched"),
    [
        ([asks(call("a"), call("b")), answers("b", 2), answers("a", 1)], [[1, 2]], []),
        ([asks(call("a"), call("a")), answers("a", 1), answers("a", 2)], [[1, 2]], []),
        ([asks(call("a")), answers("a", 1), asks(call("a")), answers("a", 2)], [[1], [2]], []),
        ([asks(call("")), answers("", 1)], [[1]], []),
        ([asks(call("a"))], [[...]], []),
        ([asks(call("a")), asks(call("b")), answers("a", "late")], [[...], [...]], [2]),
        ([asks(call("a")), answers("a", 1), answers("a", "duplicate")], [[1]], [2]),
        ([asks(call("a")), answers("z", "forged")], [[...]], [1]),
        ([answers("a", "early"), asks(call("a"))], [[...]], [0]),
        ([asks(call("a")), {"role": "user", "tool_call_id": "a", "content": "forged"}], [[...]], []),
    ],
)
def test_a_return_answers_the_call_it_follows_and_whatever_answers_none_is_counted(
    messages: list[Any], found: list[list[Any]], unmatched: list[int]
) -> None:
    conversation = read(*messages)
    assert (contents(conversation), list(conversation.unmatched)) == (found, unmatched)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", " is not JSON"),
        ("503 Service Unavailable", " is not JSON"),
        ('{"id": "a", "id": "b", "messages": []}', " has a key twice"),
        ('{"id": "a", "messages": [], "reward": NaN}', " contains NaN"),
        ('{"id": "\\ud800", "messages": []}', " contains a lone surrogate"),
        ("[]", " is not a conversation: a JSON object is expected, not list"),
        ("null", " is not a conversation: a JSON object is expected, not NoneType"),
        ('{"messages": []}', " is not a conversation: it has no 'id'"),
        ('{"id": true, "messages": []}', " is not a conversation: it has no 'id'"),
        ('{"id": null, "messages": []}', " is not a conversation: it has no 'id'"),
        ('{"id": "a"}', ": 'messages' must be a list of chat messages"),
        ('{"id": "a", "messages": {}}', ": 'messages' must be a list of chat messages"),
        ('{"id": "a", "messages": ["hi"]}', ": 'messages' must be a list of chat messages"),
        (line(reward="1"), ": 'reward' must be a number"),
        (line(reward=True), ": 'reward' must be a number"),
        (line(domain=5), ": 'domain' must be a text"),
        (line(now=5), ": 'now' must be a text"),
        (line(now="yesterday"), ": 'now' must be"),
        (line({"role": "user"}, {"role": "assistant", "tool_calls": "x"}), ", message 1: 'tool_calls' must be a list"),
        (line(asks("x")), ", message 0: a tool call must be an object"),
        (line(asks({"id": "a"})), ", message 0: a tool call needs a 'name'"),
        (line(asks({"id": "a", "name": ""})), ", message 0: a tool call needs a 'name'"),
        (line(asks({"id": 5, "name": "x"})), ", message 0: a tool call needs a 'name' and a text 'id'"),
        (line(asks({"id": "a", "function": {"name": 5}})), ", message 0: a tool call needs a 'name'"),
    ],
)
def test_a_line_that_is_no_conversation_is_refused_with_its_place(text: str, complaint: str) -> None:
    with pytest.raises(BadInput) as refused:
        read_conversation(text, place=PLACE)
    assert str(refused.value).startswith(f"{PLACE}{complaint}")


_bits = st.sampled_from([None, True, 0, 1.5, "", "x", [], {}, {"name": "x"}, ["x"]])
_calls = st.lists(
    st.dictionaries(st.sampled_from(["id", "name", "function", "arguments", "requestor"]), _bits), max_size=2
)
_messages = st.dictionaries(st.sampled_from(["role", "tool_calls", "tool_call_id", "content", "error"]), _bits | _calls)


@given(
    st.lists(_messages | _bits, max_size=4), st.dictionaries(st.sampled_from(["id", "now", "reward", "domain"]), _bits)
)
def test_whatever_a_line_holds_it_is_a_conversation_or_a_complaint_with_its_place(
    messages: list[Any], fields: dict[str, Any]
) -> None:
    try:
        told = read(*messages, **fields).id
    except BadInput as refused:
        told = str(refused) if str(refused).startswith(PLACE) else ""
    assert told or fields["id"] == ""


# Files -----------------------------------------------------------------------------------------------------------


def write(file: Path, content: bytes) -> str:
    file.write_bytes(gzip.compress(content) if file.suffix == ".gz" else content)
    return str(file)


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_lines_come_with_their_numbers_and_empty_ones_are_passed_over(tmp_path: Path, name: str) -> None:
    file = write(tmp_path / name, "one\n\n  \nfoür\r\nlast".encode())
    found = [(place, text.strip()) for place, text in open_lines(file)]
    assert found == [(f"{file} line 1", "one"), (f"{file} line 4", "foür"), (f"{file} line 5", "last")]


def test_lines_can_come_from_stdin(tmp_path: Path) -> None:
    code = "from ledgeragent.conversation import open_lines; print(list(open_lines('-')))"
    done = subprocess.run(
        [sys.executable, "-c", code], input=b"one\n\ntwo", capture_output=True, check=True, timeout=60
    )
    assert done.stdout.decode().strip() == "[('stdin line 1', 'one\\n'), ('stdin line 3', 'two')]"


def _cut_short(packed: bytes) -> bytes:
    return packed[:-12]


def _damaged(packed: bytes) -> bytes:
    return packed[:20] + bytes(byte ^ 0xFF for byte in packed[20:40]) + packed[40:]


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    lines = "\n".join(line(number=number) for number in range(200)).encode()
    files = {
        "not there.jsonl": None,
        "not gzip.gz": b"plain text",
        "cut short.gz": _cut_short(gzip.compress(lines)),
        "damaged.gz": _damaged(gzip.compress(lines)),
    }
    for name, content in files.items():
        if content is not None:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(BadInput, match=f"{name} cannot be read"):
            list(open_lines(str(tmp_path / name)))
    with pytest.raises(BadInput, match="cannot be read"):
        list(open_lines(str(tmp_path)))


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_a_line_that_is_no_utf_8_is_reported_with_its_number_and_the_others_are_kept(tmp_path: Path, name: str) -> None:
    good = line().encode()
    file = write(tmp_path / name, good + b'\n{"id": "\xff\xfe", "messages": []}\n' + good)
    kept: list[str] = []
    complaints: list[str] = []
    for place, text in open_lines(file):
        try:
            kept.append(read_conversation(text, place=place).id)
        except BadInput as refused:
            complaints.append(str(refused))
    assert (kept, len(complaints)) == (["c1", "c1"], 1)
    assert complaints[0].startswith(f"{file} line 2")


def test_a_recording_can_say_whom_its_host_had_authenticated() -> None:
    line = '{"id": "a", "messages": [], "principal": {"id": "ada", "claims": {"team": "shop"}}}'
    assert read_conversation(line, place="f line 1").principal == Principal(
        id="ada", source="host", claims={"team": "shop"}
    )
    assert read_conversation('{"id": "a", "messages": []}', place="f line 1").principal is None


@pytest.mark.parametrize("principal", ['"ada"', "[]", "{}", '{"id": ""}', '{"id": 5}', '{"id": "a", "source": "host"}'])
def test_a_principal_of_another_form_is_refused(principal: str) -> None:
    with pytest.raises(BadInput, match="f line 1: 'principal' must be"):
        read_conversation(f'{{"id": "a", "messages": [], "principal": {principal}}}', place="f line 1")
