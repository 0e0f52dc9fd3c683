"""A session as a document: whatever decides survives, and what is no sound session is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgeragent.contracts import Principal
from ledgeragent.domain import Domain
from ledgeragent.errors import BadInput, LedgerAgentError, LedgerError, SessionClosed, SessionLost, TicketError
from ledgeragent.gate import Gate, ShadowGate
from ledgeragent.jsonio import canonical
from ledgeragent.ledger import Limits
from ledgeragent.session import Call, Review, Session, Ticket
from support import retail, toy
from support.retail import EMAIL, NOW, USER, admitted, cancel, give_back, history, look_up, move, propose, swap_lamp

pytest_plugins = ["support.fixtures"]

EVE: Final = "eve_mallory_6666"


def again(session: Session, gate: Gate | ShadowGate, **about: Any) -> Session:
    """The session as another process reads it back."""
    return Session.from_json(json.loads(canonical(session.to_json())), gate, **about)


def lasting(session: Session) -> dict[str, Any]:
    """A session's document without what is drawn at random."""
    document = session.to_json()
    for ticket in document["tickets"]:
        ticket.update(id="", request="")
    return document


def told(review: Review) -> dict[str, Any]:
    """Everything a review says, without what is drawn at random."""
    decision = review.decision.model_dump(exclude={"request"}) if review.decision is not None else None
    asked = {key: value for key, value in review.gate_input.items() if key != "request"}
    given_ticket = replace(review.ticket, id="", request="") if review.ticket is not None else None
    return {**vars(review), "decision": decision, "gate_input": asked, "ticket": given_ticket}


# Whatever decides survives ---------------------------------------------------------------------------------------


class Desk:
    """Does one step after the other in a session and says what came of each."""

    def __init__(self, gate: Gate) -> None:
        self.session = Session(gate, now=NOW, session_id="desk")
        self.reads: list[str] = []
        self.tickets: list[Ticket] = []

    def step(self, name: str, *rest: Any) -> Any:
        try:
            return getattr(self, name)(*rest)
        except LedgerAgentError as error:
            return type(error), str(error)

    def issue(self, tool: str, arguments: dict[str, Any]) -> Any:
        self.reads.append(f"read-{len(self.reads)}")
        return self.session.issue(tool, arguments, self.reads[-1])

    def returns(self, which: int, content: Any, error: bool) -> Any:
        call_id = self.reads[which % len(self.reads)] if self.reads else "none"
        text = content if isinstance(content, str) else json.dumps(content)
        return self.session.observe(call_id, text, error=error)

    def read(self, tool: str, arguments: dict[str, Any], content: Any) -> Any:
        self.issue(tool, arguments)
        return self.returns(-1, content, error=False)

    def propose(self, calls: list[Call]) -> Any:
        self.session.next_turn()
        reviews = self.session.review(calls)
        self.tickets += [review.ticket for review in reviews if review.ticket is not None]
        return [told(review) for review in reviews]

    def redeem(self, which: int) -> Any:
        return self.session.redeem(self._ticket(which))

    def report(self, which: int, outcome: Any) -> None:
        self.session.report(self._ticket(which), outcome, {"note": EMAIL})

    def run(self, which: int, outcome: Any) -> None:
        self.redeem(which)
        self.report(which, outcome)

    def identify(self, who: str) -> None:
        self.session.identify(Principal(id=who, source="host", claims={"roles": ("a", 1.0)}))

    def clock(self, now: str) -> None:
        self.session.set_clock(now)

    def recover(self) -> None:
        self.session.recover()

    def close(self) -> None:
        self.session.close()

    def _ticket(self, which: int) -> Ticket:
        return self.tickets[which % len(self.tickets)] if self.tickets else Ticket("", "", "", "{}", "")


ORDERS: Final = [retail.PENDING, retail.DELIVERED, retail.order("#W1", "cancelled"), retail.order("#W1", "pending")]
READS: Final = [
    ("find_user_id_by_email", {"email": EMAIL}, USER),
    ("find_user_id_by_email", {"email": "eve@example.com"}, EVE),
    ("get_user_details", {"user_id": USER}, retail.PROFILE),
    *(("get_order_details", {"order_id": order["order_id"]}, order) for order in ORDERS),
    ("get_product_details", {"product_id": "lamps"}, retail.LAMPS),
]
PROPOSED: Final = [
    cancel(),
    cancel("#W9"),
    cancel(reason="a whim"),
    move(),
    give_back(),
    give_back("chair-a", "chair-a"),
    swap_lamp(),
    Call("not_declared", {"x": 5.0}, "odd"),
    Call("cancel_pending_order", "\ud800", "text"),
]
OUTCOMES: Final = ["executed", "executed", "refused", "uncertain", "withheld"]
_often = st.one_of(
    st.tuples(st.just("read"), st.sampled_from(READS)).map(lambda one: (one[0], *one[1])),
    st.tuples(st.just("propose"), st.lists(st.sampled_from(PROPOSED), min_size=1, max_size=3)),
    st.tuples(st.just("run"), st.integers(0, 3), st.sampled_from(OUTCOMES)),
)
_seldom = st.one_of(
    st.tuples(st.just("issue"), st.sampled_from(READS)).map(lambda one: (one[0], *one[1][:2])),
    st.tuples(st.just("returns"), st.integers(0, 3), st.sampled_from([one[2] for one in READS]), st.booleans()),
    st.tuples(st.just("redeem"), st.integers(0, 3)),
    st.tuples(st.just("report"), st.integers(0, 3), st.sampled_from(OUTCOMES)),
    st.tuples(st.just("clock"), st.sampled_from([NOW, "2024-05-16T00:00:00Z", "yesterday"])),
    st.tuples(st.sampled_from(["recover", "close"])),
    st.tuples(st.just("identify"), st.sampled_from([USER, USER, EVE])),
)
_known: Final = [("read", *one) for one in (READS[0], READS[2], READS[3], READS[4], READS[7])]


@settings(max_examples=150)
@given(
    st.booleans(),
    st.lists(st.tuples(st.one_of(_often, _often, _often, _seldom), st.booleans()), max_size=25),
)
def test_a_session_decides_the_same_however_often_it_is_written_and_read_back(
    gate: Gate, knows: bool, steps: list[tuple[tuple[Any, ...], bool]]
) -> None:
    stays, moves = Desk(gate), Desk(gate)
    for step, moved in [*((one, True) for one in (_known if knows else ())), *steps]:
        if moved:
            document = moves.session.to_json()
            moves.session = again(moves.session, gate)
            assert moves.session.to_json() == document
        assert moves.step(*step) == stays.step(*step), step
        assert lasting(moves.session) == lasting(stays.session)
    moves.session = again(moves.session, gate)
    for call in PROPOSED:
        assert moves.step("propose", [call]) == stays.step("propose", [call])


def test_a_ticket_is_good_in_the_process_that_goes_on(session: Session, gate: Gate) -> None:
    ticket = admitted(session, cancel())
    elsewhere = again(session, gate)
    assert elsewhere.redeem(ticket) == cancel().arguments
    back = again(elsewhere, gate)
    with pytest.raises(TicketError, match="already spent"):
        back.redeem(ticket)
    back.report(ticket, "executed")
    assert history(back) == [("cancel_pending_order", "executed")]


def test_a_ticket_is_withheld_elsewhere_too_when_its_facts_have_changed(session: Session, gate: Gate) -> None:
    ticket = admitted(session, cancel())
    elsewhere = again(session, gate)
    retail.read_order(elsewhere, retail.order("#W1", "delivered"))
    with pytest.raises(TicketError, match="facts that admitted cancel_pending_order have changed"):
        elsewhere.redeem(ticket)


def test_the_fourth_rejection_of_a_call_is_a_block_wherever_the_first_three_were(session: Session, gate: Gate) -> None:
    verdicts = []
    for _ in range(4):
        verdicts.append(propose(session, cancel("#W9")).verdict)
        session = again(session, gate)
    assert verdicts == ["revise", "revise", "revise", "block"]


def test_what_the_agent_was_shown_in_one_process_proves_nothing_in_the_next(gate: Gate) -> None:
    session = Session(gate, now=NOW)
    retail.read_profile(session)
    assert retail.authenticate(again(session, gate)).paths == ()


def test_a_read_returns_in_the_process_that_goes_on_and_once(gate: Gate) -> None:
    session = Session(gate, now=NOW)
    issued = session.issue("get_order_details", {"order_id": "#W1"})
    elsewhere = again(session, gate)
    assert elsewhere.observe(issued.call_id, json.dumps(retail.PENDING)).paths == (("orders", "#W1"),)
    with pytest.raises(LedgerError, match="already answered"):
        again(elsewhere, gate).observe(issued.call_id, json.dumps(retail.PENDING))


def test_a_session_that_ended_stays_ended(session: Session, gate: Gate) -> None:
    session.close("the customer hung up")
    with pytest.raises(SessionClosed, match="the customer hung up"):
        again(session, gate).review([cancel()])


def test_whom_the_host_authenticated_is_the_same_person_to_the_next_process(gate: Gate) -> None:
    somebody = Principal(id=USER, source="host", claims={"roles": ("a", "b")})
    session = again(Session(gate, now=NOW, principal=somebody), gate)
    session.identify(somebody)
    with pytest.raises(SessionClosed, match="the principal changed"):
        session.identify(Principal(id=EVE, source="host"))


# Where a process was lost ----------------------------------------------------------------------------------------


def test_what_was_under_way_when_a_process_was_lost_counts_as_having_happened(session: Session, gate: Gate) -> None:
    started, waiting = admitted(session, cancel()), admitted(session, give_back())
    session.redeem(started)
    read = session.issue("get_order_details", {"order_id": "#W1"})
    session = again(session, gate)
    session.recover()
    assert history(session) == [("cancel_pending_order", "uncertain"), ("return_delivered_order_items", "uncertain")]
    for attempt in (lambda: session.redeem(waiting), lambda: session.report(started, "executed")):
        with pytest.raises(TicketError, match="it is spent, withheld, or of another session"):
            attempt()
    with pytest.raises(LedgerError, match="never issued, or already answered"):
        session.observe(read.call_id, json.dumps(retail.PENDING))


def test_after_a_process_was_lost_no_read_proves_who_the_customer_is(gate: Gate) -> None:
    session = Session(gate, now=NOW)
    session.recover()
    assert retail.authenticate(session).paths == ()
    session.identify(Principal(id=USER, source="host"))
    assert session.principal == Principal(id=USER, source="host")


# The keeper ------------------------------------------------------------------------------------------------------


def test_the_state_is_kept_whenever_something_leaves_the_session_that_may_be_acted_on(gate: Gate) -> None:
    kept: list[list[tuple[str, bool]]] = []

    def keeper(session: Session) -> None:
        document = session.to_json()
        running = {ticket["write"]: ticket["running"] for ticket in document["tickets"]}
        kept.append([(write["outcome"], running.get(write["number"], False)) for write in document["writes"]])

    session = retail.desk(gate, keeper=keeper)
    propose(session, cancel("#W9"))
    assert kept == []
    ticket = admitted(session, cancel())
    assert kept == [[("pending", False)]]
    session.redeem(ticket)
    assert kept[1:] == [[("pending", True)]]
    session.report(ticket, "executed")
    assert kept[2:] == [[("executed", False)]]


class Store:
    """A keeper that fails when it is told to."""

    def __init__(self) -> None:
        self.gone = False

    def __call__(self, session: Session) -> None:
        if self.gone:
            raise SessionLost("gone")


def _reviewed(session: Session, ticket: Ticket) -> Any:
    return session.review([give_back()])


def _redeemed(session: Session, ticket: Ticket) -> Any:
    return session.redeem(ticket)


def _executed(session: Session, ticket: Ticket) -> Any:
    return session.execute(ticket, lambda tool, arguments: pytest.fail("it ran"))


@pytest.mark.parametrize("attempt", [_reviewed, _redeemed, _executed])
def test_what_could_not_be_kept_does_not_leave_and_ends_the_session_here(
    gate: Gate, attempt: Callable[[Session, Ticket], Any]
) -> None:
    store = Store()
    session = retail.desk(gate, keeper=store)
    ticket = admitted(session, cancel())
    store.gone = True
    with pytest.raises(SessionLost, match="gone"):
        attempt(session, ticket)
    assert session.to_json()["writes"] == []
    for more in (lambda: session.review([move()]), lambda: session.redeem(ticket)):
        with pytest.raises(SessionClosed, match="its state could not be kept: gone"):
            more()


def test_an_outcome_that_could_not_be_kept_counts_here_and_is_told(gate: Gate) -> None:
    store = Store()
    session = retail.desk(gate, keeper=store)
    ticket = admitted(session, cancel())

    def run(tool: str, arguments: dict[str, Any]) -> str:
        store.gone = True
        return "done"

    with pytest.raises(SessionLost, match="gone"):
        session.execute(ticket, run)
    assert [write["outcome"] for write in session.to_json()["writes"]] == ["executed"]


# What is no sound session ----------------------------------------------------------------------------------------


@pytest.fixture
def written(session: Session) -> dict[str, Any]:
    """The document of a session with a finished, a running and a waiting write, a read under way and a rejection."""
    retail.run(session, give_back())
    session.redeem(admitted(session, cancel()))
    admitted(session, Call("modify_user_address", {"user_id": USER, **retail.ADDRESS}, "home-1"))
    propose(session, cancel("#W9"))
    session.issue("get_order_details", {"order_id": "#W1"}, "read-1")
    document: dict[str, Any] = json.loads(canonical(session.to_json()))
    return document


def test_a_document_says_what_the_session_is(written: dict[str, Any]) -> None:
    assert {name: len(value) if isinstance(value, list) else value for name, value in written.items()} == {
        "contract": "ledgeragent.session/1",
        "id": "desk",
        "domain": "retail",
        "enforced": True,
        "now": NOW,
        "turn": 4,
        "event": written["event"],
        "principal": None,
        "closed": None,
        "writes": 3,
        "tickets": 2,
        "issued": 1,
        "rejected": 1,
        "spent": 0,
        "seen": len(written["seen"]),
        "seen_all": False,
        "ledger": written["ledger"],
    }
    assert [(write["outcome"], write["tool"]) for write in written["writes"]] == [
        ("executed", "return_delivered_order_items"),
        ("pending", "cancel_pending_order"),
        ("pending", "modify_user_address"),
    ]


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ([("contract", "ledgeragent.session/2")], "not a session of domain 'retail' under contract"),
        ([("domain", "airline")], "not a session of domain 'retail'"),
        ([("now", "today")], "now: String should match pattern"),
        ([("turn", "4")], "turn: Input should be a valid integer"),
        ([("event", True)], "event: Input should be a valid integer"),
        ([("seen_all", 0)], "seen_all: Input should be a valid boolean"),
        ([("id", "")], "id: String should have at least 1 character"),
        ([("extra", 1)], "…: Extra inputs are not permitted"),
        ([("seen", ...)], "seen: Field required"),
        ([("spent", ...)], "spent: Field required"),
        ([("writes/1/outcome", "refused")], "outcome: Input should be 'executed', 'uncertain' or 'pending'"),
        ([("writes/1/outcome", "executed")], "a pending write has no ticket, or a ticket no pending write"),
        ([("tickets/0", ...)], "a pending write has no ticket"),
        ([("tickets/0/write", 99_999)], "a ticket no pending write"),
        ([("tickets/1/running", True)], "more than one write is running"),
        ([("tickets/1/id", "same"), ("tickets/0/id", "same")], "two tickets have one id"),
        ([("writes/0/number", 99_999)], "the writes are not in the order in which they were admitted"),
        ([("event", 3)], "the writes are not in the order in which they were admitted"),
        ([("issued/0/issued", 99_999)], "was issued in the future"),
        ([("issued/0/tool", "cancel_pending_order")], "what is under way as a read is none in domain"),
        ([("issued/0/tool", "not_declared")], "what is under way as a read is none in domain"),
        ([("issued/0/arguments/deep", 2**60)], r"arguments of a read contains an integer beyond"),
        ([("writes/0/arguments/deep", 1e300)], "arguments of a write contains a number"),
        ([("ledger", {})], "not a ledger of domain 'retail'"),
        ([("ledger/records/0", ...)], "its digest does not fit its records"),
        (
            [("ledger/records/0/provenance/issued", "1")],
            "the ledger.s text is damaged: a provenance has a field of another type",
        ),
    ],
)
def test_a_damaged_document_is_refused(
    gate: Gate, written: dict[str, Any], changes: list[tuple[str, Any]], complaint: str
) -> None:
    with pytest.raises(LedgerError, match=complaint):
        Session.from_json(toy.but(written, *changes), gate)


@pytest.mark.parametrize("name", ["issued", "rejected"])
def test_what_stands_twice_in_a_document_is_refused(gate: Gate, written: dict[str, Any], name: str) -> None:
    with pytest.raises(LedgerError, match="twice"):
        Session.from_json(toy.but(written, (f"{name}/+", written[name][0])), gate)


def test_a_session_of_another_domain_is_refused(tmp_path: Path, toy_domain: Domain, written: dict[str, Any]) -> None:
    with pytest.raises(LedgerError, match="not a session of domain 'toy'"):
        Session.from_json(written, toy.gate(toy_domain, tmp_path))


def test_a_session_that_outgrew_the_limits_is_refused(gate: Gate, written: dict[str, Any]) -> None:
    with pytest.raises(LedgerError, match="its limit is 1"):
        Session.from_json(written, gate, limits=Limits(records=1))


def test_what_only_a_shadow_gate_let_through_does_not_run_under_a_gate(gate: Gate) -> None:
    shadow = retail.desk(ShadowGate(gate))
    ticket = admitted(shadow, cancel("#W9"))
    with pytest.raises(LedgerError, match="that a gate did not judge"):
        again(shadow, gate)
    watched = again(shadow, ShadowGate(gate))
    watched.redeem(ticket)
    watched.report(ticket, "executed")
    assert history(again(watched, gate)) == [("cancel_pending_order", "executed")]


@pytest.mark.parametrize(
    ("claim", "complaint"),
    [(float("nan"), "the session's principal contains a number that is not finite"), ({1, 2}, "contains a set")],
)
def test_claims_that_could_not_be_read_back_are_refused_when_a_session_is_written(
    gate: Gate, claim: Any, complaint: str
) -> None:
    session = Session(gate, now=NOW, principal=Principal(id=USER, source="host", claims={"odd": claim}))
    with pytest.raises(BadInput, match=complaint):
        session.to_json()


def test_an_id_that_could_not_be_read_back_is_refused_when_a_session_is_written(gate: Gate) -> None:
    with pytest.raises(BadInput, match="the session cannot be written as a document: id"):
        Session(gate, now=NOW, session_id="\ud800").to_json()


def test_records_as_deep_as_they_may_be_are_read_back(toy_domain: Domain, tmp_path: Path) -> None:
    gate = toy.gate(toy_domain, tmp_path)
    deep: Any = {}
    for _ in range(28):
        deep = {"a": deep}
    session = Session(gate, now=toy.NOW)
    assert look_up(session, "get_person", {"id": "p1"}, {**toy.person(), "deep": deep}).paths == (("people", "p1"),)
    assert again(session, gate).ledger.lookup(("people", "p1", "deep")) == deep
