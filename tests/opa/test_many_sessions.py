"""Many sessions share one gate, one engine and one OPA, and none sees another's facts: bench/sessions.py, a short run."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ledgeragent.gate import Gate
from ledgeragent.records import JsonlRecorder

pytest_plugins = ["support.fixtures"]

PROGRAM = Path(__file__).resolve().parents[2] / "bench" / "sessions.py"


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The benchmark as a module."""
    spec = importlib.util.spec_from_file_location("bench_sessions", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "bench_sessions", module)  # dataclasses look there
    spec.loader.exec_module(module)
    return module


def test_sessions_on_many_workers_keep_to_their_own_facts(opa_binary: Path) -> None:
    command = [sys.executable, str(PROGRAM), "--seconds", "5", "--sessions", "1000", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    figures = json.loads(done.stdout)
    assert figures["problems"] == 0
    assert figures["took_part"] > 20
    assert figures["records"] > figures["reviews"]


def test_processes_of_their_own_share_opa_and_record_file(opa_binary: Path) -> None:
    command = [sys.executable, str(PROGRAM), "--seconds", "1", "--sessions", "40", "--processes", "2", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["took_part"] > 1


def test_a_fact_of_another_session_would_be_seen(sessions: Any, gate: Gate, tmp_path: Path) -> None:
    recorder = JsonlRecorder(tmp_path / "records.jsonl")
    found = sessions.Found()
    talk = sessions.Talk(4, gate, recorder)
    for _ in range(4):
        talk.turn(found)
    sessions.check_records(recorder.path, found)
    assert (found.problems, len(found.judged)) == ([], 4)

    records = recorder.path.read_text(encoding="ascii")
    recorder.path.write_text(records.replace("session-000004", "session-000007", 1), encoding="ascii")
    sessions.check_records(recorder.path, found)
    assert found.problems == ["the record of session 000004 holds {'000007'}"]
    talk.mark = "000005"  # from here on its own number is another's
    talk.turn(found)
    assert found.problems[1:] == ["session 000005: sees 000004"]
    recorder.close()
