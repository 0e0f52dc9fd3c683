"""What the shops' back ends have in common: arguments are checked against the tool's schema, then its function runs.

What may be done is not decided here; an id that does not exist, or arguments that do not fit, are refused.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from ledgeragent.domain import Validator
from ledgeragent.jsonio import copied
from ledgeragent.session import ToolRefused

Data = dict[str, Any]
Function = Callable[..., Any]
"""A tool: the database and the tool's arguments in, its return out. Raises `ToolRefused` before it changes anything."""
_MAX_SHOWN: Final = 80
_MAX_EXPRESSION: Final = 200
_OPERATORS: Final[Mapping[type, Callable[..., float]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}


class Backend:
    """Runs a shop's tools on its database."""

    def __init__(self, data: Data, functions: Mapping[str, Function], tools: Sequence[Mapping[str, Any]]) -> None:
        """Put a database behind tools.

        Args:
            data: the database; the functions change it.
            functions: by tool name.
            tools: the tools as the domain declares them.
        """
        self._data = data
        self._functions = functions
        self._validators = {tool["name"]: Validator(tool["parameters"]) for tool in tools}

    def run(self, name: str, arguments: dict[str, Any]) -> Any:
        """Run a tool.

        Returns:
            Its return; nothing of it is part of the database.

        Raises:
            ToolRefused: when the arguments do not fit or name what does not exist; nothing has changed then.
        """
        problem = next(self._validators[name].iter_errors(arguments), None)
        if problem is not None:
            raise ToolRefused(f"{name} does not take these arguments: {problem.json_path}: {problem.message[:200]}")
        return copied(self._functions[name](self._data, **copied(arguments)))


def known(records: Mapping[str, Any], key: str, what: str) -> Any:
    """The record with this id.

    Raises:
        ToolRefused: when there is none.
    """
    if key not in records:
        raise ToolRefused(f"{what} {key[:_MAX_SHOWN]!r} not found")
    return records[key]


def payment_method(data: Data, method_id: str) -> dict[str, Any]:
    """Anybody's payment method with this id. Whose it may be is policy.

    Raises:
        ToolRefused: when nobody has it.
    """
    methods = {key: one for user in data["users"].values() for key, one in user["payment_methods"].items()}
    found: dict[str, Any] = known(methods, method_id, "payment method")
    return found


def cents(amount: float) -> float:
    """An amount in dollars, exact to the cent."""
    return round(amount, 2)


def calculate(_: Data, expression: str) -> str:
    """The value of an arithmetic expression.

    Raises:
        ToolRefused: when it is none, or has none.
    """
    try:
        if len(expression) > _MAX_EXPRESSION:
            raise ValueError
        value = _value(ast.parse(expression.strip(), mode="eval").body)
        if not math.isfinite(value):
            raise ValueError
        return str(cents(value))
    except (SyntaxError, ValueError, ZeroDivisionError, OverflowError, RecursionError, MemoryError):
        raise ToolRefused(
            f"{expression[:_MAX_SHOWN]!r} is no sum: numbers, + - * / and parentheses, at most {_MAX_EXPRESSION} "
            f"characters"
        ) from None


def _value(node: ast.expr) -> float:
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return float(node.value)  # type: ignore[arg-type]
    if isinstance(node, ast.UnaryOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_value(node.operand))
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_value(node.left), _value(node.right))
    raise ValueError


def hand_over(_: Data, summary: str) -> str:  # noqa: ARG001 - the tool's argument; no record is kept of it
    """Hand the conversation to a person; changes no record."""
    return "Handed over to a colleague."
