"""Decision records: one JSON line per decision and per outcome.

A decision record holds the exact input, so it can be judged again offline; those who may not keep that give the
recorder a form that `redact` has. A record that cannot be written means that the decision is withheld: what is not on
record does not run. Files and their sets are `recordfiles`' and `rotation`'s part, checking records that of `verify`.
"""

from __future__ import annotations

import fcntl
import logging
import os
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Protocol

from pydantic import TypeAdapter, ValidationError

from ledgeragent.contracts import DecisionRecord, OutcomeRecord, described
from ledgeragent.errors import BadInput, RecordError
from ledgeragent.jsonio import canonical, parse
from ledgeragent.recordfiles import (
    BEGINNING,
    MAX_RECORD,
    Line,
    closed_files,
    is_whole,
    last_whole,
    line_digest,
    open_files,
    set_head,
    sync_folder,
)
from ledgeragent.rotation import Rotation

Record = DecisionRecord | OutcomeRecord

_LOCK_SECONDS: Final = 5.0
SHORTEST_ID: Final = 6
"""So many characters of a record's id are taken for it, if no other has the same."""

_PREVIOUS: Final = len('"sha256:') + 64 + 1
_SHOWN: Final = 10
_log = logging.getLogger(__name__)

_RECORDS: Final = TypeAdapter[Record](Record)


class Recorder(Protocol):
    """Takes records; raises `RecordError` when one cannot be kept."""

    def write(self, record: Record) -> None: ...


class Redact(Protocol):
    """A form of keeping records: gives the one that may be kept. `redact` has those there are."""

    def __call__(self, record: Record) -> Record: ...


class JsonlRecorder:
    """Appends records to a file, each flushed to the disk before the decision is given out.

    Thread-safe, and several processes may write one file, rotated or not, if all give the same limits. Each record
    carries the digest of the one before it (`previous`), so that a record that was changed, removed or moved shows.
    """

    def __init__(
        self,
        path: Path,
        redact: Redact | None = None,
        *,
        chain: bool = True,
        max_bytes: int | None = None,
        max_total_bytes: int | None = None,
    ) -> None:
        """Open the file for appending.

        Args:
            path: the file.
            redact: what is kept of a record; None keeps it as it is, facts about persons included.
            chain: whether records carry the digest of the one before.
            max_bytes: the size that a file may have: a record that has no room closes it as `NAME.000001.jsonl` and so
                on (compressed when the next one is closed), and begins another. None: it grows.
            max_total_bytes: the size that all files together may have: beyond it the oldest are removed. None: nothing
                is removed; where no room is left nothing is recorded, and so nothing is let through.

        Raises:
            RecordError: when it cannot be opened.
            BadInput: when a limit could not be meant.
        """
        self.path = path
        self._place = Path(os.path.realpath(path))
        self._redact = redact
        self._chain = chain
        self._rotation = Rotation(self._place, max_bytes, max_total_bytes)
        self._longest = min(MAX_RECORD, max_bytes or MAX_RECORD)
        self._lock = threading.Lock()
        self._sync_lock = threading.Lock()
        self._written = 0
        self._synced = 0
        self._lost = 0
        self._head: str | None = None
        self._known: int | None = None  # the size at which `_head` is the digest of the file's last record
        self._missed: str | None = None
        self._closed = 0  # the number of the file that was closed last when this one was opened
        self._file: int | None = self._opened()

    @property
    def head(self) -> str | None:
        """The digest of the last record written here: kept elsewhere, it shows a file that was cut short later."""
        return self._head

    def write(self, record: Record) -> None:
        """Append one line.

        Raises:
            RecordError: when the line did not reach the disk whole.
        """
        halves = _halves(self._kept(record))
        length = sum(map(len, halves)) + _PREVIOUS
        if length > self._longest:
            raise RecordError(f"the record has {length:,} bytes; at most {self._longest:,} are taken")
        try:
            with self._lock:
                number = self._append(halves, length)
            self._sync(number)
        except OSError as error:
            raise RecordError(f"the record file {self.path} cannot be written: {error}") from error

    def _kept(self, record: Record) -> Record:
        if self._redact is None:
            return record
        try:
            return self._redact(record)
        except RecordError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever breaks there, nothing unredacted is written
            raise RecordError(f"the record cannot be redacted ({type(error).__name__} in its form)") from None

    def _opened(self) -> int:
        try:
            closed = max(closed_files(self._place), default=0)
            # A file that was not closed but taken away: the chain goes on from what was in it, so that it is missed.
            self._missed = self._head if closed == self._closed else None
            self._closed = closed
            flags = os.O_RDWR | os.O_APPEND
            try:
                return os.open(self._place, flags)
            except FileNotFoundError:
                file = os.open(self._place, flags | os.O_CREAT, 0o600)
                sync_folder(self._place.parent)
                return file
        except OSError as error:
            raise RecordError(f"the record file {self.path} cannot be opened: {error}") from error

    def _append(self, halves: tuple[bytes, bytes], length: int) -> int:
        """Write a line; its number in this process."""
        if self._file is None:
            raise RecordError(f"the record file {self.path} is closed: the decision cannot be recorded")
        while True:
            if not self._in_place():  # closed by another process, or deleted: what went there would be lost
                self._exchange(self._opened())
            with _locked(self._file):
                if not self._in_place():
                    continue
                size = os.fstat(self._file).st_size
                if not self._rotation.due(size, length):
                    self._put(halves, size)
                    self._written += 1
                    return self._written
                closed = self._rotation.turn()
                _log.info("records: %s is closed, its head is %s", closed.name, self._previous(size))

    def _in_place(self) -> bool:
        """Whether the open file is still the one under its name."""
        assert self._file is not None
        try:
            return os.path.samestat(os.fstat(self._file), os.stat(self._place))  # noqa: PTH116 - by its descriptor's side
        except FileNotFoundError:
            return False

    def _put(self, halves: tuple[bytes, bytes], size: int) -> None:
        assert self._file is not None
        previous = (self._previous(size) or BEGINNING) if self._chain else None
        line = halves[0] + (b"null" if previous is None else b'"' + previous.encode() + b'"') + halves[1]
        # What a full disk or the end of a process cut off stays a line of its own.
        whole = line if _ends_whole(self._file) else b"\n" + line
        self._known = None
        if os.write(self._file, whole) != len(whole):
            raise OSError("only a part of the line was written")
        self._head = line_digest(line[:-1])
        self._known = os.fstat(self._file).st_size

    def _previous(self, size: int) -> str | None:
        """The digest of the last record; read from the disk when others wrote since."""
        if size == self._known:
            return self._head
        assert self._file is not None
        last = last_whole(self._file) if size > 0 else None
        if last is not None:
            return line_digest(last)
        return self._missed or set_head(self._place)

    def _sync(self, number: int) -> None:
        """Have a line on the disk. Those that are written while one waits for the disk share the next wait."""
        with self._sync_lock:
            if number <= self._synced:
                return
            if number <= self._lost or self._file is None:  # a later success says nothing of what a failure dropped
                raise OSError("the disk did not take it")
            upto = self._written
            try:
                os.fsync(self._file)
            except OSError:
                self._lost = upto
                raise
            self._synced = upto

    def _exchange(self, file: int | None) -> None:
        with self._sync_lock:
            if self._file is not None:
                self._leave(self._file)
            self._known = None
            self._file = file  # the system gives a closed one's number out again

    def _leave(self, file: int) -> None:
        """Close a file; what waits for the disk has it, or is lost with a file that was deleted."""
        try:
            if os.fstat(file).st_nlink == 0:
                raise OSError("it was deleted")
            if self._synced < self._written and self._lost < self._written:
                os.fsync(file)
                self._synced = self._written
        except OSError:
            self._lost = self._written
        finally:
            os.close(file)

    def close(self) -> None:
        """Close the file; may be called more than once. Writing afterwards is an error."""
        with self._lock:
            if self._file is not None and self._head is not None:
                _log.info("records: %s is left, its head here is %s", self.path.name, self._head)
            self._exchange(None)
        self._rotation.finish()


def _halves(record: Record) -> tuple[bytes, bytes]:
    """The line of a record before and after the value of `previous`, which is known once the file is locked."""
    document = record.model_dump(mode="json", exclude={"previous"})
    before = canonical({key: value for key, value in document.items() if key < "previous"})
    after = canonical({key: value for key, value in document.items() if key > "previous"})
    return f'{before[:-1]},"previous":'.encode("ascii"), f",{after[1:]}\n".encode("ascii")


@contextmanager
def _locked(file: int) -> Iterator[None]:
    """Keep other processes from appending meanwhile; one that holds the lock and does not go on is not waited for."""
    deadline = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise OSError(f"another process has locked it for {_LOCK_SECONDS} s") from None
            time.sleep(0.001)
    try:
        yield
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)


def _ends_whole(file: int) -> bool:
    size = os.fstat(file).st_size
    return size == 0 or os.pread(file, 1, size - 1) == b"\n"


def wall_clock() -> str:
    """The host's time now, RFC 3339 with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def parse_record(text: str, *, place: str) -> Record:
    """Read one record.

    Args:
        text: its JSON text.
        place: where it stands, for the error message ("line 7 of records.jsonl").

    Raises:
        BadInput: when it is no record; nothing of the text is quoted.
    """
    parse(text, what=place, limit=MAX_RECORD)
    try:
        return _RECORDS.validate_json(text)
    except ValidationError as error:
        raise BadInput(f"{place} is no record: {described(error)}") from None


def read_records(path: Path) -> Iterator[Record]:
    """The records of a file, or of the set that its rotation made of it, in order; compressed or not, `-` for stdin.

    Raises:
        BadInput: when a file cannot be read, or a line is no record.
    """
    for file in open_files([path]):
        for line in file.lines():
            yield record_of(line)


def record_of(line: Line) -> Record:
    """The record of a line.

    Raises:
        BadInput: when it is none; for one that is cut off, saying so.
    """
    try:
        return parse_record(line.text.decode("utf-8", "surrogateescape"), place=line.place)
    except BadInput:
        if is_whole(line.text):
            raise
    raise BadInput(
        f"{line.place} is no whole record: cut off by a crash or a full disk, or damaged (`ledgeragent records verify` "
        "tells which)"
    )


def find_record(files: Iterable[str | Path], name: str) -> tuple[DecisionRecord, list[OutcomeRecord]]:
    """The record of one decision, and those of what became of its call.

    Args:
        files: where to look; as for `read_records`.
        name: the decision's request id, or its first characters, six or more, if no other begins with them.

    Raises:
        BadInput: when there is none, or more than one (the message names them); or a file cannot be read.
    """
    if len(name) < SHORTEST_ID:
        raise BadInput(f"{name!r} is too short for a record's id: give at least {SHORTEST_ID} characters")
    found: dict[str, DecisionRecord] = {}
    outcomes: list[OutcomeRecord] = []
    for record in _records_with(files, name):
        if isinstance(record, OutcomeRecord):
            outcomes.append(record)
        elif record.input.request.startswith(name):
            found.setdefault(record.input.request, record)
    if name in found:
        found = {name: found[name]}
    if len(found) == 1:
        [(request, decision)] = found.items()
        return decision, [one for one in outcomes if one.request == request]
    if not found:
        raise BadInput(f"no decision with the id {name} on record in {', '.join(map(str, files))}")
    raise BadInput(f"{len(found)} decisions have ids that begin with {name}: {', '.join(list(found)[:_SHOWN])}")


def _records_with(files: Iterable[str | Path], name: str) -> Iterator[Record]:
    text = canonical(name)[1:-1].encode("ascii")
    for file in open_files(files):
        for line in file.lines():
            if text in line.text:
                yield record_of(line)
