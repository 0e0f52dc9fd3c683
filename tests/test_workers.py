"""Work that processes share out: in order, never far ahead, and no process is a fork of one that has threads."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator

import pytest

from ledgeragent.errors import LedgerAgentError
from ledgeragent.workers import Processes, chunks, in_order

_factor = 0


def _begin(factor: int) -> None:
    global _factor
    _factor = factor


def _work(piece: list[int]) -> tuple[list[int], str]:
    return [_factor * one for one in piece], type(multiprocessing.current_process()).__name__


def _end(piece: int) -> None:
    os._exit(piece)


def test_pieces_come_back_in_order_from_processes_that_are_no_forks() -> None:
    with Processes(2, _work, _begin, 3) as workers:
        found = list(in_order(chunks(range(7), 2), workers))
    assert found == [(piece, ([3 * one for one in piece], "SpawnProcess")) for piece in ([0, 1], [2, 3], [4, 5], [6])]


def test_a_process_that_ends_before_its_time_is_one_message() -> None:
    with (
        Processes(1, _end, _begin, 1, ended="it is gone") as workers,
        pytest.raises(LedgerAgentError, match="it is gone"),
    ):
        list(in_order([7], workers))


class Here:
    """Notes how much was begun and not taken yet."""

    size = 2

    def __init__(self) -> None:
        self.open = 0
        self.most = 0

    def submit(self, piece: int) -> int:
        self.open += 1
        self.most = max(self.most, self.open)
        return piece

    def result(self, begun: int) -> int:
        self.open -= 1
        return begun


def test_no_more_is_on_its_way_than_keeps_the_workers_busy() -> None:
    workers, read = Here(), []

    def endless() -> Iterator[int]:
        while True:
            read.append(len(read))
            yield read[-1]

    found = in_order(endless(), workers)
    assert [next(found) for _ in range(100)] == [(one, one) for one in range(100)]
    assert (workers.most, len(read)) == (4, 103)
