"""The files of a backtest, in pieces that fit into memory, from any place on.

JSONL and .gz, and the sets that rotation makes of record files; a place is a file, an offset in its uncompressed bytes
and the number of lines before it. It stays what it is when the file is closed or compressed in the meantime. What a
line means is for others to say.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO, Final

from ledgeragent.conversation import MAX_LINE
from ledgeragent.errors import BadInput
from ledgeragent.recordfiles import MAX_RECORD, STDIN, RecordFile, open_files, open_member, set_size, unpacked

_LONGEST: Final = max(MAX_LINE, MAX_RECORD)
_PIECE_LINES: Final = 64
_PIECE_BYTES: Final = 500_000
_HEAD: Final = 4096


@dataclass(frozen=True)
class Place:
    """Up to where files were read.

    Attributes:
        file: number of the file, or set of files, from 0.
        offset: uncompressed bytes of it that were read.
        line: lines of it that were read.
        member: which file of a set, as it is or will be numbered once it is closed.
    """

    file: int = 0
    offset: int = 0
    line: int = 0
    member: int = 1


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
    """The lines of the files from a place on; the file that is written stands for its set.

    Raises:
        BadInput: when a file cannot be read.
    """
    taken = sum(_size(name) for name in names[: start.file])
    if start.file < len(names):
        taken += set_size(names[start.file], below=start.member)
    for number in range(start.file, len(names)):
        for stream in _members(names[number], start if number == start.file else Place(number)):
            try:
                with stream:
                    for piece in stream.pieces():
                        yield Piece(piece.name, piece.lines, piece.end, taken + stream.taken())
                    taken += stream.taken()
            except (OSError, EOFError, zlib.error) as error:
                raise BadInput(f"{stream.name} cannot be read: {error}") from None


def _members(name: str, begin: Place) -> Iterator[_Stream]:
    """The files of a set from a place on."""
    if name == STDIN:
        for file in open_files([name]):
            yield _Stream(file, begin)
        return
    while (found := open_member(name, begin.member)) is not None:
        number, file = found
        if begin.offset and number != begin.member:
            file.close()
            raise BadInput(f"{name}: the file that was being read (number {begin.member} of its set) was removed since")
        yield _Stream(file, replace(begin, member=number))
        if file.name == name:
            return
        begin = Place(begin.file, member=number + 1)


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
    head = _head(name, _HEAD)
    return {"name": name, "head": len(head), "digest": hashlib.sha256(head).hexdigest()}


def is_same(name: str, known: dict[str, Any]) -> bool:
    """Whether a file still begins as it did."""
    try:
        head = _head(name, known["head"])
    except BadInput:
        return False
    return len(head) == int(known["head"]) and hashlib.sha256(head).hexdigest() == str(known["digest"])


def _head(name: str, size: int) -> bytes:
    """The first bytes of a file or set, uncompressed."""
    found = open_member(name, 1)
    assert found is not None  # there is a first one, or it said so
    with found[1].stream as stream:
        try:
            return unpacked(stream).read(size)
        except (OSError, EOFError, zlib.error) as error:
            raise BadInput(f"{name} cannot be read: {error}") from None


class _Stream:
    """One file being read."""

    def __init__(self, file: RecordFile, begin: Place) -> None:
        self.name = file.name
        self._raw = file.stream
        self._begin = begin
        self._at = begin
        self._lines: BinaryIO

    def __enter__(self) -> _Stream:
        self._lines = unpacked(self._raw)
        if self._begin.offset:
            self._lines.seek(self._begin.offset)
        return self

    def __exit__(self, *_: object) -> None:
        self._raw.close()

    def taken(self) -> int:
        """Bytes of the file that were read, as it lies on disk."""
        return self._raw.tell() if self._raw.seekable() else self._at.offset

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
            yield Piece(self.name, lines, self._at)

    def _next(self) -> tuple[int, str | None] | None:
        raw = self._lines.readline(_LONGEST)
        if not raw:
            return None
        size, whole = len(raw), raw.endswith(b"\n") or len(raw) < _LONGEST
        while not raw.endswith(b"\n") and len(raw) == _LONGEST:
            raw = self._lines.readline(_LONGEST)
            size += len(raw)
        self._at = replace(self._at, offset=self._at.offset + size, line=self._at.line + 1)
        # What is not UTF-8 comes with lone surrogates in it, which no reader of JSON takes.
        return self._at.line, raw.decode("utf-8", "surrogateescape") if whole else None


def _size(name: str) -> int:
    return 0 if name == STDIN else set_size(name)
