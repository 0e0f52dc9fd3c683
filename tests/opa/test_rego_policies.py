"""What OPA says of the shipped policies, and what they answer to inputs nobody meant to send."""

from __future__ import annotations

import copy
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from ledgeragent import policies
from ledgeragent.contracts import Decision, GateInput
from ledgeragent.gate import NUMBERED
from ledgeragent.opacli import evaluate

PROOF = "data.ledgeragent.retail.proof"
DECISION = "data.ledgeragent.retail.decision"
ODD: tuple[Any, ...] = (None, True, 1e300, "text", [None], {"text": "text"})


def vectors(domain: str = "retail") -> list[dict[str, Any]]:
    file = policies.SCHEMAS / "vectors" / f"{domain}.json"
    found: list[dict[str, Any]] = json.loads(file.read_text())["vectors"]
    return found


def policy_of(domain: str) -> dict[str, Any]:
    """What decisions of the shipped policies say of them."""
    folder = policies.REGO / "ledgeragent"
    own = json.loads((folder / domain / "data.json").read_text())["declared"]["revision"]
    gate = json.loads((folder / "gate" / "data.json").read_text())["build"]["revision"]
    return {"revision": own, "gate": gate, "sequence": dict.fromkeys(NUMBERED, 0)}


def opa(binary: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([binary, *arguments], capture_output=True, text=True, check=False)


def test_the_policies_are_formatted(opa_binary: Path) -> None:
    done = opa(opa_binary, "fmt", "--list", "--fail", str(policies.REGO))
    assert (done.returncode, done.stdout) == (0, "")


def test_no_line_is_longer_than_120_columns() -> None:
    assert [
        f"{file.name}:{number}"
        for file in policies.REGO.rglob("*.rego")
        for number, line in enumerate(file.read_text().splitlines(), 1)
        if len(line) > 120
    ] == []


def test_the_policies_pass_the_strict_check_with_schemas(opa_binary: Path) -> None:
    done = opa(opa_binary, "check", "--strict", "--schema", str(policies.SCHEMAS), str(policies.REGO))
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("retail/facts/facts.rego", "input.ledger.orders[", "input.ledger.oders["),
        ("retail/facts/facts.rego", "input.session.principal.source", "input.sesion.principal.source"),
        (
            "retail/cancel_reason/cancel_reason.rego",
            "input.action.arguments.reason in",
            "input.acton.arguments.reason in",
        ),
        (
            "common/no_repeat_write/no_repeat_write.rego",
            "last.tool == input.action.tool",
            "last.tool == input.action.tol",
        ),
        ("gate/gate.rego", "input.session.rejections >=", "input.session.rejection >="),
        ("gate/facts/facts.rego", "some stale in input.stale", "some stale in input.stales"),
    ],
)
def test_a_planted_typo_is_seen_by_opa(tmp_path: Path, opa_binary: Path, name: str, good: str, bad: str) -> None:
    rego = tmp_path / "rego"
    shutil.copytree(policies.REGO, rego, ignore=shutil.ignore_patterns("*_test.rego"))
    file = rego / "ledgeragent" / name
    assert good in file.read_text()
    file.write_text(file.read_text().replace(good, bad))
    done = opa(opa_binary, "check", "--strict", "--schema", str(policies.SCHEMAS), str(rego))
    assert done.returncode != 0
    assert "rego_type_error: undefined ref" in done.stderr


def test_every_rego_test_passes(opa_binary: Path) -> None:
    """Their coverage is held at 100 % by scripts/check-rego."""
    done = opa(opa_binary, "test", "--fail-on-empty", "--timeout", "60s", str(policies.REGO))
    assert done.returncode == 0, done.stdout


def test_the_vectors_are_gate_inputs_and_decisions(opa_binary: Path) -> None:
    malformed = [vector["name"] for vector in vectors() if "gate.input" in str(vector["decision"])]
    for vector in vectors():
        if vector["name"] not in malformed:
            GateInput.model_validate(vector["input"])
        Decision.model_validate({**vector["decision"], "request": "x", "policy": policy_of("retail")})


def test_the_vectors_hold(opa_binary: Path) -> None:
    found = vectors()
    for rule in (PROOF, DECISION):
        decisions = evaluate(opa_binary, policies.REGO, rule, [vector["input"] for vector in found])
        for vector, decision in zip(found, decisions, strict=True):
            assert decision == {
                **vector["decision"],
                "request": "vector",
                "policy": policy_of("retail"),
            }


def test_the_vectors_are_as_stated_by_hand(opa_binary: Path) -> None:
    """scripts/retail_vectors.py states verdict and findings of each; the decisions in the file must agree."""
    repo = policies.SCHEMAS.parent
    environment = {**os.environ, "LEDGERAGENT_OPA_BIN": str(opa_binary), "PYTHONPATH": str(repo / "agent")}
    command = [sys.executable, str(repo / "scripts" / "retail_vectors.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_vectors_show_every_predicate_and_every_write() -> None:
    allowed = {vector["input"]["action"]["tool"] for vector in vectors() if vector["decision"]["verdict"] == "allow"}
    listed = set(policies.read_rego(policies.REGO, "retail").listed)
    seen = {finding["predicate"] for vector in vectors() for finding in vector["decision"]["findings"]}
    assert len(allowed) == 7
    assert len(listed) == 13
    assert seen - {"gate.input", "gate.tool", "gate.arguments", "gate.loop"} == listed


def nodes(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a JSON value."""
    yield path
    below = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in below:
        yield from nodes(inner, (*path, key))


def replaced(value: Any, path: tuple[Any, ...], other: Any) -> Any:
    if not path:
        return other
    copied = copy.deepcopy(value)
    node = copied
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = other
    return copied


@pytest.mark.parametrize("domain", policies.domains())
def test_no_change_of_type_anywhere_raises_an_error_or_leaves_no_decision(domain: str, opa_binary: Path) -> None:
    """`evaluate` is strict: a built-in's error would raise. What is no gate input must be blocked as such."""
    chosen = {vector["input"]["action"]["tool"]: vector["input"] for vector in vectors(domain) if _is_allowed(vector)}
    mutated = [replaced(sound, path, other) for sound in chosen.values() for path in nodes(sound) for other in ODD]
    decisions = evaluate(opa_binary, policies.REGO, f"data.ledgeragent.{domain}.decision", mutated)
    for request, answer in zip(mutated, decisions, strict=True):
        decision = Decision.model_validate(answer)
        worst = max((_rank(finding.verdict) for finding in decision.findings), default=0)
        assert _rank(decision.verdict) == worst
        if not _is_gate_input(request, domain):
            assert [finding.predicate for finding in decision.findings] == ["gate.input"]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(-9, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=10,
)
fields = st.sampled_from(sorted(GateInput.model_fields))


@settings(max_examples=15)
@given(batch=st.lists(json_values | st.dictionaries(fields, json_values), min_size=5, max_size=30))
def test_whatever_json_comes_in_is_blocked_by_a_decision(opa_binary: Path, batch: list[Any]) -> None:
    for answer in evaluate(opa_binary, policies.REGO, DECISION, batch):
        decision = Decision.model_validate(answer)
        assert decision.verdict == "block"
        assert [finding.predicate for finding in decision.findings] == ["gate.input"]


def _is_allowed(vector: Mapping[str, Any]) -> bool:
    return bool(vector["decision"]["verdict"] == "allow")


def _rank(verdict: str) -> int:
    return ("allow", "revise", "block").index(verdict)


def _is_gate_input(request: Any, domain: str) -> bool:
    try:
        GateInput.model_validate(request)
    except ValidationError:
        return False
    return bool(request["domain"] == domain)
