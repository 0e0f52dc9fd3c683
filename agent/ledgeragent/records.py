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
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        except OSError as error:
            raise RecordError(f"the record file {path} cannot be opened: {error}") from error

    def write(self, record: Record) -> None:
        """Append one line.

        Raises:
            RecordError: when the line did not reach the disk whole.
        """
        line = (canonical(record.model_dump(mode="json")) + "\n").encode("ascii")
        with self._lock:
            try:
                if os.write(self._file, line) != len(line):
                    raise OSError("only a part of the line was written")
                os.fsync(self._file)
            except OSError as error:
                raise RecordError(f"the record file {self.path} cannot be written: {error}") from error

    def close(self) -> None:
        """Close the file. Writing afterwards is an error."""
        os.close(self._file)


def wall_clock() -> str:
    """The host's time now, RFC 3339 with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
