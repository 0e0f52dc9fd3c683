"""Fixtures for sessions in a real Redis."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator

import pytest
from redis import Redis

from ledgeragent.gate import Gate
from ledgeragent.sessions import Sessions
from ledgeragent.sessions.in_redis import RedisStore
from support.redis_server import RedisServer, running
from support.stored import KEY

Replica = Callable[..., Sessions]


@pytest.fixture(scope="session")
def shared_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A server for all tests that leave it well."""
    with running(tmp_path_factory.mktemp("redis"), durable=False) as server:
        yield server


@pytest.fixture
def redis(shared_redis: RedisServer) -> Iterator[Redis]:
    """The hand that meddles with the shared server, which is empty."""
    with shared_redis.client() as client:
        client.flushall()
        yield client


@pytest.fixture
def replica(shared_redis: RedisServer, gate: Gate) -> Iterator[Replica]:
    """Makes replicas of a service, each with connections of its own to the shared server."""
    stores: list[RedisStore] = []

    def make(
        url: str = shared_redis.url, timeout: float = 5.0, store: dict[str, int] | None = None, **about: object
    ) -> Sessions:
        stores.append(RedisStore.from_url(url, timeout=timeout, **(store or {})))
        return Sessions(stores[-1], gate, **{"keys": [KEY], "lifetime": 3600.0, **about})  # type: ignore[arg-type]

    yield make
    for one in stores:
        one.close()


@pytest.fixture
def session_id() -> str:
    """An id that was never used."""
    return secrets.token_hex(8)
