"""The right actions of the benchmark's telehealth tasks: what is right, the gate allows.

The telehealth tools are in no package. Reads are answered as the recorded conversations had them answered; a read that
no recording holds, or that failed there, fails here. Every right action counts as one that the tools accept.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ledgeragent.conversation import open_lines, read_conversation
from ledgeragent.domain import Domain
from ledgeragent.engine import Engine
from ledgeragent.gate import Gate
from ledgeragent.session import ToolRefused
from opa.gold import JSON, Clerk, Ending, rejected_but_accepted

TASKS = 10
WRITES = 21

UNREADABLE = "the recorded back end fails on this provider, so the schedule cannot be read"
UNRECORDED = "no recorded conversation reads this provider"
TOO_LATE = "the recorded conversations read this appointment only after they had cancelled it"
NOT_ALLOWED = {
    ("4", "schedule_appointment"): UNRECORDED,
    ("10", "cancel_appointment"): TOO_LATE,
    ("12", "schedule_appointment"): UNRECORDED,
    ("16", "reschedule_appointment"): UNREADABLE,
    ("18", "schedule_appointment"): UNREADABLE,
}
"""(task, tool) → why a right write is not allowed."""

CHANGED_BY_WRITES = {"get_appointment_details", "list_patient_appointments"}
KEYED_BY = {"list_medication_suppliers": "medication", "list_patient_medical_records": "patient_id"}
"""Lists whose other arguments only shorten them."""


def key(tool: str, arguments: JSON) -> str:
    """What a read is about."""
    return json.dumps([tool, arguments.get(KEYED_BY[tool]) if tool in KEYED_BY else arguments], sort_keys=True)


class Portal:
    """Answers reads as they were answered in the recordings."""

    def __init__(self, answers: dict[str, str]) -> None:
        self._answers = answers

    def offers(self, tool: str) -> bool:
        """Whether it is worth asking: the recordings hold reads only."""
        return not tool.startswith(("calculate", "think", "transfer"))

    def call(self, tool: str, arguments: JSON) -> str:
        """The recorded answer; a write gets a word.

        Raises:
            ToolRefused: when there is no recorded answer.
        """
        if tool.startswith(("schedule", "reschedule", "cancel", "update")):
            return "done"
        if key(tool, arguments) not in self._answers:
            raise ToolRefused("no recording holds this read")
        return self._answers[key(tool, arguments)]

    def would_accept(self, tool: str, arguments: JSON) -> bool:
        """Every right action is accepted."""
        return True

    def act_as_user(self, tool: str, arguments: JSON) -> None:
        """No task has the patient do anything on a device."""


@pytest.fixture(scope="module")
def answers(shared: Path) -> dict[str, str]:
    """The first recorded answer to each read that did not fail; appointments only before anything was changed."""
    domain = Domain.load("telehealth")
    found: dict[str, str] = {}
    for place, line in open_lines(str(shared / "conversations" / "telehealth.jsonl.gz")):
        changed = False
        for call in [call for turn in read_conversation(line, place=place).turns for call in turn]:
            changed = changed or domain.is_write(call.tool)
            if call.answered and not call.error and not (changed and call.tool in CHANGED_BY_WRITES):
                found.setdefault(key(call.tool, call.arguments), call.content)
    return found


@pytest.fixture(scope="module")
def endings(shared: Path, answers: dict[str, str], embedded: Engine) -> list[Ending]:
    """Every write of every task."""
    gate = Gate(Domain.load("telehealth"), embedded)
    lines = (shared / "gold" / "telehealth.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(lines) == TASKS
    return [
        ending
        for task in map(json.loads, lines)
        for ending in Clerk(task, gate, Portal(answers), identify(task)).work()
    ]


def identify(task: JSON) -> tuple[str, dict[str, str]] | None:
    """The look-up that the first task leaves out: its patient is the one of the recordings."""
    if any(action["name"].startswith("find_patient") for action in task["actions"]):
        return None
    assert task["user_id"] == "sarah_johnson_1234"
    return "find_patient_by_email", {"email": "sarah.johnson@email.com"}


def test_every_right_write_ends_allowed(endings: list[Ending]) -> None:
    rejected = rejected_but_accepted(endings)

    assert {key: text for key, text in rejected.items() if key not in NOT_ALLOWED} == {}
    assert set(rejected) == set(NOT_ALLOWED), "an exception that is none any more has to be taken from the list"


def test_what_is_not_allowed_waits_for_a_read(endings: list[Ending]) -> None:
    waiting = [ending.review.decision for ending in endings if ending.review.verdict != "allow"]

    assert len(waiting) == 6
    assert {finding.status for decision in waiting if decision for finding in decision.findings} == {"unknown"}


def test_the_gate_asks_for_reads_where_the_task_makes_none(endings: list[Ending]) -> None:
    asked = [(ending.task, ending.review.call.tool) for ending in endings if ending.reads and ending.review.ticket]

    assert len(endings) == WRITES
    assert asked == [
        ("0", "schedule_appointment"),
        ("8", "cancel_appointment"),
        ("14", "reschedule_appointment"),
    ]
