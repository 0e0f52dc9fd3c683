"""Faults of the record file and of the agent's own process: what ran is on record, and what was promised is kept."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from faults import agent_process, writer_process
from faults.stage import Stage, blocked_in_time, judged
from ledgeragent.engine import Engine
from ledgeragent.engine.base import ClosesOnExit
from ledgeragent.errors import RecordError
from ledgeragent.gate import Gate
from support import retail

pytest_plugins = ["support.fixtures"]

Report = Callable[..., None]
RUN = "cancel_pending_order #W1"


class Kept(ClosesOnExit):
    """The shared engine, not closed with a stage."""

    def __init__(self, engine: Engine) -> None:
        self.name, self.version, self.location = engine.name, engine.version, engine.location
        self.evaluate = engine.evaluate

    def close(self) -> None:
        """Nothing: the engine is shared."""


@pytest.fixture
def stage(gate: Gate, tmp_path: Path) -> Iterator[Stage]:
    """Sessions on the embedded engine, which is sound here; the faults are elsewhere."""
    engine = Kept(gate.engine)
    stage = Stage(engine, Gate(gate.domain, engine), tmp_path / "records.jsonl")
    yield stage
    stage.close()


def whole(file: Path) -> list[dict[str, Any]]:
    """The lines of a record file that are whole."""
    rows = []
    for line in file.read_text(encoding="ascii").splitlines():
        try:
            rows.append(json.loads(line))
        except ValueError:
            continue
    return rows


# The disk --------------------------------------------------------------------------------------------------------


@contextmanager
def disk_full(stage: Stage) -> Iterator[None]:
    """Files of this process cannot grow: the next record is cut off."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (stage.file.stat().st_size + 100, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextmanager
def disk_broken(stage: Stage) -> Iterator[None]:
    """What is written does not reach the disk."""

    def broken(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", broken)
        yield


@contextmanager
def file_deleted(stage: Stage) -> Iterator[None]:
    """Somebody deletes the file, and its folder for a while."""
    stage.file.unlink()
    stage.file.parent.rename(stage.file.parent.with_name("moved away"))
    try:
        yield
    finally:
        stage.file.parent.with_name("moved away").rename(stage.file.parent)


DISKS: dict[str, Callable[[Stage], AbstractContextManager[None]]] = {
    "the disk is full under the record file": disk_full,
    "the disk does not take the record": disk_broken,
    "the record file is deleted": file_deleted,
}


@pytest.mark.parametrize("case", DISKS)
def test_without_a_record_nothing_runs(case: str, stage: Stage, report: Report) -> None:
    session = stage.session("wants")
    assert stage.propose(stage.session("before"), retail.cancel()).review.verdict == "allow"
    with DISKS[case](stage):
        attempts = [stage.propose(session, retail.cancel()) for _ in range(3)]
    blocked_in_time(attempts, ["host.record"], "record file .* cannot be")
    assert len(stage.shop.ran) == 1
    after = stage.recovers(session, retail.cancel())
    assert len(stage.shop.ran) == 2
    assert judged(whole(stage.file), "wants")[-2:] == ["allow", "executed"]
    report(case, "embedded", "host.record", max(one.took for one in attempts), f"decides again after {after:.2f} s")


def test_without_room_for_the_outcome_the_write_counts_and_the_caller_is_told(stage: Stage, report: Report) -> None:
    session = stage.session("wants")
    review = retail.propose(session, retail.cancel())
    assert review.ticket is not None
    with disk_full(stage), pytest.raises(RecordError, match="cannot be written"):
        session.execute(review.ticket, stage.shop.run)
    assert retail.history(session) == [("cancel_pending_order", "executed")]
    assert judged(whole(stage.file), "wants")[0] == "allow"
    assert len(stage.shop.ran) == 1
    report("the disk is full at the outcome", "embedded", "RecordError; the write counts as executed")


def test_dev_full_withholds_everything(gate: Gate, report: Report) -> None:
    engine = Kept(gate.engine)
    stage = Stage(engine, Gate(gate.domain, engine), Path("/dev/full"))
    blocked_in_time([stage.propose(stage.session("wants"), retail.cancel())], ["host.record"], "No space left")
    assert stage.shop.ran == []
    stage.close()
    report("records go to /dev/full", "embedded", "host.record")


# Processes -------------------------------------------------------------------------------------------------------


def program(module: Any, *arguments: object) -> subprocess.Popen[str]:
    """One of this folder's programs as a process."""
    return subprocess.Popen(
        [sys.executable, str(module.__file__), *map(str, arguments)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )


WHERE = {
    "before the decision": ([], []),
    "before the record": ([], []),
    "in the record": ([], []),
    "after the record": (["allow"], []),
    "before the tool": (["allow"], []),
    "after the tool": (["allow"], [RUN]),
}
"""Where the agent dies: what is on record, and what ran."""


@pytest.mark.parametrize("where", WHERE)
def test_an_agent_that_is_killed_leaves_nothing_that_ran_unrecorded(
    where: str, gate: Gate, tmp_path: Path, report: Report
) -> None:
    records, ran = tmp_path / "records.jsonl", tmp_path / "ran"
    ran.touch()
    with program(agent_process, records, ran, where) as process:
        assert process.wait(60) == -signal.SIGKILL
    on_record, run = WHERE[where]
    assert (judged(whole(records), where), ran.read_text(encoding="ascii").splitlines()) == (on_record, run)
    engine = Kept(gate.engine)
    after = Stage(engine, Gate(gate.domain, engine), records)
    assert after.propose(after.session("next"), retail.cancel()).review.verdict == "allow"
    after.close()
    assert judged(whole(records), "next") == ["allow", "executed"]
    assert judged(whole(records), where) == on_record
    shown = "nothing" if not on_record else "the decision, without an outcome"
    report(
        f"the agent is killed {where}", "embedded", f"{len(run)} ran; on record: {shown}", 0, "the next agent decides"
    )


def test_what_several_processes_were_promised_is_in_the_file_they_share(tmp_path: Path, report: Report) -> None:
    """One meets a full disk, one is killed; the others must not suffer for what those leave cut off."""
    file = tmp_path / "records.jsonl"
    full = program(writer_process, file, "full", 200, 20_000)
    assert full.stdout is not None
    promised = []
    while (line := full.stdout.readline().strip()) != "full":
        promised.append(line)
    assert not file.read_text(encoding="ascii").endswith("\n")
    crowd = [full, *(program(writer_process, file, f"writer{number}", 150) for number in range(2))]
    killed = program(writer_process, file, "killed", 100_000)
    assert killed.stdout is not None
    promised += [killed.stdout.readline().strip() for _ in range(20)]
    killed.kill()
    promised += killed.communicate()[0].splitlines()[:-1]  # the last line may be cut off
    for process in crowd:
        promised += process.communicate(timeout=120)[0].splitlines()
        assert process.returncode == 0
    kept = [row["request"] for row in whole(file)]
    assert len(kept) == len(set(kept))
    assert set(promised) <= set(kept)
    assert sum(one.startswith("writer") for one in promised) == 300
    report("several processes write one record file", "embedded", "every promised record is whole")
