"""Decision records: on the disk before the decision is given, complete enough to be judged again."""

from __future__ import annotations

import fcntl
import json
import os
import resource
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ledgeragent import records
from ledgeragent.contracts import DecisionRecord, OutcomeRecord, Principal
from ledgeragent.domain import Domain, Validator
from ledgeragent.engine import Engine
from ledgeragent.errors import EngineTimeout, RecordError, SessionClosed
from ledgeragent.gate import Gate
from ledgeragent.jsonio import canonical
from ledgeragent.policies import SCHEMAS
from ledgeragent.recordfiles import BEGINNING
from ledgeragent.records import JsonlRecorder, Record, wall_clock
from ledgeragent.session import Call, Session, ToolRefused
from support import retail
from support.engines import Meddled
from support.retail import admitted, cancel, give_back, history, propose
from test_contracts import OUTCOME

pytest_plugins = ["support.fixtures"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where the records go."""
    return tmp_path / "records.jsonl"


@pytest.fixture
def recorder(file: Path) -> Iterator[JsonlRecorder]:
    """A recorder on a file that is not there yet."""
    with _closing(JsonlRecorder(file)) as recorder:
        yield recorder


@contextmanager
def _closing(recorder: JsonlRecorder) -> Iterator[JsonlRecorder]:
    try:
        yield recorder
    finally:
        recorder.close()


class Failing:
    """Keeps the first records and then fails, as a full disk does."""

    def __init__(self, keeps: int) -> None:
        self.kept: list[Record] = []
        self._keeps = keeps

    def write(self, record: Record) -> None:
        if len(self.kept) >= self._keeps:
            raise RecordError("no space left")
        self.kept.append(record)


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="ascii").splitlines()]


def outcome(request: str = "r") -> OutcomeRecord:
    return OutcomeRecord.model_validate({**OUTCOME, "request": request})


def test_every_decision_and_outcome_is_a_line_that_fits_the_published_schema(
    gate: Gate, recorder: JsonlRecorder, file: Path
) -> None:
    session = retail.desk(gate, recorder=recorder)
    retail.run(session, cancel())
    propose(session, cancel("#W9"))
    propose(session, Call("cancel_pending_order", "{"))
    propose(session, Call("delete_customer", {}))
    with pytest.raises(ToolRefused):
        session.execute(admitted(session, give_back()), _refuse)
    admitted(session, give_back())
    session.close()
    rows = lines(file)
    schema = Validator(json.loads((SCHEMAS / "record.schema.json").read_text(encoding="utf-8")))
    assert [problem.message for row in rows for problem in schema.iter_errors(row)] == []
    assert [row.get("verdict") or row["outcome"] for row in rows] == [
        *("allow", "executed"),
        *("revise", "revise", "block"),
        *("allow", "refused"),
        *("allow", "withheld"),
    ]
    assert rows[1]["request"] == rows[0]["decision"]["request"] == rows[0]["input"]["request"]
    assert all(line == canonical(json.loads(line)) for line in file.read_text(encoding="ascii").splitlines())


def _refuse(tool: str, arguments: dict[str, Any]) -> Any:
    raise ToolRefused


def test_a_record_says_who_judged_what_on_which_ledger(gate: Gate, recorder: JsonlRecorder, file: Path) -> None:
    session = retail.desk(gate, recorder=recorder)
    digest = session.ledger.digest
    review = propose(session, cancel())
    assert review.decision is not None
    [row] = lines(file)
    assert row["at"] <= wall_clock()
    assert row | {"at": "", "latency_ms": 0} == {
        "contract": "ledgeragent.record/1",
        "kind": "decision",
        "at": "",
        "session": "desk",
        "call_id": "cancel-1",
        "input": dict(review.gate_input),
        "decision": review.decision.model_dump(mode="json"),
        "error": None,
        "verdict": "allow",
        "enforced": True,
        "revision": review.decision.policy.revision,
        "engine": {"name": gate.engine.name, "version": gate.engine.version, "decision_id": None},
        "ledger_digest": digest,
        "facts": [
            {
                "path": ["auth", "user_id"],
                "tool": "find_user_id_by_email",
                "call_id": row["facts"][0]["call_id"],
                "turn": 0,
                "at": retail.NOW,
            },
            {
                "path": ["orders", "#W1"],
                "tool": "get_order_details",
                "call_id": row["facts"][1]["call_id"],
                "turn": 0,
                "at": retail.NOW,
            },
        ],
        "latency_ms": 0,
        "previous": BEGINNING,
        "redacted": None,
    }


def test_a_record_judged_again_gives_the_same_decision(gate: Gate, recorder: JsonlRecorder, file: Path) -> None:
    principal = Principal(id=retail.USER, source="host", claims={"level": 1.5, "tags": ["a"]})
    for session in (retail.desk(gate, recorder=recorder), Session(gate, now=retail.NOW, principal=principal)):
        for call in (cancel(), cancel("#W9"), give_back("lamp-b"), Call("cancel_pending_order", [1.0]), Call("x", {})):
            propose(session, call)
    for row in lines(file):
        again = gate.judge(row["input"])
        assert again.decision is not None
        assert again.decision.model_dump(mode="json") == row["decision"]


def test_a_block_without_a_decision_is_on_record_with_its_code(
    retail_domain: Domain, embedded: Engine, recorder: JsonlRecorder, file: Path
) -> None:
    def down(rule: str, answer: Any) -> Any:
        raise EngineTimeout("no answer within 2 s")

    session = retail.desk(Gate(retail_domain, Meddled(embedded, down)), recorder=recorder)
    propose(session, cancel())
    [row] = lines(file)
    assert {key: row[key] for key in ("verdict", "decision", "error", "revision")} == {
        "verdict": "block",
        "decision": None,
        "error": "engine.timeout",
        "revision": "",
    }


def test_a_decision_is_on_record_before_it_counts(gate: Gate) -> None:
    pending: list[Any] = []

    class Looking:
        def write(self, record: Record) -> None:
            assert isinstance(record, DecisionRecord)
            pending.append(session.ledger.stale_paths())

    session = retail.desk(gate, recorder=Looking())
    assert propose(session, cancel()).verdict == "allow"
    assert pending == [[]]


@pytest.mark.parametrize("call", [cancel(), cancel("#W9"), Call("x", {})])
def test_without_a_record_there_is_no_decision(gate: Gate, call: Call) -> None:
    session = retail.desk(gate, recorder=Failing(0))
    review = propose(session, call)
    assert review.failure is not None
    assert (review.verdict, review.decision, review.ticket, review.failure.code) == ("block", None, None, "host.record")
    assert session.ledger.stale_paths() == []


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full, which this system lacks")  # noqa: PTH110
def test_a_full_disk_withholds_every_decision(gate: Gate) -> None:
    with _closing(JsonlRecorder(Path("/dev/full"))) as recorder:
        review = propose(retail.desk(gate, recorder=recorder), cancel())
    assert review.failure is not None
    assert (review.verdict, review.ticket, review.failure.code) == ("block", None, "host.record")
    assert "cannot be written" in review.failure.message


@pytest.mark.parametrize("tool", ["", "\ud800"])
def test_a_call_so_odd_that_it_fits_no_record_is_blocked(gate: Gate, recorder: JsonlRecorder, tool: str) -> None:
    review = propose(retail.desk(gate, recorder=recorder), Call(tool, {}))
    assert (review.verdict, review.ticket) == ("block", None)


def test_an_outcome_that_cannot_be_recorded_counts_all_the_same(gate: Gate) -> None:
    session = retail.desk(gate, recorder=Failing(1))
    ticket = admitted(session, cancel())
    session.redeem(ticket)
    with pytest.raises(RecordError, match="no space left"):
        session.report(ticket, "executed")
    assert history(session) == [("cancel_pending_order", "executed")]


def test_a_session_ends_though_its_last_outcomes_cannot_be_recorded(gate: Gate) -> None:
    session = retail.desk(gate, recorder=Failing(2))
    for call in (cancel(), give_back()):
        admitted(session, call)
    with pytest.raises(RecordError, match="no space left"):
        session.close("done")
    with pytest.raises(SessionClosed, match="done"):
        session.review([cancel()])
    assert session.ledger.stale_paths() == []


# The file --------------------------------------------------------------------------------------------------------


def test_records_are_appended_and_only_the_owner_can_read_them(file: Path) -> None:
    for number in range(2):
        with _closing(JsonlRecorder(file)) as recorder:
            recorder.write(outcome(f"r{number}"))
    assert [row["request"] for row in lines(file)] == ["r0", "r1"]
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_file_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"records\.jsonl cannot be opened"):
        JsonlRecorder(tmp_path / "nowhere" / "records.jsonl")


def test_a_line_that_did_not_reach_the_disk_is_no_record(
    recorder: JsonlRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", lost)
    with pytest.raises(RecordError, match=r"records\.jsonl cannot be written: .*Input/output error"):
        recorder.write(outcome())


def test_records_of_many_threads_are_whole_lines(recorder: JsonlRecorder, file: Path) -> None:
    def write_some(writer: int) -> None:
        for number in range(5):
            recorder.write(outcome(f"{writer}-{number}" * 500))

    threads = [threading.Thread(target=write_some, args=[writer]) for writer in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({row["request"] for row in lines(file)}) == 40


def test_records_that_wait_for_the_disk_at_once_share_the_wait_and_its_failure(
    recorder: JsonlRecorder, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrived, go_on = threading.Event(), threading.Event()
    syncs: list[int] = []

    def slow(descriptor: int) -> None:
        syncs.append(len(lines(file)))
        arrived.set()
        go_on.wait(30)
        if len(syncs) == 2:
            raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", slow)
    came: list[str] = []

    def write(name: str) -> None:
        try:
            recorder.write(outcome(name))
            came.append(name)
        except RecordError:
            came.append("lost")

    threads = [threading.Thread(target=write, args=[f"r{number}"]) for number in range(6)]
    threads[0].start()
    arrived.wait(30)
    for thread in threads[1:]:
        thread.start()
    while len(lines(file)) < 6:
        time.sleep(0.001)
    go_on.set()
    for thread in threads:
        thread.join()
    assert (syncs, came[0], came[1:]) == ([1, 6], "r0", ["lost"] * 5)
    monkeypatch.undo()
    recorder.write(outcome("after"))


@contextmanager
def _room_for(size: int) -> Iterator[None]:
    """Files of this process can grow to `size` bytes only, as on a disk that fills up."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_line_that_was_cut_off_by_a_full_disk_does_not_spoil_the_next(recorder: JsonlRecorder, file: Path) -> None:
    recorder.write(outcome("first"))
    with _room_for(file.stat().st_size + 20), pytest.raises(RecordError, match="cannot be written"):
        recorder.write(outcome("cut off"))
    recorder.write(outcome("second"))
    whole = [line for line in file.read_text(encoding="ascii").splitlines() if line.endswith("}")]
    assert [json.loads(line)["request"] for line in whole] == ["first", "second"]


def test_what_another_process_left_cut_off_does_not_spoil_the_next_line(file: Path, recorder: JsonlRecorder) -> None:
    recorder.write(outcome("first"))
    with file.open("a", encoding="ascii") as killed:
        killed.write('{"contract":"ledgeragent.rec')
    recorder.write(outcome("second"))
    whole = [line for line in file.read_text(encoding="ascii").splitlines() if line.endswith("}")]
    assert [json.loads(line)["request"] for line in whole] == ["first", "second"]


def test_a_file_that_another_process_locks_is_not_waited_for_without_end(
    file: Path, recorder: JsonlRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "_LOCK_SECONDS", 0.05)
    with file.open("ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(RecordError, match="another process has locked it"):
            recorder.write(outcome())
    recorder.write(outcome("after"))
    assert [row["request"] for row in lines(file)] == ["after"]


def test_a_closed_recorder_writes_nowhere_and_can_be_closed_again(tmp_path: Path) -> None:
    recorder = JsonlRecorder(tmp_path / "records.jsonl")
    recorder.close()
    other = tmp_path / "another file"
    descriptor = os.open(other, os.O_WRONLY | os.O_CREAT)  # the system gives out the closed one's number again
    try:
        with pytest.raises(RecordError, match="closed"):
            recorder.write(outcome())
        recorder.close()
        os.write(descriptor, b"x")
    finally:
        os.close(descriptor)
    assert other.read_bytes() == b"x"
