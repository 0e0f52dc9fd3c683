"""A domain's page: the one Rego file that says, for every write, which predicates guard it.

It is written from the predicates' own `guards`, so that a predicate cannot be forgotten there, and it is laid out by
tool: OPA and the compiled module look up the tool and evaluate nothing that does not guard it, however large the domain
is. Of a predicate that holds they evaluate `holds` alone, no evidence and no words. Whether the page, the predicates
and tools.json agree is for the domain to check.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Final

from ledgeragent.policies import BY_CHOICE, check_name, read_rego

COMMON: Final = "common."
"""What the ids of predicates begin with that guard every write of a domain."""

_PAGE: Final = Template("""\
# METADATA
# title: What is enforced in $domain
# description: |
#   The one page that lists the predicates of every write. A predicate that is not listed here guards nothing. This file
#   is written from the predicates' `guards` (`make compile`, or `ledgeragent domain compile`); edit those.
# schemas:
#   - input: schema["gate_input.schema"]
package ledgeragent.$domain

import data.ledgeragent.gate
$imports
default decision := {
	"contract": "ledgeragent.decision/1",
	"request": "",
	"verdict": "block",
	"findings": [{
		"predicate": "gate.input",
		"status": "violated",
		"verdict": "block",
		"mode": "enforce",
		"message": "The gate cannot judge: its generated data (data.json) is not loaded.",
		"paths": [],
		"missing": [],
	}],
	"predicates": [],
	"overrides": [],
	"obligations": [],
	"policy": {
		"revision": "none",
		"gate": "none",
		"sequence": {"domain": 0, "gate": 0, "overrides": 0, "floor": 0, "freeze": 0},
	},
}

# METADATA
# title: The decision on the proposed call
# entrypoint: true
decision := gate.decide("$domain", _declared, predicates)

# METADATA
# title: The policies' own decision, for proving them before they are used
# description: Without what a deployment overrides, what is frozen, and what an organisation demands on top.
# entrypoint: true
proof := undiluted if {
	undiluted := decision with data.ledgeragent_overrides as {}
		with data.ledgeragent_floor as {}
		with data.ledgeragent_freeze as {}
}

# Of the generated data no more than this call needs: whatever is handed to a function is copied.
_declared := {
	"optional": data.ledgeragent.$domain.declared.optional,
	"protected": data.ledgeragent.$domain.declared.protected,
	"revision": data.ledgeragent.$domain.declared.revision,
	"sequence": data.ledgeragent.$domain.declared.sequence,
	"tools": {tool: declared |
		tool := input.action.tool
		declared := data.ledgeragent.$domain.declared.tools[tool]
	},
}

${settings}default predicates := {}

# Of each predicate that guards the proposed call: nothing if it holds, else all there is to say.
predicates := guarding[input.action.tool]
$guarding""")


_SETTINGS: Final = Template("""\
# METADATA
# title: The thresholds, reasons and tables in force
settings[key] := overrides.setting("$domain", key, own) if some key, own in data.ledgeragent.$domain.defaults

""")


def page_text(domain: str, guarded: Mapping[str, Sequence[str]], *, tunable: bool) -> str:
    """The page of a domain.

    Args:
        domain: the domain's name.
        guarded: tool → ids of the predicates that guard it, for every write.
        tunable: whether the domain has settings that a deployment may override.
    """
    rules = [_guarding(tool, ids) for tool, ids in sorted(guarded.items())]
    rules += [failing(one) for one in sorted({one for ids in guarded.values() for one in ids})]
    return _PAGE.substitute(
        domain=check_name(domain),
        guarding="".join(f"\n{rule}" for rule in rules),
        imports="import data.ledgeragent.gate.overrides\n" if tunable else "",
        settings=_SETTINGS.substitute(domain=domain) if tunable else "",
    )


def _guarding(tool: str, ids: Sequence[str]) -> str:
    if not ids:
        return f'guarding["{tool}"] := {{}}\n'
    rows = "".join(f'\t"{one}": failing["{one}"],\n' for one in sorted(ids))
    return f'guarding["{tool}"] := {{\n{rows}}}\n'


def failing(one: str) -> str:
    """The rule that asks a predicate, by its id: `[]` where it holds, `[[all of it]]` where it does not.

    `[[]]` stands for one that is not loaded: the gate then blocks.
    """
    return (
        f'failing["{one}"] := [all |\n\tnot data.ledgeragent.{one}.holds == true\n'
        f"\tall := [predicate | predicate := data.ledgeragent.{one}]\n]\n"
    )


def page_of(rego: Path, domain: str, writes: Mapping[str, Sequence[str]], *, tunable: bool | None = None) -> str:
    """The page that a domain's folder must have.

    Args:
        rego: the bundle root.
        domain: the domain's name.
        writes: tool → `guarded_by`, as tools.json has them. Only the common predicates are taken from there.
        tunable: whether the domain has settings; None: as its `defaults/data.json` says.
    """
    common = {one for ids in writes.values() for one in ids if one.startswith(COMMON)} - BY_CHOICE
    guards = read_rego(rego, domain).guards
    guarded = {
        tool: sorted(common | (BY_CHOICE & {*ids}) | {one for one, tools in guards.items() if tool in tools})
        for tool, ids in writes.items()
    }
    if tunable is None:
        tunable = _has_defaults(rego / "ledgeragent" / domain / "defaults" / "data.json")
    return page_text(domain, guarded, tunable=tunable)


def _has_defaults(path: Path) -> bool:
    if not path.is_file():
        return False
    try:
        return bool(json.loads(path.read_text(encoding="utf-8")))
    except ValueError:
        return True  # what is wrong with the file is for the domain to say
