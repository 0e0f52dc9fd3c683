"""`scripts/check-rego`, which CI runs, fails on what it is there to find, and says where it is."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from ledgeragent.engine.local import opa_version
from ledgeragent.engine.versions import PINNED
from needs import need

REPO = Path(__file__).resolve().parent.parent.parent
POLICY = """package ledgeragent.small

decision := input.say
"""
TEST = """package ledgeragent.small_test

import data.ledgeragent.small

test_says if small.decision == 1 with input as {"say": 1}
"""


@pytest.fixture
def pinned(opa_binary: Path) -> Path:
    """The pinned OPA: each version formats in its own way."""
    need(opa_version(opa_binary) == PINNED, f"OPA {PINNED}; run `make opa`")
    return opa_binary


def check(root: Path, opa: Path) -> tuple[int, str]:
    run = subprocess.run([str(root / "scripts" / "check-rego"), str(opa)], capture_output=True, text=True, check=False)
    return run.returncode, run.stdout + run.stderr


@pytest.mark.parametrize(
    ("policy", "test", "expected"),
    [
        ("", "", "every line is covered"),
        ("\nplanted   :=   1\n", "", "rego/ledgeragent/small/small.rego"),
        ("\nplanted := input.say\n", "", 'not covered: "rego/ledgeragent/small/small.rego": 5'),
        ("\nplanted if {\n\tunused := 1\n\tinput.x\n}\n", "", "assigned var unused unused"),
        ("\nplanted := unknown\n", "", "var unknown is unsafe"),
        ("", "\ntest_planted if false\n", "test_planted: FAIL"),
    ],
    ids=["nothing", "form", "coverage", "unused", "unsafe", "test"],
)
def test_what_is_wrong_is_named(pinned: Path, tmp_path: Path, policy: str, test: str, expected: str) -> None:
    small = tmp_path / "rego" / "ledgeragent" / "small"
    small.mkdir(parents=True)
    (small / "small.rego").write_text(POLICY + policy)
    (small / "small_test.rego").write_text(TEST + test)
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas" / "empty.json").write_text("{}")
    for policies in ("authz", "masks"):
        shutil.copytree(REPO / "agent" / "ledgeragent" / policies, tmp_path / "agent" / "ledgeragent" / policies)
    shutil.copytree(REPO / "scripts", tmp_path / "scripts")
    status, said = check(tmp_path, pinned)
    assert (status == 0, expected in said) == (not policy + test, True), said
