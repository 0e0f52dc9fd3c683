"""Decision records: one JSON line per decision and per outcome.

A decision record holds the exact input, so it can be judged again offline. A record that cannot be written means that
the decision is withheld: what is not on record does not run.
"""

from __future__ import annotations

import os
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from ledgeragent.contracts import DecisionRecord, OutcomeRecord
from ledgeragent.errors import RecordError
from ledgeragent.jsonio import canonical

Record = DecisionRecord | OutcomeRecord


class Recorder(Protocol):
    """Takes records; raises `RecordError` when one cannot be kept."""

    def write(self, record: Record) -> None: ...


class JsonlRecorder:
    """Appends records to a file, each flushed to the disk before the decision is given out. Thread-safe."""

    def __init__(self, path: Path) -> None:
        """Open the file for appending.

        Raises:
            RecordError: when it cannot be opened.
        """
        self.path = path
        self._lock = threading.Lock()
        self._torn = False
        try:
            self._file: int | None = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        except OSError as error:
            raise RecordError(f"the record file {path} cannot be opened: {error}") from error

    def write(self, record: Record) -> None:
        """Append one line.

        Raises:
            RecordError: when the line did not reach the disk whole.
        """
        line = (canonical(record.model_dump(mode="json")) + "\n").encode("ascii")
        with self._lock:
            if self._file is None:
                raise RecordError(f"the record file {self.path} is closed: the decision cannot be recorded")
            try:
                self._append(line)
                os.fsync(self._file)
            except OSError as error:
                raise RecordError(f"the record file {self.path} cannot be written: {error}") from error

    def _append(self, line: bytes) -> None:
        assert self._file is not None
        # What a full disk cut off stays a line of its own.
        whole = b"\n" + line if self._torn else line
        written = os.write(self._file, whole)
        self._torn = (self._torn and written == 0) or 0 < written < len(whole)
        if written != len(whole):
            raise OSError("only a part of the line was written")

    def close(self) -> None:
        """Close the file; may be called more than once. Writing afterwards is an error."""
        with self._lock:
            if self._file is not None:
                os.close(self._file)
            self._file = None  # the system gives the number out again


def wall_clock() -> str:
    """The host's time now, RFC 3339 with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
