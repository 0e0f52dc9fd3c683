"""Replay: recorded conversations are judged as if the gate had been there, and go on as they were recorded."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest

from ledgeragent.contracts import Finding
from ledgeragent.conversation import read_conversation
from ledgeragent.domain import Domain
from ledgeragent.engine import Engine
from ledgeragent.errors import BadInput, EngineTimeout
from ledgeragent.gate import Gate
from ledgeragent.replay import JudgedCall, Replay, ReplayStep, Tally, cause, findings
from support import retail
from support.engines import Meddled
from support.retail import EMAIL, USER, cancel, give_back, move
from test_conversation import answers, asks, line
from test_feedback import unknown, violated

pytest_plugins = ["support.fixtures"]

FIND = {"id": "1", "name": "find_user_id_by_email", "arguments": {"email": EMAIL}}
READ = {"id": "2", "function": {"name": "get_order_details", "arguments": '{"order_id": "#W1"}'}}
FOUND = [asks(FIND), answers("1", USER)]
KNOWN = [*FOUND, asks(READ), answers("2", json.dumps(retail.PENDING))]


def proposes(*calls: Any) -> dict[str, Any]:
    """An assistant message with the given calls."""
    return asks(*({"id": call.call_id, "name": call.tool, "arguments": call.arguments} for call in calls))


def replay(gate: Gate, messages: Iterable[Any], **fields: Any) -> Replay:
    return Replay(read_conversation(line(*messages, **fields), place="line 1"), gate)


def judged(gate: Gate, *messages: Any) -> list[JudgedCall]:
    return list(replay(gate, messages).judged())


def verdicts(calls: Iterable[JudgedCall]) -> list[tuple[str, bool | None]]:
    return [(call.review.verdict, call.executed) for call in calls]


def test_a_write_is_judged_against_what_the_recorded_reads_returned(gate: Gate) -> None:
    [call] = judged(gate, *KNOWN, proposes(cancel()), answers("cancel-1", "{}"))
    assert call.row() == {
        "conversation": "c1",
        "index": 4,
        "call_id": "cancel-1",
        "tool": "cancel_pending_order",
        "verdict": "allow",
        "findings": [],
        "executed": True,
        "reward": None,
    }


def test_a_row_names_what_was_found_and_the_recorded_reward(gate: Gate) -> None:
    steps = replay(gate, [*FOUND, proposes(cancel(reason="x"))], reward=1.0)
    assert [call.row() for call in steps.judged()] == [
        {
            "conversation": "c1",
            "index": 2,
            "call_id": "cancel-1",
            "tool": "cancel_pending_order",
            "verdict": "revise",
            "findings": [
                {"predicate": "retail.cancel_reason", "status": "violated", "verdict": "revise", "cause": "violated"},
                {"predicate": "retail.order_owner", "status": "unknown", "verdict": "revise", "cause": "missing"},
                {"predicate": "retail.order_pending", "status": "unknown", "verdict": "revise", "cause": "missing"},
            ],
            "executed": None,
            "reward": 1.0,
        }
    ]


def test_undeclared_tools_are_judged_and_calls_of_the_user_and_reads_are_not(gate: Gate) -> None:
    by_user = {"id": "u", "name": "delete_customer", "arguments": {}, "requestor": "user"}
    unheard = {"id": "x", "name": "delete_customer", "arguments": {}}
    calls = judged(gate, *KNOWN, asks(by_user), answers("u", "ok"), asks(unheard), answers("x", "ok"))
    assert [(call.call.tool, call.call.by_user, call.review.verdict) for call in calls] == [
        ("delete_customer", False, "block")
    ]


def test_the_recording_goes_on_with_its_outcome_whatever_the_verdict_was(gate: Gate) -> None:
    calls = judged(
        gate,
        *FOUND,
        proposes(cancel()),  # the order was not read: rejected, but the recorded tool did it
        answers("cancel-1", "{}"),
        asks(READ),
        answers("2", json.dumps(retail.order("#W1", "cancelled"))),
        proposes(cancel()),
        answers("cancel-1", "{}"),
    )
    assert verdicts(calls) == [("revise", True), ("block", True)]
    assert calls[1].review.gate_input["history"] == [
        {"tool": "cancel_pending_order", "arguments": cancel().arguments, "outcome": "executed"}
    ]


@pytest.mark.parametrize(
    ("answer", "executed", "history"),
    [
        ([answers("move-1", "{}")], True, ["executed"]),
        ([answers("move-1", "Error: no")], False, []),
        ([answers("move-1", "no", error=True)], False, []),
        ([answers("move-1", "ok", error=False)], True, ["executed"]),
        ([], None, ["uncertain"]),
        ([answers("forged", "{}")], None, ["uncertain"]),
    ],
)
@pytest.mark.parametrize("known", [True, False])
def test_the_recorded_return_says_what_became_of_a_write(
    gate: Gate, answer: list[Any], executed: bool | None, history: list[str], known: bool
) -> None:
    before = KNOWN if known else KNOWN[2:]  # admitted, and rejected for want of authentication
    first, second = judged(gate, *before, proposes(move()), *answer, proposes(cancel()))
    assert (first.review.verdict, first.executed) == ("allow" if known else "revise", executed)
    assert [one["outcome"] for one in second.review.gate_input["history"]] == history


def test_what_an_executed_write_changed_is_stale_until_it_is_read_again(gate: Gate) -> None:
    messages = [*KNOWN, proposes(cancel()), answers("cancel-1", "{}"), proposes(move()), answers("move-1", "Error: no")]
    again = [asks(READ), answers("2", json.dumps(retail.order("#W1", "cancelled"))), proposes(move())]
    calls = judged(gate, *messages, *again)
    assert [[(one.predicate, cause(one)) for one in findings(call.review)] for call in calls] == [
        [],
        [("retail.order_pending", "stale")],
        [("retail.order_pending", "violated")],
    ]


def test_calls_of_one_message_are_judged_one_after_the_other_with_their_outcomes(gate: Gate) -> None:
    messages = [proposes(cancel(), move()), answers("cancel-1", "{}"), answers("move-1", "{}")]
    first, second = judged(gate, *KNOWN, *messages)
    assert verdicts([first, second]) == [("allow", True), ("revise", True)]
    assert [one["outcome"] for one in second.review.gate_input["history"]] == ["executed"]


def test_repeated_ids_do_not_mix_up_returns(gate: Gate) -> None:
    same = [
        {**READ, "id": "x", "function": {"name": "get_order_details", "arguments": {"order_id": one}}} for one in "ab"
    ]
    steps = list(
        replay(
            gate,
            [
                asks(*({**one, "id": "x"} for one in (FIND, READ))),
                answers("x", USER),
                answers("x", json.dumps(retail.PENDING)),
                asks(*same),
                proposes(cancel()),
            ],
        ).steps()
    )
    assert [step.problem for step in steps] == [None, None, *["the recording holds no return"] * 2, None]
    assert [step.judged.review.verdict for step in steps if step.judged] == ["allow"]


def test_returns_that_answer_no_call_never_become_facts(gate: Gate) -> None:
    steps = replay(gate, [*FOUND, asks(READ), answers("z", json.dumps(retail.PENDING)), proposes(cancel())])
    assert [call.review.verdict for call in steps.judged()] == ["revise"]
    assert steps.session.ledger.tree() == {"auth": {"user_id": USER}}
    assert list(steps.conversation.unmatched) == [3]


@pytest.mark.parametrize(
    ("call", "content", "problem"),
    [
        ({**READ, "function": {"name": "get_order_details", "arguments": "{"}}, "{}", "is not JSON"),
        ({**READ, "function": {"name": "get_order_details", "arguments": []}}, "{}", "must be a JSON object, not list"),
        (READ, "503 Service Unavailable", "is not JSON"),
        (READ, None, "does not fit its schema"),
        (READ, [{"type": "text", "text": "{}"}], "does not fit its schema"),
        (READ, json.dumps(retail.DELIVERED), "the record's own order_id is not the one it was read as"),
    ],
)
def test_a_read_that_cannot_be_used_is_shown_with_its_problem_and_the_replay_goes_on(
    gate: Gate, call: Any, content: Any, problem: str
) -> None:
    steps = list(replay(gate, [*FOUND, asks(call), answers("2", content), proposes(cancel())]).steps())
    assert problem in _problem(steps[1])
    assert steps[2].judged is not None
    assert steps[2].judged.review.verdict == "revise"


def _problem(step: ReplayStep) -> str:
    told = step.observation.problems if step.observation is not None else ()
    return step.problem or " ".join(one.reason for one in told)


@pytest.mark.parametrize("arguments", ["{", "[]", None, 5, '{"order_id": "#W1", "order_id": "#W2"}'])
def test_a_write_whose_arguments_cannot_be_read_is_judged_and_does_not_stop_the_replay(
    gate: Gate, arguments: Any
) -> None:
    odd = {"id": "o", "name": "cancel_pending_order", "arguments": arguments}
    calls = judged(gate, *KNOWN, asks(odd), answers("o", "Error: bad arguments"), proposes(cancel()))
    assert verdicts(calls) == [("revise", False), ("allow", None)]


def test_an_engine_that_fails_blocks_every_write_with_its_code(retail_domain: Domain, embedded: Engine) -> None:
    def down(rule: str, answer: Any) -> Any:
        raise EngineTimeout("no answer within 2 s")

    gate = Gate(retail_domain, Meddled(embedded, down))
    [call] = judged(gate, *KNOWN, proposes(cancel()), answers("cancel-1", "{}"))
    row = call.row()
    assert (row["verdict"], row["findings"], row["error"], row["executed"]) == ("block", [], "engine.timeout", True)


def test_the_clock_is_the_lines_else_the_callers_else_the_domains(gate: Gate) -> None:
    line_clock, own_clock = "2025-01-01T00:00:00Z", "2025-02-02T00:00:00Z"
    bare = read_conversation(line(), place="line 1")
    assert replay(gate, [], now=line_clock).session.now == line_clock
    assert Replay(read_conversation(line(now=line_clock), place="x"), gate, now=own_clock).session.now == line_clock
    assert Replay(bare, gate, now=own_clock).session.now == own_clock
    assert Replay(bare, gate).session.now == gate.domain.file.now
    with pytest.raises(BadInput, match="RFC 3339"):
        Replay(bare, gate, now="2025-02-02")


def test_a_replayed_session_is_closed_at_the_end_and_named_after_its_conversation(gate: Gate) -> None:
    steps = replay(gate, [*KNOWN, proposes(give_back())])
    assert len(list(steps.steps())) == 3
    assert steps.session.id == "replay:c1"
    with pytest.raises(Exception, match="the recording ended"):
        steps.session.issue("calculate", {})


@pytest.mark.parametrize(
    ("finding", "why"),
    [
        (violated("a", "No."), "violated"),
        (unknown("a", ["x"]), "missing"),
        (unknown("a", ["x"], cause="stale"), "stale"),
        (
            unknown("a", ["x"], cause="stale")
            | {"missing": [{"path": ["x"], "cause": c} for c in ("stale", "missing")]},
            "missing",
        ),
    ],
)
def test_the_cause_of_a_finding(finding: dict[str, Any], why: str) -> None:
    assert cause(Finding.model_validate(finding)) == why


def test_a_tally_counts_verdicts_findings_and_errors(gate: Gate) -> None:
    tally = Tally()
    tally.add(call.row() for call in judged(gate, *FOUND, proposes(cancel(reason="x")), proposes(cancel())))
    tally.add([{"verdict": "block", "findings": [], "error": "engine.timeout"}])
    assert dict(tally.verdicts) == {"revise": 2, "block": 1}
    assert dict(tally.errors) == {"engine.timeout": 1}
    assert dict(tally.findings) == {
        ("retail.cancel_reason", "revise", "violated"): 1,
        ("retail.order_owner", "revise", "missing"): 2,
        ("retail.order_pending", "revise", "missing"): 2,
    }
