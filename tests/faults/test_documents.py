"""The operator's pages say what the campaign does, and their examples run."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from faults.cases import CASES
from ledgeragent.cli import app
from ledgeragent.errors import DECISION_CODES, ENGINE_CODES

DOCS = Path(__file__).resolve().parents[2] / "docs" / "operate"


def test_every_case_of_the_campaign_is_in_the_table_of_faults() -> None:
    page = (DOCS / "faults.md").read_text(encoding="utf-8")
    section = page.partition("## On the way to a decision")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")][1:]
    assert rows == [
        f"| {case.name} | {', '.join(f'`{code}`' for code in case.codes)} | {', '.join(case.engines)} |"
        for case in CASES
    ]


def test_every_code_of_the_closed_lists_is_explained() -> None:
    page = (DOCS / "faults.md").read_text(encoding="utf-8")
    explained = re.findall(r"^\| `((?:engine|decision|host)\.\w+)` \|", page, flags=re.MULTILINE)
    assert sorted(explained) == sorted([*ENGINE_CODES, *DECISION_CODES])


def test_the_roll_out_guide_runs_and_shows_what_it_says(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    page = (DOCS / "rollout.md").read_text(encoding="utf-8")
    [code] = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    records = tmp_path / "records.jsonl"
    with caplog.at_level(logging.WARNING, logger="ledgeragent"):
        exec(compile(code, "rollout.md", "exec"), {"RECORDS": records})
    assert "SHADOW" in caplog.text
    [shown] = re.findall(r"```text\n(.*?)```", page, flags=re.DOTALL)
    assert CliRunner().invoke(app, ["rollout", str(records)]).stdout == shown
