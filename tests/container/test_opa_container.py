"""OPA's official image, started as docker-compose.yml starts it, decides for those who hold the token."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from testcontainers.core.container import DockerContainer
from testcontainers.core.wait_strategies import HttpWaitStrategy

from decisions import malformed_is_blocked
from ledgeragent.engine import OpaServer
from ledgeragent.engine.versions import PINNED
from ledgeragent.errors import EngineRefused

pytestmark = pytest.mark.container
REPO = Path(__file__).resolve().parent.parent.parent
TOKEN = secrets.token_hex(16)


@pytest.fixture(scope="module")
def url(image: str) -> Iterator[str]:
    service = yaml.safe_load((REPO / "docker-compose.yml").read_text(encoding="utf-8"))["services"]["opa"]
    container = (
        DockerContainer(image)
        .with_command(service["command"])
        .with_env("LEDGERAGENT_OPA_TOKEN", TOKEN)
        .with_exposed_ports(8181)
        .with_kwargs(**{name: service[name] for name in ("user", "read_only", "cap_drop", "security_opt")})
        .waiting_for(HttpWaitStrategy(8181, "/health").for_status_code(200))
    )
    for volume in service["volumes"]:
        folder, place, mode = volume.split(":")
        container.with_volume_mapping(str(REPO / folder), place, mode)
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
