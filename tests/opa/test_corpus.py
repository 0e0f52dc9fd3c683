"""The recorded conversations on all engines: every write judged, everywhere alike, and no good write blocked."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from ledgeragent.conversation import Conversation
from ledgeragent.domain import Domain
from ledgeragent.engine import Engine
from oracle.recorded import CONVERSATIONS, WRITES, Replayed
from oracle.recorded import rows as replay_rows

Row = dict[str, Any]


@pytest.fixture(scope="module")
def rows(recorded: list[Conversation], replayed_embedded: Replayed, engines: dict[str, Engine]) -> dict[str, list[Row]]:
    """The replay's rows by engine."""
    servers = {name: replay_rows(recorded, engine) for name, engine in engines.items() if name != "embedded"}
    return {"embedded": replayed_embedded.rows, **servers}


def test_engines_agree_call_for_call(rows: dict[str, list[Row]]) -> None:
    assert set(rows) == {"embedded", "opa-local", "opa"}
    assert rows["opa"] == rows["embedded"]
    assert rows["opa-local"] == rows["embedded"]


def test_every_write_of_the_agent_is_judged(rows: dict[str, list[Row]], recorded: list[Conversation]) -> None:
    domain = Domain.load("retail")
    proposed = [
        (one.id, call.index, call.call_id, call.tool)
        for one in recorded
        for turn in one.turns
        for call in turn
        if domain.is_write(call.tool) and not call.by_user
    ]
    judged = [(row["conversation"], row["index"], row["call_id"], row["tool"]) for row in rows["embedded"]]

    assert judged == proposed
    assert (len(recorded), len(judged)) == (CONVERSATIONS, WRITES)


def test_no_engine_fails(rows: dict[str, list[Row]]) -> None:
    assert Counter(row.get("error") for engine_rows in rows.values() for row in engine_rows) == {
        None: sum(map(len, rows.values()))
    }


def test_no_executed_write_of_a_rewarded_conversation_is_blocked(rows: dict[str, list[Row]]) -> None:
    """`think` is no tool of the domain; recordings with another tool set call it."""
    blocked = [row for row in rows["embedded"] if row["executed"] and row["reward"] == 1 and row["verdict"] == "block"]

    assert {row["tool"] for row in blocked} == {"think"}
    assert {finding["predicate"] for row in blocked for finding in row["findings"]} <= {"gate.tool", "gate.loop"}


def test_every_write_the_tools_refused_is_caught_before(rows: dict[str, list[Row]]) -> None:
    refused = [row for row in rows["embedded"] if row["executed"] is False]

    assert refused
    assert [row for row in refused if row["verdict"] == "allow"] == []
