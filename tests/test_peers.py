"""The comparison with peers, in what is ours of it: rules that say what the gate says, and tables. No peer is installed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ledgeragent.gate import Gate
from ledgeragent.session import Call

sys.path.append(str(Path(__file__).resolve().parent.parent / "bench"))

import peer_cases
import peer_set_up
import peer_tables
import peers
from decision_world import WRITE
from peer_cases import SIZES
from peer_set_up import NAMES, RULES
from peer_tables import Row

pytest_plugins = ("support.fixtures",)
HEAD = "package rules\n\nimport rego.v1\n\narguments := input.arguments\n\nstate := input.state\n"
MODIFIED = {"tool": WRITE.tool, "arguments": WRITE.arguments, "outcome": "executed"}
Change = Callable[[str, dict[str, Any], Any], Any]


def of(wanted: str, **fields: Any) -> Change:
    """What a read of that tool returned, with other fields."""
    return lambda tool, arguments, it: {**it, **fields} if tool == wanted and arguments != {"order_id": "#W2"} else it


def poor(tool: str, _arguments: dict[str, Any], content: Any) -> Any:
    """The gift card holds next to nothing."""
    if tool != "get_user_details":
        return content
    card = {"source": "gift_card", "id": "gift_card_1", "balance": 1}
    return {**content, "payment_methods": {**content["payment_methods"], "gift_card_1": card}}


def sold_out(tool: str, arguments: dict[str, Any], content: Any) -> Any:
    """The wanted lamp is not available."""
    if arguments.get("product_id") != "lamps":
        return content
    lamp = {**content["variants"]["lamps-1"], "available": False}
    return {**content, "variants": {**content["variants"], "lamps-1": lamp}}


def without(name: str) -> Change:
    """Reads of that tool were not made."""
    return lambda tool, _arguments, content: None if tool == name else content


CASES: dict[str, tuple[dict[str, Any], Change, list[dict[str, Any]], set[str]]] = {
    "nothing is wrong": ({}, peer_cases.as_is, [], set()),
    "another customer's order": ({}, of("get_order_details", user_id="bo_lund_1002"), [], {"retail.order_owner"}),
    "a delivered order": ({}, peer_cases.delivered, [], {"retail.order_pending"}),
    "an order changed before": (
        {},
        of("get_order_details", status="pending (item modified)"),
        [],
        {"retail.once_per_order", "retail.order_pending"},
    ),
    "an order changed in this session": (
        {"new_item_ids": ["lamps-2", "chairs-2"]},
        peer_cases.as_is,
        [MODIFIED],
        {"retail.once_per_order"},
    ),
    "the same again": ({}, peer_cases.as_is, [MODIFIED], {"common.no_repeat_write", "retail.once_per_order"}),
    "an item that is not in the order": (
        {"item_ids": ["lamps-0", "tables-0"]},
        peer_cases.as_is,
        [],
        {"retail.items_in_order"},
    ),
    "an item more often than it is in the order": (
        {"item_ids": ["lamps-0", "lamps-0"], "new_item_ids": ["lamps-1", "lamps-1"]},
        peer_cases.as_is,
        [],
        {"retail.items_in_order"},
    ),
    "a method that is not on the profile": (
        {"payment_method_id": "gift_card_9"},
        peer_cases.as_is,
        [],
        {"retail.payment_on_profile"},
    ),
    "a gift card that does not cover it": ({}, poor, [], {"retail.gift_card_covers"}),
    "a replacement that is sold out": ({}, sold_out, [], {"retail.replacement_grounded"}),
    "an item replaced by itself": (
        {"new_item_ids": ["lamps-0", "chairs-1"]},
        peer_cases.as_is,
        [],
        {"retail.replacement_grounded"},
    ),
    "a replacement too few": ({"new_item_ids": ["lamps-1"]}, peer_cases.as_is, [], {"retail.replacement_grounded"}),
    "an unread product": ({}, peer_cases.unread, [], set()),
    "an unread order": ({}, without("get_order_details"), [], set()),
    "an unread profile": ({}, without("get_user_details"), [], set()),
    "an unknown customer": ({}, without("find_user_id_by_email"), [], set()),
}


def asked(opa: Path, module: str, document: Any, folder: Path, *beside: Path) -> dict[str, Any]:
    """What a module says to an input."""
    file = folder / "rules.rego"
    file.write_text(module, encoding="utf-8")
    data = [word for path in (file, *beside) for word in ("--data", str(path))]
    command = [str(opa), "eval", "--format=raw", "--stdin-input", *data, "data.rules"]
    ran = subprocess.run(command, input=json.dumps(document), capture_output=True, text=True, check=True)
    result: dict[str, Any] = json.loads(ran.stdout)
    return result


def body(rules: str) -> str:
    return (peer_set_up.PEERS / f"{rules}.rego").read_text(encoding="utf-8").partition("import rego.v1\n")[2]


@pytest.mark.parametrize("name", CASES)
def test_plain_rules_break_where_ours_do(name: str, gate: Gate, opa_binary: Path, tmp_path: Path) -> None:
    changed, change, history, violated = CASES[name]
    call = Call(WRITE.tool, {**WRITE.arguments, **changed})
    session = peer_cases.session_of(gate, 5, change)
    _, case = peer_cases.state_of(session, 5, change, history)
    for _ in history:
        [first] = session.review([WRITE])
        assert first.ticket is not None
        session.execute(first.ticket, lambda *_: "done")
    [review] = session.review([call])
    assert review.decision is not None
    ours = {one.predicate for one in review.decision.findings if one.status == "violated"}

    plain = asked(opa_binary, HEAD + body("plain"), {"arguments": call.arguments, "state": case["state"]}, tmp_path)

    assert ours == violated
    assert set(plain["violated"]) == violated
    assert ("permitted" in plain) == (review.verdict == "allow")


def test_our_rules_asked_with_whole_facts_say_what_the_gate_says(gate: Gate, opa_binary: Path, tmp_path: Path) -> None:
    said = {}
    for name, (session, case) in peer_cases.cases(gate).items():
        answer = asked(opa_binary, HEAD + body("ours"), case, tmp_path, peer_set_up.REGO)
        said[name] = (session.review([WRITE])[0].verdict, answer["judged"]["verdict"])
    assert said == {
        "allowed@5": ("allow", "allow"),
        "allowed@50": ("allow", "allow"),
        "allowed@500": ("allow", "allow"),
        "violated@50": ("block", "block"),
        "missing@50": ("revise", "revise"),
        "stale@50": ("revise", "allow"),  # nobody but a ledger knows
    }


@pytest.mark.parametrize("peer", NAMES)
@pytest.mark.parametrize("rules", RULES)
def test_the_policy_of_a_peer_compiles_and_is_formatted(
    rules: str, peer: str, opa_binary: Path, tmp_path: Path
) -> None:
    file = tmp_path / "policy.rego"
    file.write_text(peer_set_up.policy(peer, rules), encoding="utf-8")
    subprocess.run([opa_binary, "check", "--strict", file], check=True)
    formatted = subprocess.run([opa_binary, "fmt", file], capture_output=True, text=True, check=True)
    assert formatted.stdout == file.read_text(encoding="utf-8")


@pytest.mark.parametrize("peer", NAMES)
def test_all_that_is_told_of_a_peer_is_there(peer: str) -> None:
    told = peer_tables.about(peer)
    assert {key: sorted(it) if isinstance(it, dict) else type(it) for key, it in told.items() if key != "variants"} == {
        "title": str,
        "needed": str,
        "state": str,
        "cannot": ["feedback", "missing", "order", "records", "revision", "rules", "stale"],
    }
    for variant in told["variants"].values():
        assert variant["kind"] in peer_tables.OURS
        assert variant["kind"] == "process" or variant["why"]


def row(who: str, how: str, kind: str, milliseconds: float, rules: str = "ours", why: str = "") -> Row:
    made = Row(
        who, how, kind, rules, why, verdicts={"allowed": "allowed", "violated": "no", "missing": "no", "stale": "?"}
    )
    made.samples = {size: [milliseconds * size] * 3 for size in SIZES}
    return made


ROWS = [
    row("ledgeragent", "server", "server", 2),
    row("ledgeragent", "embedded", "in process", 1),
    row("one", "over HTTP", "server", 3),
    row("one", "a process", "process", 9),
    row("two", "in process", "in process", 0.5, "plain", "It does less."),
]


def test_each_kind_is_held_against_our_engine_of_that_kind() -> None:
    assert peer_tables.table(ROWS).splitlines() == [
        "|  | rules | asked | 5 records: p50 / p95 ms | 50 records: p50 / p95 ms | 500 records: p50 / p95 ms |"
        " to ours, 5 | to ours, 50 | to ours, 500 |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
        "| ledgeragent | ours | server | 10.00 / 10.00 | 100.00 / 100.00 | 1000.00 / 1000.00 | 1.00 | 1.00 | 1.00 |",
        "| ledgeragent | ours | embedded | 5.00 / 5.00 | 50.00 / 50.00 | 500.00 / 500.00 | 1.00 | 1.00 | 1.00 |",
        "| one | ours | over HTTP | 15.00 / 15.00 | 150.00 / 150.00 | 1500.00 / 1500.00 | 1.50 | 1.50 | 1.50 |",
        "| one | ours | a process | 45.00 / 45.00 | 450.00 / 450.00 | 4500.00 / 4500.00 | 4.50 | 4.50 | 4.50 |",
        "| two | plain | in process | 2.50 / 2.50 | 25.00 / 25.00 | 250.00 / 250.00 | 0.50 | 0.50 | 0.50 |",
    ]


def test_ways_to_ask_that_say_the_same_share_a_line() -> None:
    assert peer_tables.verdicts(ROWS).splitlines()[2:] == [
        "| ledgeragent | ours | server; embedded | allowed | no | no | ? |",
        "| one | ours | over HTTP; a process | allowed | no | no | ? |",
        "| two | plain | in process | allowed | no | no | ? |",
    ]


def test_who_is_faster_is_told_with_the_reason() -> None:
    told = f"{peer_tables.LESS}\n\nFaster than ours:\n\n* two, in process, plain rules: 0.50 of ours at 50 records. It does less."
    assert peer_tables.faster(ROWS) == told
    assert peer_tables.faster(ROWS[:-1]) == "No peer is faster than ours."


def test_a_peer_that_does_not_install_is_named_in_the_report_and_in_the_json() -> None:
    left_out = {"opadk": peer_set_up.NotInstalled("pip install: no such thing")}
    versions = {"ledgeragent": {"opa": "1.22.3"}}
    assert "Not measured: opadk: pip install: no such thing" in peer_tables.report(ROWS, versions, left_out)
    document = json.loads(peer_tables.as_json(ROWS, versions, left_out))
    assert document["not_measured"] == {"opadk": "pip install: no such thing"}
    assert document["rows"][-1] == {
        "who": "two",
        "how": "in process",
        "rules": "plain",
        "kind": "in process",
        "ms": {str(size): {"p50": size / 2, "p95": size / 2, "n": 3} for size in SIZES},
        "to_ours": {str(size): 0.5 for size in SIZES},
        "verdicts": {"allowed": "allowed", "violated": "no", "missing": "no", "stale": "?"},
    }


def test_nothing_is_fetched_for_a_peer_that_is_not_installed_when_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(peer_set_up.NotInstalled, match="no registry is asked"):
        peer_set_up.install("kitelogik", offline=True)
    assert list(tmp_path.iterdir()) == []


def test_takes_turns_and_starts_processes_in_every_fifth_round_only() -> None:
    rows = [Row("one", "a server", "server"), Row("one", "a process", "process")]
    peers.measure([(one, float) for one in rows], 10)
    assert [{size: len(one.samples[size]) for size in SIZES} for one in rows] == [
        dict.fromkeys(SIZES, 10),
        dict.fromkeys(SIZES, 2),
    ]


def test_a_wrong_verdict_is_not_timed() -> None:
    class Lax:
        def ask(self, *_: str) -> dict[str, Any]:
            return {"ms": 1.0, "allowed": True, "said": "fine"}

    assert peers.verdict_of(Lax(), "server", "stale") == "allowed"  # type: ignore[arg-type]
    with pytest.raises(peer_set_up.NotMeasured, match="wrong verdict: server, missing: True fine"):
        peers.verdict_of(Lax(), "server", "missing")  # type: ignore[arg-type]
