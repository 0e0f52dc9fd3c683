"""`ledgeragent rollout`: what a shadow would have held back, from its records. Counting is `rollout`'s business."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

from ledgeragent.recordfiles import open_files
from ledgeragent.rollout import Rollout

_COLUMNS = ("revise", "block", "violated", "missing", "stale", "alone", "ran")


def rollout(
    files: Annotated[
        list[Path], typer.Argument(help="Record files, .gz too, the current one for its set; - for stdin.")
    ],
    format_: Annotated[Literal["table", "json"], typer.Option("--format", help="How to say it.")] = "table",
) -> None:
    """Count what a shadow would have held back, and what each predicate costs, from its records.

    Exit status 1 when lines could not be read as records.
    """
    lines = (line for file in open_files(files) for line in file.lines())
    found = Rollout.of(line.text.decode("utf-8", "surrogateescape") for line in lines)
    if format_ == "json":
        typer.echo(json.dumps(_document(found)))
    else:
        _print(found, Console(highlight=False, soft_wrap=True))
    raise typer.Exit(1 if found.unreadable else 0)


def _document(found: Rollout) -> dict[str, object]:
    return {
        "watched": found.watched,
        "enforced": found.enforced,
        "verdicts": dict(found.verdicts),
        "errors": dict(found.errors),
        "predicates": found.rows(),
        "unreadable": found.unreadable,
    }


def _print(found: Rollout, out: Console) -> None:
    out.print(f"{found.watched} decisions watched, {found.enforced} enforced")
    if found.verdicts:
        out.print("would have been: " + ", ".join(f"{name} {count}" for name, count in found.verdicts.most_common()))
    for code, count in found.errors.most_common():
        out.print(f"no decision: {code} {count}", style="red")
    rows = found.rows()
    width = max((len(row["predicate"]) for row in rows), default=0)
    for row in [{name: name for name in ("predicate", *_COLUMNS)}, *rows] if rows else []:
        out.print(f"{row['predicate']:{width}}" + "".join(f"{row[name]:>10}" for name in _COLUMNS), markup=False)
    if found.unreadable:
        out.print(f"{found.unreadable} lines are no records", style="yellow")
