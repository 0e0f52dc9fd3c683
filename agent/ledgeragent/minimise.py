"""Makes a gate input small: takes away whatever its decision does not need.

Delta debugging, from the outside inwards: of every object and list, first all members, then halves of them, then single
ones are taken away, for as long as the question asked of the rest is answered with yes. That question, and so what may
not be lost, is the caller's business. Nothing that is left can be taken away alone.

Source: Zeller and Hildebrandt, Simplifying and Isolating Failure-Inducing Input, IEEE TSE 28(2), 2002; top-down over a
tree as in Misherghi and Su, HDD: Hierarchical Delta Debugging, ICSE 2006.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

Json = dict[str, Any]
Keys = tuple[str | int, ...]
_SESSION: Final[Keys] = ("session", "id")
Member = TypeVar("Member", str, int)

_ROOTS: Final[tuple[Keys, ...]] = (
    ("ledger",),
    ("history",),
    ("siblings",),
    ("stale",),
    ("grants",),
    ("action", "arguments"),
)
_SIMPLER: Final[tuple[tuple[Keys, Any], ...]] = (
    (("request",), "request-1"),
    (_SESSION, "session-1"),
    (("action", "call_id"), "call-1"),
    (("session", "turn"), 1),
    (("session", "rejections"), 0),
    (("session", "principal"), None),
    (("session", "principal", "claims"), {}),
)


def minimised(gate_input: Json, same: Callable[[Json], bool]) -> Json:
    """The smallest gate input that is found of which `same` is true.

    Args:
        gate_input: true under `same`; not changed.
        same: whether a gate input still shows what the original showed. It is asked some hundred times.
    """
    shrinking = _Shrinking(gate_input, same)
    for place, value in _SIMPLER:
        shrinking.simplify(place, value)
    shrinking.rename_session("session-1")
    before = None
    while before != shrinking.whole:
        before = shrinking.whole
        for root in _ROOTS:
            shrinking.shrink(root)
    return shrinking.whole


class _Shrinking:
    def __init__(self, whole: Json, same: Callable[[Json], bool]) -> None:
        self.whole = whole
        self._same = same

    def simplify(self, place: Keys, value: Any) -> None:
        if _at(self.whole, place) not in (None, value):
            self._try(place, value)

    def rename_session(self, name: str) -> None:
        """A grant is for its session: both have the name, or neither."""
        grants = self.whole.get("grants", [])
        if grants:
            self._try((), _with({**self.whole, "grants": [{**one, "session": name} for one in grants]}, _SESSION, name))

    def shrink(self, place: Keys) -> None:
        value = _at(self.whole, place)
        if isinstance(value, Mapping):
            members: Sequence[str] = list(value)
            _fewest(members, lambda kept: self._try(place, {key: value[key] for key in kept}))
        elif isinstance(value, list):
            _fewest(range(len(value)), lambda kept: self._try(place, [value[number] for number in kept]))
        if place == ("stale",):
            return  # half a path is another path
        for below in _below(_at(self.whole, place)):
            self.shrink((*place, below))

    def _try(self, place: Keys, value: Any) -> bool:
        changed = _with(self.whole, place, value)
        if changed == self.whole or not self._same(changed):
            return False
        self.whole = changed
        return True


def _fewest(members: Sequence[Member], works: Callable[[Sequence[Member]], bool]) -> None:
    """Keep as few members as `works` lets pass; it is told which are kept."""
    if not members or works([]):
        return
    kept, size = list(members), len(members) // 2
    while size:
        at = 0
        while at < len(kept):
            rest = kept[:at] + kept[at + size :]
            if works(rest):
                kept = rest
            else:
                at += size
        size //= 2


def _below(value: Any) -> Iterator[str | int]:
    if isinstance(value, Mapping):
        yield from list(value)
    elif isinstance(value, list):
        yield from range(len(value))


def _at(value: Any, place: Keys) -> Any:
    for key in place:
        if value is None:
            return None
        value = value.get(key) if isinstance(value, Mapping) else value[key]
    return value


def _with(value: Any, place: Keys, new: Any) -> Any:
    if not place:
        return new
    key, rest = place[0], place[1:]
    if isinstance(value, Mapping):
        return {**value, key: _with(value[key], rest, new)}
    return [_with(one, rest, new) if number == key else one for number, one in enumerate(value)]
