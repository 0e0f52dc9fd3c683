"""The guide to an agent of one's own runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

GUIDE = Path(__file__).resolve().parent.parent / "docs" / "agent.md"


def test_the_example_of_the_guide_runs() -> None:
    [code] = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), flags=re.DOTALL)
    exec(compile(code, str(GUIDE), "exec"), {"__name__": "guide"})
