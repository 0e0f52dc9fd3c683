"""The guide to bundles runs as it stands, with a real OPA that pulls from a real server, on ports that are free here."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from ledgeragent.policies import EXAMPLES, REGO
from needs import need
from test_write_a_domain import BLOCK, run

GUIDE = REGO.parent / "docs" / "operate" / "bundles.md"


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Path]:
    """The reader's folder; what the guide starts there is ended with it."""
    folder = tmp_path / "work"
    folder.mkdir()
    shutil.copytree(EXAMPLES / "deployments", folder / "team")
    yield folder
    for pid in folder.glob("*.pid"):
        with suppress(ProcessLookupError):
            os.kill(int(pid.read_text()), signal.SIGKILL)


@pytest.fixture
def command(tmp_path: Path, opa_binary: Path) -> dict[str, str]:
    """An environment in which `ledgeragent`, `opa` and `python3` are commands."""
    need(shutil.which("openssl"), "openssl")
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, arguments in (("ledgeragent", "-m ledgeragent "), ("python3", "")):
        (folder / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments}"$@"\n', encoding="utf-8")
        (folder / name).chmod(0o755)
    (folder / "opa").symlink_to(opa_binary.resolve())
    kept = {name: value for name, value in os.environ.items() if name not in ("FORCE_COLOR", "LEDGERAGENT_OPA_URL")}
    return {
        **kept,
        "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
        "LEDGERAGENT_OPA_BIN": str(opa_binary),
        "COLUMNS": "1000",
    }


def free_ports(*standard: str) -> dict[str, str]:
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        return dict(zip(standard, (str(one.getsockname()[1]), str(other.getsockname()[1])), strict=True))


def test_the_guide_rolls_out_freezes_and_serves_two_teams(work: Path, command: dict[str, str]) -> None:
    ports = free_ports("8080", "8181")
    text = re.sub("|".join(ports), lambda found: ports[found[0]], GUIDE.read_text(encoding="utf-8"))
    said = ""
    kinds = []
    for block in BLOCK.finditer(text):
        kinds.append(block["kind"])
        if block["file"] is not None:
            (work / block["file"]).write_text(block["body"], encoding="utf-8")
        elif block["kind"] == "sh":
            said = run(f"timeout 120 /bin/sh -e <<'END'\n{block['body']}END\n", work, command)
        else:
            assert block["kind"] == "text", f"a block is neither a file, a command nor an output: {block[0]}"
            for line in block["body"].splitlines():
                assert line in said, f"the guide promises {line!r}; the command said:\n{said}"
    assert (kinds.count("sh"), kinds.count("text")) == (6, 5)
