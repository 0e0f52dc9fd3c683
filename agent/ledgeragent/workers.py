"""Processes of this machine that share work out and give what came of it in order.

Never more pieces are on their way than keep the workers busy, so that the size of the input makes no difference to the
memory. Processes are begun anew (spawned), never forked: the one that begins them has threads (an engine's, the
progress bar's, the pool's own), which a fork would cut off half-way, and whoever waits for one of their locks then
waits for ever.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from itertools import islice
from types import TracebackType
from typing import Any, Final, Generic, Protocol, Self, TypeVar

from ledgeragent.errors import LedgerAgentError

Given = TypeVar("Given")
Found = TypeVar("Found")
_Given = TypeVar("_Given", contravariant=True)
_Found = TypeVar("_Found", covariant=True)

_AHEAD: Final = 2
_WATCH_SECONDS: Final = 1.0
_ENDED: Final = "a worker process ended before its time (out of memory?); with fewer --workers it needs less"


class Workers(Protocol[_Given, _Found]):
    """Whoever does the work."""

    @property
    def size(self) -> int:
        """How many work at a time."""
        ...

    def submit(self, piece: _Given) -> Any:
        """Begin with a piece; something that `result` takes."""

    def result(self, begun: Any) -> _Found:
        """What came of it; waits."""


class Processes(Generic[Given, Found]):
    """Workers that are processes; a context manager."""

    def __init__(
        self, size: int, work: Callable[[Given], Found], begin: Callable[..., None], *about: Any, ended: str = _ENDED
    ) -> None:
        """Begin no process yet.

        Args:
            size: how many processes.
            work: does a piece; a function of a module, as the others here.
            begin: called once in every process, before its first piece.
            about: what `begin` is given.
            ended: what is said when a process ends before its time.
        """
        self.size = size
        self._work = work
        self._ended = ended
        self._pool = ProcessPoolExecutor(
            size, multiprocessing.get_context("spawn"), initializer=_begun, initargs=(os.getpid(), begin, about)
        )

    def submit(self, piece: Given) -> Future[Found]:
        """See `Workers`."""
        with _no_interrupts(), self._all_alive():
            return self._pool.submit(self._work, piece)

    def result(self, begun: Future[Found]) -> Found:
        """See `Workers`.

        Raises:
            LedgerAgentError: when a process ended before its time.
        """
        with self._all_alive():
            return begun.result()

    @contextmanager
    def _all_alive(self) -> Iterator[None]:
        try:
            yield
        except BrokenExecutor:
            raise LedgerAgentError(self._ended) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)


def in_order(given: Iterable[Given], workers: Workers[Given, Found]) -> Iterator[tuple[Given, Found]]:
    """Every piece with what came of it, in the order of the pieces."""
    waiting: deque[tuple[Given, Any]] = deque()
    for piece in given:
        waiting.append((piece, workers.submit(piece)))
        if len(waiting) >= _AHEAD * workers.size:
            first, begun = waiting.popleft()
            yield first, workers.result(begun)
    while waiting:
        first, begun = waiting.popleft()
        yield first, workers.result(begun)


def chunks(items: Iterable[Given], size: int) -> Iterator[list[Given]]:
    """Items in lists of so many, the last one shorter."""
    left = iter(items)
    while chunk := list(islice(left, size)):
        yield chunk


@contextmanager
def _no_interrupts() -> Iterator[None]:
    """Processes that begin in here never see an interrupt; ours comes when we are out again."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begun(parent: int, begin: Callable[..., None], about: tuple[Any, ...]) -> None:
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    begin(*about)


def _end_with(parent: int) -> None:
    """End when the process that began us did: killed, it could not tell."""
    while os.getppid() == parent:
        threading.Event().wait(_WATCH_SECONDS)
    os._exit(1)
