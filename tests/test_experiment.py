"""The local-model experiment without the model: tasks, scripted customer, arms, measures, and what a kill leaves."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from ledgeragent import Domain, Gate, Generation, ProposedCall, open_engine

sys.path.append(str(Path(__file__).resolve().parent.parent / "bench"))

import experiment
from experiment import ARMS, TASKS, Customer, Task


@pytest.fixture(autouse=True)
def _our_logger_is_as_before() -> Iterator[None]:
    """The experiment quietens it for its whole process, which here is that of all tests."""
    logger = logging.getLogger("ledgeragent")
    before = logger.level
    yield
    logger.setLevel(before)


BY_ID = {task.id: task for task in TASKS}
GATED = ("gate", "both")
VIOLATING = {
    "foreign-order": ("cancel_pending_order", {"order_id": "#W4036", "reason": "no longer needed"}),
    "cancel-delivered": ("cancel_pending_order", {"order_id": "#W4030", "reason": "no longer needed"}),
    "cancel-other-reason": ("cancel_pending_order", {"order_id": "#W4009", "reason": "found it cheaper"}),
    "gift-card-too-small": (
        "modify_pending_order_payment",
        {"order_id": "#W4007", "payment_method_id": "gift_card_2746"},
    ),
    "refund-elsewhere": (
        "return_delivered_order_items",
        {"order_id": "#W4027", "item_ids": ["10512"], "payment_method_id": "credit_card_7055"},
    ),
    "change-payment-twice": (
        "modify_pending_order_payment",
        {"order_id": "#W4005", "payment_method_id": "credit_card_3350"},
    ),
    "variant-sold-out": (
        "modify_pending_order_items",
        {"order_id": "#W4007", "item_ids": ["10711"], "new_item_ids": ["10714"], "payment_method_id": "paypal_2747"},
    ),
}
BROKEN = {
    "foreign-order": ["retail.order_owner"],
    "cancel-delivered": ["retail.order_pending"],
    "cancel-other-reason": ["retail.cancel_reason"],
    "gift-card-too-small": ["retail.gift_card_covers"],
    "refund-elsewhere": ["retail.refund_payment_in_order_history"],
    "change-payment-twice": ["retail.payment_change_single"],
    "variant-sold-out": ["retail.replacement_grounded"],
}


class Scripted:
    """Makes its calls one by one, then says that it is done."""

    def __init__(self, calls: Iterable[tuple[str, Any]]) -> None:
        self._calls = list(calls)

    def generate(self, messages: Sequence[Any], tools: Sequence[Any]) -> Generation:
        if not self._calls:
            return Generation("That is all.")
        name, arguments = self._calls.pop(0)
        return Generation("", (ProposedCall("", name, json.dumps(arguments)),))


@pytest.fixture(scope="module")
def gate() -> Gate:
    return Gate(Domain.load("retail"), open_engine("embedded"))


def reads(task: Task, order_id: str) -> list[tuple[str, dict[str, Any]]]:
    """What a careful agent reads before it changes an order of the tasks."""
    found = [("get_user_details", {"user_id": task.customer}), ("get_order_details", {"order_id": order_id})]
    return [*found, ("get_product_details", {"product_id": "P107"})] if order_id == "#W4007" else found


def play(task: Task, arm: str, calls: Iterable[tuple[str, Any]], gate: Gate) -> dict[str, Any]:
    return experiment.played(task, arm, 0, experiment.Remembering(Scripted(calls)), gate, len)


@pytest.mark.parametrize("arm", ARMS)
@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.id)
def test_who_reads_first_and_does_what_is_right_succeeds_in_every_arm(task: Task, arm: str, gate: Gate) -> None:
    calls = [one for write in task.writes for one in (*reads(task, write[1]["order_id"]), write)]
    row = play(task, arm, calls, gate)
    assert row["success"]
    assert [(write["tool"], write["broken"], write["gate"]) for write in row["writes"]] == [
        (tool, [], "allow") for tool, _ in task.writes
    ]
    assert row["rejected"] == []


@pytest.mark.parametrize("arm", ARMS)
@pytest.mark.parametrize("name", VIOLATING)
def test_a_write_that_breaks_a_rule_reaches_the_database_only_where_nothing_gates_it(
    name: str, arm: str, gate: Gate
) -> None:
    task, write = BY_ID[name], VIOLATING[name]
    before = [one for right in task.writes for one in (*reads(task, right[1]["order_id"]), right)]
    if name != "change-payment-twice":
        before = []
    row = play(task, arm, [*before, *reads(task, write[1]["order_id"]), write], gate)
    ran = [one["broken"] for one in row["writes"] if one["broken"]]
    rejected = [call["predicates"] for call in row["rejected"]]
    if arm in GATED:
        assert (ran, rejected) == ([], [[f"{rule} violated" for rule in BROKEN[name]]])
        assert row["success"] == (name != "refund-elsewhere")
    else:
        assert (ran, rejected, row["success"]) == ([BROKEN[name]], [], False)


@pytest.mark.parametrize("arm", ["fc", "ledger"])
def test_a_right_write_without_a_read_is_told_from_one_that_breaks_a_rule(arm: str, gate: Gate) -> None:
    row = play(BY_ID["cancel"], arm, BY_ID["cancel"].writes, gate)
    assert row["success"]
    assert [(write["broken"], write["gate"]) for write in row["writes"]] == [([], "revise")]


def test_the_view_is_counted_in_the_arms_that_show_it(gate: Gate) -> None:
    views = {arm: play(BY_ID["cancel"], arm, reads(BY_ID["cancel"], "#W4001"), gate)["view_tokens"] for arm in ARMS}
    assert {arm for arm, tokens in views.items() if tokens} == {"ledger", "both"}


def test_at_least_half_of_the_tasks_end_in_a_refusal_or_another_argument() -> None:
    assert len(TASKS) >= 12
    assert len(VIOLATING) >= len(TASKS) / 2


def test_the_customer_answers_says_yes_asks_on_and_goes() -> None:
    task = Task("t", "c", "Hi", answers=(("reason", "I changed my mind."),), further=("And the other one?",))
    customer = Customer(task)
    said = ["What is the reason?", "Shall I cancel it?", "Done. Anything else I can do?", "The reason does not matter."]
    assert [customer.answer(one) for one in said] == [
        "I changed my mind.",
        "Yes, please go ahead.",
        "And the other one?",
        None,
    ]


def test_the_customer_does_not_talk_for_ever() -> None:
    customer = Customer(BY_ID["cancel"])
    assert [customer.answer("Sure?") for _ in range(5)] == ["Yes, please go ahead."] * 4 + [None]


def test_arms_take_turns_and_what_is_there_is_not_played_again() -> None:
    tasks = TASKS[:2]
    done = [{"trial": 0, "task": tasks[0].id, "arm": "fc"}, {"trial": 1, "task": tasks[1].id, "arm": "both"}]
    order = [(trial, task.id, arm) for trial, task, arm in experiment.todo(tasks, 2, ARMS, done)]
    a, b = (task.id for task in tasks)
    assert order == [
        *((0, a, arm) for arm in ARMS[1:]),
        *((0, b, arm) for arm in ARMS),
        *((1, a, arm) for arm in ARMS),
        *((1, b, arm) for arm in ARMS[:-1]),
    ]


def test_a_line_cut_off_by_a_kill_is_played_again(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    file.write_text('{"task": "cancel"}\n{"task": "ret', encoding="utf-8")
    assert experiment.rows(file) == [{"task": "cancel"}]


def test_the_report_needs_nothing_but_the_file(
    tmp_path: Path, gate: Gate, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "results.jsonl"
    task = BY_ID["foreign-order"]
    every = [
        {**play(task, arm, [*reads(task, "#W4036"), VIOLATING[task.id]], gate), "trial": trial}
        for trial in range(4)
        for arm in ARMS
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in every), encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["experiment.py", "report", str(file)])
    assert experiment.main() == 0
    printed = capsys.readouterr().out
    for line in (
        "| pass^4 | 0.000 (0.00 to 0.00) | 0.000 (0.00 to 0.00) | 1.000 (1.00 to 1.00) | 1.000 (1.00 to 1.00) |",
        "| … of them broke a rule | 4 | 4 | 0 | 0 |",
        "| `retail.order_owner` | 4 | 4 | 0 | 0 |",
        "| `retail.order_owner violated` | 0 | 0 | 4 | 4 |",
        "| foreign-order | 0/4 | 0/4 | 4/4 | 4/4 |",
    ):
        assert line in printed.splitlines()
