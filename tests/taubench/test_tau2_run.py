"""`ledgeragent tau2 run` as a user meets it: finished, broken off, killed, gone on with, exported."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tau2.data_model.simulation import Results
from tau2.metrics.agent_metrics import compute_metrics

from ledgeragent.adapters.tau2.run import Endpoint, Failed, Job, Plan, Run
from ledgeragent.cli import main
from ledgeragent.cli_tau2 import progress
from ledgeragent.errors import BadInput, ModelUnreachable
from ledgeragent.gate import Gate
from ledgeragent.passk import read_source, report
from ledgeragent.results import ResultWriter, read_results
from support.chat_server import Answer, ChatServer
from support.gold_player import CLOSING
from taubench.scripted_bench import Bench

pytestmark = pytest.mark.filterwarnings("ignore")  # what litellm warns of is not ours to mend

TESTS = Path(__file__).resolve().parent.parent
SCRIPTED = Endpoint("scripted")


def goodbye(body: dict[str, Any], number: int) -> Answer:
    """Both sides of a conversation that ends at once; only the agent's prompt has a policy."""
    last = next(one for one in reversed(body["messages"]) if not str(one.get("content")).startswith("<ledger>"))
    if "<policy>" in body["messages"][0]["content"]:
        return Answer(CLOSING, usage=(100, 10))
    return Answer("###STOP###" if CLOSING in last["content"] else "Hello.", usage=(50, 5))


def options(endpoint: ChatServer, out: Path, *more: str) -> list[str]:
    model = ["--domain", "telecom", "--arm", "both", "--model", "scripted", "--base-url", endpoint.url]
    return ["tau2", "run", *model, "--out", str(out), *more]


def started(arguments: list[str]) -> subprocess.Popen[str]:
    """The command in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "ledgeragent", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OPENAI_API_KEY": "unused"},
    )


Command = Callable[[list[str]], tuple[int, str, str]]


@pytest.fixture
def ledgeragent(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """The command in this process, which has imported everything; gives exit status, stdout and stderr."""

    def run(arguments: list[str]) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["ledgeragent", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return run


def trials_of(path: Path) -> Counter[tuple[str, int]]:
    return Counter((line["task_id"], line["trial"]) for line in read_results(path).lines)


def test_interrupted_killed_and_gone_on_with_a_run_has_every_simulation_once(
    tmp_path: Path, ledgeragent: Command
) -> None:
    out = tmp_path / "run.jsonl"
    stops: dict[int, Callable[[], None]] = {}

    def script(body: dict[str, Any], number: int) -> Answer:
        stops.get(number, lambda: None)()
        return goodbye(body, number)

    with ChatServer(script) as endpoint:
        arguments = options(endpoint, out, "--num-tasks", "3", "--trials", "4", "--concurrency", "2")
        first = started(arguments)
        stops[11] = lambda: first.send_signal(signal.SIGINT)
        _, said = first.communicate(timeout=300)
        assert (first.returncode, "Traceback" in said) == (130, False)
        assert said.startswith("interrupted: ")
        assert said.endswith(f"of 12 simulations are in {out}; the same command goes on\n")
        interrupted = out.read_bytes()

        second = started(arguments)
        stops[len(endpoint.requests) + 9] = second.kill
        second.communicate(timeout=300)
        assert second.returncode == -signal.SIGKILL
        killed = out.read_bytes()

        status, printed, said = ledgeragent(arguments)

    assert (status, printed) == (0, "")
    assert said.endswith(f"12 of 12 simulations are in {out}\n")  # the endpoint grumbles about clients that were killed
    whole = out.read_bytes()
    assert 0 < interrupted.count(b"\n") < killed.count(b"\n") < whole.count(b"\n") == 13
    assert whole.startswith(interrupted)
    assert whole.startswith(killed[: killed.rfind(b"\n") + 1])
    assert set(trials_of(out).values()) == {1}
    head = read_results(out).header
    assert trials_of(out).keys() == {(task, trial) for task in head["tasks"] for trial in range(4)}
    assert (head["domain"], head["arm"], head["model"], head["seed"]) == ("telecom", "both", "openai/scripted", 300)
    assert head["model_arguments"] == {"api_base": endpoint.url, "num_retries": 3, "temperature": 0.0}


def test_killed_at_random_again_and_again_nothing_finished_is_lost_or_repeated(tmp_path: Path) -> None:
    out = tmp_path / "run.jsonl"
    done = subprocess.run(
        [sys.executable, str(TESTS / "taubench" / "kill_driver.py"), str(out), "2026"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])},
        timeout=300,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    children = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(children) > 4
    assert len(trials_of(out)) == 24
    assert set(trials_of(out).values()) == {1}


def test_a_second_process_and_other_options_are_refused(
    tmp_path: Path, gates: dict[str, Gate], ledgeragent: Command
) -> None:
    out = tmp_path / "run.jsonl"
    with ChatServer(goodbye) as endpoint:
        agent = Endpoint("scripted", endpoint.url)
        plan = Plan(Run("telecom", "both", agent, agent, trials=1, num_tasks=1), gates["telecom"])
        arguments = options(endpoint, out, "--num-tasks", "1", "--trials", "1")
        with ResultWriter(out, plan.header):
            assert ledgeragent(arguments) == (
                2,
                "",
                f"ledgeragent: another process is writing {out}: wait for it, or write to another file with --out\n",
            )
        status, _, said = ledgeragent([*arguments, "--temperature", "0.7"])
    assert status == 2
    assert "another configuration: model_arguments is " in said
    assert '"temperature": 0.7' in said
    assert endpoint.requests == []


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"domain": "telecom", "tasks": ("no such task",)}, "has not all of the tasks"),
        ({"domain": "retail", "tasks": ("0", "0")}, "has not all of the tasks"),
    ],
)
def test_tasks_that_are_not_there_are_refused(gates: dict[str, Gate], wanted: Any, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        Plan(Run(arm="fc", agent=SCRIPTED, user=SCRIPTED, **wanted), gates[wanted["domain"]])


def test_seeds_are_those_of_the_benchmark(gates: dict[str, Gate]) -> None:
    """`random.seed(300)`, then one number up to a million per trial: as its own runner does."""
    plan = Plan(Run("airline", "fc", SCRIPTED, SCRIPTED, trials=3, tasks=("0", "1")), gates["airline"])

    jobs = [(job.task.id, job.trial, job.seed) for job in plan.jobs({("1", 0)})]

    assert jobs == [("0", 0, 626729), ("0", 1, 373753), ("1", 1, 373753), ("0", 2, 361454), ("1", 2, 361454)]
    assert len(plan) == 6


class Unreachable(Plan):
    """Gives no result for some of its jobs, counted from 1, and a result without a conversation for the others."""

    failing: frozenset[int] = frozenset()
    made = 0

    def simulate(self, job: Job) -> dict[str, Any]:
        self.made += 1
        if self.made in self.failing:
            raise ModelUnreachable("openai/m: no connection\nand more")
        return {"task_id": job.task.id, "trial": job.trial, "actions": [], "simulation": {}}


@pytest.fixture(scope="module")
def flaky(gates: dict[str, Gate]) -> Unreachable:
    return Unreachable(Run("airline", "fc", SCRIPTED, SCRIPTED, trials=4, tasks=("0", "1")), gates["airline"])


@pytest.mark.parametrize(
    ("failing", "kept", "lost"),
    [({2}, 7, 1), ({1, 2, 3, 4, 6}, 3, 5), (set(range(1, 9)), 0, 5), (set(range(3, 8)), 2, 5)],
)
def test_what_gave_no_result_is_reported_not_kept_and_five_in_a_row_are_the_end(
    tmp_path: Path, flaky: Unreachable, failing: set[int], kept: int, lost: int
) -> None:
    flaky.made, flaky.failing = 0, frozenset(failing)
    advanced: list[int] = []

    with ResultWriter(tmp_path / "run.jsonl", flaky.header) as file:
        failed = flaky.finish(file, concurrency=1, advance=lambda: advanced.append(1))
        assert (len(file.done), len(advanced), len(failed)) == (kept, kept, lost)
        assert all(isinstance(one, Failed) and str(one).endswith(": openai/m: no connection") for one in failed)

        flaky.failing = frozenset()
        assert flaky.finish(file, concurrency=1, advance=lambda: None) == []
    assert trials_of(tmp_path / "run.jsonl") == {(task, trial): 1 for task in "01" for trial in range(4)}


def test_an_endpoint_of_ones_own_needs_neither_a_provider_nor_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    hosted, own = Endpoint("anthropic/claude"), Endpoint("org/model", "http://127.0.0.1:1/v1", 0.7)

    assert (hosted.name, hosted.arguments, hosted.secret) == (
        "anthropic/claude",
        {"num_retries": 3, "temperature": 0.0},
        {},
    )
    assert (own.name, own.arguments, own.secret) == (
        "openai/org/model",
        {"num_retries": 3, "temperature": 0.7, "api_base": "http://127.0.0.1:1/v1"},
        {"api_key": "unused"},
    )
    assert Endpoint("openai/model", "http://127.0.0.1:1/v1").name == "openai/model"
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    assert own.secret == {}


def test_progress_is_shown_on_a_terminal_and_nowhere_else() -> None:
    terminal, pipe = StringIO(), StringIO()
    for file, is_terminal in ((terminal, True), (pipe, False)):
        with progress(Console(file=file, force_terminal=is_terminal, width=100), 3, 12) as advance:
            advance()

    assert "4/12" in terminal.getvalue()
    assert pipe.getvalue() == ""


def test_an_endpoint_that_is_not_there_ends_the_command_with_what_failed(tmp_path: Path, ledgeragent: Command) -> None:
    with ChatServer(lambda *_: Answer("who are you", status=401)) as endpoint:
        arguments = options(endpoint, tmp_path / "run.jsonl", "--num-tasks", "1", "--trials", "1")
        status, _, said = ledgeragent(arguments)

    assert status == 1
    lines = said.splitlines()
    assert lines[0].startswith("no result: task [mobile_data_issue]")
    assert "who are you" in lines[0]
    assert lines[1:] == [f"0 of 1 simulations are in {tmp_path / 'run.jsonl'}; the same command tries the others again"]


def test_an_export_is_what_the_benchmark_reads_and_counts_as_we_do(
    tmp_path: Path, benches: dict[str, Bench], played: Any, monkeypatch: pytest.MonkeyPatch, ledgeragent: Command
) -> None:
    bench = benches["telecom"]
    tasks = tuple(bench.tasks)[:3]
    script = bench.scripts[tasks[0]]
    monkeypatch.setitem(bench.scripts, tasks[0], type(script)([], script.closing, script.fill))
    played("telecom", "both", tasks)
    source, exported = tmp_path / "telecom-both.jsonl", tmp_path / "exported.json"

    assert ledgeragent(["tau2", "export", str(source), "--out", str(exported)]) == (0, "", "")

    results = Results.load(exported)
    metrics = compute_metrics(results)
    theirs, ours = read_source(exported), read_source(source)
    assert (theirs.domain, theirs.arm, theirs.simulations) == (ours.domain, ours.arm, ours.simulations)
    found = report([theirs], None)
    assert found.passk[1] is not None
    assert found.passk[1].value == pytest.approx(metrics.pass_hat_ks[1]) == pytest.approx(2 / 3)
    assert [one.model_dump(mode="json") for one in results.simulations] == [
        line["simulation"] for line in read_results(source).lines
    ]
