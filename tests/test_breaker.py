"""The circuit breaker: opens after a run of failures, is never an allow, probes after a pause, minds only the way to OPA."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest

from ledgeragent.engine import Breaker, OpaServer, breaker
from ledgeragent.errors import (
    BadInput,
    EngineAnswer,
    EngineBreaker,
    EngineError,
    EngineEvaluation,
    EngineRefused,
    EngineStatus,
    EngineTimeout,
    EngineUndefined,
    EngineUnreachable,
)
from scripted import ScriptedServer, http_answer, scripted
from support.engines import OnLoop

FAILURES = 3
PAUSE = 60.0
FAILED = EngineTimeout("no answer within 1 s")


class Clock:
    """Time as the breaker sees it."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A clock that stands until it is moved."""
    clock = Clock()
    monkeypatch.setattr(breaker, "time", SimpleNamespace(monotonic=clock.monotonic))
    return clock


@pytest.fixture
def own() -> Breaker:
    return Breaker(failures=FAILURES, pause=PAUSE)


def attempt(own: Breaker, error: BaseException | None = None) -> None:
    with own.attempt("OPA"):
        if error is not None:
            raise error


def fails(own: Breaker, error: BaseException, times: int = 1) -> None:
    for _ in range(times):
        with pytest.raises(type(error)):
            attempt(own, error)


@pytest.mark.parametrize(
    "error",
    [
        EngineUnreachable("refused"),
        EngineTimeout("slow"),
        EngineAnswer("<html>"),
        *(EngineStatus("busy", status=status) for status in (429, 502, 503, 504)),
    ],
    ids=lambda error: f"{error.code} {getattr(error, 'status', '')}",
)
def test_it_opens_after_a_run_of_failures_and_says_why(clock: Clock, own: Breaker, error: EngineError) -> None:
    fails(own, error, FAILURES - 1)
    assert own.state == "closed"
    fails(own, error)
    assert own.state == "open"
    clock.now += 10
    with pytest.raises(EngineBreaker) as caught:
        attempt(own)
    assert str(caught.value) == (
        f"OPA is not asked: 3 failures in a row, the last: {error}; it is asked again in 50.0 s"
    )
    assert caught.value.code == "engine.breaker"


@pytest.mark.parametrize(
    "error",
    [
        None,
        EngineUndefined("undefined"),
        EngineRefused("401"),
        EngineEvaluation("500"),
        EngineStatus("no such path", status=404),
        EngineStatus("too large", status=413),
    ],
    ids=lambda error: error and f"{error.code} {getattr(error, 'status', '')}",
)
def test_whatever_opa_answers_ends_the_run(clock: Clock, own: Breaker, error: EngineError | None) -> None:
    for _ in range(5):
        fails(own, FAILED, FAILURES - 1)
        if error is None:
            attempt(own)
        else:
            fails(own, error)
    assert own.state == "closed"


@pytest.mark.parametrize("answer", [None, EngineUndefined("undefined")])
def test_a_probe_that_is_answered_closes_it(clock: Clock, own: Breaker, answer: EngineError | None) -> None:
    fails(own, FAILED, FAILURES)
    clock.now += PAUSE
    assert own.state == "half-open"
    if answer is None:
        attempt(own)
    else:
        fails(own, answer)
    assert own.state == "closed"
    fails(own, FAILED, FAILURES - 1)
    assert own.state == "closed"


def test_a_probe_that_fails_opens_it_for_another_pause(clock: Clock, own: Breaker) -> None:
    fails(own, FAILED, FAILURES)
    for _ in range(3):
        clock.now += PAUSE
        fails(own, FAILED)
        assert own.state == "open"
        fails(own, EngineBreaker(""))


def test_one_probe_at_a_time(clock: Clock, own: Breaker) -> None:
    fails(own, FAILED, FAILURES)
    clock.now += PAUSE
    with own.attempt("OPA"):
        assert own.state == "half-open"
        with pytest.raises(EngineBreaker, match="a probe is under way"):
            attempt(own)
    attempt(own)


@pytest.mark.parametrize("given_up", [KeyboardInterrupt(), BadInput("NaN")])
def test_a_probe_that_is_given_up_leaves_it_to_the_next(clock: Clock, own: Breaker, given_up: BaseException) -> None:
    fails(own, FAILED, FAILURES)
    clock.now += PAUSE
    fails(own, given_up)
    assert own.state == "half-open"
    attempt(own)
    assert own.state == "closed"


def test_failures_that_were_under_way_when_it_opened_do_not_lengthen_the_pause(clock: Clock, own: Breaker) -> None:
    with ExitStack() as under_way:
        under_way.enter_context(pytest.raises(EngineTimeout))
        under_way.enter_context(own.attempt("OPA"))
        fails(own, FAILED, FAILURES)
        clock.now += PAUSE / 2
        raise FAILED
    clock.now += PAUSE / 2
    attempt(own)
    assert own.state == "closed"


@pytest.mark.parametrize(("failures", "pause"), [(0, 1), (1, 0), (1, float("nan")), (1, 4000)])
def test_odd_settings_are_bad_input(failures: int, pause: float) -> None:
    with pytest.raises(BadInput, match="breaker"):
        Breaker(failures=failures, pause=pause)


# In an engine ----------------------------------------------------------------------------------------------------


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    """Answers 503 until it is told otherwise: `answers` holds what it says."""
    answers = [http_answer(b"{}", "503 Service Unavailable", "Connection: close\r\n")]
    with scripted(lambda connection: connection.sendall(answers[-1])) as server:
        server.answers = answers  # type: ignore[attr-defined]
        yield server


@pytest.fixture(params=[OpaServer, OnLoop], ids=["blocking", "async"])
def engine(request: pytest.FixtureRequest, server: ScriptedServer, own: Breaker) -> Iterator[Any]:
    opened: Callable[..., Any] = request.param
    with opened(server.url, breaker=own) as engine:
        yield engine


def ask(engine: Any) -> Any:
    return engine.evaluate("retail", "decision", {})


def test_an_open_breaker_asks_nobody_until_the_probe(clock: Clock, engine: Any, server: Any) -> None:
    for _ in range(FAILURES):
        with pytest.raises(EngineStatus):
            ask(engine)
    for _ in range(5):
        with pytest.raises(EngineBreaker, match="HTTP 503"):
            ask(engine)
    assert len(server.requests) == FAILURES
    server.answers.append(http_answer(b'{"result": 1}', headers="Connection: close\r\n"))
    clock.now += PAUSE
    assert [ask(engine), ask(engine)] == [1, 1]
    assert engine.breaker.state == "closed"


def test_every_engine_has_a_breaker_of_its_own(server: Any) -> None:
    with OpaServer(server.url) as one, OpaServer(server.url) as other:
        for _ in range(5):
            with pytest.raises(EngineStatus):
                ask(one)
        assert (one.breaker.state, other.breaker.state) == ("open", "closed")


def test_many_threads_send_one_probe(clock: Clock, engine: Any, server: Any) -> None:
    for _ in range(FAILURES):
        with pytest.raises(EngineStatus):
            ask(engine)
    clock.now += PAUSE
    codes: list[str] = []

    def try_it() -> None:
        try:
            ask(engine)
        except EngineError as error:
            codes.append(error.code)

    threads = [threading.Thread(target=try_it) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(codes) == ["engine.breaker"] * 11 + ["engine.status"]
    assert len(server.requests) == FAILURES + 1
