"""What a backtest found so far, on disk: a run's memory does not grow with it, and another run can go on from there.

One JSON line says what the run is about; then one line for each piece of the input, with the place after it, what was
counted and the calls that changed. A line is written whole or does not count: after an end of any kind, each piece is
in the journal exactly once, or will be judged again.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self

from ledgeragent.backtest.lines import Place, is_same
from ledgeragent.errors import BadInput

CONTRACT: Final = "ledgeragent.backtest/1"
_HEAD: Final = b'{"contract": "ledgeragent.backtest'


class Journal:
    """The file; a context manager. Without a path it is a temporary one that goes with the run."""

    def __init__(self, path: Path | None, about: Mapping[str, Any]) -> None:
        """Begin a journal, or go on with one.

        Args:
            path: the file, or None.
            about: what the run is about: `files` (see `lines.identity`), and whatever must be the same to go on.

        Raises:
            BadInput: when the file is about another run, or is none of ours.
        """
        self.place = Place()
        self.resumed = False
        self._file: IO[bytes] = self._opened(path)
        try:
            self._begin(path, {"contract": CONTRACT, **about})
        except BaseException:
            self._file.close()
            raise

    @staticmethod
    def _opened(path: Path | None) -> IO[bytes]:
        if path is None:
            return tempfile.TemporaryFile(prefix="ledgeragent-backtest-")
        try:
            return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b")
        except OSError as error:
            raise BadInput(f"--state {path}: {error.strerror}") from None

    def _begin(self, path: Path | None, about: dict[str, Any]) -> None:
        head = self._file.readline()
        if not head.endswith(b"\n"):
            if not (head.startswith(_HEAD) or _HEAD.startswith(head)):
                raise BadInput(f"--state {path}: this is not the state of a backtest; it is left alone")
            self._file.seek(0)
            self._file.truncate()
            self._append(about)
            return
        _check_same(path, head, about)
        self.resumed = True
        whole = self._file.tell()
        for line in self._file:
            found = _parsed(line)
            if found is None:
                break
            self.place = Place(*found["place"])
            whole += len(line)
        self._file.seek(whole)
        self._file.truncate()

    def add(self, place: Place, counts: Mapping[str, int], rows: list[dict[str, Any]]) -> None:
        """Keep what was found in one piece."""
        self._append({"place": [place.file, place.offset, place.line, place.member], "counts": counts, "rows": rows})
        self.place = place

    def _append(self, document: Mapping[str, Any]) -> None:
        self._file.seek(0, os.SEEK_END)
        # With ASCII only, what a cut-off line lacks is its end, never a part of a character.
        self._file.write(json.dumps(document, separators=(", ", ": ")).encode("ascii") + b"\n")
        self._file.flush()

    def counts(self) -> Counter[str]:
        """Everything that was counted."""
        total: Counter[str] = Counter()
        for entry in self._entries():
            total.update(entry["counts"])
        return total

    def rows(self) -> Iterator[dict[str, Any]]:
        """The calls that changed, in the order of the input."""
        for entry in self._entries():
            yield from entry["rows"]

    def _entries(self) -> Iterator[dict[str, Any]]:
        self._file.seek(0)
        self._file.readline()
        for line in self._file:
            found = _parsed(line)
            if found is not None:
                yield found

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line) if line.endswith(b"\n") else None
    except ValueError:
        return None
    return found if isinstance(found, dict) and found.keys() == {"place", "counts", "rows"} else None


def _check_same(path: Path | None, head: bytes, about: Mapping[str, Any]) -> None:
    try:
        known = json.loads(head)
    except ValueError:
        known = None
    if not isinstance(known, dict) or known.get("contract") != CONTRACT:
        raise BadInput(f"--state {path}: this is not the state of a backtest; it is left alone")
    other = [name for name in about if name != "files" and known.get(name) != about[name]]
    mine = [one["name"] for one in about["files"]]
    if [one["name"] for one in known["files"]] != mine or not all(is_same(one["name"], one) for one in known["files"]):
        other.append("files")
    if other:
        raise BadInput(
            f"--state {path} was begun with other {', '.join(sorted(other))}: take another file, or remove it"
        )
