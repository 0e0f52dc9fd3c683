"""The README's usage example runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_usage_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    [code] = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    exec(compile(code, "README.md", "exec"), {"__name__": "readme"})
    assert "get_order_details" in capsys.readouterr().out


def test_every_file_the_readme_links_to_is_there() -> None:
    links = re.findall(r"\]\(((?!http)[^)]+)\)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []
