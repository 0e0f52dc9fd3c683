"""The gate's argument check accepts exactly what JSON Schema accepts, over the closed subset that tools may use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgeragent import policies
from ledgeragent.contracts import Parameters
from ledgeragent.domain import MAX_ARGUMENT_DEPTH, Validator, bare_schema, is_plain_pattern, parameter_problems
from ledgeragent.opacli import evaluate

Schema = dict[str, Any]
Case = tuple[Schema, Any]

FITS = "data.ledgeragent.gate.arguments.problems(input[0], input[1]) == set()"
PATTERNS = ("^a+$", "^#W[0-9]{1,3}$", "^[a-z]*_[0-9]$", "^$", "^.?$", "^(ab|a)$", r"^a\.b$", "^[^b]$")
TYPES = ("string", "integer", "number", "boolean", "null", "array", "object")

names = st.sampled_from(["a", "b", "id", "x y"])
texts = st.one_of(
    st.sampled_from(["", "a", "aa", "ab", "b", "#W12", "k_1", "a.b", "a\n", "\n", "é", "😀"]), st.text(max_size=4)
)
numbers = st.one_of(st.integers(-3, 5), st.sampled_from([0.5, 2.0, -1.0, 2.5, 1e3]), st.integers(-(10**18), 10**18))
scalars = st.one_of(texts, numbers, st.booleans(), st.none())
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3), max_leaves=6
)
sizes = st.integers(0, 3)


def maybe(key: str, strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Schema]:
    return st.one_of(st.just({}), strategy.map(lambda value: {key: value}))


@st.composite
def schemas(draw: st.DrawFn, depth: int = MAX_ARGUMENT_DEPTH) -> Schema:
    """A parameter schema as a domain may declare it, without its annotations."""
    kinds = [kind for kind in TYPES if depth > 0 or kind not in ("array", "object")]
    chosen = draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=2, unique=True))
    schema: Schema = {"type": chosen[0] if len(chosen) == 1 else chosen}
    for part in (
        maybe("enum", st.lists(scalars, min_size=1, max_size=3)) if depth < MAX_ARGUMENT_DEPTH else st.just({}),
        maybe("pattern", st.sampled_from(PATTERNS)),
        maybe("minimum", st.integers(-2, 2)),
        maybe("maximum", st.sampled_from([0, 1, 2.5])),
        maybe("minLength", sizes),
        maybe("maxLength", sizes),
        maybe("minItems", sizes),
        maybe("maxItems", sizes),
    ):
        if draw(st.booleans()):
            schema |= draw(part)
    if "array" in chosen:
        schema["items"] = draw(schemas(depth - 1))
    if "object" in chosen:
        properties = draw(st.dictionaries(names, schemas(depth - 1), max_size=3))
        required = draw(st.lists(st.sampled_from(sorted(properties)), unique=True)) if properties else []
        schema |= {"properties": properties, "required": required, "additionalProperties": False}
    return schema


@st.composite
def plain(draw: st.DrawFn) -> Schema:
    """The schema of most tools: texts and lists of texts, which the gate tells by a way of its own."""
    text: Schema = {"type": "string"}
    several = sizes.map(lambda least: {"type": "array", "items": text, "minItems": least})
    properties = draw(st.dictionaries(names, st.one_of(st.just(text), several), max_size=3))
    required = draw(st.lists(st.sampled_from(sorted(properties)), unique=True)) if properties else []
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


@st.composite
def near(draw: st.DrawFn, schema: Schema) -> Any:
    """A value that fits often enough, and else fails at one place or another."""
    if draw(st.integers(0, 9)) == 0:
        return draw(values)
    if "enum" in schema and draw(st.booleans()):
        return draw(st.sampled_from(schema["enum"]))
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    kind = draw(st.sampled_from(kinds))
    if kind == "array":
        return draw(st.lists(near(schema["items"]), max_size=3))
    if kind == "object":
        kept = [name for name in schema["properties"] if name in schema["required"] or draw(st.booleans())]
        found = {name: draw(near(schema["properties"][name])) for name in kept}
        return found | (draw(st.dictionaries(names, scalars, max_size=1)) if draw(st.integers(0, 9)) == 0 else {})
    of_kind = {"string": texts, "integer": st.integers(-3, 5), "number": numbers, "boolean": st.booleans()}
    return draw(of_kind.get(kind, st.none()))


cases = st.one_of(schemas(), plain()).flatmap(lambda schema: st.tuples(st.just(schema), near(schema)))


def accepts(schema: Schema, value: Any) -> bool:
    return bool(Validator(schema).is_valid(value))


@settings(max_examples=25)
@given(batch=st.lists(cases, min_size=10, max_size=30))
def test_rego_and_json_schema_accept_the_same_arguments(opa_binary: Path, batch: list[Case]) -> None:
    answers = evaluate(opa_binary, policies.REGO, FITS, batch)
    assert [(case, fits) for case, fits in zip(batch, answers, strict=True)] == [
        (case, accepts(*case)) for case in batch
    ]


@settings(max_examples=100)
@given(schema=schemas())
def test_the_schemas_are_those_a_domain_may_declare(schema: Schema) -> None:
    closed: Schema = {"type": "object", "properties": {"x": schema}, "required": [], "additionalProperties": False}
    model = Parameters.model_validate(closed)
    assert list(parameter_problems(model, "x", MAX_ARGUMENT_DEPTH + 1)) == []
    assert bare_schema(model) == closed


def test_both_answers_come_up(opa_binary: Path) -> None:
    """Else the comparison would show nothing."""
    found: list[bool] = []

    @settings(max_examples=60, database=None)
    @given(case=cases)
    def collect(case: Case) -> None:
        found.append(accepts(*case))

    collect()
    assert 0.2 < sum(found) / len(found) < 0.9


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"enum": [1]}, True),
        ({"enum": [1]}, 1.0),
        ({"enum": [False]}, 0),
        ({"type": "integer"}, 2.0),
        ({"type": "integer"}, True),
        ({"type": "number"}, False),
        ({"pattern": "^a$"}, "a\n"),
        ({"pattern": "^.$"}, "\n"),
        ({"maxLength": 1}, "😀"),
        ({"maxLength": 1}, "é"),
        ({"minimum": 10**17 + 1}, 10**17),
        ({"properties": {"x": {"type": "null"}}, "required": ["x"], "additionalProperties": False}, {"x": None}),
        ({"items": {"type": "string"}, "type": "array"}, ["a", 1]),
        ({"required": ["x"]}, "x"),
    ],
)
def test_corners_where_readings_could_differ(opa_binary: Path, schema: Schema, value: Any) -> None:
    assert evaluate(opa_binary, policies.REGO, FITS, [(schema, value)]) == [accepts(schema, value)]


def test_the_patterns_used_here_are_ones_a_domain_may_declare() -> None:
    assert [pattern for pattern in PATTERNS if not is_plain_pattern(pattern)] == []


def test_what_stands_deeper_than_the_gate_looks_is_refused(opa_binary: Path) -> None:
    schema: Schema = {"type": "string"}
    value: Any = "x"
    for _ in range(MAX_ARGUMENT_DEPTH):
        schema, value = {"type": "array", "items": schema}, [value]
    deeper: Case = ({"type": "array", "items": schema}, [value])
    assert evaluate(opa_binary, policies.REGO, FITS, [(schema, value), deeper]) == [True, False]
