"""OPA and the embedded engine decide alike: recorded, made-up, and changed inputs, whole decisions."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from ledgeragent.engine import Engine, LocalOpa
from ledgeragent.policies import SCHEMAS
from oracle import worlds
from oracle.recorded import asked

JSON = Any
AWKWARD_AMOUNTS = (1.005, 0.285, -2.675, 4.35, 1e-9, 123456789.125, 999999999.995, 1e9, -0.5, 0.1 + 0.2, 2**53 - 1)


def differences(inputs: Iterable[JSON], one: Engine, other: Engine) -> list[JSON]:
    """The inputs that two engines decide differently, with both decisions."""
    found = []
    for document in inputs:
        decisions = [engine.evaluate("retail", "decision", document) for engine in (one, other)]
        if decisions[0] != decisions[1]:
            found.append([document, *decisions])
    return found


def vectors() -> list[JSON]:
    """The inputs of the domain's vectors."""
    document = json.loads((SCHEMAS / "vectors" / "retail.json").read_text(encoding="utf-8"))
    return [vector["input"] for vector in document["vectors"]]


def with_awkward_amounts(document: JSON, pick: worlds.Pick) -> JSON:
    """Prices and balances that decimal and binary arithmetic could round differently."""

    def walk(value: JSON) -> JSON:
        if isinstance(value, dict):
            return {
                key: pick(AWKWARD_AMOUNTS) if key in ("price", "amount", "balance") else walk(item)
                for key, item in value.items()
            }
        return [walk(item) for item in value] if isinstance(value, list) else value

    return walk(document)


MADE_UP: dict[str, Callable[[worlds.Pick], JSON]] = {
    "worlds": worlds.world,
    "changed worlds": lambda pick: worlds.mutated(worlds.world(pick), pick),
    "changed vectors": lambda pick: worlds.mutated(pick(vectors()), pick),
    "awkward amounts": lambda pick: with_awkward_amounts(worlds.world(pick), pick),
    "no gate inputs": lambda pick: pick(worlds.ODD),
}


@pytest.mark.parametrize("kind", MADE_UP)
def test_engines_agree_on_made_up_inputs(kind: str, local_opa: LocalOpa, embedded: Engine) -> None:
    pick = random.Random(kind).choice
    inputs = [MADE_UP[kind](pick) for _ in range(1500)]

    assert differences(inputs, local_opa, embedded) == []


def test_engines_agree_on_recorded_inputs_and_on_changed_ones(
    shared: Path, local_opa: LocalOpa, embedded: Engine
) -> None:
    pick = random.Random("recorded").choice
    recorded = [gate_input for gate_input, _ in asked(shared, embedded)]
    changed = [worlds.mutated(pick(recorded), pick) for _ in range(3000)]

    assert len(recorded) > 2500
    assert differences([*recorded, *changed], local_opa, embedded) == []
