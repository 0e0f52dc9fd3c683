"""What quickly recognises a fitting record never says yes where the validator says no, and knows the shipped schemas."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgeragent.accepts import acceptor
from ledgeragent.domain import Domain, Validator, whole_pattern
from ledgeragent.policies import domains

TEXTS = st.sampled_from(["", "a", "ab", "abc", "x\n", "5"])
ATOMS = st.one_of(st.none(), st.booleans(), st.integers(-2, 3), st.sampled_from([0.5, 1.0, 2.0]), TEXTS)
VALUES = st.recursive(ATOMS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3))
TYPES = st.sampled_from(["string", "integer", "number", "boolean", "null", "array", "object"])
KEYWORDS: dict[str, st.SearchStrategy[Any]] = {
    "type": TYPES | st.lists(TYPES, min_size=1, max_size=3, unique=True),
    "enum": st.lists(ATOMS, min_size=1, max_size=3, unique_by=lambda one: (type(one), one)),
    "const": ATOMS,
    "pattern": st.sampled_from(["^a", "^[a-z]$", "^$"]),
    "minLength": st.integers(0, 3),
    "maxLength": st.integers(0, 3),
    "minimum": st.integers(-1, 2),
    "required": st.lists(TEXTS, max_size=2, unique=True),
    "maxProperties": st.integers(0, 2),
    "$ref": st.just("#/$defs/text"),
}
DEFS = {"text": {"type": "string", "minLength": 1}}


def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Schemas with schemas in them."""
    more = {
        "items": inner,
        "properties": st.dictionaries(TEXTS, inner, max_size=3),
        "additionalProperties": inner | st.booleans(),
        "propertyNames": inner,
        "anyOf": st.lists(inner, min_size=1, max_size=2),
    }
    return st.fixed_dictionaries({}, optional=KEYWORDS | more)


SCHEMAS = st.recursive(st.fixed_dictionaries({}, optional=KEYWORDS), nested, max_leaves=6)


@given(SCHEMAS, VALUES)
def test_it_accepts_nothing_that_the_validator_refuses(schema: Any, value: Any) -> None:
    accepted = acceptor(schema, DEFS, whole_pattern)(value)
    assert not accepted or Validator({**schema, "$defs": DEFS}).is_valid(value)


@given(VALUES)
def test_what_is_no_plain_json_value_is_left_to_the_validator(value: Any) -> None:
    class Text(str):
        __slots__ = ()

    schema = {"type": ["object", "array", "string"], "minLength": 1}
    assert [acceptor(schema, {}, whole_pattern)(odd) for odd in ((value,), Text("a"))] == [False, False]


@pytest.mark.parametrize("name", domains())
def test_it_knows_every_keyword_of_the_shipped_schemas(name: str) -> None:
    schema = Domain.load(name).schema
    defs = schema.document.get("$defs", {})
    made = {record.pattern: acceptor(record.schema, defs, whole_pattern) for record in schema.records}
    assert [pattern for pattern, accepts in made.items() if accepts.__name__ == "_nothing"] == []
