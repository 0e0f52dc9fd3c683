"""The current file of a rotated set stands for all of it, whichever command reads it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ledgeragent.cli import app
from ledgeragent.gate import Gate
from ledgeragent.policies import REGO
from ledgeragent.recordfiles import closed_files
from ledgeragent.records import JsonlRecorder
from support import retail
from support.retail import cancel, propose

pytest_plugins = ["support.fixtures"]


@pytest.fixture
def records(tmp_path: Path, gate: Gate) -> tuple[Path, list[str]]:
    """Five decisions in three files, one of them compressed, and their request ids."""
    file = tmp_path / "records.jsonl"
    session = retail.desk(gate)
    session._recorder = recorder = JsonlRecorder(file, max_bytes=5000)
    calls = (cancel("#W2"), cancel(reason="bored"), cancel("#W9"), cancel("#W8"), cancel("#W7"))
    requests = [str(propose(session, call).gate_input["request"]) for call in calls]
    recorder.close()
    assert [one.suffix for one in closed_files(file).values()] == [".gz", ".jsonl"]
    return file, requests


def ran(*arguments: object) -> str:
    done = CliRunner().invoke(app, [str(one) for one in arguments])
    assert done.exit_code == 0, done.output
    return done.output


def test_explain_finds_a_decision_in_a_closed_file(records: tuple[Path, list[str]]) -> None:
    file, requests = records
    said = json.loads(ran("explain", requests[0][:8], "--records", file, "--format", "json"))
    assert (said["request"], said["verdict"]) == (requests[0], "block")


def test_a_fixture_is_made_of_one(records: tuple[Path, list[str]], tmp_path: Path) -> None:
    file, requests = records
    assert requests[0][:8] in ran("fixture", requests[0], "--records", file, "-o", tmp_path / "made")


def test_coverage_counts_all_of_it(records: tuple[Path, list[str]]) -> None:
    found = json.loads(ran("coverage", records[0], "--domain", "retail", "--engine", "embedded", "--format", "json"))
    assert found["retail"]["corpus"]["calls"] == {"cancel_pending_order": 5}


def test_a_report_shows_all_of_it_once(records: tuple[Path, list[str]], tmp_path: Path) -> None:
    file, _ = records
    said = ran("report", file, *closed_files(file).values(), "--engine", "embedded", "-o", tmp_path / "report.html")
    assert "5 judged calls" in said


def test_a_backtest_judges_all_of_it_once(records: tuple[Path, list[str]]) -> None:
    file, _ = records
    given = (file, *closed_files(file).values())
    assert "No verdict changes in 5 calls." in ran("backtest", "--records", *given, "--policies", REGO, "--workers", 1)
