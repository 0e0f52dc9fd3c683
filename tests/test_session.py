"""A session: how facts get in, how calls get out, and what is refused on the way."""

from __future__ import annotations

import dataclasses
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgeragent.contracts import GateInput, Principal
from ledgeragent.domain import Domain
from ledgeragent.engine import Engine
from ledgeragent.errors import BadInput, EngineTimeout, LedgerError, SessionClosed, TicketError
from ledgeragent.gate import Gate
from ledgeragent.ledger import Limits
from ledgeragent.session import Call, Observation, Session, Ticket, ToolRefused
from support import retail, toy
from support.engines import Meddled
from support.retail import EMAIL, NOW, USER, admitted, authenticate, cancel, give_back, history, look_up, move, propose
from test_jsonio import values

pytest_plugins = ["support.fixtures"]


@pytest.fixture
def fresh(gate: Gate) -> Session:
    """A session that knows nothing yet."""
    return Session(gate, now=NOW)


def by_name(session: Session, first: str = "Ada", last: str = "Quist", postcode: str = "78701") -> Observation:
    arguments = {"first_name": first, "last_name": last, "zip": postcode}
    return look_up(session, "find_user_id_by_name_zip", arguments, USER)


def principal_of(session: Session) -> tuple[str, str] | None:
    known = session.principal
    return (known.id, known.source) if known is not None else None


# Reads -----------------------------------------------------------------------------------------------------------


def test_a_return_of_an_issued_read_becomes_a_fact_with_its_provenance(fresh: Session) -> None:
    fresh.next_turn()
    issued = fresh.issue("get_order_details", '{"order_id": "#W1"}', "call-7")
    seen = fresh.observe("call-7", json.dumps(retail.PENDING))
    assert seen == Observation("call-7", "get_order_details", (("orders", "#W1"),), ())
    provenance = fresh.ledger.provenance(("orders", "#W1"))
    assert provenance is not None
    assert dataclasses.astuple(provenance) == ("get_order_details", "call-7", 1, NOW, issued.issued)


def test_a_forged_return_is_refused(fresh: Session) -> None:
    with pytest.raises(LedgerError, match="no such call is under way in this session"):
        fresh.observe("call-1", json.dumps(retail.PENDING))
    assert fresh.ledger.tree() == {}


def test_a_duplicate_return_is_refused(session: Session) -> None:
    issued = session.issue("get_order_details", {"order_id": "#W1"})
    session.observe(issued.call_id, json.dumps(retail.PENDING))
    with pytest.raises(LedgerError, match="already answered"):
        session.observe(issued.call_id, json.dumps(retail.order("#W1", "delivered")))
    assert session.ledger.lookup(("orders", "#W1", "status")) == "pending"


def test_swapped_returns_do_not_become_facts(fresh: Session) -> None:
    first = fresh.issue("get_order_details", {"order_id": "#W1"})
    second = fresh.issue("get_order_details", {"order_id": "#W2"})
    swapped = [
        fresh.observe(first.call_id, json.dumps(retail.DELIVERED)),
        fresh.observe(second.call_id, json.dumps(retail.PENDING)),
    ]
    assert [[problem.reason for problem in one.problems] for one in swapped] == [
        ["the record's own order_id is not the one it was read as"],
        ["the record's own order_id is not the one it was read as"],
    ]
    assert fresh.ledger.tree() == {}


def test_a_late_return_does_not_replace_a_newer_one(fresh: Session) -> None:
    early = fresh.issue("get_order_details", {"order_id": "#W1"})
    retail.read_order(fresh, retail.order("#W1", "delivered"))
    late = fresh.observe(early.call_id, json.dumps(retail.PENDING))
    assert (late.paths, "was read again by a later call" in late.problems[0].reason) == ((), True)
    assert fresh.ledger.lookup(("orders", "#W1", "status")) == "delivered"


def test_returns_that_arrive_in_another_order_find_their_calls(fresh: Session) -> None:
    first = fresh.issue("get_order_details", {"order_id": "#W1"})
    second = fresh.issue("get_order_details", {"order_id": "#W2"})
    fresh.observe(second.call_id, json.dumps(retail.DELIVERED))
    fresh.observe(first.call_id, json.dumps(retail.PENDING))
    assert fresh.ledger.tree()["orders"] == {"#W1": retail.PENDING, "#W2": retail.DELIVERED}


@pytest.mark.parametrize(("content", "error"), [(json.dumps(retail.PENDING), True), ("Error: order not found", False)])
def test_a_failed_read_changes_nothing(session: Session, content: str, error: bool) -> None:
    before = session.ledger.to_json()
    seen = look_up(session, "get_order_details", {"order_id": "#W1"}, content, error=error)
    assert (seen.paths, seen.problems, session.ledger.to_json()) == ((), (), before)


def test_an_outage_told_as_a_success_is_reported_and_no_fact(fresh: Session) -> None:
    seen = authenticate(fresh, user="503 Service Unavailable")
    assert (seen.paths, [problem.path for problem in seen.problems], fresh.principal) == ((), ["auth.user_id"], None)


@pytest.mark.parametrize("tool", ["cancel_pending_order", "delete_customer", ""])
def test_what_may_change_something_cannot_be_issued_as_a_read(fresh: Session, tool: str) -> None:
    with pytest.raises(LedgerError, match="have it reviewed"):
        fresh.issue(tool, {})


def test_a_tool_without_effect_leaves_no_fact(fresh: Session) -> None:
    assert look_up(fresh, "calculate", {"expression": "1"}, "1").paths == ()
    assert fresh.ledger.tree() == {}


def test_an_id_is_under_way_once_at_a_time(fresh: Session) -> None:
    fresh.issue("get_order_details", {"order_id": "#W1"}, "call-1")
    with pytest.raises(LedgerError, match="with this id is already under way"):
        fresh.issue("get_order_details", {"order_id": "#W2"}, "call-1")
    fresh.observe("call-1", json.dumps(retail.PENDING))
    fresh.issue("get_order_details", {"order_id": "#W2"}, "call-1")
    assert fresh.observe("call-1", json.dumps(retail.DELIVERED)).paths == (("orders", "#W2"),)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ('{"order_id": "#W1"', "arguments of get_order_details is not JSON"),
        ('{"order_id": "#W1", "order_id": "#W2"}', "has a key twice"),
        ('["#W1"]', "must be a JSON object, not list"),
        (None, "must be a JSON object, not NoneType"),
        ({"order_id": float("nan")}, "not finite"),
        ({"order_id": "\ud800"}, "lone surrogate"),
    ],
)
def test_arguments_of_a_read_that_are_no_object_are_refused(fresh: Session, arguments: Any, complaint: str) -> None:
    with pytest.raises(BadInput, match=complaint):
        fresh.issue("get_order_details", arguments)


def test_a_read_whose_arguments_name_no_record_is_reported(fresh: Session) -> None:
    seen = look_up(fresh, "get_order_details", {"order": "#W1"}, retail.PENDING)
    assert [problem.reason for problem in seen.problems] == [
        "the path names something that is in neither the call nor its return"
    ]


def test_arguments_changed_after_a_read_was_issued_do_not_move_its_return(fresh: Session) -> None:
    arguments = {"user_id": "eve_mallory_6666"}
    issued = fresh.issue("get_user_details", arguments)
    arguments["user_id"] = USER
    profile = {key: value for key, value in retail.PROFILE.items() if key != "user_id"}
    assert fresh.observe(issued.call_id, json.dumps(profile)).paths == (("users", "eve_mallory_6666"),)


def test_caps_of_a_session_are_a_clear_problem(gate: Gate) -> None:
    session = Session(gate, now=NOW, limits=Limits(records=1))
    retail.read_order(session)
    assert [problem.reason for problem in retail.read_order(session, retail.DELIVERED).problems] == [
        "the session would hold 2 records; its limit is 1"
    ]


# The principal ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("proof", [authenticate, by_name])
def test_an_authentication_read_proves_the_customer(fresh: Session, proof: Callable[[Session], Observation]) -> None:
    assert fresh.principal is None
    assert proof(fresh).paths == (("auth", "user_id"),)
    assert principal_of(fresh) == (USER, "proof")
    assert retail.read_profile(fresh).problems == ()


def _profile_read(session: Session) -> None:
    retail.read_profile(session)


def _profile_shown(session: Session) -> None:
    session.shown({"document": [retail.PROFILE]})


def _profile_failed(session: Session) -> None:
    look_up(session, "get_user_details", {"user_id": USER}, retail.PROFILE, error=True)


def _profile_cut_off(session: Session) -> None:
    text = json.dumps(retail.PROFILE, separators=(",", ":"))
    look_up(session, "get_user_details", {"user_id": USER}, text[:-30])


def _profile_late_in_a_long_return(session: Session) -> None:
    look_up(session, "get_user_details", {"user_id": USER}, "." * 1_000_001 + " " + json.dumps(retail.PROFILE))


def _profile_inside_a_text(session: Session) -> None:
    look_up(session, "list_all_product_types", {}, {"note": json.dumps(retail.PROFILE, separators=(",", ":"))})


def _profile_in_capitals(session: Session) -> None:
    look_up(session, "calculate", {"expression": "1"}, json.dumps(retail.PROFILE).upper())


def _profile_from_a_write(session: Session) -> None:
    session.identify(Principal(id=USER, source="host"))
    retail.read_order(session)
    session.execute(admitted(session, cancel()), lambda tool, arguments: json.dumps(retail.PROFILE))


@pytest.mark.parametrize(
    "how",
    [
        _profile_read,
        _profile_shown,
        _profile_failed,
        _profile_cut_off,
        _profile_late_in_a_long_return,
        _profile_inside_a_text,
        _profile_in_capitals,
        _profile_from_a_write,
    ],
)
@pytest.mark.parametrize("proof", [authenticate, by_name])
def test_what_a_tool_has_told_the_agent_proves_nothing_about_the_customer(
    fresh: Session, how: Callable[[Session], None], proof: Callable[[Session], Observation]
) -> None:
    how(fresh)
    seen = proof(fresh)
    assert (seen.paths, [problem.path for problem in seen.problems]) == ((), ["auth.user_id"])
    assert "proves nothing" in seen.problems[0].reason


def test_a_name_and_zip_of_which_a_part_was_never_shown_prove_the_customer(fresh: Session) -> None:
    look_up(fresh, "calculate", {"expression": "1"}, {"first_name": "Ada", "last_name": "Quist", "zip": "10001"})
    assert by_name(fresh).paths == (("auth", "user_id"),)


def test_a_return_that_arrives_after_the_authentication_was_issued_does_not_spoil_it(fresh: Session) -> None:
    issued = fresh.issue("find_user_id_by_email", {"email": EMAIL})
    retail.read_profile(fresh)
    assert fresh.observe(issued.call_id, USER).paths == (("auth", "user_id"),)


def test_the_principal_is_set_once_and_reading_another_profile_does_not_change_it(session: Session) -> None:
    authenticate(session, user="eve_mallory_6666", email="eve@example.com")
    retail.read_profile(session, {**retail.PROFILE, "user_id": "eve_mallory_6666"})
    assert principal_of(session) == (USER, "proof")


def test_the_principal_of_the_host_settles_authentication(gate: Gate) -> None:
    session = Session(gate, now=NOW, principal=Principal(id=USER, source="host", claims={"level": 2}))
    retail.read_order(session)
    review = propose(session, cancel())
    assert (review.verdict, review.gate_input["session"]["principal"]) == (
        "allow",
        {"id": USER, "source": "host", "claims": {"level": 2}},
    )


def test_a_read_that_proves_somebody_else_than_the_host_did_blocks(gate: Gate) -> None:
    session = Session(gate, now=NOW, principal=Principal(id=USER, source="host"))
    authenticate(session, user="eve_mallory_6666", email="eve@example.com")
    retail.read_order(session)
    review = propose(session, cancel())
    assert (review.verdict, retail.predicates(review)) == ("block", [("retail.order_owner", "violated")])


@pytest.mark.parametrize(
    ("kind", "known"), [("proof", ("p1", "proof")), ("claimed", ("p1", "claimed")), ("host", None)]
)
def test_the_domain_says_what_a_read_is_worth_as_a_principal(
    tmp_path: Path, kind: str, known: tuple[str, str] | None
) -> None:
    domain = toy.load(tmp_path, tools=toy.but(toy.TOOLS, ("principal", kind)))
    session = Session(toy.gate(domain, tmp_path), now=toy.NOW)
    look_up(session, "find_person", {"email": "a@example.com"}, "p1")
    assert principal_of(session) == known


@pytest.mark.parametrize("source", ["proof", "claimed"])
def test_only_what_the_host_authenticated_can_be_passed_in(gate: Gate, source: Any) -> None:
    with pytest.raises(BadInput, match="only a principal that the host authenticated"):
        Session(gate, now=NOW, principal=Principal(id=USER, source=source))


def test_a_change_of_principal_ends_the_session(session: Session) -> None:
    ticket = admitted(session, cancel())
    session.identify(Principal(id=USER, source="host"))
    session.identify(Principal(id=USER, source="host"))
    with pytest.raises(SessionClosed, match="the principal changed: this session has ended, open a new one"):
        session.identify(Principal(id="eve_mallory_6666", source="host"))
    assert principal_of(session) == (USER, "host")
    for attempt in (lambda: session.review([cancel()]), lambda: session.redeem(ticket), lambda: authenticate(session)):
        with pytest.raises(SessionClosed, match="the principal changed"):
            attempt()


def test_the_host_cannot_put_somebody_else_in_the_place_of_the_proved_customer(session: Session) -> None:
    with pytest.raises(SessionClosed, match="the principal changed"):
        session.identify(Principal(id="eve_mallory_6666", source="host"))
    assert principal_of(session) == (USER, "proof")


# The clock -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("now", ["", "2024-05-15", "2024-05-15T15:00:00", "2024-05-15 15:00:00Z", NOW + "\n", "now"])
def test_a_clock_without_an_offset_is_refused(gate: Gate, session: Session, now: str) -> None:
    for attempt in (lambda: Session(gate, now=now), lambda: session.set_clock(now)):
        with pytest.raises(BadInput, match="now must be RFC 3339 with an offset"):
            attempt()
    assert session.now == NOW


@pytest.mark.parametrize("day", ["2024-02-31", "0000-01-01"])
def test_a_day_that_is_none_is_refused(session: Session, day: str) -> None:
    with pytest.raises(BadInput, match="RFC 3339"):
        session.set_clock(f"{day}T00:00:00Z")


def test_the_clock_of_a_session_does_not_go_back(session: Session) -> None:
    for now in ("2024-05-15T22:00:00+02:00", "2024-05-15T14:59:59.9-05:00", "1970-01-01T00:00:00Z"):
        session.set_clock(now)
    assert session.now == "2024-05-15T22:00:00+02:00"
    session.set_clock("2024-05-15T20:00:00.000000001Z")
    assert retail.propose(session, retail.cancel()).gate_input["session"]["now"] == "2024-05-15T20:00:00.000000001Z"


def test_the_gate_is_told_the_clock_and_the_turn(session: Session) -> None:
    session.set_clock("2024-05-16T00:00:00.5Z")
    told = [propose(session, cancel("#W9")).gate_input["session"] for _ in range(2)]
    assert told[0] == {
        "id": "desk",
        "now": "2024-05-16T00:00:00.5Z",
        "turn": 1,
        "principal": {"id": USER, "source": "proof", "claims": {}},
        "rejections": 0,
    }
    assert told[1]["turn"] == 2


# Reviews ---------------------------------------------------------------------------------------------------------


def test_a_call_that_complies_is_allowed_and_carries_a_ticket(session: Session) -> None:
    review = propose(session, cancel())
    assert (review.verdict, review.failure, review.reads, review.user_message) == ("allow", None, (), "")
    assert review.ticket is not None
    assert json.loads(review.ticket.arguments) == cancel().arguments
    assert (review.ticket.call_id, review.ticket.request) == ("cancel-1", review.gate_input["request"])
    GateInput.model_validate(review.gate_input)


def test_the_gate_sees_the_slice_the_tool_needs_and_nothing_else(session: Session) -> None:
    told = propose(session, cancel()).gate_input
    assert (told["ledger"], told["stale"], told["grants"]) == (
        {"auth": {"user_id": USER}, "orders": {"#W1": {"user_id": USER, "status": "pending"}}},
        [],
        [],
    )


def test_missing_evidence_asks_for_the_read_and_gives_no_ticket(fresh: Session) -> None:
    authenticate(fresh)
    review = propose(fresh, cancel())
    assert (review.verdict, review.ticket, [str(read) for read in review.reads]) == (
        "revise",
        None,
        ['get_order_details(order_id="#W1")'],
    )
    assert 'get_order_details(order_id="#W1")' in review.message
    retail.read_order(fresh)
    assert propose(fresh, cancel()).verdict == "allow"


def test_arguments_as_text_are_judged_as_what_they_say(session: Session) -> None:
    call = cancel()
    review = propose(session, dataclasses.replace(call, arguments=json.dumps(call.arguments)))
    assert (review.verdict, review.gate_input["action"]["arguments"]) == ("allow", call.arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        "",
        "{",
        "null",
        "503 Service Unavailable",
        '{"order_id": "#W1", "reason": "no longer needed", "reason": "x"}',
        '{"order_id": "#W1", "reason": NaN}',
        '"\\ud800"',
        "\ud800",
        "x" * 1_000_001,
        None,
        5,
        [],
        {},
        {"order_id": 5, "reason": "no longer needed"},
        {"order_id": "#W1", "reason": "no longer needed", "__proto__": {}},
        {"order_id": "#W1", "reason": float("nan")},
        {"order_id": "#W1", "reason": {1, 2}},
        {1: 2},
    ],
)
def test_arguments_that_do_not_fit_are_sent_back(session: Session, arguments: Any) -> None:
    review = propose(session, Call("cancel_pending_order", arguments))
    assert (review.verdict, review.ticket, retail.predicates(review)) == (
        "revise",
        None,
        [("gate.arguments", "violated")],
    )
    assert history(session) == []


@pytest.mark.parametrize("tool", ["delete_customer", "", "\ud800", "cancel_pending_order\n", "x" * 10_000])
def test_a_tool_that_is_not_declared_is_blocked(session: Session, tool: str) -> None:
    review = propose(session, Call(tool, {"id": 1}))
    assert (review.verdict, review.ticket, history(session)) == ("block", None, [])


@given(st.sampled_from(["cancel_pending_order", "return_delivered_order_items"]) | st.text(), values)
def test_whatever_a_model_proposes_before_anything_was_read_is_no_allow(gate: Gate, tool: str, content: Any) -> None:
    session = Session(gate, now=NOW)
    for arguments in (content, json.dumps(content)):
        review = session.review([Call(tool, arguments)])[0]
        assert (review.verdict in ("revise", "block"), review.ticket, bool(review.message)) == (True, None, True)


@pytest.mark.parametrize("tool", ["get_order_details", "calculate"])
def test_what_changes_nothing_is_not_reviewed_and_nothing_else_of_the_message_is_admitted(
    session: Session, tool: str
) -> None:
    with pytest.raises(LedgerError, match="issue it and observe its return"):
        session.review([cancel(), Call(tool, {})])
    assert history(session) == []


def test_an_engine_that_fails_blocks_with_its_code_and_leaves_nothing_behind(
    retail_domain: Domain, embedded: Engine
) -> None:
    def down(rule: str, answer: Any) -> Any:
        raise EngineTimeout("no answer within 2 s")

    session = retail.desk(Gate(retail_domain, Meddled(embedded, down)))
    review = propose(session, cancel())
    assert review.failure is not None
    assert (review.verdict, review.decision, review.ticket, review.failure.code) == (
        "block",
        None,
        None,
        "engine.timeout",
    )
    assert "engine.timeout" in review.message
    assert "engine" not in review.user_message
    assert history(session) == []


# Siblings and pending writes -------------------------------------------------------------------------------------


def test_an_admitted_write_is_pending_and_what_it_changes_is_stale_at_once(session: Session) -> None:
    admitted(session, cancel())
    assert history(session) == [("cancel_pending_order", "pending")]
    review = propose(session, move())
    assert (review.verdict, retail.predicates(review)) == ("revise", [("retail.order_pending", "unknown")])
    assert review.gate_input["stale"] == [["orders", "#W1", "status"]]
    assert "status" not in review.gate_input["ledger"]["orders"]["#W1"]


def test_the_writes_of_one_message_see_the_admitted_ones_before_them(session: Session) -> None:
    session.next_turn()
    first, rejected, again, other = session.review(
        [give_back(), cancel("#W9"), give_back("chair-a", call_id="return-2"), cancel()]
    )
    assert [review.verdict for review in (first, rejected, again, other)] == ["allow", "revise", "block", "allow"]
    assert ("retail.once_per_order", "violated") in retail.predicates(again)
    for review in (rejected, again, other):
        assert review.gate_input["siblings"] == [{"tool": give_back().tool, "arguments": give_back().arguments}]
        assert review.gate_input["history"] == []
    assert history(session) == [("return_delivered_order_items", "pending"), ("cancel_pending_order", "pending")]


def test_what_a_caller_does_to_arguments_afterwards_changes_neither_ticket_nor_history(session: Session) -> None:
    call = give_back("lamp-a")
    review = propose(session, call)
    call.arguments["item_ids"].append("chair-a")
    call.arguments["order_id"] = "#W1"
    review.gate_input["action"]["arguments"]["item_ids"].append("chair-a")
    review.gate_input["ledger"]["orders"]["#W2"]["user_id"] = "eve_mallory_6666"
    assert review.ticket is not None
    assert session.redeem(review.ticket) == give_back("lamp-a").arguments
    told = propose(session, cancel("#W2")).gate_input
    assert told["history"] == [{"tool": call.tool, "arguments": give_back("lamp-a").arguments, "outcome": "pending"}]
    assert told["ledger"]["orders"]["#W2"]["user_id"] == USER


# Rejections ------------------------------------------------------------------------------------------------------


def rejections(session: Session, call: Call, times: int) -> list[int]:
    return [propose(session, call).gate_input["session"]["rejections"] for _ in range(times)]


def test_the_same_rejected_call_is_counted_and_at_last_blocked(session: Session) -> None:
    call = cancel(reason="changed my mind")
    reviews = [propose(session, call) for _ in range(4)]
    assert [review.verdict for review in reviews] == ["revise", "revise", "revise", "block"]
    assert retail.predicates(reviews[3])[0] == ("gate.loop", "violated")


def test_other_arguments_another_tool_or_a_changed_ledger_begin_a_new_count(session: Session) -> None:
    call = cancel("#W9")
    assert rejections(session, call, 2) == [0, 1]
    assert rejections(session, cancel("#W8"), 1) == [0]
    assert rejections(session, move("#W9"), 1) == [0]
    retail.read_order(session)  # the same again: the facts are what they were
    assert rejections(session, call, 1) == [2]
    retail.read_order(session, retail.order("#W1", "processed"))
    assert rejections(session, call, 2) == [0, 1]
    session.execute(admitted(session, give_back()), lambda tool, arguments: "done")  # made facts stale
    assert rejections(session, call, 1) == [0]


def test_of_very_many_rejected_calls_the_latest_are_counted(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ledgeragent.session._MAX_REJECTED", 2)
    for order in ("#W7", "#W8", "#W7", "#W9"):
        propose(session, cancel(order))
    assert [rejections(session, cancel(order), 1) for order in ("#W7", "#W9", "#W8")] == [[2], [1], [0]]
    assert len(session.to_json()["rejected"]) == 2


def test_the_same_arguments_in_another_spelling_are_the_same_call(session: Session) -> None:
    call = cancel("#W9")
    propose(session, call)
    text = json.dumps(dict(reversed(call.arguments.items())), indent=2)
    assert rejections(session, dataclasses.replace(call, arguments=text), 1) == [1]


# Tickets ---------------------------------------------------------------------------------------------------------


def test_a_ticket_runs_the_judged_arguments_once(session: Session) -> None:
    ticket = admitted(session, cancel())
    ran = session.execute(ticket, lambda tool, arguments: (tool, arguments))
    assert ran == ("cancel_pending_order", cancel().arguments)
    with pytest.raises(TicketError, match="it is spent, withheld, or of another session"):
        session.execute(ticket, lambda tool, arguments: pytest.fail("it ran twice"))


def test_a_ticket_that_is_being_used_cannot_be_used_again(session: Session) -> None:
    ticket = admitted(session, cancel())
    session.redeem(ticket)
    with pytest.raises(TicketError, match="already spent"):
        session.redeem(ticket)


@pytest.mark.parametrize(
    "edit",
    [
        {"arguments": '{"order_id":"#W2","reason":"no longer needed"}'},
        {"tool": "modify_user_address"},
        {"id": "0" * 32},
        {"request": "another"},
        {"call_id": "another"},
    ],
)
def test_a_ticket_that_was_edited_is_refused_and_the_real_one_stays_good(
    session: Session, edit: dict[str, str]
) -> None:
    ticket = admitted(session, cancel())
    for attempt in (session.redeem, lambda edited: session.report(edited, "executed")):
        with pytest.raises(TicketError, match="no open ticket"):
            attempt(dataclasses.replace(ticket, **edit))
    assert session.redeem(ticket) == cancel().arguments


def test_a_ticket_of_another_session_is_refused(session: Session, gate: Gate) -> None:
    with pytest.raises(TicketError, match="of another session"):
        retail.desk(gate).redeem(admitted(session, cancel()))


def test_tickets_cannot_be_guessed_from_each_other(session: Session) -> None:
    tickets = [admitted(session, call) for call in (cancel(), give_back())]
    assert len({ticket.id for ticket in tickets} | {ticket.request for ticket in tickets}) == 4
    assert all(len(ticket.id) == 32 for ticket in tickets)


def test_a_call_whose_facts_changed_since_it_was_admitted_is_withheld(session: Session) -> None:
    ticket = admitted(session, cancel())
    retail.read_order(session, retail.order("#W1", "processed"))
    with pytest.raises(TicketError, match="facts that admitted cancel_pending_order have changed since"):
        session.redeem(ticket)
    with pytest.raises(TicketError, match="no open ticket"):
        session.redeem(ticket)
    assert history(session) == []
    assert propose(session, cancel()).verdict == "block"


def test_facts_that_were_read_again_unchanged_or_did_not_decide_keep_a_ticket_good(session: Session) -> None:
    ticket = admitted(session, cancel())
    retail.read_order(session)
    retail.read_order(session, retail.order("#W2", "processed"))
    assert session.redeem(ticket) == cancel().arguments


def test_a_write_that_ran_out_of_turn_and_changed_the_deciding_facts_withholds_the_earlier_one(
    session: Session,
) -> None:
    session.next_turn()
    first, second = (review.ticket for review in session.review([move(), cancel()]))
    assert first is not None
    assert second is not None
    session.execute(second, lambda tool, arguments: "done")
    with pytest.raises(TicketError, match="modify_pending_order_address"):
        session.redeem(first)


def test_the_writes_of_one_message_run_in_order_though_each_changes_facts(session: Session) -> None:
    session.next_turn()
    reviews = session.review([move(), cancel()])
    for review in reviews:
        assert review.ticket is not None
        session.execute(review.ticket, lambda tool, arguments: "done")
    assert [outcome for _, outcome in history(session)] == ["executed", "executed"]


def test_one_write_of_a_session_runs_at_a_time(session: Session) -> None:
    session.next_turn()
    first, second = (review.ticket for review in session.review([cancel(), give_back()]))
    assert first is not None
    assert second is not None
    session.redeem(first)
    with pytest.raises(TicketError, match="another write of this session is running"):
        session.redeem(second)
    session.report(first, "executed", "done")
    assert session.redeem(second) == give_back().arguments


# Outcomes --------------------------------------------------------------------------------------------------------

STATUS = ("orders", "#W1", "status")


@pytest.mark.parametrize("outcome", ["executed", "uncertain"])
def test_what_ran_or_may_have_run_stays_in_history_and_its_fields_stay_stale_until_read_again(
    session: Session, outcome: Any
) -> None:
    before = session.issue("get_order_details", {"order_id": "#W1"})
    ticket = admitted(session, cancel())
    session.redeem(ticket)
    during = session.issue("get_order_details", {"order_id": "#W1"})
    session.report(ticket, outcome, "timeout")
    assert history(session) == [("cancel_pending_order", outcome)]
    for issued in (before, during):
        session.observe(issued.call_id, json.dumps(retail.PENDING))
        assert STATUS in session.ledger.stale_paths()
    retail.read_order(session, retail.order("#W1", "cancelled"))
    assert STATUS not in session.ledger.stale_paths()


def test_a_definite_no_undoes_the_write(session: Session) -> None:
    before = session.ledger.digest
    ticket = admitted(session, cancel())
    assert session.ledger.digest != before
    session.redeem(ticket)
    session.report(ticket, "refused", "Error: not possible")
    assert (session.ledger.digest, history(session)) == (before, [])
    assert propose(session, cancel()).verdict == "allow"


def test_a_write_that_was_never_started_can_be_withheld(session: Session) -> None:
    before = session.ledger.digest
    session.report(admitted(session, cancel()), "withheld")
    assert (session.ledger.digest, history(session)) == (before, [])


@pytest.mark.parametrize("outcome", ["executed", "refused", "uncertain"])
def test_an_outcome_of_a_write_that_was_not_started_is_refused(session: Session, outcome: Any) -> None:
    ticket = admitted(session, cancel())
    with pytest.raises(TicketError, match="was not redeemed"):
        session.report(ticket, outcome)
    assert session.redeem(ticket) == cancel().arguments


def test_a_write_that_was_started_cannot_be_withheld_and_has_one_outcome(session: Session) -> None:
    ticket = admitted(session, cancel())
    session.redeem(ticket)
    with pytest.raises(TicketError, match="was started and cannot be withheld"):
        session.report(ticket, "withheld")
    session.report(ticket, "executed")
    with pytest.raises(TicketError, match="no open ticket"):
        session.report(ticket, "refused")
    assert history(session) == [("cancel_pending_order", "executed")]


def test_an_outcome_that_is_none_of_the_four_is_refused(session: Session) -> None:
    ticket = admitted(session, cancel())
    session.redeem(ticket)
    odd: Any = "done"
    with pytest.raises((TicketError, BadInput)):
        session.report(ticket, odd)
    assert history(session) == [("cancel_pending_order", "pending")]


@pytest.mark.parametrize(
    ("error", "after"),
    [
        (ToolRefused("no such order"), []),
        (TimeoutError(), [("cancel_pending_order", "uncertain")]),
        (KeyboardInterrupt(), [("cancel_pending_order", "uncertain")]),
    ],
)
def test_what_a_tool_raises_is_passed_on_after_its_outcome_was_taken(
    session: Session, error: BaseException, after: list[tuple[str, str]]
) -> None:
    def run(tool: str, arguments: dict[str, Any]) -> Any:
        raise error

    with pytest.raises(type(error)) as raised:
        session.execute(admitted(session, cancel()), run)
    assert (raised.value, history(session)) == (error, after)


def test_what_a_write_returns_is_no_fact(session: Session) -> None:
    ticket = admitted(session, cancel())
    session.execute(ticket, lambda tool, arguments: json.dumps(retail.order("#W1", "cancelled")))
    assert session.ledger.lookup(STATUS) is not None
    assert STATUS in session.ledger.stale_paths()


@pytest.mark.parametrize(("switch", "balance"), [(True, 3), (False, None)])
def test_a_domain_can_take_what_an_executed_write_returns_for_a_read(
    tmp_path: Path, switch: bool, balance: int | None
) -> None:
    domain = toy.load(tmp_path, tools=toy.but(toy.TOOLS, ("absorb_write_returns", switch)))
    session = Session(toy.gate(domain, tmp_path), now=toy.NOW)
    look_up(session, "get_person", {"id": "p1"}, toy.person("p1", visa=5))
    ticket = admitted(session, Call("pay", {"id": "p1", "card": "visa"}))
    session.execute(ticket, lambda tool, arguments: json.dumps(toy.person("p1", visa=3)))
    seen = session.ledger.tree()["people"]["p1"]["cards"]["visa"].get("balance")
    assert (seen, session.ledger.stale_paths() == []) == (balance, switch)


# The end ---------------------------------------------------------------------------------------------------------


def test_closing_settles_what_is_open_and_nothing_happens_afterwards(session: Session) -> None:
    session.next_turn()
    running, waiting = (review.ticket for review in session.review([cancel(), give_back()]))
    assert running is not None
    assert waiting is not None
    session.redeem(running)
    issued = session.issue("get_order_details", {"order_id": "#W1"})
    session.close("the customer left")
    session.close("again")
    attempts: list[Callable[[], object]] = [
        lambda: session.review([cancel()]),
        lambda: session.issue("calculate", {}),
        lambda: session.observe(issued.call_id, "{}"),
        lambda: session.redeem(waiting),
        lambda: session.identify(Principal(id=USER, source="host")),
    ]
    for attempt in attempts:
        with pytest.raises(SessionClosed, match=r"\(the customer left\): open a new one"):
            attempt()
    with pytest.raises(TicketError):
        session.report(running, "refused")


# Threads ---------------------------------------------------------------------------------------------------------


def at_once(work: Callable[[], object], threads: int = 8) -> list[object]:
    """Do the same work in many threads; gives results or the errors' types."""
    results: list[object] = []
    start = threading.Barrier(threads)

    def one() -> None:
        start.wait()
        try:
            results.append(work())
        except (LedgerError, TicketError) as error:
            results.append(type(error))

    workers = [threading.Thread(target=one) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return results


def test_of_many_threads_one_uses_a_ticket(session: Session) -> None:
    ticket = admitted(session, cancel())
    ran: list[str] = []
    results = at_once(lambda: session.execute(ticket, lambda tool, arguments: ran.append(tool)))
    assert (len(ran), results.count(TicketError)) == (1, 7)


def test_of_many_threads_one_answers_a_call(session: Session) -> None:
    issued = session.issue("get_order_details", {"order_id": "#W1"})
    assert at_once(lambda: session.observe(issued.call_id, json.dumps(retail.PENDING))).count(LedgerError) == 7


def test_of_many_threads_that_propose_the_same_call_one_is_admitted(session: Session) -> None:
    verdicts = at_once(lambda: session.review([give_back()])[0].verdict)
    assert sorted(map(str, verdicts)) == ["allow", *["block"] * 7]


def test_two_writes_never_run_at_the_same_time(session: Session) -> None:
    session.next_turn()
    tickets = [review.ticket for review in session.review([cancel(), give_back()])]
    running: list[str] = []
    most: list[int] = []

    def run(tool: str, arguments: dict[str, Any]) -> None:
        running.append(tool)
        most.append(len(running))
        running.remove(tool)

    def use(ticket: Ticket | None) -> None:
        assert ticket is not None
        session.execute(ticket, run)

    workers = [threading.Thread(target=use, args=[ticket]) for ticket in tickets]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert most == [1, 1]
