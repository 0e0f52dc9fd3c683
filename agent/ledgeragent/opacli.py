"""Questions to the `opa` command line, for tools that look at policies rather than enforce them.

The lint, the knock-out and the makers of vectors need what no engine gives: the syntax tree of a file, any rule's
value, many inputs at once. Enforcement never comes through here; it has the engines.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from ledgeragent.errors import EngineEvaluation, EnginePolicies

_TIMEOUT_S: Final = 300


def evaluate(opa: Path, rego: Path, expression: str, inputs: Sequence[Any]) -> list[Any]:
    """Evaluate one expression on many inputs in one process, strictly: a built-in's error is an error.

    Args:
        opa: the `opa` to run.
        rego: a bundle root.
        expression: Rego that may refer to `input`.
        inputs: JSON values, each in turn `input`.

    Returns:
        The expression's value for each input, in order; None where it is undefined.

    Raises:
        EngineEvaluation: the policies do not compile or the evaluation failed, in OPA's own words.
    """
    each = f"[{{value | value := ({expression}) with input as given}} | some given in input]"
    command = ["eval", "--bundle", str(rego), "--ignore", "*_test.rego", "--strict-builtin-errors"]
    text = _run(opa, [*command, "--stdin-input", "--format", "json", each], json.dumps(list(inputs)))
    document = json.loads(text)
    if "result" not in document:
        raise EngineEvaluation(f"opa eval over {rego}: {text[:2000]}")
    values: list[list[Any]] = document["result"][0]["expressions"][0]["value"]
    return [value[0] if value else None for value in values]


def syntax_tree(opa: Path, file: Path) -> dict[str, Any]:
    """The syntax tree of one Rego file, with locations and annotations.

    Raises:
        EnginePolicies: the file does not parse, in OPA's own words.
    """
    arguments = ["parse", "--format", "json", "--json-include", "locations,comments", str(file)]
    try:
        tree: dict[str, Any] = json.loads(_run(opa, arguments, ""))
    except EngineEvaluation as error:
        raise EnginePolicies(str(error)) from None
    return tree


def _run(opa: Path, arguments: Sequence[str], text: str) -> str:
    done = subprocess.run(
        [str(opa), *arguments], input=text, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
    )
    if done.returncode != 0:
        raise EngineEvaluation(f"opa {arguments[0]}: {_said(done.stdout.strip() or done.stderr.strip())}")
    return done.stdout


def _said(text: str) -> str:
    """OPA's error document as lines "file:row: code: message"; any other text as it is, cut."""
    try:
        errors = json.loads(text)["errors"]
        return "; ".join(
            f"{one['location']['file'] or 'the expression'}:{one['location']['row']}: {one['code']}: {one['message']}"
            for one in errors
        )
    except (ValueError, KeyError, TypeError):
        return text[:2000]
