"""A text that must not be found where things are logged, and gate inputs that hold it wherever they can."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any, Final

from ledgeragent.domain import Domain
from ledgeragent.masking import Masking
from ledgeragent.policies import SCHEMAS

CANARY: Final = "kanari.9f3@example.com"
"""What an e-mail address in a field of the wrong kind would be."""

_PLACES = tuple[str | int, ...]


def vectors(domain: str) -> list[dict[str, Any]]:
    """The gate inputs of a domain's shipped vectors, each with its decision under `decision`."""
    document = json.loads((SCHEMAS / "vectors" / f"{domain}.json").read_text(encoding="utf-8"))
    found: list[dict[str, Any]] = document["vectors"]
    return found


def disguised(domain: Domain, gate_input: Any) -> Any:
    """The same case about other people: every text that may not be logged is a canary, the same text the same one.

    The policies decide it as they decide the original, as long as they only compare these texts.
    """
    numbers = itertools.count()
    known: dict[str, str] = {}

    def canary(text: str) -> str:
        return known.setdefault(text, f"{next(numbers)}.{CANARY}")

    masking = Masking(domain.log, canary)
    shown = masking.allowed(domain.log["input"], gate_input)
    return {**shown, "domain": gate_input["domain"]}


def overrun(gate_input: Any) -> Any:
    """The same shape with a canary for every text and every key of the ledger, and fields nobody declared."""
    numbers = itertools.count()

    def planted(value: Any, keys: bool) -> Any:
        if isinstance(value, str):
            return f"{next(numbers)}.{CANARY}"
        if isinstance(value, dict):
            named = {planted(key, keys) if keys else key: planted(inner, keys) for key, inner in value.items()}
            return {**named, f"{next(numbers)}.{CANARY}": {CANARY: [CANARY, {"x": CANARY}]}}
        return [planted(one, keys) for one in value] if isinstance(value, list) else value

    return {
        **{key: planted(value, keys=False) for key, value in gate_input.items()},
        "domain": gate_input["domain"],
        "ledger": planted(gate_input["ledger"], keys=True),
        CANARY: CANARY,
    }


def texts(value: Any, place: _PLACES = ()) -> Iterator[_PLACES]:
    """The place of every text in a value."""
    if isinstance(value, str):
        yield place
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from texts(inner, (*place, key))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from texts(inner, (*place, number))


def replaced(value: Any, place: _PLACES, other: Any) -> Any:
    """A copy of a value with something else at one place."""
    if not place:
        return other
    if isinstance(value, dict):
        return {**value, place[0]: replaced(value[place[0]], place[1:], other)}
    return [replaced(one, place[1:], other) if number == place[0] else one for number, one in enumerate(value)]


def one_by_one(gate_input: Any) -> Iterator[Any]:
    """The gate input with a canary in place of one text after the other, its domain left alone."""
    for place in texts(gate_input):
        if place != ("domain",):
            yield replaced(gate_input, place, CANARY)
