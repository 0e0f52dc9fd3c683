"""Decision records: one JSON line per decision and per outcome.

A decision record holds the exact input, so it can be judged again offline; those who may not keep that give the
recorder a form that `redact` has. A record that cannot be written means that the decision is withheld: what is not on
record does not run.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Protocol

from pydantic import TypeAdapter, ValidationError

from ledgeragent.contracts import DecisionRecord, OutcomeRecord, described
from ledgeragent.errors import BadInput, RecordError
from ledgeragent.jsonio import canonical, parse

Record = DecisionRecord | OutcomeRecord

_LOCK_SECONDS: Final = 5.0
MAX_RECORD: Final = 64_000_000
"""Longest line that is read as a record, in characters."""

_RECORDS: Final = TypeAdapter[Record](Record)


class Recorder(Protocol):
    """Takes records; raises `RecordError` when one cannot be kept."""

    def write(self, record: Record) -> None: ...


class Redact(Protocol):
    """A form of keeping records: gives the one that may be kept. `redact` has those there are."""

    def __call__(self, record: Record) -> Record: ...


class JsonlRecorder:
    """Appends records to a file, each flushed to the disk before the decision is given out.

    Thread-safe, and several processes may write one file.
    """

    def __init__(self, path: Path, redact: Redact | None = None) -> None:
        """Open the file for appending.

        Args:
            path: the file.
            redact: what is kept of a record; None keeps it as it is, facts about persons included.

        Raises:
            RecordError: when it cannot be opened.
        """
        self.path = path
        self._redact = redact
        self._lock = threading.Lock()
        self._sync_lock = threading.Lock()
        self._written = 0
        self._synced = 0
        self._lost = 0
        self._file: int | None = self._opened()

    def write(self, record: Record) -> None:
        """Append one line.

        Raises:
            RecordError: when the line did not reach the disk whole.
        """
        line = (canonical(self._kept(record).model_dump(mode="json")) + "\n").encode("ascii")
        try:
            with self._lock:
                number = self._append(line)
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
            return os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        except OSError as error:
            raise RecordError(f"the record file {self.path} cannot be opened: {error}") from error

    def _append(self, line: bytes) -> int:
        """Write a line; its number in this process."""
        if self._file is None:
            raise RecordError(f"the record file {self.path} is closed: the decision cannot be recorded")
        if os.fstat(self._file).st_nlink == 0:  # deleted: what went there would be lost
            self._exchange(self._opened())
        with _locked(self._file):
            # What a full disk or the end of a process cut off stays a line of its own.
            whole = line if _ends_whole(self._file) else b"\n" + line
            if os.write(self._file, whole) != len(whole):
                raise OSError("only a part of the line was written")
        self._written += 1
        return self._written

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
                os.close(self._file)
            self._lost = self._written
            self._file = file  # the system gives a closed one's number out again

    def close(self) -> None:
        """Close the file; may be called more than once. Writing afterwards is an error."""
        with self._lock:
            self._exchange(None)


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
    """The records of a file, in order.

    Raises:
        BadInput: when the file cannot be read, or a line is no record.
    """
    try:
        with path.open(encoding="ascii") as lines:
            for number, line in enumerate(lines, 1):
                yield parse_record(line, place=f"{path}: line {number}")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path} cannot be read as records: {type(error).__name__}") from None
