"""What chaining costs a record: the same records written with and without a chain, in turns, in one run.

    python bench/records.py [--folder FOLDER] [--records 2000]

Prints microseconds per record (median) with everything that writing takes, the wait for the disk included, and the
ratio; then the same for two recorders that take turns on one file, each of which has to read what the other wrote. On
a folder in memory (/dev/shm) the disk is left out and the ratio is at its worst.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path

from ledgeragent import Domain, Gate, JsonlRecorder, open_engine
from ledgeragent.conversation import open_lines, read_conversation
from ledgeragent.policies import EXAMPLES
from ledgeragent.records import Record
from ledgeragent.replay import Replay


class Kept:
    """Keeps records in memory."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    def write(self, record: Record) -> None:
        """Keep one."""
        self.records.append(record)


def records() -> list[Record]:
    """The records of a replay of the example conversations."""
    kept = Kept()
    with open_engine("embedded") as engine:
        gates: dict[str, Gate] = {}
        for path in sorted((EXAMPLES / "conversations").glob("*.jsonl")):
            for place, line in open_lines(str(path)):
                conversation = read_conversation(line, place=place)
                name = conversation.domain or ""
                gate = gates.setdefault(name, Gate(Domain.load(name), engine))
                list(Replay(conversation, gate, recorder=kept).judged())
    return kept.records


def median(recorders: Sequence[Sequence[JsonlRecorder]], written: Sequence[Record], count: int) -> list[float]:
    """Microseconds per record for each group of recorders, which take turns."""
    took: list[list[float]] = [[] for _ in recorders]
    pairs = list(zip(took, recorders, strict=True))
    for number in range(count):
        record = written[number % len(written)]
        if number % len(written) == 0:
            pairs.reverse()  # whoever comes second finds the record in the processor's cache
        for times, group in pairs:
            started = time.perf_counter()
            group[number % len(group)].write(record)
            times.append(time.perf_counter() - started)
    return [statistics.median(times) * 1e6 for times in took]


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--folder", help="where to write; default: a temporary folder")
    options.add_argument("--records", type=int, default=2000)
    own = options.parse_args()
    written = records()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=own.folder)))

        def recorder(name: str, chain: bool) -> JsonlRecorder:
            return stack.enter_context(closing(JsonlRecorder(folder / name, chain=chain)))

        for turns, what in ((1, "one recorder on a file"), (2, "two recorders on a file")):
            groups = [[recorder(f"{turns}-{chain}", chain) for _ in range(turns)] for chain in (False, True)]
            bare, chained = median(groups, written, own.records)
            print(f"{what}: {bare:.0f} us without, {chained:.0f} us with a chain: ratio {chained / bare:.2f}")


if __name__ == "__main__":
    main()
