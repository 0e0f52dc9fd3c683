"""A circuit breaker: an OPA that gave no answer several times in a row is not asked for a while.

It fails fast and closed. While it is open, every evaluation ends at once with `EngineBreaker`, which is a block like
any other engine error; then one evaluation is let through as a probe, and what comes of it decides. Only failures of
the way to OPA count: whatever OPA itself answers, be it a refusal or nothing defined, shows that it is there.
One breaker belongs to one engine; what engines ask, and how, is theirs.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Literal

from ledgeragent.errors import (
    BadInput,
    EngineAnswer,
    EngineBreaker,
    EngineError,
    EngineStatus,
    EngineTimeout,
    EngineUnreachable,
)

DEFAULT_FAILURES: Final = 5
DEFAULT_PAUSE: Final = 2.0

State = Literal["closed", "half-open", "open"]
_log = logging.getLogger(__name__)


class Breaker:
    """Opens after a run of failures, lets a probe through after a pause. Safe to share between threads and tasks."""

    def __init__(self, *, failures: int = DEFAULT_FAILURES, pause: float = DEFAULT_PAUSE) -> None:
        """A closed breaker.

        Args:
            failures: so many in a row open it.
            pause: seconds until a probe is let through.

        Raises:
            BadInput: unless both are positive, the pause an hour at most.
        """
        if failures < 1 or not 0 < pause <= 3600:
            raise BadInput(f"breaker: {failures!r} failures, {pause!r} s: give one or more, and up to 3600 seconds")
        self._most = failures
        self._pause = pause
        self._lock = threading.Lock()
        self._failures = 0
        self._last = ""
        self._opened: float | None = None
        self._probing = False

    @property
    def state(self) -> State:
        """`closed` (asked as ever), `open` (not asked), `half-open` (a probe may go, or is under way)."""
        with self._lock:
            if self._opened is None:
                return "closed"
            return "half-open" if self._probing or self._left() <= 0 else "open"

    @contextmanager
    def attempt(self, where: str) -> Iterator[None]:
        """Around one exchange with OPA.

        Args:
            where: which OPA, for messages.

        Raises:
            EngineBreaker: it is open, or half-open and the probe is somebody else's.
        """
        is_probe = self._admit(where)
        try:
            yield
        except EngineError as error:
            self._ended(where, error, is_probe)
            raise
        except BaseException:
            # Given up before anything was learned of OPA: the next one may probe.
            with self._lock:
                self._probing = self._probing and not is_probe
            raise
        self._ended(where, None, is_probe)

    def _admit(self, where: str) -> bool:
        with self._lock:
            if self._opened is None:
                return False
            if not self._probing and self._left() <= 0:
                self._probing = True
                return True
            when = "a probe is under way" if self._probing else f"it is asked again in {self._left():.1f} s"
            raise EngineBreaker(
                f"{where} is not asked: {self._failures} failures in a row, the last: {self._last}; {when}"
            )

    def _ended(self, where: str, error: EngineError | None, is_probe: bool) -> None:
        with self._lock:
            self._probing = self._probing and not is_probe
            if error is None or not _no_answer(error):
                self._close(where)
                return
            self._failures += 1
            self._last = str(error)
            if is_probe or (self._opened is None and self._failures >= self._most):
                self._open(where)

    def _open(self, where: str) -> None:
        if self._opened is None:
            _log.warning("%s is not asked for %s s: %d failures in a row", where, self._pause, self._failures)
        self._opened = time.monotonic()

    def _close(self, where: str) -> None:
        if self._opened is not None:
            _log.warning("%s answers again after %d failures", where, self._failures)
        self._opened = None
        self._failures = 0

    def _left(self) -> float:
        assert self._opened is not None
        return self._opened + self._pause - time.monotonic()


def _no_answer(error: EngineError) -> bool:
    """Whether nothing came from an OPA: no connection, no time, no sense, or a proxy that says it is overloaded."""
    if isinstance(error, EngineStatus):
        return error.status == 429 or error.status >= 500
    return isinstance(error, EngineUnreachable | EngineTimeout | EngineAnswer)


__all__ = ["Breaker", "State"]
