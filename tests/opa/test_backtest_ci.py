"""The job of examples/ci/policy.yml that compares a pull request with its base, its step run as it stands there."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import sys
from pathlib import Path

import yaml

from ledgeragent.policies import COMPILED, EXAMPLES, REGO, SCHEMAS

WORKFLOW = REGO.parent / "examples" / "ci" / "policy.yml"
RULE = Path("rego/ledgeragent/retail/order_pending/order_pending.rego")


def step() -> str:
    """The script of the step "Backtest"."""
    job = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))["jobs"]["backtest"]
    (found,) = [one["run"] for one in job["steps"] if one.get("name") == "Backtest"]
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
        shutil.copytree(source, base / name)
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
    for more, status, sign in (("", 1, "❌"), (" --allow-change 'retail.order_pending:block->allow'", 0, "✅")):
        done = subprocess.run(
            ["bash", "-e", "-c", step().rstrip() + more],
            cwd=own,
            env=surroundings,
            capture_output=True,
            text=True,
            check=False,
        )
        comment = (own / "comment.md").read_text(encoding="utf-8")
        assert (done.returncode, done.stdout) == (status, ""), done.stderr
        assert comment.startswith(f"### {sign} Policy backtest: ")
        assert "old: <code>git&#58;origin/main (" in comment
        assert "block → allow" in comment
