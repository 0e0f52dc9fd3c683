"""Write schemas/vectors/host/*.json and schemas/vectors/index.json: what a host must do beside asking the gate.

    python scripts/host_vectors.py [--check]

Which answers may be accepted is stated here by hand, and a test plays each against the real gate. Everything else is
exported: the cases are stated here, what must come of them is what the sessions and ledgers of this package do.
docs/vectors.md says what each file is.
"""

from __future__ import annotations

import argparse
import base64
import copy
import hashlib
import hmac
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pydantic import ValidationError

REPO: Final = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(REPO / "tests")]

from ledgeragent import Call, Domain, Gate, Session, open_engine  # noqa: E402
from ledgeragent.approval import ApprovalKey, Approvals, Signer, facts_digest  # noqa: E402
from ledgeragent.contracts import Grant, SignedGrant  # noqa: E402
from ledgeragent.errors import BadInput  # noqa: E402
from ledgeragent.jsonio import canonical, digest, parse  # noqa: E402
from ledgeragent.ledger import Ledger  # noqa: E402
from ledgeragent.paths import Scope  # noqa: E402
from ledgeragent.shops import open_shop  # noqa: E402
from support import retail  # noqa: E402

VECTORS: Final = REPO / "schemas" / "vectors"
VERSION: Final = 1
"""Of the whole suite: raised when an existing vector must come to something else, not when vectors are added."""

Json = dict[str, Any]

PROVED: Final = {"revision": "sha256:" + "a" * 64, "gate": "sha256:" + "b" * 64}
_OTHER: Final = "sha256:" + "c" * 64


# Which answers are accepted ---------------------------------------------------------------------------------------


def _decision(asked: Mapping[str, Any], guarded_by: Sequence[str], *findings: Json) -> Json:
    worst = [one["verdict"] for one in findings if one["mode"] == "enforce"]
    return {
        "contract": "ledgeragent.decision/1",
        "request": asked["request"],
        "verdict": "block" if "block" in worst else "revise" if worst else "allow",
        "findings": list(findings),
        "predicates": list(guarded_by),
        "overrides": [],
        "obligations": [],
        "policy": {**PROVED, "sequence": dict.fromkeys(("domain", "gate", "overrides", "floor", "freeze"), 0)},
    }


def _finding(predicate: str, verdict: str = "block", status: str = "violated", mode: str = "enforce") -> Json:
    return {
        "predicate": predicate,
        "status": status,
        "verdict": verdict,
        "mode": mode,
        "message": "No.",
        "paths": [["orders", "#W1", "status"]],
        "missing": [{"path": ["orders", "#W1", "status"], "cause": "missing"}] if status == "unknown" else [],
    }


_OWNER: Final = "retail.order_owner"
_PENDING: Final = "retail.order_pending"


def _obligation(predicate: str = _OWNER, grant: str | None = None, kind: str = "approval", **about: Any) -> Json:
    return {"kind": kind, "predicate": predicate, "approvers": None, "grant": grant, **about}


def _grant(asked: Mapping[str, Any], *predicates: str, kind: str = "approval") -> Json:
    """A grant for this call, as a host gives it that verified it."""
    return {
        "id": f"{kind} {' '.join(predicates)}",
        "kind": kind,
        "predicates": list(predicates),
        "domain": asked["domain"],
        "session": asked["session"]["id"],
        "tool": asked["action"]["tool"],
        "arguments": asked["action"]["arguments"],
        "facts": "sha256:" + "d" * 64,
        "approver": "grace" if kind == "approval" else asked["session"]["principal"]["id"],
        "issued": asked["session"]["now"],
        "expires": {"session": "2099-12-31T00:00:00Z", "host": "2099-12-31T00:00:00Z"},
    }


def _acceptance(domain: Domain) -> Iterator[Json]:
    first = json.loads((VECTORS / "retail.json").read_text(encoding="utf-8"))["vectors"][0]["input"]
    asked = {**first, "request": "5f2c8a1e0b7d4c63"}
    guarded = list(domain.guarded_by("cancel_pending_order"))
    good = _decision(asked, guarded)

    def case(
        name: str, answer: Any, code: str | None = None, verdict: str = "block", status: int = 200, **about: Any
    ) -> Json:
        body = answer if isinstance(answer, str) else json.dumps({"result": answer})
        return {
            "name": name,
            "input": asked,
            "guarded_by": guarded,
            "proved": PROVED,
            "answer": {"status": status, "body": body},
            "accepted": code is None,
            "verdict": verdict,
            "error": code,
            **about,
        }

    def but(decision: Json, **changes: Any) -> Json:
        return {**copy.deepcopy(decision), **changes}

    def without(name: str) -> Json:
        return {key: value for key, value in good.items() if key != name}

    shadow = _finding(_OWNER, mode="shadow")
    yield case("an allow", good, verdict="allow")
    yield case("a revise", _decision(asked, guarded, _finding(_OWNER, "revise", "unknown")), verdict="revise")
    yield case("a block", _decision(asked, guarded, _finding(_OWNER)))
    yield case("an allow with a finding in shadow", _decision(asked, guarded, shadow), verdict="allow")
    yield case(
        "an answer with OPA's own fields beside the result",
        json.dumps({"decision_id": "4ca636c1-55e4-417a-b1d8-4aceb67960d1", "metrics": {}, "result": good}, indent=1),
        verdict="allow",
    )
    malformed = _decision(asked, [], _finding("gate.arguments", "revise"))
    yield case("arguments that do not fit, no predicate judged", malformed, verdict="revise")

    yield case("the echo of another request", but(good, request="0000000000000000"), "decision.request")
    yield case("an empty echo", but(good, request=""), "decision.request")
    yield case("no echo", without("request"), "decision.schema")
    yield case("an echo that is no text", but(good, request=5), "decision.schema")
    yield case("another contract", but(good, contract="ledgeragent.decision/2"), "decision.schema")
    for verdict in ("permit", "ALLOW", "", None, True, ["allow"], {"allow": True}):
        yield case(f"the verdict {json.dumps(verdict)}", but(good, verdict=verdict), "decision.schema")
    for name in good:
        if name != "request":
            yield case(f"no {name}", without(name), "decision.schema")
    yield case("a field too many", but(good, allow=True), "decision.schema")
    yield case("an allow against its own finding", but(good, findings=[_finding(_OWNER)]), "decision.schema")
    yield case("a revise without a finding", but(good, verdict="revise"), "decision.schema")
    yield case(
        "a block whose only finding is in shadow", but(good, verdict="block", findings=[shadow]), "decision.schema"
    )
    yield case(
        "a revise whose finding says block", but(good, verdict="revise", findings=[_finding(_OWNER)]), "decision.schema"
    )
    yield case("a finding of another status", but(good, findings=[_finding(_OWNER, status="holds")]), "decision.schema")
    yield case("a finding of another mode", but(good, findings=[_finding(_OWNER, mode="off")]), "decision.schema")
    yield case(
        "a finding of the gate itself in shadow",
        but(good, findings=[_finding("gate.loop", mode="shadow")]),
        "decision.schema",
    )
    yield case(
        "a finding of a predicate that is not listed",
        but(good, verdict="block", findings=[_finding("retail.other")]),
        "decision.schema",
    )
    yield case("a predicate missing", but(good, predicates=guarded[:-1]), "decision.predicates")
    yield case("a predicate too many", but(good, predicates=[*guarded, "retail.zeal"]), "decision.predicates")
    yield case("predicates out of order", but(good, predicates=guarded[::-1]), "decision.predicates")
    yield case("no predicates at all", but(good, predicates=[]), "decision.predicates")
    yield case(
        "an allow of a tool that is not declared here",
        but(good, predicates=[]),
        "decision.predicates",
        input={**asked, "action": {**asked["action"], "tool": "made_up"}},
        guarded_by=None,
    )
    yield case(
        "a revision that was not proved", but(good, policy={**good["policy"], "revision": _OTHER}), "decision.revision"
    )
    yield case("a gate that was not proved", but(good, policy={**good["policy"], "gate": _OTHER}), "decision.revision")

    yield from _consents(case, asked, guarded)

    whole = json.dumps({"result": good})
    yield case("an undefined decision", "{}", "engine.undefined")
    yield case("a null decision", None, "decision.schema")
    yield case("a decision that is true", True, "decision.schema")
    yield case("a decision that is the word allow", json.dumps({"result": "allow"}), "decision.schema")
    yield case("a list of decisions", [good], "decision.schema")
    yield case("an answer that is no object", "[]", "engine.answer")
    yield case("no answer", "", "engine.answer")
    yield case("an answer cut off", whole[:-2], "engine.answer")
    yield case("two answers", whole + whole, "engine.answer")
    yield case("markup", "<html>allow</html>", "engine.answer")
    yield case("a key twice", whole.replace('"verdict"', '"verdict": "block", "verdict"'), "engine.answer")
    yield case("a number that is none", whole.replace('"domain": 0', '"domain": NaN'), "engine.answer")
    for status, code in (
        (401, "engine.refused"),
        (403, "engine.refused"),
        (404, "engine.status"),
        (500, "engine.evaluation"),
        (503, "engine.status"),
    ):
        yield case(f"an allow with HTTP status {status}", whole, code, status=status)


def _consents(case: Callable[..., Json], asked: Json, guarded: Sequence[str]) -> Iterator[Json]:
    """What is lifted counts only by a grant that the host verified, put into the input, and finds for just that."""
    own, both = _grant(asked, _OWNER), _grant(asked, _OWNER, _PENDING)
    confirmed = _grant(asked, _PENDING, kind="user_confirmation")
    lifted, open_ = _finding(_OWNER, mode="lifted"), _finding(_OWNER)
    also, also_open = _finding(_PENDING, mode="lifted"), _finding(_PENDING)

    def obliged(obligations: Sequence[Json], *findings: Json, **changes: Any) -> Json:
        return {**_decision(asked, guarded, *findings), "obligations": list(obligations), **changes}

    def given(*grants: Json) -> Json:
        return {"input": {**asked, "grants": list(grants)}}

    by_own = _obligation(grant=own["id"])
    yield case("a block that somebody could lift", obliged([_obligation()], open_))
    named = _obligation(approvers=["grace", "ada"])
    yield case(
        "a revise that only one of two could lift", obliged([named], _finding(_OWNER, "revise")), verdict="revise"
    )
    yield case("a finding lifted by the grant that was given", obliged([by_own], lifted), verdict="allow", **given(own))
    yield case("a grant that nothing was to be lifted by", obliged([]), verdict="allow", **given(own))
    by_both = [_obligation(one, both["id"]) for one in (_OWNER, _PENDING)]
    yield case("two findings lifted by one grant", obliged(by_both, lifted, also), verdict="allow", **given(both))
    by_each = [by_own, _obligation(_PENDING, confirmed["id"], "user_confirmation")]
    yield case(
        "two findings lifted by two kinds of consent",
        obliged(by_each, lifted, also),
        verdict="allow",
        **given(own, confirmed),
    )
    yield case(
        "one finding lifted and one not", obliged([_obligation(_PENDING), by_own], also_open, lifted), **given(own)
    )

    def wrong(
        name: str, obligations: Sequence[Json], *findings: Json, code: str = "decision.schema", **about: Any
    ) -> Json:
        return case(name, obliged(obligations, *findings), code, **{**given(own), **about})

    for name, about in (
        ("a finding lifted, and no grant was given", given()),
        ("a finding lifted by another grant than was given", given({**own, "id": "another"})),
        ("a finding lifted by a grant for another predicate", given({**own, "predicates": [_PENDING]})),
        ("a finding lifted by a grant of another kind", given({**own, "kind": "user_confirmation"})),
    ):
        yield wrong(name, [by_own], lifted, code="decision.grant", **about)
    yield wrong(
        "a block that lifts one finding by a grant for the other",
        [_obligation(_PENDING, own["id"]), _obligation()],
        also,
        open_,
        code="decision.grant",
    )
    yield wrong("a finding lifted without an obligation", [], lifted)
    yield wrong("a finding lifted with its obligation open", [_obligation()], lifted)
    yield wrong("a finding in force with its obligation fulfilled", [by_own], open_)
    yield wrong("a finding in shadow with an obligation", [_obligation()], _finding(_OWNER, mode="shadow"))
    yield wrong("an unknown finding lifted", [by_own], _finding(_OWNER, "revise", "unknown", "lifted"))
    yield wrong("an unknown finding with an obligation", [_obligation()], _finding(_OWNER, "revise", "unknown"))
    yield wrong("an obligation without a finding", [by_own])
    yield wrong("an obligation of another predicate's", [_obligation(_PENDING)], open_)
    yield wrong("an obligation twice", [by_own, by_own], lifted)
    frozen = _finding("gate.frozen", mode="lifted")
    yield wrong("a finding of the gate itself lifted", [_obligation("gate.frozen", own["id"])], frozen)
    yield wrong("a finding of the gate itself with an obligation", [_obligation("gate.loop")], _finding("gate.loop"))
    yield case(
        "a block whose only finding is lifted",
        obliged([by_own], lifted, verdict="block"),
        "decision.schema",
        **given(own),
    )
    for name, row in (
        ("of another kind", _obligation(kind="vote")),
        ("without its grant", {key: value for key, value in _obligation().items() if key != "grant"}),
        ("without approvers", {key: value for key, value in _obligation().items() if key != "approvers"}),
        ("with a field too many", _obligation(by="grace")),
        ("whose grant has an empty id", _obligation(grant="")),
        ("whose grant is no text", _obligation(grant=True)),  # type: ignore[arg-type]
        ("whose approvers are no list", _obligation(approvers="grace")),
        ("whose approver is no text", _obligation(approvers=[None])),
        ("that is no object", "approval"),
    ):
        yield wrong(f"an obligation {name}", [row], open_)  # type: ignore[list-item]


# Slices -----------------------------------------------------------------------------------------------------------


def _slices() -> Iterator[Json]:
    yield from _retail_slices()
    yield from _airline_slices()


def _slice(domain: Domain, facts: Json, principal: str | None) -> Callable[..., Json]:
    def case(name: str, tool: str, arguments: Json, *changed: tuple[str, Json]) -> Json:
        ledger = Ledger.of(domain, facts)
        for number, (write, given) in enumerate(changed, 1):
            ledger.mark(number, domain.changes[write], Scope({"arguments": given}, principal))
        cut = ledger.slice(domain.needs[tool], Scope({"arguments": arguments}, principal))
        declared = {one.name: one for one in domain.file.tools}
        return {
            "name": name,
            "depths": dict(sorted(domain.schema.depths.items())),
            "principal": principal,
            "facts": facts,
            "changed": [{"changes": declared[write].changes, "arguments": given} for write, given in changed],  # type: ignore[union-attr]
            "needs": declared[tool].needs,  # type: ignore[union-attr]
            "arguments": arguments,
            "ledger": cut.ledger,
            "stale": cut.stale,
        }

    return case


def _retail_slices() -> Iterator[Json]:
    domain = Domain.load("retail")
    lamp = {"order_id": "#W1", "item_ids": ["lamp-a"], "new_item_ids": ["lamp-b"], "payment_method_id": "gift_card_1"}
    facts: Json = {
        "auth": {"user_id": retail.USER},
        "users": {retail.USER: retail.PROFILE},
        "orders": {"#W1": retail.PENDING, "#W2": retail.DELIVERED},
        "products": {"lamps": retail.LAMPS, "chairs": retail.CHAIRS},
    }
    cancel = ("cancel_pending_order", {"order_id": "#W1", "reason": "no longer needed"})
    move = ("modify_pending_order_address", {"order_id": "#W1", **retail.ADDRESS})
    change = ("modify_pending_order_items", lamp)
    case = _slice(domain, facts, retail.USER)
    yield case("the fields a tool needs, of the order it names", *cancel)
    yield case("a path that another fact names", *change)
    yield case("an order that was never read", cancel[0], {**cancel[1], "order_id": "#W9"})
    yield case("an argument that is missing", cancel[0], {"reason": "no longer needed"})
    yield case("an argument of another type", cancel[0], {"order_id": 5})
    yield case("what a write before it changed is stale", *cancel, cancel)
    yield case("what does not concern the tool is not said to be stale", *cancel, move)
    yield case("every key that is there", "modify_pending_order_payment", {"order_id": "#W1"}, cancel)
    yield case("a stale field names nothing any more", *change, change)
    yield case("a change of another record", *change, ("modify_pending_order_items", {**lamp, "order_id": "#W2"}))
    yield case("a change that cannot be filled in counts for every key", *cancel, (cancel[0], {}))
    yield case("two changes", *change, cancel, move)
    nobody = _slice(domain, {"orders": facts["orders"]}, None)
    yield nobody("without a principal its records are nobody's", "return_delivered_order_items", {"order_id": "#W2"})
    yield nobody(
        "without a principal a change counts for all", "modify_pending_order_payment", {"order_id": "#W1"}, cancel
    )
    known = _slice(domain, {"users": {retail.USER: retail.PROFILE}}, None)
    yield known("a wide change of a record at hand", "modify_user_address", {"user_id": retail.USER}, cancel)


def _airline_slices() -> Iterator[Json]:
    domain = Domain.load("airline")
    shop = open_shop("airline")
    user = "wanda_kessler_3107"
    read = {
        "users": ("get_user_details", "user_id", [user]),
        "reservations": ("get_reservation_details", "reservation_id", ["KX4T2B"]),
    }
    facts: Json = {
        table: {one: _value(shop.tools[tool].run(tool, {name: one})) for one in ids}
        for table, (tool, name, ids) in read.items()
    }
    facts["auth"] = {"user_id": user}
    case = _slice(domain, facts, user)
    certificate = ("send_certificate", {"user_id": user, "amount": 100})
    yield case("all records of a table", *certificate)
    yield case("a value per element of a list", "cancel_reservation", {"reservation_id": "KX4T2B"})
    yield case("whatever is not there has changed", "book_reservation", {"flights": []}, certificate)
    yield case(
        "a key per element of an argument",
        "book_reservation",
        {"flights": [{"flight_number": "NB172", "date": "2024-05-20"}, {"flight_number": "NB171"}]},
    )
    yield _slice(domain, {"auth": facts["auth"]}, user)("a table of which nothing was read", *certificate)


def _value(content: Any) -> Any:
    return json.loads(content) if isinstance(content, str) else json.loads(json.dumps(content))


# Histories and rejections -----------------------------------------------------------------------------------------

Play = Callable[[Session], list[Json]]


def _histories(gate: Gate) -> Iterator[Json]:
    cancel, back = retail.cancel(), retail.give_back()
    move, bad = retail.move(), retail.cancel(reason="changed my mind", call_id="cancel-2")
    yield _history("a write that was executed", gate, [cancel], "executed", [back])
    yield _history("a write that was refused", gate, [cancel], "refused", [back])
    yield _history("a write whose end is not known", gate, [cancel], "uncertain", [back])
    yield _history("a write that was not started", gate, [cancel], "withheld", [back])
    yield _history("a write that waits", gate, [cancel], None, [back])
    yield _history("writes of one message", gate, [move, back])
    yield _history("a rejected write is no sibling", gate, [bad, back])
    yield _history("siblings are history to the next message", gate, [move, back], None, [cancel])


def _history(name: str, gate: Gate, first: list[Call], outcome: str | None = None, second: Sequence[Call] = ()) -> Json:
    session = retail.desk(gate)
    steps: list[Json] = [_message(session, first)]
    tickets = [ticket for ticket, _ in session.open_tickets()]
    if outcome is not None:
        for ticket in tickets:
            if outcome != "withheld":
                session.redeem(ticket)
            session.report(ticket, outcome)  # type: ignore[arg-type]
            steps.append({"call_id": ticket.call_id, "outcome": outcome})
    if second:
        steps.append(_message(session, second))
    return {"name": name, "steps": steps}


def _message(session: Session, calls: Sequence[Call]) -> Json:
    turn = session.next_turn()
    return {
        "turn": turn,
        "calls": [
            {
                "call_id": one.call.call_id,
                "tool": one.call.tool,
                "arguments": one.call.arguments,
                "verdict": one.verdict,
                "history": one.gate_input["history"],
                "siblings": one.gate_input["siblings"],
            }
            for one in session.review(calls)
        ],
    }


def _rejections(gate: Gate) -> Iterator[Json]:
    bad = retail.cancel(reason="changed my mind")
    other = retail.cancel(reason="too dear", call_id="cancel-2")
    again = {**retail.PENDING, "address": {**retail.ADDRESS, "zip": "78702"}}
    yield _rejected("the fourth time is the last", gate, bad, bad, bad, bad)
    yield _rejected("another call is counted apart", gate, bad, other, bad, other)
    yield _rejected("a fact that changed begins anew", gate, bad, bad, again, bad, bad)
    yield _rejected("the same fact read again does not", gate, bad, bad, retail.PENDING, bad)
    yield _rejected("a fact that went stale begins anew", gate, bad, bad, retail.move(), bad)
    yield _rejected(
        "another id of the same call is the same call", gate, bad, retail.cancel(reason="changed my mind", call_id="x")
    )


def _rejected(name: str, gate: Gate, *steps: Call | Json) -> Json:
    session = retail.desk(gate)
    states: dict[str, int] = {}
    rows = []
    for step in steps:
        if isinstance(step, dict):
            retail.read_order(session, step)
            continue
        state = states.setdefault(session.ledger.digest, len(states))
        review = retail.propose(session, step)
        row = {"ledger": f"state {state}", "tool": step.tool, "arguments": step.arguments, "call_id": step.call_id}
        rows.append({**row, "rejections": review.gate_input["session"]["rejections"], "verdict": review.verdict})
    return {"name": name, "steps": rows}


# Canonical arguments ----------------------------------------------------------------------------------------------

_TEXTS: Final = {
    "keys in any order": '{"b": 1, "a": {"d": [1, 2], "c": null}}',
    "spaces": ' { "a" : [ 1 , true ] } ',
    "a whole number written as a fraction": '{"a": 5.0, "b": -0.0, "c": 1e2}',
    "a fraction": '{"a": 12.25}',
    "letters beyond ASCII": '{"a": "Zoë 😀"}',
    "escapes": '{"a": "\\u0041\\n\\/\\u007f"}',
    "the largest exact number": '{"a": 9007199254740991}',
    "a number that a double cannot hold": '{"a": 9007199254740993}',
    "a number too large": '{"a": 1e16}',
    "an infinite number": '{"a": 1e400}',
    "not a number": '{"a": NaN}',
    "a key twice": '{"a": 1, "a": 1}',
    "a key twice further in": '{"x": [{"a": 1, "a": 2}]}',
    "a key twice in other words": '{"a": 1, "\\u0061": 1}',
    "half a character": '{"a": "\\ud800"}',
    "cut off": '{"a": 1',
    "two values": '{"a": 1} {"a": 2}',
    "a comma too many": '{"a": 1,}',
    "single quotes": "{'a': 1}",
    "nested as deep as is taken": '{"a":' + "[" * 31 + "]" * 31 + "}",
    "nested deeper": '{"a":' + "[" * 32 + "]" * 32 + "}",
    "nothing": "",
}


def _canonical() -> Iterator[Json]:
    for name, text in _TEXTS.items():
        try:
            value = parse(text, what="arguments")
        except BadInput:
            yield {"name": name, "text": text, "canonical": None, "digest": None}
            continue
        yield {"name": name, "text": text, "canonical": canonical(value), "digest": digest(value)}


# Grants -----------------------------------------------------------------------------------------------------------

_WALL: Final = "2026-06-01T12:00:00Z"
_SECRETS: Final = {"desk": b"d" * 32, "service": b"e" * 32, "app": b"a" * 32}
_DESK, _APP = (Signer.hmac(name, _SECRETS[name]) for name in ("desk", "app"))
_SERVICE: Final = Signer.ed25519("service", _SECRETS["service"])


def _keys() -> list[Json]:
    public = Ed25519PrivateKey.from_private_bytes(_SECRETS["service"]).public_key().public_bytes_raw()
    approvers = ["grace", "bot", retail.USER]

    def key(name: str, kind: str, algorithm: str, raw: bytes, names: Sequence[str]) -> Json:
        text = base64.b64encode(raw).decode()
        return {"id": name, "kind": kind, "algorithm": algorithm, "key": text, "approvers": list(names)}

    return [
        key("desk", "approval", "hmac-sha256", _SECRETS["desk"], approvers),
        key("service", "approval", "ed25519", public, approvers),
        key("app", "user_confirmation", "hmac-sha256", _SECRETS["app"], []),
    ]


def _grants() -> Iterator[Json]:
    asked = json.loads((VECTORS / "retail.json").read_text(encoding="utf-8"))["vectors"][0]["input"]
    asked = {
        **asked,
        "session": {**asked["session"], "principal": {"id": retail.USER, "source": "proof", "claims": {}}},
    }
    about: Json = {"keys": _keys(), "agents": ["bot"], "max_seconds": 3600, "wall": _WALL, "used": ["spent"]}
    fine = {
        **_grant(asked, _OWNER),
        "id": "fresh",
        "facts": facts_digest(asked),
        "expires": {"session": _after(asked["session"]["now"], 3600), "host": _after(_WALL, 3600)},
    }
    confirmed = {**fine, "kind": "user_confirmation", "approver": asked["session"]["principal"]["id"]}

    def case(name: str, signed: Json, given: Json = asked) -> Json:
        return {"name": name, **about, "input": given, "signed": signed, "taken": _taken(signed, given, about)}

    def signed(by: Signer = _DESK, grant: Json = fine, **changes: Any) -> Json:
        return by.sign(Grant.model_validate({**grant, **changes})).model_dump()

    def during(**changes: Any) -> Json:
        return {**asked, **changes}

    yield case("an approval signed with a shared secret", signed())
    yield case("an approval signed with a private key", signed(_SERVICE))
    yield case("the user's confirmation", signed(_APP, confirmed))
    yield case("edited after it was signed", {**signed(), "grant": {**fine, "approver": "bot"}})
    yield case("edited after it was signed with a private key", {**signed(_SERVICE), "grant": {**fine, "id": "other"}})
    yield case("signed by another", {**signed(_APP), "key": "desk"})
    yield case("signed with a key that is not held", {**signed(), "key": "other"})
    yield case("signed by another's private key", {**signed(Signer.ed25519("service", b"x" * 32))})
    yield case("a shared secret's signature for a key pair", {**signed(), "key": "service"})
    bare = base64.b64encode(hmac.digest(_SECRETS["desk"], canonical(fine).encode(), "sha256")).decode()
    yield case("signed without the contract's name", {**signed(), "signature": bare})
    yield case("a signature that is no base64", {**signed(), "signature": "~" + signed()["signature"]})
    yield case("another contract", {**signed(), "contract": "ledgeragent.grant/2"})
    yield case("a field too many", {**signed(), "algorithm": "hmac-sha256"})
    yield case("a grant with a field too many", {**signed(), "grant": {**fine, "any": True}})
    yield case("a confirmation by a key for approvals", signed(_DESK, confirmed))
    yield case("an approval by a key for confirmations", signed(_APP))
    yield case("a confirmation by an approver with their own key", signed(_DESK, confirmed, approver="grace"))
    yield case("an approval by the user with the key for confirmations", signed(_APP, approver=retail.USER))
    yield case("in the name of one the key does not sign for", signed(approver="mallory"))
    yield case("approved by who asks", signed(approver=retail.USER))
    yield case("approved by an agent", signed(approver="bot"))
    yield case("confirmed by another than the user", signed(_APP, confirmed, approver="grace"))
    nobody = {**asked["session"], "principal": None}
    yield case("nobody is known to have asked", signed(), during(session=nobody))
    yield case("for another domain", signed(domain="airline"))
    yield case("for another session", signed(session="other"))
    yield case("for another tool", signed(tool="return_delivered_order_items"))
    yield case("for other arguments", signed(arguments={**fine["arguments"], "order_id": "#W2"}))
    yield case("with one argument less", signed(arguments={"order_id": fine["arguments"]["order_id"]}))
    odd = {"note": "Zoë 😀", "count": 5.0, "deep": [{"b": None, "a": True}]}
    yield case(
        "arguments of all kinds, in another order",
        signed(arguments={"deep": [{"a": True, "b": None}], "count": 5, "note": "Zoë 😀"}),
        during(action={**asked["action"], "arguments": odd}),
    )
    yield case("a fact that changed", signed(), during(ledger={**asked["ledger"], "auth": {"user_id": "other"}}))
    yield case("a fact that went stale", signed(), during(stale=[["orders", "#W1", "status"]]))
    wrote = {"tool": "modify_user_address", "arguments": {"user_id": retail.USER}, "outcome": "executed"}
    sibling = {key: value for key, value in wrote.items() if key != "outcome"}
    yield case("a write in between", signed(), during(history=[wrote]))
    yield case("a write of the same message in between", signed(), during(siblings=[sibling]))
    yield case(
        "another turn and count of rejections",
        signed(),
        during(session={**asked["session"], "turn": 9, "rejections": 2}),
    )
    after = during(history=[wrote], siblings=[sibling])
    yield case("asked for after two writes", signed(facts=facts_digest(after)), after)
    later = during(history=[wrote, {**wrote, "outcome": "uncertain"}])
    yield case("a sibling that is history now", signed(facts=facts_digest(after)), later)
    yield case("used before", signed(id="spent"))
    yield from _in_time(case, signed, asked["session"]["now"])


def _in_time(case: Callable[..., Json], signed: Callable[..., Json], now: str) -> Iterator[Json]:
    def expires(session: int = 60, host: int = 60, **changes: Any) -> Json:
        return signed(expires={"session": _after(now, session), "host": _after(_WALL, host)}, **changes)

    yield case("in force for a second", expires(1, 1))
    yield case("in force until now by the session's clock", expires(session=0))
    yield case("in force until now by the wall clock", expires(host=0))
    yield case("in force for too long by the session's clock", expires(session=3601))
    yield case("in force for too long by the wall clock", expires(host=3601))
    yield case("issued earlier, and for too long since", expires(issued=_after(now, -3550)))
    yield case("issued later than now", expires(issued=_after(now, 1)))
    elsewhere = datetime.fromisoformat(_after(now, 60)).astimezone(timezone(timedelta(hours=9))).isoformat()
    yield case(
        "in force by clocks of other zones",
        signed(expires={"session": elsewhere, "host": "2026-06-01T21:01:00.500+09:00"}),
    )


def _after(instant: str, seconds: int) -> str:
    return (datetime.fromisoformat(instant) + timedelta(seconds=seconds)).isoformat()


def _taken(signed: Json, given: Json, about: Json) -> bool:
    keys = [ApprovalKey.model_validate(one) for one in about["keys"]]
    host = Approvals(keys, agents=about["agents"], max_seconds=about["max_seconds"], clock=lambda: about["wall"])
    try:
        grant = SignedGrant.model_validate(signed)
    except ValidationError:
        return False
    return grant.grant.id not in about["used"] and host.problem(grant, given) is None


# Files ------------------------------------------------------------------------------------------------------------

ABOUT: Final = {
    "acceptance": "answers of a policy decision point, and whether a host may accept them",
    "slices": "facts and writes, and the slice of the ledger that a call's decision is given",
    "histories": "messages and outcomes, and the history and siblings that each call's decision is given",
    "rejections": "calls and states of the ledger, and the count of rejections that each decision is given",
    "canonical": "texts of arguments, and their canonical form, or that they are refused",
    "grants": "signed consents to a call, and whether a host takes them for it",
}


def documents() -> dict[Path, Json]:
    """Every file of the suite that this script writes, the index included."""
    with open_engine("embedded") as engine:
        gate = Gate(Domain.load("retail"), engine)
        made = {
            "acceptance": list(_acceptance(gate.domain)),
            "slices": list(_slices()),
            "histories": list(_histories(gate)),
            "rejections": list(_rejections(gate)),
            "canonical": list(_canonical()),
            "grants": list(_grants()),
        }
    files = {
        VECTORS / "host" / f"{name}.json": {"contract": f"ledgeragent.host-{name}/1", "vectors": vectors}
        for name, vectors in made.items()
    }
    return {**files, VECTORS / "index.json": _index(files)}


def _index(files: Mapping[Path, Json]) -> Json:
    rows = []
    for path in sorted(VECTORS.glob("*.json")):
        if path.name != "index.json":
            document = json.loads(path.read_text(encoding="utf-8"))
            about = "gate inputs of this domain and the decisions on them"
            rows.append(_row(path, path.read_text(encoding="utf-8"), document, "gate", about, document["domain"]))
    for path, document in files.items():
        rows.append(_row(path, text_of(document), document, "host", ABOUT[path.stem], None))
    return {"contract": "ledgeragent.vector-index/1", "version": VERSION, "files": rows}


def _row(path: Path, text: str, document: Json, kind: str, about: str, domain: str | None) -> Json:
    return {
        "file": path.relative_to(VECTORS).as_posix(),
        "kind": kind,
        "contract": document["contract"],
        "domain": domain,
        "about": about,
        "vectors": len(document["vectors"]),
        "sha256": hashlib.sha256(text.encode("utf-8")).hexdigest(),
    }


def text_of(document: Json) -> str:
    """A document as it stands in its file."""
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    check = parser.parse_args().check
    for path, document in documents().items():
        text = text_of(document)
        if check and (not path.is_file() or path.read_text(encoding="utf-8") != text):
            sys.exit(f"{path} is not what scripts/host_vectors.py makes: run it and look at the diff")
        if not check:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
