"""The files of a backtest, in pieces that fit into memory, from any place on.

JSONL and .gz; a place is a file, an offset in its uncompressed bytes and the number of lines before it. What a line
means is for others to say.
"""

from __future__ import annotations

import gzip
import hashlib
import sys
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final, cast

from ledgeragent.conversation import MAX_LINE
from ledgeragent.errors import BadInput
from ledgeragent.recordfiles import MAX_RECORD

STDIN: Final = "-"
_LONGEST: Final = max(MAX_LINE, MAX_RECORD)
_PIECE_LINES: Final = 64
_PIECE_BYTES: Final = 500_000
_HEAD: Final = 4096


@dataclass(frozen=True)
class Place:
    """Up to where files were read.

    Attributes:
        file: number of the file, from 0.
        offset: uncompressed bytes of it that were read.
        line: lines of it that were read.
    """

    file: int = 0
    offset: int = 0
    line: int = 0


@dataclass(frozen=True)
class Piece:
    """Some lines of one file, and the place after them.

    Attributes:
        name: the file, as messages name it.
        lines: (number from 1, text); None as text for one that is too long.
        end: the place after them.
        taken: bytes of all files that were read until here, as they lie on disk.
    """

    name: str
    lines: Sequence[tuple[int, str | None]]
    end: Place
    taken: int = field(default=0, compare=False)


def pieces(names: Sequence[str], start: Place) -> Iterator[Piece]:
    """The lines of the files from a place on.

    Raises:
        BadInput: when a file cannot be read.
    """
    taken = sum(_size(name) for name in names[: start.file])
    for number in range(start.file, len(names)):
        begin = start if number == start.file else Place(number)
        try:
            with _Stream(names[number], begin) as stream:
                for piece in stream.pieces():
                    yield Piece(piece.name, piece.lines, piece.end, taken + stream.taken())
        except (OSError, EOFError, zlib.error) as error:
            raise BadInput(f"{names[number]} cannot be read: {error}") from None
        taken += _size(names[number])


def total_size(names: Sequence[str]) -> int | None:
    """Bytes of all files on disk; None when one of them is stdin."""
    return None if STDIN in names else sum(_size(name) for name in names)


def identity(name: str) -> dict[str, Any]:
    """What tells whether a file is the one that was begun: more may have been written to its end since.

    Raises:
        BadInput: when it cannot be read, or is stdin, which cannot be read twice.
    """
    if name == STDIN:
        raise BadInput("a run over stdin cannot be resumed: give files, or leave --state out")
    try:
        with Path(name).open("rb") as stream:
            head = stream.read(_HEAD)
    except OSError as error:
        raise BadInput(f"{name} cannot be read: {error.strerror}") from None
    return {"name": name, "head": len(head), "digest": hashlib.sha256(head).hexdigest()}


def is_same(name: str, known: dict[str, Any]) -> bool:
    """Whether a file still begins as it did."""
    try:
        with Path(name).open("rb") as stream:
            head = stream.read(known["head"])
    except OSError:
        return False
    return len(head) == int(known["head"]) and hashlib.sha256(head).hexdigest() == str(known["digest"])


class _Stream:
    """One file being read."""

    def __init__(self, name: str, begin: Place) -> None:
        self._name = name
        self._raw: IO[bytes] = sys.stdin.buffer if name == STDIN else Path(name).open("rb")  # noqa: SIM115 - closed below
        self._lines: IO[bytes] = cast(IO[bytes], gzip.GzipFile(fileobj=self._raw)) if _is_gz(name) else self._raw
        self._at = begin
        if begin.offset:
            self._lines.seek(begin.offset)

    def __enter__(self) -> _Stream:
        return self

    def __exit__(self, *_: object) -> None:
        if self._name != STDIN:
            self._lines.close()
            self._raw.close()

    def taken(self) -> int:
        """Bytes of the file that were read, as it lies on disk."""
        return self._raw.tell() if self._name != STDIN else self._at.offset

    def pieces(self) -> Iterator[Piece]:
        while True:
            lines: list[tuple[int, str | None]] = []
            begin = self._at.offset
            while len(lines) < _PIECE_LINES and self._at.offset - begin < _PIECE_BYTES:
                found = self._next()
                if found is None:
                    break
                if found[1] is None or found[1].strip():
                    lines.append(found)
            if self._at.offset == begin:
                return
            yield Piece("stdin" if self._name == STDIN else self._name, lines, self._at)

    def _next(self) -> tuple[int, str | None] | None:
        raw = self._lines.readline(_LONGEST)
        if not raw:
            return None
        size, whole = len(raw), raw.endswith(b"\n") or len(raw) < _LONGEST
        while not raw.endswith(b"\n") and len(raw) == _LONGEST:
            raw = self._lines.readline(_LONGEST)
            size += len(raw)
        self._at = Place(self._at.file, self._at.offset + size, self._at.line + 1)
        # What is not UTF-8 comes with lone surrogates in it, which no reader of JSON takes.
        return self._at.line, raw.decode("utf-8", "surrogateescape") if whole else None


def _is_gz(name: str) -> bool:
    return name.endswith(".gz")


def _size(name: str) -> int:
    try:
        return 0 if name == STDIN else Path(name).stat().st_size
    except OSError as error:
        raise BadInput(f"{name} cannot be read: {error.strerror}") from None
