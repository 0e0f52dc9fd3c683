"""`docker compose up` with the file at the top of the repository gives an OPA that `LEDGERAGENT_OPA_URL` can name."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from decisions import malformed_is_blocked
from ledgeragent import policies
from ledgeragent.engine import open_engine

pytestmark = pytest.mark.container
REPO = Path(__file__).resolve().parent.parent.parent
TOKEN = secrets.token_hex(16)


def run(compose: list[str], *arguments: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*compose, *arguments], cwd=REPO, env=env, capture_output=True, text=True, check=False, timeout=120
    )


@pytest.fixture(scope="module")
def url(compose: list[str], image: str) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = str(probe.getsockname()[1])
    env = os.environ | {
        "COMPOSE_PROJECT_NAME": f"ledgeragent-test-{os.getpid()}",
        "LEDGERAGENT_OPA_TOKEN": TOKEN,
        "LEDGERAGENT_OPA_PORT": port,
    }
    started = run(compose, "up", "--detach", env=env)
    try:
        assert started.returncode == 0, started.stderr
        container = run(compose, "ps", "--quiet", "opa", env=env).stdout.strip()
        health = wait_for_health(container)
        assert health == "healthy", run(compose, "logs", env=env).stdout
        yield f"http://127.0.0.1:{port}"
    finally:
        run(compose, "down", "--volumes", env=env)


def wait_for_health(container: str) -> str:
    status = "starting"
    for _ in range(120):
        inspected = subprocess.run(["docker", "inspect", container], capture_output=True, text=True, check=True)
        status = json.loads(inspected.stdout)[0]["State"]["Health"]["Status"]
        if status != "starting":
            break
        time.sleep(0.5)
    return status


def test_the_service_is_healthy_and_decides_for_whoever_is_told_where_it_is(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEDGERAGENT_OPA_URL", url)
    monkeypatch.setenv("LEDGERAGENT_OPA_TOKEN", TOKEN)
    with open_engine("auto", policies=policies.REGO, schemas=policies.SCHEMAS, compiled=policies.COMPILED) as engine:
        assert (engine.name, engine.location) == ("opa", url)
        malformed_is_blocked(engine)


def test_it_does_not_start_without_a_token(compose: list[str], image: str) -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith("LEDGERAGENT_OPA_")}
    refused = run(compose, "config", env=env)
    assert refused.returncode != 0
    assert "set a token" in refused.stdout + refused.stderr
