"""Engines that do what no sound OPA does: meddle with a real engine's answers, fail, or answer as told."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

from ledgeragent.domain import Domain
from ledgeragent.engine import AsyncOpaServer, Breaker, Engine
from ledgeragent.engine.base import ClosesOnExit, Rule
from ledgeragent.gate import NUMBERED

Change = Callable[[Rule, dict[str, Any]], Any]
T = TypeVar("T")


class Meddled(ClosesOnExit):
    """A real engine whose answers pass through `change`; `asked` holds the rules that were asked for."""

    def __init__(self, engine: Engine, change: Change) -> None:
        self.name, self.version, self.location = "meddled", "0", "this process"
        self.change = change
        self.asked: list[Rule] = []
        self._engine = engine

    def evaluate(self, domain: str, rule: Rule, gate_input: Mapping[str, Any]) -> Any:
        self.asked.append(rule)
        return self.change(rule, self._engine.evaluate(domain, rule, gate_input))

    def close(self) -> None:
        """Nothing to release: the real engine belongs to somebody else."""


class Agreeable(ClosesOnExit):
    """Allows whatever it is asked, in a well-formed way: for domains that have no compiled policies."""

    def __init__(self, domain: Domain) -> None:
        self.name, self.version, self.location = "agreeable", "0", "this process"
        self._domain = domain

    def evaluate(self, domain: str, rule: Rule, gate_input: Mapping[str, Any]) -> Any:
        # The vectors of `support.toy` say as their call's id what they want to hear.
        return allowed(gate_input, self._domain) | (told(gate_input["action"]["call_id"]) if rule == "proof" else {})

    def close(self) -> None:
        """Nothing to release."""


class OnLoop(ClosesOnExit):
    """An `AsyncOpaServer` on an event loop of its own, asked from any thread: so that a `Gate` can have one."""

    def __init__(self, url: str, **options: Any) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._server = self._run(self._opened(url, options))
        self.name, self.location = self._server.name, self._server.location

    @property
    def version(self) -> str:
        return self._server.version

    @property
    def breaker(self) -> Breaker:
        """That of the server."""
        return self._server.breaker

    def evaluate(self, domain: str, rule: Rule, gate_input: Mapping[str, Any]) -> Any:
        return self._run(self._server.aevaluate(domain, rule, gate_input))

    def close(self) -> None:
        """End the server and the loop."""
        self._run(self._server.aclose())
        self._run(self._drained())
        self._run(self._loop.shutdown_default_executor())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _drained(self) -> None:
        """TLS connections say good-bye in their own time; a loop that ends before is warned of them."""
        for _ in range(200):
            if len(self._loop._selector.get_map()) <= 1:  # the loop's own pipe
                return
            await asyncio.sleep(0.005)

    async def _opened(self, url: str, options: Mapping[str, Any]) -> AsyncOpaServer:
        return AsyncOpaServer(url, **options)

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


def finding(predicate: str, verdict: str, mode: str = "enforce") -> dict[str, Any]:
    """A violated predicate."""
    return {
        "predicate": predicate,
        "status": "violated",
        "verdict": verdict,
        "mode": mode,
        "message": "No.",
        "paths": [],
        "missing": [],
    }


def told(verdict: str) -> dict[str, Any]:
    """Verdict and findings that agree with each other."""
    return {"verdict": verdict, "findings": [finding("gate.unguarded", verdict)] if verdict != "allow" else []}


def allowed(gate_input: Mapping[str, Any], domain: Domain) -> dict[str, Any]:
    """The decision that lets a call through."""
    return {
        "contract": "ledgeragent.decision/1",
        "request": gate_input["request"],
        "verdict": "allow",
        "findings": [],
        "predicates": list(domain.guarded_by(gate_input["action"]["tool"])),
        "overrides": [],
        "obligations": [],
        "policy": {"revision": "sha256:told", "gate": "sha256:gate", "sequence": dict.fromkeys(NUMBERED, 0)},
    }
