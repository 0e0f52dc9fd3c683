"""Result files: whole lines or none, one writer, one configuration."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path
from typing import Any

import pytest

from ledgeragent.errors import BadInput
from ledgeragent.results import CONTRACT, ResultWriter, read_results

HEADER = {"domain": "retail", "arm": "both", "temperature": 0.0, "tasks": ["0", "1"]}


def line(task: str, trial: int, **more: Any) -> dict[str, Any]:
    return {"task_id": task, "trial": trial, "simulation": {"reward": 1.0, "amount": 250.0}, **more}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "results.jsonl"


def written(path: Path, *lines: dict[str, Any], header: dict[str, Any] = HEADER) -> set[tuple[str, int]]:
    with ResultWriter(path, header) as file:
        before = set(file.done)
        for one in lines:
            file.add(one)
    return before


def test_what_was_written_is_read_again_number_for_number(path: Path) -> None:
    lines = [line("0", 0), line("1", 0, text="über \ud800")]
    written(path, *lines)

    file = read_results(path)

    assert (file.header, file.lines) == ({"contract": CONTRACT, **HEADER}, lines)
    assert '"amount":250.0' in path.read_text()


def test_a_run_goes_on_where_it_ended(path: Path) -> None:
    assert written(path, line("0", 0), line("1", 0)) == set()
    assert written(path, line("0", 1)) == {("0", 0), ("1", 0)}
    assert written(path) == {("0", 0), ("1", 0), ("0", 1)}
    assert [(one["task_id"], one["trial"]) for one in read_results(path).lines] == [("0", 0), ("1", 0), ("0", 1)]


def test_wherever_a_killed_process_stopped_writing_only_the_torn_line_is_lost(path: Path) -> None:
    written(path, line("0", 0), line("1", 0))
    whole = path.read_bytes()
    ends = [at + 1 for at, byte in enumerate(whole) if byte == 10]
    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        complete = sum(end <= cut for end in ends)
        if complete:
            assert len(read_results(path).lines) == complete - 1
        done = written(path, line("later", 0))
        assert done == {("0", 0), ("1", 0)} if complete == 3 else len(done) == max(complete - 1, 0)
        assert [one["task_id"] for one in read_results(path).lines][-1] == "later"


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ({**HEADER, "arm": "fc"}, 'arm is "both" there, "fc" here'),
        ({**HEADER, "mode": "one-call"}, 'mode is null there, "one-call" here'),
        ({**HEADER, "tasks": [str(n) for n in range(40)]}, 'tasks is ["0", "1"] there, ["0", "1", "2"'),
    ],
)
def test_another_configuration_is_refused_by_what_differs(path: Path, header: dict[str, Any], said: str) -> None:
    written(path, line("0", 0))
    before = path.read_bytes()

    with pytest.raises(BadInput, match="another configuration") as raised:
        written(path, header=header)

    assert said in str(raised.value)
    assert len(str(raised.value)) < 500
    assert path.read_bytes() == before


def test_two_writers_of_one_file_are_refused(path: Path) -> None:
    with ResultWriter(path, HEADER) as file:
        file.add(line("0", 0))
        with pytest.raises(BadInput, match="another process is writing"):
            ResultWriter(path, HEADER)
        file.add(line("1", 0))
    assert written(path) == {("0", 0), ("1", 0)}


@pytest.mark.parametrize("text", ["", "{}\n", "not json\n", '{"contract": "another/1"}\n', "some notes"])
def test_what_is_no_result_file_is_left_alone(path: Path, text: str) -> None:
    path.write_text(text)
    with pytest.raises(BadInput, match="is no result file"):
        read_results(path)
    if text:
        with pytest.raises(BadInput, match="no result file"):
            ResultWriter(path, HEADER)
        assert path.read_text() == text


@pytest.mark.parametrize("damaged", ["{not json", "[]", '{"task_id": "0"}'])
def test_a_damaged_line_is_named(path: Path, damaged: str) -> None:
    written(path, line("0", 0), line("1", 0))
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], damaged, lines[2]]) + "\n")

    with pytest.raises(BadInput, match="line 2 is"):
        read_results(path)
    with pytest.raises(BadInput, match="line 2 is"):
        ResultWriter(path, HEADER)


def test_a_line_that_does_not_fit_on_the_disk_leaves_nothing_behind(path: Path) -> None:
    with ResultWriter(path, HEADER) as file:
        file.add(line("0", 0))
        before = path.read_bytes()
        limited = multiprocessing.get_context("spawn").Process(target=_write_too_much, args=(str(path) + ".2",))
        limited.start()
        limited.join()
        assert limited.exitcode == 0
        assert path.read_bytes() == before
    assert [one["task_id"] for one in read_results(Path(str(path) + ".2")).lines] == ["0", "1"]


def _write_too_much(path: str) -> None:
    """In a process of its own: files may not grow beyond a limit for a while, as on a full disk."""
    import resource
    import signal

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with ResultWriter(Path(path), HEADER) as file:
        file.add(line("0", 0))
        size = Path(path).stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 20, resource.RLIM_INFINITY))
        with pytest.raises(OSError, match=r"20 of \d+ bytes were written"):
            file.add(line("too long", 0, text=json.dumps(["x"] * 50)))
        assert Path(path).stat().st_size == size
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        file.add(line("1", 0))
