"""Fixtures over the shipped retail policies on the embedded engine; a test module takes them with `pytest_plugins`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ledgeragent.domain import Domain
from ledgeragent.engine import Engine
from ledgeragent.gate import Gate
from ledgeragent.session import Session
from support import five, otel, retail, toy


@pytest.fixture(scope="session")
def retail_domain() -> Domain:
    """The shipped retail domain."""
    return Domain.load("retail")


@pytest.fixture(scope="session")
def gate(retail_domain: Domain, embedded: Engine) -> Gate:
    """A gate that has proved itself, shared: a gate keeps nothing of the sessions it serves."""
    return Gate(retail_domain, embedded)


@pytest.fixture
def session(gate: Gate) -> Session:
    """A session that knows the customer, both orders and both products."""
    return retail.desk(gate)


@pytest.fixture
def toy_domain(tmp_path: Path) -> Domain:
    """The toy domain, freshly written."""
    return toy.load(tmp_path)


@pytest.fixture
def sinks() -> Iterator[otel.Sinks]:
    """What telemetry tells during a test."""
    with otel.listening() as sinks:
        yield sinks


@pytest.fixture(params=five.FIVE, ids=five.NAMES)
def table(request: pytest.FixtureRequest, gate: Gate, retail_domain: Domain, tmp_path: Path) -> Iterator[five.Table]:
    """Each of the five conversations, about to begin."""
    conversation: five.Conversation = request.param
    record = tmp_path / "record.jsonl"
    if not conversation.engine_down:
        yield five.laid(conversation, gate, record)
        return
    with five.nobody(retail_domain) as down:
        yield five.laid(conversation, down, record)
