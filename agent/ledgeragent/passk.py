"""pass^k and what goes with it, from the result files of a run or of the benchmark itself. Reads and counts; no output.

pass^k of a task with n trials, c of them passed, is C(c, k) / C(n, k): the chance that k trials drawn from these n all
passed, an unbiased estimate of the chance that k new ones do. The figure of a domain is its mean over the tasks (Yao et
al., arXiv 2406.12045). Tasks with fewer than k trials are left out of pass^k and counted. The interval is the
percentile bootstrap over tasks: 2,000 times as many tasks are drawn with replacement, always with the same seed, and
the middle 95 % of their means are given. A trial passed when its reward is 1.

A task is a *write task* when its right actions contain a write of the agent, or anything done on the user's own device.

Failed trials are sorted by comparing the writes that were executed (calls that came back without an error) with the
right ones, each matched once. What is left over decides, in this order:

* `missed action`: a right action without any executed call of its tool left to stand for it;
* `wrong argument`: every right action that is left over has an executed call of its tool, with other arguments;
* `extra action`: all right actions were executed, and another write of the agent's as well;
* `other`: the writes are right (something was not said, the order was wrong, or the conversation broke off).
"""

from __future__ import annotations

import json
import math
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from ledgeragent.arms import AGENTS
from ledgeragent.errors import BadInput
from ledgeragent.jsonio import digest
from ledgeragent.results import is_result_file, read_results

KS: Final = (1, 2, 3, 4)
RESAMPLES: Final = 2_000
SEED: Final = 20_260_620
_MARGIN: Final = 1e-6
"""The benchmark's own: a reward this close to 1 is 1."""
_ARM_OF: Final = {name: arm for arm, name in AGENTS.items()}

Failure = Literal["missed action", "wrong argument", "extra action", "other"]
FAILURES: Final[tuple[Failure, ...]] = ("missed action", "wrong argument", "extra action", "other")
IsWrite = Callable[[str], bool]


@dataclass(frozen=True)
class Action:
    """A call: who made it, of which tool, and its arguments as canonical text."""

    requestor: str
    tool: str
    arguments: str


@dataclass(frozen=True)
class Counts:
    """What a simulation cost the agent.

    Attributes:
        generations: answers of the model, those that never became visible too.
        uncounted: generations whose tokens the provider did not count.
        prompt: tokens of the requests.
        completion: tokens of the answers.
        view_bytes: of the ledger's blocks in the requests.
        view_tokens: their share of the prompt tokens.
        verdicts: what the gate said to writes, in force or not.
        predicates: how often each one spoke against a write.
    """

    generations: int = 0
    uncounted: int = 0
    prompt: int = 0
    completion: int = 0
    view_bytes: int = 0
    view_tokens: int = 0
    verdicts: Mapping[str, int] = field(default_factory=dict)
    predicates: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Simulation:
    """One trial of one task, as it matters here.

    Attributes:
        right: the task's right actions.
        executed: calls that came back without an error, the user's too.
    """

    task: str
    trial: int
    reward: float
    ended: str
    counts: Counts
    right: tuple[Action, ...]
    executed: tuple[Action, ...]

    @property
    def passed(self) -> bool:
        """Whether its reward is 1."""
        return abs(self.reward - 1) <= _MARGIN


@dataclass(frozen=True)
class Source:
    """A result file, read.

    Attributes:
        domain: the benchmark's name of it.
        arm: one of ours, or the agent's name at the benchmark.
        model: the agent's.
        setting: digest of everything else a run was configured with, its tasks aside.
        simulations: what it holds.
    """

    domain: str
    arm: str
    model: str
    setting: str
    simulations: tuple[Simulation, ...]


@dataclass(frozen=True)
class Estimate:
    """pass^k.

    Attributes:
        value: between 0 and 1.
        low: lower end of the 95 % interval.
        high: upper end.
        tasks: how many tasks it is made of.
        left_out: tasks with fewer than k trials.
    """

    value: float
    low: float
    high: float
    tasks: int
    left_out: int


@dataclass(frozen=True)
class Report:
    """What the simulations of one domain, arm and model come to.

    Attributes:
        tasks: how many tasks.
        simulations: how many simulations.
        passk: k → estimate; None where no task has k trials.
        mean: of the estimates over k = 1…4, or None where one is missing.
        write_tasks: how many tasks need a write; None for a domain that is not ours.
        write_passk: as `passk`, of those tasks only.
        counts: sums over all simulations.
        ended: how the simulations ended, in the benchmark's words.
        failures: failed trials by class; None for a domain that is not ours.
    """

    domain: str
    arm: str
    model: str
    tasks: int
    simulations: int
    passk: Mapping[int, Estimate | None]
    mean: float | None
    write_tasks: int | None
    write_passk: Mapping[int, Estimate | None]
    counts: Counts
    ended: Mapping[str, int]
    failures: Mapping[Failure, int] | None


# Reading ------------------------------------------------------------------------------------------------------------


def read_source(path: Path) -> Source:
    """Read a result file: ours, or the JSON file that the benchmark writes.

    Raises:
        BadInput: when it is neither.
    """
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            ours = is_result_file(file.readline())
        return _read_ours(path) if ours else _read_benchmark(path)
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadInput(
            f"{path} is neither a result file of `ledgeragent tau2 run` nor one of the benchmark "
            f"({type(error).__name__}: {error})"
        ) from None


def _read_ours(path: Path) -> Source:
    file = read_results(path)
    head = file.header
    setting = digest({key: value for key, value in head.items() if key not in ("domain", "arm", "model", "tasks")})
    simulations = tuple(_simulation(line["simulation"], line["actions"]) for line in file.lines)
    return Source(head["domain"], head["arm"], head["model"], setting, simulations)


def _read_benchmark(path: Path) -> Source:
    document = json.loads(path.read_text(encoding="utf-8"))
    info, agent = document["info"], document["info"]["agent_info"]
    right = {task["id"]: (task["evaluation_criteria"] or {}).get("actions") or [] for task in document["tasks"]}
    simulations = tuple(_simulation(one, right[one["task_id"]]) for one in document["simulations"])
    arm = str(agent["implementation"])
    setting = digest({**info, "git_commit": "", "environment_info": "", "agent_info": agent["llm_args"]})
    domain = str(info["environment_info"]["domain_name"])
    return Source(domain, _ARM_OF.get(arm, arm), str(agent["llm"]), setting, simulations)


def _simulation(run: Mapping[str, Any], right: Sequence[Mapping[str, Any]]) -> Simulation:
    messages: Sequence[Mapping[str, Any]] = run["messages"]
    return Simulation(
        task=str(run["task_id"]),
        trial=int(run["trial"] or 0),
        reward=float((run.get("reward_info") or {}).get("reward", 0.0)),
        ended=str(run["termination_reason"]),
        counts=_sum(_counts(one) for one in messages if one["role"] == "assistant"),
        right=tuple(_action(one, one.get("requestor", "assistant")) for one in right),
        executed=tuple(_executed(messages)),
    )


def _action(call: Mapping[str, Any], requestor: str) -> Action:
    return Action(requestor, str(call["name"]), digest(call["arguments"]))


def _executed(messages: Sequence[Mapping[str, Any]]) -> Iterable[Action]:
    """Calls that came back without an error; the benchmark answers each message's calls in order, right after it."""
    waiting: list[Action] = []
    for message in messages:
        if message["role"] == "tool":
            action = waiting.pop(0) if waiting else None
            if action is not None and not message.get("error"):
                yield action
            continue
        waiting = [_action(call, message["role"]) for call in message.get("tool_calls") or ()]


def _counts(message: Mapping[str, Any]) -> Counts:
    """Of one message of the agent: what our agent noted, else one generation where there is any sign of one."""
    usage = message.get("usage") or {}
    prompt, completion = int(usage.get("prompt_tokens") or 0), int(usage.get("completion_tokens") or 0)
    raw = message.get("raw_data") or {}
    noted = raw.get("ledgeragent")
    if not isinstance(noted, Mapping):
        made = bool(usage or raw)  # the greeting that opens a simulation is nobody's answer
        return Counts(generations=int(made), uncounted=int(made and not usage), prompt=prompt, completion=completion)
    return Counts(
        noted["generations"],
        noted["uncounted"],
        prompt,
        completion,
        noted["view_bytes"],
        noted["view_tokens"],
        noted["verdicts"],
        noted["predicates"],
    )


def _sum(all_counts: Iterable[Counts]) -> Counts:
    numbers: Counter[str] = Counter()
    verdicts: Counter[str] = Counter()
    predicates: Counter[str] = Counter()
    for counts in all_counts:
        verdicts.update(counts.verdicts)
        predicates.update(counts.predicates)
        for name in ("generations", "uncounted", "prompt", "completion", "view_bytes", "view_tokens"):
            numbers[name] += getattr(counts, name)
    return Counts(**numbers, verdicts=dict(verdicts), predicates=dict(predicates))


# Counting -----------------------------------------------------------------------------------------------------------


def pass_hat(passed: int, trials: int, k: int) -> float:
    """C(passed, k) / C(trials, k).

    Args:
        passed: trials that passed.
        trials: all trials, at least k.
        k: how many in a row are asked for.
    """
    return math.comb(passed, k) / math.comb(trials, k)


def estimate(outcomes: Iterable[Sequence[bool]], k: int) -> Estimate | None:
    """pass^k over tasks.

    Args:
        outcomes: per task, which of its trials passed.
        k: how many in a row are asked for.

    Returns:
        The estimate; None when no task has k trials.
    """
    tasks = list(outcomes)
    values = [pass_hat(sum(task), len(task), k) for task in tasks if len(task) >= k]
    if not values:
        return None
    low, high = _interval(values)
    return Estimate(math.fsum(values) / len(values), low, high, len(values), len(tasks) - len(values))


def _interval(values: Sequence[float]) -> tuple[float, float]:
    chance = random.Random(SEED)  # noqa: S311 - the same interval every time
    size = len(values)
    means = sorted(math.fsum(chance.choices(values, k=size)) / size for _ in range(RESAMPLES))
    cut = round(RESAMPLES * 0.025)
    return means[cut], means[-cut - 1]


def failure_of(simulation: Simulation, is_write: IsWrite) -> Failure:
    """Which class a failed trial is of; the module says what they mean."""
    right = Counter(one for one in simulation.right if _changes(one, is_write))
    executed = Counter(one for one in simulation.executed if one.requestor == "user" or is_write(one.tool))
    missing, more = right - executed, executed - right
    left = Counter((one.requestor, one.tool) for one in more.elements())
    unmatched = Counter((one.requestor, one.tool) for one in missing.elements()) - left
    if unmatched:
        return "missed action"
    if missing:
        return "wrong argument"
    # What users do on their own device beyond what was needed is not the agent's action.
    return "extra action" if any(one.requestor == "assistant" for one in more) else "other"


def _changes(action: Action, is_write: IsWrite) -> bool:
    """Whether a right action is a write; all that tasks have users do on their devices changes something there."""
    return action.requestor == "user" or is_write(action.tool)


def report(sources: Sequence[Source], is_write: IsWrite | None) -> Report:
    """Count the simulations of one domain, arm, model and setting.

    Args:
        sources: files of one run; each (task, trial) once.
        is_write: whether a tool of the agent's is a write; None for a domain that is not ours.

    Raises:
        BadInput: when a trial is there twice.
    """
    simulations = [one for source in sources for one in source.simulations]
    twice = [key for key, count in Counter((one.task, one.trial) for one in simulations).items() if count > 1]
    if twice:
        raise BadInput(f"trial {twice[0][1]} of task {twice[0][0]} is in the files twice: name each file once")
    writing = {one.task for one in simulations if is_write and any(_changes(action, is_write) for action in one.right)}
    passk = _passk(simulations)
    values = [one.value for one in passk.values() if one is not None]
    failed = [one for one in simulations if not one.passed]
    first = sources[0]
    return Report(
        first.domain,
        first.arm,
        first.model,
        tasks=len({one.task for one in simulations}),
        simulations=len(simulations),
        passk=passk,
        mean=math.fsum(values) / len(values) if len(values) == len(KS) else None,
        write_tasks=len(writing) if is_write else None,
        write_passk=_passk([one for one in simulations if one.task in writing]),
        counts=_sum(one.counts for one in simulations),
        ended=dict(Counter(one.ended for one in simulations)),
        failures=dict(Counter(failure_of(one, is_write) for one in failed)) if is_write else None,
    )


def _passk(simulations: Iterable[Simulation]) -> dict[int, Estimate | None]:
    tasks: dict[str, list[bool]] = defaultdict(list)
    for one in simulations:
        tasks[one.task].append(one.passed)
    return {k: estimate(tasks.values(), k) for k in KS}


def grouped(sources: Iterable[Source]) -> list[list[Source]]:
    """Sources of one domain, arm, model and setting together, in the order of domain, arm and model."""
    groups: dict[tuple[str, str, str, str], list[Source]] = defaultdict(list)
    for source in sources:
        groups[source.domain, source.arm, source.model, source.setting].append(source)
    arms = [*AGENTS]
    return [groups[key] for key in sorted(groups, key=lambda key: (key[0], _place(arms, key[1]), *key[1:]))]


def _place(known: Sequence[str], name: str) -> int:
    return known.index(name) if name in known else -1
