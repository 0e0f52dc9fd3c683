"""Every piece of evidence decides: knocked out of an allowed vector, the call is no longer allowed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ledgeragent import policies
from ledgeragent.errors import BadInput, EngineEvaluation
from ledgeragent.knockout import KnockOut, knock_out, knocked

USED = ("cancel a pending order", "modify items, the gift card just covers the difference")
# Predicates that read no facts, so that there is nothing to knock out.
IDLE = {
    "airline": {"airline.reservation_active", "common.no_repeat_write"},
    "retail": {"common.no_repeat_write", "retail.cancel_reason"},
    "telecom": {"common.no_repeat_write", "telecom.refuel_limit"},
    "telehealth": {"common.no_repeat_write"},
}


def vectors(domain: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((policies.SCHEMAS / "vectors" / f"{domain}.json").read_text())["vectors"]
    return found


@pytest.mark.parametrize("domain", policies.domains())
def test_no_allowed_vector_survives_the_loss_of_evidence(domain: str, opa_binary: Path) -> None:
    shown = knock_out(policies.REGO, policies.SCHEMAS, domain, vectors(domain), opa_binary)
    assert shown.problems == ()
    assert shown.cases > 500
    assert shown.idle == IDLE[domain]


@pytest.fixture
def changed(tmp_path: Path, opa_binary: Path) -> Callable[[str, str, str], KnockOut]:
    """Knock out retail after a replacement in one of its predicates."""

    def shown(predicate: str, good: str, bad: str) -> KnockOut:
        rego = tmp_path / "rego"
        shutil.copytree(policies.REGO, rego, ignore=shutil.ignore_patterns("*_test.rego"))
        source = rego / "ledgeragent" / "retail" / predicate / f"{predicate}.rego"
        assert good in source.read_text()
        source.write_text(source.read_text().replace(good, bad))
        chosen = [one for one in vectors("retail") if one["name"] in USED]
        return knock_out(rego, policies.SCHEMAS, "retail", chosen, opa_binary)

    return shown


def test_a_rule_that_passes_what_is_not_false_is_found(changed: Callable[[str, str, str], KnockOut]) -> None:
    good, bad = 'holds if facts.order.status == "pending"', 'holds if not facts.order.status == "delivered"'
    found = changed("order_pending", good, bad).problems
    still = "the call is still allowed, though retail.order_pending lists it as evidence"
    assert f"vector 'cancel a pending order': with orders.#W1000001.status null {still}" in found
    assert f"vector 'cancel a pending order': with orders.#W1000001.status replaced by 7 {still}" in found


def test_a_rule_that_takes_unknown_for_false_is_found(changed: Callable[[str, str, str], KnockOut]) -> None:
    path = 'evidence contains facts.order_path("status")\n'
    found = changed("order_pending", path, path.replace("\n", " if facts.order.status\n")).problems
    assert (
        "vector 'cancel a pending order': with orders.#W1000001.status stale "
        "the call is blocked; retail.order_pending must be unknown there"
    ) in found


def test_a_rule_that_fails_on_another_type_is_an_error(changed: Callable[[str, str, str], KnockOut]) -> None:
    with pytest.raises(EngineEvaluation, match=r"gift_card_covers.rego:\d+: eval_type_error: mul: operand 1"):
        changed(
            "gift_card_covers", "money.cents(facts.payment_method.balance) >=", "facts.payment_method.balance * 100 >="
        )


def test_vectors_that_are_not_allowed_are_refused(opa_binary: Path) -> None:
    rejected = [one for one in vectors("retail") if one["decision"]["verdict"] != "allow"]
    with pytest.raises(BadInput, match="no allowed input"):
        knock_out(policies.REGO, policies.SCHEMAS, "retail", rejected, opa_binary)
    claimed = [{**rejected[0], "decision": {"verdict": "allow"}}]
    with pytest.raises(BadInput, match="should be allowed and is not"):
        knock_out(policies.REGO, policies.SCHEMAS, "retail", claimed, opa_binary)


def test_what_is_done_to_a_path_and_to_all_paths_of_a_predicate() -> None:
    given = {"ledger": {"a": {"b": [{"c": [1]}], "d": 1.5}}, "stale": [["x"]]}
    cases = {
        (case.how, case.paths): (case.input["ledger"], case.input["stale"])
        for case in knocked("v", {"input": given}, {"p": [["a", "b"], ["a", "d"]]}, lambda path: False)
    }
    assert cases["deleted", ("a.b",)] == ({"a": {"d": 1.5}}, [["x"]])
    assert cases["stale", ("a.b",)] == ({"a": {"d": 1.5}}, [["x"], ["a", "b"]])
    assert cases["null", ("a.d",)] == ({"a": {"b": [{"c": [1]}], "d": None}}, [["x"]])
    assert cases["emptied at itself", ("a.b",)] == ({"a": {"b": [], "d": 1.5}}, [["x"]])
    assert cases["emptied at 0.c", ("a.b",)] == ({"a": {"b": [{"c": []}], "d": 1.5}}, [["x"]])
    assert cases["deleted", ("a.b", "a.d")] == ({"a": {}}, [["x"]])
    assert cases["stale", ("a.b", "a.d")] == ({"a": {}}, [["x"], ["a", "b"], ["a", "d"]])
    assert {how for how, paths in cases if paths == ("a.d",) and how.startswith("replaced")} == {
        f"replaced by {other!r}" for other in ("text", [], ["text"], {}, {"text": {"text": "text"}})
    }
    assert given == {"ledger": {"a": {"b": [{"c": [1]}], "d": 1.5}}, "stale": [["x"]]}


def test_null_is_no_loss_where_the_schema_has_it() -> None:
    given = {"ledger": {"a": 1, "b": 2}, "stale": []}
    nulled = [
        case.paths
        for case in knocked("v", {"input": given}, {"p": [["a"], ["b"]]}, lambda path: path == ("a",))
        if case.how == "null"
    ]
    assert nulled == [("b",)]
