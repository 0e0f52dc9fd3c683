"""Making a gate input small."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ledgeragent.minimise import minimised

Json = dict[str, Any]


def asked(ledger: Json | None = None, **parts: Any) -> Json:
    """A gate input with everything in it."""
    return {
        "contract": "ledgeragent.gate-input/1",
        "request": "0123456789abcdef",
        "domain": "retail",
        "session": {
            "id": "s-77",
            "now": "2026-03-02T10:00:00-05:00",
            "turn": 9,
            "principal": {"id": "ada", "source": "host", "claims": {"role": "x"}},
            "rejections": 2,
        },
        "action": {"call_id": "c-5", "tool": "pay", "arguments": {"amount": 5, "note": "hello"}},
        "ledger": ledger or {},
        "stale": [],
        "history": [],
        "siblings": [],
        "grants": [],
        **parts,
    }


def test_what_nobody_asks_for_is_taken_away() -> None:
    small = minimised(asked({"a": {"b": [1, 2]}, "c": 3}, stale=[["x"]], grants=[{}]), lambda _: True)
    assert small == {
        **asked(),
        "request": "request-1",
        "session": {
            "id": "session-1",
            "now": "2026-03-02T10:00:00-05:00",
            "turn": 1,
            "principal": None,
            "rejections": 0,
        },
        "action": {"call_id": "call-1", "tool": "pay", "arguments": {}},
    }


def test_what_is_asked_for_stays_with_what_holds_it_and_nothing_beside_it() -> None:
    whole = asked({"orders": {"#W1": {"status": "open", "items": [{"id": 1}, {"id": 2}]}, "#W2": {"status": "x"}}})
    small = minimised(
        whole, lambda given: {"id": 2} in given["ledger"].get("orders", {}).get("#W1", {}).get("items", [])
    )
    assert small["ledger"] == {"orders": {"#W1": {"items": [{"id": 2}]}}}


def test_the_principal_stays_without_its_claims_when_it_decides() -> None:
    small = minimised(asked(), lambda given: (given["session"]["principal"] or {}).get("id") == "ada")
    assert small["session"]["principal"] == {"id": "ada", "source": "host", "claims": {}}


def test_a_stale_path_is_taken_away_whole_or_not_at_all() -> None:
    small = minimised(asked(stale=[["a", "b"], ["c", "d"]]), lambda given: any("d" in path for path in given["stale"]))
    assert small["stale"] == [["c", "d"]]


@given(st.sets(st.integers(0, 60), max_size=6), st.integers(0, 60))
def test_of_a_long_list_exactly_the_members_that_count_are_left(needed: set[int], length: int) -> None:
    needed = {one for one in needed if one < length}
    whole = asked({"rows": list(range(length))})
    small = minimised(whole, lambda given: needed <= set(given["ledger"].get("rows", ())))
    assert small["ledger"] == ({"rows": sorted(needed)} if needed else {})
