"""`domain check` with a real OPA: a sound domain passes, and a planted mistake of each kind is named with its place."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ledgeragent.compile import Sources
from ledgeragent.errors import BadInput, DomainError
from ledgeragent.kitcheck import check_folder, compile_folder
from ledgeragent.policies import EXAMPLES

Plant = Callable[..., list[str]]

OWN = "rego/ledgeragent/deployments"
TESTED = f"{OWN}/build_tested/build_tested.rego"
CASES = "schemas/vectors/deployments.cases.json"
TOOLS = "schemas/deployments/tools.json"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, opa_binary: Path) -> Path:
    """A compiled copy of the example domain."""
    copy = tmp_path_factory.mktemp("deployments")
    shutil.copytree(EXAMPLES / "deployments", copy, dirs_exist_ok=True, ignore=shutil.ignore_patterns("compiled"))
    compile_folder(Sources.under(copy), opa_binary)
    return copy


@pytest.fixture
def plant(folder: Path, opa_binary: Path) -> Iterator[Plant]:
    """Replace texts in files, check once, and give the problems; undone afterwards."""
    undo: list[tuple[Path, str]] = []

    def planted(*changes: tuple[str, str, str]) -> list[str]:
        for name, old, new in changes:
            file = folder / name
            text = file.read_text(encoding="utf-8")
            assert old in text, f"{name} no longer holds {old!r}"
            undo.append((file, text))
            file.write_text(text.replace(old, new, 1), encoding="utf-8")
        return check_folder(Sources.under(folder), opa_binary).problems

    yield planted
    for file, text in reversed(undo):
        file.write_text(text, encoding="utf-8")


def test_the_example_that_was_made_with_the_guide_has_no_problem(folder: Path, opa_binary: Path) -> None:
    found = check_folder(Sources.under(folder), opa_binary)
    assert (found.problems, found.skipped) == ([], [])
    assert [line.split(": ")[0] for line in found.done[1:]] == [
        "opa fmt",
        "opa check",
        "opa test",
        "every line of the policies is reached by a test",
        "lint of deployments",
        "the stated cases of deployments",
        "the knock-out of deployments",
        "the proof of deployments on the engine opa",
        "the proof of deployments on the embedded engine",
    ]


def test_what_is_generated_in_the_repository_is_that_of_its_sources(opa_binary: Path, folder: Path) -> None:
    for path in sorted((EXAMPLES / "deployments").rglob("*.*")):
        if path.is_file() and "compiled" not in path.parts:
            assert (folder / path.relative_to(EXAMPLES / "deployments")).read_bytes() == path.read_bytes(), path


CONFIRMED = '"consents": [{ "kind": "user_confirmation", "by": "ada", "predicates": ["common.user_confirmed"] }]'
FROZEN = f"{OWN}/no_freeze/no_freeze"
TOGETHER = {
    "all that leaves the domain loadable": [
        (f"{OWN}/owners/owners.rego", "holds if {", "holds  if {", f"{OWN}/owners/owners.rego: is not formatted"),
        (
            f"{FROZEN}_test.rego",
            "test_policy_data_can",
            "todo_policy_data_can",
            f"{FROZEN}.rego:25: no test reaches this",
        ),
        (TESTED, "build_id}.tests", "build_id}.number", "builds.*.tests is not in METADATA evidence of"),
        (
            CASES,
            f'"replicas": 9 }},\n      {CONFIRMED},\n      "verdict": "revise"',
            f'"replicas": 9 }},\n      {CONFIRMED},\n      "verdict": "allow"',
            f"{CASES}: case 'one replica too many': stated allow (common.user_confirmed violated, "
            "deployments.within_capacity violated), decided revise (common.user_confirmed violated, "
            "deployments.within_capacity violated)",
        ),
        (TOOLS, "Deploy a newer", "Deploy  a newer", f"{OWN}/data.json: is out of date"),
        ("rego/ledgeragent/gate/text/text.rego", "80", "90", "text.rego: is not this version's"),
    ],
    "Rego that does not compile, and a case that is none": [
        (TESTED, '== "passed"', '== startswith("passed")', "opa check: "),
        (
            CASES,
            '"name": "tests still run",',
            '"name": "tests still run", "history": [{"tool": "drop", "arguments": {}, "outcome": "done"}],',
            f"{CASES}: cases.16.history.0.outcome: ",
        ),
    ],
    "a rule that its own tests find wrong": [
        (TESTED, '== "passed"', '!= "failed"', "opa test: "),
        (f"{OWN}/defaults/data.json", '"status-page"', '"shop"', "case 'deploy an exempt service during a freeze'"),
    ],
    "parts that disagree": [
        (TOOLS, '"number"],', '"nummer"],', f"{TOOLS}: deploy: needs["),
        (f"{OWN}/deployments.rego", '"deployments.owners"', '"deployments.signed_in"', "compile again"),
        (f"{OWN}/defaults/data.json", "{", "", f"{OWN}/defaults/data.json: is not JSON: "),
    ],
}


@pytest.mark.parametrize("planted", TOGETHER.values(), ids=TOGETHER.keys())
def test_planted_mistakes_are_all_named_at_once_with_their_places(
    plant: Plant, folder: Path, planted: list[tuple[str, str, str, str]]
) -> None:
    problems = [one.replace(f"{folder}/", "") for one in plant(*(one[:3] for one in planted))]
    for *_, problem in planted:
        assert any(problem in one for one in problems), (problem, problems)


def test_a_predicate_that_allows_without_its_evidence_is_knocked_out(folder: Path, opa_binary: Path) -> None:
    """The rule ignores the state when it is no text: its own tests would miss that, the knock-out does not."""
    sources = Sources.under(folder)
    rego = folder / OWN / "one_at_a_time"
    kept = {path: path.read_text(encoding="utf-8") for path in rego.glob("*.rego")}
    loose = 'holds if facts.service.state == "idle"\n\nholds if not is_string(facts.service.state)\n'
    try:
        for path, text in kept.items():
            path.write_text(text.replace('holds if facts.service.state == "idle"\n', loose), encoding="utf-8")
        problems = check_folder(sources, opa_binary).problems
    finally:
        for path, text in kept.items():
            path.write_text(text, encoding="utf-8")
    assert any("the call is still allowed, though deployments.one_at_a_time lists it" in one for one in problems)


def test_compile_refuses_cases_that_are_decided_otherwise(tmp_path: Path, folder: Path, opa_binary: Path) -> None:
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    cases = tmp_path / CASES
    cases.write_text(cases.read_text().replace('"principal": "nobody",', '"principal": { "id": "ada" },'))
    with pytest.raises(BadInput, match=r"case 'nobody is signed in': stated block .*, decided revise \(common.user_c"):
        compile_folder(Sources.under(tmp_path), opa_binary)


def test_compile_says_everything_that_keeps_a_domain_from_loading(tmp_path: Path, folder: Path) -> None:
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    tools = tmp_path / TOOLS
    tools.write_text(tools.read_text().replace('["freezes"]', '["freeze"]'))
    with pytest.raises(DomainError, match=r"needs\[7\] freeze is not in the ledger schema"):
        compile_folder(Sources.under(tmp_path), None)
