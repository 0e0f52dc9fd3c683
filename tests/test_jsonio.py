"""Strict JSON: what is taken, what is refused, and the one text of a value."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgeragent import jsonio
from ledgeragent.errors import BadInput

_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
_numbers = st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(-1e15, 1e15)
values = st.recursive(
    st.none() | st.booleans() | _numbers | _texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_texts, inner, max_size=4),
    max_leaves=20,
)


def nested(levels: int) -> str:
    return "[" * levels + "]" * levels


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('{"a": 1, "b": {"c": 1, "c": 2}}', "has a key twice in one object of 2 keys"),
        ('{"balance": NaN}', "contains NaN, which is not JSON"),
        ("[Infinity]", "contains Infinity, which is not JSON"),
        ("[-Infinity]", "contains -Infinity, which is not JSON"),
        ("[1e999]", "contains a number that is not finite or beyond ±1e15"),
        ("1.1e15", "contains a number that is not finite or beyond ±1e15"),
        ("[9007199254740992]", r"contains an integer beyond ±(2^53-1)"),
        ("-9007199254740992", r"contains an integer beyond ±(2^53-1)"),
        (r'["\ud800"]', "contains a lone surrogate, which is not text"),
        (r'{"\udfff": 1}', "contains a lone surrogate, which is not text"),
        (nested(33), "is nested more than 32 levels deep"),
        (nested(100_000), "is nested more than 32 levels deep"),
        ('{"order_id": "#W1", "sta', "is not JSON: "),
        ("503 Service Unavailable", "is not JSON: "),
        ("", "is not JSON: "),
        ("9" * 5000, "is not JSON: "),
        ('"' + "x" * 10_000_000 + '"', "is 10,000,002 characters long; at most 1,000,000 are taken"),
    ],
)
def test_what_engines_could_read_differently_is_refused_by_name(text: str, complaint: str) -> None:
    with pytest.raises(BadInput) as refused:
        jsonio.parse(text, what="return of get_order_details")
    assert str(refused.value).startswith(f"return of get_order_details {complaint}")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (nested(32), json.loads(nested(32))),
        ("[9007199254740991, -9007199254740991, 1e15]", [2**53 - 1, 1 - 2**53, 1e15]),
        ('{"__proto__": 1, "constructor": {"a.b/c": null}}', {"__proto__": 1, "constructor": {"a.b/c": None}}),
        (r'["\ud83d\ude00"]', ["\U0001f600"]),
    ],
)
def test_everything_else_is_taken_as_it_is(text: str, value: Any) -> None:
    assert jsonio.parse(text, what="x") == value


def test_a_longer_text_is_taken_where_the_caller_says_so() -> None:
    text = json.dumps("x" * 1_000_000)
    assert jsonio.parse(text, what="line 1", limit=2_000_000) == "x" * 1_000_000


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ({1: "a"}, "x has a key that is a int, not text"),
        ({"a": {1, 2}}, "x contains a set, which JSON has no form for"),
        ([b"bytes"], "x contains a bytes, which JSON has no form for"),
        ([float("nan")], "x contains a number that is not finite or beyond ±1e15"),
        (["\ud800"], "x contains a lone surrogate, which is not text"),
    ],
)
def test_a_value_that_a_host_parsed_is_held_to_the_same_rules(value: Any, complaint: str) -> None:
    with pytest.raises(BadInput) as refused:
        jsonio.check(value, what="x")
    assert str(refused.value) == complaint


def test_a_value_that_contains_itself_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(BadInput, match="nested more than 32"):
        jsonio.check(endless, what="x")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": 5.0, "a": [1.5, -0.0, True]}, '{"a":[1.5,0,true],"b":5}'),
        ({"é": "\u2028", "B": None}, '{"B":null,"\\u00e9":"\\u2028"}'),
    ],
)
def test_canonical_text_is_sorted_ascii_without_spaces_and_whole_floats_are_integers(value: Any, text: str) -> None:
    assert jsonio.canonical(value) == text


def test_equal_numbers_have_one_digest_and_unlike_types_have_their_own() -> None:
    assert jsonio.digest([5]) == jsonio.digest([5.0])
    assert len({jsonio.digest([value]) for value in (1, True, "1", None, [1])}) == 5


@given(values)
def test_what_was_written_canonically_is_read_back_as_the_same_value(value: Any) -> None:
    text = jsonio.canonical(value)
    read = jsonio.parse(text, what="x")
    assert read == value
    assert jsonio.canonical(read) == text
    assert text.isascii()


@given(st.dictionaries(_texts, values, max_size=4))
def test_the_order_of_keys_does_not_show_in_the_canonical_text(value: dict[str, Any]) -> None:
    assert jsonio.canonical(dict(reversed(value.items()))) == jsonio.canonical(value)


@given(st.text() | values.map(json.dumps))
def test_whatever_the_text_parsing_gives_a_checked_value_or_says_what_is_wrong(text: str) -> None:
    complaint = "x "
    try:
        jsonio.check(jsonio.parse(text, what="x"), what="the parsed")
    except BadInput as refused:
        complaint = str(refused)
    assert complaint.startswith("x ")
