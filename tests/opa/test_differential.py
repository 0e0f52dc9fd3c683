"""OPA and the embedded engine decide alike: whole decisions on vectors, made-up, and changed inputs.

Every domain has its vectors and its recordings; made-up worlds there are for retail only, as is the oracle. Recorded
inputs as they are: test_corpus.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import pytest

from ledgeragent.engine import Engine, LocalOpa
from ledgeragent.errors import EngineError
from ledgeragent.policies import SCHEMAS
from oracle import worlds
from oracle.recorded import Replayed

JSON = Any
AWKWARD_AMOUNTS = (1.005, 0.285, -2.675, 4.35, 1e-9, 123456789.125, 999999999.995, 1e9, -0.5, 0.1 + 0.2, 2**53 - 1)


def differences(domain: str, inputs: Iterable[JSON], one: Engine, other: Engine) -> list[JSON]:
    """The inputs that two engines decide differently, with both decisions."""
    found = []
    for document in inputs:
        answers = [answer(domain, engine, document) for engine in (one, other)]
        if answers[0] != answers[1]:
            found.append([document, *answers])
    return found


def answer(domain: str, engine: Engine, document: JSON) -> JSON:
    """The decision, or words that name the engine that has none: two failures are never alike."""
    try:
        return engine.evaluate(domain, "decision", document)
    except EngineError as error:
        return f"{engine.name}: {error}"


@cache
def vectors(domain: str) -> list[JSON]:
    """The inputs of the domain's vectors."""
    document = json.loads((SCHEMAS / "vectors" / f"{domain}.json").read_text(encoding="utf-8"))
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
    "awkward amounts": lambda pick: with_awkward_amounts(worlds.world(pick), pick),
    "no gate inputs": lambda pick: pick(worlds.ODD),
}


@pytest.mark.parametrize("kind", MADE_UP)
def test_engines_agree_on_made_up_retail_inputs(kind: str, local_opa: LocalOpa, embedded: Engine) -> None:
    pick = random.Random(kind).choice
    inputs = [MADE_UP[kind](pick) for _ in range(1000)]

    assert differences("retail", inputs, local_opa, embedded) == []


def test_engines_agree_on_vectors(domain_name: str, local_opa: LocalOpa, embedded: Engine) -> None:
    assert len(vectors(domain_name)) > 40
    assert differences(domain_name, vectors(domain_name), local_opa, embedded) == []


def test_engines_agree_on_which_numbers_are_whole(local_opa: LocalOpa, embedded: Engine) -> None:
    """At an argument that must be an integer, whatever its size."""
    numbers = (0, 1, -1, 2.0, 2.5, 2**31, 2**53 + 1, 10**18, 1e21, 1.5e21, -1e22, 1e29, 1e300, -1e300, 10**40)
    asked = vectors("telecom")[0]
    call = {"call_id": "call-1", "tool": "get_bills_for_customer"}
    inputs = [{**asked, "action": {**call, "arguments": {"customer_id": "C1", "limit": one}}} for one in numbers]

    assert differences("telecom", inputs, local_opa, embedded) == []
    verdicts = [answer("telecom", embedded, one)["verdict"] for one in inputs]
    assert {"allow", "revise"} == {*verdicts}


def test_engines_agree_on_changed_vectors(domain_name: str, local_opa: LocalOpa, embedded: Engine) -> None:
    pick = random.Random(f"{domain_name} vectors").choice
    inputs = (worlds.mutated(pick(vectors(domain_name)), pick) for _ in range(1000))

    assert differences(domain_name, inputs, local_opa, embedded) == []


def test_engines_agree_on_changed_recorded_inputs(
    domain_name: str, replayed_embedded: Replayed, local_opa: LocalOpa, embedded: Engine
) -> None:
    pick = random.Random(f"{domain_name} recorded").choice
    inputs = (worlds.mutated(pick(replayed_embedded.asked).sliced, pick) for _ in range(1000))

    assert differences(domain_name, inputs, local_opa, embedded) == []
