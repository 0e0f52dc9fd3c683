"""A rehearsal: asking policies that nobody proved, and letting nothing run on the answer."""

from __future__ import annotations

from typing import Any

import pytest

from ledgeragent.domain import Domain
from ledgeragent.engine import Engine
from ledgeragent.errors import EngineTimeout
from ledgeragent.gate import Gate, Rehearsal
from support import retail
from support.engines import Meddled
from support.retail import cancel, propose

pytest_plugins = ["support.fixtures"]


def test_it_decides_as_the_gate_does_and_gives_no_ticket(retail_domain: Domain, embedded: Engine, gate: Gate) -> None:
    for call in (cancel(), cancel("#W2"), cancel("#W9")):
        own = propose(retail.desk(gate), call)
        asked = propose(retail.desk(Rehearsal(retail_domain, embedded)), call)
        assert (asked.verdict, asked.ticket) == (own.verdict, None)
        assert asked.decision is not None
        assert own.decision is not None
        assert asked.decision.findings == own.decision.findings


def test_policies_that_do_not_hold_their_vectors_can_be_asked(retail_domain: Domain, embedded: Engine) -> None:
    def loose(rule: str, answer: Any) -> Any:
        return {**answer, "verdict": "allow", "findings": []}

    meddled = Meddled(embedded, loose)
    assert propose(retail.desk(Gate(retail_domain, meddled)), cancel("#W2")).failure is not None
    asked = propose(retail.desk(Rehearsal(retail_domain, meddled)), cancel("#W2"))
    assert (asked.verdict, asked.ticket) == ("allow", None)


@pytest.mark.parametrize(
    ("meddle", "code"),
    [
        (lambda rule, answer: {**answer, "request": "another"}, "decision.request"),
        (lambda rule, answer: {**answer, "verdict": "perhaps"}, "decision.schema"),
        (lambda rule, answer: (_ for _ in ()).throw(EngineTimeout("too late")), "engine.timeout"),
    ],
)
def test_what_is_no_decision_is_a_failure(retail_domain: Domain, embedded: Engine, meddle: Any, code: str) -> None:
    asked = propose(retail.desk(Rehearsal(retail_domain, Meddled(embedded, meddle))), cancel())
    assert asked.failure is not None
    assert (asked.verdict, asked.decision, asked.failure.code, asked.ticket) == ("block", None, code, None)
