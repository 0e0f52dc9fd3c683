"""Runs a backtest: pieces of the input go to workers, what they find comes back in order and into the journal.

Never more pieces are on their way than keep the workers busy, so that the size of the input makes no difference to the
memory. Workers are this process itself, processes of this machine, or (`cluster`) actors of a Ray cluster.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Final, Protocol, Self

from ledgeragent.backtest.journal import Journal
from ledgeragent.backtest.lines import Piece, pieces
from ledgeragent.backtest.sides import Bench, Found, Job
from ledgeragent.errors import LedgerAgentError

_AHEAD: Final = 2
_WATCH_SECONDS: Final = 1.0


class Workers(Protocol):
    """Whoever judges pieces."""

    size: int

    def submit(self, piece: Piece) -> Any:
        """Begin to judge a piece; something that `result` takes."""

    def result(self, begun: Any) -> Found:
        """What came of it; waits."""


class Here:
    """Judges in this process; a context manager, as the other workers are."""

    def __init__(self, job: Job) -> None:
        self.size = 1
        self._bench = Bench(job)

    def submit(self, piece: Piece) -> Piece:
        """See `Workers`."""
        return piece

    def result(self, begun: Piece) -> Found:
        """See `Workers`."""
        return self._bench.judge(begun.name, begun.lines)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._bench.close()


class Processes:
    """Judges in processes of this machine."""

    def __init__(self, job: Job, size: int) -> None:
        self.size = size
        # Begun anew, not forked: this process has threads (progress, the pool's own) that would be cut off half-way.
        self._pool = ProcessPoolExecutor(
            size, multiprocessing.get_context("spawn"), initializer=_begin, initargs=(job, os.getpid())
        )

    def submit(self, piece: Piece) -> Future[Found]:
        """See `Workers`."""
        with _no_interrupts(), _all_alive():
            return self._pool.submit(_judge, piece)

    def result(self, begun: Future[Found]) -> Found:
        """See `Workers`."""
        with _all_alive():
            return begun.result()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _no_interrupts() -> Iterator[None]:
    """Processes that begin in here never see an interrupt; ours comes when we are out again."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _all_alive() -> Iterator[None]:
    try:
        yield
    except BrokenExecutor:
        raise LedgerAgentError(
            "a worker process ended before its time (out of memory?); with --state FILE the same command goes on from "
            "there, with fewer --workers it needs less"
        ) from None


_bench: Bench


def _begin(job: Job, parent: int) -> None:
    global _bench  # one per worker process, for as long as the process lives
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    _bench = Bench(job)


def _end_with(parent: int) -> None:
    """End when the process that began us did: killed, it could not tell."""
    while os.getppid() == parent:
        threading.Event().wait(_WATCH_SECONDS)
    os._exit(1)


def _judge(piece: Piece) -> Found:
    return _bench.judge(piece.name, piece.lines)


def run(names: Sequence[str], journal: Journal, workers: Workers, told: Callable[[Piece, Found], None]) -> None:
    """Judge all files from where the journal is on.

    Args:
        names: the files.
        journal: takes what is found.
        workers: judge.
        told: is told of every piece that is in the journal.

    Raises:
        BadInput: when a file cannot be read.
        EngineError: when an engine does not start.
    """
    for piece, found in _in_order(pieces(names, journal.place), workers):
        journal.add(piece.end, found.counts, found.rows)
        told(piece, found)


def _in_order(given: Iterator[Piece], workers: Workers) -> Iterator[tuple[Piece, Found]]:
    waiting: deque[tuple[Piece, Any]] = deque()
    for piece in given:
        waiting.append((piece, workers.submit(piece)))
        if len(waiting) >= _AHEAD * workers.size:
            first, begun = waiting.popleft()
            yield first, workers.result(begun)
    while waiting:
        first, begun = waiting.popleft()
        yield first, workers.result(begun)
