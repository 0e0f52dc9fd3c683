"""What policies look at, and what happened in a corpus."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ledgeragent.conversation import open_lines, read_conversation
from ledgeragent.coverage import Looks, looks
from ledgeragent.domain import Domain
from ledgeragent.gate import Gate
from ledgeragent.policies import EXAMPLES, REGO, SCHEMAS, domains
from support.recorded import write_records

pytest_plugins = ["support.fixtures"]

TALKS = EXAMPLES / "conversations" / "retail.jsonl"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ledgeragent", "coverage", "--engine", "embedded", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def seen(opa_binary: Path) -> Looks:
    return looks(Domain.load("retail"), REGO, SCHEMAS, opa_binary)


def test_paths_are_those_that_the_rules_read(seen: Looks) -> None:
    assert seen.exact
    assert seen.read["orders.*.status"] == ("retail.once_per_order", "retail.order_delivered", "retail.order_pending")
    assert seen.read["products.*.variants.*.available"] == ("retail.replacement_grounded",)


def test_what_no_predicate_reads_is_named_at_its_highest_place(seen: Looks) -> None:
    assert {"items", "product_types", "users.*.email", "users.*.address", "orders.*.address"} <= set(seen.unread)
    assert not {"orders.*.order_id", "users.*.user_id", "users.*.address.city"} & set(seen.unread)
    assert not set(seen.unread) & set(seen.read)


def test_reads_whose_facts_nobody_needs_are_named(seen: Looks) -> None:
    assert seen.needless == (("get_item_details", "items.*"), ("list_all_product_types", "product_types"))


def test_every_write_of_the_shipped_domains_has_a_rule_of_its_own_or_an_owner(opa_binary: Path) -> None:
    found = {name: looks(Domain.load(name), REGO, SCHEMAS, None) for name in domains()}
    assert {name: set(one.common_only) - set(one.unguarded) for name, one in found.items()} == {
        name: set() for name in domains()
    }


def test_without_opa_the_stated_evidence_is_taken_and_covers_what_the_rules_read(seen: Looks) -> None:
    stated = looks(Domain.load("retail"), REGO, SCHEMAS, None)
    assert not stated.exact
    above = {tuple(path.split(".")) for path in stated.read}
    for path in seen.read:
        keys = tuple(path.split("."))
        assert any(keys[: len(one)] == one for one in above), path


def corpus(*arguments: str) -> dict[str, Any]:
    done = run("--domain", "retail", "--format", "json", *arguments)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)["retail"]["corpus"]
    return found


@pytest.fixture(scope="module")
def counted(opa_binary: Path) -> dict[str, Any]:
    """Counts over the example conversations, as the command gives them."""
    return corpus(str(TALKS))


def test_predicates_are_counted_in_conversations(counted: dict[str, Any]) -> None:
    assert counted["verdicts"] == {"allow": 4, "block": 2, "revise": 5}
    assert counted["predicates"]["retail.order_pending"] == {"judged": 7, "violated": 1, "unknown": 2}
    assert counted["predicates"]["retail.payment_change_single"] == {"judged": 0, "violated": 0, "unknown": 0}
    assert counted["silent"] == [
        "common.no_repeat_write",
        "retail.gift_card_covers",
        "retail.payment_change_single",
        "retail.replacement_grounded",
    ]
    assert counted["factless"] == {}


def test_records_of_the_same_calls_are_counted_alike(counted: dict[str, Any], gate: Gate, tmp_path: Path) -> None:
    talks = (read_conversation(line, place=place) for place, line in open_lines(str(TALKS)))
    assert corpus(str(write_records(tmp_path / "records.jsonl", talks, gate))) == counted


def test_a_predicate_that_never_fired_can_fail_a_build(opa_binary: Path) -> None:
    assert run("--domain", "retail", "--require-fired", str(TALKS)).returncode == 1
    without = run("--domain", "retail", "--require-fired")
    assert (without.returncode, without.stderr) == (2, "ledgeragent: --require-fired needs files to count in\n")


def test_a_line_that_is_neither_is_named(tmp_path: Path) -> None:
    (tmp_path / "odd.jsonl").write_text('{"x": 1}\n', encoding="utf-8")
    done = run(str(tmp_path / "odd.jsonl"))
    assert done.returncode == 2
    assert done.stderr.startswith(f"ledgeragent: {tmp_path / 'odd.jsonl'} line 1 is no record")


def test_the_table_is_words_in_a_pipe(opa_binary: Path) -> None:
    done = run("--domain", "retail", str(TALKS))
    assert "  17 paths are read\n" in done.stdout
    assert "  no predicate reads: 17\n" in done.stdout
    assert "  11 judged calls: allow 4, block 2, revise 5\n" in done.stdout
    assert max(len(line) for line in done.stdout.splitlines()) <= 80
