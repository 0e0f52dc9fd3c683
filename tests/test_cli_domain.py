"""`ledgeragent domain` as a policy author meets it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

TOOLS = [
    {"name": "deploy", "description": "Deploy.", "parameters": {"type": "object", "properties": {}}},
    {"name": "odd", "description": "Odd.", "parameters": {"type": "object", "properties": {"a": {"not": {}}}}},
]


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder, with no OPA anywhere."""
    plain = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("LEDGERAGENT_") and name not in ("FORCE_COLOR", "XDG_CACHE_HOME")
    }
    done = subprocess.run(
        [sys.executable, "-m", "ledgeragent", "domain", *arguments],
        cwd=folder,
        env={**plain, "PATH": "", "HOME": str(folder), "COLUMNS": "80"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr
    return done


def test_from_definitions_to_a_list_of_what_is_left_to_decide(tmp_path: Path) -> None:
    (tmp_path / "tools.json").write_text(json.dumps(TOOLS), encoding="utf-8")
    made = run(tmp_path, "new", "deployments", "--from", "tools.json")
    assert made.returncode == 1
    assert "wrote schemas/deployments/tools.json" in made.stdout.splitlines()
    assert "left out odd: parameters.a: `not` is outside the closed subset" in made.stdout

    compiled = run(tmp_path, "compile")
    assert (compiled.returncode, compiled.stdout.splitlines()) == (
        0,
        ["skipped there is no `opa` here, so vectors and module were not made; the engine `opa` needs neither"],
    )

    checked = run(tmp_path, "check", ".")
    assert checked.returncode == 1
    assert checked.stdout.splitlines() == [
        "ok      schemas/deployments: its tools (1), facts and Rego agree",
        "skipped opa fmt, check and test, lint, the stated cases and the knock-out: there is no `opa` here",
        "wrong   schemas/deployments/tools.json: deploy: nobody has decided whether it reads, writes or has no effect; "
        "it is blocked",
        checked.stdout.splitlines()[3],
        "2 problems",
    ]
    assert "no vectors to prove the policies with" in checked.stdout


def test_what_cannot_start_is_one_line_and_status_2(tmp_path: Path) -> None:
    for arguments in (
        ("new", "Gate", "--from", "tools.json"),
        ("new", "a", "--from", "nowhere"),
        ("compile", "nowhere"),
    ):
        done = run(tmp_path, *arguments)
        assert done.returncode == 2
        assert done.stderr.startswith("ledgeragent: ")


def test_a_folder_that_holds_nothing_has_one_problem(tmp_path: Path) -> None:
    done = run(tmp_path, "check", "nowhere")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (1, "1 problem")


def test_every_command_shows_an_example(tmp_path: Path) -> None:
    for command in ("new", "compile", "check"):
        assert f"Example: ledgeragent domain {command}" in run(tmp_path, command, "--help").stdout
