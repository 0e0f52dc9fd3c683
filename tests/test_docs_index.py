"""From docs/README.md every guide can be reached, and no guide links to a page that is not there."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).resolve().parent.parent / "docs"
LINK = re.compile(r"\]\(([^)#:\s]+\.md)(?:#[^)]*)?\)")


def linked(page: Path) -> list[Path]:
    return [(page.parent / name).resolve() for name in LINK.findall(page.read_text(encoding="utf-8"))]


def test_every_guide_is_reachable_from_the_index() -> None:
    seen: set[Path] = set()
    open_ = [DOCS / "README.md"]
    while open_:
        page = open_.pop()
        seen.add(page)
        open_ += [one for one in linked(page) if one.is_relative_to(DOCS) and one not in seen]
    assert sorted(str(one.relative_to(DOCS)) for one in {*DOCS.rglob("*.md")} - seen) == []


def test_every_link_between_pages_leads_to_one() -> None:
    pages = [*DOCS.rglob("*.md"), DOCS.parent / "README.md"]
    broken = [(page.name, str(one)) for page in pages for one in linked(page) if not one.is_file()]
    assert broken == []
