"""What `scripts/local_model_server.py` does to a chat, without a model: turns out, calls back."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))

import local_model_server as server

TOOL = {
    "type": "function",
    "function": {
        "name": "give_back",
        "description": "Give items back.",
        "parameters": {"properties": {"order": {"type": "string"}, "items": {"type": "array"}}},
    },
}
CALL = '{"name": "give_back", "arguments": {"order": "#1"}}'
PARSED = ("give_back", '{"order": "#1"}')


def call(arguments: str) -> dict[str, Any]:
    return {"id": "c1", "type": "function", "function": {"name": "give_back", "arguments": arguments}}


def test_tools_calls_and_returns_become_text_and_turns_alternate() -> None:
    turns = server.as_rendered(
        [
            {"role": "system", "content": "Be nice."},
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": None, "tool_calls": [call('{"order":"#1"}'), call("{}")]},
            {"role": "tool", "tool_call_id": "c1", "content": "one"},
            {"role": "tool", "tool_call_id": "c2", "content": "two"},
            {"role": "user", "content": "<ledger>"},
        ],
        [TOOL],
    )
    assert [turn["role"] for turn in turns] == ["system", "user", "assistant", "user"]
    assert turns[0]["content"].startswith("Be nice.\n\nTools:\n- give_back(order, items[]): Give items back.\n")
    assert turns[2]["content"] == (
        '{"name": "give_back", "arguments": {"order":"#1"}}\n{"name": "give_back", "arguments": {}}'
    )
    assert turns[3]["content"] == (
        "<tool_response>\none\n</tool_response>\n\n<tool_response>\ntwo\n</tool_response>\n\n<ledger>"
    )


def test_tools_are_shown_where_there_is_no_system_message() -> None:
    assert [turn["role"] for turn in server.as_rendered([{"role": "user", "content": "Hi"}], [TOOL])] == [
        "system",
        "user",
    ]


def test_without_tools_nothing_is_added() -> None:
    assert server.as_rendered([{"role": "user", "content": "Hi"}], []) == [{"role": "user", "content": "Hi"}]


@pytest.mark.parametrize(
    ("written", "text", "calls"),
    [
        ("Plain words.", "Plain words.", []),
        (CALL, "", [PARSED]),
        (f"I look it up.\n{CALL}\nresult: made up", "I look it up.", [PARSED]),
        (f"```json\n{CALL}\n```", "", [PARSED]),
        (f"<tool_call>\n{CALL}\n</tool_call>", "", [PARSED]),
        (f"{CALL}\n{CALL}", "", [PARSED, PARSED]),
        ("{" + CALL + "}", "{", [PARSED]),
        ('{"name": "no_such_tool", "arguments": {}}', '{"name": "no_such_tool", "arguments": {}}', []),
        ('{"name": ["give_back"]}', '{"name": ["give_back"]}', []),
        ('{"name": "give_back", "argu', '{"name": "give_back", "argu', []),
        ('{"name": "give_back"}', "", [("give_back", "{}")]),
    ],
)
def test_a_call_is_found_wherever_a_small_model_writes_it(written: str, text: str, calls: list[Any]) -> None:
    assert server.calls_in(written, ["give_back"]) == (text, calls)


def test_the_end_of_a_call_that_the_server_cut_off_is_put_back() -> None:
    cut = CALL.removesuffix("}}")
    assert [server.whole(one) for one in (cut, CALL, "words")] == [CALL, CALL, "words"]


def test_an_answer_is_one_completion_or_the_same_as_a_stream() -> None:
    written = {
        "id": "1",
        "created": 2,
        "model": "local",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": CALL}}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 4},
    }
    completion = server.with_calls(json.loads(json.dumps(written)), ["give_back"])
    choice = completion["choices"][0]
    (proposed,) = choice["message"]["tool_calls"]
    assert (choice["finish_reason"], choice["message"]["content"]) == ("tool_calls", "")
    assert (proposed["function"]["name"], proposed["function"]["arguments"]) == PARSED
    first, last, usage = server.as_stream(completion)
    assert first["choices"][0]["delta"] == {
        "role": "assistant",
        "content": "",
        "tool_calls": [{**proposed, "index": 0}],
    }
    assert last["choices"] == [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]
    assert (usage["choices"], usage["usage"]) == ([], written["usage"])
