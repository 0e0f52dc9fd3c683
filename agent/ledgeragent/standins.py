"""Replaces what is personal in a gate input by stand-ins, the same text by the same one wherever it stands.

What may stay is what the domain's `x-log` marks let into a log; all other texts, keys of maps included, are replaced,
and so is a marked text that stands somewhere unmarked as well. Marked ids, which may stay, are replaced too where that
is possible: a test is read by more people than a log. A stand-in has the form that the ledger schema asks of its place.
Each is tried on the policies: one that changes what they decide is given up for another, and when none is left the text
stays and is named. Numbers and booleans stay: what a small input still holds of them decides.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from ledgeragent.domain import Domain, LedgerSchema, Validator
from ledgeragent.marks import Marks
from ledgeragent.masking import KEY, fits
from ledgeragent.paths import dotted

Json = dict[str, Any]
Kind = Literal["word", "shown", "hidden"]
"""`word`: one of a closed list of the contract; `shown`: may be logged; `hidden`: may not."""
Place = tuple[str, ...]

_CLOSED: Final[Marks] = {}
_ABSENT: Final = "?"
_ELEMENT: Final = "[*]"
_ANY: Final = "*"
_EMAIL: Final = re.compile(r"[^@\s]+@[^@\s]+\.[A-Za-z]+\Z")
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}\Z")
_ID: Final = re.compile(r"(?!.*\d{4}-\d{2}-\d{2}).*\d{3}", re.DOTALL)
_LETTER: Final = re.compile(r"[^\W\d_]")
_RUN: Final = re.compile(r"[A-Za-z]+|[0-9]+|[^\W\d_]+")
_SHORT_PREFIX: Final = 2
_ALIKE: Final = 1000


@dataclass(frozen=True)
class StoodIn:
    """A gate input with stand-ins.

    Attributes:
        input: the gate input.
        replaced: how many texts have a stand-in.
        kept: places of texts that had to stay although they may not be logged, dotted.
    """

    input: Json
    replaced: int
    kept: tuple[str, ...]


@dataclass
class _Text:
    """A text of the gate input and where it stands."""

    text: str
    kinds: set[Kind] = field(default_factory=set)
    places: list[Place] = field(default_factory=list)

    @property
    def is_replaced(self) -> bool:
        """Whether a stand-in is looked for."""
        return "word" not in self.kinds and ("hidden" in self.kinds or bool(_ID.match(self.text)))


def stood_in(domain: Domain, gate_input: Json, same: Callable[[Json], bool]) -> StoodIn:
    """Replace what is personal.

    Args:
        domain: whose marks and schema count.
        gate_input: true under `same`; not changed.
        same: whether a gate input is still decided as the original was.
    """
    walk = _Walk(domain.log)
    found: dict[str, _Text] = {}

    def note(text: str, kind: Kind, place: Place) -> str:
        one = found.setdefault(text, _Text(text))
        one.kinds.add(kind)
        one.places.append(place)
        return text

    walk.mapped(gate_input, note)
    units = _units(one for one in found.values() if one.is_replaced)
    choosing = _Choosing(_Forms(domain.schema), set(found))
    options = {unit[0].text: list(choosing.options(unit)) for unit in units}
    alone = [options[unit[0].text] for unit in units]
    clusters = [choosing.together(cluster, options) for cluster in _clusters(units)]

    def replaced(mapping: Mapping[str, str]) -> Json:
        return walk.mapped(gate_input, lambda text, _kind, _place: mapping.get(text, text))

    def keeps(mapping: Mapping[str, str]) -> bool:
        return same(replaced(mapping))

    mapping = next((one for one in (_firsts(alone), _firsts(clusters)) if keeps(one)), None)
    if mapping is None:
        mapping = _one_by_one([*clusters, *alone], keeps)
    stays = [one for unit in units for one in unit if one.text not in mapping and "hidden" in one.kinds]
    kept = {dotted(one.places[0]) for one in stays}
    return StoodIn(replaced(mapping), len(mapping), tuple(sorted(kept)))


def _firsts(options: Sequence[Sequence[Mapping[str, str]]]) -> dict[str, str]:
    return {key: value for first in options if first for key, value in first[0].items()}


def _one_by_one(options: Sequence[Sequence[Mapping[str, str]]], same: Callable[[Mapping[str, str]], bool]) -> Json:
    chosen: dict[str, str] = {}
    for candidates in options:
        for candidate in candidates:
            if candidate.keys() <= chosen.keys():
                break
            if same({**chosen, **candidate}):
                chosen.update(candidate)
                break
    return chosen


def _units(texts: Iterator[_Text]) -> list[list[_Text]]:
    """Texts that differ in upper and lower case only are replaced together."""
    units: dict[str, list[_Text]] = {}
    for one in texts:
        units.setdefault(one.text.casefold().strip(), []).append(one)
    return list(units.values())


def _clusters(units: Sequence[list[_Text]]) -> list[list[_Text]]:
    """Units of which one is written with another's words, such as a name and its parts, belong together."""
    clusters: list[list[_Text]] = []
    for unit in sorted(units, key=lambda one: len(one[0].text)):
        parts = [one for one in clusters if any(_is_made_of(text.text, one) for text in unit)]
        clusters = [one for one in clusters if one not in parts]
        clusters.append([*(text for one in parts for text in one), *unit])
    return clusters


def _is_made_of(text: str, parts: Iterable[_Text]) -> bool:
    return any(len(part.text) > 1 and part.text.casefold() in text.casefold() for part in parts)


def _composed(text: str, chosen: Mapping[str, str]) -> str | None:
    """A text made of the stand-ins of its parts; of what stands between these, only the shape is left."""
    own = text.casefold()
    parts = {one.casefold(): stand_in for one, stand_in in chosen.items() if one.casefold() != own and len(one) > 1}
    longest = sorted((part for part in parts if part in own), key=len, reverse=True)
    if not longest:
        return None
    split = re.split("(" + "|".join(map(re.escape, longest)) + ")", text, flags=re.IGNORECASE)
    return "".join(parts.get(piece.casefold()) or _shaped(piece, 1, keep_prefix=False) for piece in split)


class _Choosing:
    """Finds stand-ins; none is given twice, none is a text of the original."""

    def __init__(self, forms: _Forms, taken: set[str]) -> None:
        self._forms = forms
        self._taken = taken
        self._numbers: dict[str, itertools.count[int]] = {}

    def options(self, unit: Sequence[_Text]) -> Iterator[dict[str, str]]:
        """Text → stand-in for the texts of a unit, best first."""
        name = _name(unit[0].places)
        number = next(self._numbers.setdefault(name, itertools.count(1)))
        named = all("shown" not in one.kinds for one in unit)
        for alike in _bases(unit[0].text, name, number, named=named):
            for base in alike:
                found = {one.text: _cased(base, one.text) for one in unit}
                if self._are_free(unit, found):
                    self._taken |= set(found.values())
                    yield found
                    break

    def together(
        self, cluster: Sequence[_Text], options: Mapping[str, Sequence[Mapping[str, str]]]
    ) -> list[dict[str, str]]:
        """Stand-ins for all texts of a cluster: those that are made of other texts are made of their stand-ins."""
        own = [options[one.text] for one in cluster if options.get(one.text)]
        found = []
        for number in range(max((len(one) for one in own), default=0)):
            chosen = {key: value for one in own for key, value in one[min(number, len(one) - 1)].items()}
            for text in sorted(cluster, key=lambda one: len(one.text)):
                composed = _composed(text.text, chosen)
                if composed is not None and self._forms.fit(text, composed):
                    chosen[text.text] = composed
            found.append(chosen)
        return found

    def _are_free(self, unit: Sequence[_Text], found: Mapping[str, str]) -> bool:
        values = set(found.values())
        if len(values) < len(unit) or values & self._taken:
            return False
        return all(self._forms.fit(one, found[one.text]) for one in unit)


def _bases(text: str, name: str, number: int, *, named: bool) -> Iterator[Iterable[str]]:
    """Stand-ins form by form, best first; of each form, some that differ only in their number."""
    if _EMAIL.match(text):
        yield [f"{name}-{number}@example.com"]
    if _DATE.match(text):
        yield [f"2001-{1 + number // 28 % 12:02}-{1 + number % 28:02}"]
        return
    # What has no letters may be read as a number or for its digits; what may be shown is an id of its own form.
    if _LETTER.search(text) and named:
        yield [f"{name}-{number}"]
        yield [f"{name}_sample_{number}"]
    for keep_prefix in (True, False):
        yield (_shaped(text, at, keep_prefix=keep_prefix) for at in range(number, number + _ALIKE))


def _shaped(text: str, number: int, *, keep_prefix: bool) -> str:
    """The same shape in other digits and letters; words in front of digits can be kept, for they may be a type."""
    runs = list(_RUN.finditer(text))
    digits = [run for run in runs if run[0].isdigit()]
    last = (digits or runs)[-1] if runs else None

    def other(run: re.Match[str]) -> str:
        leads = bool(digits) and (len(run[0]) <= _SHORT_PREFIX or run.end() <= digits[-1].start())
        if keep_prefix and leads and not run[0].isdigit():
            return run[0]
        value = number if last is not None and run.start() == last.start() else 0
        if run[0].isdigit():
            return str(value).zfill(len(run[0]))[-len(run[0]) :]
        return _letters(value, len(run[0]))

    return _RUN.sub(other, text)


def _letters(value: int, length: int) -> str:
    letters = ""
    while len(letters) < length:
        value, rest = divmod(value, 26)
        letters = chr(ord("a") + rest) + letters
    return letters


def _cased(base: str, text: str) -> str:
    if len(text) > 1 and text.isupper():
        return base.upper()
    return base


def _name(places: Sequence[Place]) -> str:
    """What such a text is called, after the field or map it stands in."""
    for place in places:
        for key in reversed(place):
            if key not in (_ELEMENT, _ANY, KEY, "ledger", "stale"):
                return _singular(re.sub(r"[^a-z]+", "-", key.casefold()).strip("-")) or "text"
    return "text"


def _singular(word: str) -> str:
    word = re.sub(r"-ids?\Z", "", word)
    for end, one in (("ies", "y"), ("sses", "ss"), ("ss", "ss"), ("us", "us"), ("s", "")):
        if word.endswith(end) and len(word) > len(end):
            return word.removesuffix(end) + one
    return word


class _Forms:
    """What the ledger schema asks of the texts at a place."""

    def __init__(self, schema: LedgerSchema) -> None:
        self._schema = schema

    def fit(self, original: _Text, stand_in: str) -> bool:
        """Whether a stand-in fits wherever the original did."""
        return all(
            one.is_valid(stand_in) or not one.is_valid(original.text)
            for place in original.places
            for one in self._checks(place)
        )

    def _checks(self, place: Place) -> Iterator[Any]:
        if place[0] != "ledger":
            return
        above = self._schema.at(tuple(key for key in place[1:-1])) if len(place) > 1 else None
        if place[-1] == KEY:
            yield from self._of_keys(above)
            return
        node = self._schema.at(place[1:])
        if node is not None:
            yield self._validator(node)

    def _of_keys(self, above: Any) -> Iterator[Any]:
        """A key must be a name that the map takes, and the id of the record under it."""
        if above is None:
            return
        if isinstance(above.get("propertyNames"), Mapping):
            yield self._validator(self._schema.resolved(above["propertyNames"]))
        record = self._schema.child(above, _ANY)
        own = record.get("properties", {}).get(record.get("x-id")) if record is not None else None
        if own is not None:
            yield self._validator(self._schema.resolved(own))

    def _validator(self, node: Mapping[str, Any]) -> Any:
        return Validator({**node, "$defs": self._schema.document.get("$defs", {})})


Told = Callable[[str, Kind, Place], str]


class _Walk:
    """Goes through a gate input along a domain's allow-list and asks about every text that a value put there."""

    def __init__(self, log: Mapping[str, Marks]) -> None:
        self._log = log

    def mapped(self, gate_input: Json, told: Told) -> Json:
        """A copy in which every text is what `told` gives for it; fields' names and the domain stay."""
        marks = self._log["input"]["fields"]
        copied = dict(gate_input)
        for part in ("action", "ledger", "stale", "history", "siblings"):
            copied[part] = self._value(marks[part], gate_input[part], (part,), told)
        copied["grants"] = [self._grant(marks["grants"]["items"], one, told) for one in gate_input["grants"]]
        principal = gate_input["session"]["principal"]
        shown = None
        if principal is not None:
            # The source is a word of the contract; only who it is can be personal.
            shown = {
                **principal,
                "id": self._value(_at(marks, "session", "principal", "id"), principal["id"], ("principal",), told),
            }
            if "claims" in principal:
                shown["claims"] = self._value(_CLOSED, principal["claims"], ("claims",), told)
        copied["session"] = {**gate_input["session"], "principal": shown}
        return copied

    def _value(self, marks: Marks, value: Any, place: Place, told: Told) -> Any:
        if isinstance(value, Mapping):
            return dict(self._member(marks, value, key, place, told) for key in value)
        if isinstance(value, list):
            if marks.get("path"):
                return self._path(value, told)
            items = marks.get("items", _CLOSED)
            return [self._value(items, one, (*place, _ELEMENT), told) for one in value]
        return told(value, _kind(marks.get("value", ()), value), place) if _is_text(value) else value

    def _grant(self, marks: Marks, grant: Json, told: Told) -> Json:
        """Its session is named as the session is, which nobody is asked about."""
        others = {key: value for key, value in grant.items() if key != "session"}
        mapped = self._value(marks, others, ("grants", _ELEMENT), told)
        return {key: mapped.get(key, value) for key, value in grant.items()}

    def _member(self, marks: Marks, value: Mapping[str, Any], key: str, place: Place, told: Told) -> tuple[str, Any]:
        if marks.get("call") and key in ("call_id", "outcome"):
            return key, value[key]
        if marks.get("call") and key == "arguments":
            own = self._log["tools"].get(str(value.get("tool")), _CLOSED)
            return key, self._value(own, value[key], (*place, key), told)
        if key in marks.get("fields", {}):
            return key, self._value(marks["fields"][key], value[key], (*place, key), told)
        below = marks.get("each", _CLOSED)
        name = told(key, _kind(marks.get("keys", ()), key), (*place, KEY))
        return name, self._value(below, value[key], (*place, _ANY), told)

    def _path(self, path: Sequence[str], told: Told) -> list[str]:
        marks: Marks = self._log["input"]["fields"]["ledger"]
        place: Place = ("ledger",)
        shown = []
        for key in path:
            if key == _ABSENT or key in marks.get("fields", {}):
                shown.append(key)
                marks, place = marks.get("fields", {}).get(key, _CLOSED), (*place, key)
            else:
                shown.append(told(key, _kind(marks.get("keys", ()), key), (*place, KEY)))
                marks, place = marks.get("each", _CLOSED), (*place, _ANY)
        return shown


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def _kind(checks: Sequence[Marks], text: str) -> Kind:
    if not fits(checks, text):
        return "hidden"
    return "word" if any("enum" in check and text in check["enum"] for check in checks) else "shown"


def _at(fields: Mapping[str, Marks], *names: str) -> Marks:
    marks: Marks = {"fields": fields}
    for name in names:
        marks = marks.get("fields", {}).get(name, _CLOSED)
    return marks
