"""Runs a backtest: pieces of the input go to workers, what they find comes back in order and into the journal.

Workers are this process itself, processes of this machine, or (`cluster`) actors of a Ray cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Final, Self

from ledgeragent.backtest.journal import Journal
from ledgeragent.backtest.lines import Piece, pieces
from ledgeragent.backtest.sides import Bench, Found, Job
from ledgeragent.workers import Processes, Workers, in_order

_ENDED: Final = (
    "a worker process ended before its time (out of memory?); with --state FILE the same command goes on from there, "
    "with fewer --workers it needs less"
)


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


def processes(job: Job, size: int) -> Processes[Piece, Found]:
    """Judge in processes of this machine."""
    return Processes(size, _judge, _begin, job, ended=_ENDED)


_bench: Bench


def _begin(job: Job) -> None:
    global _bench  # one per worker process, for as long as the process lives
    _bench = Bench(job)


def _judge(piece: Piece) -> Found:
    return _bench.judge(piece.name, piece.lines)


def run(
    names: Sequence[str], journal: Journal, workers: Workers[Piece, Found], told: Callable[[Piece, Found], None]
) -> None:
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
    for piece, found in in_order(pieces(names, journal.place), workers):
        journal.add(piece.end, found.counts, found.rows)
        told(piece, found)
