"""Path templates: what they name, what they leave open, and what finds nothing."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgeragent.errors import BadInput
from ledgeragent.paths import ANY, NOTHING, Path, PathTemplate, Scope, Template, dotted, is_prefix

RECORDS: dict[Path, Any] = {
    ("orders", "#W1", "items"): [{"product_id": "lamps"}, {"product_id": "chairs"}, {"name": "no product"}],
    ("orders", "#W1", "by"): {"x": {"product_id": "desks"}, "y": {"product_id": "rugs"}},
    ("orders", "#W1", "user_id"): "ada",
    ("users", "ada", "first_order"): "#W1",
    ("users", "ada", "nothing"): None,
}

SCOPE = Scope(
    {
        "arguments": {
            "order_id": "#W1",
            "user_id": "ada",
            "ids": ["a", "b", "a"],
            "rows": [{"id": "x"}, {"id": "y"}, {}, "no object"],
            "number": 7,
            "flag": True,
            "amount": 1.5,
            "none": None,
            "empty": "",
            "tree": {"one": {"deep": 1}},
        },
        "result": {"id": "r1", "legs": [{"no": "F1"}, {"no": "F2"}]},
        "each": {"id": "e1"},
    },
    principal="ada",
    lookup=lambda path: RECORDS.get(path, NOTHING),
)


@pytest.mark.parametrize(
    ("template", "values"),
    [
        ("plain", ["plain"]),
        ("", [""]),
        ("{arguments.order_id}", ["#W1"]),
        ("{arguments.ids[*]}", ["a", "b", "a"]),
        ("{arguments.rows[*].id}", ["x", "y"]),
        ("{arguments.tree.one.deep}", [1]),
        ("{arguments.tree[*]}", [{"deep": 1}]),
        ("{arguments.none}", [None]),
        ("{result.legs[*].no}", ["F1", "F2"]),
        ("{each.id}", ["e1"]),
        ("{principal}", ["ada"]),
        ("{arguments.order_id}-{arguments.number}", ["#W1-7"]),
        ("{arguments.ids[*]}/{each.id}", ["a/e1", "b/e1", "a/e1"]),
        ("{ledger: orders.{arguments.order_id}.items[*].product_id}", ["lamps", "chairs"]),
        ("{ledger: orders.{arguments.order_id}.by[*].product_id}", ["desks", "rugs"]),
        ("{ledger: orders.{ledger: users.{principal}.first_order}.user_id}", ["ada"]),
        ("{ledger: users.{principal}.nothing}", [None]),
    ],
)
def test_a_template_gives_every_value_it_stands_for(template: str, values: list[Any]) -> None:
    assert Template.parse(template).fill(SCOPE) == values


@pytest.mark.parametrize(
    "template",
    [
        "{arguments.absent}",
        "{arguments.order_id.below_a_text}",
        "{arguments.order_id[*]}",
        "{arguments.ids.name}",
        "x{arguments.absent}",
        "x{arguments.flag}",
        "x{arguments.amount}",
        "x{arguments.none}",
        "x{arguments.ids}",
        "{ledger: orders.#W9.items[*].product_id}",
        "{ledger: orders.{arguments.absent}.user_id}",
        "{ledger: orders.{arguments.number}.user_id}",
        "{ledger: orders.#W1.user_id[*].product_id}",
        "{ledger: orders.#W1.items[*].{arguments.empty}}",
        "{arguments.{arguments.empty}}",
    ],
)
def test_a_template_that_names_what_is_not_there_gives_nothing(template: str) -> None:
    assert Template.parse(template).fill(SCOPE) == []


@pytest.mark.parametrize("template", ["{principal}", "{ledger: users.ada.first_order}", "{result.id}"])
def test_what_the_scope_does_not_have_gives_nothing(template: str) -> None:
    assert Template.parse(template).fill(Scope({})) == []


@pytest.mark.parametrize(
    ("template", "complaint"),
    [
        ("{arguments.x", "without its '}'"),
        ("arguments.x}", "without its '{'"),
        ("a}b{arguments.x}", "without its '{'"),
        ("{argument.x}", "must begin with arguments, result, each, principal or 'ledger:'"),
        ("{}", "must begin with"),
        ("{principal.id}", "must begin with"),
        ("{arguments.}", "is not a name"),
        ("{arguments..x}", "is not a name"),
        ("{arguments.x[0]}", "is not a name"),
        ("{arguments.x[*].}", "is not a name"),
        ("{ledger: a.{ledger: b.{ledger: c.{ledger: d}}}}", "more than 2 deep"),
    ],
)
def test_a_template_that_cannot_be_read_is_refused(template: str, complaint: str) -> None:
    with pytest.raises(BadInput, match=re.escape(complaint)):
        Template.parse(template)


@pytest.mark.parametrize(
    ("keys", "complaint"),
    [([], "at least one key"), (["orders", "?", "status"], "not its last key"), (["{x"], "without its '}'")],
)
def test_a_path_template_that_cannot_be_read_is_refused(keys: list[str], complaint: str) -> None:
    with pytest.raises(BadInput, match=complaint):
        PathTemplate.parse(keys)


@pytest.mark.parametrize(
    ("keys", "patterns"),
    [
        (["orders", "{arguments.order_id}", "status"], [("orders", "#W1", "status")]),
        (["orders", "*", "status"], [("orders", ANY, "status")]),
        (["users", "{principal}", "cards", "?"], [("users", "ada", "cards", "?")]),
        (["items", "{arguments.ids[*]}"], [("items", "a"), ("items", "b")]),
        (["{arguments.ids[*]}", "{arguments.rows[*].id}"], [("a", "x"), ("a", "y"), ("b", "x"), ("b", "y")]),
        (["items", "{arguments.absent}"], []),
        (["items", "{arguments.number}"], []),
        (["items", "{arguments.tree}"], []),
    ],
)
def test_a_path_template_gives_each_path_once_and_only_texts_become_keys(keys: list[str], patterns: list[Any]) -> None:
    assert PathTemplate.parse(keys).fill(SCOPE) == patterns


def test_what_cannot_be_filled_in_is_every_key_where_more_is_safer() -> None:
    template = PathTemplate.parse(["users", "{principal}", "cards", "{arguments.card}", "balance"])
    assert template.fill_widely(Scope({"arguments": {"card": "c1"}})) == [("users", ANY, "cards", "c1", "balance")]
    assert template.fill_widely(Scope({"arguments": {"card": 5}}, "ada")) == [("users", "ada", "cards", ANY, "balance")]


@given(st.text() | st.sampled_from(["*", "?", "a.b", "a/b", "__proto__", "{principal}", "[*]", "#W1", ""]))
def test_an_id_is_a_key_byte_for_byte_whatever_it_reads_like(key: str) -> None:
    [pattern] = PathTemplate.parse(["orders", "{arguments.id}"]).fill(Scope({"arguments": {"id": key}}, "ada"))
    assert pattern == ("orders", key)
    assert is_prefix(pattern, ("orders", key, "status"))
    assert not is_prefix(pattern, ("orders", key + "x", "status"))


def test_only_the_wildcard_itself_fits_every_key() -> None:
    assert is_prefix(("a", ANY), ("a", "x", "y"))
    assert not is_prefix(("a", "*"), ("a", "x"))
    assert not is_prefix(("a", "b", "c"), ("a", "b"))
    assert dotted(("a", ANY, "c.d")) == "a.*.c.d"


def test_a_path_template_shows_its_shape_and_itself() -> None:
    template = PathTemplate.parse(["orders", "{arguments.order_id}", "*", "?"])
    assert (template.shape(), str(template), template.absent) == (
        ("orders", "*", "*", "?"),
        "orders.{arguments.order_id}.*.?",
        True,
    )


def test_a_template_lists_what_it_refers_to_nested_ones_included() -> None:
    template = Template.parse("{ledger: orders.{arguments.order_id}.items[*].product_id}-{each.id}")
    assert template.roots() == {"ledger", "arguments", "each"}
    assert template.placeholders() == [
        ("arguments", ("order_id",)),
        ("ledger", ("orders", "*", "items", "[*]", "product_id")),
        ("each", ("id",)),
    ]
