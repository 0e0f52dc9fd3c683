"""Human approval in LangGraph's own way: the graph is interrupted with what must be consented to, and resumed with it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from needs import need_framework

need_framework("langchain", "langchain")

from langchain_core.messages import AIMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from ledgeragent.adapters.core import Guard
from ledgeragent.adapters.langchain import guarded_agent
from ledgeragent.contracts import ApprovalRequest
from ledgeragent.domain import Domain
from ledgeragent.engine import Engine, open_engine
from ledgeragent.gate import Gate
from ledgeragent.jsonio import canonical
from ledgeragent.records import JsonlRecorder, read_records
from ledgeragent.session import Session, ToolRefused
from ledgeragent.shops import open_shop
from support.langchain_agents import Script, says, tool_of
from test_approval import APPROVALS, APPROVED, CANCEL, DESK, NOW, READS, USER

CANCELS = (CANCEL.tool, CANCEL.arguments)
HI = {"messages": [("user", "Cancel it, my mother is ill.")]}
FIELDS = ("user_id", "reservation_id", "flight_number", "date")
THREAD: Any = {"configurable": {"thread_id": "1"}}


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with open_engine("embedded", overrides=APPROVED) as engine:
        yield engine


@pytest.fixture(autouse=True)
def _wall(monkeypatch: pytest.MonkeyPatch) -> None:
    """The signer's wall clock shows what the host's does."""
    monkeypatch.setattr("ledgeragent.approval.wall_clock", APPROVALS._clock)


class Desk:
    """An agent of the airline that was told everything but a ground to cancel, awaited or not."""

    def __init__(self, engine: Engine, record: Path, awaited: bool, *answers: Any, **about: Any) -> None:
        self.shop = open_shop("airline")
        self.ran: list[str] = []
        self.closed = False
        self.record = record
        gate = Gate(Domain.load("airline"), engine)
        self.session = Session(gate, now=NOW, approvals=APPROVALS, recorder=JsonlRecorder(record))
        self.model = Script(answers=[says(*READS), *answers])
        names = dict.fromkeys((*(name for name, _ in READS), CANCEL.tool))
        guard = Guard(self.session, approve=about.pop("approve", None))
        about = {"interrupts": True, "checkpointer": InMemorySaver(), **about}
        self._agent = guarded_agent(guard, self.model, [tool_of(name, self._run, FIELDS) for name in names], **about)
        self._awaited = awaited

    def _run(self, name: str, arguments: dict[str, Any]) -> Any:
        self.ran.append(name)
        if self.closed and name == CANCEL.tool:
            raise ToolRefused("closed for today")
        returned = self.shop.tools[name].run(name, arguments)
        return returned if isinstance(returned, str) else canonical(returned)

    def go(self, given: Any = HI) -> Any:
        """The state the graph stops or ends with."""
        return asyncio.run(self._agent.ainvoke(given, THREAD)) if self._awaited else self._agent.invoke(given, THREAD)

    @property
    def verdicts(self) -> list[str]:
        return [one.verdict for one in read_records(self.record) if one.kind == "decision"]

    @property
    def writes(self) -> list[str]:
        return [name for name in self.ran if self.session.domain.is_write(name)]


def wanted(state: Any) -> ApprovalRequest:
    """What the graph stopped for; it travels as JSON."""
    [one] = state["__interrupt__"]
    return ApprovalRequest.model_validate_json(json.dumps(one.value))


def answer(state: Any) -> str:
    """What the model read last in a call's place."""
    return str([one for one in state["messages"] if isinstance(one, ToolMessage)][-1].content)


DONE = AIMessage("Done.")
awaited = pytest.mark.parametrize("awaited", [False, True], ids=["plain", "awaited"])


@awaited
def test_the_graph_stops_for_a_person_and_goes_on_with_their_grant(
    engine: Engine, tmp_path: Path, awaited: bool
) -> None:
    desk = Desk(engine, tmp_path / "r", awaited, says(CANCELS, first=9), DONE)
    request = wanted(desk.go())
    assert (request.tool, request.arguments, request.requester) == (*CANCELS, USER)
    assert desk.writes == []
    last = desk.go(Command(resume=DESK.grant(request, "grace").model_dump()))
    assert last["messages"][-1].content == "Done."
    assert "is cancelled" in answer(last)
    assert (desk.writes, desk.verdicts) == ([CANCEL.tool], ["block", "allow"])


@awaited
def test_a_no_is_an_answer_and_the_model_reads_the_rule(engine: Engine, tmp_path: Path, awaited: bool) -> None:
    desk = Desk(engine, tmp_path / "r", awaited, says(CANCELS, first=9), DONE)
    desk.go()
    last = desk.go(Command(resume=False))
    assert "cannot be cancelled" in answer(last)
    assert (desk.writes, desk.verdicts) == ([], ["block"])


@awaited
def test_a_grant_counts_once_whatever_became_of_the_call(engine: Engine, tmp_path: Path, awaited: bool) -> None:
    desk = Desk(engine, tmp_path / "r", awaited, says(CANCELS, first=9), says(CANCELS, first=10), DONE)
    desk.closed = True
    grant = DESK.grant(wanted(desk.go()), "grace").model_dump()
    asked_again = desk.go(Command(resume=grant))
    assert answer(asked_again) == "Error: closed for today"
    assert wanted(asked_again).tool == CANCEL.tool
    assert "cannot be cancelled" in answer(desk.go(Command(resume=grant)))
    assert (desk.writes, desk.verdicts) == ([CANCEL.tool], ["block", "allow", "block", "block"])


def test_a_person_who_says_no_twice_can_still_say_yes(engine: Engine, tmp_path: Path) -> None:
    said = [says(CANCELS, first=at) for at in (9, 10, 11)]
    desk = Desk(engine, tmp_path / "r", False, *said, DONE)
    desk.go()
    for _ in "12":
        state = desk.go(Command(resume=False))
    last = desk.go(Command(resume=[DESK.grant(wanted(state), "grace").model_dump()]))
    assert "is cancelled" in answer(last)
    assert desk.verdicts == ["block", "block", "block", "allow"]


def test_what_is_no_grant_is_a_no(engine: Engine, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk(engine, tmp_path / "r", False, says(CANCELS, first=9), DONE)
    desk.go()
    last = desk.go(Command(resume={"decisions": [{"type": "approve"}]}))
    assert "cannot be cancelled" in answer(last)
    assert desk.writes == []
    assert "no signed grant" in caplog.text


@awaited
def test_other_calls_of_the_message_run_once_although_the_graph_stopped(
    engine: Engine, tmp_path: Path, awaited: bool
) -> None:
    read = ("get_flight_status", {"flight_number": "NB172", "date": "2024-05-20"})
    desk = Desk(engine, tmp_path / "r", awaited, says(read, CANCELS, first=9), DONE)
    before = len(READS)
    request = wanted(desk.go())
    assert desk.ran[before:] == ["get_flight_status"]
    desk.go(Command(resume=DESK.grant(request, "grace").model_dump()))
    assert desk.ran[before:] == ["get_flight_status", CANCEL.tool]


@awaited
def test_a_guard_that_asks_itself_needs_no_interrupt(engine: Engine, tmp_path: Path, awaited: bool) -> None:
    asked = []

    async def approve(request: ApprovalRequest) -> Any:
        asked.append(request.tool)
        return DESK.grant(request, "grace")

    desk = Desk(engine, tmp_path / "r", awaited, says(CANCELS, first=9), DONE, approve=approve, interrupts=False)
    assert "is cancelled" in answer(desk.go())
    assert (asked, desk.writes, desk.verdicts) == ([CANCEL.tool], [CANCEL.tool], ["block", "allow"])
