"""Consent on the engines: both read every grant alike, and one that differs in any binding lifts nothing."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ledgeragent.cases import Case, Consented, gate_input, load_cases
from ledgeragent.catalogue import as_markdown, read_catalogue
from ledgeragent.compile import Sources
from ledgeragent.domain import Domain
from ledgeragent.engine import Engine, open_engine
from ledgeragent.gate import Gate
from ledgeragent.kitcheck import compile_folder
from ledgeragent.knockout import knock_out
from ledgeragent.lint import lint
from ledgeragent.policies import EXAMPLES

MISTYPED = (None, True, 7, "", "text", [], ["text"], {}, {"text": 1})
OTHERS: dict[str, tuple[Any, ...]] = {
    "kind": ("approval", "user_confirmation"),
    "predicates": (["gate.loop"], ["deployments.owners"], ["*"]),
    "domain": ("retail",),
    "session": ("Vectors", "vectors "),
    "tool": ("rollback", "Deploy", "*"),
    "arguments": ({"service": "shop"}, {"service": "shop", "build_id": "shop-42", "more": 1}),
    "approver": ("ada", "grace", "lin ", "LIN"),
    "issued": ("2026-01-07T10:00:01Z", "2026-02-30T10:00:00Z", "2026-01-07T11:00:01+01:00"),
    "expires": (
        {"session": "2026-01-07T10:00:00Z", "host": "2026-01-07T10:15:00Z"},
        {"session": "2026-01-07T12:00:00+02:00", "host": "2026-01-07T10:15:00Z"},
        {"session": "2026-13-07T10:15:00Z", "host": "2026-01-07T10:15:00Z"},
    ),
}


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory, opa_binary: Path) -> Sources:
    """A compiled copy of the example."""
    copied = tmp_path_factory.mktemp("deployments")
    shutil.copytree(EXAMPLES / "deployments", copied, dirs_exist_ok=True, ignore=shutil.ignore_patterns("compiled"))
    compile_folder(Sources.under(copied), opa_binary)
    return Sources.under(copied)


@pytest.fixture(scope="module")
def engines(sources: Sources) -> Iterator[dict[str, Engine]]:
    opened = {name: open_engine(name, policies=sources.rego, schemas=sources.schemas) for name in ("embedded", "opa")}
    yield opened
    for engine in opened.values():
        engine.close()


def consented(sources: Sources, name: str, consent: Consented) -> dict[str, Any]:
    """The input of a stated case, with a consent of its own."""
    file = load_cases(sources.schemas / "vectors" / "deployments.cases.json", "deployments")
    domain = Domain.load("deployments", schemas=sources.schemas, rego=sources.rego)
    [case] = [one for one in file.cases if one.name == name]
    return gate_input(
        file.given, Case.model_validate({**case.model_dump(), "consents": [consent.model_dump()]}), domain
    )


APPROVAL = (
    "deploy during a freeze, approved by somebody on call",
    Consented(kind="approval", by="lin", predicates=["deployments.no_freeze"]),
)
CONFIRMATION = (
    "scale to the largest size",
    Consented(kind="user_confirmation", by="ada", predicates=["common.user_confirmed"]),
)


def verdicts(engines: dict[str, Engine], asked: dict[str, Any]) -> str:
    said = {name: engine.evaluate("deployments", "decision", asked) for name, engine in engines.items()}
    assert said["embedded"] == said["opa"]
    return str(said["opa"]["verdict"])


@pytest.mark.parametrize(("case", "consent"), [APPROVAL, CONFIRMATION])
def test_with_any_binding_changed_or_mistyped_neither_engine_allows(
    sources: Sources, engines: dict[str, Engine], case: str, consent: Consented
) -> None:
    asked = consented(sources, case, consent)
    assert verdicts(engines, asked) == "allow"
    own = asked["grants"][0]
    tried = 0
    for field in own:
        for value in (*MISTYPED, *OTHERS.get(field, ())):
            changed = copy.deepcopy(asked)
            changed["grants"] = [{**own, field: value}]
            harmless = field in ("id", "facts") and isinstance(value, str) and value != ""
            if value == own[field] or harmless or (field == "approver" and value == "grace" and consent.by == "lin"):
                continue
            assert verdicts(engines, changed) != "allow", (field, value)
            tried += 1
        changed = copy.deepcopy(asked)
        del changed["grants"][0][field]
        assert verdicts(engines, changed) == "block"
    assert tried > 90
    assert verdicts(engines, {**asked, "grants": []}) != "allow"


def test_the_knock_out_changes_every_binding_and_finds_a_gate_that_does_not_look(
    sources: Sources, tmp_path: Path, opa_binary: Path
) -> None:
    vectors = json.loads((sources.schemas / "vectors" / "deployments.json").read_text(encoding="utf-8"))["vectors"]
    assert knock_out(sources.rego, sources.schemas, "deployments", vectors, opa_binary).problems == ()
    rego = tmp_path / "rego"
    shutil.copytree(sources.rego, rego)
    grants = rego / "ledgeragent" / "gate" / "grants" / "grants.rego"
    for line in (
        "\tgrant.arguments == input.action.arguments\n",
        "\tgrant.session == input.session.id\n",
        "\tclock.seconds(grant.expires.session, input.session.now) > now\n",
    ):
        text = grants.read_text(encoding="utf-8")
        assert line in text
        grants.write_text(text.replace(line, ""), encoding="utf-8")
        problems = knock_out(rego, sources.schemas, "deployments", vectors, opa_binary).problems
        assert any("the grant's" in one and "still allowed" in one for one in problems), line
        grants.write_text(text, encoding="utf-8")


def test_a_gate_proves_itself_with_vectors_that_hold_grants(sources: Sources, engines: dict[str, Engine]) -> None:
    domain = Domain.load("deployments", schemas=sources.schemas, rego=sources.rego)
    vectors = sources.schemas / "vectors" / "deployments.json"
    asked = consented(sources, *APPROVAL)
    for engine in engines.values():
        judged = Gate(domain, engine, vectors=vectors).judge(asked)
        assert judged.decision is not None
        assert (judged.verdict, judged.decision.obligations[0].grant) == ("allow", "grant-1")


def test_the_catalogue_says_what_lifts_a_finding(sources: Sources) -> None:
    entries = read_catalogue("deployments", rego=sources.rego, schemas=sources.schemas)
    assert {one.id: one.lifted_by for one in entries if one.lifted_by} == {
        "common.user_confirmed": ("user_confirmation",),
        "deployments.no_freeze": ("approval",),
    }
    assert "* Lifted by: user confirmation\n" in as_markdown(entries, "Deployments")


@pytest.fixture
def with_obligation(sources: Sources, tmp_path: Path, opa_binary: Path) -> Any:
    """What the lint says once a protected predicate has this obligation."""

    def said(rule: str) -> list[str]:
        rego = tmp_path / "rego"
        shutil.copytree(sources.rego, rego, dirs_exist_ok=True)
        file = rego / "ledgeragent" / "deployments" / "owners" / "owners.rego"
        own = (sources.rego / "ledgeragent" / "deployments" / "owners" / "owners.rego").read_text(encoding="utf-8")
        file.write_text(f"{own}\n{rule}\n", encoding="utf-8")
        return [one.split(": ", 1)[1] for one in lint(rego, sources.schemas, "deployments", opa_binary)]

    return said


PROTECTED = "the `obligation` of a protected predicate must be one object of constants, without a condition"
KIND = '`obligation` must be an object whose `kind` is written as "approval" or "user_confirmation"'


@pytest.mark.parametrize(
    ("rule", "problems"),
    [
        ('obligation := {"kind": "approval"}', []),
        ('obligation := {"kind": "approval", "approvers": ["grace"]}', []),
        ('obligation := {"kind": "approval"} if data.ledgeragent.deployments.settings.approvable', [PROTECTED]),
        ('obligation := {"kind": "approval", "approvers": data.ledgeragent.deployments.settings.on_call}', [PROTECTED]),
        ("obligation := data.ledgeragent.deployments.settings.obligation", [PROTECTED, KIND]),
        ('obligation := "approval"', [PROTECTED, KIND]),
    ],
)
def test_what_lifts_a_protected_predicate_is_not_for_a_deployment_to_tune(
    with_obligation: Any, rule: str, problems: list[str]
) -> None:
    assert sorted(with_obligation(rule)) == sorted(problems)
