"""JSON Schemas as functions that quickly recognise what fits.

A record is held against its schema with every read, and nearly all fit. What is made here says yes only where a full
validator would; it says no where something does not fit, and also where it meets a keyword or a kind of value that it
does not know. A no is therefore no answer: `domain` then asks the validator, whose word and words count.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

Schema = Mapping[str, Any]
Accepts = Callable[[Any], bool]
Compile = Callable[[str], re.Pattern[str]]
"""How a pattern is read."""

_SAYS_NOTHING: Final = frozenset({"$defs", "$id", "$schema", "description", "title", "x-id", "x-log"})
_PLAIN: Final = frozenset({str, int, float, bool, type(None), list, dict})
"""A keyword that is about another of these kinds has nothing against a value."""
_OF_OBJECTS: Final = frozenset({"properties", "required", "additionalProperties", "propertyNames"})


def acceptor(node: Any, defs: Mapping[str, Schema], compiled: Compile) -> Accepts:
    """Make the function for one schema.

    Args:
        node: the schema; its `$ref`s are `#/$defs/<name>` and form no circle.
        defs: the schemas by name.
        compiled: how patterns are read.
    """
    if node is True:
        return _anything
    if not isinstance(node, Mapping) or not node.keys() <= _SAYS_NOTHING | _OF_OBJECTS | _MAKERS.keys() | {"$ref"}:
        return _nothing
    checks = [make(node[key], defs, compiled) for key, make in _MAKERS.items() if key in node]
    if "$ref" in node:
        target = defs.get(str(node["$ref"]).removeprefix("#/$defs/"))
        checks.append(acceptor(target, defs, compiled))
    if node.keys() & _OF_OBJECTS:
        checks.append(_objects(node, defs, compiled))
    return _all(checks)


def _anything(_: Any) -> bool:
    return True


def _nothing(_: Any) -> bool:
    return False


def _all(checks: list[Accepts]) -> Accepts:
    if len(checks) == 1:
        return checks[0]

    def accepts(value: Any) -> bool:
        return all(check(value) for check in checks)

    return accepts


_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
    "array": (list,),
    "object": (dict,),
}


def _type(names: Any, _: Mapping[str, Schema], __: Compile) -> Accepts:
    kinds = frozenset(kind for name in ([names] if isinstance(names, str) else names) for kind in _TYPES.get(name, ()))
    return lambda value: type(value) in kinds


def _enum(options: Any, _: Mapping[str, Schema], __: Compile) -> Accepts:
    texts = frozenset(one for one in options if isinstance(one, str))
    return lambda value: type(value) is str and value in texts


def _const(only: Any, defs: Mapping[str, Schema], compiled: Compile) -> Accepts:
    return _enum([only], defs, compiled)


def _pattern(pattern: Any, _: Mapping[str, Schema], compiled: Compile) -> Accepts:
    fits = compiled(pattern).search
    return lambda value: fits(value) is not None if type(value) is str else type(value) in _PLAIN


def _min_length(least: Any, _: Mapping[str, Schema], __: Compile) -> Accepts:
    return lambda value: len(value) >= least if type(value) is str else type(value) in _PLAIN


def _max_length(most: Any, _: Mapping[str, Schema], __: Compile) -> Accepts:
    return lambda value: len(value) <= most if type(value) is str else type(value) in _PLAIN


def _minimum(least: Any, _: Mapping[str, Schema], __: Compile) -> Accepts:
    return lambda value: value >= least if type(value) in (int, float) else type(value) in _PLAIN


def _items(node: Any, defs: Mapping[str, Schema], compiled: Compile) -> Accepts:
    fits = acceptor(node, defs, compiled)
    return lambda value: all(map(fits, value)) if type(value) is list else type(value) in _PLAIN


def _any_of(nodes: Any, defs: Mapping[str, Schema], compiled: Compile) -> Accepts:
    options = [acceptor(node, defs, compiled) for node in nodes]
    return lambda value: any(fits(value) for fits in options)


_MAKERS: Final[Mapping[str, Callable[[Any, Mapping[str, Schema], Compile], Accepts]]] = {
    "type": _type,
    "enum": _enum,
    "const": _const,
    "pattern": _pattern,
    "minLength": _min_length,
    "maxLength": _max_length,
    "minimum": _minimum,
    "items": _items,
    "anyOf": _any_of,
}


def _objects(node: Schema, defs: Mapping[str, Schema], compiled: Compile) -> Accepts:
    known = {key: acceptor(below, defs, compiled) for key, below in node.get("properties", {}).items()}
    others = acceptor(node.get("additionalProperties", True), defs, compiled)
    names = acceptor(node["propertyNames"], defs, compiled) if "propertyNames" in node else None
    required = tuple(node.get("required", ()))

    def accepts(value: Any) -> bool:
        if type(value) is not dict:
            return type(value) in _PLAIN
        if names is not None and not all(map(names, value)):
            return False
        for key in required:
            if key not in value:
                return False
        return all(known.get(key, others)(item) for key, item in value.items())

    return accepts
