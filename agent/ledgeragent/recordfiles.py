"""Files of records as bytes: their lines, the set that rotation makes of one file, the digests that chain lines.

    records.000001.jsonl.gz    closed and compressed
    records.000002.jsonl       the newest closed one: left as it is until the next is closed
    records.jsonl              the one that is written; its name stands for the whole set

A line is whole when it is one JSON object: what a crash or a full disk cut off never is. Chains go from whole line to
whole line. What stands in a line is the business of `records`, writing and rotating that of `records` and `rotation`.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import re
import sys
import zlib
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, cast

from ledgeragent.errors import BadInput

MAX_RECORD: Final = 64_000_000
"""Longest line that is written or read as a record, in bytes."""

STDIN: Final = "-"
_TAIL: Final = 65_536
_CUT_OFF: Final = 100
"""So many lines at the end of a compressed file are looked at."""
_GZIP: Final = b"\x1f\x8b"
_NUMBERED: Final = re.compile(r"(?P<stem>.+)\.\d{6,}(?P<suffix>\.[^.]+)?")


class DamagedFile(BadInput):
    """A compressed file that cannot be read to its end, or a line that is too long to be a record."""


@dataclass(frozen=True)
class Line:
    """A line of a record file.

    Attributes:
        file: the file's name as it was given or found.
        number: counted from 1.
        text: its bytes, without the line end.
        ended: whether there is a line end.
        of: the name of the file whose set this file belongs to.
    """

    file: str
    number: int
    text: bytes
    ended: bool
    of: str

    @property
    def place(self) -> str:
        """Where it stands, for messages."""
        return f"{self.file}: line {self.number}"


def line_digest(text: bytes) -> str:
    """What chains a line to the next: the SHA-256 of its bytes without the line end, as `sha256:<hex>`."""
    return "sha256:" + hashlib.sha256(text).hexdigest()


BEGINNING: Final = line_digest(b"")
"""What the first record of a chain carries: the digest of nothing."""


def is_whole(text: bytes) -> bool:
    """Whether a line is a JSON object; no part of a record is one."""
    if not (text.startswith(b"{") and text.endswith(b"}")):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


# Sets -----------------------------------------------------------------------------------------------------------


def closed_name(path: Path, number: int) -> Path:
    """What a file of records is called once it is closed as the `number`th."""
    return path.with_name(f"{path.stem}.{number:06}{path.suffix}")


def closed_files(path: Path) -> dict[int, Path]:
    """The closed files of a set by number, the oldest first; one that is there twice, not compressed.

    Args:
        path: the file that is written.

    Raises:
        OSError: when the folder cannot be read.
    """
    own = re.compile(re.escape(path.stem) + r"\.(\d{6,})" + re.escape(path.suffix) + r"(\.gz)?")
    found: dict[int, Path] = {}
    for one in sorted(path.parent.iterdir(), reverse=True):
        match = own.fullmatch(one.name)
        if match is not None:
            found[int(match[1])] = one  # the name without .gz comes last
    return dict(sorted(found.items()))


def set_of(name: str) -> str:
    """The file whose set a file belongs to, by its name: its own, unless it has the name of a closed one."""
    path = Path(name.removesuffix(".gz"))
    numbered = _NUMBERED.fullmatch(path.name)
    return str(path.with_name(numbered["stem"] + (numbered["suffix"] or ""))) if numbered is not None else name


def set_head(path: Path) -> str | None:
    """The digest of the last whole line in the closed files of a set, or None.

    Raises:
        OSError: when a file cannot be read.
    """
    for closed in reversed(closed_files(path).values()):
        with _opened(closed) as stream:
            found = last_whole(stream.fileno()) if stream.peek(2)[:2] != _GZIP else _last_of(_unpacked(stream))
        if found is not None:
            return line_digest(found)
    return None


def last_whole(file: int) -> bytes | None:
    """The last whole line of an open file that is not compressed, without reading more of it than need be."""
    size = os.fstat(file).st_size
    take = _TAIL
    while True:
        start = max(0, size - take)
        lines = os.pread(file, size - start, start).split(b"\n")
        for line in reversed(lines if start == 0 else lines[1:]):
            if is_whole(line):
                return line
        if start == 0:
            return None
        take *= 4


def _last_of(stream: BinaryIO) -> bytes | None:
    lines = deque((line.rstrip(b"\n") for line in stream), maxlen=_CUT_OFF)
    return next((one for one in reversed(lines) if is_whole(one)), None)


def sync_folder(folder: Path) -> None:
    """Have the names in a folder on the disk."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


# Reading --------------------------------------------------------------------------------------------------------


class RecordFile:
    """A file of a set, open for reading; compressed or not."""

    def __init__(self, name: str, stream: io.BufferedReader) -> None:
        self.name = name
        self._stream = stream

    def lines(self) -> Iterator[Line]:
        """Its lines, one at a time; empty ones are passed over.

        Raises:
            DamagedFile: when it cannot be read to the end.
        """
        of = set_of(self.name)
        with self._stream as raw:
            number = 0
            try:
                packed = raw.peek(2)[:2] == _GZIP
                stream: BinaryIO = _unpacked(raw) if packed else raw
                while text := stream.readline(MAX_RECORD + 2):
                    number += 1
                    if len(text) > MAX_RECORD + 1:
                        raise DamagedFile(f"{self.name}: line {number} is longer than {MAX_RECORD:,} bytes")
                    if text.strip():
                        yield Line(self.name, number, text.removesuffix(b"\n"), text.endswith(b"\n"), of)
            except (OSError, EOFError, zlib.error) as error:
                raise DamagedFile(f"{self.name} is damaged after line {number}: {type(error).__name__}") from None

    def close(self) -> None:
        """Close it."""
        self._stream.close()


def open_files(names: Iterable[str | Path]) -> Iterator[RecordFile]:
    """Open record files one after the other, each set in the order in which it was written, no file twice.

    Args:
        names: files, compressed or not; the name of the file that is written stands for its whole set; `-` for stdin.

    Raises:
        BadInput: when there is none of a name, or it cannot be opened.
    """
    seen: set[tuple[int, int]] = set()
    for name in map(str, names):
        if name == STDIN:
            yield RecordFile("stdin", open(sys.stdin.fileno(), "rb", closefd=False))  # noqa: SIM115 - it closes it
            continue
        for file in _set(name):
            status = os.fstat(file._stream.fileno())
            if (status.st_dev, status.st_ino) in seen:
                file.close()
            else:
                seen.add((status.st_dev, status.st_ino))
                yield file


def _set(name: str) -> Iterator[RecordFile]:
    path = Path(name)
    try:
        own = _opened(path)
    except FileNotFoundError:
        own = None
    except OSError as error:
        raise _unreadable(name, error) from None
    # Opened first: what is closed from now on is then met twice rather than not at all.
    with closing(own) if own is not None else io.BytesIO():
        try:
            closed = list(closed_files(path).values())
        except OSError:
            closed = []
        if own is None and not closed:
            raise BadInput(f"{name} cannot be read: No such file or directory")
        own_file = os.fstat(own.fileno()) if own is not None else None
        for one in closed:
            yield from _closed(one, own_file)
        if own is not None:
            yield RecordFile(name, own)


def _closed(path: Path, written: os.stat_result | None) -> Iterator[RecordFile]:
    try:
        try:
            stream = _opened(path)
        except FileNotFoundError:  # compressed meanwhile
            path = path.with_name(path.name + ".gz")
            stream = _opened(path)
    except OSError as error:
        raise _unreadable(str(path), error) from None
    if written is not None and os.path.samestat(os.fstat(stream.fileno()), written):
        stream.close()
        return
    yield RecordFile(str(path), stream)


def _opened(path: Path) -> io.BufferedReader:
    return path.open("rb")


def _unreadable(name: str, error: OSError) -> BadInput:
    return BadInput(f"{name} cannot be read: {error.strerror}")


def _unpacked(stream: BinaryIO) -> BinaryIO:
    return cast(BinaryIO, gzip.GzipFile(fileobj=stream, mode="rb"))
