"""What a shadow would have held back, counted from the records that it left."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ledgeragent.cli import app
from ledgeragent.engine import Engine
from ledgeragent.errors import EngineTimeout
from ledgeragent.gate import Gate, ShadowGate
from ledgeragent.records import JsonlRecorder
from ledgeragent.rollout import Rollout
from ledgeragent.session import Session, ToolRefused
from support import retail
from support.engines import Meddled, finding
from support.retail import cancel, propose
from support.toy import but

pytest_plugins = ["support.fixtures"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "records.jsonl"


def goes_on(session: Session, call: Any, refuses: bool = False) -> None:
    """A call that a shadow lets run."""
    review = propose(session, call)
    assert review.ticket is not None

    def tool(*_: Any) -> str:
        if refuses:
            raise ToolRefused("no")
        return "done"

    try:
        session.execute(review.ticket, tool)
    except ToolRefused:
        return


def counted(file: Path) -> Rollout:
    return Rollout.of(file.read_text(encoding="ascii").splitlines())


def test_what_would_have_been_held_back_and_by_whom(gate: Gate, file: Path) -> None:
    recorder = JsonlRecorder(file)
    session = retail.desk(ShadowGate(gate), recorder=recorder)
    goes_on(session, cancel("#W2"))  # delivered
    goes_on(session, cancel("#W9"), refuses=True)  # never read
    goes_on(session, cancel("#W9", reason="it is blue"))
    goes_on(session, cancel("#W1"))
    recorder.close()
    found = counted(file)
    assert (found.watched, found.enforced, found.unreadable, dict(found.errors)) == (4, 0, 0, {})
    assert dict(found.verdicts) == {"block": 1, "revise": 2, "allow": 1}
    zero = {"revise": 0, "block": 0, "violated": 0, "missing": 0, "stale": 0, "alone": 0, "ran": 0}
    assert found.rows() == [
        {**zero, "predicate": "retail.order_pending"}
        | {"revise": 2, "block": 1, "violated": 1, "missing": 2}
        | {"alone": 1, "ran": 2},
        {**zero, "predicate": "retail.order_owner", "revise": 2, "missing": 2, "ran": 1},
        {**zero, "predicate": "retail.cancel_reason", "revise": 1, "violated": 1, "ran": 1},
    ]


def test_an_enforcing_gate_counts_only_where_a_predicate_is_in_shadow(gate: Gate, embedded: Engine, file: Path) -> None:
    recorder = JsonlRecorder(file)
    propose(retail.desk(gate, recorder=recorder), cancel("#W2"))
    watched = finding("retail.cancel_reason", "block", "shadow")
    engine = Meddled(embedded, lambda rule, answer: answer if rule == "proof" else but(answer, ("findings", [watched])))
    propose(retail.desk(Gate(gate.domain, engine), recorder=recorder), cancel())
    recorder.close()
    found = counted(file)
    assert (found.watched, found.enforced, dict(found.verdicts)) == (1, 1, {})
    assert [(row["predicate"], row["block"], row["alone"]) for row in found.rows()] == [("retail.cancel_reason", 1, 1)]


def test_what_could_not_have_been_decided_and_lines_that_are_none_are_counted(
    gate: Gate, embedded: Engine, file: Path
) -> None:
    def down(rule: str, answer: Any) -> Any:
        raise EngineTimeout("too slow")

    recorder = JsonlRecorder(file)
    propose(retail.desk(ShadowGate(Gate(gate.domain, Meddled(embedded, down))), recorder=recorder), cancel())
    recorder.close()
    with file.open("a", encoding="ascii") as more:
        more.write('{"kind": "decis\n[]\n\n{"kind": "other"}\n{"kind": "decision", "decision": {"findings": [5]}}\n')
    found = counted(file)
    assert (dict(found.errors), dict(found.verdicts), found.unreadable) == ({"engine.timeout": 1}, {"block": 1}, 4)


def test_the_command_prints_a_table_or_json(gate: Gate, file: Path) -> None:
    recorder = JsonlRecorder(file)
    goes_on(retail.desk(ShadowGate(gate), recorder=recorder), cancel("#W2"))
    recorder.close()
    shown = CliRunner().invoke(app, ["rollout", str(file)])
    assert (shown.exit_code, shown.stdout.splitlines()) == (
        0,
        [
            "1 decisions watched, 0 enforced",
            "would have been: block 1",
            "predicate               revise     block  violated   missing     stale     alone       ran",
            "retail.order_pending         0         1         1         0         0         1         1",
        ],
    )
    file.write_text(file.read_text(encoding="ascii") + "torn\n", encoding="ascii")
    told = CliRunner().invoke(app, ["rollout", str(file), "--format", "json"])
    assert (told.exit_code, json.loads(told.stdout)["unreadable"]) == (1, 1)
