"""A domain of a few lines, written to disk: for what retail has no need of (spreading, sets, two-key tables, prose).

Its three parts are plain values; `but` gives a copy with one place changed, and `load` writes and loads them.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from ledgeragent.domain import Domain
from ledgeragent.gate import Gate
from support.engines import Agreeable, allowed, told

NOW: Final = "2026-01-02T03:04:05Z"

SCHEMA: Final[dict[str, Any]] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "auth": {"type": "object", "properties": {"person": {"$ref": "#/$defs/person_id", "x-id": None}}},
        "people": {"type": "object", "additionalProperties": {"$ref": "#/$defs/person"}},
        "stock": {
            "type": "object",
            "additionalProperties": {"type": "object", "additionalProperties": {"$ref": "#/$defs/article"}},
        },
        "seen": {"type": "array", "items": {"type": "string"}, "x-id": None},
    },
    "$defs": {
        "person_id": {"type": "string", "pattern": "^p[0-9]+$"},
        "card": {"type": "object", "required": ["balance"], "properties": {"balance": {"type": "number"}}},
        "person": {
            "type": "object",
            "x-id": "id",
            "required": ["id", "cards"],
            "properties": {
                "id": {"type": "string"},
                "nick": {"type": ["string", "null"]},
                "cards": {"type": "object", "additionalProperties": {"$ref": "#/$defs/card"}},
            },
        },
        "article": {
            "type": "object",
            "x-id": "id",
            "required": ["id", "state"],
            "properties": {"id": {"type": "string"}, "state": {"type": "string", "minLength": 1}},
        },
    },
}


def _parameters(*names: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: {"type": "string"} for name in names},
        "required": list(names),
        "additionalProperties": False,
    }


def _tool(effect: str, name: str, parameters: tuple[str, ...], **rest: Any) -> dict[str, Any]:
    return {"effect": effect, "name": name, "description": name, "parameters": _parameters(*parameters), **rest}


TOOLS: Final[dict[str, Any]] = {
    "contract": "ledgeragent.tools/1",
    "domain": "toy",
    "title": "Toy",
    "now": NOW,
    "principal": "proof",
    "principal_path": ["auth", "person"],
    "protected": ["toy.enough"],
    "absorb_write_returns": False,
    "failures": ["^Error"],
    "tools": [
        _tool(
            "read",
            "find_person",
            ("email",),
            facts=[
                {
                    "path": ["auth", "person"],
                    "value": "{result}",
                    "parse": "text",
                    "mode": "once",
                    "unless_seen": ["email"],
                }
            ],
            settles=[{"path": ["auth", "person"], "arguments": {"email": "?"}}],
        ),
        _tool(
            "read",
            "get_person",
            ("id",),
            facts=[{"path": ["people", "{arguments.id}"], "value": "{result}"}],
            settles=[{"path": ["people", "{id}"], "arguments": {"id": "{id}"}}],
        ),
        _tool(
            "read",
            "list_stock",
            ("shop",),
            facts=[
                {
                    "path": ["stock", "{arguments.shop}", "{each.id}"],
                    "value": "{each}",
                    "each": "{result.articles}",
                    "when": {"value": "{each.state}", "pattern": "^(listed|sold)$"},
                },
                {"path": ["seen"], "value": "{result.articles[*].id}", "mode": "union"},
            ],
            settles=[{"path": ["stock", "{shop}", "{id}"], "arguments": {"shop": "{shop}"}}],
        ),
        _tool(
            "read",
            "describe_person",
            ("id",),
            facts=[{"path": ["people", "{arguments.id}"], "value": "{result}", "parse": "support.toy:person_of"}],
        ),
        _tool(
            "write",
            "pay",
            ("id", "card"),
            guarded_by=["common.once", "toy.enough"],
            needs=[["auth", "person"], ["people", "{arguments.id}", "cards"]],
            changes=[["people", "{principal}", "cards", "*", "balance"]],
            facts=[{"path": ["people", "{arguments.id}"], "value": "{result}"}],
        ),
        _tool("none", "wait", (), owner="the tests", reason="Touches nothing."),
    ],
}

REGO: Final[dict[str, str]] = {
    "toy.rego": 'package ledgeragent.toy\n\nguarding["pay"] := {\n\t"common.once": 1,\n\t"toy.enough": 2,\n}\n',
    "enough/enough.rego": 'package ledgeragent.toy.enough\n\nguards := {"pay"}\n',
}

_PROSE: Final = re.compile(r"Person (?P<id>p[0-9]+) has no cards\.\Z")


def person_of(text: str) -> dict[str, Any]:
    """The toy's parser of prose."""
    match = _PROSE.match(text)
    if match is None:
        raise ValueError("not a sentence about a person")
    return {"id": match["id"], "cards": {}}


def person(person_id: str = "p1", **cards: float) -> dict[str, Any]:
    """A person with cards and their balances."""
    return {"id": person_id, "cards": {card: {"balance": balance} for card, balance in cards.items()}}


def but(document: Any, *changes: tuple[str, Any]) -> Any:
    """A deep copy in which each slash-separated place is set; `...` as the value deletes it, `+` appends."""
    changed = copy.deepcopy(document)
    for place, value in copy.deepcopy(changes):
        *above, last = place.split("/")
        node = changed
        for key in above:
            node = node[int(key)] if isinstance(node, list) else node[key]
        if value is ...:
            del node[int(last) if isinstance(node, list) else last]
        elif last == "+":
            node.append(value)
        else:
            node[int(last) if isinstance(node, list) else last] = value
    return changed


def write(
    folder: Path,
    *,
    tools: Any = TOOLS,
    schema: Any = SCHEMA,
    rego: Mapping[str, str] = REGO,
    name: str = "toy",
) -> dict[str, Path]:
    """Write the three parts; a text is written as it is. Gives the folders for `Domain.load`."""
    files = {
        folder / "schemas" / name / "tools.json": tools,
        folder / "schemas" / name / "ledger.schema.json": schema,
        **{folder / "rego" / "ledgeragent" / name / file: text for file, text in rego.items()},
    }
    for path, content in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return {"schemas": folder / "schemas", "rego": folder / "rego"}


def load(folder: Path, **parts: Any) -> Domain:
    """Write the domain, changed where `parts` says so, and load it."""
    return Domain.load("toy", **write(folder, **parts))


def gate(domain: Domain, folder: Path, change: Callable[[dict[str, Any]], Any] | None = None) -> Gate:
    """A gate over an engine that allows everything, proved with vectors as agreeable as it is.

    Args:
        domain: the toy domain.
        folder: where the vectors are written.
        change: makes another document of the vectors.
    """
    document = {
        "contract": "ledgeragent.vectors/1",
        "domain": domain.name,
        "vectors": [_vector(domain, verdict) for verdict in ("allow", "revise", "block")],
    }
    path = folder / "vectors.json"
    path.write_text(json.dumps(change(document) if change is not None else document), encoding="utf-8")
    return Gate(domain, Agreeable(domain), vectors=path)


def _vector(domain: Domain, verdict: str) -> dict[str, Any]:
    gate_input = {"request": "vector", "action": {"call_id": verdict, "tool": "pay"}}
    answer = allowed(gate_input, domain) | told(verdict)
    decision = {key: value for key, value in answer.items() if key not in ("request", "policy")}
    return {"name": verdict, "input": gate_input, "decision": decision}
