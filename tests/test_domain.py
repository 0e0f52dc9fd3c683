"""A domain loads only when its three parts agree; otherwise everything that is wrong is said at once."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgeragent.domain import Domain, LedgerSchema, is_plain_pattern
from ledgeragent.errors import BadInput, DomainError
from ledgeragent.parsers import load_parser
from ledgeragent.parts import domain_part
from ledgeragent.policies import REGO, read_rego, sources_digest
from support import toy
from support.toy import SCHEMA, TOOLS, but

pytest_plugins = ["support.fixtures"]

READ, STOCK, PAY = "tools/1", "tools/2", "tools/4"


def problems(folder: Path, **parts: Any) -> tuple[str, ...]:
    """What is wrong with the toy domain once a part is another."""
    with pytest.raises(DomainError) as refused:
        toy.load(folder, **parts)
    assert all(problem in str(refused.value) for problem in refused.value.problems)
    return refused.value.problems


def test_parts_that_agree_load(toy_domain: Domain) -> None:
    assert sorted(toy_domain.tools) == ["describe_person", "find_person", "get_person", "list_stock", "pay", "wait"]
    assert {name for name in (*toy_domain.tools, "undeclared") if toy_domain.is_write(name)} == {"pay", "undeclared"}
    assert toy_domain.guarded_by("pay") == ("common.once", "toy.enough")
    assert toy_domain.guarded_by("undeclared") == ()
    assert [(kind.pattern, kind.id_field) for kind in toy_domain.schema.records] == [
        (("auth", "person"), None),
        (("people", "*"), "id"),
        (("stock", "*", "*"), "id"),
        (("seen",), None),
    ]


def test_what_opa_is_told_of_a_domain_is_bare_sorted_and_closed(toy_domain: Domain) -> None:
    declared = toy_domain.declared()
    assert declared["optional"] == [["people", "*", "cards", "*"], ["people", "*", "nick"]]
    assert declared["protected"] == ["toy.enough"]
    assert declared["tools"]["pay"] == {
        "effect": "write",
        "guarded_by": ["common.once", "toy.enough"],
        "parameters": {
            "type": "object",
            "properties": {"id": {"type": "string"}, "card": {"type": "string"}},
            "required": ["id", "card"],
            "additionalProperties": False,
        },
        "unguarded": False,
    }


@pytest.mark.parametrize(
    ("place", "value", "complaint"),
    [
        ("tools/+", TOOLS["tools"][0], "tools.json: find_person is declared twice"),
        ("principal_path", ["auth"], "principal_path ['auth'] is not a record of the ledger schema"),
        ("protected", ["toy.gone"], "protected toy.gone guards no tool"),
        ("failures", ["(["], "failures: '([' is no pattern"),
        ("domain", "other", "domain is 'other', its folder 'toy'"),
        # Parameters
        (f"{READ}/parameters/type", "string", "get_person: parameters must be an object"),
        (f"{READ}/parameters/additionalProperties", ..., "must declare its properties with additionalProperties false"),
        (f"{READ}/parameters/required", ["id", "name"], "parameters requires 'name', which it does not declare"),
        (f"{READ}/parameters/properties/id", {}, "parameters.id needs a type or an enum"),
        (f"{READ}/parameters/properties/id", {"type": "array"}, "parameters.id is an array and must declare its items"),
        (
            f"{READ}/parameters/properties/id/pattern",
            "[0-9]",
            "must begin with ^, end with $ and use plain syntax only",
        ),
        # Facts
        (f"{READ}/facts/0/path", ["persons", "{arguments.id}"], "persons.{arguments.id} is not in the ledger schema"),
        (f"{READ}/facts/0/path", ["people"], "facts[0].path people is not where the ledger schema has a record"),
        (f"{READ}/facts/0/path", ["people", "{arguments.id}", "nick"], "is not where the ledger schema has a record"),
        (f"{READ}/facts/0/path", ["people", "{arguments.name}"], "{arguments.name} is no parameter of the tool"),
        (f"{READ}/facts/0/path", ["people", "{ledger: auth.person}"], "{ledger} stands for nothing here"),
        (f"{READ}/facts/0/path", ["people", "{argument.id}"], "must begin with"),
        (f"{READ}/facts/0/path", ["people", "{each.id}"], "each"),
        (f"{READ}/facts/0/value", "{each}", "each"),
        (f"{READ}/facts/0/value", "{principal}", "{principal} stands for nothing here"),
        (f"{STOCK}/facts/0/each", "{result", "without its '}'"),
        (f"{STOCK}/facts/0/when/value", "{ledger: auth.person}", "facts[0].when: {ledger} stands for nothing here"),
        (f"{STOCK}/facts/0/when/pattern", "([", "facts[0].when"),
        (f"{READ}/facts/0/unless_seen", ["email"], "unless_seen names 'email', which is no parameter"),
        (f"{READ}/facts/0/parse", "prose", "facts[0].parse: parser 'prose' cannot be imported (use module:function)"),
        (f"{READ}/facts/0/parse", "support.toy:gone", "parser 'support.toy:gone' cannot be imported"),
        (f"{READ}/facts/0/parse", "support.toy:TOOLS", "parser 'support.toy:TOOLS' is not a function"),
        # Settles
        (f"{READ}/settles/0/path", ["persons", "{id}"], "settles[0].path persons.{id} is not in the ledger schema"),
        (
            f"{READ}/settles/0/arguments",
            {"id": "{id}", "x": "?"},
            "settles[0].arguments names 'x', which is no parameter",
        ),
        (f"{READ}/settles/0/arguments", {"id": "{person}"}, "settles[0]"),
        # Writes
        (
            f"{PAY}/needs/0",
            ["people", "{arguments.id}", "card"],
            "people.{arguments.id}.card is not in the ledger schema",
        ),
        (f"{PAY}/needs/0", ["people"], "needs[0] people stops above the records"),
        (f"{PAY}/needs/0", ["people", "{arguments.name}"], "needs[0]: {arguments.name} is no parameter of the tool"),
        (f"{PAY}/needs/0", ["people", "{result.id}"], "needs[0]: {result} stands for nothing here"),
        (
            f"{PAY}/needs/0",
            ["people", "{ledger: auth.user}"],
            "needs[0]: {ledger: auth.user} is not in the ledger schema",
        ),
        (f"{PAY}/needs/0", ["people", "?", "nick"], "has a '?' that is not its last key"),
        (
            f"{PAY}/changes/0",
            ["people", "{principal}", "age"],
            "changes[0] people.{principal}.age is not in the ledger schema",
        ),
        (f"{PAY}/guarded_by", ["common.once"], "is a write that no predicate of its domain guards"),
        (f"{PAY}/unguarded", {"owner": "o", "reason": "r"}, "says it is unguarded and names predicates that guard it"),
        (f"{PAY}/guarded_by/+", "toy.enough", "guarded_by names toy.enough twice"),
        (f"{PAY}/guarded_by/+", "toy.more", "says it is guarded by toy.more, which the Rego does not enforce for it"),
        (f"{PAY}/guarded_by", ["toy.enough"], "pay leaves out common.once, which the Rego enforces for it"),
        # The contract
        (f"{PAY}/effect", "pay", "tools.4"),
        (f"{PAY}/needs", ..., "tools.4.write.needs: Field required"),
        ("stranger", 1, "stranger: Extra inputs are not permitted"),
    ],
)
def test_a_tools_file_that_does_not_agree_is_refused(tmp_path: Path, place: str, value: Any, complaint: str) -> None:
    found = problems(tmp_path, tools=but(TOOLS, (place, value)))
    assert any(complaint in problem for problem in found), found


def test_parameters_deeper_than_the_gate_can_check_are_refused(tmp_path: Path) -> None:
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(5):
        deep = {"type": "array", "items": deep}
    [problem] = problems(tmp_path, tools=but(TOOLS, (f"{READ}/parameters/properties/id", deep)))
    assert "parameters.id[][][][] is nested more than 4 levels deep" in problem
    shallow = but(TOOLS, (f"{READ}/parameters/properties/id", deep["items"]["items"]))
    assert toy.load(tmp_path, tools=shallow).tools["get_person"].name == "get_person"


@pytest.mark.parametrize(
    ("place", "value", "complaint"),
    [
        (
            "properties/people/additionalProperties",
            {"$ref": "#/$defs/gone"},
            "'#/$defs/gone', which is not under $defs",
        ),
        ("$defs/person/type", "thing", "thing"),
        ("$defs/person_id/pattern", "([", "(["),
        ("$defs/person/x-id", "person_id", "person_id"),
        ("$defs/person_id/pattern", ..., "person"),
        ("properties/stock/x-id", None, "stock"),
        ("properties/people/properties", {"a": {"properties": {"b": {"x-id": None}}}}, "lie at different depths"),
        ("properties", {}, "marks no record type with x-id"),
        ("$defs/person", {"$ref": "#/$defs/person"}, "person"),
        ("$defs/person/properties/friend", {"$ref": "#/$defs/person"}, "person"),
    ],
)
def test_a_ledger_schema_that_does_not_agree_is_refused(tmp_path: Path, place: str, value: Any, complaint: str) -> None:
    found = problems(tmp_path, schema=but(SCHEMA, (place, value)))
    assert any(complaint in problem for problem in found), found


PAGE = toy.REGO["toy.rego"]
GUARDS = toy.REGO["enough/enough.rego"]


@pytest.mark.parametrize(
    ("rego", "complaint"),
    [
        ({"other.rego": PAGE}, "toy.rego: no page that lists what is enforced"),
        (
            {"toy.rego": PAGE.replace("toy.enough", "toy.more")},
            "toy.rego: toy.more guards pay on the page or in tools.json, and must in both",
        ),
        ({"toy.rego": PAGE.replace("pay", "give")}, "toy.rego: give is a write of tools.json or is on the page, and"),
        ({"more/more.rego": GUARDS}, "tools.json: pay leaves out toy.more, which the Rego enforces for it"),
        (
            {"enough/enough.rego": 'guards contains "pay"\n'},
            "tools.json: pay says it is guarded by toy.enough, which the Rego does not enforce for it",
        ),
        (
            {"enough/enough.rego": 'guards := {"pay", "wait"}\n'},
            "toy.enough guards wait, which tools.json does not declare",
        ),
        (
            {"enough/enough.rego": 'guards := {"wait"}\n'},
            "pay says it is guarded by toy.enough, which the Rego does not",
        ),
    ],
)
def test_rego_that_does_not_agree_is_refused(tmp_path: Path, rego: dict[str, str], complaint: str) -> None:
    kept = toy.REGO if "other.rego" not in rego else {}
    found = problems(tmp_path, rego={**kept, **rego})
    assert any(complaint in problem for problem in found), found


def test_tests_beside_a_predicate_guard_nothing(tmp_path: Path) -> None:
    toy.load(tmp_path, rego={**toy.REGO, "enough/enough_test.rego": 'guards := {"wait"}\n'})


def test_everything_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    tools = but(
        TOOLS, ("protected", ["toy.gone"]), (f"{READ}/facts/0/path/0", "persons"), (f"{PAY}/needs/0/0", "author")
    )
    found = problems(tmp_path, tools=tools, rego={**toy.REGO, "more/more.rego": GUARDS})
    assert found == (
        "tools.json: protected toy.gone guards no tool",
        "tools.json: get_person: facts[0].path persons.{arguments.id} is not in the ledger schema",
        "tools.json: pay: needs[0] author.person is not in the ledger schema",
        "tools.json: pay leaves out toy.more, which the Rego enforces for it",
    )


def test_two_files_that_cannot_be_read_are_both_named(tmp_path: Path) -> None:
    found = problems(tmp_path, tools='{"contract": 1, "contract": 2}', schema="{")
    assert [problem.partition(": ")[0].rpartition("/")[2].partition(" ")[0] for problem in found] == [
        "tools.json",
        "ledger.schema.json",
    ]
    assert "has a key twice" in found[0]


@pytest.mark.parametrize("part", ["tools", "schema"])
@pytest.mark.parametrize("document", ["[]", "true", "null", '"text"', "503 Service Unavailable", "", "\ufeff{}"])
def test_a_file_that_is_no_json_object_is_named(tmp_path: Path, part: str, document: str) -> None:
    file = {"tools": "tools.json", "schema": "ledger.schema.json"}[part]
    assert any(file in problem for problem in problems(tmp_path, **{part: document}))


def test_a_file_that_is_no_utf_8_or_not_there_is_named(tmp_path: Path) -> None:
    folders = toy.write(tmp_path)
    (folders["schemas"] / "toy" / "tools.json").write_bytes(b"\xff\xfe{}")
    (folders["schemas"] / "toy" / "ledger.schema.json").unlink()
    with pytest.raises(DomainError) as refused:
        Domain.load("toy", **folders)
    assert ["tools.json: cannot be read" in refused.value.problems[0], len(refused.value.problems)] == [True, 2]
    assert "ledger.schema.json: cannot be read" in refused.value.problems[1]


@pytest.mark.parametrize("name", ["", "Toy", "../toy", "toy/..", "toy\n", "1toy", "toy-2", "a" * 200 + "!"])
def test_a_name_that_could_lead_elsewhere_is_no_domain(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadInput, match="is not a domain name"):
        Domain.load(name, **toy.write(tmp_path))


def test_a_write_may_be_unguarded_when_somebody_answers_for_it(tmp_path: Path) -> None:
    tools = but(
        TOOLS,
        (f"{PAY}/guarded_by", ["common.once"]),
        (f"{PAY}/unguarded", {"owner": "o", "reason": "r"}),
        ("protected", []),
    )
    page = PAGE.replace('\t"toy.enough": 2,\n', "")
    domain = toy.load(tmp_path, tools=tools, rego={"toy.rego": page})
    assert domain.declared()["tools"]["pay"]["unguarded"] is True


def test_without_a_policy_folder_only_the_two_files_are_held_together(tmp_path: Path) -> None:
    folders = toy.write(tmp_path, rego={})
    assert Domain.load("toy", schemas=folders["schemas"], rego=None).name == "toy"


@pytest.mark.parametrize(
    ("pattern", "plain"),
    [
        ("^#W[0-9]+$", True),
        (r"^a\.b$", True),
        ("^(a|b)$", True),
        ("[0-9]+", False),
        ("^a", False),
        ("a$", False),
        (r"^\d+$", False),
        (r"^\w$", False),
        (r"^a\b$", False),
        ("^(?i)a$", False),
        ("^(?=a)a$", False),
        ("^[[:alpha:]]$", False),
        ("^a$b$", False),
        ("^($", False),
        ("^a$\n", False),
    ],
)
def test_argument_patterns_read_alike_in_python_and_in_opa(pattern: str, plain: bool) -> None:
    assert is_plain_pattern(pattern) is plain


def test_a_pattern_ends_at_the_end_of_the_text_and_not_before_a_last_newline() -> None:
    problem = LedgerSchema(SCHEMA).records[0].problem
    assert problem("p1") is None
    assert problem("p1\n") == 'the record: breaks pattern "^p[0-9]+$"'


def test_the_schema_under_a_path_is_found_through_references_ids_and_lists() -> None:
    schema = LedgerSchema(SCHEMA)
    assert schema.at(("people", "*", "cards", "*", "balance")) == {"type": "number"}
    assert schema.at(("seen", "[*]")) == {"type": "string"}
    assert (schema.at(("people", "*", "age")), schema.at(("nowhere",)), schema.at(("seen", "x"))) == (None, None, None)
    assert [schema.record_depth(path) for path in (("people", "p1", "nick"), ("people",), ("nowhere", "x"))] == [
        2,
        None,
        None,
    ]


def test_a_parser_is_a_function_of_a_module() -> None:
    assert load_parser("support.toy:person_of") is toy.person_of
    for name in ("", ":", "support.toy", "no.such.module:x", "support.toy:TOOLS"):
        with pytest.raises(BadInput, match="parser"):
            load_parser(name)


# The digest of the sources ---------------------------------------------------------------------------------------


@given(st.sampled_from(["data.json", "enough/enough_test.rego", "notes.txt"]), st.text("ab", min_size=1))
def test_what_decides_nothing_leaves_the_digest_as_it_is(name: str, text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        folders = toy.write(Path(folder))
        before = sources_digest(folders["rego"], folders["schemas"])
        (folders["rego"] / "ledgeragent" / "toy" / name).write_text(text)
        assert sources_digest(folders["rego"], folders["schemas"]) == before


@pytest.mark.parametrize(
    "name",
    [
        "rego/ledgeragent/toy/toy.rego",
        "rego/ledgeragent/toy/defaults/data.json",
        "rego/.manifest",
        "schemas/toy/tools.json",
        "schemas/toy/ledger.schema.json",
    ],
)
def test_whatever_decides_changes_the_sources_digest(tmp_path: Path, name: str) -> None:
    folders = toy.write(tmp_path)
    before = sources_digest(folders["rego"], folders["schemas"])
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("changed")
    changed = sources_digest(folders["rego"], folders["schemas"])
    assert changed != before
    (tmp_path / name).rename(tmp_path / f"{name}.json")
    assert sources_digest(folders["rego"], folders["schemas"]) not in (before, changed)


def test_a_folder_without_policies_has_no_sources_digest(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"no \.rego files under .* name the bundle root"):
        sources_digest(tmp_path, tmp_path)


def test_a_page_is_read_without_an_engine(tmp_path: Path) -> None:
    folders = toy.write(tmp_path)
    facts = read_rego(folders["rego"], "toy")
    assert (facts.listed, facts.guards) == (("common.once", "toy.enough"), {"toy.enough": frozenset({"pay"})})


def test_retail_has_the_sixteen_tools_and_its_generated_data(retail_domain: Domain) -> None:
    writes = sorted(name for name in retail_domain.tools if retail_domain.is_write(name))
    assert (len(retail_domain.tools), len(writes)) == (16, 7)
    written = json.loads((REGO / "ledgeragent" / "retail" / "data.json").read_text(encoding="utf-8"))
    stamp = {"revision": domain_part(REGO, retail_domain).revision, "sequence": 0}
    assert written == {"declared": {**retail_domain.declared(), **stamp}}
