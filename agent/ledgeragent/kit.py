"""A new domain from tool definitions: everything a policy author needs to begin with.

Every tool starts as a write that the predicate `undecided` blocks, and the principal as the host's: what a source says
about its tools is a comment beside each name, and a person decides. The shared gate and the common predicates are
copied next to the domain, because a bundle must hold them; `refresh` keeps that copy in step with this version.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any, Final

from ledgeragent.cases import CASES, cases_path
from ledgeragent.compile import Sources, contract_texts, data_texts, encoded, page_texts, pretty, write
from ledgeragent.contracts import TOOLS
from ledgeragent.errors import BadInput
from ledgeragent.policies import REGO, check_name
from ledgeragent.toolsource import Definition, close

_TEMPLATES: Final = Path(__file__).resolve().parent / "kit_files"
_NO_SETTINGS: Final = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "additionalProperties": False,
    "properties": {},
}
_RESERVED: Final = frozenset(("gate", "common"))
_SHARED: Final = ("ledgeragent/gate", "ledgeragent/common")
_START: Final = "2026-01-01T00:00:00Z"


@dataclass(frozen=True)
class Made:
    """What `new` did.

    Attributes:
        files: what was written.
        tools: the declared tools.
        notes: what became of the parameters, and what the source says about effects.
        left_out: tools whose parameters do not fit the closed subset: they are undeclared, so the gate blocks them.
    """

    files: tuple[Path, ...]
    tools: tuple[str, ...]
    notes: tuple[str, ...]
    left_out: tuple[str, ...]


def new(name: str, definitions: Sequence[Definition], folder: Path) -> Made:
    """Write a new domain.

    Args:
        name: the domain's name.
        definitions: the tools.
        folder: where `rego/`, `schemas/` and later `compiled/` are; it may hold other domains.

    Raises:
        BadInput: when the name cannot be taken, a file would be overwritten, or no tool can be declared.
    """
    if check_name(name) in _RESERVED:
        raise BadInput(f"{name!r} is the name of a folder that all domains share; choose another")
    sources = Sources.under(folder)
    closed = [(one, close(one.parameters)) for one in definitions]
    fitting = [(one, found.parameters) for one, found in closed if found.parameters is not None]
    left_out = tuple(f"{one.name}: {problem}" for one, found in closed for problem in found.problems)
    if not fitting:
        raise BadInput("no tool can be declared:\n" + "\n".join(left_out))
    own = {**_schema_files(sources, name, fitting), **_rego_files(sources, name, [one for one, _ in fitting])}
    shared = {**_gate_copy(sources), **encoded(contract_texts(sources))}
    _refuse_to_overwrite(own, shared)
    files = write({**shared, **encoded(own)})
    files += write(encoded(page_texts(sources)))
    files += write(encoded(data_texts(sources)))
    notes = [f"{one.name}: {note}" for one, found in closed for note in found.notes if found.parameters is not None]
    notes += [f"{one.name}: the source says {hint}; a person decides" for one, _ in fitting for hint in one.hints]
    return Made(tuple(files), tuple(one.name for one, _ in fitting), tuple(notes), left_out)


def refresh(sources: Sources) -> dict[Path, bytes]:
    """What a folder of domains shares with this version: the gate, the common predicates and the contracts' schemas."""
    return {**_gate_copy(sources), **encoded(contract_texts(sources))}


def _gate_copy(sources: Sources) -> dict[Path, bytes]:
    found = {sources.rego / ".manifest": (REGO / ".manifest").read_bytes()}
    for folder in _SHARED:
        for path in sorted((REGO / folder).rglob("*.rego")):
            if not path.name.endswith("_test.rego"):
                found[sources.rego / path.relative_to(REGO)] = path.read_bytes()
    return found


def _refuse_to_overwrite(own: Mapping[Path, str], shared: Mapping[Path, bytes]) -> None:
    there = [path for path in own if path.exists()]
    there += [path for path, content in shared.items() if path.exists() and path.read_bytes() != content]
    if there:
        names = "\n".join(f"  - {path}" for path in there)
        raise BadInput(f"nothing was written, as these files are there already and not what would be written:\n{names}")


def _schema_files(
    sources: Sources, name: str, tools: Sequence[tuple[Definition, Mapping[str, Any]]]
) -> dict[Path, str]:
    declared = [
        {
            "effect": "write",
            "name": one.name,
            "description": one.description,
            "parameters": parameters,
            "guarded_by": ["common.no_repeat_write", f"{name}.signed_in", f"{name}.undecided"],
            "needs": [],
            "changes": [],
        }
        for one, parameters in tools
    ]
    file = {
        "contract": TOOLS,
        "domain": name,
        "title": name.replace("_", " ").capitalize(),
        "now": _START,
        "principal": "host",
        "principal_path": ["auth", "principal"],
        "protected": [f"{name}.signed_in", f"{name}.undecided"],
        "tools": declared,
    }
    return {
        sources.schemas / name / "tools.json": pretty(file),
        sources.schemas / name / "ledger.schema.json": _filled("ledger.schema.json", name),
        sources.schemas / name / "settings.schema.json": pretty(_NO_SETTINGS),
        cases_path(sources.schemas, name): pretty(_first_cases(name, tools[0][0].name)),
    }


def _first_cases(name: str, tool: str) -> dict[str, Any]:
    return {
        "contract": CASES,
        "domain": name,
        "given": {"now": _START, "principal": {"id": "somebody"}, "ledger": {}},
        "cases": [
            {
                "name": "a tool that is not declared",
                "tool": "no_such_tool",
                "arguments": {},
                "verdict": "block",
                "findings": [["gate.tool", "violated"]],
            },
            {
                "name": "an argument that is not declared",
                "tool": tool,
                "arguments": {"no_such_argument": True},
                "verdict": "revise",
                "findings": [["gate.arguments", "violated"]],
            },
        ],
    }


def _rego_files(sources: Sources, name: str, tools: Sequence[Definition]) -> dict[Path, str]:
    folder = sources.rego / "ledgeragent" / name
    every = "".join(f"\t{json.dumps(one.name)},\n" for one in tools)
    commented = "".join(f"{_comments(one)}\t{json.dumps(one.name)},\n" for one in tools)
    found = {folder / "defaults" / "data.json": "{}\n"}
    for template in sorted(_TEMPLATES.rglob("*.rego.txt")):
        relative = template.relative_to(_TEMPLATES).with_suffix("")
        target = folder / Path(str(relative).replace("domain_test", f"{name}_test"))
        found[target] = _filled(str(relative) + ".txt", name, guards=every, undecided=commented)
    return found


def _comments(tool: Definition) -> str:
    return "".join(f"\t# Its source says {hint}.\n" for hint in tool.hints)


def _filled(template: str, name: str, **values: str) -> str:
    return Template((_TEMPLATES / template).read_text(encoding="utf-8")).substitute(domain=name, **values)
