"""The contracts: the published JSON Schemas are the models, in text and in what they accept."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from ledgeragent.compile import CONTRACTS, contract_schema
from ledgeragent.contracts import described
from ledgeragent.domain import Validator
from ledgeragent.jsonio import canonical
from ledgeragent.policies import SCHEMAS
from support import toy
from test_jsonio import values

GATE_INPUT: dict[str, Any] = {
    "contract": "ledgeragent.gate-input/1",
    "request": "r-1",
    "domain": "retail",
    "session": {
        "id": "s-1",
        "now": "2024-05-15T15:00:00.250-05:00",
        "turn": 3,
        "principal": {"id": "ada_quist_1001", "source": "proof", "claims": {"level": 1}},
        "rejections": 0,
    },
    "action": {"call_id": "", "tool": "cancel_pending_order", "arguments": {"order_id": "#W1"}},
    "ledger": {"orders": {"#W1": {"status": "pending"}}},
    "stale": [["orders", "#W1", "address"]],
    "history": [{"tool": "t", "arguments": {}, "outcome": "executed"}],
    "siblings": [{"tool": "t", "arguments": {}}],
    "grants": [
        {
            "id": "g-1",
            "kind": "approval",
            "predicates": ["retail.order_pending"],
            "domain": "retail",
            "session": "s-1",
            "tool": "cancel_pending_order",
            "arguments": {"order_id": "#W1"},
            "facts": "sha256:2",
            "approver": "grace",
            "issued": "2024-05-15T15:00:00-05:00",
            "expires": {"session": "2024-05-15T15:15:00-05:00", "host": "2026-01-01T00:00:00Z"},
        }
    ],
}
DECISION: dict[str, Any] = {
    "contract": "ledgeragent.decision/1",
    "request": "r-1",
    "verdict": "revise",
    "findings": [
        {
            "predicate": "retail.order_pending",
            "status": "unknown",
            "verdict": "revise",
            "mode": "enforce",
            "message": "Not read.",
            "paths": [["orders", "#W1", "status"]],
            "missing": [{"path": ["orders", "#W1", "status"], "cause": "missing"}],
        }
    ],
    "predicates": ["retail.order_pending"],
    "overrides": [
        {
            "target": "retail.order_pending",
            "mode": "shadow",
            "verdict": "",
            "owner": "o",
            "reason": "r",
            "expires": "2026-01-01T00:00:00Z",
            "applied": False,
        }
    ],
    "obligations": [
        {"kind": "approval", "predicate": "retail.order_pending", "approvers": ["grace"], "grant": None},
        {"kind": "user_confirmation", "predicate": "common.user_confirmed", "approvers": None, "grant": "g-1"},
    ],
    "policy": {
        "revision": "sha256:0",
        "gate": "sha256:1",
        "sequence": {"domain": 3, "gate": 2, "overrides": 0, "floor": 1, "freeze": 0},
    },
}
RECORD: dict[str, Any] = {
    "contract": "ledgeragent.record/1",
    "kind": "decision",
    "at": "2026-01-02T03:04:05.678Z",
    "session": "s-1",
    "call_id": "c-1",
    "input": GATE_INPUT,
    "decision": DECISION,
    "error": None,
    "verdict": "revise",
    "enforced": True,
    "revision": "sha256:0",
    "engine": {"name": "embedded", "version": "1"},
    "ledger_digest": "sha256:0",
    "latency_ms": 0.5,
}
REDACTED: dict[str, Any] = {
    "form": "encrypted",
    "judged_again": "when_opened",
    "masked": [["input", "ledger", "users"]],
    "pseudonyms": [],
    "key": "0",
    "sealed": "AA==",
}
OUTCOME: dict[str, Any] = {
    "contract": "ledgeragent.record/1",
    "kind": "outcome",
    "at": "2026-01-02T03:04:05Z",
    "session": "s-1",
    "call_id": "c-1",
    "request": "r-1",
    "outcome": "withheld",
}
PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "kind": {"type": ["string", "null"], "enum": ["a", 1, 1.5, True, None], "pattern": "^a$", "maxLength": 9},
        "rows": {
            "type": "array",
            "items": {"type": "integer", "minimum": 0, "maximum": 9.5, "x-log": True},
            "minItems": 1,
        },
        "id": {"type": "string", "x-log": "^a$"},
    },
    "required": ["rows"],
    "additionalProperties": False,
}
_READ, _AUTHENTICATION, _WRITE, _NONE = (toy.TOOLS["tools"][at] for at in (2, 0, 4, 5))
TOOLS = toy.but(
    toy.TOOLS,
    ("tools", [toy.but(_READ, ("parameters", PARAMETERS), ("facts/1", _AUTHENTICATION["facts"][0])), _WRITE, _NONE]),
    ("tools/1/unguarded", {"owner": "o", "reason": "r"}),
)
OVERRIDES: dict[str, Any] = {
    "retail": {
        "predicates": {
            "retail.cancel_reason": {"mode": "off", "owner": "o", "reason": "r", "expires": "2026-12-31"},
            "retail.gift_card_covers": {"verdict": "block", "owner": "o", "reason": "r", "expires": "2026-12-31"},
        },
        "settings": {"cancel_reasons": {"value": ["x"], "owner": "o", "reason": "r", "expires": "2026-12-31"}},
    },
}

REQUEST: dict[str, Any] = {
    "contract": "ledgeragent.approval-request/1",
    "request": "r-1",
    "domain": "retail",
    "session": "s-1",
    "now": "2024-05-15T15:00:00-05:00",
    "requester": "ada_quist_1001",
    "tool": "cancel_pending_order",
    "arguments": {"order_id": "#W1"},
    "obligations": [
        {"kind": "approval", "predicate": "retail.order_pending", "approvers": ["grace"], "message": "Not pending."},
        {"kind": "user_confirmation", "predicate": "common.user_confirmed", "approvers": None, "message": ""},
    ],
    "facts": "sha256:2",
    "evidence": [
        {
            "path": ["orders", "#W1", "status"],
            "value": "processed",
            "tool": "get_order_details",
            "turn": 1,
            "at": "2024-05-15T15:00:00-05:00",
        }
    ],
}
SIGNED: dict[str, Any] = {
    "contract": "ledgeragent.grant/1",
    "grant": GATE_INPUT["grants"][0],
    "key": "desk",
    "signature": "AA==",
}

VALID = [
    ("approval_request", REQUEST),
    ("grant", SIGNED),
    ("gate_input", GATE_INPUT),
    ("decision", DECISION),
    ("record", RECORD),
    ("record", OUTCOME),
    ("record", {**RECORD, "engine": {**RECORD["engine"], "decision_id": "d"}, "redacted": REDACTED}),
    ("record", {**OUTCOME, "redacted": None}),
    ("tools", TOOLS),
    ("overrides", OVERRIDES),
]

# The documents are read as JSON text, as they travel; whole floats are integers in it.
MODELS: dict[str, TypeAdapter[Any]] = {name: TypeAdapter(model) for name, model in CONTRACTS.items()}
VALIDATORS: dict[str, Any] = {name: Validator(contract_schema(name)) for name in CONTRACTS}


def model_takes(contract: str, document: Any) -> bool:
    try:
        MODELS[contract].validate_json(canonical(document))
    except ValidationError:
        return False
    return True


def schema_takes(contract: str, document: Any) -> bool:
    return bool(VALIDATORS[contract].is_valid(json.loads(canonical(document))))


def places(document: Any, above: str = "") -> Iterator[str]:
    rows = document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    for key, below in rows:
        if key == "" or "/" in str(key):
            continue  # has no name here
        yield f"{above}{key}"
        yield from places(below, f"{above}{key}/")


@st.composite
def mutated(draw: st.DrawFn, document: dict[str, Any]) -> Any:
    """A valid document in which one to three places were deleted, replaced, or given a stranger beside them."""
    for _ in range(draw(st.integers(1, 3))):
        if not document:
            break
        place = draw(st.sampled_from(sorted(places(document))))
        how = draw(st.sampled_from(["delete", "replace", "swap", "add"]))
        if how == "add":
            beside = f"{place.rpartition('/')[0]}/stranger".lstrip("/")
            place = beside if isinstance(_at(document, place.rpartition("/")[0]), dict) else place
        other = draw(values if how != "swap" else st.sampled_from(sorted(places(document))).map(_getter(document)))
        document = toy.but(document, (place, ... if how == "delete" else other))
    return document


def _at(document: Any, place: str) -> Any:
    for key in filter(None, place.split("/")):
        document = document[int(key)] if isinstance(document, list) else document[key]
    return document


def _getter(document: Any) -> Any:
    return lambda place: _at(document, place)


@pytest.mark.parametrize("name", sorted(CONTRACTS))
def test_the_published_schema_is_the_model(name: str) -> None:
    assert json.loads((SCHEMAS / f"{name}.schema.json").read_text(encoding="utf-8")) == contract_schema(name)


@pytest.mark.parametrize("name", sorted(CONTRACTS))
def test_the_published_schema_is_a_schema_of_2020_12(name: str) -> None:
    assert contract_schema(name)["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    Validator.check_schema(contract_schema(name))


@pytest.mark.parametrize(("contract", "document"), VALID)
def test_both_take_a_valid_document(contract: str, document: Any) -> None:
    assert (model_takes(contract, document), schema_takes(contract, document)) == (True, True)


@pytest.mark.parametrize(("contract", "document"), VALID)
def test_both_refuse_the_same_documents_place_by_place(contract: str, document: Any) -> None:
    odd: list[Any] = [..., None, True, 0, 1.5, "", [], {"x": 1}]
    # What a record embeds is held to its own contract by its own row.
    for place in (
        one for one in places(document) if contract != "record" or not one.startswith(("input/", "decision/"))
    ):
        for value in odd:
            changed = toy.but(document, (place, value))
            assert model_takes(contract, changed) == schema_takes(contract, changed), (place, value)


@given(st.data())
def test_both_agree_on_whatever_became_of_a_valid_document(data: st.DataObject) -> None:
    contract, valid = data.draw(st.sampled_from(VALID))
    document = data.draw(mutated(valid))
    assert model_takes(contract, document) == schema_takes(contract, document)


@pytest.mark.parametrize(
    ("contract", "document", "place", "value"),
    [
        ("decision", DECISION, "verdict", "permit"),
        ("decision", DECISION, "verdict", "allow\n"),
        ("decision", DECISION, "findings/0/verdict", "allow"),
        ("decision", DECISION, "findings/0/status", "holds"),
        ("decision", DECISION, "findings/0/mode", "off"),
        ("decision", DECISION, "findings/0/paths/0", []),
        ("decision", DECISION, "extra", True),
        ("decision", DECISION, "policy/revision", ""),
        ("decision", DECISION, "policy/gate", ...),
        ("decision", DECISION, "policy/sequence/floor", ...),
        ("decision", DECISION, "policy/sequence/freeze", -1),
        ("decision", DECISION, "policy/sequence/other", 1),
        ("gate_input", GATE_INPUT, "domain", "../retail"),
        ("gate_input", GATE_INPUT, "session/now", "2024-05-15T15:00:00"),
        ("gate_input", GATE_INPUT, "session/now", "2024-05-15T15:00:00Z\n"),
        ("gate_input", GATE_INPUT, "session/turn", True),
        ("gate_input", GATE_INPUT, "session/rejections", -1),
        ("gate_input", GATE_INPUT, "session/principal", ...),
        ("gate_input", GATE_INPUT, "history/0/outcome", "refused"),
        ("record", OUTCOME, "outcome", "pending"),
        ("tools", TOOLS, "tools/0/effect", "look"),
        ("tools", TOOLS, "tools/0/parameters/additionalProperties", True),
        ("tools", TOOLS, "tools/0/parameters/format", "date"),
        ("tools", TOOLS, "tools/0/parameters/properties/id/x-log", False),
        ("tools", TOOLS, "tools/0/parameters/properties/id/log", True),
    ],
)
def test_neither_takes_what_the_contract_excludes(contract: str, document: Any, place: str, value: Any) -> None:
    changed = toy.but(document, (place, value))
    assert (model_takes(contract, changed), schema_takes(contract, changed)) == (False, False)


def test_what_is_wrong_with_a_document_is_described_without_a_word_of_it() -> None:
    odd = toy.but(GATE_INPUT, ("ada", 1), ("session/turn", "ada"), ("history/0/outcome", "ada"))
    with pytest.raises(ValidationError) as caught:
        MODELS["gate_input"].validate_python(odd)
    assert described(caught.value) == "session.turn: Input should be a valid integer"
    for document, said in (
        (toy.but(GATE_INPUT, ("ada", 1)), "…: Extra inputs are not permitted"),
        (
            toy.but(GATE_INPUT, ("history/0/outcome", "ada")),
            "history.0.outcome: Input should be 'executed', 'uncertain' or 'pending'",
        ),
        ("ada", "the whole document: Input should be a valid dictionary or instance of GateInput"),
    ):
        with pytest.raises(ValidationError) as caught:
            MODELS["gate_input"].validate_python(document)
        assert described(caught.value) == said


def test_models_cannot_be_changed_once_made() -> None:
    decision = MODELS["decision"].validate_python(DECISION)
    with pytest.raises(ValidationError, match="frozen"):
        decision.verdict = "allow"
