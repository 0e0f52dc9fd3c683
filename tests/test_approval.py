"""Consent: who is asked for what, which grants a host takes, and that none of them lifts more than it says."""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ledgeragent.agent import AsyncLedgerAgent, LedgerAgent
from ledgeragent.approval import ApprovalKey, Approvals, Signer, facts_digest, parse_grant
from ledgeragent.contracts import ApprovalRequest, DecisionRecord, Grant, SignedGrant
from ledgeragent.domain import Domain
from ledgeragent.engine import Engine, open_engine
from ledgeragent.errors import BadInput
from ledgeragent.gate import Gate, ShadowGate
from ledgeragent.jsonio import canonical, parse
from ledgeragent.records import Record
from ledgeragent.replay import findings
from ledgeragent.rollout import Rollout
from ledgeragent.session import Call, Review, Session
from ledgeragent.shops import open_shop
from support.engines import Change, Meddled
from support.scripted_model import AsyncScriptedModel, ScriptedModel, calls, says

NOW = "2024-05-15T15:00:00-05:00"
WALL = "2026-06-01T12:00:00+00:00"
USER = "wanda_kessler_3107"
TRIP = "KX4T2B"
RULE = "airline.cancel_requires_basis"
CANCEL = Call("cancel_reservation", {"reservation_id": TRIP}, "c1")
SECRET = b"s" * 32
OTHER_SECRET = b"o" * 32
STATUSES = (("NB172", "2024-05-20"), ("NB171", "2024-05-24"))
APPROVED = {
    "airline": {
        "settings": {
            "cancellation_approvers": {
                "value": ["grace", USER, "bot"],
                "owner": "Support",
                "reason": "Goodwill",
                "expires": "2024-12-31",
            }
        }
    }
}


def key(id_: str = "desk", secret: bytes = SECRET, **about: Any) -> ApprovalKey:
    names = ["grace", "mia", USER, "bot"] if about.get("kind", "approval") == "approval" else []
    text = base64.b64encode(secret).decode()
    return ApprovalKey(
        id=id_, **{"kind": "approval", "algorithm": "hmac-sha256", "approvers": names, **about}, key=text
    )


APPROVALS = Approvals([key(), key("app", OTHER_SECRET, kind="user_confirmation")], agents=["bot"], clock=lambda: WALL)
DESK = Signer.hmac("desk", SECRET)


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with open_engine("embedded", overrides=APPROVED) as engine:
        yield engine


@pytest.fixture(scope="module")
def gate(engine: Engine) -> Gate:
    return Gate(Domain.load("airline"), engine)


@pytest.fixture(autouse=True)
def _wall(monkeypatch: pytest.MonkeyPatch) -> None:
    """The signers' wall clock shows what the host's does."""
    monkeypatch.setattr("ledgeragent.approval.wall_clock", lambda: WALL)


def read(session: Session, tool: str, **arguments: Any) -> None:
    shop = open_shop("airline")
    issued = session.issue(tool, arguments)
    content = shop.tools[tool].run(tool, arguments)
    session.observe(issued.call_id, content if isinstance(content, str) else canonical(content))


def desk(gate: Gate | ShadowGate, *, known: bool = True, **about: Any) -> Session:
    """A session that read what a cancellation is judged by: nothing but an approval can allow it."""
    session = Session(gate, now=NOW, session_id="desk", **{"approvals": APPROVALS, **about})
    if known:
        read(session, "get_user_details", user_id=USER)
        read(session, "get_reservation_details", reservation_id=TRIP)
        for number, date in STATUSES:
            read(session, "get_flight_status", flight_number=number, date=date)
    return session


def review(session: Session, *grants: SignedGrant, call: Call = CANCEL) -> Review:
    return session.review([call], grants=grants)[0]


def wanted(session: Session) -> ApprovalRequest:
    request = review(session).request
    assert request is not None
    return request


def changed(grant: SignedGrant, **fields: Any) -> SignedGrant:
    """The same grant with other fields, signed anew."""
    return DESK.sign(Grant.model_validate({**grant.grant.model_dump(), **fields}))


def lifted(said: Review) -> list[tuple[str, str | None]]:
    assert said.decision is not None
    return [(one.predicate, one.grant) for one in said.decision.obligations]


# What a person is asked ------------------------------------------------------------------------------------------


def test_a_call_that_only_wants_an_approval_says_what_there_is_to_see(gate: Gate) -> None:
    said = review(desk(gate))
    assert said.decision is not None
    assert (said.verdict, lifted(said)) == ("block", [(RULE, None)])
    request = said.request
    assert request is not None
    shown = request.model_dump(exclude={"evidence"})
    assert shown == {
        "contract": "ledgeragent.approval-request/1",
        "request": said.decision.request,
        "domain": "airline",
        "session": "desk",
        "now": NOW,
        "requester": USER,
        "tool": "cancel_reservation",
        "arguments": {"reservation_id": TRIP},
        "obligations": [
            {
                "kind": "approval",
                "predicate": RULE,
                "approvers": ["bot", "grace", USER],
                "message": said.decision.findings[0].message,
            }
        ],
        "facts": facts_digest(said.gate_input),
    }
    assert [(one.path[-1], one.value, one.tool) for one in request.evidence if one.path[-1] == "insurance"] == [
        ("insurance", "no", "get_reservation_details")
    ]
    assert len(request.evidence) == len(said.decision.findings[0].paths)
    assert said.message.splitlines()[0] == (
        "cancel_reservation was not executed. It needs an approval by somebody else than who asks for it. "
        "Say so, and propose the very same call again once given:"
    )


@pytest.mark.parametrize(
    "call",
    [
        Call("cancel_reservation", {"reservation_id": "NOSUCH"}, "c1"),
        Call("cancel_reservation", {"trip": TRIP}, "c1"),
        Call("cancel_reservation", "{", "c1"),
        Call("refund_everything", {}, "c1"),
    ],
)
def test_where_consent_would_not_be_enough_nobody_is_asked(gate: Gate, call: Call) -> None:
    assert review(desk(gate), call=call).request is None


def test_nobody_is_asked_where_nobody_knows_who_asks(gate: Gate) -> None:
    assert review(desk(gate, known=False)).request is None


# Which grants lift ------------------------------------------------------------------------------------------------


def test_a_grant_admits_exactly_the_call_that_was_asked_for(gate: Gate) -> None:
    session = desk(gate)
    grant = DESK.grant(wanted(session), "grace")
    said = review(session, grant)
    assert said.decision is not None
    assert (said.verdict, said.refused_grants, lifted(said)) == ("allow", (), [(RULE, grant.grant.id)])
    assert [(one.predicate, one.mode) for one in said.decision.findings] == [(RULE, "lifted")]
    assert said.ticket is not None
    assert session.execute(said.ticket, lambda tool, arguments: (tool, arguments)) == (CANCEL.tool, CANCEL.arguments)


LATER = {"session": "2024-05-15T15:15:00-05:00", "host": "2026-06-01T12:15:00+00:00"}
FIELDS: dict[str, tuple[dict[str, Any], str | None]] = {
    "kind": ({"kind": "user_confirmation"}, "its key may not sign a grant of the kind user_confirmation"),
    "predicates": ({"predicates": ["airline.owner"]}, None),
    "domain": ({"domain": "retail"}, "it is for another session"),
    "session": ({"session": "other"}, "it is for another session"),
    "tool": ({"tool": "send_certificate"}, "it is for another call"),
    "arguments": ({"arguments": {"reservation_id": "NL4T7C"}}, "it is for another call"),
    "more arguments": ({"arguments": {"reservation_id": TRIP, "refund": True}}, "it is for another call"),
    "facts": ({"facts": "sha256:" + "0" * 64}, "what the call was judged by has changed since"),
    "who asks": ({"approver": USER}, "who asks cannot approve"),
    "an agent": ({"approver": "bot"}, "an agent cannot consent"),
    "nobody of the key's": ({"approver": "lin"}, "its key may not sign in the approver's name"),
    "nobody of the policy's": ({"approver": "mia"}, None),
    "issued later": ({"issued": "2024-05-15T15:00:01-05:00"}, "it was issued later than now"),
    "no day": ({"issued": "2024-02-30T15:00:00-05:00"}, "it names a time that there is not"),
    "session's clock": ({"expires": {**LATER, "session": NOW}}, "it has expired"),
    "wall clock": ({"expires": {**LATER, "host": WALL}}, "it has expired"),
    "too long": (
        {"expires": {**LATER, "session": "2024-05-15T16:00:01-05:00"}},
        "it is in force for longer than 3600 s",
    ),
    "too long by the wall clock": (
        {"expires": {**LATER, "host": "2027-01-01T00:00:00Z"}},
        "it is in force for longer than 3600 s",
    ),
}
"""A binding → another value, and why the host does not take it; None where that is the policy's part."""


@pytest.mark.parametrize("what", FIELDS)
def test_with_one_binding_changed_a_grant_lifts_nothing(gate: Gate, what: str) -> None:
    fields, why = FIELDS[what]
    session = desk(gate)
    grant = changed(DESK.grant(wanted(session), "grace"), **fields)
    said = review(session, grant)
    assert (said.verdict, lifted(said)) == ("block", [(RULE, None)])
    assert [one.split(": ", 1)[1] for one in said.refused_grants] == ([why] if why is not None else [])


def test_the_same_grant_signed_anew_lifts(gate: Gate) -> None:
    """The table above changes one thing at a time."""
    session = desk(gate)
    assert review(session, changed(DESK.grant(wanted(session), "grace"))).verdict == "allow"


@pytest.mark.parametrize("field", sorted(Grant.model_fields))
def test_what_was_edited_after_it_was_signed_is_not_taken(gate: Gate, field: str) -> None:
    session = desk(gate)
    grant = DESK.grant(wanted(session), "grace")
    document = grant.model_dump()
    own = document["grant"][field]
    edited = {"arguments": {}, "expires": {**LATER, "host": WALL}, "issued": WALL, "predicates": ["x"]}
    document["grant"][field] = edited.get(field, "user_confirmation" if field == "kind" else f"{own}x".lower())
    said = review(session, SignedGrant.model_validate(document))
    assert said.verdict == "block"
    assert said.refused_grants[0].endswith("its signature is none of a key that this host takes")


MISTYPED = [
    (field, value)
    for field in ("contract", "key", "signature", *(f"grant/{one}" for one in Grant.model_fields))
    for value in (None, 7, "", [], {}, True)
    if (field, value) != ("grant/arguments", {})  # a call may have none
]


@pytest.mark.parametrize(("field", "value"), MISTYPED)
def test_what_is_mistyped_is_no_grant(gate: Gate, field: str, value: Any) -> None:
    document = DESK.grant(wanted(desk(gate)), "grace").model_dump()
    holder = document["grant"] if field.startswith("grant/") else document
    holder[field.removeprefix("grant/")] = value
    with pytest.raises(BadInput, match="not a signed grant"):
        parse_grant(canonical(document))


@pytest.mark.parametrize("field", sorted(Grant.model_fields))
def test_what_lacks_a_binding_is_no_grant(gate: Gate, field: str) -> None:
    document = DESK.grant(wanted(desk(gate)), "grace").model_dump()
    del document["grant"][field]
    with pytest.raises(BadInput, match="not a signed grant"):
        parse_grant(canonical(document))


def test_a_key_signs_its_own_kind_only(gate: Gate) -> None:
    session = desk(gate)
    grant = DESK.grant(wanted(session), "grace").grant
    said = review(session, Signer.hmac("app", OTHER_SECRET).sign(grant))
    assert said.refused_grants[0].endswith("its key may not sign a grant of the kind approval")
    unknown = review(session, Signer.hmac("desk", OTHER_SECRET).sign(grant))
    assert unknown.refused_grants[0].endswith("its signature is none of a key that this host takes")
    assert {said.verdict, unknown.verdict} == {"block"}


# What a grant is bound to -----------------------------------------------------------------------------------------


def test_an_unrelated_read_and_the_same_values_again_leave_it_good(gate: Gate) -> None:
    session = desk(gate)
    grant = DESK.grant(wanted(session), "grace")
    read(session, "search_direct_flight", origin="BOS", destination="ORD", date="2024-05-20")
    read(session, "get_reservation_details", reservation_id=TRIP)
    assert review(session, grant).verdict == "allow"


def test_a_deciding_fact_that_changed_voids_it(gate: Gate) -> None:
    session = desk(gate)
    grant = DESK.grant(wanted(session), "grace")
    reservation = dict(open_shop("airline").data["reservations"][TRIP])
    issued = session.issue("get_reservation_details", {"reservation_id": TRIP})
    session.observe(issued.call_id, canonical({**reservation, "created_at": "2024-05-01T00:00:00"}))
    said = review(session, grant)
    assert (said.verdict, said.refused_grants[0].split(": ", 1)[1]) == ("block", FIELDS["facts"][1])


def test_a_write_in_between_voids_it(gate: Gate) -> None:
    session = desk(gate)
    grant = DESK.grant(wanted(session), "grace")
    [before] = session.review(
        [
            Call(
                "update_reservation_baggages",
                {"reservation_id": TRIP, "total_baggages": 6, "nonfree_baggages": 0, "payment_id": "credit_card_3107"},
                "c0",
            )
        ]
    )
    assert before.ticket is not None
    session.execute(before.ticket, lambda *_: "done")
    assert review(session, grant).refused_grants[0].endswith("what the call was judged by has changed since")


def test_it_expires_by_the_sessions_clock_and_by_the_wall_clock(gate: Gate) -> None:
    wall = [WALL]
    session = desk(gate, approvals=Approvals([key()], clock=lambda: wall[0]))
    grant = DESK.grant(wanted(session), "grace", seconds=60)
    wall[0] = "2026-06-01T12:01:00+00:00"
    assert review(session, grant).refused_grants[0].endswith("it has expired")
    wall[0] = WALL
    session.set_clock("2024-05-15T15:01:00-05:00")
    assert review(session, grant).refused_grants[0].endswith("it has expired")


# Once -------------------------------------------------------------------------------------------------------------


def restarted(session: Session, gate: Gate) -> Session:
    """The session as another process reads it."""
    document = parse(canonical(session.to_json()), what="a session", limit=10_000_000)
    return Session.from_json(document, gate, approvals=APPROVALS)


@pytest.mark.parametrize("again", [lambda session, _: session, restarted])
def test_a_grant_is_used_once_also_after_a_restart(gate: Gate, again: Callable[[Session, Gate], Session]) -> None:
    session = desk(gate)
    grant = DESK.grant(wanted(session), "grace")
    assert review(session, grant).verdict == "allow"
    session = again(session, gate)
    assert review(session, grant).refused_grants[0].endswith("it was used before")


def test_a_grant_that_was_not_used_is_good_after_a_restart(gate: Gate) -> None:
    session = desk(gate)
    grant = DESK.grant(wanted(session), "grace")
    assert review(restarted(session, gate), grant).verdict == "allow"


def test_a_grant_is_not_spent_by_a_call_that_is_rejected_all_the_same(gate: Gate) -> None:
    session = desk(gate)
    grant = DESK.grant(wanted(session), "grace")
    other = replace(CANCEL, arguments={"reservation_id": "NOSUCH"})
    assert review(session, grant, call=other).verdict != "allow"
    assert review(session, grant).verdict == "allow"


def test_of_two_calls_in_one_message_one_grant_admits_one(gate: Gate) -> None:
    session = desk(gate)
    grant = DESK.grant(wanted(session), "grace")
    reviews = session.review([CANCEL, replace(CANCEL, call_id="c2")], grants=[grant])
    assert [one.verdict for one in reviews] == ["allow", "block"]


# What no grant lifts ----------------------------------------------------------------------------------------------


def test_no_grant_lifts_an_error_of_the_engine(gate: Gate, engine: Engine) -> None:
    session = desk(gate)
    grant = DESK.grant(wanted(session), "grace")
    session.gate = Gate(gate.domain, Meddled(engine, lambda rule, answer: answer if rule == "proof" else None))
    said = review(session, grant)
    assert said.failure is not None
    assert (said.verdict, said.failure.code, said.request) == ("block", "decision.schema", None)
    session.gate = gate
    assert review(session, grant).verdict == "allow"  # nothing was spent


def test_no_grant_lifts_a_freeze(gate: Gate) -> None:
    session = desk(gate)
    grant = DESK.grant(wanted(session), "grace")
    frozen = {"owner": "Security", "reason": "Incident.", "since": "2024-05-01"}
    with open_engine(
        "embedded", overrides=APPROVED, freeze={"airline": {"tools": {"cancel_reservation": frozen}}}
    ) as engine:
        session.gate = Gate(gate.domain, engine)
        said = review(session, grant)
        assert said.decision is not None
        assert [(one.predicate, one.mode) for one in said.decision.findings] == [
            (RULE, "lifted"),
            ("gate.frozen", "enforce"),
        ]
        assert (said.verdict, said.request) == ("block", None)


def test_without_the_deployments_setting_nothing_is_approvable(gate: Gate, embedded: Engine) -> None:
    session = desk(gate)
    grant = DESK.grant(wanted(session), "grace")
    session.gate = Gate(gate.domain, embedded)
    said = review(session, grant)
    assert (said.verdict, lifted(said), said.request) == ("block", [], None)


def test_a_call_that_waits_for_its_approval_is_no_loop_and_one_that_got_none_is(gate: Gate) -> None:
    session = desk(gate)
    request = wanted(session)
    for _ in range(2):
        assert review(session).request is not None
    looping = review(session)
    assert looping.decision is not None
    assert "gate.loop" in {one.predicate for one in looping.decision.findings}
    assert looping.request is None
    foreign = changed(DESK.grant(request, "grace"), session="other")
    assert review(session, foreign).verdict == "block"
    assert review(session, DESK.grant(request, "grace")).verdict == "allow"


# What a host believes ---------------------------------------------------------------------------------------------


def lying(change: Callable[[dict[str, Any]], None]) -> Change:
    def answer(rule: str, decision: dict[str, Any]) -> dict[str, Any]:
        if rule == "decision":
            change(decision)
        return decision

    return answer


def lift(decision: dict[str, Any], **about: Any) -> None:
    decision["verdict"] = "allow"
    decision["findings"][0]["mode"] = "lifted"
    decision["obligations"][0].update({"grant": "made-up", **about})


def lift_without_grant(decision: dict[str, Any]) -> None:
    lift(decision)
    decision["obligations"] = []


def lift_what_is_unknown(decision: dict[str, Any]) -> None:
    lift(decision)
    decision["findings"][0]["status"] = "unknown"


def lift_twice(decision: dict[str, Any]) -> None:
    lift(decision)
    decision["obligations"] *= 2


def lift_a_loop(decision: dict[str, Any]) -> None:
    lift(decision)
    for one in (decision["findings"][0], decision["obligations"][0]):
        one["predicate"] = "gate.loop"


LIES: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    "a grant that nobody gave": (lift, "decision.grant"),
    "no obligation": (lift_without_grant, "decision.schema"),
    "an open obligation": (lambda decision: lift(decision, grant=None), "decision.schema"),
    "an unknown finding": (lift_what_is_unknown, "decision.schema"),
    "an obligation twice": (lift_twice, "decision.schema"),
    "the gate's own finding": (lift_a_loop, "decision.schema"),
    "another kind": (lambda decision: lift(decision, kind="user_confirmation"), "decision.grant"),
    "another predicate's obligation": (lambda decision: lift(decision, predicate="airline.owner"), "decision.schema"),
    "an obligation of what is not found": (
        lambda decision: decision["obligations"].append({**decision["obligations"][0], "predicate": "airline.owner"}),
        "decision.schema",
    ),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_finding_lifted_by_no_grant_that_the_host_verified_is_a_block(gate: Gate, engine: Engine, lie: str) -> None:
    session = desk(gate)
    change, code = LIES[lie]
    session.gate = Gate(gate.domain, Meddled(engine, lying(change)))
    said = review(session)
    assert said.failure is not None
    assert (said.verdict, said.failure.code) == ("block", code)


def test_a_grant_for_one_predicate_lifts_no_other(gate: Gate, engine: Engine) -> None:
    session = desk(gate)
    grant = changed(DESK.grant(wanted(session), "grace"), predicates=["airline.owner"])
    lie = lying(lambda decision: lift(decision, grant=grant.grant.id))
    session.gate = Gate(gate.domain, Meddled(engine, lie))
    said = review(session, grant)
    assert said.failure is not None
    assert said.failure.code == "decision.grant"


# The session ------------------------------------------------------------------------------------------------------


def test_a_session_takes_no_grants_unless_it_has_somebodys_keys(gate: Gate) -> None:
    grant = DESK.grant(wanted(desk(gate)), "grace")
    session = desk(gate, approvals=None)
    for about in ({"grants": [grant]}, {"approve": lambda _: grant}):
        with pytest.raises(BadInput, match="takes no grants: open it with `approvals`"):
            session.review([CANCEL], **about)  # type: ignore[arg-type]


def test_more_grants_than_anybody_needs_are_refused_at_once(gate: Gate) -> None:
    session = desk(gate)
    grant = DESK.grant(wanted(session), "grace")
    with pytest.raises(BadInput, match="21 grants at once"):
        session.review([CANCEL], grants=[grant] * 21)


class Kept:
    def __init__(self) -> None:
        self.records: list[Record] = []

    def write(self, record: Record) -> None:
        self.records.append(record)


def test_the_record_shows_who_approved_what(gate: Gate) -> None:
    kept = Kept()
    session = desk(gate, recorder=kept)
    grant = DESK.grant(wanted(session), "grace")
    review(session, grant)
    last = kept.records[-1]
    assert isinstance(last, DecisionRecord)
    assert last.decision is not None
    assert last.input.grants == [grant.grant]
    assert [one.grant for one in last.decision.obligations] == [grant.grant.id]


def test_what_was_lifted_is_no_finding_of_a_replay_and_of_no_shadow(gate: Gate) -> None:
    kept = Kept()
    session = desk(ShadowGate(gate), recorder=kept)
    asked = desk(gate)
    grant = DESK.grant(wanted(asked), "grace")
    said = review(session, grant)
    assert (said.verdict, said.would, findings(said)) == ("allow", "allow", [])
    watched = Rollout.of(record.model_dump_json() for record in kept.records)
    assert (watched.watched, dict(watched.verdicts), watched.predicates) == (1, {"allow": 1}, {})


def approving(*seen: list[ApprovalRequest]) -> Callable[[ApprovalRequest], SignedGrant]:
    def approve(request: ApprovalRequest) -> SignedGrant:
        for one in seen:
            one.append(request)
        return DESK.grant(request, "grace")

    return approve


def test_somebody_who_is_asked_at_once_consents_to_this_call_before_the_next_is_judged(gate: Gate) -> None:
    seen: list[ApprovalRequest] = []
    reviews = desk(gate).review([CANCEL, replace(CANCEL, call_id="c2")], approve=approving(seen))
    assert [one.verdict for one in reviews] == ["allow", "block"]  # the same write again, which nobody can approve
    assert [one.tool for one in seen] == ["cancel_reservation"]


@pytest.mark.parametrize("given", [lambda _: None, lambda _: [], lambda _: "yes", lambda _: [True], lambda _: 1 / 0])
def test_whatever_else_comes_of_asking_is_no_consent(gate: Gate, given: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.CRITICAL):
        [said] = desk(gate).review([CANCEL], approve=given)
    assert (said.verdict, said.ticket) == ("block", None)


def test_a_shadow_asks_nobody(gate: Gate) -> None:
    seen: list[ApprovalRequest] = []
    [said] = desk(ShadowGate(gate)).review([CANCEL], approve=approving(seen))
    assert (said.verdict, said.would, said.request, seen) == ("allow", "block", None, [])


# The agent --------------------------------------------------------------------------------------------------------

READS = [
    ("get_user_details", {"user_id": USER}),
    ("get_reservation_details", {"reservation_id": TRIP}),
    *(("get_flight_status", {"flight_number": number, "date": date}) for number, date in STATUSES),
]


def about(**more: Any) -> dict[str, Any]:
    return {"now": NOW, "approvals": APPROVALS, **more}


SCRIPT = (calls(READS[0]), calls(*READS[1:]), calls((CANCEL.tool, CANCEL.arguments)), says("Done."))


def test_an_agent_goes_on_once_somebody_approved(gate: Gate) -> None:
    agent = LedgerAgent(ScriptedModel(*SCRIPT), open_shop("airline").tools, gate, **about(approve=approving()))
    reply = agent.send("Cancel it.")
    assert [one.verdict for step in reply.steps for one in step.reviews] == ["allow"]
    assert [one.outcome for one in agent.session._state.writes] == ["executed"]


async def later(request: ApprovalRequest) -> SignedGrant:
    await asyncio.sleep(0)
    return DESK.grant(request, "grace")


@pytest.mark.parametrize("approve", [approving(), later])
def test_an_awaited_agent_awaits_the_approval(gate: Gate, approve: Any) -> None:
    agent = AsyncLedgerAgent(AsyncScriptedModel(*SCRIPT), open_shop("airline").tools, gate, **about(approve=approve))
    reply = asyncio.run(agent.send("Cancel it."))
    assert [one.verdict for step in reply.steps for one in step.reviews] == ["allow"]


def test_an_awaited_agent_that_is_cancelled_meanwhile_waits_for_nobody(gate: Gate) -> None:
    async def talk() -> Sequence[Mapping[str, Any]]:
        asked = asyncio.Event()

        async def never(_: ApprovalRequest) -> None:
            asked.set()
            await asyncio.Event().wait()

        agent = AsyncLedgerAgent(AsyncScriptedModel(*SCRIPT), open_shop("airline").tools, gate, **about(approve=never))
        turn = asyncio.ensure_future(agent.send("Cancel it."))
        await asked.wait()
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
        assert agent.session._state.writes == []
        return agent.history

    assert asyncio.run(talk())[-1]["role"] == "tool"


def test_an_agent_whose_session_takes_no_grants_asks_nobody(gate: Gate) -> None:
    with pytest.raises(BadInput, match="pass `approvals` too"):
        LedgerAgent(ScriptedModel(), open_shop("airline").tools, gate, now=NOW, approve=approving())


# Keys -------------------------------------------------------------------------------------------------------------


def test_a_host_with_the_public_key_verifies_and_cannot_sign(gate: Gate) -> None:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    private = Ed25519PrivateKey.generate()
    public = private.public_key().public_bytes_raw()
    approvals = Approvals([key("service", public, algorithm="ed25519")], clock=lambda: WALL)
    service = Signer.ed25519("service", private.private_bytes_raw())
    session = desk(gate, approvals=approvals)
    request = wanted(session)
    forged = Signer.hmac("service", public).grant(request, "grace")  # what a host that holds this key could make
    assert review(session, forged).refused_grants[0].endswith("its signature is none of a key that this host takes")
    assert review(session, service.grant(request, "grace")).verdict == "allow"


def test_a_signer_signs_only_what_was_asked_for(gate: Gate) -> None:
    request = wanted(desk(gate))
    with pytest.raises(BadInput, match="the request asks for no user_confirmation"):
        DESK.grant(request, USER, kind="user_confirmation")
    with pytest.raises(BadInput, match="in force for a second"):
        DESK.grant(request, "grace", seconds=0)
    with pytest.raises(BadInput, match="the secret has 4 bytes"):
        Signer.hmac("desk", b"weak")
    with pytest.raises(BadInput, match="an Ed25519 private key has 32 bytes"):
        Signer.ed25519("desk", b"short")


@pytest.mark.parametrize(
    ("keys", "complaint"),
    [
        ([key(), key()], "two approval keys have one id"),
        ([key(approvers=[])], "name approvers for a key of approvals"),
        ([key(kind="user_confirmation", approvers=["grace"])], "and none for confirmations"),
        ([key(secret=b"short")], "'desk' has 5 bytes; give 32 random ones or more"),
        ([key(secret=b"short", algorithm="ed25519")], "'desk' is no Ed25519 public key of 32 bytes"),
        ([key().model_copy(update={"key": "no base64!"})], "'desk' is not base64"),
    ],
)
def test_keys_that_could_not_be_meant_are_refused(keys: list[ApprovalKey], complaint: str) -> None:
    with pytest.raises(BadInput, match=complaint):
        Approvals(keys)


def test_a_keys_file_is_read_strictly(gate: Gate, tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    document = {"contract": "ledgeragent.approval-keys/1", "keys": [key().model_dump()]}
    file.write_text(canonical(document), encoding="utf-8")
    session = desk(gate, approvals=Approvals.load(file, clock=lambda: WALL))
    assert review(session, DESK.grant(wanted(session), "grace")).verdict == "allow"
    file.write_text(canonical({**document, "more": 1}), encoding="utf-8")
    with pytest.raises(BadInput, match="not a file of approval keys"):
        Approvals.load(file)
    with pytest.raises(BadInput, match="no approval keys"):
        Approvals.load(tmp_path / "nowhere.json")
