"""The shortest check that an engine really evaluates the shipped policies."""

from __future__ import annotations

from ledgeragent.engine import Engine


def malformed_is_blocked(engine: Engine) -> None:
    """An input that is no gate input is blocked by the gate itself."""
    decision = engine.evaluate("retail", "decision", {"request": "r1"})
    assert (decision["verdict"], [finding["predicate"] for finding in decision["findings"]]) == (
        "block",
        ["gate.input"],
    )
