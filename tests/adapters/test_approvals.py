"""Human approval through the adapters: a person is asked for what only they can allow, and their grant counts once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ledgeragent.adapters.core import Admitted, Guard, Rejected
from ledgeragent.contracts import ApprovalRequest, SignedGrant
from ledgeragent.domain import Domain
from ledgeragent.engine import Engine, open_engine
from ledgeragent.errors import BadInput
from ledgeragent.gate import Gate
from ledgeragent.session import Call, Session
from test_approval import APPROVALS, APPROVED, CANCEL, DESK, NOW, TRIP, desk

Ask = Callable[[ApprovalRequest], Any]


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with open_engine("embedded", overrides=APPROVED) as engine:
        yield engine


@pytest.fixture(scope="module")
def gate(engine: Engine) -> Gate:
    return Gate(Domain.load("airline"), engine)


@pytest.fixture(autouse=True)
def _wall(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ledgeragent.approval.wall_clock", APPROVALS._clock)


class Person:
    """Is asked, and says yes or no."""

    def __init__(self, yes: bool = True) -> None:
        self.yes = yes
        self.asked: list[ApprovalRequest] = []

    def __call__(self, request: ApprovalRequest) -> SignedGrant | None:
        self.asked.append(request)
        return DESK.grant(request, "grace") if self.yes else None

    async def later(self, request: ApprovalRequest) -> SignedGrant | None:
        await asyncio.sleep(0)
        return self(request)


# The guard ----------------------------------------------------------------------------------------------------------


def both(guard: Guard, call: Call, awaited: bool, **about: Any) -> Admitted | Rejected:
    return asyncio.run(guard.ajudge(call, **about)) if awaited else guard.judge(call, **about)


@pytest.mark.parametrize("awaited", [False, True])
@pytest.mark.parametrize("way", ["__call__", "later"])
def test_whoever_is_asked_can_say_yes(gate: Gate, awaited: bool, way: str) -> None:
    person = Person()
    guard = Guard(desk(gate), approve=getattr(person, way))
    answer = both(guard, CANCEL, awaited)
    assert isinstance(answer, Admitted)
    assert [(one.tool, one.arguments) for one in person.asked] == [(CANCEL.tool, CANCEL.arguments)]
    assert guard.execute(CANCEL.tool, CANCEL.call_id, lambda judged: judged["reservation_id"]).content == TRIP


@pytest.mark.parametrize("awaited", [False, True])
def test_whoever_is_asked_can_say_no_and_the_model_reads_why(gate: Gate, awaited: bool) -> None:
    person = Person(yes=False)
    answer = both(Guard(desk(gate), approve=person.later), CANCEL, awaited)
    assert isinstance(answer, Rejected)
    assert "cannot be cancelled" in answer.message
    assert len(person.asked) == 1


def test_a_coroutine_is_awaited_where_all_others_are(gate: Gate) -> None:
    async def play() -> bool:
        here, seen = asyncio.get_running_loop(), []

        async def approve(request: ApprovalRequest) -> None:
            seen.append(asyncio.get_running_loop() is here)

        await Guard(desk(gate), approve=approve).ajudge(CANCEL)
        return seen == [True]

    assert asyncio.run(play())


def test_who_is_cancelled_while_a_person_is_asked_leaves_nothing_admitted(gate: Gate) -> None:
    session = desk(gate)

    async def play() -> None:
        reached = asyncio.Event()

        async def approve(request: ApprovalRequest) -> None:
            reached.set()
            await asyncio.Event().wait()

        judging = asyncio.create_task(Guard(session, approve=approve).ajudge(CANCEL))
        await reached.wait()
        judging.cancel()
        with pytest.raises(asyncio.CancelledError):
            await judging

    asyncio.run(asyncio.wait_for(play(), 10))
    assert session.open_tickets() == []


def test_a_guard_does_not_ask_for_what_its_session_takes_nobodys_grants_of(gate: Gate) -> None:
    with pytest.raises(BadInput, match="open it with `approvals`"):
        Guard(Session(gate, now=NOW), approve=Person())


class Stopped(Exception):
    """What a framework raises to end a run."""


@pytest.mark.parametrize("awaited", [False, True])
def test_a_call_that_was_stopped_for_a_person_comes_again_with_their_answer(gate: Gate, awaited: bool) -> None:
    session, asked = desk(gate), list[ApprovalRequest]()
    guard = Guard(session)

    def stops(request: ApprovalRequest) -> Any:
        asked.append(request)
        if len(asked) == 1:
            raise Stopped
        return DESK.grant(asked[0], "grace").model_dump()

    with pytest.raises(Stopped):
        both(guard, CANCEL, awaited, stops=stops)
    assert isinstance(both(guard, CANCEL, awaited, stops=stops), Admitted)
    assert asked[0] is asked[1], "what was answered is what was asked"


@pytest.mark.parametrize("no", [None, False, [], {}, ""])
def test_an_answer_without_a_grant_is_a_no(gate: Gate, no: Any) -> None:
    assert isinstance(Guard(desk(gate)).judge(CANCEL, stops=lambda _: no), Rejected)


@pytest.mark.parametrize("wrong", ["yes", True, {"decisions": [{"type": "approve"}]}, [True]])
def test_an_answer_that_is_no_grant_is_a_no_and_the_log_says_so(
    gate: Gate, wrong: Any, caplog: pytest.LogCaptureFixture
) -> None:
    assert isinstance(Guard(desk(gate)).judge(CANCEL, stops=lambda _: wrong), Rejected)
    [said] = caplog.messages
    assert said.startswith("the answer to an approval request is no signed grant")


def test_a_grant_of_somebody_who_may_not_approve_lets_nothing_through(gate: Gate) -> None:
    answer = Guard(desk(gate)).judge(CANCEL, stops=lambda request: DESK.grant(request, "mallory"))
    assert isinstance(answer, Rejected)
    assert answer.review is not None
    assert answer.review.refused_grants[0].endswith("its key may not sign in the approver's name")


def test_a_session_that_takes_no_grants_stops_for_nobody(gate: Gate) -> None:
    person = Person()
    assert isinstance(Guard(desk(gate, approvals=None)).judge(CANCEL, stops=person), Rejected)
    assert person.asked == []
