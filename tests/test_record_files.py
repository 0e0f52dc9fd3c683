"""Files of records: rotated, compressed, limited, read back in order, and searched."""

from __future__ import annotations

import gzip
import os
import sys
import threading
from itertools import chain
from pathlib import Path

import pytest

from ledgeragent import recordfiles
from ledgeragent.contracts import OutcomeRecord
from ledgeragent.errors import BadInput, RecordError
from ledgeragent.gate import Gate
from ledgeragent.recordfiles import closed_files, closed_name, open_files, open_texts, set_of
from ledgeragent.records import JsonlRecorder, find_record, read_records
from support import retail
from support.retail import cancel, propose
from support.verifying import walked
from test_contracts import OUTCOME
from test_record_chain import links, outcome

pytest_plugins = ["support.fixtures"]

PAIR = 700
"""Room for two records of `outcome`, not for three."""


def requests(file: Path) -> list[str]:
    return [one.request for one in read_records(file) if isinstance(one, OutcomeRecord)]


def written(file: Path, count: int, **options: int) -> JsonlRecorder:
    """Records r0, r1 and so on in a rotated set."""
    recorder = JsonlRecorder(file, max_bytes=PAIR, **options)
    for number in range(count):
        recorder.write(outcome(f"r{number}"))
    recorder.close()
    return recorder


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "records.jsonl"


def test_a_full_file_is_closed_under_a_number_and_the_chain_goes_on(file: Path) -> None:
    written(file, 7)
    assert sorted(one.name for one in file.parent.iterdir()) == [
        "records.000001.jsonl.gz",
        "records.000002.jsonl.gz",
        "records.000003.jsonl",
        "records.jsonl",
    ]
    assert requests(file) == [f"r{number}" for number in range(7)]
    walk, _ = walked([file])
    assert (walk.linked, links(file)) == (7, [])
    assert {one.stat().st_mode & 0o777 for one in file.parent.iterdir()} == {0o600}


def test_a_recorder_that_begins_goes_on_with_the_set(file: Path) -> None:
    written(file, 3)
    written(file, 2)
    file.rename(closed := file.with_name("records.000099.jsonl"))  # killed between closing a file and beginning another
    written(file, 1)
    assert (links(file), len(requests(file)), closed.exists()) == ([], 6, True)


def test_recorders_that_take_turns_on_a_rotated_set_write_one_chain(file: Path) -> None:
    """Also one that slept while others wrote and closed files, and meets an empty one when it goes on."""
    recorders = [JsonlRecorder(file, max_bytes=PAIR) for _ in range(3)]
    for turn, which in enumerate((0, 1, 0, 0, 2, 1, 1, 1, 1, 0, 2, 2, 1)):
        recorders[which].write(outcome(f"r{turn}"))
    for recorder in recorders:
        recorder.close()
    assert (requests(file), links(file)) == ([f"r{turn}" for turn in range(13)], [])


def test_a_file_of_the_set_that_is_removed_shows(file: Path) -> None:
    written(file, 7)
    first, second, *_ = closed_files(file).values()
    second.rename(aside := file.with_name("aside"))
    assert [kind for _, kind, differs in links(file) if differs] == ["chain"]
    aside.rename(second)
    first.unlink()
    assert [kind for _, kind, differs in links(file) if differs] == ["chain"]


def test_the_oldest_are_removed_only_if_so_told(file: Path) -> None:
    written(file, 20)
    assert len(requests(file)) == 20
    other = file.with_name("limited.jsonl")
    written(other, 60, max_total_bytes=4 * PAIR)
    kept = requests(other)
    assert 1 < len(kept) < 60
    assert kept == [f"r{number}" for number in range(60 - len(kept), 60)]
    assert sum(one.stat().st_size for one in (other, *closed_files(other).values())) <= 4 * PAIR


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"max_bytes": 0}, "max_bytes is 0"),
        ({"max_total_bytes": 10}, "max_total_bytes needs max_bytes"),
        ({"max_bytes": 10, "max_total_bytes": 19}, "at least twice as much"),
    ],
)
def test_a_limit_that_cannot_be_meant_is_refused(file: Path, options: dict[str, int], complaint: str) -> None:
    with pytest.raises(BadInput, match=complaint):
        JsonlRecorder(file, **options)  # type: ignore[arg-type]


def test_what_cannot_be_closed_is_not_written_over(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = JsonlRecorder(file, max_bytes=PAIR)
    for number in range(2):
        recorder.write(outcome(f"r{number}"))

    def refused(self: Path, target: Path) -> None:
        raise OSError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", refused)
        with pytest.raises(RecordError, match="Permission denied"):
            recorder.write(outcome("refused"))
    recorder.write(outcome("r2"))
    recorder.close()
    assert (requests(file), links(file)) == (["r0", "r1", "r2"], [])


def test_compressing_that_fails_costs_no_record(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("ledgeragent.rotation.shutil.copyfileobj", full)
        written(file, 7)
    assert [one.suffix for one in closed_files(file).values()] == [".jsonl"] * 3
    assert list(file.parent.glob("*.part")) == []
    written(file, 2)  # done again after the next rotation
    assert requests(file) == [*(f"r{number}" for number in range(7)), "r0", "r1"]
    assert [one.suffix for one in closed_files(file).values()][:3] == [".gz"] * 3


def test_threads_share_a_rotated_set(file: Path) -> None:
    recorder = JsonlRecorder(file, max_bytes=2000)

    def write_some(writer: int) -> None:
        for number in range(20):
            recorder.write(outcome(f"{writer}-{number}"))

    threads = [threading.Thread(target=write_some, args=[writer]) for writer in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    recorder.close()
    assert (len(set(requests(file))), links(file)) == (120, [])


def test_a_link_to_a_file_is_followed_when_it_is_closed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    link = tmp_path / "link.jsonl"
    link.symlink_to(tmp_path / "real" / "records.jsonl")
    written(link, 3)
    assert (link.is_symlink(), requests(tmp_path / "real" / "records.jsonl")) == (True, ["r0", "r1", "r2"])


# Reading --------------------------------------------------------------------------------------------------------


def test_files_that_are_named_twice_are_read_once_and_in_order(file: Path) -> None:
    written(file, 7)
    names = sorted(map(str, file.parent.iterdir()))
    for given in (names, [file, *names]):
        assert [(one.name, len(list(one.lines())) > 0) for one in open_files(given)] == [(name, True) for name in names]


def test_one_closed_file_is_only_itself(file: Path) -> None:
    written(file, 7)
    second = file.with_name("records.000002.jsonl.gz")
    assert requests(second) == ["r2", "r3"]
    assert set_of(str(second)) == set_of(str(file.with_name("records.000003.jsonl"))) == str(file)


def test_a_file_that_is_closed_or_compressed_while_it_is_read_is_read_once(file: Path) -> None:
    written(file, 5)
    files = open_files([file])
    first = next(files)
    written(file, 4)  # closes more, and compresses the one that was listed plain
    seen = [line.text for one in chain([first], files) for line in one.lines()]
    assert len(seen) == len(set(seen))
    assert len(seen) >= 5


def test_stdin_is_read_compressed_or_not(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(file, 2)
    packed = file.with_name("packed")
    packed.write_bytes(gzip.compress(file.read_bytes()))
    for one in (file, packed):
        with one.open(encoding="latin-1") as stream, monkeypatch.context() as patch:
            patch.setattr(sys, "stdin", stream)
            assert requests(Path("-")) == ["r0", "r1"]


def test_a_compressed_file_that_is_cut_off_is_named(file: Path) -> None:
    written(file, 7)
    packed = file.with_name("records.000001.jsonl.gz")
    os.truncate(packed, packed.stat().st_size - 12)
    with pytest.raises(BadInput, match=r"records\.000001\.jsonl\.gz is damaged after line \d: EOFError"):
        requests(file)


def test_a_line_that_is_too_long_to_be_a_record_is_not_read_whole(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recordfiles, "MAX_RECORD", 100)
    file.write_bytes(b"x" * 1000)
    with pytest.raises(BadInput, match="line 1 is longer than 100 bytes"):
        requests(file)


@pytest.mark.parametrize("name", ["nowhere.jsonl", "nowhere/records.jsonl", "."])
def test_what_is_no_file_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadInput, match=r"cannot be read: (No such file|Is a directory)"):
        requests(tmp_path / name)


# Finding --------------------------------------------------------------------------------------------------------


def test_a_record_is_found_by_its_id_or_the_beginning_of_it(file: Path, gate: Gate) -> None:
    recorder = JsonlRecorder(file)
    session = retail.desk(gate, recorder=recorder)
    reviews = [propose(session, call) for call in (cancel(), cancel("#W9"))]
    session.close()
    recorder.close()
    for review in reviews:
        request = review.gate_input["request"]
        for name in (request, request[:6], request[:20]):
            assert find_record([file], name)[0].decision == review.decision
    with pytest.raises(BadInput, match=r"no decision with the id 000000nothing on record in .*records\.jsonl"):
        find_record([file], "000000nothing")
    with pytest.raises(BadInput, match="too short for a record's id: give at least 6"):
        find_record([file], "00000")


def test_an_id_of_several_records_names_them_and_a_whole_one_is_taken(file: Path) -> None:
    from test_contracts import RECORD

    with file.open("w", encoding="ascii") as target:
        for request in ("abcdef1", "abcdef12", "abcdef3"):
            document = {**RECORD, "input": {**RECORD["input"], "request": request}}
            target.write(_line(document))
        target.write(_line({**OUTCOME, "request": "abcdef4"}) + '{"torn')
    with pytest.raises(BadInput, match="3 decisions have ids that begin with abcdef: abcdef1, abcdef12, abcdef3"):
        find_record([file], "abcdef")
    assert find_record([file], "abcdef1")[0].input.request == "abcdef1"


def test_what_became_of_a_call_is_found_with_it_all_over_a_set(file: Path) -> None:
    from test_contracts import RECORD

    document = {**RECORD, "input": {**RECORD["input"], "request": "abcdef1"}}
    closed_name(file, 1).write_text(_line(document) + _line({**OUTCOME, "request": "abcdef12"}), encoding="ascii")
    file.write_text(_line({**OUTCOME, "request": "abcdef1"}), encoding="ascii")
    decision, outcomes = find_record([file], "abcdef")
    assert (decision.input.request, [one.request for one in outcomes]) == ("abcdef1", ["abcdef1"])


def test_texts_go_on_behind_what_cannot_be_read(file: Path, tmp_path: Path) -> None:
    closed_name(file, 1).write_bytes(gzip.compress(b"one\n")[:-4])
    file.write_text("\ntwo\n", encoding="ascii")
    found = list(open_texts([tmp_path / "absent", file, file, closed_name(file, 1)]))
    assert [line for _, line in found] == [None, "one", None, "two"]
    assert found[-2][0].endswith("records.000001.jsonl is damaged after line 1: EOFError")
    assert found[-1] == (f"{file} line 2", "two")


def _line(document: dict[str, object]) -> str:
    from ledgeragent.jsonio import canonical

    return canonical(document) + "\n"
