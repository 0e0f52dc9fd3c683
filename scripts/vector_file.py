"""What the scripts that write `schemas/vectors/<domain>.json` share: changing inputs, stating cases, writing the file.

Each vector is an input and, stated by hand, the verdict and the findings it must get. The pinned OPA fills in the rest
of the decision (messages, paths) from the policies, so that the file never disagrees with what is stated.
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ledgeragent.engine import find_opa
from ledgeragent.opacli import evaluate

REPO = Path(__file__).resolve().parent.parent

Json = dict[str, Any]

_NOW = "2026-03-02T10:00:00-05:00"


def asked(domain: str, principal: Json, action: tuple[str, Json], ledger: Json) -> Json:
    """A gate input for a call (tool, arguments) with these facts, nothing stale and nothing done before."""
    tool, arguments = action
    return {
        "contract": "ledgeragent.gate-input/1",
        "request": "vector",
        "domain": domain,
        "session": {
            "id": "vectors",
            "now": _NOW,
            "turn": 7,
            "principal": principal,
            "rejections": 0,
        },
        "action": {"call_id": "call-1", "tool": tool, "arguments": arguments},
        "ledger": ledger,
        "stale": [],
        "history": [],
        "siblings": [],
        "grants": [],
    }


def changed(base: Json, *path: str, value: Any) -> Json:
    """`base` with `value` at `path`."""
    copied = copy.deepcopy(base)
    node = copied
    for key in path[:-1]:
        node = node.setdefault(key, {})
    node[path[-1]] = value
    return copied


def argued(base: Json, **arguments: Any) -> Json:
    """`base` with other arguments."""
    return changed(base, "action", "arguments", value={**base["action"]["arguments"], **arguments})


def forgotten(base: Json, *path: str) -> Json:
    """`base` without the fact at `path`."""
    copied = copy.deepcopy(base)
    node = copied["ledger"]
    for key in path[:-1]:
        node = node[key]
    del node[path[-1]]
    return copied


def outdated(base: Json, *path: str) -> Json:
    """`base` with the fact at `path` gone stale."""
    copied = forgotten(base, *path)
    copied["stale"].append(list(path))
    return copied


def after(base: Json, tool: str, arguments: Json, outcome: str = "executed") -> Json:
    """`base` after one more write."""
    copied = copy.deepcopy(base)
    copied["history"].append({"tool": tool, "arguments": arguments, "outcome": outcome})
    return copied


def beside(base: Json, tool: str, arguments: Json) -> Json:
    """`base` with a write that was admitted earlier in the same message."""
    copied = copy.deepcopy(base)
    copied["siblings"].append({"tool": tool, "arguments": arguments})
    return copied


def signed_in(base: Json, principal: str) -> Json:
    """`base` in a session whose host authenticated the customer itself."""
    return changed(base, "session", "principal", value={"id": principal, "source": "host"})


@dataclass(frozen=True)
class Case:
    """One vector as stated by hand: `findings` are (predicate, status) in the order of the decision."""

    name: str
    input: Json
    verdict: str = "allow"
    findings: list[tuple[str, str]] = field(default_factory=list)


def revised(name: str, given: Json, *findings: tuple[str, str]) -> Case:
    """A case that ends as revise."""
    return Case(name, given, "revise", list(findings))


def blocked(name: str, given: Json, *findings: tuple[str, str]) -> Case:
    """A case that ends as block."""
    return Case(name, given, "block", list(findings))


def violated(*predicates: str) -> tuple[tuple[str, str], ...]:
    """These predicates, violated."""
    return tuple((predicate, "violated") for predicate in predicates)


def unknown(*predicates: str) -> tuple[tuple[str, str], ...]:
    """These predicates, unknown."""
    return tuple((predicate, "unknown") for predicate in predicates)


def _vectors(opa: Path, domain: str, cases: Sequence[Case]) -> list[Json]:
    """Every case with the decision that the policies give, once it is as stated."""
    decisions = evaluate(opa, REPO / "rego", f"data.ledgeragent.{domain}.proof", [case.input for case in cases])
    found = []
    for case, decision in zip(cases, decisions, strict=True):
        answered = [(one["predicate"], one["status"]) for one in decision["findings"]]
        if (decision["verdict"], answered) != (case.verdict, case.findings):
            sys.exit(f"{case.name}: stated {case.verdict} {case.findings}, decided {decision['verdict']} {answered}")
        kept = {name: value for name, value in decision.items() if name not in ("request", "policy")}
        found.append({"name": case.name, "input": case.input, "decision": kept})
    return found


def main(domain: str, cases: Sequence[Case], about: str | None) -> None:
    """Write the domain's file, or with `--check` say whether it is what it should be."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    check = parser.parse_args().check
    opa = find_opa()
    if opa is None:
        sys.exit("the vectors are made with a real OPA: run `make opa`")
    target = REPO / "schemas" / "vectors" / f"{domain}.json"
    document = {"contract": "ledgeragent.vectors/1", "domain": domain, "vectors": _vectors(opa, domain, cases)}
    text = json.dumps(document, indent=1, ensure_ascii=False) + "\n"
    if check and target.read_text(encoding="utf-8") != text:
        sys.exit(
            f"{target.name} is not what scripts/{domain}_vectors.py makes of the policies: run it and look at the diff"
        )
    if not check:
        target.parent.mkdir(exist_ok=True)
        target.write_text(text, encoding="utf-8")
