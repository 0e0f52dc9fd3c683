"""The benchmark's tests: skipped as a whole, by `test_tau2_installed`, where it is not installed."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import warnings
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ledgeragent.domain import Domain
from ledgeragent.engine import Engine
from ledgeragent.gate import Gate
from ledgeragent.results import ResultWriter, read_results

INSTALLED = all(importlib.util.find_spec(name) for name in ("tau2", "litellm"))

if INSTALLED:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what other people's packages deprecate at import is not ours to mend
        importlib.import_module("ledgeragent.adapters.tau2")  # it has settings that come before the benchmark
        benchmark = importlib.import_module("tau2.run")
    # The benchmark reads thousands of tasks anew for every run, for seconds.
    benchmark.load_tasks = cache(benchmark.load_tasks)  # type: ignore[attr-defined]
else:
    collect_ignore_glob = ["test_tau2_[!i]*.py"]

if TYPE_CHECKING:
    from taubench.scripted_bench import Bench

ALL_TASKS = bool(os.environ.get("LEDGERAGENT_ALL_TASKS"))


@pytest.fixture(autouse=True, scope="module")
def no_loop_is_left() -> Iterator[None]:
    """litellm has the main thread make an event loop, which nobody closes: the warning would strike a later test."""
    yield
    policy = asyncio.get_event_loop_policy()
    with warnings.catch_warnings(), suppress(RuntimeError):  # there may be none
        warnings.simplefilter("ignore", DeprecationWarning)
        policy.get_event_loop().close()
    policy.set_event_loop(None)


@pytest.fixture(scope="session")
def gates(embedded: Engine) -> dict[str, Gate]:
    """A gate per domain."""
    return {name: Gate(Domain.load(name), embedded) for name in ("airline", "retail", "telecom")}


@pytest.fixture(scope="session")
def benches() -> dict[str, Bench]:
    """A bench per domain, made when it is first asked for."""
    from taubench.scripted_bench import Bench

    class Made(dict[str, Bench]):
        def __missing__(self, domain: str) -> Bench:
            return self.setdefault(domain, Bench(domain))

    return Made()


@pytest.fixture
def played(benches: dict[str, Bench], gates: dict[str, Gate], tmp_path: Path) -> Any:
    """Plays tasks with an arm, as `tau2 run` does; gives the simulations by task."""
    from ledgeragent.adapters.tau2.run import Endpoint, Run
    from taubench.scripted_bench import USER, ScriptedModel, ScriptedPlan

    def play(
        domain: str, arm: Any, tasks: tuple[str, ...], base_url: str | None = None, name: str = ""
    ) -> dict[str, Any]:
        agent = Endpoint("scripted", base_url)
        run = Run(domain, arm, agent, Endpoint("scripted"), trials=1, tasks=tasks, user_agent=USER)
        over_http = {} if base_url is not None else {"model": lambda *_: ScriptedModel(benches[domain])}
        plan = ScriptedPlan(run, gates[domain], **over_http)
        path = tmp_path / f"{domain}-{arm}{name}.jsonl"
        with ResultWriter(path, plan.header) as file:
            failed = plan.finish(file, concurrency=1, advance=lambda: None)
        assert [str(one) for one in failed] == []
        return {line["task_id"]: line["simulation"] for line in read_results(path).lines}

    return play
