"""The right actions of the benchmark's tasks, played by a scripted model through the very path of `tau2 run`.

A sample; all 278 tasks with `LEDGERAGENT_ALL_TASKS=1 .venv/bin/python -m pytest tests/taubench/test_tau2_gold.py`
(the better part of an hour where others work as well: the benchmark digests whole databases).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ledgeragent.gate import Gate
from taubench.conftest import ALL_TASKS
from taubench.scripted_bench import Bench, Script, counted, scripted_agent, tool_calls

SAMPLE = {
    "airline": ("23",),
    "retail": ("21",),
    "telecom": (
        "[mobile_data_issue]airplane_mode_on|user_abroad_roaming_enabled_off[PERSONA:None]",
        "[service_issue]overdue_bill_suspension|unseat_sim_card[PERSONA:Easy]",
        "[mms_issue]break_app_sms_permission|data_usage_exceeded|user_abroad_roaming_disabled_on[PERSONA:None]",
    ),
}
"""Writes without any read before them, look-ups that fail, the user's own device."""

AGAINST_POLICY = {
    ("airline", "2"): "airline.certificate_basis",
    ("airline", "7"): "airline.cancel_requires_basis",
    ("airline", "9"): "airline.no_flown_segment",
    ("airline", "27"): "airline.certificate_basis",
    ("airline", "29"): "airline.itinerary_shape_fixed",
    ("airline", "33"): "airline.baggage_rules",
    ("airline", "37"): "airline.no_flown_segment",
    ("airline", "38"): "airline.certificate_basis",
    ("retail", "18"): "retail.replacement_grounded",
    ("retail", "91"): "retail.replacement_grounded",
    ("retail", "107"): "retail.replacement_grounded",
}
"""Task → the predicate that speaks against one of its right actions: the benchmark's 26.3 has them against its own
policy (docs/benchmark.md says how)."""


def tasks_of(bench: Bench) -> tuple[str, ...]:
    return tuple(bench.tasks) if ALL_TASKS else SAMPLE[bench.domain]


def rewards(simulations: dict[str, Any]) -> dict[str, float]:
    return {task: simulation["reward_info"]["reward"] for task, simulation in simulations.items()}


@pytest.mark.parametrize("domain", ["airline", "retail", "telecom"])
def test_the_right_actions_earn_what_they_earn_without_us(
    domain: str, benches: dict[str, Bench], played: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = benches[domain]
    tasks = tasks_of(bench)
    scripted_agent(bench, monkeypatch)
    bare = {task: bench.bare(task).model_dump(mode="json") for task in tasks}
    assert set(rewards(bare).values()) == {1.0}

    fc, both = played(domain, "fc", tasks), played(domain, "both", tasks)

    assert rewards(fc) == rewards(bare)
    against = {task for task in tasks if (domain, task) in AGAINST_POLICY}
    assert rewards(both) == {task: 0.0 if task in against else 1.0 for task in tasks}
    for task in against:
        spoke = {name for one in counted(both[task], "rejected") for name in one["predicates"]}
        assert AGAINST_POLICY[domain, task] in spoke
    assert {task: tool_calls(one) for task, one in fc.items()} == {task: tool_calls(one) for task, one in bare.items()}
    for task in tasks:
        assert counted(fc[task], "generations") == bare_generations(bare[task])
        rejected = len(counted(both[task], "rejected"))
        assert counted(both[task], "generations") == bare_generations(both[task]) + rejected


def bare_generations(simulation: Any) -> int:
    return sum(message["role"] == "assistant" and message["usage"] is not None for message in simulation["messages"])


@pytest.mark.parametrize("domain", ["airline", "retail"] if ALL_TASKS else ["retail"])
def test_right_actions_that_are_recorded_in_another_version_play_as_well(
    domain: str, shared: Path, benches: dict[str, Bench], played: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest of the recorded ones are the benchmark's own; of telecom all are."""
    bench = benches[domain]
    text = (shared / "gold" / f"{domain}.jsonl").read_text(encoding="utf-8")
    recorded = {task["task_id"]: task["actions"] for task in map(json.loads, text.splitlines())}
    tasks = tuple(
        task
        for task, actions in recorded.items()
        if actions != bench.actions(task) and (ALL_TASKS or task in SAMPLE[domain])
    )
    for task in tasks:
        script = bench.scripts[task]
        monkeypatch.setitem(bench.scripts, task, Script(recorded[task], script.closing, script.fill))
    scripted_agent(bench, monkeypatch)
    bare = {task: bench.bare(task).model_dump(mode="json") for task in tasks}

    assert len(tasks) == {"airline": 6, "retail": 5}[domain] or not ALL_TASKS
    for arm in ("fc", "both"):
        assert rewards(played(domain, arm, tasks)) == rewards(bare)


def test_so_many_tasks_need_a_write(benches: dict[str, Bench], gates: dict[str, Gate]) -> None:
    needing = {
        domain: [
            {action["requestor"] for action in actions if action["requestor"] == "user" or writes(action["name"])}
            for actions in map(benches[domain].actions, benches[domain].tasks)
        ]
        for domain, writes in ((name, gate.domain.is_write) for name, gate in gates.items())
    }

    assert {name: sum(map(bool, by)) for name, by in needing.items()} == {"airline": 30, "retail": 105, "telecom": 94}
    assert sum("assistant" in by for by in needing["telecom"]) == 71
