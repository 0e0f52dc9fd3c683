"""Verifying record files within a test: what `ledgeragent records verify` finds, without its words."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ledgeragent.recordfiles import DamagedFile, open_files
from ledgeragent.rejudge import Rejudge
from ledgeragent.sealing import PrivateKey
from ledgeragent.verify import Examiner, Walk

Found = list[tuple[int, str, bool]]
"""(line, kind, whether it differs) of each problem."""


def walked(
    files: Iterable[Path | str], rejudge: Rejudge | None = None, walk: Walk | None = None, key: PrivateKey | None = None
) -> tuple[Walk, list[tuple[int, str, bool, str]]]:
    """Verify files; the counts, and (line, kind, whether it differs, words) of what was found."""
    own = walk or Walk()
    examiner = Examiner(rejudge, key)
    found = []
    for file in open_files(files):
        try:
            for line in file.lines():
                found += list(own.take(examiner.examine(line)))
        except DamagedFile as error:
            found.append(own.damaged(file.name, str(error)))
    found += list(own.finish())
    return own, [(one.number, problem.kind, problem.differs, problem.said) for one, problem in found]


def problems(file: Path | str, rejudge: Rejudge | None = None, walk: Walk | None = None) -> Found:
    """What is found in one file, or its set."""
    return [(number, kind, differs) for number, kind, differs, _ in walked([file], rejudge, walk)[1]]
