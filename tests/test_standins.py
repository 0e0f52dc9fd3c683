"""Stand-ins for what is personal in a gate input."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ledgeragent import policies
from ledgeragent.contracts import DecisionRecord
from ledgeragent.domain import Domain
from ledgeragent.engine import Engine
from ledgeragent.fixture import make_fixture
from ledgeragent.gate import Gate
from ledgeragent.policysource import PolicySources
from ledgeragent.reopen import Reopener
from ledgeragent.standins import stood_in
from support.canary import CANARY, disguised, one_by_one, overrun, vectors
from test_canary import recorded, some_of_each_verdict

pytest_plugins = ["support.fixtures"]

Json = dict[str, Any]
ADA = "ada_quist_1001"


def asked(ledger: Json, arguments: Json, **parts: Any) -> Json:
    """A call of the retail domain."""
    return {
        "contract": "ledgeragent.gate-input/1",
        "request": "request-1",
        "domain": "retail",
        "session": {
            "id": "session-1",
            "now": "2026-03-02T10:00:00-05:00",
            "turn": 1,
            "principal": {"id": ADA, "source": "proof"},
            "rejections": 0,
        },
        "action": {"call_id": "call-1", "tool": "modify_user_address", "arguments": arguments},
        "ledger": ledger,
        "stale": [],
        "history": [],
        "siblings": [],
        "grants": [],
        **parts,
    }


def test_one_text_has_one_stand_in_wherever_it_stands(retail_domain: Domain) -> None:
    given = asked(
        {"auth": {"user_id": ADA}, "users": {ADA: {"email": "ada@quist.example", "name": {"first_name": "Ada"}}}},
        {"user_id": ADA, "city": "Austin"},
        stale=[["users", ADA, "address"]],
        history=[{"tool": "modify_user_address", "arguments": {"user_id": ADA}, "outcome": "executed"}],
    )
    found = stood_in(retail_domain, given, lambda _: True)
    name = found.input["ledger"]["auth"]["user_id"]
    assert found.input == asked(
        {
            "auth": {"user_id": name},
            "users": {name: {"email": "email-1@example.com", "name": {"first_name": "first-name-1"}}},
        },
        {"user_id": name, "city": "city-1"},
        stale=[["users", name, "address"]],
        history=[{"tool": "modify_user_address", "arguments": {"user_id": name}, "outcome": "executed"}],
        session={**given["session"], "principal": {"id": name, "source": "proof"}},
    )
    assert (name, found.kept) == ("user_sample_1", ())


def test_ids_keep_their_form_and_words_of_the_contract_and_numbers_stay(retail_domain: Domain) -> None:
    order = {"user_id": ADA, "status": "pending", "payment_history": [{"transaction_type": "payment", "amount": 9.5}]}
    given = asked({"orders": {"#W4316152": order}}, {"order_id": "#W4316152"})
    given["action"]["tool"] = "cancel_pending_order"
    found = stood_in(retail_domain, given, lambda _: True)
    assert found.input["ledger"]["orders"] == {"#W0000001": {**order, "user_id": "user_sample_1"}}
    assert found.input["action"]["arguments"] == {"order_id": "#W0000001"}


def test_a_text_that_decides_stays_and_is_named(retail_domain: Domain) -> None:
    given = asked({}, {"user_id": ADA, "city": "Austin"})
    found = stood_in(retail_domain, given, lambda one: bool(one["action"]["arguments"]["city"] == "Austin"))
    assert found.input["action"]["arguments"] == {"user_id": "user-1", "city": "Austin"}
    assert found.kept == ("action.arguments.city",)


def test_a_name_and_the_texts_made_of_it_go_together(retail_domain: Domain) -> None:
    given = asked({}, {"city": "Ada", "state": "Quist", "address1": "Ada Quist"})

    def same(one: Json) -> bool:
        said = one["action"]["arguments"]
        return bool(said["address1"] == f"{said['city']} {said['state']}")

    found = stood_in(retail_domain, given, same)
    assert found.input["action"]["arguments"] == {"city": "city-1", "state": "state-1", "address1": "city-1 state-1"}


def test_a_text_that_begins_with_another_still_does_and_the_rest_keeps_its_shape(retail_domain: Domain) -> None:
    given = asked({}, {"city": "metformin", "address1": "Metformin 500 mg"})

    def same(one: Json) -> bool:
        said = one["action"]["arguments"]
        return bool(said["address1"].lower().startswith(said["city"] + " "))

    found = stood_in(retail_domain, given, same)
    assert found.input["action"]["arguments"] == {"city": "city-1", "address1": "city-1 001 aa"}


def test_upper_and_lower_case_of_one_text_stay_the_same_text(retail_domain: Domain) -> None:
    given = asked({}, {"city": "AUSTIN", "state": "Austin"})
    found = stood_in(
        retail_domain,
        given,
        lambda one: one["action"]["arguments"]["city"].lower() == one["action"]["arguments"]["state"].lower(),
    )
    assert found.input["action"]["arguments"] == {"city": "CITY-1", "state": "city-1"}


@pytest.mark.parametrize("name", policies.domains())
def test_no_fixture_holds_a_canary_of_its_record(name: str, embedded: Engine) -> None:
    domain = Domain.load(name)
    gate = Gate(domain, embedded)
    made = 0
    with PolicySources() as sources, Reopener(sources) as reopener:
        one_each = {one["decision"]["verdict"]: one["input"] for one in some_of_each_verdict(vectors(name))}
        for given in one_each.values():
            planted = [disguised(domain, given), overrun(given), *list(one_by_one(given))[::9]]
            for record in [one for each in planted for one in recorded(gate, each)]:
                if not isinstance(record, DecisionRecord) or record.decision is None:
                    continue
                fixture = make_fixture(record, reopener.of(record))
                made += 1
                text = fixture.stem + fixture.rego + json.dumps([fixture.vector, fixture.input, fixture.notes])
                assert CANARY not in text.casefold()
    assert made >= len(one_each) + 2
