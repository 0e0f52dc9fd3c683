"""Fixtures shared by all tests: the real OPA, the engines, the reference data."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from ledgeragent import policies
from ledgeragent.engine import Embedded, Engine, LocalOpa, OpaServer, compiled_module, find_opa
from needs import REQUIRED, need

REPO = Path(__file__).resolve().parent.parent

# CI repeats the same examples every time; elsewhere each run tries new ones. No deadline: machines are shared.
settings.register_profile("shared", deadline=None, derandomize=REQUIRED, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared")

# A run in the background may have begun with interrupts ignored, and would pass that on to the programs it interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def _no_configured_opa() -> Iterator[None]:
    """No test may talk to an OPA that happens to be configured where it runs."""
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.startswith("LEDGERAGENT_OPA_") and name != "LEDGERAGENT_OPA_BIN":
                patch.delenv(name)
        yield


@pytest.fixture(scope="session")
def opa_binary() -> Path:
    """The real OPA."""
    opa = find_opa()
    need(opa, "a real OPA; run `make opa`")
    assert opa is not None
    return opa


@pytest.fixture(scope="session")
def shared() -> Path:
    """The reference data of `../shared/data`, which is not part of the repository."""
    folder = REPO.parent / "shared" / "data"
    if not folder.is_dir() and os.environ.get("LEDGERAGENT_NO_REFERENCE"):
        pytest.skip("the reference data is not part of the repository, and this CI has no copy")
    need(folder.is_dir(), f"the reference data {folder}")
    return folder


@pytest.fixture(scope="session")
def embedded() -> Iterator[Engine]:
    """The shipped policies in process."""
    with Embedded(compiled_module(policies.REGO, policies.SCHEMAS, policies.COMPILED)) as engine:
        yield engine


@pytest.fixture(scope="session")
def local_opa(opa_binary: Path) -> Iterator[LocalOpa]:
    """The shipped policies on a child OPA."""
    with LocalOpa(policies.REGO, opa_binary) as engine:
        yield engine


@pytest.fixture(scope="session")
def engines(embedded: Engine, local_opa: LocalOpa) -> Iterator[dict[str, Engine]]:
    """The three engines over the shipped policies; the server is the child of the local one, asked as a remote one."""
    with OpaServer(local_opa.location, token=local_opa.token) as server:
        yield {"embedded": embedded, "opa-local": local_opa, "opa": server}
