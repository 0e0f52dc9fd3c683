"""What a test needs of the machine, and what its absence means.

On a developer's machine the test is skipped and says why; in CI, where `LEDGERAGENT_REQUIRE` is set, it fails.
"""

from __future__ import annotations

import importlib.util
import os

import pytest

REQUIRED = bool(os.environ.get("LEDGERAGENT_REQUIRE"))


def need(present: object, what: str) -> None:
    """Go on when `present` is true; else skip the test, or fail it in CI.

    Args:
        present: whether the thing is there.
        what: the thing, and how to get it.
    """
    if present:
        return
    if REQUIRED:
        pytest.fail(f"LEDGERAGENT_REQUIRE is set, but this is missing: {what}", pytrace=False)
    pytest.skip(f"missing: {what}", allow_module_level=True)


def need_framework(module: str, extra: str) -> None:
    """Go on when a framework is installed; else as `need`.

    Args:
        module: what is imported of it.
        extra: the extra that has it, or "" for what needs none.
    """
    names = module.split(".")
    parts = [".".join(names[: at + 1]) for at in range(len(names))]
    need(all(importlib.util.find_spec(part) for part in parts), f"{module}; the extra `{extra}` has it")
