"""The recorded conversations of every domain, each read and replayed once for all tests that look at them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledgeragent import policies
from ledgeragent.conversation import Conversation
from ledgeragent.engine import Engine
from oracle.recorded import Replayed, conversations, replayed


@pytest.fixture(scope="session", params=policies.domains())
def domain_name(request: pytest.FixtureRequest) -> str:
    """Each domain in turn; pytest runs all tests of one before those of the next, so that one corpus is in memory."""
    name: str = request.param
    return name


@pytest.fixture(scope="session")
def recorded(shared: Path, domain_name: str) -> list[Conversation]:
    """The domain's conversations of the reference data."""
    return list(conversations(shared, domain_name))


@pytest.fixture(scope="session")
def replayed_embedded(domain_name: str, recorded: list[Conversation], embedded: Engine) -> Replayed:
    """Those conversations on the embedded engine."""
    return replayed(domain_name, recorded, embedded)
