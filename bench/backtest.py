"""Backtests of the recorded conversations: are the right calls listed, in how much memory, how fast.

    python bench/backtest.py count [FILE...]
    python bench/backtest.py memory [--copies N] [--policies FOLDER] [FILE...]
    python bench/backtest.py speed [--records] [FILE...]

Files hold conversations; default: the reference data beside the repository. `count` loosens one predicate at a time
(it always holds) and holds what the backtest lists against another way to know: two runs of `ledgeragent replay`, one
of them with the predicate switched off by an override. `memory` adds up the resident memory of all processes of a
backtest, twenty times a second, for the files and for N copies of them; the ratio of the peaks must stay below 1.1.
`speed` gives judged calls per second of processor time; of conversations, each call is judged by two policies, of
records by one. Exit status 1: something is not so.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

REPOSITORY: Final = Path(__file__).resolve().parent.parent
RECORDINGS: Final = REPOSITORY.parent / "shared" / "data" / "conversations"
LOOSENED: Final = ("retail.replacement_grounded", "airline.cancel_requires_basis")
"""Predicates to loosen: one that mostly asks for reads, one that mostly blocks."""

MAX_RATIO: Final = 1.1
Change = tuple[str, int, str, str, str, str]
"""Conversation, message, call id, tool, old verdict, new verdict."""


def loosened(predicate: str, folder: Path) -> Path:
    """A copy of the shipped policies in which a predicate always holds; they are not compiled."""
    for name in ("rego", "schemas"):
        shutil.copytree(REPOSITORY / name, folder / name)
    domain, _, rule = predicate.partition(".")
    file = folder / "rego" / "ledgeragent" / domain / rule / f"{rule}.rego"
    file.write_text(file.read_text(encoding="utf-8") + "\nholds if input.action\n", encoding="utf-8")
    return folder


def listed(files: Sequence[str], policies: Path, *options: str) -> list[Change]:
    """The calls that a backtest against the shipped policies lists."""
    ran = _ledgeragent(
        "backtest", "--conversations", *files, "--policies", str(policies), "--format", "jsonl", *options
    )
    if ran.returncode not in (0, 1):
        raise SystemExit(ran.stderr)
    rows = [json.loads(line) for line in ran.stdout.splitlines()]
    return [(*call_of(row), row["old"]["verdict"], row["new"]["verdict"]) for row in rows if row["kind"] == "verdict"]


def independent(files: Sequence[str], predicate: str, folder: Path) -> list[Change]:
    """The calls whose verdict differs between two replays, the second without the predicate."""
    off = {"mode": "off", "owner": "bench", "reason": "to count", "expires": "2099-12-31"}
    overrides = folder / "off.json"
    domain = predicate.partition(".")[0]
    overrides.write_text(json.dumps({domain: {"predicates": {predicate: off}}}), encoding="utf-8")
    before, after = (_replayed(files), _replayed(files, "--overrides", str(overrides)))
    assert [call_of(row) for row in before] == [call_of(row) for row in after]
    pairs = zip(before, after, strict=True)
    return [
        (*call_of(one), one["verdict"], other["verdict"]) for one, other in pairs if one["verdict"] != other["verdict"]
    ]


def _replayed(files: Sequence[str], *options: str) -> list[dict[str, Any]]:
    ran = _ledgeragent("replay", *files, "--engine", "embedded", "--format", "jsonl", "--workers", "2", *options)
    if ran.returncode:
        raise SystemExit(ran.stderr)
    return [json.loads(line) for line in ran.stdout.splitlines()]


def call_of(row: dict[str, Any]) -> tuple[str, int, str, str]:
    """What tells a call from others."""
    return row["conversation"], row["index"], row["call_id"], row["tool"]


def _ledgeragent(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ledgeragent", *arguments], capture_output=True, text=True, check=False
    )


def peak(command: Sequence[str]) -> int:
    """Most resident memory of a command and its descendants together, in bytes (Linux)."""
    highest = 0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as run:
        while run.poll() is None:
            highest = max(highest, sum(_resident(pid) for pid in (run.pid, *_below(run.pid))))
            time.sleep(0.05)
    if run.returncode not in (0, 1):
        raise SystemExit(f"{command} ended with status {run.returncode}")
    return highest


def _below(pid: int) -> list[int]:
    try:
        children = [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()]
    except OSError:
        return []
    return [*children, *(below for child in children for below in _below(child))]


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


def _count(files: Sequence[str]) -> bool:
    good = True
    for predicate in LOOSENED:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            found = listed(files, loosened(predicate, folder / "new"), "--against", str(REPOSITORY))
            counted = independent(files, predicate, folder)
        good = good and found == counted and bool(found)
        print(f"{predicate}: {len(found)} changed calls listed, {len(counted)} counted, same calls: {found == counted}")
    return good


def _memory(files: Sequence[str], copies: int, policies: Path | None) -> bool:
    with tempfile.TemporaryDirectory() as name:
        chosen = policies or loosened(LOOSENED[0], Path(name) / "new")
        start = [sys.executable, "-m", "ledgeragent", "backtest", "--policies", str(chosen)]
        start += ["--against", str(REPOSITORY), "--format", "jsonl", "--conversations"]
        once, often = peak([*start, *files]), peak([*start, *(list(files) * copies)])
    ratio = often / once
    print(f"{once / 1e6:.0f} MB for the files, {often / 1e6:.0f} MB for {copies} copies: ratio {ratio:.3f}")
    return ratio <= MAX_RATIO


def _speed(files: Sequence[str], *, records: bool) -> bool:
    kind = ["--records"] if records else ["--conversations", "--against", str(REPOSITORY)]
    for workers in sorted({1, len(os.sched_getaffinity(0))}):
        began, used = time.perf_counter(), _processor_seconds()
        options = ["--policies", str(REPOSITORY), "--workers", str(workers), "--format", "json"]
        ran = _ledgeragent("backtest", *kind, *files, *options)
        took, used = time.perf_counter() - began, _processor_seconds() - used
        calls = json.loads(ran.stdout)["compared"]
        print(f"{workers} workers: {calls} calls in {took:.1f} s, {calls / used:.0f} calls per second of one core")
    return True


def _processor_seconds() -> float:
    """Of all children that have ended, whatever else the machine was doing."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> int:
    """Run one of the measurements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("count", "memory", "speed"))
    parser.add_argument("files", nargs="*", default=sorted(str(path) for path in RECORDINGS.glob("*.jsonl.gz")))
    parser.add_argument("--copies", type=int, default=10)
    parser.add_argument("--policies", type=Path, help="new policies, compiled; default: loosened and compiled here")
    parser.add_argument("--records", action="store_true", help="for speed: the files hold records")
    given = parser.parse_intermixed_args()
    if given.what == "count":
        good = _count(given.files)
    elif given.what == "memory":
        good = _memory(given.files, given.copies, given.policies)
    else:
        good = _speed(given.files, records=given.records)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
