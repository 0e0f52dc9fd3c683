"""What may be logged: marks in the schema files, the lists made of them, and what is refused."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args, get_origin

import pytest

from ledgeragent import policies
from ledgeragent.contracts import Contract, Decision, DecisionRecord, GateInput, OutcomeRecord
from ledgeragent.domain import Domain
from ledgeragent.errors import DomainError
from ledgeragent.marks import record_marks
from ledgeragent.masking import Masking
from support import toy
from support.canary import CANARY

pytest_plugins = ["support.fixtures"]


def facts(tmp_path: Path, *changes: tuple[str, Any]) -> Any:
    """The list of the toy's ledger, with changes to its schema."""
    return toy.load(tmp_path, schema=toy.but(toy.SCHEMA, *changes)).log["input"]["fields"]["ledger"]


def problems(tmp_path: Path, **parts: Any) -> tuple[str, ...]:
    with pytest.raises(DomainError) as caught:
        toy.load(tmp_path, **parts)
    return caught.value.problems


# What marks mean -------------------------------------------------------------------------------------------------


def test_nothing_is_marked_unless_it_says_so(tmp_path: Path) -> None:
    assert facts(tmp_path) == {
        "fields": {
            "auth": {"fields": {"person": {}}},
            "people": {"each": {"fields": {"id": {}, "nick": {}, "cards": {"each": {"fields": {"balance": {}}}}}}},
            "stock": {"each": {"each": {"fields": {"id": {}, "state": {}}}}},
            "seen": {"items": {}},
        }
    }


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "number", "x-log": True}, [{"types": ["number"]}]),
        ({"type": ["string", "null"], "x-log": "^[a-z]+$"}, [{"types": ["string", "null"], "patterns": ["^[a-z]+$"]}]),
        ({"type": "string", "pattern": "^a+$", "x-log": True}, [{"types": ["string"], "patterns": ["^a+$"]}]),
        (
            {"type": "string", "pattern": "^a+$", "x-log": "^a$"},
            [{"types": ["string"], "patterns": ["^a+$", "^a$"]}],
        ),
        ({"enum": ["a", 1], "x-log": True}, [{"enum": ["a", 1]}]),
        ({"const": "a", "x-log": True}, [{"enum": ["a"]}]),
        ({"type": ["array", "null"], "items": {}, "x-log": True}, [{"types": ["null"]}]),
        (
            {"anyOf": [{"type": "number"}, {"$ref": "#/$defs/person_id"}, {"type": "array"}], "x-log": True},
            [{"types": ["number"]}, {"types": ["string"], "patterns": ["^p[0-9]+$"]}],
        ),
        ({"$ref": "#/$defs/person_id", "x-log": True}, [{"types": ["string"], "patterns": ["^p[0-9]+$"]}]),
        ({"$ref": "#/$defs/person_id", "x-log": False}, None),
        ({"type": "string"}, None),
    ],
)
def test_a_mark_lets_through_what_the_schema_says_the_value_is(tmp_path: Path, schema: Any, value: Any) -> None:
    article = facts(tmp_path, ("$defs/article/properties/state", schema))["fields"]["stock"]["each"]["each"]
    assert article["fields"]["state"].get("value") == value


def test_the_keys_of_a_map_are_marked_by_property_names_or_by_the_id_of_its_records(tmp_path: Path) -> None:
    by_id = facts(tmp_path, ("$defs/person/properties/id", {"$ref": "#/$defs/person_id", "x-log": True}))
    assert by_id["fields"]["people"]["keys"] == [{"types": ["string"], "patterns": ["^p[0-9]+$"]}]
    assert "keys" not in by_id["fields"]["stock"]
    by_name = facts(tmp_path, ("properties/stock/propertyNames", {"x-log": "^[a-z]+$"}))
    assert by_name["fields"]["stock"]["keys"] == [{"types": ["string"], "patterns": ["^[a-z]+$"]}]


def test_arguments_are_marked_in_tools_json_and_the_model_and_the_gate_do_not_see_it(tmp_path: Path) -> None:
    tools = toy.but(toy.TOOLS, ("tools/4/parameters/properties/id", {"type": "string", "x-log": "^p[0-9]+$"}))
    domain = toy.load(tmp_path, tools=tools)
    assert domain.log["tools"]["pay"] == {
        "fields": {"id": {"value": [{"types": ["string"], "patterns": ["^p[0-9]+$"]}]}, "card": {}}
    }
    declared = domain.declared()
    assert declared["tools"]["pay"]["parameters"]["properties"] == {
        "id": {"type": "string"},
        "card": {"type": "string"},
    }
    assert declared["log"] == domain.log


def test_the_principal_is_shown_only_where_the_ledger_shows_it(tmp_path: Path) -> None:
    def principal(domain: Domain) -> Any:
        return domain.log["input"]["fields"]["session"]["fields"]["principal"]["fields"]

    assert principal(toy.load(tmp_path / "a"))["id"] == {}
    marked = toy.but(toy.SCHEMA, ("properties/auth/properties/person/x-log", True))
    shown = principal(toy.load(tmp_path / "b", schema=marked))
    assert shown["id"] == {"value": [{"types": ["string"], "patterns": ["^p[0-9]+$"]}]}
    assert shown["claims"] == {"each": {}, "keys": []}


# What is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "value", "complaint"),
    [
        ("$defs/article/properties/state/x-log", "yes", "must|begin with"),
        ("$defs/article/properties/state/x-log", r"^\w+$", "plain syntax"),
        ("$defs/article/properties/state/x-log", 1, "true, false, or a pattern"),
        ("$defs/article/properties/state/x-log", None, "true, false, or a pattern"),
        ("$defs/article/x-log", True, "mark what stands below"),
        ("properties/seen/x-log", True, "mark what stands below"),
        ("properties/stock/propertyNames", {"x-log": "a"}, "plain syntax"),
        ("$defs/article/properties/state", {"type": "string", "pattern": "a|b", "x-log": True}, "plain syntax"),
        ("$defs/article/properties/state", {"x-log": True}, "mark what stands below"),
    ],
)
def test_a_mark_in_the_ledger_that_means_nothing_is_refused(
    tmp_path: Path, place: str, value: Any, complaint: str
) -> None:
    found = problems(tmp_path, schema=toy.but(toy.SCHEMA, (place, value)))
    assert [
        problem for problem in found if problem.startswith("ledger.schema.json: ") and re.search(complaint, problem)
    ]


def test_a_mark_deeper_than_logs_look_is_refused(tmp_path: Path) -> None:
    deep: dict[str, Any] = {"type": "number", "x-log": True}
    for _ in range(7):
        deep = {"type": "object", "properties": {"x": deep}}
    found = problems(tmp_path, schema=toy.but(toy.SCHEMA, ("$defs/article/properties/state", deep)))
    assert [problem for problem in found if "levels deep, where nothing is logged" in problem]


@pytest.mark.parametrize(
    ("parameter", "complaint"),
    [
        ({"type": "string", "x-log": True}, "any text would be logged"),
        ({"type": ["string", "null"], "x-log": True}, "any text would be logged"),
        ({"type": "string", "x-log": "abc"}, "plain syntax"),
        ({"type": "array", "items": {"type": "string"}, "x-log": True}, "mark what stands below"),
        ({"type": "array", "items": {"type": "string", "x-log": True}}, r"parameters\.id\[\]: .*any text"),
    ],
)
def test_a_mark_on_a_parameter_that_would_let_any_text_through_is_refused(
    tmp_path: Path, parameter: Any, complaint: str
) -> None:
    found = problems(tmp_path, tools=toy.but(toy.TOOLS, ("tools/4/parameters/properties/id", parameter)))
    assert [problem for problem in found if problem.startswith("tools.json: pay: ") and re.search(complaint, problem)]


@pytest.mark.parametrize("mark", [False, 1, 0, ["^a$"]])
def test_a_mark_that_is_neither_true_nor_a_pattern_is_no_tools_file(tmp_path: Path, mark: Any) -> None:
    parameter = {"type": "string", "x-log": mark}
    found = problems(tmp_path, tools=toy.but(toy.TOOLS, ("tools/4/parameters/properties/id", parameter)))
    assert "x-log" in found[0]


# The lists as a whole --------------------------------------------------------------------------------------------


def _model(kind: Any) -> type[Contract] | None:
    if isinstance(kind, type) and issubclass(kind, Contract):
        return kind
    return next((found for one in get_args(kind) if (found := _model(one)) is not None), None)


def _forgotten(model: type[Contract], marks: Mapping[str, Any], place: str) -> Iterator[str]:
    """Fields of a contract that its list does not name: they would be left out of every log and record."""
    for name, about in model.model_fields.items():
        below = marks.get("fields", {}).get(name)
        if below is None and not (name == "redacted" or "each" in marks):
            yield f"{place}.{name}"
        inner = _model(about.annotation)
        if inner is not None and below is not None and name != "redacted" and below != {}:
            is_list = get_origin(about.annotation) is list
            yield from _forgotten(inner, below.get("items", {}) if is_list else below, f"{place}.{name}")


@pytest.mark.parametrize("model", [GateInput, Decision, DecisionRecord, OutcomeRecord])
def test_every_field_of_the_contracts_is_named_shown_or_masked(model: type[Contract], retail_domain: Domain) -> None:
    log = retail_domain.log
    marks = {GateInput: log["input"], Decision: log["decision"]}.get(model, record_marks(log))
    assert list(_forgotten(model, marks, model.__name__)) == []


def _checks(marks: Mapping[str, Any], place: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    for check in (*marks.get("value", ()), *marks.get("keys", ())):
        yield place, check
    for name, below in marks.get("fields", {}).items():
        yield from _checks(below, f"{place}.{name}")
    for name in {"each", "items"} & marks.keys():
        yield from _checks(marks[name], f"{place}.{name}")


@pytest.mark.parametrize("name", policies.domains())
def test_no_shipped_mark_lets_free_text_through(name: str) -> None:
    log = Domain.load(name).log
    checks = [one for tree in (log["input"], log["decision"], *log["tools"].values()) for one in _checks(tree)]
    texts = [(place, check) for place, check in checks if "enum" not in check and "string" in check["types"]]
    assert [place for place, check in texts if "patterns" not in check] == []
    assert len(texts) > 20
    masking = Masking(log)
    for person in (CANARY, "Ada Quist", "ada_quist_1001", "1 Harbour Lane", "(512) 555-0100"):
        assert [place for place, check in texts if masking.allowed({"value": [check]}, person) == person] == []
