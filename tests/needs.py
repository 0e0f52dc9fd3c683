"""What a test needs of the machine, and what its absence means.

On a developer's machine the test is skipped and says why; in CI, where `LEDGERAGENT_REQUIRE` is set, it fails.
"""

from __future__ import annotations

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
