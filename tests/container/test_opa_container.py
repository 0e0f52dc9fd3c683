"""OPA's official image with the shipped policies decides, for those who hold the token."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest
from testcontainers.core.container import DockerContainer
from testcontainers.core.wait_strategies import HttpWaitStrategy

from decisions import malformed_is_blocked
from ledgeragent import policies
from ledgeragent.engine import OpaServer
from ledgeragent.engine.local import AUTHZ
from ledgeragent.engine.versions import PINNED
from ledgeragent.errors import EngineRefused

pytestmark = pytest.mark.container
TOKEN = secrets.token_hex(16)


@pytest.fixture(scope="module")
def url(image: str) -> Iterator[str]:
    container = (
        DockerContainer(image)
        .with_command(
            "run --server --addr=0.0.0.0:8181 --authentication=token --authorization=basic"
            " --ignore=*_test.rego --skip-version-check --bundle /policies /authz"
        )
        .with_env("LEDGERAGENT_OPA_TOKEN", TOKEN)
        .with_exposed_ports(8181)
        .with_volume_mapping(str(policies.REGO), "/policies", "ro")
        .with_volume_mapping(str(AUTHZ), "/authz", "ro")
        .waiting_for(HttpWaitStrategy(8181, "/health").for_status_code(200))
    )
    with container:
        yield f"http://{container.get_container_host_ip()}:{container.get_exposed_port(8181)}"


def test_it_decides_and_tells_its_version(url: str) -> None:
    with OpaServer(url, token=TOKEN) as engine:
        malformed_is_blocked(engine)
        assert engine.version == PINNED


@pytest.mark.parametrize("token", [None, "another-token-than-that"])
def test_it_refuses_whoever_does_not_hold_the_token(url: str, token: str | None) -> None:
    with OpaServer(url, token=token) as engine, pytest.raises(EngineRefused):
        engine.evaluate("retail", "decision", {})
