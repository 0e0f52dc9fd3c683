"""What a conversation looks like on a terminal: words, calls, verdicts, the ledger as it grows.

Makes lines for `demo` and `chat`, and prints them indented, within the terminal's width. What models, tools and people
write is shown as text: nothing of it reaches the terminal as a command.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import Progress, ProgressColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from ledgeragent.approval import consents
from ledgeragent.feedback import reasons
from ledgeragent.ledger import Ledger, NotAFact
from ledgeragent.paths import Path, dotted
from ledgeragent.replay import Tally, findings
from ledgeragent.session import Review

STYLES: Final = {"allow": "bold green", "revise": "bold yellow", "block": "bold red"}
SPEAKERS: Final = {"customer": "bold cyan", "agent": "bold"}
_MAX_VALUE: Final = 60
_MAX_FIELDS: Final = 7


@dataclass(frozen=True)
class Line:
    """One paragraph.

    Attributes:
        text: styled; may be longer than a line.
        columns: how far it is indented.
    """

    text: Text
    columns: int = 0

    @property
    def safe(self) -> Text:
        """The text with a blank for every character that does not print."""
        own = self.text.copy()
        own.plain = "".join(one if one.isprintable() or one == "\n" else " " for one in own.plain)
        return own


def print_lines(lines: Iterable[Line], console: Console) -> None:
    """Print them, wrapped and indented."""
    for line in lines:
        for part in line.safe.wrap(console, max(20, console.width - line.columns)):
            part.rstrip()
            console.print(Text(" " * line.columns) + part, soft_wrap=True)


@contextmanager
def progress(console: Console, *columns: ProgressColumn, total: int | None = None) -> Iterator[Callable[..., None]]:
    """Progress on a terminal, silence elsewhere.

    Args:
        console: where.
        columns: what it shows.
        total: how much there is to do, if that is known.

    Yields:
        What takes `advance` or `completed`.
    """
    if not console.is_terminal:
        yield lambda **_: None
        return
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=total)
        yield partial(bar.update, task)


@contextmanager
def counting(console: Console, what: str) -> Iterator[Callable[[int], None]]:
    """As `progress`, of things of which nobody knows how many there are; takes how many more are done."""
    columns = (SpinnerColumn(), TextColumn(f"{{task.completed:,}} {what}"), TimeElapsedColumn())
    with progress(console, *columns) as update:
        yield lambda done: update(advance=done)


def said(speaker: str, words: str) -> Line:
    """What the customer or the agent says."""
    return Line(Text.assemble((f"{speaker}: ", SPEAKERS[speaker]), words))


def called(kind: str, tool: str, arguments: Any) -> Line:
    """A call; `kind` is what it is (read, write, call)."""
    return Line(Text.assemble((f"{kind} ", "dim"), call_text(tool, arguments)), 2)


def call_text(tool: str, arguments: Any) -> str:
    """A call in one line."""
    if not isinstance(arguments, Mapping):
        return f"{tool}({brief(arguments)})"
    return f"{tool}({', '.join(f'{key}={brief(value)}' for key, value in arguments.items())})"


def learned(paths: Iterable[Path], problems: Iterable[NotAFact], ledger: Ledger) -> Iterator[Line]:
    """What a return put into the ledger, and what was no fact."""
    told = False
    for path in paths:
        told = True
        value = contents(ledger.lookup(path))
        yield Line(Text.assemble(("ledger + ", "green"), dotted(path), (f" = {value}", "dim")), 4)
    for problem in problems:
        told = True
        yield Line(Text(f"not a fact: {problem.path}: {problem.reason}", style="yellow"), 4)
    if not told:
        yield Line(Text("ledger unchanged", style="dim"), 4)


def went_stale(paths: Iterable[Path]) -> Iterator[Line]:
    """What a write made stale."""
    names = ", ".join(dotted(path) for path in paths)
    if names:
        yield Line(Text.assemble(("ledger ~ ", "yellow"), ("stale: " + names, "dim")), 4)


def below(record: Path, paths: Iterable[Path]) -> str:
    """Paths within a record, as its fields."""
    return ", ".join(dotted(path[len(record) :]) or "all of it" for path in paths)


def judged(review: Review) -> Iterator[Line]:
    """What the gate said to a write, and why."""
    aside = "" if review.would == review.verdict else "  (in shadow: not held back)"
    verdict = (review.would.upper(), STYLES[review.would])
    yield Line(Text.assemble(("gate: ", "dim"), verdict, (aside, "dim")), 4)
    if review.failure is not None:
        yield Line(Text(f"{review.failure.code}: {review.failure.message}", style="red"), 6)
    for predicates, words in reasons(findings(review)):
        yield Line(Text.assemble((f"{predicates}: ", "bold"), words), 6)
    for predicate, by in consents(review.decision, review.gate_input["grants"]).items():
        yield Line(Text.assemble((f"{predicate}: ", "bold"), (by, "dim")), 6)
    for read in review.reads:
        yield Line(Text.assemble(("asks for ", "dim"), str(read)), 6)


def brief(value: Any) -> str:
    """A value in at most sixty characters."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _MAX_VALUE else text[: _MAX_VALUE - 1] + "…"


def contents(value: Any) -> str:
    """A record in a few words: its plain fields, and how much its lists and maps hold."""
    if not isinstance(value, Mapping):
        return brief(value)
    plain = [f"{key} {brief(one)}" for key, one in value.items() if isinstance(one, str | int | float)]
    sizes = [f"{len(one)} {key}" for key, one in value.items() if isinstance(one, list | Mapping) and one]
    return "; ".join((plain + sizes)[:_MAX_FIELDS])


def print_tally(tally: Tally, console: Console) -> None:
    """Print the verdicts of all calls, and a table of counts per predicate, verdict and cause."""
    total = sum(tally.verdicts.values())
    shown = ", ".join(f"{tally.verdicts[verdict]} {verdict}" for verdict in STYLES)
    console.print(f"{total} judged call{'' if total == 1 else 's'}: {shown}")
    table = Table(box=SIMPLE_HEAD)
    table.add_column("predicate", overflow="fold")
    table.add_column("verdict")
    table.add_column("cause")
    table.add_column("calls", justify="right")
    for (predicate, verdict, cause), count in sorted(tally.findings.items(), key=lambda item: (-item[1], item[0])):
        table.add_row(predicate, Text(verdict, style=STYLES[verdict]), cause, str(count))
    for code, count in sorted(tally.errors.items()):
        table.add_row(code, Text("block", style=STYLES["block"]), "error", str(count))
    if table.row_count:
        console.print(table)
