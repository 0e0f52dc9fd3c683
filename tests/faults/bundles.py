"""The shipped policies with something wrong: bundles that a policy team could roll out by mistake."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

from ledgeragent.engine import Module, bundle_module
from ledgeragent.policies import REGO

CONFLICT_ORDER = "#W7"
SLOW_ORDER = "#W8"
OLD_REVISION = "sha256:" + "0" * 64

_CONFLICT = f"""package ledgeragent.retail

decision := {{"verdict": "allow"}} if input.action.arguments.order_id == "{CONFLICT_ORDER}"
"""
_SLOW = f"""package ledgeragent.retail

decision := {{"verdict": "allow"}} if {{
	input.action.arguments.order_id == "{SLOW_ORDER}"
	count([1 | some a in numbers.range(1, 30000); some b in numbers.range(1, 30000); a * b == -1]) == 0
}}
"""


def faulty(folder: Path) -> Path:
    """Decides as ever, but conflicts on one order and never ends on another."""
    root = _copied(folder)
    (root / "ledgeragent" / "retail" / "conflict.rego").write_text(_CONFLICT, encoding="utf-8")
    (root / "ledgeragent" / "retail" / "slow.rego").write_text(_SLOW, encoding="utf-8")
    return root


def without_domain(folder: Path) -> Path:
    """Everything but retail."""
    root = _copied(folder)
    shutil.rmtree(root / "ledgeragent" / "retail")
    return root


def old(folder: Path) -> Path:
    """The same rules under an earlier revision: validly made, and not the one that is wanted."""
    root = _copied(folder)
    _set_revision(root)
    return root


def lax(folder: Path) -> Path:
    """An earlier revision whose rule on pending orders is always content."""
    root = _copied(folder)
    _set_revision(root)
    rule = root / "ledgeragent" / "retail" / "order_pending" / "order_pending.rego"
    text = rule.read_text(encoding="utf-8")
    assert "\nholds if " in text
    rule.write_text(text + "\nholds := true\n", encoding="utf-8")
    return root


def module(opa: Path, root: Path, folder: Path) -> Module:
    """A bundle root compiled for the embedded engine."""
    bundle = folder / "bundle.tar.gz"
    domains = [one.name for one in (root / "ledgeragent").iterdir() if (one / "data.json").is_file()]
    domains.remove("gate")
    entries = [f"--entrypoint=ledgeragent/{name}/{rule}" for name in domains for rule in ("decision", "proof")]
    command = [str(opa), "build", "-t", "wasm", "-b", "--ignore", "*_test.rego", "-o", str(bundle), *entries, str(root)]
    subprocess.run(command, check=True, capture_output=True)
    return bundle_module(bundle)


def _copied(folder: Path) -> Path:
    root = folder / "rego"
    shutil.copytree(REGO, root)
    return root


def _set_revision(root: Path) -> None:
    file = root / "ledgeragent" / "retail" / "data.json"
    document = json.loads(file.read_text(encoding="utf-8"))
    document["declared"]["revision"] = OLD_REVISION
    file.write_text(json.dumps(document), encoding="utf-8")
