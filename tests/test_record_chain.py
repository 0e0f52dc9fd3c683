"""Chains of records: what was changed, dropped or moved shows; what a crash cut off is told apart from that."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgeragent.contracts import DecisionRecord, OutcomeRecord
from ledgeragent.domain import Domain
from ledgeragent.errors import RecordError
from ledgeragent.gate import Gate
from ledgeragent.jsonio import canonical
from ledgeragent.recordfiles import BEGINNING, line_digest
from ledgeragent.records import JsonlRecorder, read_records
from ledgeragent.redact import Redacted
from ledgeragent.verify import Walk
from support import retail
from support.retail import cancel, give_back, propose
from support.verifying import problems, walked
from test_contracts import OUTCOME

pytest_plugins = ["support.fixtures"]


def outcome(request: str) -> OutcomeRecord:
    return OutcomeRecord.model_validate({**OUTCOME, "request": request})


def chained(file: Path, *requests: str, **options: int) -> JsonlRecorder:
    """Append outcomes; outcomes without decisions are told of by verifying, which these tests leave aside."""
    recorder = JsonlRecorder(file, **options)  # type: ignore[arg-type]
    for request in requests:
        recorder.write(outcome(request))
    recorder.close()
    return recorder


def links(file: Path, walk: Walk | None = None) -> list[tuple[int, str, bool]]:
    """What is found but for outcomes."""
    return [one for one in problems(file, walk=walk) if one[1] != "outcome"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, gate: Gate) -> bytes:
    """A record file of a session: decisions and outcomes."""
    file = tmp_path_factory.mktemp("whole") / "records.jsonl"
    recorder = JsonlRecorder(file)
    session = retail.desk(gate, recorder=recorder)
    for call in (cancel(), cancel("#W9"), give_back()):
        propose(session, call)
    session.close()
    recorder.close()
    return file.read_bytes()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the property tests write."""
    return tmp_path_factory.mktemp("changed") / "records.jsonl"


def found(place: Path, content: bytes, head: str | None = None) -> bool:
    """Whether verifying finds a difference, with a head kept elsewhere or without."""
    place.write_bytes(content)
    return any(differs for *_, differs in problems(place, walk=Walk(expected=frozenset([head] if head else []))))


def test_a_chain_begins_with_none_and_goes_from_line_to_line(whole: bytes, place: Path) -> None:
    lines = whole.splitlines()
    place.write_bytes(whole)
    assert [one.previous for one in read_records(place)] == [BEGINNING, *map(line_digest, lines[:-1])]
    walk, told = walked([place])
    assert (walk.records, walk.linked, walk.head, told) == (5, 5, line_digest(lines[-1]), [])


@given(st.data())
def test_any_byte_that_is_changed_shows(whole: bytes, place: Path, data: st.DataObject) -> None:
    """In the last record by the head that is kept elsewhere, in all others by the record that follows."""
    last = whole.rindex(b"\n", 0, -1) + 1
    at = data.draw(st.integers(0, len(whole) - 1))
    byte = data.draw(st.integers(0, 255).filter(lambda one: one != whole[at]))
    changed = whole[:at] + bytes([byte]) + whole[at + 1 :]
    assert at >= last or found(place, changed)
    assert found(place, changed, head=line_digest(whole.splitlines()[-1]))


@given(st.data())
def test_any_record_that_is_dropped_shows(whole: bytes, place: Path, data: st.DataObject) -> None:
    lines = whole.splitlines(keepends=True)
    at = data.draw(st.integers(0, len(lines) - 1))
    kept = b"".join(lines[:at] + lines[at + 1 :])
    assert at == len(lines) - 1 or found(place, kept)
    assert found(place, kept, head=line_digest(lines[-1][:-1]))


@given(st.data())
def test_records_in_another_order_show(whole: bytes, place: Path, data: st.DataObject) -> None:
    lines = whole.splitlines(keepends=True)
    order = data.draw(st.permutations(lines).filter(lambda one: one != lines))
    assert found(place, b"".join(order))


@given(st.data())
def test_a_record_that_is_put_in_again_or_left_without_its_digest_shows(
    whole: bytes, place: Path, data: st.DataObject
) -> None:
    lines = whole.splitlines(keepends=True)
    at, to = (data.draw(st.integers(0, len(lines) - 1)) for _ in range(2))
    assert found(place, b"".join([*lines[:to], lines[at], *lines[to:]]))
    if at != len(lines) - 1:
        place.write_bytes(lines[at])
        [record] = read_records(place)
        bare = (canonical(record.model_copy(update={"previous": None}).model_dump(mode="json")) + "\n").encode()
        assert found(place, b"".join([*lines[:at], bare, *lines[at + 1 :]]))


def test_a_kept_head_is_found_however_many_records_follow(whole: bytes, place: Path) -> None:
    place.write_bytes(whole)
    for line in whole.splitlines():
        assert problems(place, walk=Walk(expected=frozenset([line_digest(line)]))) == []


# Cut off --------------------------------------------------------------------------------------------------------


def test_what_was_cut_off_is_told_and_the_chain_goes_on_over_it(tmp_path: Path) -> None:
    file = tmp_path / "records.jsonl"
    chained(file, "first", "second")
    with file.open("ab") as killed:
        killed.write(b'{"at":"2026-01-02T')
    assert links(file) == [(3, "cut off", False)]
    chained(file, "third")
    assert links(file) == [(3, "cut off", False)]
    assert [one.previous for one in map(_parsed, _whole_lines(file))][2] == line_digest(_whole_lines(file)[1])


def test_a_record_that_was_damaged_into_no_record_does_not_pass_for_one_cut_off(tmp_path: Path) -> None:
    file = tmp_path / "records.jsonl"
    chained(file, "first", "second", "third")
    lines = file.read_bytes().splitlines()
    for second in (lines[1][:-20], b"", b"\0" * 40, b"{}"):
        file.write_bytes(b"\n".join([lines[0], second, lines[2], b""]))
        assert any(differs for *_, differs in links(file)), second


def test_a_last_line_that_is_ended_and_no_record_is_a_difference(tmp_path: Path) -> None:
    file = tmp_path / "records.jsonl"
    chained(file, "first")
    with file.open("ab") as changed:
        changed.write(b'{"at":\n')
    assert links(file) == [(2, "form", True)]


def test_without_a_chain_a_line_that_is_no_record_may_be_either(tmp_path: Path) -> None:
    file = tmp_path / "records.jsonl"
    recorder = JsonlRecorder(file, chain=False)
    recorder.write(outcome("first"))
    os.truncate(file, file.stat().st_size - 9)
    recorder.write(outcome("second"))
    recorder.close()
    assert links(file) == [(1, "form", True)]
    assert [one.previous for one in map(_parsed, _whole_lines(file))] == [None]


# Writing --------------------------------------------------------------------------------------------------------


def test_records_without_a_chain_are_followed_by_one_that_begins_there(tmp_path: Path) -> None:
    file = tmp_path / "records.jsonl"
    bare = JsonlRecorder(file, chain=False)
    for request in ("a", "b"):
        bare.write(outcome(request))
    bare.close()
    chained(file, "c")
    walk, _ = walked([file])
    assert (walk.linked, links(file)) == (1, [])


def test_recorders_that_take_turns_on_a_file_write_one_chain(tmp_path: Path) -> None:
    file = tmp_path / "records.jsonl"
    recorders = [JsonlRecorder(file) for _ in range(3)]
    for number in range(12):
        recorders[number * 7 % 3].write(outcome(f"r{number}"))
    assert links(file) == []
    assert recorders[2 * 7 % 3].head == line_digest(file.read_bytes().splitlines()[11])
    for recorder in recorders:
        recorder.close()


def test_the_chain_is_over_what_is_kept_not_over_what_was_hidden(
    tmp_path: Path, gate: Gate, retail_domain: Domain
) -> None:
    file = tmp_path / "records.jsonl"
    recorder = JsonlRecorder(file, Redacted(retail_domain))
    session = retail.desk(gate, recorder=recorder)
    for call in (cancel(), cancel("#W9")):
        propose(session, call)
    session.close()
    recorder.close()
    walk, told = walked([file])
    assert (walk.linked, told) == (3, [])


def test_the_tail_is_not_read_again_unless_others_wrote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "records.jsonl"
    reads: list[int] = []
    real = os.pread

    def reading(descriptor: int, length: int, at: int) -> bytes:
        reads.append(length)
        return real(descriptor, length, at)

    recorder = JsonlRecorder(file)
    recorder.write(outcome("first"))
    monkeypatch.setattr(os, "pread", reading)
    for number in range(5):
        recorder.write(outcome(f"r{number}"))
    assert set(reads) == {1}
    chained(file, "other")
    reads.clear()
    recorder.write(outcome("last"))
    assert max(reads) > 1
    recorder.close()
    assert links(file) == []


def test_a_long_record_at_the_end_is_found_whole(tmp_path: Path) -> None:
    file = tmp_path / "records.jsonl"
    chained(file, "x" * 700_000)
    chained(file, "next")
    assert links(file) == []


def test_a_file_that_was_taken_away_is_missed(tmp_path: Path) -> None:
    file = tmp_path / "records.jsonl"
    recorder = JsonlRecorder(file)
    recorder.write(outcome("gone"))
    gone = recorder.head
    file.unlink()
    recorder.write(outcome("after"))
    recorder.close()
    assert links(file) == [(1, "chain", True)]
    assert gone is not None
    assert links(file, Walk(after=frozenset([gone]))) == []


def test_a_record_that_is_too_long_is_no_record(tmp_path: Path, gate: Gate) -> None:
    file = tmp_path / "records.jsonl"
    recorder = JsonlRecorder(file, max_bytes=500)
    recorder.write(outcome("short"))
    with pytest.raises(RecordError, match=r"the record has [\d,]+ bytes; at most 500 are taken"):
        recorder.write(outcome("x" * 500))
    review = propose(retail.desk(gate, recorder=recorder), cancel())
    recorder.close()
    assert review.failure is not None
    assert (review.verdict, review.ticket, review.failure.code) == ("block", None, "host.record")
    assert len(list(read_records(file))) == 1


def _whole_lines(file: Path) -> list[bytes]:
    return [line for line in file.read_bytes().splitlines() if line.endswith(b"}")]


def _parsed(line: bytes) -> OutcomeRecord:
    return OutcomeRecord.model_validate_json(line)


def test_decisions_are_chained_like_outcomes(whole: bytes, place: Path) -> None:
    place.write_bytes(whole)
    kinds: Iterator[type] = map(type, read_records(place))
    assert list(kinds) == [DecisionRecord, DecisionRecord, DecisionRecord, OutcomeRecord, OutcomeRecord]
