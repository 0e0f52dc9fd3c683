"""The guide to records: its program and its commands run as they stand, in order, and end as it says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ledgeragent.policies import EXAMPLES
from ledgeragent.records import read_records

GUIDE = Path(__file__).resolve().parent.parent / "docs" / "operate" / "records.md"


def test_the_guides_program_and_commands_run_as_they_stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = GUIDE.read_text(encoding="utf-8")
    [program] = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    verify, dropped, heads = re.findall(r"```sh\n(.*?)```", text, flags=re.DOTALL)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "guide"}
    exec(compile(program, str(GUIDE), "exec"), names)
    assert len(list(read_records(Path("records.jsonl")))) == 1
    shutil.copytree(EXAMPLES, tmp_path / "examples")
    sound = run(verify, tmp_path)
    assert "60 records, all of them in a chain; head sha256:" in sound.stderr
    assert "decisions judged again, as they stand       45" in sound.stderr
    broken = run(dropped, tmp_path).stdout.splitlines()
    [shown] = re.findall(r"```text\n(dropped.*?)```", text, flags=re.DOTALL)
    assert [re.sub(r"\(\w+\)", "(…)", line) for line in broken] == shown.splitlines()
    cut = run(heads, tmp_path).stdout.splitlines()
    assert re.fullmatch(r"short\.jsonl: line 50.*: chain: the head sha256:\w+ is not among the records: .*", cut[0])
    assert cut[1:] == ["status 1"]


def run(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    commands = folder / "bin"
    commands.mkdir(exist_ok=True)
    ledgeragent = commands / "ledgeragent"
    ledgeragent.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ledgeragent "$@"\n', encoding="utf-8")
    ledgeragent.chmod(0o755)
    environment = {**os.environ, "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "200"}
    done = subprocess.run(
        ["/bin/sh", "-e", "-c", script], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done
