"""Clocks that jump: no budget and no rule may depend on a clock that goes back."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from faults.opa_process import TOKEN, OpaProcess
from faults.stage import Stage
from ledgeragent import policies
from ledgeragent.domain import Domain
from ledgeragent.engine import Embedded, Engine, OpaServer, compiled_module
from ledgeragent.errors import BadInput
from ledgeragent.gate import Gate
from ledgeragent.session import Call, Session
from support import retail
from support.engines import OnLoop
from support.retail import look_up, predicates, propose

pytest_plugins = ["support.fixtures"]

Report = Callable[..., None]
DECADE = 10 * 365 * 86_400


@contextmanager
def wall_clock_jumps() -> Iterator[None]:
    """Every look at the system's time of day is a decade off, to and fro."""
    now, looks = time.time, count()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "time", lambda: now() + (DECADE if next(looks) % 2 else -DECADE))
        yield


@pytest.mark.parametrize("kind", [OpaServer, OnLoop], ids=["opa", "opa-async"])
def test_the_time_of_day_of_the_host_jumps(
    kind: Any, retail_domain: Domain, opas: dict[str, OpaProcess], tmp_path: Path, report: Report
) -> None:
    engine = kind(opas["sound"].url, token=TOKEN)
    stage = Stage(engine, Gate(retail_domain, engine), tmp_path / "records.jsonl")
    stage.recovers(stage.session("before"), retail.cancel())
    with wall_clock_jumps():
        attempts = [stage.propose(stage.session("wants"), call) for call in (retail.cancel(), retail.cancel("#W2"))]
    stage.close()
    assert [(one.review.verdict, one.code) for one in attempts] == [("allow", ""), ("block", "")]
    assert len(stage.records()) == 5
    report("the host's time of day jumps", "opa" if kind is OpaServer else "opa-async", "decides as ever")


def test_the_session_clock_goes_back_and_nothing_that_is_over_begins_again(embedded: Engine, report: Report) -> None:
    """A day for cancelling, counted from the booking, is over; a booking in the future would count as just made."""
    session = Session(Gate(Domain.load("airline"), embedded), now="2026-03-02T10:00:00-05:00")
    user = {
        "user_id": "mira_holt_2041",
        "name": {"first_name": "Mira", "last_name": "Holt"},
        "address": retail.ADDRESS,
        "email": "mira@example.com",
        "dob": "1980-01-01",
        "payment_methods": {},
        "saved_passengers": [],
        "membership": "regular",
        "reservations": ["MH7K2Q"],
    }
    look_up(session, "get_user_details", {"user_id": "mira_holt_2041"}, user)
    look_up(
        session, "get_reservation_details", {"reservation_id": "MH7K2Q"}, reservation(created="2026-02-20T08:30:00")
    )
    look_up(session, "get_flight_status", {"flight_number": "NV101", "date": "2026-03-20"}, "available")
    cancel = Call("cancel_reservation", {"reservation_id": "MH7K2Q"}, "c1")
    before = propose(session, cancel)
    session.set_clock("2026-02-19T10:00:00-05:00")
    after = propose(session, cancel)
    assert [one.verdict for one in (before, after)] == ["block", "block"]
    assert predicates(before) == predicates(after) == [("airline.cancel_requires_basis", "violated")]
    report("the session's clock goes back", "embedded", "block: a clock does not go back in a session")


def reservation(created: str) -> dict[str, Any]:
    """An economy booking without insurance."""
    flight = {"flight_number": "NV101", "date": "2026-03-20", "origin": "BOS", "destination": "ORD", "price": 100}
    return {
        "reservation_id": "MH7K2Q",
        "user_id": "mira_holt_2041",
        "origin": "BOS",
        "destination": "ORD",
        "flight_type": "one_way",
        "cabin": "economy",
        "flights": [flight],
        "passengers": [{"first_name": "Mira", "last_name": "Holt", "dob": "1980-01-01"}],
        "payment_history": [{"payment_id": "credit_card_1", "amount": 100}],
        "created_at": created,
        "total_baggages": 0,
        "nonfree_baggages": 0,
        "insurance": "no",
        "status": None,
    }


def test_an_override_that_has_expired_does_not_come_back_with_the_clock(report: Report) -> None:
    entry = {"owner": "shop", "reason": "a campaign", "expires": "2024-05-31", "mode": "off"}
    overrides = {"retail": {"predicates": {"retail.cancel_reason": entry}}}
    module = compiled_module(policies.REGO, policies.SCHEMAS, policies.COMPILED)
    with Embedded(module, deployed={"ledgeragent_overrides": overrides}) as engine:
        session = retail.desk(Gate(Domain.load("retail"), engine))
        verdicts = []
        for now in ("2024-05-20T12:00:00Z", "2024-06-01T00:00:00Z", "2024-05-20T12:00:00Z", "1970-01-01T00:00:00Z"):
            session.set_clock(now)
            verdicts.append(propose(session, retail.cancel(reason="it is blue")).verdict)
    assert verdicts == ["allow", "revise", "revise", "revise"]
    report("an override expires, and the clock goes back", "embedded", "revise: it stays expired")


def test_a_clock_without_an_offset_is_not_taken(gate: Gate, report: Report) -> None:
    session = retail.desk(gate)
    for odd in ("2024-05-15T15:00:00", "", "yesterday", "2024-02-30T00:00:00Z"):
        with pytest.raises(BadInput, match="RFC 3339"):
            session.set_clock(odd)
    assert propose(session, retail.cancel()).gate_input["session"]["now"] == retail.NOW
    report("the host gives a clock that is none", "embedded", "BadInput; the clock stays")
