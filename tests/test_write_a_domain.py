"""The guide for policy authors runs as it stands: its files are written, its commands run, its outputs appear."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ledgeragent.policies import REGO

GUIDE = REGO.parent / "docs" / "write-a-domain.md"
BLOCK = re.compile(r"(?:^`(?P<file>[^`\n]+)`\n\n)?^```(?P<kind>\w+)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def command(tmp_path: Path, opa_binary: Path) -> dict[str, str]:
    """An environment in which `ledgeragent` is a command."""
    folder = tmp_path / "bin"
    folder.mkdir()
    script = folder / "ledgeragent"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ledgeragent "$@"\n', encoding="utf-8")
    script.chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if name not in ("FORCE_COLOR", "LEDGERAGENT_OPA_URL")}
    return {**kept, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", "LEDGERAGENT_OPA_BIN": str(opa_binary)}


def test_the_guide_ends_with_a_domain_that_proves_itself(tmp_path: Path, command: dict[str, str]) -> None:
    work = tmp_path / "work"
    work.mkdir()
    said = ""
    kinds = []
    for block in BLOCK.finditer(GUIDE.read_text(encoding="utf-8")):
        kinds.append(block["kind"])
        if block["file"] is not None:
            target = work / block["file"]
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(block["body"], encoding="utf-8")
        elif block["kind"] == "sh":
            said = run(block["body"], work, command)
        else:
            assert block["kind"] == "text", (
                f"a block of the guide is neither a file, a command nor an output: {block[0]}"
            )
            for line in block["body"].splitlines():
                assert line in said, f"the guide promises {line!r}; the command said:\n{said}"
    assert (kinds.count("sh"), kinds.count("text")) == (5, 4)


def run(script: str, folder: Path, environment: dict[str, str]) -> str:
    """Run a block of commands as a reader would; its output. Each command must do what it says."""
    done = subprocess.run(
        ["/bin/sh", "-e", "-c", script], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
