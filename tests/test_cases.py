"""Cases: what a person states becomes the gate input that a host would have sent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ledgeragent.cases import Case, CasesFile, gate_input, load_cases
from ledgeragent.contracts import GateInput
from ledgeragent.domain import Domain
from ledgeragent.errors import BadInput, LedgerError
from ledgeragent.ledger import Ledger
from ledgeragent.policies import EXAMPLES

FOLDER = EXAMPLES / "deployments"
STATED = FOLDER / "schemas" / "vectors" / "deployments.cases.json"
DEPLOY = {"service": "shop", "build_id": "shop-42"}
NUMBER = ["builds", "shop-42", "number"]


@pytest.fixture(scope="module")
def domain() -> Domain:
    return Domain.load("deployments", schemas=FOLDER / "schemas", rego=FOLDER / "rego")


@pytest.fixture(scope="module")
def file() -> CasesFile:
    return load_cases(STATED, "deployments")


def case(**fields: Any) -> Case:
    stated = {"name": "c", "tool": "deploy", "arguments": DEPLOY, "verdict": "allow", **fields}
    return Case.model_validate_json(json.dumps(stated))


def test_a_case_is_sent_as_a_host_would_send_it_with_only_what_the_tool_needs(domain: Domain, file: CasesFile) -> None:
    made = gate_input(file.given, case(), domain)
    GateInput.model_validate(made)
    assert made["ledger"] == {
        "services": {"shop": {"owners": ["ada", "grace"], "state": "idle", "build_id": "shop-41"}},
        "builds": {
            "shop-41": {"number": 41},
            "shop-42": {"service": "shop", "number": 42, "tests": "passed"},
        },
        "freezes": [],
    }
    assert made["session"]["principal"] == {"id": "ada", "claims": {}, "source": "host"}
    assert (made["stale"], made["action"]["arguments"]) == ([], DEPLOY)


def test_what_differs_is_what_changes(domain: Domain, file: CasesFile) -> None:
    differing = case(
        now="2026-02-01T00:00:00Z",
        principal={"id": "grace", "claims": {"team": "shop"}},
        change=[{"path": NUMBER, "value": 50}],
        forget=[["freezes"], ["builds", "shop-41"]],
        stale=[["services", "shop", "state"]],
        siblings=[{"tool": "scale", "arguments": {}}],
        rejections=2,
    )
    made = gate_input(file.given, differing, domain)
    assert made["ledger"]["builds"]["shop-42"]["number"] == 50
    assert made["ledger"].keys() == {"services", "builds"}
    assert made["ledger"]["builds"].keys() == {"shop-42"}
    assert made["stale"] == [["services", "shop", "state"]]
    assert "state" not in made["ledger"]["services"]["shop"]
    assert made["session"]["now"] == "2026-02-01T00:00:00Z"
    assert made["session"]["principal"] == {"id": "grace", "claims": {"team": "shop"}, "source": "host"}
    assert (made["session"]["rejections"], made["siblings"]) == (2, [{"tool": "scale", "arguments": {}}])
    assert file.given.ledger["builds"]["shop-42"]["number"] == 42


def test_nobody_is_a_principal_too(domain: Domain, file: CasesFile) -> None:
    assert gate_input(file.given, case(principal="nobody"), domain)["session"]["principal"] is None


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"change": [{"path": NUMBER, "value": "42"}]}, 'number: breaks type "integer"'),
        (
            {"change": [{"path": ["builds", "shop-42", "build_id"], "value": "shop-1"}]},
            "the record's own build_id is not the one",
        ),
        ({"change": [{"path": ["teams"], "value": {}}]}, "'teams' is no table"),
        ({"forget": [["builds", "shop-99"]]}, "shop-99"),
        ({"stale": [["teams", "shop"]]}, "teams"),
    ],
)
def test_facts_that_no_read_could_have_returned_are_refused(
    domain: Domain, file: CasesFile, fields: dict[str, Any], said: str
) -> None:
    with pytest.raises(BadInput, match="case 'c': the facts cannot be those of a ledger") as refused:
        gate_input(file.given, case(**fields), domain)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("ledgeragent.cases/1", "ledgeragent.cases/2", "contract: "),
        ('"domain": "deployments"', '"domain": "retail"', "domain is 'retail'"),
        ('"verdict": "allow"', '"verdict": "pass"', "cases.0.verdict: "),
        ('"verdict": "allow"', '"verdict": "allow", "note": "x"', "cases.0.note: "),
        ('"violated"]', '"false"]', "findings.0.1: "),
        ("{", "", "is not JSON"),
    ],
)
def test_a_file_that_is_no_cases_file_is_refused_with_the_place(tmp_path: Path, old: str, new: str, said: str) -> None:
    path = tmp_path / "deployments.cases.json"
    path.write_text(STATED.read_text(encoding="utf-8").replace(old, new, 1), encoding="utf-8")
    with pytest.raises(BadInput, match=str(path)) as refused:
        load_cases(path, "deployments")
    assert said in str(refused.value)


def test_a_ledger_of_facts_holds_only_records(domain: Domain) -> None:
    with pytest.raises(LedgerError):
        Ledger.of(domain, {"builds": []})
    assert len(Ledger.of(domain, {"builds": {}, "freezes": []})) == 1
