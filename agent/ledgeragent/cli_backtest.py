"""`ledgeragent backtest`: what a change of policy would have done to calls that were made.

Reads options, finds both sets of policies, shows progress, prints; everything else is `backtest`'s. Exit status: 0 no
verdict changes, or only allowed ones; 1 somebody must look; 2 it could not start; 130 interrupted.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Annotated, Any, Final, Literal

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from ledgeragent.backtest.allowed import AllowedChange
from ledgeragent.backtest.cluster import Cluster
from ledgeragent.backtest.journal import Journal
from ledgeragent.backtest.lines import Piece, identity, total_size
from ledgeragent.backtest.render import Backtest, headline, markdown, print_table, write_json, write_jsonl
from ledgeragent.backtest.run import Here, processes, run
from ledgeragent.backtest.sides import RECORDED, Found, Inputs, Job, fingerprint, ready
from ledgeragent.backtest.summary import Summary
from ledgeragent.backtest.words import Told, recorded_by
from ledgeragent.cli_gates import FloorOption, FreezeOption, Gates, OverridesOption
from ledgeragent.errors import BadInput
from ledgeragent.jsonio import digest
from ledgeragent.policysource import PolicySource, PolicySources
from ledgeragent.recordfiles import without_members
from ledgeragent.terminal import progress
from ledgeragent.workers import Processes

INTERRUPTED: Final = 130
_GIT: Final = "git:"
Format = Literal["table", "json", "jsonl", "markdown"]


def backtest(
    files: Annotated[
        list[str],
        typer.Argument(help="Records or conversations, JSONL, .gz too, the current file for its set; - for stdin."),
    ],
    policies: Annotated[
        str, typer.Option(help="The new policies: a folder, a bundle file, git:REV[:FOLDER], or a revision.")
    ],
    records: Annotated[bool, typer.Option("--records", help="The files hold decision records.")] = False,
    conversations: Annotated[bool, typer.Option("--conversations", help="The files hold conversations.")] = False,
    against: Annotated[
        str | None,
        typer.Option(
            help="The old policies: as --policies, or 'recorded' for the decisions as they stand in the records.",
            show_default="recorded; for conversations the last commit of --policies, else the shipped ones",
        ),
    ] = None,
    allow_change: Annotated[
        list[str] | None,
        typer.Option(help="A change that is meant: PREDICATE@TOOL:OLD->NEW, any part left out, globs; repeat it."),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="List every changed call, those that keep their verdict too.")
    ] = False,
    format_: Annotated[Format, typer.Option("--format", help="How to say it; markdown for a pull request.")] = "table",
    out: Annotated[Path | None, typer.Option(help="Write there instead of stdout.")] = None,
    state: Annotated[
        Path | None, typer.Option(help="Keep what was found in this file, and go on from it after an interruption.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes (with --ray: actors).", show_default="one per core")
    ] = None,
    ray: Annotated[
        str | None, typer.Option(help="Judge on a Ray cluster: its address, or 'local'.", metavar="ADDRESS")
    ] = None,
    engine: Annotated[Literal["embedded", "opa"], typer.Option(help="What asks the policies.")] = "embedded",
    schemas: Annotated[
        Path | None,
        typer.Option(help="The domains' schemas, for both sides.", show_default="those beside the policies"),
    ] = None,
    overrides: OverridesOption = None,
    floor: FloorOption = None,
    freeze: FreezeOption = None,
    domain: Annotated[str | None, typer.Option(help="Domain of conversations that name none.")] = None,
    now: Annotated[str | None, typer.Option(help="Clock of conversations that carry none (RFC 3339, offset).")] = None,
) -> None:
    """Judge the same calls with old and new policies, and show every verdict that changes and why.

    Exit status: 0 nothing changes but what is allowed, 1 something does or could not be judged, 2 it could not start.
    """
    files = without_members(files)
    if records == conversations:
        raise BadInput("say what the files hold: --records or --conversations")
    patterns = [AllowedChange.parse(text) for text in allow_change or ()]
    errors = Console(stderr=True, highlight=False)
    with ExitStack() as stack:
        sides = stack.enter_context(
            _sides(policies, against, schemas, engine, "records" if records else "conversations")
        )
        deployed = Gates("embedded", sides.new.policies, sides.new.schemas, overrides, floor, freeze).policy_data()
        inputs: Inputs = "records" if records else "conversations"
        job = Job(inputs, sides.new, sides.old, engine, domain, now, deployed, everything)
        journal = stack.enter_context(Journal(state, _about(files, job, keep=state is not None)))
        stopped = _run(files, journal, job, errors, workers or _cores(), workers, ray)
        summary = Summary.of(journal.counts(), journal.rows(), patterns)
        names = summary.below("domain")
        new = Told.of(sides.new, names, engine=engine)
        old = Told.of(sides.old, names) if sides.old is not None else recorded_by(summary.below("revision"), sides.new)
        found = Backtest(summary, old, new, stopped)
        target = stack.enter_context(out.open("w", encoding="utf-8")) if out is not None else sys.stdout
        _write(found, journal, format_, target, everything=everything)
    if format_ != "table" or out is not None:
        errors.print(headline(found), markup=False)
    if stopped is not None:
        errors.print(_how_to_go_on(state), style="yellow", markup=False)
        raise typer.Exit(INTERRUPTED)
    raise typer.Exit(1 if summary.failed else 0)


# The policies -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Sides:
    """Both sets of policies, ready to be asked; None as `old` stands for the decisions as recorded."""

    new: PolicySource
    old: PolicySource | None


@contextmanager
def _sides(new: str, old: str | None, schemas: Path | None, engine: str, inputs: Inputs) -> Iterator[_Sides]:
    if inputs == "conversations" and old == RECORDED:
        raise BadInput("conversations hold no decisions: give other policies as --against")
    repository = Path(new) if Path(new).is_dir() else None
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ledgeragent-backtest-")))
        sources = stack.enter_context(PolicySources(schemas=schemas, repository=repository))
        found = sources.find(new)
        before = _old(sources, new, old, inputs)
        yield _Sides(
            ready(found, engine, folder / "new"), ready(before, engine, folder / "old") if before is not None else None
        )


def _old(sources: PolicySources, new: str, old: str | None, inputs: Inputs) -> PolicySource | None:
    if old == RECORDED or (old is None and inputs == "records"):
        return None
    if old is not None:
        return sources.find(_with_folder(old, new))
    committed = _with_folder("git:HEAD", new)
    try:
        return sources.find(committed) if Path(new).is_dir() else sources.shipped()
    except BadInput:  # not in a repository, or never committed
        return sources.shipped()


def _with_folder(name: str, new: str) -> str:
    """`git:REV` without a folder means the folder in which the new policies are."""
    if not name.startswith(_GIT) or ":" in name.removeprefix(_GIT) or not Path(new).is_dir():
        return name
    around = Path(new).resolve()
    around = around.parent if (around / "ledgeragent").is_dir() else around
    asked = subprocess.run(
        ["git", "-C", str(around), "rev-parse", "--show-prefix"],  # noqa: S607 - the user's git
        capture_output=True,
        text=True,
        check=False,
    )
    prefix = asked.stdout.strip().rstrip("/")
    return f"{name}:{prefix}" if asked.returncode == 0 and prefix else name


def _about(files: list[str], job: Job, *, keep: bool) -> dict[str, Any]:
    """What must be the same for a run to go on."""
    return {
        "files": [identity(name) for name in files] if keep else [],
        "inputs": job.inputs,
        "new": fingerprint(job.new),
        "old": fingerprint(job.old) if job.old is not None else RECORDED,
        "options": digest([job.domain, job.now, job.everything, dict(job.deployed)]),
    }


# The run ----------------------------------------------------------------------------------------------------------


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _run(
    files: list[str], journal: Journal, job: Job, errors: Console, size: int, asked: int | None, ray: str | None
) -> str | None:
    """Judge what the journal does not hold yet; where it was interrupted, or None."""
    last = "nothing"
    if journal.resumed:
        errors.print(f"going on after line {journal.place.line} of {files[journal.place.file]}", markup=False)
    with _progress(errors, files) as advance:

        def told(piece: Piece, found: Found) -> None:
            nonlocal last
            last = f"line {piece.end.line} of {piece.name}"
            advance(piece.taken)
            for problem in found.problems:
                errors.print(f"skipped: {problem}", style="yellow", markup=False)

        try:
            with _workers(job, size, asked, ray) as workers:
                run(files, journal, workers, told)
        except KeyboardInterrupt:
            return last
    return None


def _workers(job: Job, size: int, asked: int | None, ray: str | None) -> Here | Processes[Piece, Found] | Cluster:
    if ray is not None:
        return Cluster(job, ray, asked)
    return Here(job) if size == 1 else processes(job, size)


@contextmanager
def _progress(console: Console, files: list[str]) -> Iterator[Callable[[int], None]]:
    """Progress on a terminal, silence elsewhere; by bytes, as nobody knows how many lines there are."""
    left = TimeRemainingColumn()
    columns = (SpinnerColumn(), TextColumn("judged"), BarColumn(), DownloadColumn(), TimeElapsedColumn(), left)
    with progress(console, *columns, total=total_size(files)) as update:
        yield lambda taken: update(completed=taken)


def _how_to_go_on(state: Path | None) -> str:
    if state is None:
        return "interrupted; with --state FILE the next run can be gone on with"
    return f"interrupted; run the same command again to go on from --state {state}"


# The outcome ------------------------------------------------------------------------------------------------------


def _write(found: Backtest, journal: Journal, format_: Format, target: IO[str], *, everything: bool) -> None:
    if format_ == "jsonl":
        write_jsonl(journal.rows(), target)
    elif format_ == "json":
        write_json(found, journal.rows(), target)
    elif format_ == "markdown":
        target.write(markdown(found))
    else:
        print_table(found, journal.rows(), Console(file=target, highlight=False), everything=everything)
    target.flush()
