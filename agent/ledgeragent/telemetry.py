"""What an operator can count and trace, through the OpenTelemetry API: nothing is kept or sent unless an SDK is set up.

Metrics: decisions by domain, tool and verdict; failures by code; how long a review takes; findings that held nothing
back because a shadow only watches; the state of circuit breakers. Spans: one around each review. Arguments, facts and
messages are in none of them; a tool's name only if the domain declares it, since the model makes the others up.
What telemetry does wrong never reaches a decision.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final, Protocol
from weakref import WeakKeyDictionary

from opentelemetry import metrics, trace
from opentelemetry.metrics import CallbackOptions, Observation

from ledgeragent.contracts import Decision
from ledgeragent.errors import origin

DOMAIN: Final = "ledgeragent.domain"
TOOL: Final = "ledgeragent.tool"
VERDICT: Final = "ledgeragent.verdict"
ENFORCED: Final = "ledgeragent.enforced"
ERROR: Final = "ledgeragent.error"
REVISION: Final = "ledgeragent.revision"
PREDICATE: Final = "ledgeragent.predicate"
SHADOW: Final = "ledgeragent.shadow"
ENGINE: Final = "ledgeragent.engine"
UNDECLARED: Final = "_OTHER"
"""Stands for the name of a tool that the domain does not declare."""

_log = logging.getLogger(__name__)
_tracer = trace.get_tracer("ledgeragent")
_meter = metrics.get_meter("ledgeragent")
_decisions = _meter.create_counter(
    "ledgeragent.decisions", unit="{decision}", description="Reviews of proposed writes, by what the gate says"
)
_failures = _meter.create_counter(
    "ledgeragent.failures", unit="{decision}", description="Reviews without an accepted decision (a block), by code"
)
_duration = _meter.create_histogram(
    "ledgeragent.review.duration", unit="s", description="What a review takes, the record of it included"
)
_watched = _meter.create_counter(
    "ledgeragent.shadow.findings",
    unit="{finding}",
    description="Findings that held nothing back: of a ShadowGate, or of a predicate in shadow",
)
_STATES: Final[Mapping[str, int]] = {"closed": 0, "half-open": 1, "open": 2}


class _HasState(Protocol):
    @property
    def state(self) -> str: ...


_breakers: WeakKeyDictionary[_HasState, str] = WeakKeyDictionary()
_breakers_lock = threading.Lock()


def watch_breaker(where: str, breaker: _HasState) -> None:
    """Report a circuit breaker's state for as long as it is in use.

    Args:
        where: the address of the engine it belongs to.
        breaker: whose `state` is closed, half-open or open.
    """
    with _breakers_lock:
        _breakers[breaker] = where


def _observed_breakers(_: CallbackOptions) -> Iterable[Observation]:
    with _breakers_lock:
        known = list(_breakers.items())
    worst: dict[str, int] = {}
    for breaker, where in known:
        worst[where] = max(worst.get(where, 0), _STATES[breaker.state])
    return [Observation(state, {ENGINE: where}) for where, state in worst.items()]


_meter.create_observable_gauge(
    "ledgeragent.engine.breaker",
    callbacks=[_observed_breakers],
    description="Circuit breaker of an engine: 0 closed, 1 half-open, 2 open; the worst where there are several",
)

Tell = Callable[[str, Decision | None, str | None], None]
"""Takes a review's outcome: what the gate says, the accepted decision, else the code of the failure."""


@contextmanager
def reviewing(domain: str, tool: str | None, *, enforced: bool) -> Iterator[Tell]:
    """Measure and trace one review.

    Args:
        domain: the domain's name.
        tool: the tool's name if the domain declares it, else None.
        enforced: whether the gate holds anything back.

    Returns:
        What to call with the outcome. A review that is not told of (it raised) leaves a span and no numbers.
    """
    about = {DOMAIN: domain, TOOL: tool or UNDECLARED, ENFORCED: enforced}
    started = time.perf_counter()
    with _span(about) as span:

        def tell(verdict: str, decision: Decision | None, error: str | None) -> None:
            _safely(lambda: _count(about, verdict, decision, error, time.perf_counter() - started))
            _safely(lambda: span.set_attributes(_shown(verdict, decision, error)))

        yield tell


def _count(about: Mapping[str, Any], verdict: str, decision: Decision | None, error: str | None, took: float) -> None:
    _decisions.add(1, {**about, VERDICT: verdict})
    _duration.record(took, {DOMAIN: about[DOMAIN], VERDICT: verdict})
    if error is not None:
        _failures.add(1, {**about, ERROR: error})
    for finding in decision.findings if decision is not None else ():
        if finding.mode == "shadow" or (finding.mode == "enforce" and not about[ENFORCED]):
            by = "predicate" if finding.mode == "shadow" else "gate"
            said = {PREDICATE: finding.predicate, VERDICT: finding.verdict, SHADOW: by}
            _watched.add(1, {DOMAIN: about[DOMAIN], TOOL: about[TOOL], **said})


def _shown(verdict: str, decision: Decision | None, error: str | None) -> dict[str, str]:
    shown = {VERDICT: verdict}
    if decision is not None:
        shown[REVISION] = decision.policy.revision
    if error is not None:
        shown[ERROR] = error
    return shown


@contextmanager
def _span(about: Mapping[str, Any]) -> Iterator[trace.Span]:
    """The span of a review. An exception that passes through is not written into it: its text may hold values."""
    scope: AbstractContextManager[trace.Span] | None = None
    span: trace.Span = trace.INVALID_SPAN
    try:
        scope = _tracer.start_as_current_span(
            "ledgeragent.review", attributes=about, record_exception=False, set_status_on_exception=False
        )
        span = scope.__enter__()
    except Exception as error:  # noqa: BLE001 - a processor of the operator's must not stop a decision
        scope = None
        _log.error("no span could be begun: %s", origin(error))
    try:
        yield span
    finally:
        if scope is not None:
            _safely(lambda: scope.__exit__(None, None, None))


def _safely(tell: Callable[[], Any]) -> None:
    try:
        tell()
    except Exception as error:  # noqa: BLE001 - as above
        # In the logged trace could stand an error that is passing through, with values in its words.
        _log.error("telemetry failed: %s", origin(error))


__all__ = ["reviewing", "watch_breaker"]
