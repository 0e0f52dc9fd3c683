"""Slicing changes no decision: the part of the ledger that a tool needs decides as the whole ledger does."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from ledgeragent.domain import Domain
from ledgeragent.engine import Engine
from ledgeragent.session import Call, Session
from oracle import worlds
from oracle.recorded import ListeningGate, asked

JSON = Any


def sliced_differently(pairs: list[tuple[JSON, JSON]], engine: Engine) -> list[JSON]:
    """The pairs that are decided differently, with both decisions."""
    found = []
    for sliced, whole in pairs:
        decisions = [engine.evaluate("retail", "decision", document) for document in (sliced, whole)]
        if decisions[0] != decisions[1]:
            found.append([sliced, whole, *decisions])
    return found


def test_in_recorded_sessions(shared: Path, embedded: Engine) -> None:
    pairs = asked(shared, embedded)

    assert sum(sliced["ledger"] != whole["ledger"] for sliced, whole in pairs) > 1000
    assert sum(sliced["stale"] != [] for sliced, _ in pairs) > 100
    assert sliced_differently(pairs, embedded) == []


def test_in_made_up_sessions(embedded: Engine) -> None:
    pick = random.Random("made up").choice
    pairs = [pair for _ in range(300) for pair in made_up_session(embedded, pick)]

    assert sum(sliced["stale"] != [] for sliced, _ in pairs) > 200
    assert sliced_differently(pairs, embedded) == []


def made_up_session(engine: Engine, pick: worlds.Pick) -> list[tuple[JSON, JSON]]:
    """Reads of made-up records and reviewed writes in any order, each write with some outcome."""
    gate = ListeningGate(Domain.load("retail"), engine)
    session = Session(gate, now="2024-05-15T15:00:00-05:00")
    gate.session = session
    for _ in range(12):
        if pick((True, True, False)):
            read(session, pick)
        else:
            write(session, pick)
    return gate.asked


def read(session: Session, pick: worlds.Pick) -> None:
    """One read of a made-up record, absorbed."""
    tool, arguments, record = pick(READS)(worlds.world(pick), pick)
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


READS = (_user, _order, _order, _product, _product, _proof)
