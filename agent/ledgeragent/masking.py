"""Masks a value by an allow-list of `marks`: what that does not name is masked, replaced by a stand-in, or left out.

`masks/system/log/log.rego` does the same to OPA's decision log; a test holds both together. What is done with the
masked value, and where stand-ins come from, is `redact`'s part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ledgeragent.domain import whole_pattern
from ledgeragent.marks import MASKED, MAX_LEVELS, Marks
from ledgeragent.paths import Path

KEY: Final = "(key)"
"""Last part of a place whose keys were replaced by stand-ins."""

UNDECLARED: Final = "(undeclared)"
"""Last part of a place where fields that no schema declares were left out."""

_PATH_KEYS: Final = 8
_ABSENT: Final = "?"  # in a stale path: whatever is not there
_CLOSED: Final[Marks] = {"each": {}, "keys": []}
_TYPES: Final[Mapping[str, Callable[[Any], bool]]] = {
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "number": lambda value: _is_number(value),
    "integer": lambda value: _is_number(value) and float(value).is_integer(),
}


@dataclass
class Masking:
    """One value being masked; `masked` and `replaced` say where what became of it.

    With stand-ins, an empty text and null stay: where nothing stands shows anyway.

    Attributes:
        log: the domain's allow-list.
        stand_in: gives the stand-in of a text; None masks texts like everything else.
        masked: places of which nothing is left; `*` stands for a map's keys and a list's elements.
        replaced: places with stand-ins.
        shown_texts, hidden_texts: the texts that were shown, and those that have stand-ins.
    """

    log: Mapping[str, Marks]
    stand_in: Callable[[str], str] | None = None
    masked: set[Path] = field(default_factory=set)
    replaced: set[Path] = field(default_factory=set)
    shown_texts: set[str] = field(default_factory=set)
    hidden_texts: set[str] = field(default_factory=set)

    def allowed(self, marks: Marks, value: Any, place: Path = (), level: int = 0) -> Any:
        """What the list leaves of a value.

        Args:
            marks: the node of the list for this value.
            value: a JSON value.
            place: where it is, for `masked` and `replaced`.
            level: how deep it lies below the gate input or decision.
        """
        if isinstance(value, Mapping):
            return self._object(marks, value, place, level)
        if isinstance(value, list | tuple):
            return self._list(marks, value, place, level)
        return self._shown(value) if fits(marks.get("value", ()), value) else self._hidden(value, place)

    def _object(self, marks: Marks, value: Mapping[str, Any], place: Path, level: int) -> Any:
        opens = "fields" in marks or "keys" in marks or ("each" in marks and self.stand_in is not None)
        if not opens or level >= MAX_LEVELS:
            return self._hidden(value, place)
        shown: dict[str, Any] = {}
        for key, inner in value.items():
            below = self._below(marks, value, key)
            name = key if key in marks.get("fields", {}) else "*"
            if below is not None:
                shown[self._shown(key)] = self.allowed(below, inner, (*place, name), level + 1)
            elif "each" in marks and self.stand_in is not None:
                stand_in = self._hidden(key, (*place, KEY))
                shown[stand_in] = self.allowed(marks["each"], inner, (*place, "*"), level + 1)
            else:
                self.masked.add((*place, UNDECLARED))
        return shown

    def _list(self, marks: Marks, value: Sequence[Any], place: Path, level: int) -> Any:
        if marks.get("path"):
            return self._path(value, place)
        if "items" not in marks or level >= MAX_LEVELS:
            return self._hidden(value, place)
        return [self.allowed(marks["items"], one, (*place, "*"), level + 1) for one in value]

    def _below(self, marks: Marks, value: Mapping[str, Any], key: str) -> Marks | None:
        if marks.get("call") and key == "arguments":
            tool = value.get("tool")
            own: Marks | None = self.log["tools"].get(tool) if isinstance(tool, str) else None
            return own if own is not None else _CLOSED
        fields: Mapping[str, Marks] = marks.get("fields", {})
        if key in fields:
            return fields[key]
        each: Marks | None = marks.get("each")
        return each if fits(marks.get("keys", ()), key) else None

    def _path(self, path: Sequence[Any], place: Path) -> list[Any]:
        """A path of the ledger: its keys are shown as far as the ledger shows them."""
        marks: Marks | None = self.log["input"]["fields"]["ledger"]
        shown = []
        for number, key in enumerate(path):
            below = self._below(marks, {}, key) if marks is not None and isinstance(key, str) else None
            if key == _ABSENT or (below is not None and number < _PATH_KEYS):
                shown.append(self._shown(key))
            else:
                shown.append(self._hidden(key, (*place, KEY)))
            # A stand-in's path leads on; without stand-ins nothing below a masked key is known.
            marks = below if self.stand_in is None or below is not None else (marks or {}).get("each")
        return shown

    def _shown(self, value: Any) -> Any:
        if isinstance(value, str):
            self.shown_texts.add(value)
        return value

    def _hidden(self, value: Any, place: Path) -> Any:
        if self.stand_in is None:
            self.masked.add(place)
            return MASKED
        if value is None or value == "":
            return value
        if isinstance(value, str):
            self.replaced.add(place)
            self.hidden_texts.add(value)
            return self.stand_in(value)
        if isinstance(value, Mapping):
            return {
                self._hidden(key, (*place, KEY)): self._hidden(inner, (*place, "*")) for key, inner in value.items()
            }
        if isinstance(value, list | tuple):
            return [self._hidden(one, (*place, "*")) for one in value]
        # Another number would be judged, and read, as if it were this one.
        self.masked.add(place)
        return MASKED


def fits(checks: Sequence[Marks], value: Any) -> bool:
    """Whether one of the checks holds for a value."""
    return any(all(_holds(kind, rule, value) for kind, rule in check.items()) for check in checks)


def _holds(kind: str, rule: Any, value: Any) -> bool:
    if kind == "types":
        return any(_TYPES[name](value) for name in rule)
    if kind == "enum":
        return any(_same(one, value) for one in rule)
    # Any other kind is a list from another version: nothing is shown by a check that is not known.
    return kind == "patterns" and (not isinstance(value, str) or all(whole_pattern(one).search(value) for one in rule))


def _same(one: Any, other: Any) -> bool:
    """Equality of JSON values: 5 is 5.0, and no number is a boolean."""
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
