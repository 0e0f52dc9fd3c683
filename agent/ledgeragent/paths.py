"""Ledger paths and the templates that name them.

A path is a tuple of keys; keys are any text (ids may hold dots, slashes or `#`). A template is a list of keys in which
placeholders stand for what is only known at run time:

    {arguments.x}  {arguments.x[*]}  {arguments.x[*].y}  {result}  {result.x}  {each}  {each.x}  {principal}
    {ledger: orders.{arguments.order_id}.items[*].product_id}     a value in the ledger, nested at most twice
    *                                                             every key at hand
    ?                                                             (last key) whatever is not there

This module parses and fills templates; it knows neither schemas nor tools.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ledgeragent.errors import BadInput

Path = tuple[str, ...]

ROOTS: Final = ("arguments", "result", "each")
_MAX_NESTING: Final = 2
_MAX_PARSED: Final = 10_000
_STEP: Final = re.compile(r"(?P<name>[^.\[\]{}]*)(?P<spread>(\[\*\])?)\Z")


class _Any:
    """The wildcard key: equal to nothing a ledger can hold, so an id that reads `*` is not taken for it."""

    def __repr__(self) -> str:
        return "*"


ANY: Final = _Any()
"""Stands for every key in a filled pattern."""

Pattern = tuple[str | _Any, ...]


def dotted(path: Iterable[object]) -> str:
    """A path as people see it."""
    return ".".join(str(key) for key in path)


def is_prefix(prefix: Sequence[object], path: Sequence[object]) -> bool:
    """Whether `prefix`, in which `ANY` fits every key, equals or lies above `path`."""
    return len(prefix) <= len(path) and all(own is ANY or own == key for own, key in zip(prefix, path, strict=False))


@dataclass(frozen=True)
class Scope:
    """What the placeholders of a template stand for.

    Attributes:
        values: the roots `arguments`, `result` and `each`, as far as there are any.
        principal: the principal's id, or None when there is none yet.
        lookup: gives the value under a ledger path, or `NOTHING`.
    """

    values: Mapping[str, Any]
    principal: str | None = None
    lookup: Callable[[Path], Any] | None = None


class _Nothing:
    def __repr__(self) -> str:
        return "NOTHING"


NOTHING: Final = _Nothing()
"""No value stands here (None is a value)."""


@dataclass(frozen=True)
class _Step:
    name: str | Template
    spread: bool


@dataclass(frozen=True)
class _Placeholder:
    root: str
    steps: tuple[_Step, ...]

    def fill(self, scope: Scope) -> Iterator[Any]:
        if self.root == "principal":
            if scope.principal is not None:
                yield scope.principal
        elif self.root == "ledger":
            yield from _ledger_values(self.steps, scope)
        elif self.root in scope.values:
            yield from _below(scope.values[self.root], self.steps, scope)


def _ledger_values(steps: tuple[_Step, ...], scope: Scope) -> Iterator[Any]:
    if scope.lookup is None:
        return
    # A list inside a record is walked here; the keys before the first one are looked up as one path.
    plain = next((at + 1 for at, step in enumerate(steps) if step.spread), len(steps))
    for keys in itertools.product(*(_step_names(step, scope) for step in steps[:plain])):
        value = scope.lookup(keys)
        if value is NOTHING:
            continue
        for item in _spread(value) if steps[plain - 1].spread else (value,):
            yield from _below(item, steps[plain:], scope)


def _below(value: Any, steps: tuple[_Step, ...], scope: Scope) -> Iterator[Any]:
    if not steps:
        yield value
        return
    step, rest = steps[0], steps[1:]
    for name in _step_names(step, scope):
        # Only a step without a name, `[*]`, stays where it is; a name that was filled in as "" is a key like any other.
        stays = step.name == ""
        inner = value if stays else (value.get(name, NOTHING) if isinstance(value, Mapping) else NOTHING)
        if inner is NOTHING:
            continue
        for item in _spread(inner) if step.spread else (inner,):
            yield from _below(item, rest, scope)


def _spread(value: Any) -> Iterable[Any]:
    if isinstance(value, list | tuple):
        return value
    return value.values() if isinstance(value, Mapping) else ()


def _step_names(step: _Step, scope: Scope) -> list[str]:
    if isinstance(step.name, str):
        return [step.name]
    return [text for text in step.name.fill(scope) if isinstance(text, str)]


@dataclass(frozen=True)
class Template:
    """A text with placeholders; parse with `Template.parse`, fill with `fill`."""

    source: str
    parts: tuple[str | _Placeholder, ...]

    @classmethod
    @functools.lru_cache(maxsize=_MAX_PARSED)
    def parse(cls, source: str, nesting: int = 0) -> Template:
        """Parse one key or value template; what was parsed is kept.

        Raises:
            BadInput: for unbalanced braces, an unknown root, or ledger look-ups nested more than twice.
        """
        if nesting > _MAX_NESTING:
            raise BadInput(f"template {source!r} nests look-ups more than {_MAX_NESTING} deep")
        return cls(source, tuple(_parse_parts(source, nesting)))

    def fill(self, scope: Scope) -> list[Any]:
        """Every value the template takes in this scope; empty when something it names is not there.

        A template that is one placeholder gives the value itself; a text around placeholders gives texts, and then
        only strings and whole numbers can be filled in.
        """
        if len(self.parts) == 1:
            only = self.parts[0]
            return [only] if isinstance(only, str) else list(only.fill(scope))
        choices = [
            [part] if isinstance(part, str) else [_as_text(value) for value in part.fill(scope)] for part in self.parts
        ]
        return ["".join(texts) for texts in itertools.product(*choices) if None not in texts]  # type: ignore[arg-type]

    def roots(self) -> set[str]:
        """The roots it names: a subset of arguments, result, each, principal, ledger."""
        found: set[str] = set()
        for part in self.parts:
            if isinstance(part, _Placeholder):
                found.add(part.root)
                for step in part.steps:
                    if isinstance(step.name, Template):
                        found |= step.name.roots()
        return found

    def placeholders(self) -> list[tuple[str, tuple[str, ...]]]:
        """(root, names) of every placeholder, nested ones included; a nested template stands as `*` in the names."""
        found: list[tuple[str, tuple[str, ...]]] = []
        for part in self.parts:
            if isinstance(part, _Placeholder):
                names: list[str] = []
                for step in part.steps:
                    if isinstance(step.name, Template):
                        found.extend(step.name.placeholders())
                        names.append("*")
                    elif step.name:
                        names.append(step.name)
                    if step.spread:
                        names.append("[*]")
                found.append((part.root, tuple(names)))
        return found


def _as_text(value: Any) -> str | None:
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None


def _parse_parts(source: str, nesting: int) -> Iterator[str | _Placeholder]:
    at = 0
    while at < len(source):
        start = source.find("{", at)
        if start < 0:
            start = len(source)
        if "}" in source[at:start]:
            raise BadInput(f"template {source!r} has a '}}' without its '{{'")
        if start > at:
            yield source[at:start]
        if start == len(source):
            return
        end = _closing(source, start)
        yield _parse_placeholder(source[start + 1 : end], nesting)
        at = end + 1
    if not source:
        yield ""


def _closing(source: str, start: int) -> int:
    depth = 0
    for at in range(start, len(source)):
        depth += {"{": 1, "}": -1}.get(source[at], 0)
        if depth == 0:
            return at
    raise BadInput(f"template {source!r} has a '{{' without its '}}'")


def _parse_placeholder(body: str, nesting: int) -> _Placeholder:
    if body == "principal":
        return _Placeholder("principal", ())
    if body.startswith("ledger:"):
        steps = tuple(_parse_step(text, nesting) for text in _split(body.removeprefix("ledger:").strip()))
        return _Placeholder("ledger", steps)
    root = re.split(r"[.\[]", body, maxsplit=1)[0]
    if root not in ROOTS:
        raise BadInput(
            f"template placeholder {{{body}}} must begin with arguments, result, each, principal or 'ledger:'"
        )
    rest = body[len(root) :]
    steps = tuple(_parse_step(text, nesting) for text in _split(rest.removeprefix("."))) if rest else ()
    return _Placeholder(root, steps)


def _split(text: str) -> Iterator[str]:
    """Split at the dots outside braces."""
    depth, begin = 0, 0
    for at, char in enumerate(text):
        depth += {"{": 1, "}": -1}.get(char, 0)
        if char == "." and depth == 0:
            yield text[begin:at]
            begin = at + 1
    yield text[begin:]


def _parse_step(text: str, nesting: int) -> _Step:
    spread = text.endswith("[*]")
    name = text.removesuffix("[*]")
    if "{" in name:
        return _Step(Template.parse(name, nesting + 1), spread)
    match = _STEP.match(text)
    if match is None or (not name and not spread):
        raise BadInput(f"template step {text!r} is not a name, optionally followed by [*]")
    return _Step(name, spread)


def _keys(key: Template | _Any, scope: Scope) -> list[str | _Any]:
    """What a key of a path can be; only texts can."""
    return [key] if isinstance(key, _Any) else [text for text in key.fill(scope) if isinstance(text, str)]


@dataclass(frozen=True)
class PathTemplate:
    """A path whose keys are templates."""

    keys: tuple[Template | _Any, ...]
    absent: bool = False
    """Whether the last key was `?`: whatever is not there."""
    looks: bool = False
    """Whether a key is looked up in the ledger."""

    @classmethod
    def parse(cls, source: Sequence[str]) -> PathTemplate:
        """Parse a list of key templates.

        Raises:
            BadInput: when it is empty, a key does not parse, or `?` stands anywhere but last.
        """
        return _parsed_path(tuple(source))

    @classmethod
    def _parse(cls, source: tuple[str, ...]) -> PathTemplate:
        if not source:
            raise BadInput("a path template needs at least one key")
        if "?" in source[:-1]:
            raise BadInput(f"path template {dotted(source)!r} has a '?' that is not its last key")
        keys = tuple(ANY if key == "*" else Template.parse(key) for key in source)
        looks = any("ledger" in key.roots() for key in keys if isinstance(key, Template))
        return cls(keys, source[-1] == "?", looks)

    def fill(self, scope: Scope) -> list[Pattern]:
        """Every pattern the template takes in this scope, `*` kept as `ANY`; only texts can be keys."""
        choices: list[list[str | _Any]] = [_keys(key, scope) for key in self.keys]
        return list(dict.fromkeys(itertools.product(*choices)))

    def fill_widely(self, scope: Scope) -> list[Pattern]:
        """Like `fill`, but a key that cannot be filled becomes `ANY`: for staleness, where more is safer."""
        choices: list[list[str | _Any]] = [_keys(key, scope) or [ANY] for key in self.keys]
        return list(dict.fromkeys(itertools.product(*choices)))

    def shape(self) -> tuple[str, ...]:
        """The keys with every placeholder as `*`, for checking against a schema."""
        return tuple(
            "*" if isinstance(key, _Any) or any(not isinstance(part, str) for part in key.parts) else key.source
            for key in self.keys
        )

    def __str__(self) -> str:
        return dotted(key if isinstance(key, _Any) else key.source for key in self.keys)


@functools.lru_cache(maxsize=_MAX_PARSED)
def _parsed_path(source: tuple[str, ...]) -> PathTemplate:
    return PathTemplate._parse(source)
