"""Grants in a service of several replicas: what one of them spent none takes again."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator

import pytest

from ledgeragent.approval import ApprovalKey, Approvals, Signer
from ledgeragent.contracts import SignedGrant
from ledgeragent.domain import Domain
from ledgeragent.engine import Engine, open_engine
from ledgeragent.gate import Gate
from ledgeragent.sessions import Sessions
from test_approval import APPROVED, NOW, READS, read, review

pytest_plugins = ["support.fixtures"]

Replica = Callable[..., Sessions]
SECRET = b"s" * 32
KEY = ApprovalKey(
    id="desk",
    kind="approval",
    algorithm="hmac-sha256",
    key=base64.b64encode(SECRET).decode(),
    approvers=["grace"],
)


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with open_engine("embedded", overrides=APPROVED) as engine:
        yield engine


@pytest.fixture
def gate(engine: Engine) -> Gate:
    return Gate(Domain.load("airline"), engine)


def test_a_grant_that_one_replica_used_is_not_taken_by_the_next(replica: Replica, session_id: str) -> None:
    def service() -> Sessions:
        return replica(approvals=Approvals([KEY]))

    sessions = service()
    with sessions.turn(session_id, sessions.create(session_id, now=NOW), now=NOW) as first:
        for tool, arguments in READS:
            read(first.session, tool, **arguments)
        request = review(first.session).request
        assert request is not None
    grant: SignedGrant = Signer.hmac("desk", SECRET).grant(request, "grace")
    with service().turn(session_id, first.token, now=NOW) as second:
        assert review(second.session, grant).verdict == "allow"
    with service().turn(session_id, second.token, now=NOW) as third:
        said = review(third.session, grant)
    assert (said.verdict, said.refused_grants[0].split(": ", 1)[1]) == ("block", "it was used before")
