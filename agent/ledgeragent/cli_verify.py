"""`ledgeragent records verify`: options, processes and output; what is checked is the business of `verify`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Annotated, Final, Literal

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from ledgeragent.recordfiles import DamagedFile, Line, open_files
from ledgeragent.rejudge import Rejudge
from ledgeragent.sealing import PrivateKey
from ledgeragent.terminal import counting
from ledgeragent.verify import Examined, Examiner, Problem, Walk, heads
from ledgeragent.workers import Processes, chunks, in_order

_CHUNK: Final = 16
_INTERRUPTED: Final = 130
_HOW: Final = {
    "exactly": "judged again, as they stand",
    "opened": "judged again, opened with the key",
    "by_equality": "judged again, with stand-ins for texts",
    "when_opened": "not judged: sealed (--key opens them)",
    "no": "not judged: what decides is masked",
    "error": "not judged: no decision was made",
}


@dataclass(frozen=True)
class _Options:
    """What a process needs to examine lines."""

    judge: bool
    engine: str
    policies: tuple[str, ...]
    schemas: Path | None
    overrides: tuple[Path, ...]
    floor: tuple[Path, ...]
    freeze: tuple[Path, ...]
    key: Path | None

    @contextmanager
    def examiner(self) -> Iterator[Examiner]:
        """An examiner; its engines end with it."""
        key = PrivateKey.load(self.key) if self.key is not None else None
        if not self.judge:
            yield Examiner(None, key)
            return
        data = {"overrides": self.overrides, "floor": self.floor, "freeze": self.freeze}
        rejudge = Rejudge(self.engine, policies=self.policies, schemas=self.schemas, data=data)
        try:
            yield Examiner(rejudge, key)
        finally:
            rejudge.close()


def verify(
    files: Annotated[
        list[str], typer.Argument(help="Record files, .gz too, - for stdin; the current file stands for its whole set.")
    ],
    policies: Annotated[
        list[str] | None,
        typer.Option(help="Policies to look among first: folder, bundle, git:REV or sha256:…; repeat it for more."),
    ] = None,
    schemas: Annotated[
        Path | None, typer.Option(help="Schemas for all of them.", show_default="those beside the policies")
    ] = None,
    engine: Annotated[Literal["embedded", "opa"], typer.Option(help="What judges.")] = "embedded",
    overrides: Annotated[
        list[Path] | None, typer.Option(help="Overrides that were in force; repeat it for each version.")
    ] = None,
    floor: Annotated[list[Path] | None, typer.Option(help="Floors that were in force, likewise.")] = None,
    freeze: Annotated[list[Path] | None, typer.Option(help="Freezes that were in force, likewise.")] = None,
    key: Annotated[Path | None, typer.Option(help="The private key that opens encrypted records.")] = None,
    expect_head: Annotated[
        list[str] | None, typer.Option(help="A head kept elsewhere, which must be among the records.")
    ] = None,
    after: Annotated[
        list[str] | None, typer.Option(help="The head of what came before, if the first file is not the first.")
    ] = None,
    judge: Annotated[
        bool, typer.Option("--judge/--no-judge", help="Judge again, or check form and chain only.")
    ] = True,
    workers: Annotated[int, typer.Option(min=1, help="Processes; the order of the output stays.")] = 1,
    format_: Annotated[
        Literal["table", "jsonl"], typer.Option("--format", help="How to write what is found.")
    ] = "table",
) -> None:
    """Check records: their form, their chain, and whether the policies they name decide as they say.

    Every decision is judged again offline with the revision it names, looked for among --policies, the shipped
    policies, and the commits of the git repository here. What is found goes to stdout, a summary with the head of the
    chain to stderr. Exit status: 0 all good, 1 something differs or the chain is broken, 130 interrupted.
    """
    errors = Console(stderr=True, highlight=False)
    options = _Options(
        judge,
        engine,
        tuple(policies or ()),
        schemas,
        tuple(overrides or ()),
        tuple(floor or ()),
        tuple(freeze or ()),
        key,
    )
    walk = Walk(after=heads(after or ()), expected=heads(expect_head or ()))
    try:
        with counting(errors, "records") as advance:
            for one, problem in _found(files, options, workers, walk, advance):
                _write(one, problem, format_)
    except KeyboardInterrupt:
        errors.print("interrupted: what follows was not checked", style="yellow")
        _summarise(walk, errors)
        raise typer.Exit(_INTERRUPTED) from None
    _summarise(walk, errors)
    raise typer.Exit(1 if walk.differences.total() else 0)


def _found(
    files: Sequence[str], options: _Options, workers: int, walk: Walk, advance: Callable[[int], None]
) -> Iterator[tuple[Examined, Problem]]:
    with _examined(files, options, workers) as examined:
        for one in examined:
            advance(1)
            if isinstance(one, Examined):
                yield from walk.take(one)
            else:
                yield walk.damaged(*one)
    yield from walk.finish()


_Damage = tuple[str, str]
_Piece = Line | _Damage


def _pieces(files: Sequence[str]) -> Iterator[_Piece]:
    for file in open_files(files):
        try:
            yield from file.lines()
        except DamagedFile as error:
            yield file.name, str(error)


@contextmanager
def _examined(files: Sequence[str], options: _Options, workers: int) -> Iterator[Iterator[Examined | _Damage]]:
    pieces = _pieces(files)
    with options.examiner() as examiner:  # with workers too: what is wrong with the options is told at once
        if workers == 1:
            yield (examiner.examine(one) if isinstance(one, Line) else one for one in pieces)
            return
        with Processes(workers, _work, _start, options) as pool:
            yield (one for _, found in in_order(chunks(pieces, _CHUNK), pool) for one in found)


_examiner: Examiner


def _start(options: _Options) -> None:
    global _examiner  # one per worker process, for as long as the process lives
    opened = options.examiner()
    _examiner = opened.__enter__()
    Finalize(None, opened.__exit__, args=(None, None, None), exitpriority=1)


def _work(pieces: Sequence[_Piece]) -> list[Examined | _Damage]:
    return [_examiner.examine(one) if isinstance(one, Line) else one for one in pieces]


# Output ---------------------------------------------------------------------------------------------------------


def _write(one: Examined, problem: Problem, format_: str) -> None:
    if format_ == "jsonl":
        row = {
            "file": one.file,
            "line": one.number or None,
            "request": one.request,
            "kind": problem.kind,
            "differs": problem.differs,
            "said": problem.said,
        }
        typer.echo(json.dumps(row))
        return
    place = f"{one.file}: line {one.number}" if one.number else one.file or "records"
    about = f" ({one.request})" if one.request is not None else ""
    typer.echo(f"{place}{about}: {'' if problem.differs else 'note: '}{problem.kind}: {problem.said}")


def _summarise(walk: Walk, console: Console) -> None:
    table = Table(box=SIMPLE_HEAD)
    table.add_column("records")
    table.add_column("number", justify="right")
    for how, said in _HOW.items():
        if how in walk.decisions:
            table.add_row(f"decisions {said}", f"{walk.decisions[how]:,}")
    for code, count in sorted(walk.errors.items()):
        table.add_row(f"  error {code}", f"{count:,}")
    table.add_row("outcomes", f"{walk.outcomes:,}")
    for kind, count in sorted(walk.differences.items()):
        table.add_row(f"differs: {kind}", f"{count:,}", style="red")
    for kind, count in sorted(walk.notes.items()):
        table.add_row(f"note: {kind}", f"{count:,}", style="yellow")
    console.print(table)
    console.print(_chain(walk), soft_wrap=True)
    console.print("nothing differs" if not walk.differences else "something differs: see above", soft_wrap=True)


def _chain(walk: Walk) -> str:
    if walk.head is None:
        return "no records"
    chained = "all" if walk.linked == walk.records else f"{walk.linked:,}" if walk.linked else "none"
    return f"{walk.records:,} records, {chained} of them in a chain; head {walk.head}"
