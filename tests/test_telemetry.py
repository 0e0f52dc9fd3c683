"""Metrics and spans of reviews: what happened and how long it took, never with whose data."""

from __future__ import annotations

import gc
import logging
from typing import Any

import pytest
from opentelemetry.trace import StatusCode

from ledgeragent import telemetry
from ledgeragent.engine import Breaker, Engine, OpaServer
from ledgeragent.errors import EngineTimeout, EngineUnreachable, RecordError
from ledgeragent.gate import Gate, ShadowGate
from ledgeragent.session import Call, Session
from support import retail
from support.engines import Meddled, finding
from support.otel import Sinks, attributes
from support.retail import cancel, propose
from support.toy import but

pytest_plugins = ["support.fixtures"]

CANCEL = {"domain": "retail", "tool": "cancel_pending_order", "enforced": True}


def told(**more: Any) -> frozenset[tuple[str, Any]]:
    return attributes({**CANCEL, **more})


def test_decisions_are_counted_by_domain_tool_and_verdict(gate: Gate, sinks: Sinks) -> None:
    session = retail.desk(gate)
    for call in (cancel(), cancel("#W9"), cancel("#W9"), cancel("#W2"), Call("delete_ada_quist", {})):
        propose(session, call)
    metrics = sinks.metrics()
    assert metrics["ledgeragent.decisions"] == {
        told(verdict="allow"): 1,
        told(verdict="revise"): 2,
        told(verdict="block"): 1,
        told(tool="_OTHER", verdict="block"): 1,
    }
    assert metrics["ledgeragent.review.duration"] == {
        attributes({"domain": "retail", "verdict": verdict}): count
        for verdict, count in (("allow", 1), ("revise", 2), ("block", 2))
    }
    assert "ledgeragent.failures" not in metrics


def test_a_review_without_a_decision_is_counted_by_its_code(gate: Gate, embedded: Engine, sinks: Sinks) -> None:
    def down(rule: str, answer: Any) -> Any:
        raise EngineTimeout("too slow")

    class Full:
        def write(self, record: object) -> None:
            raise RecordError("no space left")

    propose(retail.desk(Gate(gate.domain, Meddled(embedded, down))), cancel())
    propose(retail.desk(gate, recorder=Full()), cancel())
    metrics = sinks.metrics()
    assert metrics["ledgeragent.failures"] == {told(error="engine.timeout"): 1, told(error="host.record"): 1}
    assert metrics["ledgeragent.decisions"] == {told(verdict="block"): 2}


def test_what_a_shadow_would_have_held_back_is_counted_per_predicate(
    gate: Gate, embedded: Engine, sinks: Sinks
) -> None:
    watched = finding("retail.cancel_reason", "block", "shadow")
    in_shadow = Meddled(embedded, lambda rule, answer: but(answer, ("findings", [watched])))
    propose(retail.desk(ShadowGate(gate)), cancel("#W9"))
    gate = Gate(gate.domain, in_shadow)
    in_shadow.change = lambda rule, answer: answer if rule == "proof" else but(answer, ("findings", [watched]))
    assert propose(retail.desk(gate), cancel()).verdict == "allow"
    metrics = sinks.metrics()
    about = {"domain": "retail", "tool": "cancel_pending_order"}
    assert metrics["ledgeragent.shadow.findings"] == {
        attributes({**about, "predicate": "retail.order_owner", "verdict": "revise", "shadow": "gate"}): 1,
        attributes({**about, "predicate": "retail.order_pending", "verdict": "revise", "shadow": "gate"}): 1,
        attributes({**about, "predicate": "retail.cancel_reason", "verdict": "block", "shadow": "predicate"}): 1,
    }
    assert metrics["ledgeragent.decisions"] == {
        told(enforced=False, verdict="revise"): 1,
        told(verdict="allow"): 1,
    }


def test_the_state_of_a_breaker_is_told_as_long_as_it_is_in_use(sinks: Sinks) -> None:
    url = "http://breaker.invalid:8181"
    about = attributes({"engine": url})
    with OpaServer(url, breaker=Breaker(failures=1)) as one, OpaServer(url):
        assert sinks.metrics()["ledgeragent.engine.breaker"][about] == 0
        with pytest.raises(EngineUnreachable), one.breaker.attempt("OPA"):
            raise EngineUnreachable("refused")
        assert sinks.metrics()["ledgeragent.engine.breaker"][about] == 2
    del one
    gc.collect()
    assert about not in sinks.metrics().get("ledgeragent.engine.breaker", {})


def test_a_span_says_what_was_decided_by_which_revision(gate: Gate, sinks: Sinks) -> None:
    review = propose(retail.desk(gate), cancel())
    assert review.decision is not None
    [span] = sinks.spans
    assert (span.name, attributes(span.attributes or {})) == (
        "ledgeragent.review",
        told(verdict="allow", revision=review.decision.policy.revision),
    )


def test_a_span_of_a_review_without_a_decision_has_the_code(gate: Gate, sinks: Sinks) -> None:
    class Full:
        def write(self, record: object) -> None:
            raise RecordError("no space left")

    propose(retail.desk(gate, recorder=Full()), cancel())
    assert [attributes(span.attributes or {}) for span in sinks.spans] == [told(verdict="block", error="host.record")]


def test_no_value_of_arguments_facts_principal_or_made_up_names_is_told(gate: Gate, sinks: Sinks) -> None:
    session = Session(gate, now=retail.NOW, session_id="canary-session")
    retail.authenticate(session, "canary_user_1", "canary@example.com")
    retail.read_order(session, retail.order("#Wcanary", "delivered", user_id="canary_user_1"))
    propose(session, cancel("#Wcanary", "canary reason"))
    propose(session, Call("canary_tool", {"canary": "canary"}, "canary-call"))
    assert len(sinks.spans) == 2
    assert "canary" not in str([span.to_json() for span in sinks.spans]) + str(sinks.metrics())


def test_an_exception_leaves_its_words_out_of_the_span_and_is_no_decision(gate: Gate, sinks: Sinks) -> None:
    class Broken:
        def write(self, record: object) -> None:
            raise RuntimeError("canary")

    with pytest.raises(RuntimeError):
        propose(retail.desk(gate, recorder=Broken()), cancel())
    [span] = sinks.spans
    assert (span.events, span.status.status_code, attributes(span.attributes or {})) == ((), StatusCode.UNSET, told())
    assert "ledgeragent.decisions" not in sinks.metrics()


class _Broken:
    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("an exporter that was set up wrongly")


@pytest.mark.parametrize("part", ["_tracer", "_decisions"])
def test_telemetry_that_fails_changes_no_decision(
    gate: Gate, part: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(telemetry, part, _Broken())
    with caplog.at_level(logging.ERROR):
        assert propose(retail.desk(gate), cancel()).verdict == "allow"
        assert propose(retail.desk(gate), cancel("#W2")).verdict == "block"
    assert "RuntimeError at test_telemetry.py:" in caplog.text
