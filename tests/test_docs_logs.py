"""The guide to logs: its commands and its program run as they stand, on records as its forms write them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ledgeragent.gate import Gate
from ledgeragent.records import read_records
from needs import need
from support import retail
from support.retail import cancel, propose

pytest_plugins = ["support.fixtures"]

GUIDE = Path(__file__).resolve().parent.parent / "docs" / "operate" / "logs.md"


def test_the_guides_commands_and_program_make_and_open_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gate: Gate
) -> None:
    need(shutil.which("openssl"), "openssl")
    text = GUIDE.read_text(encoding="utf-8")
    make_keys, open_records = re.findall(r"```sh\n(.*?)```", text, flags=re.DOTALL)
    [program] = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    monkeypatch.chdir(tmp_path)
    run(make_keys, tmp_path)
    names: dict[str, Any] = {"__name__": "guide"}
    exec(compile(program, str(GUIDE), "exec"), names)
    review = propose(retail.desk(gate, recorder=names["recorder"]), cancel())
    names["recorder"].close()
    run(open_records, tmp_path)
    [kept], [opened] = list(read_records(Path("records.jsonl"))), list(read_records(Path("opened.jsonl")))
    assert kept.redacted is not None
    assert opened.redacted is None
    assert retail.USER not in Path("records.jsonl").read_text(encoding="ascii")
    assert retail.USER in Path("opened.jsonl").read_text(encoding="ascii")
    assert review.verdict == "allow"
    assert names["pseudonyms"](opened).redacted.form == "pseudonyms"


def run(script: str, folder: Path) -> None:
    commands = folder / "bin"
    commands.mkdir(exist_ok=True)
    ledgeragent = commands / "ledgeragent"
    ledgeragent.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ledgeragent "$@"\n', encoding="utf-8")
    ledgeragent.chmod(0o755)
    environment = {**os.environ, "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["/bin/sh", "-e", "-c", script], cwd=folder, env=environment, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
