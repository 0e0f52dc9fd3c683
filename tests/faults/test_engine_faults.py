"""Every fault on the way to a decision: nothing runs, the error names the cause, and afterwards the same gate decides."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from faults import bundles
from faults.between import Between, answers_twice, decisions_only, passes
from faults.cases import CASES, PROCESS, PROXY, Case, paused
from faults.opa_process import TOKEN, OpaProcess
from faults.stage import Stage, blocked_in_time, judged
from ledgeragent.domain import Domain
from ledgeragent.engine import Embedded, Engine, LocalOpa, Module, OpaServer
from ledgeragent.gate import Gate
from ledgeragent.parts import domain_part, gate_part
from ledgeragent.policies import REGO
from support import retail
from support.engines import OnLoop

pytest_plugins = ["support.fixtures"]

SERVERS: Final[Mapping[str, Any]] = {
    "opa": OpaServer,
    "opa-requests": partial(OpaServer, client="opa-python-client"),
    "opa-async": OnLoop,
}
RUNS = [(case, engine) for case in CASES for engine in case.engines]
ANSWERS_MOST = 0.2


class ChildOfEngine:
    """A `LocalOpa`'s child as a process to kill and pause; it is the engine that starts it again."""

    def __init__(self, engine: LocalOpa) -> None:
        self._engine = engine

    @property
    def pid(self) -> int:
        supervisor = self._engine._child._process.pid
        listed = subprocess.run(["ps", "-o", "pid=,args=", "--ppid", str(supervisor)], capture_output=True, text=True)
        return next(int(line.split()[0]) for line in listed.stdout.splitlines() if " run --server" in line)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def start(self) -> None:
        """Nothing: the engine does."""


@pytest.fixture(scope="session")
def faulty_modules(opa_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Module]:
    """Unsound bundles compiled for the embedded engine."""
    modules = {}
    for name, make in {"policies": bundles.faulty, "without": bundles.without_domain}.items():
        folder = tmp_path_factory.mktemp(name)
        modules[name] = bundles.module(opa_binary, make(folder), folder)
    return modules


@pytest.fixture
def stage_for(
    request: pytest.FixtureRequest, retail_domain: Domain, tmp_path: Path
) -> Iterator[Callable[[Case, str], Stage]]:
    """Sets the stage for a case on an engine."""
    with ExitStack() as opened:

        def make(case: Case, kind: str) -> Stage:
            engine, parts = _engine(case, kind, request, tmp_path, opened)
            shipped = {domain_part(REGO, retail_domain).revision, gate_part(REGO).revision}
            pin = shipped if case.pinned else None
            stage = Stage(engine, Gate(retail_domain, engine, pin=pin), tmp_path / "records.jsonl", parts)
            opened.callback(stage.close)
            return stage

        yield make


def _engine(
    case: Case, kind: str, request: pytest.FixtureRequest, folder: Path, opened: ExitStack
) -> tuple[Engine, Any]:
    binary = request.getfixturevalue("opa_binary")
    if kind == "embedded":
        module = request.getfixturevalue("faulty_modules")[case.place]
        return Embedded(module, timeout=case.budget), SimpleNamespace()
    if kind == "opa-local":
        make = {"process": bundles.faulty, "policies": bundles.faulty, "without": bundles.without_domain}[case.place]
        local = LocalOpa(make(folder), binary, timeout=case.budget)
        return local, SimpleNamespace(process=ChildOfEngine(local))
    token_file = folder / "token"
    token_file.write_text(TOKEN + "\n", encoding="ascii")
    parts = SimpleNamespace(token_file=token_file)
    options: dict[str, Any] = {"token_file": token_file, "timeout": case.budget}
    if case.place == "process":
        parts.process = OpaProcess(binary, bundles.faulty(folder))
        opened.callback(parts.process.kill)
        url = parts.process.url
    else:
        parts.opas = request.getfixturevalue("opas")
        upstream = parts.opas["faulty" if case.place == "policies" else "sound"].url
        if case.place == "tls":
            parts.certificates = request.getfixturevalue("certificates")
            options |= {"ca": parts.certificates.ca, "cert": parts.certificates.client()}
        parts.between = Between(upstream, parts.certificates.good if case.place == "tls" else None)
        opened.callback(parts.between.close)
        url = parts.between.url
    return SERVERS[kind](url, **options), parts


@pytest.mark.parametrize(("case", "kind"), RUNS, ids=lambda one: one if isinstance(one, str) else one.name)
def test_no_write_runs_and_the_gate_recovers(
    case: Case, kind: str, stage_for: Callable[[Case, str], Stage], report: Callable[..., None]
) -> None:
    stage = stage_for(case, kind)
    if case.proved:
        stage.recovers(stage.session("before"), retail.cancel())
    ran_before = len(stage.shop.ran)
    wishes = [(stage.session(f"wants {number}"), retail.cancel(case.order)) for number in range(case.sessions)]
    refused = (stage.session("may not"), retail.cancel("#W2" if case.order == "#W1" else case.order))

    with case.fault(stage.parts):
        attempts = stage.propose_all([*wishes, refused])

    blocked_in_time(attempts, case.codes, case.says, case.budget)
    assert len(stage.shop.ran) == ran_before
    slowest = max(one.took for one in attempts)
    codes = ", ".join(sorted({one.code for one in attempts}))
    if not case.recovers:
        report(case.name, kind, codes, slowest, "needs other policies")
        return
    after = max(stage.recovers(session, retail.cancel()) for session, _ in wishes)
    policy = stage.propose(refused[0], retail.cancel("#W2")).review
    assert (policy.verdict, policy.failure) == ("block", None)
    assert stage.shop.ran[ran_before:] == [("cancel_pending_order", "#W1")] * case.sessions
    records = stage.records()
    for (session, _), attempt in zip(wishes, attempts, strict=False):
        *failed, allowed, executed = judged(records, session.id)
        assert (failed[0], allowed, executed) == (f"block {attempt.code}", "allow", "executed")
        assert all(one.startswith("block engine.") or one == failed[0] for one in failed)
    report(case.name, kind, codes, slowest, f"decides again after {after:.2f} s")


def the_case(name: str) -> Case:
    """A case of the table, as the stage of another one."""
    return next(case for case in CASES if case.name == name)


@pytest.mark.parametrize("kind", PROCESS)
def test_opa_dies_after_a_decision(
    kind: str, stage_for: Callable[[Case, str], Stage], report: Callable[..., None]
) -> None:
    stage = stage_for(the_case("OPA is paused"), kind)
    session = stage.session("decided")
    stage.recovers(stage.session("before"), retail.cancel())
    review = retail.propose(session, retail.cancel())
    assert review.ticket is not None
    stage.parts.process.kill()
    assert session.execute(review.ticket, stage.shop.run) == "done"
    outcome = "what was decided runs"
    if kind != "opa-local":  # which the next decision starts again
        blocked_in_time([stage.propose(session, retail.give_back())], ["engine.unreachable"], "cannot be reached")
        outcome += ", then engine.unreachable"
    stage.parts.process.start()
    after = stage.recovers(session, retail.give_back())
    assert [tool for tool, _ in stage.shop.ran[1:]] == ["cancel_pending_order", "return_delivered_order_items"]
    report("OPA dies after a decision", kind, outcome, 0, f"decides again after {after:.2f} s")


@pytest.mark.parametrize("kind", PROXY)
def test_opa_stays_paused_and_is_no_longer_waited_for(
    kind: str, stage_for: Callable[[Case, str], Stage], report: Callable[..., None]
) -> None:
    stage = stage_for(replace(the_case("OPA is paused"), budget=0.4), kind)
    session = stage.session("waits")
    stage.recovers(stage.session("before"), retail.cancel())
    with paused(stage.parts):
        attempts = [stage.propose(session, retail.cancel()) for _ in range(15)]
    assert [one.code for one in attempts] == ["engine.timeout"] * 5 + ["engine.breaker"] * 10
    blocked_in_time(attempts[:5], ["engine.timeout"], "no complete answer", 0.4)
    blocked_in_time(attempts[5:], ["engine.breaker"], "5 failures in a row, the last: .*no complete answer")
    assert sum(one.took for one in attempts[5:]) < 1
    after = stage.recovers(session, retail.cancel())
    report(
        "OPA stays paused",
        kind,
        "engine.timeout, then engine.breaker",
        attempts[0].took,
        f"decides again after {after:.2f} s",
    )


@pytest.mark.parametrize("kind", PROXY)
def test_an_answer_too_many_is_not_taken_for_the_next_one(
    kind: str, stage_for: Callable[[Case, str], Stage], report: Callable[..., None]
) -> None:
    stage = stage_for(the_case("no answer comes"), kind)
    session = stage.session("may not")
    stage.recovers(stage.session("before"), retail.cancel())
    stage.parts.between.behaviour = decisions_only(answers_twice)
    attempts = [stage.propose(session, retail.cancel("#W2")) for _ in range(3)]
    stage.parts.between.behaviour = passes
    attempts += [stage.propose(session, retail.cancel("#W2")) for _ in range(3)]
    assert [one.review.verdict for one in attempts] == ["block"] * 6
    assert {one.code for one in attempts} <= {"", "decision.request", "engine.answer", "engine.unreachable"}
    assert attempts[-1].review.decision is not None
    assert stage.shop.ran == [("cancel_pending_order", "#W1")]
    report("an answer too many on a connection", kind, "each is decided by its own answer, or blocked")
