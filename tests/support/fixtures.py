"""Fixtures over the shipped retail policies on the embedded engine; a test module takes them with `pytest_plugins`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ledgeragent.domain import Domain
from ledgeragent.engine import Engine
from ledgeragent.gate import Gate
from ledgeragent.session import Session
from support import otel, retail, toy


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
