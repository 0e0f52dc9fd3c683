"""Result files of a benchmark run: a header line, then one JSON line per finished simulation.

A line counts once it is on the disk whole, with its line feed. What a killed process left of a line is cut off when the
file is opened for writing, and passed over when it is read. One process writes at a time. What is in the lines is the
run's business.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from ledgeragent.errors import BadInput

CONTRACT: Final = "ledgeragent.tau2_results/1"
_SHOWN: Final = 60


@dataclass(frozen=True)
class ResultFile:
    """What a result file holds.

    Attributes:
        header: the run's configuration.
        lines: the finished simulations.
    """

    header: Mapping[str, Any]
    lines: list[dict[str, Any]]


def is_result_file(first_line: str) -> bool:
    """Whether a file that begins so is one of ours."""
    try:
        head = json.loads(first_line)
    except ValueError:
        return False
    return isinstance(head, dict) and head.get("contract") == CONTRACT


def read_results(path: Path) -> ResultFile:
    """Read a result file; a torn last line is passed over.

    Raises:
        BadInput: when it cannot be read, is no result file, or has a line that is not what was written.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error}") from None
    return _parsed(path, raw[: raw.rfind(b"\n") + 1])


def _parsed(path: Path, whole: bytes) -> ResultFile:
    lines = whole.split(b"\n")[:-1]
    if not lines or not is_result_file(lines[0].decode("utf-8", "replace")):
        raise BadInput(f"{path} is no result file of `ledgeragent tau2 run` ({CONTRACT})")
    return ResultFile(json.loads(lines[0]), [_line(path, number, line) for number, line in enumerate(lines[1:], 2)])


def _line(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except ValueError as error:
        raise BadInput(
            f"{path} line {number} is damaged ({error}): delete that line, and the run does it again"
        ) from None
    if not isinstance(value, dict) or not {"task_id", "trial", "simulation"} <= value.keys():
        raise BadInput(f"{path} line {number} is no simulation: delete that line, and the run does it again")
    return value


class ResultWriter:
    """Appends finished simulations to a result file that it holds locked; a context manager.

    Attributes:
        done: (task, trial) of the simulations that are in the file.
    """

    def __init__(self, path: Path, header: Mapping[str, Any]) -> None:
        """Begin a file, or go on with one of the same configuration.

        Args:
            path: the file.
            header: the run's configuration.

        Raises:
            BadInput: when another process writes it, it is no result file, or it is of another configuration.
        """
        self.path = path
        self.header = {"contract": CONTRACT, **header}
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise BadInput(f"{path} cannot be written: {error}") from None
        try:
            self._lock()
            self.done = self._begin()
        except BaseException:
            os.close(self._file)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._file)

    def add(self, line: Mapping[str, Any]) -> None:
        """Append a finished simulation; it is on the disk when this returns.

        Raises:
            OSError: when it could not be written whole; nothing of it is left in the file.
        """
        self._append(line)
        self.done.add((str(line["task_id"]), int(line["trial"])))

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BadInput(
                f"another process is writing {self.path}: wait for it, or write to another file with --out"
            ) from None

    def _begin(self) -> set[tuple[str, int]]:
        whole = self.path.read_bytes()
        end = whole.rfind(b"\n") + 1
        found = _parsed(self.path, whole[:end]) if end else None
        if found is not None:
            self._must_be_ours(found.header)
        elif whole and not _text(self.header).startswith(whole):
            raise BadInput(f"{self.path} is there and is no result file: write to another file with --out")
        os.ftruncate(self._file, end)
        os.lseek(self._file, end, os.SEEK_SET)
        if found is None:
            self._append(self.header)
            self._sync_folder()
            return set()
        return {(str(line["task_id"]), int(line["trial"])) for line in found.lines}

    def _must_be_ours(self, there: Mapping[str, Any]) -> None:
        mine = json.loads(_text(self.header))
        differing = [key for key in {**there, **mine} if there.get(key) != mine.get(key)]
        if differing:
            shown = "; ".join(
                f"{key} is {_short(there.get(key))} there, {_short(mine.get(key))} here" for key in differing
            )
            raise BadInput(
                f"{self.path} holds a run of another configuration: {shown}. Go on with the options it was begun with, "
                f"or write to another file with --out"
            )

    def _append(self, value: Mapping[str, Any]) -> None:
        line = _text(value)
        end = os.lseek(self._file, 0, os.SEEK_CUR)
        try:
            written = os.write(self._file, line)
            if written != len(line):
                raise OSError(f"{self.path}: only {written} of {len(line)} bytes were written")
            os.fsync(self._file)
        except OSError:
            os.ftruncate(self._file, end)
            os.lseek(self._file, end, os.SEEK_SET)
            raise

    def _sync_folder(self) -> None:
        folder = os.open(self.path.resolve().parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _text(value: Mapping[str, Any]) -> bytes:
    """One line. Numbers stay as they are: a database in which 250.0 became 250 has another digest."""
    return json.dumps(value, separators=(",", ":")).encode("ascii") + b"\n"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
