"""Parsers for returns that are prose.

A parser is a function from the whole text to a JSON value, named in tools.json as `module:function`. It raises
`ValueError` for a text it does not understand completely: such a text is not a fact.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from ledgeragent.errors import BadInput

Parser = Callable[[str], Any]


def load_parser(name: str) -> Parser:
    """Import the function that tools.json names.

    Args:
        name: `module:function`.

    Raises:
        BadInput: when there is no such function.
    """
    module_name, _, function_name = name.partition(":")
    try:
        found = getattr(importlib.import_module(module_name), function_name)
    except (ImportError, AttributeError, ValueError) as error:
        raise BadInput(f"parser {name!r} cannot be imported (use module:function): {error}") from error
    if not callable(found):
        raise BadInput(f"parser {name!r} is not a function")
    parser: Parser = found
    return parser
