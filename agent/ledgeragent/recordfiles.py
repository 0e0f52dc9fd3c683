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
from contextlib import closing, suppress
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
            plain = unpacked(stream)
            found = last_whole(stream.fileno()) if plain is stream else _last_of(plain)
        if found is not None:
            return line_digest(found)
    return None


def without_members(names: Iterable[str]) -> list[str]:
    """Names of files without those that another one stands for: named twice, or closed files of a set."""
    distinct = list(dict.fromkeys(names))
    return [name for name in distinct if set_of(name) == name or set_of(name) not in distinct]


def open_member(name: str, number: int) -> tuple[int, RecordFile] | None:
    """Open a file of a set, for those who read it file by file, perhaps on different days.

    Args:
        name: the file that is written.
        number: which one, as it is or will be numbered once it is closed.

    Returns:
        Its number and the file; the next one, where it is gone; None behind the one that is written.

    Raises:
        BadInput: when there is none of the name, or it cannot be opened.
    """
    path = Path(name)
    own = _own(path)
    # Opened first: it is either still the one that is written, or among the closed ones by now.
    try:
        closed = closed_files(path)
    except OSError:
        closed = {}
    last = max(closed, default=0)
    if number <= last:
        if own is not None:
            own.close()
        number = min(one for one in closed if one >= number)
        return number, next(_closed(closed[number], None))
    if own is not None:
        return last + 1, RecordFile(name, own)
    if not closed:
        raise BadInput(f"{name} cannot be read: No such file or directory")
    return None


def set_size(name: str, below: int | None = None) -> int:
    """Bytes on disk of the files of a set, or of its closed ones below a number; what is not there counts nothing."""
    path = Path(name)
    total = 0
    with suppress(OSError):
        for number, one in closed_files(path).items():
            if below is None or number < below:
                total += one.stat().st_size
    if below is None:
        with suppress(OSError):
            total += path.stat().st_size
    return total


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
    """A file of a set, open for reading; compressed or not.

    Attributes:
        name: as it was given or found.
        stream: its bytes as they lie on disk.
    """

    def __init__(self, name: str, stream: io.BufferedReader) -> None:
        self.name = name
        self.stream = stream

    def lines(self) -> Iterator[Line]:
        """Its lines, one at a time; empty ones are passed over.

        Raises:
            DamagedFile: when it cannot be read to the end.
        """
        of = set_of(self.name)
        with self.stream as raw:
            number = 0
            try:
                stream = unpacked(raw)
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
        self.stream.close()


def open_files(names: Iterable[str | Path], seen: set[tuple[int, int]] | None = None) -> Iterator[RecordFile]:
    """Open record files one after the other, each set in the order in which it was written, no file twice.

    Args:
        names: files, compressed or not; the name of the file that is written stands for its whole set; `-` for stdin.
        seen: the files that were opened before (device, inode), for callers that give one name at a time.

    Raises:
        BadInput: when there is none of a name, or it cannot be opened.
    """
    seen = set() if seen is None else seen
    for name in map(str, names):
        if name == STDIN:
            yield RecordFile("stdin", open(sys.stdin.fileno(), "rb", closefd=False))  # noqa: SIM115 - it closes it
            continue
        for file in _set(name):
            status = os.fstat(file.stream.fileno())
            if (status.st_dev, status.st_ino) in seen:
                file.close()
            else:
                seen.add((status.st_dev, status.st_ino))
                yield file


def open_texts(names: Iterable[str | Path]) -> Iterator[tuple[str, str | None]]:
    """The lines of files as texts, each set in its order, no file twice.

    Yields:
        (place, line) with the place as "FILE line N"; of a file that cannot be read, or not to its end, (what is
        wrong, None), and then the next one. What is not UTF-8 comes with lone surrogates, which no reader of JSON
        takes.
    """
    seen: set[tuple[int, int]] = set()
    for name in names:
        try:
            for file in open_files([name], seen):
                yield from _texts(file)
        except BadInput as error:
            yield str(error), None


def _texts(file: RecordFile) -> Iterator[tuple[str, str | None]]:
    try:
        for line in file.lines():
            yield f"{line.file} line {line.number}", line.text.decode("utf-8", "surrogateescape")
    except DamagedFile as error:
        yield str(error), None


def _set(name: str) -> Iterator[RecordFile]:
    path = Path(name)
    own = _own(path)
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


def _own(path: Path) -> io.BufferedReader | None:
    try:
        return _opened(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unreadable(str(path), error) from None


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


def unpacked(stream: io.BufferedReader) -> BinaryIO:
    """The content of an open file: itself, unless it is compressed."""
    if stream.peek(2)[:2] != _GZIP:
        return stream
    return cast(BinaryIO, gzip.GzipFile(fileobj=stream, mode="rb"))
