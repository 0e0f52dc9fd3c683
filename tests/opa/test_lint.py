"""The lint sees a planted mistake of each kind, at its place, and says nothing about the shipped policies."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from ledgeragent import lint as lint_module
from ledgeragent import policies
from ledgeragent.flow import LedgerShapes, covers
from ledgeragent.lint import lint, main
from ledgeragent.opacli import evaluate, syntax_tree
from ledgeragent.page import failing

Plant = Callable[..., list[str]]

RETAIL = "rego/ledgeragent/retail"
FACTS = f"{RETAIL}/facts/facts.rego"
PENDING = f"{RETAIL}/order_pending/order_pending.rego"
OWNER = f"{RETAIL}/order_owner/order_owner.rego"
ONCE = f"{RETAIL}/once_per_order/once_per_order.rego"
REASON = f"{RETAIL}/cancel_reason/cancel_reason.rego"
GROUNDED = f"{RETAIL}/replacement_grounded/replacement_grounded.rego"
COVERS = f"{RETAIL}/gift_card_covers/gift_card_covers.rego"
PAGE = f"{RETAIL}/retail.rego"
TOOLS = "schemas/retail/tools.json"
ASKED = "data.ledgeragent.retail.cancel_reason"
EMPTIED = 'failing["retail.cancel_reason"] := []'


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the policies to plant mistakes in."""
    folder = tmp_path_factory.mktemp("checkout")
    shutil.copytree(policies.REGO, folder / "rego", ignore=shutil.ignore_patterns("*_test.rego"))
    shutil.copytree(policies.SCHEMAS, folder / "schemas")
    return folder


@pytest.fixture(scope="module")
def parsed_once() -> Iterator[None]:
    """Parse a file again only when its text has changed."""

    @cache
    def tree(opa: Path, file: Path, _text: str) -> object:
        return syntax_tree(opa, file)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lint_module, "syntax_tree", lambda opa, file: tree(opa, file, file.read_text()))
        yield


@pytest.fixture
def plant(checkout: Path, opa_binary: Path, parsed_once: None) -> Iterator[Plant]:
    """Replace texts in one file of the copy, lint it, and give the problems; undone afterwards."""
    undo: list[tuple[Path, str]] = []

    def planted(name: str, *changes: tuple[str, str]) -> list[str]:
        file = checkout / name
        text = file.read_text()
        undo.append((file, text))
        for old, new in changes:
            assert old in text, f"{name} no longer holds {old!r}"
            text = text.replace(old, new)
        file.write_text(text)
        return lint(checkout / "rego", checkout / "schemas", "retail", opa_binary)

    yield planted
    for file, text in reversed(undo):
        file.write_text(text)


def line(checkout: Path, name: str, text: str) -> int:
    """The number of the first line of a file that holds `text`."""
    return next(number for number, one in enumerate((checkout / name).read_text().splitlines(), 1) if text in one)


def test_the_shipped_policies_have_no_problem(opa_binary: Path) -> None:
    assert [
        problem
        for domain in policies.domains()
        for problem in lint(policies.REGO, policies.SCHEMAS, domain, opa_binary)
    ] == []


def test_a_misspelt_field_of_the_ledger(plant: Plant, checkout: Path) -> None:
    problems = plant(PENDING, ('facts.order.status == "pending"\n', 'facts.order.statsu == "pending"\n'))
    assert problems == [f"{PENDING}:{line(checkout, PENDING, 'statsu')}: orders.*.statsu is not in the ledger schema"]


def test_a_misspelt_root_in_the_shared_facts(plant: Plant, checkout: Path) -> None:
    problems = plant(FACTS, ("input.ledger.orders[", "input.ledger.oders["))
    assert f"{FACTS}:{line(checkout, FACTS, 'oders')}: oders is not in the ledger schema" in problems


def test_a_misspelt_field_behind_an_alias_a_function_and_an_iteration(plant: Plant, checkout: Path) -> None:
    for name, good, bad, shape in [
        (FACTS, "method.source == ", "method.sorce == ", "users.*.payment_methods.*.sorce"),
        (FACTS, "entry.transaction_type ==", "entry.transaction_typ ==", "orders.*.payment_history.*.transaction_typ"),
        (FACTS, "old_items[index].product_id if", "old_items[index].produkt_id if", "orders.*.items.*.produkt_id"),
        (GROUNDED, "variant.available == true", "variant.avail == true", "products.*.variants.*.avail"),
        (
            COVERS,
            "facts.payment_method.balance)",
            "facts.payment_method.ballance)",
            "users.*.payment_methods.*.ballance",
        ),
        (FACTS, "item.item_id == item_id", "item.itemid == item_id", "orders.*.items.*.itemid"),
    ]:
        problems = plant(name, (good, bad))
        assert f"{name}:{line(checkout, name, bad)}: {shape} is not in the ledger schema" in problems
        plant(name, (bad, good))


def test_a_misspelt_path_in_the_evidence(plant: Plant, checkout: Path) -> None:
    problems = plant(PENDING, ('facts.order_path("status")', 'facts.order_path("state")'))
    place = f"{FACTS}:{line(checkout, FACTS, 'order_path(field) :=')}"
    assert f"{place}: orders.*.state is not in the ledger schema" in problems


def test_a_misspelt_path_that_is_asked_of_the_gate(plant: Plant, checkout: Path) -> None:
    problems = plant(FACTS, ('"variants", new_item_ids[index]]', '"variant", new_item_ids[index]]'))
    place = f"{FACTS}:{line(checkout, FACTS, 'new_variant_path(index) :=')}"
    assert f"{place}: products.*.variant.* is not in the ledger schema" in problems


def test_a_fact_that_is_not_in_the_stated_evidence(plant: Plant, checkout: Path) -> None:
    problems = plant(PENDING, ('evidence: ["orders.{arguments.order_id}.status"]', "evidence: []"))
    of = "is not in METADATA evidence of data.ledgeragent.retail.order_pending"
    assert f"{PENDING}:{line(checkout, PENDING, 'holds if')}: orders.*.status {of}" in problems
    assert f"{FACTS}:{line(checkout, FACTS, 'order_path(field) :=')}: orders.*.status {of}" in problems


def test_stated_evidence_that_the_rules_never_ask_for(plant: Plant, checkout: Path) -> None:
    both = 'evidence: ["orders.{arguments.order_id}.status", "orders.{arguments.order_id}.user_id"]'
    problems = plant(PENDING, ('evidence: ["orders.{arguments.order_id}.status"]', both))
    place = f"{PENDING}:{line(checkout, PENDING, 'package ')}"
    stated = "METADATA states the evidence orders.{arguments.order_id}.user_id"
    assert problems == [f"{place}: {stated}, which the rules never ask for"]


def test_stated_evidence_that_does_not_exist(plant: Plant, checkout: Path) -> None:
    problems = plant(PENDING, ("orders.{arguments.order_id}.status", "order.{arguments.orderid}.status"))
    place = f"{PENDING}:{line(checkout, PENDING, 'package ')}: METADATA states the evidence"
    assert f"{place} order.{{arguments.orderid}}.status, which is not in the ledger schema" in problems
    assert f"{place} order.{{arguments.orderid}}.status; no guarded tool has an argument orderid" in problems


def test_a_fact_that_the_tool_does_not_need(plant: Plant) -> None:
    problems = plant(
        TOOLS, ('["orders", "{arguments.order_id}", "status"]', '["orders", "{arguments.order_id}", "address"]')
    )
    assert any("orders.*.status is not in needs of cancel_pending_order" in problem for problem in problems)
    assert not any("needs of modify_user_address" in problem for problem in problems)


def test_what_a_tool_can_never_reach_is_not_asked_of_its_needs(plant: Plant, checkout: Path) -> None:
    """The products matter to gift_card_covers, but not when it guards a change of the payment method."""
    problems = plant(COVERS, ("\tnot _changes_payment\n\tfacts.same_length\n", "\tfacts.order_id\n"))
    place = f"{FACTS}:{line(checkout, FACTS, 'order_path(field) :=')}"
    assert f"{place}: orders.*.items is not in needs of modify_pending_order_payment" in problems


@pytest.mark.parametrize("field", ["title", "description"])
def test_metadata_without_a_text(plant: Plant, checkout: Path, field: str) -> None:
    problems = plant(ONCE, (f"# {field}:", f"# x_{field}:"))
    lacks = f"METADATA of data.ledgeragent.retail.once_per_order lacks {field}"
    assert f"{ONCE}:{line(checkout, ONCE, 'package ')}: {lacks}" in problems


@pytest.mark.parametrize("field", ["id", "remedy", "severity", "policy", "evidence"])
def test_metadata_without_a_custom_field(plant: Plant, checkout: Path, field: str) -> None:
    problems = plant(PENDING, (f"#   {field}:", f"#   no_{field}:"))
    lacks = f"METADATA of data.ledgeragent.retail.order_pending lacks custom.{field}"
    assert f"{PENDING}:{line(checkout, PENDING, 'package ')}: {lacks}" in problems


def test_a_severity_of_its_own(plant: Plant) -> None:
    assert any("severity 'grave' is none of" in one for one in plant(PENDING, ("severity: high", "severity: grave")))


def test_an_id_that_is_not_the_package(plant: Plant) -> None:
    problems = plant(PENDING, ("id: retail.order_pending", "id: retail.order_owner"))
    assert [one.split(": ", 1)[1] for one in problems] == [
        "METADATA calls data.ledgeragent.retail.order_pending by the id 'retail.order_owner'"
    ]


def test_a_package_in_the_wrong_folder(plant: Plant) -> None:
    problems = plant(REASON, ("package ledgeragent.retail.cancel_reason", "package ledgeragent.retail.cancel_reasons"))
    assert (
        f"{REASON}:1: package data.ledgeragent.retail.cancel_reasons in the folder of "
        "data.ledgeragent.retail.cancel_reason" in problems
    )


def test_a_read_of_the_history_that_is_not_stated(plant: Plant) -> None:
    problems = plant(ONCE, ("#   reads: [history, siblings]\n", ""))
    assert [one.split(": ", 1)[1] for one in problems] == ["METADATA must state custom.reads: [history, siblings]"]


def test_a_predicate_that_is_not_listed(plant: Plant) -> None:
    problems = plant(PAGE, ('\t"retail.cancel_reason": failing["retail.cancel_reason"],\n', ""))
    assert any("cancel_reason is not listed on the domain's page" in one for one in problems)
    assert any("the page of cancel_pending_order is not what" in one for one in problems)


def test_a_listed_predicate_that_is_not_there(plant: Plant) -> None:
    problems = plant(PAGE, ("retail.cancel_reason", "retail.cancel_motive"))
    assert any("retail.cancel_motive is listed, but" in one for one in problems)


def test_a_listed_predicate_that_is_not_there_is_none_that_holds(opa_binary: Path, tmp_path: Path) -> None:
    shutil.copytree(policies.REGO, tmp_path / "rego", ignore=shutil.ignore_patterns("*_test.rego", "order_pending"))
    document = json.loads((policies.SCHEMAS / "vectors" / "retail.json").read_text(encoding="utf-8"))
    inputs = [
        one["input"]
        for one in document["vectors"]
        if "retail.order_pending" in one["decision"]["predicates"] and one["decision"]["verdict"] == "allow"
    ]
    said = evaluate(opa_binary, tmp_path / "rego", "data.ledgeragent.retail.decision.findings[_].predicate", inputs)
    assert said == ["gate.unguarded"] * len(inputs)
    assert inputs


def test_a_package_in_two_files(plant: Plant, checkout: Path) -> None:
    other = checkout / RETAIL / "cancel_reason" / "also.rego"
    other.write_text("package ledgeragent.retail.cancel_reason\n\nholds if input.session.turn > 0\n", encoding="utf-8")
    try:
        problems = plant(REASON)
    finally:
        other.unlink()
    said = "data.ledgeragent.retail.cancel_reason is in other files too; one file holds all of it"
    assert problems == [f"{RETAIL}/cancel_reason/also.rego:1: {said}"]


def test_a_predicate_listed_under_another_name(plant: Plant) -> None:
    problems = plant(PAGE, ('"retail.cancel_reason":', '"retail.items_in_order":'))
    assert any("retail.items_in_order is listed with failing.retail.cancel_reason" in one for one in problems)


@pytest.mark.parametrize("condition", ["} if input.session.turn > 0", "} if { true } else := {}"])
def test_predicates_listed_under_a_condition(plant: Plant, condition: str) -> None:
    after = '\n\nguarding["exchange_delivered_order_items"]'
    problems = plant(PAGE, ("}" + after, condition + after))
    assert any("guarding of cancel_pending_order must be one literal object" in one for one in problems)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (f"not {ASKED}.holds == true", f"not {ASKED}.holds"),
        (f"not {ASKED}.holds == true", f"{ASKED}.holds == false"),
        (f"predicate := {ASKED}]", "predicate := data.ledgeragent.retail.order_owner]"),
        (f"all := [predicate | predicate := {ASKED}]", f"all := [{ASKED}]"),
        (failing("retail.cancel_reason"), f"_unused := `\n{failing('retail.cancel_reason')}`\n\n{EMPTIED}\n"),
    ],
)
def test_a_predicate_that_is_asked_in_another_form(plant: Plant, old: str, new: str) -> None:
    problems = plant(PAGE, (old, new))
    assert [one.split(": ", 1)[1] for one in problems] == [
        "retail.cancel_reason is not asked as the compiled page asks it"
    ]


def test_a_predicate_that_is_asked_twice(plant: Plant) -> None:
    other = '\nfailing["retail.cancel_reason"] := [] if input.session.turn > 0\n'
    problems = plant(PAGE, ('\nfailing["retail.cancel_reason"]', other + '\nfailing["retail.cancel_reason"]'))
    assert [one.split(": ", 1)[1] for one in problems] == ["14 rules of failing for 13 predicates"]


def test_a_common_predicate_that_is_not_for_every_write(plant: Plant) -> None:
    rule = 'guarding["cancel_pending_order"] := {\n'
    common = '\t"common.no_repeat_write": failing["common.no_repeat_write"],\n'
    problems = plant(PAGE, (rule + common, rule))
    differ = "the page of cancel_pending_order is not what the predicates guard; they differ in common.no_repeat_write"
    assert [one.split(": ", 1)[1] for one in problems] == [differ]


def test_guards_that_are_not_literal(plant: Plant) -> None:
    for guards in (
        'guards := {"cancel_pending_order"} if input.session.turn > 0',
        'guards contains "cancel_pending_order"',
        'guards := {tool | tool := "cancel_pending_order"}',
    ):
        problems = plant(REASON, ('guards := {"cancel_pending_order"}', guards))
        assert any("must be one literal set of tools" in one for one in problems)
        plant(REASON, (guards, 'guards := {"cancel_pending_order"}'))


def test_guards_that_name_no_write(plant: Plant) -> None:
    for tool in ("cancel_order", "get_order_details"):
        problems = plant(REASON, ('guards := {"cancel_pending_order"}', f'guards := {{"{tool}"}}'))
        assert any(f"{tool} is not a write of retail" in one for one in problems)
        plant(REASON, (f'guards := {{"{tool}"}}', 'guards := {"cancel_pending_order"}'))


def test_tools_that_declare_other_guards(plant: Plant, checkout: Path) -> None:
    problems = plant(TOOLS, ('        "retail.cancel_reason",\n', ""))
    place = f"{TOOLS}:{line(checkout, TOOLS, 'cancel_pending_order')}"
    differ = "is not what the predicates guard; they differ in retail.cancel_reason"
    assert problems == [f"{place}: guarded_by of cancel_pending_order {differ}"]


@pytest.mark.parametrize("rule", ["holds", "verdict", "message", "evidence"])
def test_a_predicate_without_a_rule(plant: Plant, rule: str) -> None:
    problems = plant(REASON, (f"\n{rule} ", f"\n_{rule} "))
    if rule == "holds":
        assert any("retail.cancel_reason is listed, but" in one for one in problems)
    else:
        assert any(f"data.ledgeragent.retail.cancel_reason has no rule `{rule}`" in one for one in problems)


def test_holds_and_verdict_are_written_plainly(plant: Plant) -> None:
    assert any("`holds` must be plainly true" in one for one in plant(REASON, ("holds if", 'holds := "yes" if')))
    plant(REASON, ('holds := "yes" if', "holds if"))
    assert any("`verdict` must be written as" in one for one in plant(REASON, ('"revise"', '"warn"')))


@pytest.mark.parametrize(
    "negated",
    [
        "not input.ledger.auth.user_id",
        "not facts.order.status",
        'not facts.order.status == "delivered"',
        "not data.ledgeragent.retail.settings.strict",
        "not is_string(facts.order.status)",
        'not facts.order.status in {"delivered"}',
        'not "x" in facts.order.items',
        "not _is(facts.order.status)",
        'not [status | status := "x"; not status == facts.order.status] == []',
    ],
)
def test_a_negation_of_what_can_be_undefined(plant: Plant, checkout: Path, negated: str) -> None:
    problems = plant(
        PENDING,
        ('holds if facts.order.status == "pending"\n', f'holds if {{\n\t{negated}\n}}\n\n_is(value) if value == "x"\n'),
    )
    place = f"{PENDING}:{line(checkout, PENDING, negated)}"
    assert any(one.startswith(f"{place}: `not` over something that can be undefined") for one in problems)


@pytest.mark.parametrize(
    "negated",
    ["not _ran", "not facts.same_length", "not _is(status)", "not status in {1, 2}", 'not status == "x"'],
)
def test_a_negation_of_what_is_always_defined_is_fine(plant: Plant, negated: str) -> None:
    problems = plant(
        ONCE,
        ("\tnot _shown_by_status\n}\n", f'\tstatus := "x"\n\t{negated}\n}}\n\n_is(value) if value == "x"\n'),
    )
    assert not any("`not` over" in one for one in problems)


def test_the_command_prints_the_problems_and_fails(
    plant: Plant, checkout: Path, opa_binary: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--rego", str(checkout / "rego"), "--schemas", str(checkout / "schemas"), "--opa", str(opa_binary)]
    assert (main(where), capsys.readouterr().out) == (0, "")
    plant(REASON, ('"revise"', '"warn"'))
    assert main(where) == 1
    assert capsys.readouterr().out.endswith('`verdict` must be written as "revise" or "block"\n')


def test_the_command_says_when_it_cannot_run(
    plant: Plant, checkout: Path, opa_binary: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--rego", str(checkout / "rego"), "--schemas", str(checkout / "schemas"), "--opa", str(opa_binary)]
    (checkout / REASON).write_text((text := (checkout / REASON).read_text()) + "\nholds if {\n")
    try:
        assert main(where) == 2
    finally:
        (checkout / REASON).write_text(text)
    assert "rego_parse_error" in capsys.readouterr().err
    assert main([*where, "no such domain"]) == 2


def test_shapes_of_a_schema() -> None:
    shapes = LedgerShapes(
        {
            "properties": {"a": {"$ref": "#/$defs/a"}, "open": True},
            "$defs": {"a": {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "string"}}}},
        }
    )
    assert [
        shapes.has(shape) for shape in [(), ("a",), ("a", "*"), ("a", "x", "*"), ("a", "x", "0"), ("open", "y", "z")]
    ] == [True] * 6
    assert [shapes.has(shape) for shape in [("b",), ("a", "x", "y"), ("a", "x", "0", "y"), ("*",)]] == [False] * 4


def test_a_place_covers_itself_and_what_lies_below() -> None:
    assert covers(("a", "*"), ("a", "x", "y"))
    assert covers(("a", "x"), ("a", "*"))
    assert not covers(("a", "x"), ("a",))
    assert not covers(("a", "x"), ("b", "x"))
