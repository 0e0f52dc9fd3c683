"""Reads that return lists: each element a record of its own, repeated records, and returns that are no list."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ledgeragent.contracts import ReadTool
from ledgeragent.domain import Domain
from ledgeragent.ledger import Absorbed, Ledger, Provenance

SEATS = {"flight": "A1", "seats": 3}
OTHER = {"flight": "B2", "seats": 5}
SEARCH = {
    "effect": "read",
    "name": "search",
    "description": "Search connections.",
    "parameters": {
        "type": "object",
        "properties": {"day": {"type": "string"}},
        "required": ["day"],
        "additionalProperties": False,
    },
    "facts": [
        {"path": ["flights", "{each.flight}"], "value": "{each}", "parse": "list", "each": "{result[*]}"},
        {"path": ["searched", "{arguments.day}"], "value": "{arguments.day}", "parse": "list", "mode": "union"},
    ],
}
TOOLS = {
    "contract": "ledgeragent.tools/1",
    "domain": "trips",
    "title": "Trips",
    "now": "2026-03-02T10:00:00Z",
    "principal": "host",
    "principal_path": ["user"],
    "tools": [SEARCH],
}
LEDGER = {
    "type": "object",
    "properties": {
        "user": {"type": "string", "pattern": "^[a-z]+$", "x-id": None},
        "flights": {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "x-id": "flight",
                "required": ["flight", "seats"],
                "properties": {"flight": {"type": "string"}},
            },
        },
        "searched": {"type": "object", "additionalProperties": {"type": "array", "x-id": None}},
    },
}


@pytest.fixture
def domain(tmp_path: Path) -> Domain:
    """A domain of one search that returns connections of several legs."""
    folder = tmp_path / "trips"
    folder.mkdir()
    (folder / "tools.json").write_text(json.dumps(TOOLS))
    (folder / "ledger.schema.json").write_text(json.dumps(LEDGER))
    return Domain.load("trips", schemas=tmp_path, rego=None)


def search(domain: Domain, ledger: Ledger, returned: Any) -> Absorbed:
    """Absorb what a search for Monday returned."""
    tool = domain.tools["search"]
    assert isinstance(tool, ReadTool)
    return ledger.absorb(tool, {"day": "Monday"}, returned, Provenance("search", "call-1", 1, TOOLS["now"], 1))


def test_a_record_that_comes_twice_in_one_return_is_taken_once(domain: Domain) -> None:
    ledger = Ledger(domain)

    absorbed = search(domain, ledger, json.dumps([[SEATS, OTHER], [SEATS]]))

    assert absorbed.problems == ()
    assert ledger.tree() == {"flights": {"A1": SEATS, "B2": OTHER}, "searched": {"Monday": ["Monday"]}}


def test_two_different_records_for_one_path_are_no_fact(domain: Domain) -> None:
    ledger = Ledger(domain)

    absorbed = search(domain, ledger, [[SEATS, OTHER], [{**SEATS, "seats": True}]])

    assert [problem.reason for problem in absorbed.problems] == ["the return has two records for one path"]
    assert "flights" not in ledger.tree()


@pytest.mark.parametrize("returned", ["503", '{"error": "down"}', '"down"', "null", {"error": "down"}, 503])
def test_a_search_that_returned_no_list_was_no_search(domain: Domain, returned: Any) -> None:
    ledger = Ledger(domain)

    absorbed = search(domain, ledger, returned)

    assert {problem.reason for problem in absorbed.problems} == {"the return is no list"}
    assert len(ledger) == 0


def test_an_empty_list_is_a_search_that_found_nothing(domain: Domain) -> None:
    ledger = Ledger(domain)

    assert search(domain, ledger, "[]").problems == ()
    assert ledger.tree() == {"searched": {"Monday": ["Monday"]}}
