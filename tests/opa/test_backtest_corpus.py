"""Backtests of edited policies: compiled for the occasion, right call for call, and honest about what records lack."""

from __future__ import annotations

import gzip
import json
import shutil
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from ledgeragent.backtest.journal import Journal
from ledgeragent.backtest.run import Here, run
from ledgeragent.backtest.sides import Job, ready, unproved
from ledgeragent.engine import Engine
from ledgeragent.errors import BadInput
from ledgeragent.gate import Gate
from ledgeragent.policies import COMPILED, REGO, SCHEMAS
from ledgeragent.policysource import PolicySource, PolicySources
from ledgeragent.records import JsonlRecorder
from support import retail
from support.retail import cancel, propose

sys.path.append(str(Path(__file__).resolve().parents[2] / "bench"))
import backtest as bench

pytest_plugins = ["support.fixtures"]
JSON = dict[str, Any]
SAMPLE = 150
SHIPPED = PolicySource("shipped", REGO, SCHEMAS)
PENDING = Path("rego/ledgeragent/retail/order_pending/order_pending.rego")


def rows(files: list[Path], job: Job) -> list[JSON]:
    """What a backtest in this process lists."""
    with Journal(None, {"files": []}) as journal, Here(job) as workers:
        run([str(path) for path in files], journal, workers, lambda piece, found: None)
        return list(journal.rows())


def own(folder: Path) -> Path:
    """A copy of the shipped policies, to be edited."""
    for source, name in ((REGO, "rego"), (SCHEMAS, "schemas"), (COMPILED, "compiled")):
        shutil.copytree(source, folder / name)
    return folder


def edit(file: Path, before: str, after: str) -> None:
    """Replace a text that is there once."""
    text = file.read_text(encoding="utf-8")
    assert text.count(before) == 1
    file.write_text(text.replace(before, after), encoding="utf-8")


def prepared(folder: Path, opa: Path, engine: str = "embedded") -> PolicySource:
    """The policies of a folder, ready to be asked."""
    with PolicySources() as sources, pytest.MonkeyPatch.context() as patch:
        patch.setenv("LEDGERAGENT_OPA_BIN", str(opa))
        return ready(sources.find(str(folder)), engine, folder / "ready")


@pytest.mark.parametrize("predicate", bench.LOOSENED)
def test_with_one_predicate_loosened_exactly_the_calls_are_listed_that_two_replays_count(
    shared: Path, opa_binary: Path, tmp_path: Path, predicate: str
) -> None:
    domain = predicate.partition(".")[0]
    sample = tmp_path / "sample.jsonl"
    with gzip.open(shared / "conversations" / f"{domain}.jsonl.gz", "rt", encoding="utf-8") as lines:
        sample.write_text("".join(islice(lines, SAMPLE)), encoding="utf-8")
    new = prepared(bench.loosened(predicate, tmp_path / "new"), opa_binary)
    found = rows([sample], Job("conversations", new, SHIPPED))
    counted = bench.independent([str(sample)], predicate, tmp_path)
    assert counted
    assert [(*bench.call_of(one), one["old"]["verdict"], one["new"]["verdict"]) for one in found] == counted
    assert {change["predicate"] for one in found for change in one["changes"]} >= {predicate}


def test_edited_policies_are_compiled_for_the_occasion_and_their_failing_vectors_told(
    tmp_path: Path, opa_binary: Path
) -> None:
    folder = own(tmp_path)
    edit(folder / PENDING, 'holds if facts.order.status == "pending"\n', "holds if facts.order\n")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    new = prepared(folder, opa_binary)
    assert new.policies == folder / "ready" / "rego"
    assert {path: path.read_bytes() for path in before} == before
    assert unproved(SHIPPED, "retail", "embedded") is None
    assert "do not decide vector" in str(unproved(new, "retail", "embedded"))
    assert ready(SHIPPED, "embedded", tmp_path / "unused") is SHIPPED


def test_without_the_pinned_opa_edited_policies_are_refused_with_what_to_do(
    tmp_path: Path, opa_binary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = own(tmp_path)
    edit(folder / PENDING, 'holds if facts.order.status == "pending"\n', "holds if facts.order\n")
    monkeypatch.setattr("ledgeragent.backtest.sides.PINNED", "0.0.1")
    with pytest.raises(BadInput, match=r"no opa 0\.0\.1 to compile them with\. Install it .* or add --engine opa"):
        prepared(folder, opa_binary)
    shutil.rmtree(folder / "ready")
    assert prepared(folder, opa_binary, "opa").policies == folder / "ready" / "rego"


@pytest.fixture
def recorded(tmp_path: Path, gate: Gate) -> Path:
    """A cancellation that is allowed and one that is blocked, on record."""
    recorder = JsonlRecorder(tmp_path / "records.jsonl")
    session = retail.desk(gate)
    session._recorder = recorder
    for call in (cancel(), cancel("#W2")):
        propose(session, call)
    recorder.close()
    return tmp_path / "records.jsonl"


def test_the_engine_opa_says_what_the_embedded_one_says(
    tmp_path: Path, opa_binary: Path, recorded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = own(tmp_path / "own")
    edit(folder / PENDING, 'holds if facts.order.status == "pending"\n', 'holds if facts.order.status == "delivered"\n')
    monkeypatch.setenv("LEDGERAGENT_OPA_BIN", str(opa_binary))
    found = [rows([recorded], Job("records", prepared(folder, opa_binary), None))]
    shutil.rmtree(folder / "ready")
    found.append(rows([recorded], Job("records", prepared(folder, opa_binary, "opa"), SHIPPED, "opa")))
    assert found[0] == found[1]
    assert [(one["old"]["verdict"], one["new"]["verdict"]) for one in found[0]] == [
        ("allow", "block"),
        ("block", "allow"),
    ]


def test_what_records_cannot_hold_is_told_apart_and_conversations_decide_it(
    tmp_path: Path, opa_binary: Path, recorded: Path
) -> None:
    """The new rule asks for the customer's e-mail address, which no record of a cancellation holds."""
    folder = own(tmp_path / "own")
    edit(folder / PENDING, 'holds if facts.order.status == "pending"\n', _WITH_EMAIL)
    edit(folder / PENDING, 'evidence contains facts.order_path("status")\n', _EMAIL_EVIDENCE)
    tools = folder / "schemas" / "retail" / "tools.json"
    document = json.loads(tools.read_text(encoding="utf-8"))
    for tool in document["tools"]:
        if "retail.order_pending" in tool.get("guarded_by", ()):
            tool["needs"].append(["users", "{principal}", "email"])
    tools.write_text(json.dumps(document), encoding="utf-8")
    new = prepared(folder, opa_binary)

    found = rows([recorded], Job("records", new, None))
    kinds = [(one["kind"], one["old"]["verdict"], one["new"]["verdict"]) for one in found]
    assert kinds[0] == ("untold", "allow", "revise")
    assert {"path": ["users", retail.USER, "email"], "cause": "missing"} in [
        {key: fact.get(key) for key in ("path", "cause")} for fact in found[0]["facts"]
    ]


_WITH_EMAIL = """holds if {
	facts.order.status == "pending"
	input.ledger.users[input.session.principal.id].email != ""
}
"""
_EMAIL_EVIDENCE = """evidence contains facts.order_path("status")

evidence contains ["users", input.session.principal.id, "email"]
"""


def test_a_tool_that_one_side_does_not_judge_is_a_change(
    tmp_path: Path, shared: Path, opa_binary: Path, embedded: Engine
) -> None:
    """An undeclared tool is blocked; the new policies declare it as one without effect."""
    folder = own(tmp_path / "own")
    tools = folder / "schemas" / "retail" / "tools.json"
    document = json.loads(tools.read_text(encoding="utf-8"))
    declared = {"type": "object", "properties": {"thought": {"type": "string"}}, "additionalProperties": False}
    document["tools"].append(
        {
            "effect": "none",
            "name": "think",
            "description": "Think.",
            "parameters": declared,
            "owner": "t",
            "reason": "t",
        }
    )
    tools.write_text(json.dumps(document), encoding="utf-8")
    sample = tmp_path / "thinks.jsonl"
    with gzip.open(shared / "conversations" / "retail.jsonl.gz", "rt", encoding="utf-8") as lines:
        sample.write_text("".join(islice((line for line in lines if '"think"' in line), 1)), encoding="utf-8")
    found = rows([sample], Job("conversations", prepared(folder, opa_binary), SHIPPED))
    assert found
    assert {(one["tool"], one["old"]["verdict"], one["new"]["verdict"]) for one in found} == {
        ("think", "block", "unjudged")
    }
