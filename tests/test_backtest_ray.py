"""A backtest on a Ray cluster of this machine says what one without says."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from ledgeragent.backtest.cluster import Packed
from ledgeragent.gate import Gate
from ledgeragent.policies import COMPILED, REGO, SCHEMAS
from ledgeragent.policysource import PolicySource
from ledgeragent.records import JsonlRecorder
from needs import need
from support import retail
from support.retail import cancel, propose

pytest_plugins = ["support.fixtures"]
OFF = {"mode": "off", "owner": "test", "reason": "to see what changes", "expires": "2099-12-31"}


def run(folder: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a backtest of the records there."""
    asked = [
        "--records",
        "records.jsonl",
        "--policies",
        REGO,
        "--overrides",
        "off.json",
        "--format",
        "jsonl",
        *arguments,
    ]
    command = [sys.executable, "-m", "ledgeragent", "backtest", *map(str, asked)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture
def records(tmp_path: Path, gate: Gate) -> Path:
    """A folder with some records, and overrides that change one of them."""
    recorder = JsonlRecorder(tmp_path / "records.jsonl")
    session = retail.desk(gate)
    session._recorder = recorder
    for call in (cancel(), cancel("#W2"), cancel("#W9")):
        propose(session, call)
    recorder.close()
    overrides = {"retail": {"predicates": {"retail.order_pending": OFF}}}
    (tmp_path / "off.json").write_text(json.dumps(overrides), encoding="utf-8")
    return tmp_path


def test_a_local_cluster_lists_the_same_calls_and_ends_with_the_run(records: Path) -> None:
    need(importlib.util.find_spec("ray"), "ray; pip install 'ledgeragent[ray]'")
    here = run(records, "--workers", 1)
    there = run(records, "--workers", 1, "--ray", "local")
    assert (there.stdout, there.stderr, there.returncode) == (here.stdout, here.stderr, 1)
    assert json.loads(there.stdout)["old"] == {"verdict": "block"}


def test_without_ray_the_extra_is_named(records: Path) -> None:
    if importlib.util.find_spec("ray"):
        (records / "ray.py").write_text("raise ImportError\n", encoding="utf-8")
    done = run(records, "--ray", "local")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "ledgeragent: --ray needs the extra: pip install 'ledgeragent[ray]'\n"


def test_policies_travel_whole(tmp_path: Path) -> None:
    there = Packed.of(PolicySource("shipped", REGO, SCHEMAS)).unpacked(tmp_path)
    assert (there.name, there.policies, there.schemas) == ("shipped", tmp_path / "rego", tmp_path / "schemas")
    for before, after in ((REGO, there.policies), (SCHEMAS, there.schemas), (COMPILED, tmp_path / "compiled")):
        names = {path.relative_to(before): path for path in before.rglob("*") if path.is_file()}
        assert {name: (after / name).read_bytes() for name in names} == {
            name: path.read_bytes() for name, path in names.items()
        }
