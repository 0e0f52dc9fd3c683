"""Rotation: a file of records that is full is closed under a number, and compressed later.

Closing is one renaming, done by whoever holds the lock of the file that is written; every writer looks after it has
the lock whether its file is still the one under the name. The newest closed file is left as it is, for the next
record's chain; those before it are compressed in the background: to another name, onto the disk, renamed, and only then
is the original removed. What is cut short anywhere is done again after the next rotation.
"""

from __future__ import annotations

import fcntl
import gzip
import logging
import os
import shutil
import threading
from pathlib import Path
from typing import Final

from ledgeragent.errors import BadInput
from ledgeragent.recordfiles import closed_files, closed_name, sync_folder

_log = logging.getLogger(__name__)
_UNFINISHED: Final = ".part"


class Rotation:
    """Of one file of records, for one process of those that write it."""

    def __init__(self, path: Path, max_bytes: int | None, max_total_bytes: int | None) -> None:
        """Prepare; nothing is touched yet.

        Args:
            path: the file that is written.
            max_bytes: the size that a file may have; None: any.
            max_total_bytes: the size that all files of the set together may have: beyond it the oldest are removed;
                None: nothing is ever removed.

        Raises:
            BadInput: when one of them could not be meant.
        """
        if max_bytes is not None and max_bytes < 1:
            raise BadInput(f"max_bytes is {max_bytes}; give a size from 1 byte")
        if max_total_bytes is not None and (max_bytes is None or max_total_bytes < 2 * max_bytes):
            raise BadInput("max_total_bytes needs max_bytes, and must be at least twice as much")
        self._path = path
        self._max_bytes = max_bytes
        self._max_total_bytes = max_total_bytes
        self._lock = threading.Lock()
        self._untidy = 0
        self._tidying: threading.Thread | None = None

    def due(self, size: int, more: int) -> bool:
        """Whether a file of `size` bytes has no room for `more`."""
        return self._max_bytes is not None and size > 0 and size + more > self._max_bytes

    def turn(self) -> Path:
        """Close the file that is written; its new name. Its lock must be held.

        Raises:
            OSError: when it cannot be renamed.
        """
        number = max(closed_files(self._path), default=0) + 1
        closed = closed_name(self._path, number)
        self._path.rename(closed)
        sync_folder(self._path.parent)
        with self._lock:
            self._untidy += 1
            if self._untidy == 1:
                self._tidying = threading.Thread(target=self._tidy_up, name="ledgeragent-records")
                self._tidying.start()
        return closed

    def finish(self) -> None:
        """Wait until what was begun in the background is done."""
        if self._tidying is not None:
            self._tidying.join()

    def _tidy_up(self) -> None:
        """Until nothing was closed meanwhile."""
        while True:
            closed = self._untidy
            self._tidy()
            with self._lock:
                if self._untidy == closed:
                    self._untidy = 0
                    return

    def _tidy(self) -> None:
        """Compress closed files, remove what is too much; a failure costs room, no record."""
        try:
            for number in list(closed_files(self._path))[:-1]:
                _compress(closed_name(self._path, number))
            self._trim()
        except OSError as error:
            _log.error("closed record files of %s are left as they are: %s", self._path.name, error.strerror)

    def _trim(self) -> None:
        if self._max_total_bytes is None or self._max_bytes is None:
            return
        closed = list(closed_files(self._path).values())
        total = sum(map(_size, closed)) + self._max_bytes  # the open file may still grow to that
        for oldest in closed[:-1]:
            if total <= self._max_total_bytes:
                return
            total -= _size(oldest)
            oldest.unlink(missing_ok=True)
            _log.warning("%s was removed: the records' limit is %d bytes", oldest.name, self._max_total_bytes)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _compress(path: Path) -> None:
    """Replace a closed file by its compressed form; nothing if another process is at it, or it is done."""
    packed = path.with_name(path.name + ".gz")
    unfinished = path.with_name(packed.name + _UNFINISHED)
    try:
        source = path.open("rb")
    except FileNotFoundError:
        return
    with source:
        try:
            fcntl.flock(source, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        try:
            with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as target:
                with gzip.GzipFile(filename="", fileobj=target, mode="wb", mtime=0) as packing:
                    shutil.copyfileobj(source, packing, 1 << 20)
                target.flush()
                os.fsync(target.fileno())
        except OSError:
            unfinished.unlink(missing_ok=True)
            raise
        unfinished.rename(packed)
        sync_folder(path.parent)
        path.unlink(missing_ok=True)
