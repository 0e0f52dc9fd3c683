"""Strict JSON in, canonical JSON out.

Facts and arguments must mean the same to Python, to OPA and to WebAssembly, so only what I-JSON (RFC 7493) allows is
taken: no duplicate keys, no NaN, no lone surrogates, no number that a double cannot hold exactly, bounded depth and
size. Canonical text (sorted keys, no spaces, ASCII) is what digests are made over.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ledgeragent.errors import BadInput

MAX_DEPTH: Final = 32
"""Deepest nesting of a value that is taken."""

MAX_TEXT: Final = 1_000_000
"""Longest JSON text that is taken, in characters."""

_MAX_EXACT: Final = 2**53 - 1
_MAX_FLOAT: Final = 1e15
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_LONE: Final = "contains a lone surrogate, which is not text"
_TOO_DEEP: Final = f"is nested more than {MAX_DEPTH} levels deep"
_ATOMS: Final = frozenset({str, int, float, bool, type(None)})
_CANONICAL: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
_READABLE: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
_MAYBE_WHOLE: Final = re.compile(r"\.0(?:[,\]}]|$)")
"""What a whole float looks like in JSON text; a string can look like it too."""


def parse(text: str, *, what: str, limit: int = MAX_TEXT) -> Any:
    """Parse one JSON text.

    Args:
        text: the JSON text.
        what: what it is, for the error message ("return of get_order_details").
        limit: longest text taken, in characters.

    Returns:
        The value (dict, list, str, int, float, bool or None).

    Raises:
        BadInput: when it is too long, too deep, not JSON, or not I-JSON.
    """
    if len(text) > limit:
        raise BadInput(f"{what} is {len(text):,} characters long; at most {limit:,} are taken")
    try:
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except RecursionError:
        raise BadInput(f"{what} is nested more than {MAX_DEPTH} levels deep") from None
    except BadInput as problem:
        raise BadInput(f"{what} {problem}") from None
    except ValueError as problem:
        raise BadInput(f"{what} is not JSON: {problem}") from None
    check(value, what=what)
    return value


def check(value: Any, *, what: str) -> None:
    """Refuse a value that engines could understand differently.

    Args:
        value: a Python value as `json.loads` makes it.
        what: what it is, for the error message.

    Raises:
        BadInput: naming what was found.
    """
    problem = _problem(value, MAX_DEPTH)
    if problem is not None:
        raise BadInput(f"{what} {problem}")


def canonical(value: Any) -> str:
    """The one text of a checked value: sorted keys, no spaces, ASCII only.

    Whole floats are written as integers: 5 and 5.0 are one number in JSON Schema, Rego and here.
    """
    return _written(value, _CANONICAL)


def readable(value: Any) -> str:
    """Canonical text with its letters as they are: for models and people, on one line, without `<` and `>`.

    What does not print (control, direction and zero-width characters) is escaped, so that no value can end a line, pass
    for markup, or hide.
    """
    text = _written(value, _READABLE)
    if text.isascii() and text.isprintable() and "<" not in text and ">" not in text:
        return text
    return "".join(one if one.isprintable() and one not in "<>" else _escaped(one) for one in text)


def copied(value: Any) -> Any:
    """A copy of a checked value that shares nothing with it."""
    kind = type(value)
    if kind in _ATOMS:
        return value
    if kind is dict or isinstance(value, Mapping):
        return {key: copied(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [copied(item) for item in value]
    return value


def digest(value: Any) -> str:
    """SHA-256 of the canonical text, as `sha256:<hex>`."""
    return text_digest(canonical(value))


def text_digest(text: str) -> str:
    """SHA-256 of a canonical text, as `sha256:<hex>`."""
    return "sha256:" + hashlib.sha256(text.encode("ascii")).hexdigest()


def _escaped(character: str) -> str:
    return json.dumps(character)[1:-1] if character not in "<>\x7f" else f"\\u{ord(character):04x}"


def _written(value: Any, encoder: json.JSONEncoder) -> str:
    """The text of a value; rebuilt without its whole floats only where it seems to have some."""
    try:
        text = encoder.encode(value)
    except TypeError:  # a mapping that is no dict
        return encoder.encode(_whole(value))
    return text if _MAYBE_WHOLE.search(text) is None else encoder.encode(_whole(value))


def _whole(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {key: _whole(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_whole(item) for item in value]
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        # Which key it is may be what nobody should read in a log.
        raise BadInput(f"has a key twice in one object of {len(pairs)} keys")
    return result


def _no_constant(name: str) -> Any:
    raise BadInput(f"contains {name}, which is not JSON")


def _problem(value: Any, depth: int) -> str | None:
    kind = type(value)
    if kind is str:
        return None if value.isascii() or not _SURROGATE.search(value) else _LONE
    if kind is dict:
        return _mapping_problem(value, depth) if depth else _TOO_DEEP
    if kind is list:
        return _list_problem(value, depth) if depth else _TOO_DEEP
    if value is None or kind is bool:
        return None
    return _other_problem(value, depth)


def _other_problem(value: Any, depth: int) -> str | None:
    """Numbers, and whatever `json.loads` does not make."""
    if isinstance(value, str):
        return _LONE if _SURROGATE.search(value) else None
    if isinstance(value, int):
        return None if abs(value) <= _MAX_EXACT else "contains an integer beyond ±(2^53-1)"
    if isinstance(value, float):
        if math.isfinite(value) and abs(value) <= _MAX_FLOAT:
            return None
        return "contains a number that is not finite or beyond ±1e15"
    if depth == 0:
        return _TOO_DEEP
    if isinstance(value, Mapping):
        return _mapping_problem(value, depth)
    if isinstance(value, list | tuple):
        return _list_problem(value, depth)
    return f"contains a {type(value).__name__}, which JSON has no form for"


def _list_problem(value: Sequence[Any], depth: int) -> str | None:
    for item in value:
        found = _problem(item, depth - 1)
        if found is not None:
            return found
    return None


def _mapping_problem(value: Mapping[Any, Any], depth: int) -> str | None:
    for key, item in value.items():
        if not isinstance(key, str):
            return f"has a key that is a {type(key).__name__}, not text"
        if not key.isascii() and _SURROGATE.search(key):
            return _LONE
        found = _problem(item, depth - 1)
        if found is not None:
            return found
    return None
