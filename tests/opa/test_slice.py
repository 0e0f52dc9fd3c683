"""Slicing changes no decision: the part of the ledger that a tool needs decides as the whole ledger does."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from ledgeragent.domain import Domain
from ledgeragent.engine import Engine
from ledgeragent.session import Call, Session
from oracle import worlds
from oracle.recorded import Asked, ListeningGate, Replayed

JSON = Any


SLICED = {"airline": 600, "retail": 1500, "telecom": 60, "telehealth": 30}
STALE = {"airline": 100, "retail": 100, "telecom": 4, "telehealth": 0}
"""At least as many recorded inputs have less than the whole ledger in their slice, and a stale path in it. No telehealth
recording needs again what one of its writes changed."""


def sliced_differently(domain: str, asked: list[Asked], engine: Engine) -> list[JSON]:
    """What is decided differently with the slice, with both decisions."""
    found = []
    for one in asked:
        decisions = [engine.evaluate(domain, "decision", document) for document in (one.sliced, one.whole)]
        if decisions[0] != decisions[1]:
            found.append([one, *decisions])
    return found


def test_in_recorded_sessions(domain_name: str, replayed_embedded: Replayed, embedded: Engine) -> None:
    asked = replayed_embedded.asked

    assert sum(one.sliced["ledger"] != one.whole["ledger"] for one in asked) >= SLICED[domain_name]
    assert sum(one.sliced["stale"] != [] for one in asked) >= STALE[domain_name]
    assert sliced_differently(domain_name, asked, embedded) == []


def test_in_made_up_retail_sessions(embedded: Engine) -> None:
    pick = random.Random("made up").choice
    gate = ListeningGate(Domain.load("retail"), embedded)
    for _ in range(150):
        make_up_session(gate, pick)

    assert sum(one.sliced["ledger"] != one.whole["ledger"] for one in gate.asked) > 500
    assert sum(one.sliced["stale"] != [] for one in gate.asked) > 100
    assert sliced_differently("retail", gate.asked, embedded) == []


def make_up_session(gate: ListeningGate, pick: worlds.Pick) -> None:
    """Reads of made-up records, then reads and reviewed writes in any order, each write with some outcome."""
    gate.session = Session(gate, now="2024-05-15T15:00:00-05:00")
    for record in READS:
        read(gate.session, record, pick)
    for _ in range(12):
        if pick((True, False)):
            read(gate.session, pick(READS), pick)
        else:
            write(gate.session, pick)


def read(session: Session, make: Callable[[JSON, worlds.Pick], tuple[str, JSON, JSON]], pick: worlds.Pick) -> None:
    """One read of a made-up record, absorbed."""
    tool, arguments, record = make(worlds.world(pick), pick)
    issued = session.issue(tool, arguments)
    session.observe(issued.call_id, record)


def write(session: Session, pick: worlds.Pick) -> None:
    """One message with up to two writes; the admitted ones end somehow, in order."""
    proposed = [worlds.world(pick)["action"] for _ in range(pick((1, 1, 2)))]
    for review in session.review([Call(one["tool"], one["arguments"]) for one in proposed]):
        if review.ticket is not None:
            session.redeem(review.ticket)
            session.report(review.ticket, pick(("executed", "executed", "refused", "uncertain")))


def _user(world: JSON, pick: worlds.Pick) -> tuple[str, JSON, JSON]:
    profile = world["ledger"].get("users", {}).get(worlds.ME) or {"payment_methods": {}}
    name = {"first_name": "Ada", "last_name": "Quist"}
    record = {**profile, "name": name, "address": worlds.ADDRESS, "email": "ada@example.org", "orders": ["#W1"]}
    return "get_user_details", {"user_id": worlds.ME}, record


def _order(world: JSON, pick: worlds.Pick) -> tuple[str, JSON, JSON]:
    order_id = pick(worlds.ORDERS)
    sound = {"user_id": worlds.ME, "status": "pending", "items": [], "payment_history": []}
    order = {**sound, **world["ledger"].get("orders", {}).get("#W1", {})}
    return "get_order_details", {"order_id": order_id}, {**order, "order_id": order_id, "address": worlds.ADDRESS}


def _product(world: JSON, pick: worlds.Pick) -> tuple[str, JSON, JSON]:
    product_id = pick(("lamps", "chairs"))
    product = world["ledger"].get("products", {}).get(product_id) or {}
    record = {"name": product_id, "product_id": product_id, "variants": product.get("variants", {})}
    return "get_product_details", {"product_id": product_id}, record


def _proof(world: JSON, pick: worlds.Pick) -> tuple[str, JSON, JSON]:
    return "find_user_id_by_email", {"email": "ada@example.net"}, worlds.ME


READS = (_proof, _user, _order, _order, _product, _product)
