"""A domain of any size, generated: for the bound on large domains, in the test and in the benchmark.

One third of the tools read a table of their own, the rest are writes. Every write is guarded by the same number of
predicates, whatever the size, so that its call costs the same work in a small domain and in a large one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ledgeragent.compile import Sources
from ledgeragent.contracts import GATE_INPUT, TOOLS

NAME = "generated"
FIELDS = ("owner", "state", "amount", "limit", "region", "grade")
GUARDS_OF_A_WRITE = 4
CALLED = "write_000"

_PREDICATE = """\
# METADATA
# title: Generated predicate {number}
# description: The field {field} of the record that the call names is sound.
# custom:
#   id: {domain}.{name}
#   remedy: Read the record.
#   severity: low
#   policy: generated
#   evidence: ["{table}.{{arguments.id}}.{field}"]
package ledgeragent.{domain}.{name}

import data.ledgeragent.gate.text

guards := {guards}

evidence contains ["{table}", input.action.arguments.id, "{field}"]

holds if {{
	is_string(_value)
	_value == "sound"
}}

_value := input.ledger.{table}[input.action.arguments.id].{field}

verdict := "revise"

message := text.join(["{field} of ", text.show(input.action.arguments.id), " is ", text.quote(_value), "."])
"""


def write_domain(folder: Path, *, tools: int, predicates: int) -> Sources:
    """Write the sources of a domain; compiling it is left to the caller.

    Args:
        folder: an empty folder.
        tools: how many tools it has, at least 3.
        predicates: how many predicates it has of its own.
    """
    sources = Sources.under(folder)
    reads = tools // 3
    writes = [f"write_{number:03}" for number in range(tools - reads)]
    guards = _guards(writes, predicates)
    _write_json(sources.schemas / NAME / "ledger.schema.json", _ledger_schema(reads))
    _write_json(sources.schemas / NAME / "tools.json", _tools_file(writes, reads, guards))
    for number, (name, guarded) in enumerate(guards.items()):
        path = sources.rego / "ledgeragent" / NAME / name / f"{name}.rego"
        path.parent.mkdir(parents=True)
        path.write_text(
            _PREDICATE.format(
                domain=NAME,
                number=number,
                name=name,
                table=_table(0, reads),
                field=FIELDS[number % len(FIELDS)],
                guards="{" + ", ".join(f'"{tool}"' for tool in guarded) + "}",
            ),
            encoding="utf-8",
        )
    return sources


def call() -> dict[str, Any]:
    """A gate input that every predicate of the called write holds for."""
    return {
        "contract": GATE_INPUT,
        "request": "request-1",
        "domain": NAME,
        "session": {
            "id": "session-1",
            "now": "2026-01-07T10:00:00Z",
            "turn": 1,
            "principal": {"id": "ada", "source": "host"},
            "rejections": 0,
        },
        "action": {"call_id": "call-1", "tool": CALLED, "arguments": {"id": "a"}},
        "ledger": {_table(0, 1): {"a": {"id": "a", **dict.fromkeys(FIELDS, "sound")}}},
        "stale": [],
        "history": [],
        "siblings": [],
        "grants": [],
    }


def _guards(writes: list[str], predicates: int) -> dict[str, list[str]]:
    guards: dict[str, list[str]] = {f"rule_{number:03}": [] for number in range(predicates)}
    names = list(guards)
    for place in range(GUARDS_OF_A_WRITE * len(writes)):
        guards[names[place % predicates]].append(writes[place // GUARDS_OF_A_WRITE])
    return {name: guarded for name, guarded in guards.items() if guarded}


def _table(number: int, reads: int) -> str:
    return f"table_{number % reads:03}"


def _ledger_schema(reads: int) -> dict[str, Any]:
    record = {
        "type": "object",
        "x-id": "id",
        "required": ["id"],
        "properties": {"id": {"type": "string"}, **{field: {"type": "string"} for field in FIELDS}},
    }
    principal = {"type": "object", "properties": {"principal": {"type": "string", "pattern": "^[a-z]+$", "x-id": None}}}
    tables = {_table(number, reads): {"type": "object", "additionalProperties": record} for number in range(reads)}
    return {"type": "object", "additionalProperties": False, "properties": {"auth": principal, **tables}}


def _tools_file(writes: list[str], reads: int, guards: Mapping[str, list[str]]) -> dict[str, Any]:
    parameters = {
        "type": "object",
        "properties": {"id": {"type": "string", "description": "Id of the record."}},
        "required": ["id"],
        "additionalProperties": False,
    }
    shared = {"description": "A generated tool.", "parameters": parameters}
    declared: list[dict[str, Any]] = [
        {
            "effect": "read",
            "name": f"read_{number:03}",
            "facts": [{"path": [_table(number, reads), "{arguments.id}"], "value": "{result}"}],
            "settles": [{"path": [_table(number, reads), "{id}"], "arguments": {"id": "{id}"}}],
            **shared,
        }
        for number in range(reads)
    ]
    declared += [
        {
            "effect": "write",
            "name": tool,
            "guarded_by": ["common.no_repeat_write"]
            + [f"{NAME}.{name}" for name, own in guards.items() if tool in own],
            "needs": [[_table(0, reads), "{arguments.id}"]],
            "changes": [[_table(0, reads), "{arguments.id}", "state"]],
            **shared,
        }
        for tool in writes
    ]
    return {
        "contract": TOOLS,
        "domain": NAME,
        "title": "Generated",
        "now": "2026-01-07T10:00:00Z",
        "principal": "host",
        "principal_path": ["auth", "principal"],
        "tools": declared,
    }


def _write_json(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")
