"""The recorded conversations of every domain on all engines: every write judged, whole decisions alike, as expected.

They are replayed once, on the embedded engine; gates on the other engines are asked what its gate was asked. A replay
depends on its engine by these answers alone, so where all are alike, the replays are.
"""

from __future__ import annotations

from collections import Counter

import pytest

from ledgeragent.contracts import Decision
from ledgeragent.conversation import Conversation
from ledgeragent.domain import Domain
from ledgeragent.engine import Engine
from oracle.recorded import COUNTS, Replayed, decisions

BLOCKED_WITH_REWARD: dict[str, dict[tuple[str, str], int]] = {
    # One reservation, two of whose flights were on the days before: cancelled all the same, and right by the reward.
    "airline": {("cancel_reservation", "airline.no_flown_segment"): 6},
    # No tool of the domain; recordings of another tool set call it.
    "retail": {("think", "gate.tool"): 4},
    # One line, whose contract ended last month: the policy forbids it, the reward does not look.
    "telecom": {("resume_line", "telecom.resume_contract_active"): 5},
}
"""(tool, predicate) → executed writes of rewarded conversations that are blocked, per domain, each with its reason."""

NOT_CAUGHT: dict[str, dict[str, int]] = {
    # A change of cabin without a search: neither seats nor prices were observed, and no rule asks for them.
    "airline": {"update_reservation_flights": 16},
}
"""Tool → writes that the tool refused and the gate allows, per domain, each with its reason."""


@pytest.fixture(scope="session")
def answers(
    domain_name: str, replayed_embedded: Replayed, engines: dict[str, Engine]
) -> dict[str, list[Decision | None]]:
    """The decisions by engine."""
    asked = replayed_embedded.asked
    others = {name: decisions(domain_name, asked, engine) for name, engine in engines.items() if name != "embedded"}
    return {"embedded": replayed_embedded.decisions, **others}


def test_engines_agree_call_for_call(answers: dict[str, list[Decision | None]]) -> None:
    assert set(answers) == {"embedded", "opa-local", "opa"}
    assert answers["opa"] == answers["embedded"]
    assert answers["opa-local"] == answers["embedded"]


def test_every_write_of_the_agent_is_judged(
    domain_name: str, replayed_embedded: Replayed, recorded: list[Conversation]
) -> None:
    domain = Domain.load(domain_name)
    proposed = [
        (one.id, call.index, call.call_id, call.tool)
        for one in recorded
        for turn in one.turns
        for call in turn
        if domain.is_write(call.tool) and not call.by_user
    ]
    judged = [(row["conversation"], row["index"], row["call_id"], row["tool"]) for row in replayed_embedded.rows]

    assert judged == proposed
    assert (len(recorded), len(judged)) == COUNTS[domain_name]


def test_no_engine_fails(domain_name: str, answers: dict[str, list[Decision | None]]) -> None:
    _, writes = COUNTS[domain_name]

    assert {name: sum(one is not None for one in given) for name, given in answers.items()} == dict.fromkeys(
        ("embedded", "opa-local", "opa"), writes
    )


def test_executed_writes_of_rewarded_conversations_are_blocked_only_as_explained(
    domain_name: str, replayed_embedded: Replayed
) -> None:
    blocked = Counter(
        (row["tool"], finding["predicate"])
        for row in replayed_embedded.rows
        for finding in row["findings"]
        if row["executed"] and row["reward"] == 1 and finding["verdict"] == "block"
    )

    assert blocked == BLOCKED_WITH_REWARD.get(domain_name, {})


def test_writes_that_the_tools_refused_are_caught_before(domain_name: str, replayed_embedded: Replayed) -> None:
    refused = [row for row in replayed_embedded.rows if row["executed"] is False]

    assert refused
    assert Counter(row["tool"] for row in refused if row["verdict"] == "allow") == NOT_CAUGHT.get(domain_name, {})
