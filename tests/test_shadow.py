"""A shadow judges and records as the gate does, and holds nothing back."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from ledgeragent.engine import Engine
from ledgeragent.errors import EngineTimeout
from ledgeragent.gate import Gate, ShadowGate
from ledgeragent.records import JsonlRecorder
from ledgeragent.session import Call, Session
from support import retail
from support.engines import Meddled

pytest_plugins = ["support.fixtures"]


def ran(session: Session, call: Call) -> Any:
    """What comes of running an admitted call."""
    [review] = session.review([call])
    assert review.ticket is not None
    return session.execute(review.ticket, lambda tool, arguments: (tool, arguments))


def test_it_says_at_the_start_that_nothing_is_held_back(gate: Gate, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="ledgeragent"):
        ShadowGate(gate)
    [line] = caplog.messages
    assert line == "SHADOW: calls of domain retail are judged and recorded, none is held back"


def test_it_is_no_gate_and_no_setting_of_one(gate: Gate) -> None:
    assert not isinstance(ShadowGate(gate), Gate)
    assert Session(gate, now=retail.NOW).enforced
    assert not Session(ShadowGate(gate), now=retail.NOW).enforced


def test_what_the_gate_would_hold_back_runs_and_the_review_says_what_would_have_come(gate: Gate) -> None:
    session = retail.desk(ShadowGate(gate))
    [review] = session.review([retail.cancel("#W2")])
    [real] = retail.desk(gate).review([retail.cancel("#W2")])
    assert (review.verdict, review.would, real.verdict, real.would) == ("allow", "block", "block", "block")
    assert review.decision is not None
    assert real.decision is not None
    assert review.decision.findings == real.decision.findings
    assert (review.message, review.user_message) == (real.message, real.user_message)


def test_what_ran_counts_and_makes_facts_stale_as_ever(gate: Gate) -> None:
    session = retail.desk(ShadowGate(gate))
    ran(session, retail.cancel("#W2"))
    [review] = session.review([retail.cancel("#W2", call_id="again")])
    assert ["orders", "#W2", "status"] in review.gate_input["stale"]
    assert [write["outcome"] for write in review.gate_input["history"]] == ["executed"]


def test_an_engine_that_fails_holds_nothing_back_and_is_on_record(gate: Gate, embedded: Engine, tmp_path: Path) -> None:
    def down(rule: str, answer: dict[str, Any]) -> Any:
        raise EngineTimeout("too slow")

    file = tmp_path / "records.jsonl"
    recorder = JsonlRecorder(file)
    session = Session(ShadowGate(Gate(gate.domain, Meddled(embedded, down))), now=retail.NOW, recorder=recorder)
    assert ran(session, retail.cancel()) == (retail.cancel().tool, retail.cancel().arguments)
    recorder.close()
    decision, outcome = map(json.loads, file.read_text().splitlines())
    assert (decision["error"], decision["verdict"], decision["enforced"]) == ("engine.timeout", "block", False)
    assert outcome["outcome"] == "executed"


def test_a_record_that_cannot_be_written_holds_nothing_back(gate: Gate, caplog: pytest.LogCaptureFixture) -> None:
    recorder = JsonlRecorder(Path("/dev/full"))
    session = Session(ShadowGate(gate), now=retail.NOW, recorder=recorder)
    ran(session, retail.cancel())
    recorder.close()
    assert [message.split(":")[0] for message in caplog.messages if "shadow's" in message] == [
        "a shadow's decision could not be recorded",
        "a shadow's outcome could not be recorded",
    ]


def test_what_is_no_call_cannot_be_let_through(gate: Gate) -> None:
    session = Session(ShadowGate(gate), now=retail.NOW)
    [review] = session.review([Call(retail.cancel().tool, "{", "c1")])
    assert (review.verdict, review.ticket) == ("revise", None)


def test_facts_that_changed_since_do_not_withhold_a_call(gate: Gate) -> None:
    session = retail.desk(ShadowGate(gate))
    [review] = session.review([retail.cancel()])
    retail.read_order(session, {**retail.PENDING, "status": "processed"})
    assert review.ticket is not None
    assert session.execute(review.ticket, lambda tool, arguments: "ran") == "ran"
