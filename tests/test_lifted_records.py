"""A record with a finding that was lifted: every command that reads records says by whom, and judges it as it was."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from ledgeragent.cli import app
from ledgeragent.contracts import DecisionRecord
from ledgeragent.policies import EXAMPLES, REGO
from ledgeragent.records import read_records
from support.report_page import unpacked

pytest_plugins = ["support.fixtures"]

CHAT = EXAMPLES / "chat"
OVERRIDES = ["--overrides", str(CHAT / "overrides.json")]
RULE = "airline.cancel_requires_basis"


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the chat of docs/approval.md leaves: asked and turned down, asked again, approved."""
    path = tmp_path_factory.mktemp("chat") / "records.jsonl"
    script = str(CHAT / "approval.jsonl")
    done = said("chat", "--domain", "airline", "--script", script, *OVERRIDES, "--record", str(path))
    assert done.exit_code == 0, done.output
    return path


@pytest.fixture(scope="module")
def decisions(record: Path) -> list[DecisionRecord]:
    found = [one for one in read_records(record) if one.kind == "decision"]
    assert [one.verdict for one in found] == ["block", "block", "allow"]
    return found


@pytest.fixture(scope="module")
def lifted(decisions: list[DecisionRecord]) -> DecisionRecord:
    return decisions[-1]


def said(*arguments: str, **about: Any) -> Result:
    return CliRunner().invoke(app, arguments, env={"COLUMNS": "200"}, **about)


def flat(text: str) -> str:
    return " ".join(text.split())


def test_verify_judges_it_as_it_was(record: Path) -> None:
    done = said("records", "verify", str(record), *OVERRIDES)
    assert (done.exit_code, "nothing differs" in done.output) == (0, True)
    assert "unclear" not in done.output


def test_verify_finds_a_grant_that_somebody_put_in_later(record: Path, tmp_path: Path) -> None:
    first, *others, allowed, outcome = record.read_text().splitlines()
    forged = json.loads(first)
    forged["input"]["grants"] = json.loads(allowed)["input"]["grants"]
    path = tmp_path / "forged.jsonl"
    path.write_text("\n".join([json.dumps(forged), *others, allowed, outcome]) + "\n")
    done = said("records", "verify", str(path), *OVERRIDES)
    assert (done.exit_code, "recorded block, judged again allow" in done.output) == (1, True)


def test_check_says_what_the_grant_is_worth(lifted: DecisionRecord) -> None:
    asked = lifted.input.model_dump_json()
    done = said("check", "--engine", "embedded", *OVERRIDES, input=asked)
    assert done.exit_code == 0
    answered = json.loads(done.stdout)
    assert [(one["predicate"], one["mode"]) for one in answered["findings"]] == [(RULE, "lifted")]
    assert said("check", "--engine", "embedded", input=asked).exit_code == 20


def test_explain_says_who_approved(record: Path, lifted: DecisionRecord) -> None:
    done = said("explain", lifted.input.request, "--records", str(record), *OVERRIDES)
    assert f"violated {RULE}, asks for block; approved by grace" in flat(done.output)
    assert "judged again: the same" in flat(done.output)
    assert "for an allow" not in done.output
    told = json.loads(
        said("explain", lifted.input.request, "--records", str(record), *OVERRIDES, "--format", "json").stdout
    )
    assert [(one["lifted"], one["consent"]) for one in told["predicates"] if one["predicate"] == RULE] == [
        ("approved by grace", "")
    ]


def test_explain_says_whose_approval_would_help(record: Path, decisions: list[DecisionRecord]) -> None:
    done = said("explain", decisions[0].input.request, "--records", str(record), *OVERRIDES)
    assert "hand over. Or an approval by grace." in flat(done.output)


def test_backtest_changes_nothing_with_the_same_policies(record: Path) -> None:
    done = said("backtest", str(record), "--records", "--policies", str(REGO), *OVERRIDES)
    assert (done.exit_code, "No verdict changes in 3 calls" in flat(done.output)) == (0, True)


def test_backtest_says_what_is_no_longer_lifted(record: Path) -> None:
    done = said("backtest", str(record), "--records", "--policies", str(REGO), "--all")
    assert done.exit_code == 1
    assert f"{RULE}: block (violated) lifted → block (violated)" in flat(done.output)
    assert f"gate.obligations: {RULE}: approved by grace → no consent" in flat(done.output)
    assert f"gate.obligations: {RULE}: an approval by grace → no consent" in flat(done.output)


def test_a_fixture_keeps_the_grant_and_nothing_of_the_session(
    record: Path, lifted: DecisionRecord, opa_binary: Path, tmp_path: Path
) -> None:
    done = said("fixture", lifted.input.request, "--records", str(record), *OVERRIDES, "-o", str(tmp_path))
    assert done.exit_code == 0, done.output
    [test] = tmp_path.glob("*.rego")
    text = test.read_text()
    assert text.startswith(f"# cancel_reservation is allowed: {RULE} violated, and lifted.")
    assert lifted.session not in text
    assert lifted.input.grants[0].id not in text
    assert [line for line in done.output.splitlines() if "stays as it was" in line] == [
        "note: grants.[*].approver stays as it was: the decision depends on it"
    ]
    run = [str(opa_binary), "test", str(REGO), str(tmp_path), "--run", lifted.input.request[:8]]
    passed = subprocess.run(run, capture_output=True, text=True, check=False)
    assert (passed.returncode, passed.stdout.strip()) == (0, "PASS: 1/1"), passed.stdout


@pytest.mark.parametrize(
    ("redact", "consents"),
    [
        ([], ["an approval by grace would lift it", "an approval by grace would lift it", "approved by grace"]),
        (["--redact"], None),
    ],
)
def test_the_report_shows_who_approved_and_redacted_does_not(
    record: Path, tmp_path: Path, redact: list[str], consents: list[str] | None
) -> None:
    path = tmp_path / "report.html"
    done = said("report", str(record), "-o", str(path), *redact)
    assert done.exit_code == 0, done.output
    page = unpacked(path.read_text())
    [steps] = [one["steps"] for one in page.documents]
    found = [(one["mode"], one["consent"]) for step in steps for one in step["findings"]]
    assert [mode for mode, _ in found] == ["enforce", "enforce", "lifted"]
    if consents is not None:
        assert [words for _, words in found] == consents
    else:
        assert "grace" not in json.dumps(steps)
