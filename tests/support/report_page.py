"""What stands in a report's page, unpacked as its own script does, and recordings to make one of."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from ledgeragent.conversation import open_lines, read_conversation
from ledgeragent.gate import Gate
from ledgeragent.records import Recorder
from ledgeragent.replay import Replay


@dataclass(frozen=True)
class Unpacked:
    """A page's data: `entries` and `calls` as objects, documents by entry."""

    about: Mapping[str, Any]
    rules: Mapping[str, Any]
    entries: Sequence[Mapping[str, Any]]
    calls: Sequence[Mapping[str, Any]]
    documents: Sequence[Mapping[str, Any]]

    def everything(self) -> str:
        """All of it as one text."""
        return json.dumps([self.entries, self.calls, self.documents], ensure_ascii=False)


class _Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, str] = {}
        self._inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        self._inside = dict(attrs).get("id") or tag

    def handle_data(self, data: str) -> None:
        self.texts[self._inside] = self.texts.get(self._inside, "") + data

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""


def elements(page: str) -> tuple[list[tuple[str, dict[str, str | None]]], dict[str, str]]:
    """(tags with their attributes, texts by id or tag) of a page."""
    parser = _Elements()
    parser.feed(page)
    return parser.found, parser.texts


def unpacked(page: str) -> Unpacked:
    """The data of a page."""
    texts = dict(re.findall(r'<script type="application/x-(?:block|index)" id="([^"]+)">([^<]*)</script>', page))
    data = {name: json.loads(zlib.decompress(base64.b64decode(text))) for name, text in texts.items()}
    index = data["index"]
    named = index["strings"].__getitem__
    entries = [
        dict(zip(("kind", "id", "title", "domain", "source"), map(named, row[:5]), strict=True))
        | {"ids": [named(one) for one in row[7]]}
        for row in zip(*index["entries"], strict=True)
    ]
    calls = [
        {
            "entry": row[0],
            "step": row[1],
            "tool": named(row[2]),
            "verdict": named(row[3]),
            "findings": [[named(one) for one in finding] for finding in row[4]],
            "at": row[5],
        }
        for row in zip(*index["calls"], strict=True)
    ]
    places = zip(index["entries"][5], index["entries"][6], strict=True)
    documents = [data[f"block-{block}"][place] for block, place in places]
    return Unpacked(index["about"], index["rules"], entries, calls, documents)


def record(file: Path, gate: Gate, recorder: Recorder) -> None:
    """Replay the conversations of a file and keep the records of their decisions."""
    for replay in replays(file, gate):
        replay.session._recorder = recorder
        for _ in replay.steps():
            pass


def replays(file: Path, gate: Gate) -> Iterator[Replay]:
    """A replay of each conversation of a file."""
    for place, line in open_lines(str(file)):
        yield Replay(read_conversation(line, place=place), gate)


HOSTILE = '</script><script>window.owned=1</script><img src=x onerror="window.owned=1">\' onclick=owned ${owned}\u202e'
