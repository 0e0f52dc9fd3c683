"""The page: entries packed into blocks, an index over them, and the HTML around both.

What an entry holds goes into the page as deflated JSON in base64, a few entries a block, and is unpacked when somebody
opens it; only the index is unpacked at once. So nothing that a tool, a model or a person wrote stands in the HTML: it
gets into the document as text nodes alone. The page's own style and script are named by their digests in its
Content-Security-Policy, which lets nothing else run and nothing be fetched.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from importlib.resources import files
from typing import Any, Final

import jinja2
from markupsafe import Markup

from ledgeragent.report.timeline import Entry

_LEVEL: Final = 9
_TEMPLATES: Final = jinja2.Environment(
    loader=jinja2.PackageLoader("ledgeragent.report", ""),
    autoescape=True,
    keep_trailing_newline=True,
    undefined=jinja2.StrictUndefined,
)


def packed(entries: Sequence[Entry]) -> str:
    """The documents of some entries as a block."""
    return _deflated([entry.document for entry in entries])


def _deflated(value: Any) -> str:
    # Lone surrogates, which JSON can hold, survive as escapes.
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return base64.b64encode(zlib.compress(text.encode("utf-8", "backslashreplace"), _LEVEL)).decode("ascii")


class Page:
    """Takes blocks of entries as they come and gives the page's text piece by piece."""

    def __init__(self, about: Mapping[str, Any], rules: Mapping[str, Mapping[str, str]]) -> None:
        """Begin a page.

        Args:
            about: what the page says of itself: `version`, `made` (RFC 3339), `files`, `masked`.
            rules: of each predicate, by id, `title`, `description` and `remedy`.
        """
        self._about = about
        self._rules = rules
        self._strings: dict[str, int] = {}
        self._entries: list[list[Any]] = []
        self._calls: list[list[Any]] = []
        self._blocks = 0

    @property
    def entries(self) -> int:
        """Conversations and sessions so far."""
        return len(self._entries)

    @property
    def calls(self) -> int:
        """Judged calls so far."""
        return len(self._calls)

    def text(self, blocks: Iterable[tuple[Sequence[Entry], str]]) -> Iterator[str]:
        """The page, in pieces.

        Args:
            blocks: entries, whose documents are not looked at, and the block they were packed into.
        """
        style, script = (files(__package__).joinpath(name).read_text("utf-8") for name in ("page.css", "page.js"))
        yield from _TEMPLATES.get_template("page.html").generate(
            style=Markup(style),  # noqa: S704 - our own text
            script=Markup(script),  # noqa: S704 - our own text
            style_digest=_digest(style),
            script_digest=_digest(script),
            blocks=self._taken(blocks),
            index=self._index,
        )

    def _taken(self, blocks: Iterable[tuple[Sequence[Entry], str]]) -> Iterator[tuple[int, str]]:
        for entries, block in blocks:
            for place, entry in enumerate(entries):
                self._take(entry, place)
            yield self._blocks, block
            self._blocks += 1

    def _take(self, entry: Entry, place: int) -> None:
        number = len(self._entries)
        own = (entry.kind, entry.id, entry.title, entry.domain, entry.source)
        ids = [self._string(text) for text in entry.ids]
        self._entries.append([*(self._string(text) for text in own), self._blocks, place, ids])
        for call in entry.calls:
            findings = [[self._string(text) for text in finding] for finding in call.findings]
            at = int(datetime.fromisoformat(call.at).timestamp() * 1000) if call.at is not None else None
            self._calls.append([number, call.step, self._string(call.tool), self._string(call.verdict), findings, at])

    def _string(self, text: str) -> int:
        return self._strings.setdefault(text, len(self._strings))

    def _index(self) -> str:
        columns = {"entries": _columns(self._entries, 8), "calls": _columns(self._calls, 6)}
        return _deflated({"about": self._about, "rules": self._rules, "strings": list(self._strings), **columns})


def light(entry: Entry) -> Entry:
    """An entry without its document, for the index."""
    return replace(entry, document={})


def _columns(rows: Sequence[Sequence[Any]], width: int) -> list[list[Any]]:
    return [[row[at] for row in rows] for at in range(width)]


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
