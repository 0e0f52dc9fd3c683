"""Fixtures for tests that start containers."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from testcontainers.core.config import testcontainers_config

from ledgeragent.engine.versions import PINNED
from needs import need

REPO = Path(__file__).resolve().parent.parent.parent

# Each test stops what it starts, so the reaper, another image to pull, is not needed.
testcontainers_config.ryuk_disabled = True


def succeeds(*command: str) -> bool:
    """Whether the command is there and ends well."""
    if shutil.which(command[0]) is None:
        return False
    return subprocess.run(command, capture_output=True, check=False, timeout=60).returncode == 0


@pytest.fixture(scope="session")
def docker() -> None:
    """A Docker daemon that answers."""
    need(succeeds("docker", "info"), "a Docker daemon (`scripts/docker-up` starts one where it may)")


@pytest.fixture(scope="session")
def images(docker: None) -> None:
    """Every image that docker-compose.yml names: pulled, or the like of it that `scripts/docker-up` built."""
    services = yaml.safe_load((REPO / "docker-compose.yml").read_text(encoding="utf-8"))["services"]
    for name in sorted({service["image"] for service in services.values()}):
        present = succeeds("docker", "image", "inspect", name) or succeeds("docker", "pull", "--quiet", name)
        need(present, f"the image {name} (`scripts/docker-up` pulls or builds it)")


@pytest.fixture(scope="session")
def image(docker: None) -> str:
    """OPA's official image of the pinned version, or the like of it that `scripts/docker-up` built."""
    name = f"openpolicyagent/opa:{PINNED}"
    present = succeeds("docker", "image", "inspect", name) or succeeds("docker", "pull", "--quiet", name)
    need(present, f"the image {name} (`scripts/docker-up` pulls or builds it)")
    return name


@pytest.fixture(scope="session")
def compose(docker: None) -> list[str]:
    """The command that is Docker Compose here."""
    if succeeds("docker", "compose", "version"):
        return ["docker", "compose"]
    need(succeeds("docker-compose", "version"), "Docker Compose")
    return ["docker-compose"]
