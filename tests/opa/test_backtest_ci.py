"""The step that docs/backtest.md shows for CI, run as it stands there."""

from __future__ import annotations

import gzip
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import yaml

from ledgeragent.policies import COMPILED, EXAMPLES, REGO, SCHEMAS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "backtest.md"
RULE = Path("policies/rego/ledgeragent/retail/order_pending/order_pending.rego")


def step() -> str:
    """The script of the step "Backtest"."""
    (text,) = re.findall(r"^```yaml\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    (found,) = [
        one["run"] for one in yaml.safe_load(text)["jobs"]["backtest"]["steps"] if one.get("name") == "Backtest"
    ]
    return str(found)


def git(folder: Path, *arguments: str) -> None:
    """Run git there, as nobody in particular."""
    own = ("-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *own, *arguments], cwd=folder, check=True, capture_output=True)


def test_the_step_for_ci_compares_a_branch_with_its_base_and_writes_the_comment(
    tmp_path: Path, opa_binary: Path
) -> None:
    base, own = tmp_path / "base", tmp_path / "own"
    for source, name in ((REGO, "rego"), (SCHEMAS, "schemas"), (COMPILED, "compiled")):
        shutil.copytree(source, base / "policies" / name)
    (base / "traffic").mkdir()
    for file in (EXAMPLES / "conversations").glob("retail*.jsonl"):
        (base / "traffic" / f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes()))
    git(base, "init", "-q", "-b", "main")
    git(base, "add", "-A")
    git(base, "commit", "-qm", "as shipped")
    git(tmp_path, "clone", "-q", str(base), str(own))
    git(own, "checkout", "-qb", "looser")
    rule = (own / RULE).read_text(encoding="utf-8")
    (own / RULE).write_text(rule + "\nholds if is_string(facts.order.status)\n", encoding="utf-8")
    git(own, "commit", "-qam", "looser")

    (tmp_path / "bin").mkdir()
    shim = tmp_path / "bin" / "ledgeragent"
    shim.write_text(f'#!/bin/sh\nexec {sys.executable} -m ledgeragent "$@"\n', encoding="utf-8")
    shim.chmod(0o755)
    surroundings = {
        **os.environ,
        "PATH": f"{shim.parent}:{os.environ['PATH']}",
        "GITHUB_BASE_REF": "main",
        "LEDGERAGENT_OPA_BIN": str(opa_binary),
    }
    done = subprocess.run(
        ["bash", "-e", "-c", step()], cwd=own, env=surroundings, capture_output=True, text=True, check=False
    )
    comment = (own / "comment.md").read_text(encoding="utf-8")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert comment.startswith("### ✅ Policy backtest: ")
    assert "old: <code>git&#58;origin/main&#58;policies (" in comment
    assert "block → allow" in comment
