"""Where a chat is shown: line by line as it comes, or with ledger and verdicts in a panel beside it.

Knows terminals, not conversations. In a pipe everything is plain text, and nothing turns or moves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.panel import Panel
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from ledgeragent.ledger import Ledger
from ledgeragent.paths import NOTHING, dotted
from ledgeragent.replay import findings
from ledgeragent.session import Review
from ledgeragent.terminal import STYLES, Line, contents, print_lines

WIDE: Final = 100
"""A panel beside the conversation takes a terminal of so many columns."""
_MAX_RECORDS: Final = 10
_MAX_VERDICTS: Final = 6
_MAX_TAIL: Final = 40
_FREE: Final = 4


class Screen:
    """Shows a chat on a console."""

    def __init__(self, console: Console, *, panel: bool = False) -> None:
        """Show on a console.

        Args:
            console: where.
            panel: whether a panel stands beside each turn; only where the console is wide enough.
        """
        self.console = console
        self.has_panel = panel and console.width >= WIDE
        self.lacks_room = panel and not self.has_panel
        self._side: Callable[[], RenderableType] = Text
        self._live: Live | None = None
        self._told: list[RenderableType] = []
        self._spinner = Spinner("dots")
        self._busy = False
        self._heard = ""

    def show(self, lines: Iterable[Line]) -> None:
        """Show more lines."""
        if self._live is None:
            print_lines(lines, self.console)
        else:
            self._told += [Padding(line.safe, (0, 0, 0, line.columns), expand=False) for line in lines]

    @contextmanager
    def turn(self, side: Callable[[], RenderableType]) -> Iterator[None]:
        """What is shown meanwhile stands beside the panel that `side` makes."""
        if not self.has_panel:
            yield
            return
        self._told, self._side = [], side
        moving = self.console.is_terminal
        with Live(get_renderable=self._page, console=self.console, auto_refresh=moving) as self._live:
            try:
                yield
            finally:
                self._live.refresh()
                self._live = None
        if not moving:
            self.console.print()  # only on a terminal does the panel end its last line

    @contextmanager
    def working(self) -> Iterator[None]:
        """Something turns meanwhile, on a terminal."""
        self._heard = ""
        self.heard("")
        self._busy = self.console.is_terminal
        try:
            if self._live is not None or not self._busy:
                yield
                return
            with Live(self._spinner, console=self.console, transient=True):
                yield
        finally:
            self._busy = False

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Somebody answers a question on the terminal meanwhile: nothing else moves there."""
        if self._live is None:
            yield
            return
        self._live.stop()
        try:
            yield
        finally:
            self._live.start(refresh=True)

    def heard(self, piece: str) -> None:
        """The model has said more; its last words stand beside what turns."""
        self._heard += piece
        tail = Line(Text(" ".join(self._heard.split())[-_MAX_TAIL:] or "thinking")).safe
        tail.style = "dim"
        self._spinner.update(text=tail)

    def _page(self) -> RenderableType:
        # The last columns stay free: what the terminal echoes of a key must not begin a line.
        page = Table.grid(padding=(0, 2), expand=True)
        page.width = self.console.width - _FREE
        page.add_column(ratio=3, overflow="fold")
        page.add_column(ratio=2)
        page.add_row(Group(*self._told, *([self._spinner] if self._busy else [])), self._side())
        return page


def side_panel(ledger: Ledger, reviews: Sequence[Review]) -> RenderableType:
    """The newest records with their stale fields, and the last verdicts."""
    newest = sorted(ledger.records(), key=lambda record: -record[2].issued)
    records = Text(overflow="ellipsis", no_wrap=True)
    for path, _, _, stale in newest[:_MAX_RECORDS]:
        records.append(dotted(path), "bold")
        records.append(f"  {_in_short(ledger.lookup(path))}\n", "dim")
        if stale:
            records.append(
                f"  stale: {', '.join(dotted(one[len(path) :]) or 'all of it' for one in stale)}\n", "yellow"
            )
    if len(newest) > _MAX_RECORDS:
        records.append(f"and {len(newest) - _MAX_RECORDS} more: /ledger", "dim")
    verdicts = Text(overflow="ellipsis", no_wrap=True)
    for review in reviews[: -_MAX_VERDICTS - 1 : -1]:
        verdicts.append(f"{review.would.upper():7}", STYLES[review.would])
        verdicts.append(f"{review.call.tool}\n")
        verdicts.append("".join(f"       {one.predicate}\n" for one in findings(review)), "dim")
    return Group(
        Panel(_or_none(records), title="Ledger", title_align="left"),
        Panel(_or_none(verdicts), title="Verdicts", title_align="left"),
    )


def _in_short(value: Any) -> str:
    """A record without its ids; the path has the one that tells it apart."""
    if value is NOTHING:
        return ""
    if not isinstance(value, Mapping):
        return contents(value)
    return contents({key: one for key, one in value.items() if not key.endswith("_id")})


def _or_none(text: Text) -> Text:
    text.rstrip()
    return Line(text).safe if text.plain else Text("nothing yet", style="dim")
