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
from ledgeragent.recordfiles import closed_files, is_whole, open_files
from support import retail
from support.verifying import problems

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


def promised_of(process: subprocess.Popen[str]) -> list[str]:
    """What a killed writer was promised; its last line may be cut off."""
    return process.communicate()[0].splitlines()[:-1]


def kept(file: Path) -> list[str]:
    """The outcomes in a set of files, cut-off lines left aside."""
    lines = [line.text for one in open_files([file]) for line in one.lines()]
    return [json.loads(text)["request"] for text in lines if is_whole(text)]


def broken(file: Path) -> list[tuple[int, str, bool]]:
    """What verifying a set finds, but for outcomes without a decision: these writers write no others."""
    return [one for one in problems(file) if one[1] != "outcome" and one[2]]


@pytest.mark.parametrize("max_bytes", [0, 30_000])
def test_what_several_processes_were_promised_is_in_the_file_they_share(
    tmp_path: Path, report: Report, max_bytes: int
) -> None:
    """One meets a full disk, one is killed; the others must not suffer for what those leave cut off."""
    file = tmp_path / "records.jsonl"
    full = program(writer_process, file, "full", 200, max_bytes, 20_000)
    assert full.stdout is not None
    promised = []
    while (line := full.stdout.readline().strip()) != "full":
        promised.append(line)
    assert not file.read_text(encoding="ascii").endswith("\n")
    crowd = [full, *(program(writer_process, file, f"writer{number}", 150, max_bytes) for number in range(2))]
    killed = program(writer_process, file, "killed", 100_000, max_bytes)
    assert killed.stdout is not None
    promised += [killed.stdout.readline().strip() for _ in range(20)]
    killed.kill()
    promised += promised_of(killed)
    for process in crowd:
        promised += process.communicate(timeout=120)[0].splitlines()
        assert process.returncode == 0
    found = kept(file)
    assert len(found) == len(set(found))
    assert set(promised) <= set(found)
    assert sum(one.startswith("writer") for one in promised) == 300
    assert broken(file) == []
    assert (len(closed_files(file)) > 5) == (max_bytes > 0)
    how = "one rotated set" if max_bytes else "one record file"
    report(f"several processes write {how}", "embedded", "every promised record is whole, in one chain")


def test_writers_that_are_killed_while_files_are_closed_lose_nothing_promised(tmp_path: Path, report: Report) -> None:
    """Every few records close a file and compress one: kills meet every step of it."""
    file = tmp_path / "records.jsonl"
    promised: list[str] = []
    for number in range(8):
        pair = [program(writer_process, file, f"{number}-{name}", 100_000, 4_000) for name in "ab"]
        for process in pair:
            assert process.stdout is not None
            promised += [process.stdout.readline().strip() for _ in range(5 + 3 * number)]
            process.kill()
            promised += promised_of(process)
        assert broken(file) == []
    with program(writer_process, file, "last", 10, 4_000) as last:
        promised += last.communicate(timeout=60)[0].splitlines()
    found = kept(file)
    assert (len(found), set(promised) - set(found), broken(file)) == (len(set(found)), set(), [])
    assert [one.suffix for one in closed_files(file).values()][:-1] == [".gz"] * (len(closed_files(file)) - 1)
    report("writers are killed while files rotate", "embedded", "every promised record is whole, in one chain")
