"""What the Python drivers share: they are asked for one decision a line, and answer it in one line.

It runs in a peer's own environment and imports nothing but the standard library. `Peer` is what a driver is: it makes,
for a variant and a case, a function that decides once. Only that function is timed.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

Case = dict[str, Any]
"""{"tool", "arguments", "state": {"ledger", "history"}, "reads": [{"tool", "arguments", "content"}…]}"""

Verdict = tuple[bool, str]
"""Whether the call may run, and what else the peer says."""

Decide = Callable[[], Awaitable[Verdict]]
Prepare = Callable[[str, Case], Awaitable[Decide]]


def serve(prepare: Prepare, packages: list[str]) -> None:
    """Answer lines of standard input until it ends.

    Args:
        prepare: makes the function that decides, for a variant and a case; called once for each pair.
        packages: whose versions to report.
    """
    asyncio.run(_serve(prepare, packages))


async def _serve(prepare: Prepare, packages: list[str]) -> None:
    cases = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    decides: dict[tuple[str, str], Decide] = {}
    _say({"versions": {"python": sys.version.split()[0], **{name: version(name) for name in packages}}})
    for line in sys.stdin:
        variant, case = json.loads(line)
        if (variant, case) not in decides:
            decides[variant, case] = await prepare(variant, cases[case])
        decide = decides[variant, case]
        began = time.perf_counter()
        allowed, said = await decide()
        elapsed = time.perf_counter() - began
        _say({"ms": elapsed * 1000, "allowed": allowed, "said": said})


def _say(document: dict[str, Any]) -> None:
    print(json.dumps(document), flush=True)
