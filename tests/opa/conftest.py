"""The recorded conversations, read and replayed once for all tests that look at them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledgeragent.conversation import Conversation
from ledgeragent.engine import Engine
from oracle.recorded import Replayed, conversations, replayed


@pytest.fixture(scope="session")
def recorded(shared: Path) -> list[Conversation]:
    """The retail conversations of the reference data."""
    return list(conversations(shared))


@pytest.fixture(scope="session")
def replayed_embedded(recorded: list[Conversation], embedded: Engine) -> Replayed:
    """Those conversations on the embedded engine."""
    return replayed(recorded, embedded)
