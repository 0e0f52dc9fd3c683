"""Why a decision was what it was, as an auditor asks for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ledgeragent.contracts import DecisionRecord, OutcomeRecord
from ledgeragent.deciding import Line, heads, predicate_file, trace, whole_trace
from ledgeragent.domain import Domain
from ledgeragent.explain import Explanation, explain
from ledgeragent.gate import Gate
from ledgeragent.policies import REGO
from ledgeragent.policysource import PolicySources
from ledgeragent.records import JsonlRecorder, read_records
from ledgeragent.redact import Redacted
from ledgeragent.reopen import Reopener
from support import retail
from support.fixture_check import test_results

pytest_plugins = ["support.fixtures"]

PENDING_FILE = "ledgeragent/retail/order_pending/order_pending.rego"


@pytest.fixture(scope="module")
def file(gate: Gate, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Records of one session: a cancellation that runs, the same again, and that of a delivered order."""
    path = tmp_path_factory.mktemp("records") / "records.jsonl"
    recorder = JsonlRecorder(path)
    session = retail.desk(gate, recorder=recorder)
    retail.run(session, retail.cancel())
    retail.propose(session, retail.cancel(call_id="cancel-2"))
    retail.propose(session, retail.cancel("#W2", call_id="cancel-3"))
    recorder.close()
    return path


@pytest.fixture(scope="module")
def decisions(file: Path) -> list[DecisionRecord]:
    return [one for one in read_records(file) if isinstance(one, DecisionRecord)]


def explained(record: DecisionRecord, opa: Path | None, *became: OutcomeRecord) -> Explanation:
    with PolicySources() as sources, Reopener(sources) as reopener:
        return explain(record, became, reopener.of(record), opa)


def test_a_refusal_names_its_facts_their_reads_the_line_that_decided_and_the_remedy(
    decisions: list[DecisionRecord], opa_binary: Path
) -> None:
    found = explained(decisions[2], opa_binary)
    first, *others = found.outcomes
    assert (first.predicate, first.status, first.verdict, first.again) == (
        "retail.order_pending",
        "violated",
        "block",
        "violated",
    )
    assert [(one.row, one.text, one.holds) for one in first.lines] == [
        (29, 'holds if facts.order.status == "pending"', False),
        (32, 'input.action.tool == "modify_pending_order_address"', False),
    ]
    assert first.lines[0].file == PENDING_FILE
    assert first.needed.startswith("Read the order; if it is not pending, tell the customer")
    assert {one.status for one in others} == {"holds"}
    assert all(one.lines and all(line.holds for line in one.lines) for one in others)
    [status] = [one for one in found.facts if one.path == ("orders", "#W2", "status")]
    assert (status.known, status.value, status.used_by) == ("known", "delivered", ("retail.order_pending",))
    assert status.read is not None
    assert (status.read.tool, status.read.path) == ("get_order_details", ["orders", "#W2"])
    assert found.same is True
    assert found.notes == ()


def test_a_stale_fact_names_the_write_that_changed_it_and_the_read_that_settles_it(
    decisions: list[DecisionRecord], opa_binary: Path
) -> None:
    found = explained(decisions[1], opa_binary)
    [status] = [one for one in found.facts if one.path == ("orders", "#W1", "status")]
    call = 'cancel_pending_order(order_id="#W1", reason="no longer needed"), executed'
    assert (status.known, status.value, status.stale_by) == ("stale", None, (call,))
    assert found.reads == ('get_order_details(order_id="#W1")',)
    repeat = next(one for one in found.outcomes if one.predicate == "common.no_repeat_write")
    [line] = repeat.lines
    assert (line.text, line.holds) == ("holds if not _repeats", False)
    assert [(one.text, one.holds) for one in line.because] == [("_repeats if {", True)]


def test_an_allow_has_no_remedy_and_its_lines_all_hold(
    decisions: list[DecisionRecord], file: Path, opa_binary: Path
) -> None:
    outcome = next(one for one in read_records(file) if isinstance(one, OutcomeRecord))
    found = explained(decisions[0], opa_binary, outcome)
    assert [one.outcome for one in found.became] == ["executed"]
    assert {(one.status, one.again, one.needed) for one in found.outcomes} == {("holds", "holds", "")}
    assert found.reads == ()


def test_without_opa_the_lines_are_those_at_which_rules_begin(decisions: list[DecisionRecord]) -> None:
    found = explained(decisions[2], None)
    assert found.outcomes[0].lines == (
        Line(PENDING_FILE, 29, 'holds if facts.order.status == "pending"', None),
        Line(PENDING_FILE, 31, "holds if {", None),
    )
    assert found.same is True
    assert found.notes == ("no opa on PATH: shown are the lines at which rules begin, not those that decided",)


def test_a_redacted_record_says_what_it_shows_and_what_it_cannot(
    decisions: list[DecisionRecord], retail_domain: Domain, opa_binary: Path
) -> None:
    record = Redacted(retail_domain)(decisions[2])
    assert isinstance(record, DecisionRecord)
    found = explained(record, opa_binary)
    assert (found.same, found.outcomes[0].status, found.outcomes[0].again) == (None, "violated", None)
    assert found.outcomes[0].lines == heads(REGO, "retail.order_pending")
    [note] = found.notes
    assert note.startswith("not judged again: the record is kept as redacted: ")


def test_a_predicate_is_traced_through_its_own_helpers_only(decisions: list[DecisionRecord], opa_binary: Path) -> None:
    given = decisions[1].input.model_dump(mode="json")
    found = trace(opa_binary, REGO, ["retail.order_pending", "retail.order_owner"], given)
    assert {name: one.holds for name, one in found.items()} == {
        "retail.order_pending": False,
        "retail.order_owner": True,
    }
    assert {one.file for one in found["retail.order_pending"].steps} == {PENDING_FILE}
    assert found["retail.order_pending"].evidence == (("orders", "#W1", "status"),)
    whole = whole_trace(opa_binary, REGO, ["retail.order_pending"], given)
    assert "facts.rego" in whole
    assert predicate_file(REGO, "retail.order_pending") == REGO / PENDING_FILE


# The command ---------------------------------------------------------------------------------------------------------


def run(*arguments: str, opa: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ledgeragent", *arguments]
    own = {} if opa is None else {"LEDGERAGENT_OPA_BIN": str(opa)}
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **own})


def test_the_command_says_it_in_words_and_in_json(
    decisions: list[DecisionRecord], file: Path, opa_binary: Path
) -> None:
    request = decisions[2].input.request
    said = run("explain", request[:8], "--records", str(file), opa=opa_binary)
    assert (said.returncode, said.stderr) == (0, "")
    words = " ".join(said.stdout.split())
    for part in (
        'BLOCK cancel_pending_order(order_id="#W2", reason="no longer needed")',
        "judged again: the same",
        'orders.#W2.status = "delivered" read by get_order_details',
        f'{PENDING_FILE}:29 fails: holds if facts.order.status == "pending"',
        'Now orders.#W2.status is "delivered".',
    ):
        assert part in words
    assert max(len(line) for line in said.stdout.splitlines()) <= 80
    document: dict[str, Any] = json.loads(
        run("explain", request, "--records", str(file), "--format", "json", opa=opa_binary).stdout
    )
    assert (document["request"], document["verdict"], document["same"]) == (request, "block", True)
    assert document["predicates"][0]["lines"][0]["row"] == 29


def test_the_whole_trace_is_opas_own(decisions: list[DecisionRecord], file: Path, opa_binary: Path) -> None:
    said = run("explain", decisions[2].input.request, "--records", str(file), "--trace", opa=opa_binary)
    assert said.returncode == 0
    assert "| Fail " in said.stdout


def test_a_fixture_is_written_from_the_command_line(
    decisions: list[DecisionRecord], file: Path, opa_binary: Path, tmp_path: Path
) -> None:
    done = run("fixture", decisions[2].input.request[:10], "--records", str(file), "-o", str(tmp_path / "made"))
    assert (done.returncode, done.stderr) == (0, "")
    stem = f"order_pending_{decisions[2].input.request[:8]}"
    assert done.stdout.startswith(f"wrote {tmp_path / 'made' / f'{stem}_test.rego'}\n")
    assert test_results(opa_binary, REGO, tmp_path / "made") == {stem: True}


@pytest.mark.parametrize("command", ["explain", "fixture"])
def test_an_id_that_names_no_decision_or_several_is_one_message(command: str, file: Path, tmp_path: Path) -> None:
    more = ["-o", str(tmp_path)] if command == "fixture" else []
    for name, said in (
        ("abc", "ledgeragent: 'abc' is too short for a record's id: give at least 6 characters\n"),
        ("no-such-id", f"ledgeragent: no decision with the id no-such-id on record in {file}\n"),
    ):
        done = run(command, name, "--records", str(file), *more)
        assert (done.returncode, done.stdout, done.stderr) == (2, "", said)


def test_a_revision_that_is_nowhere_is_said_and_the_record_told_all_the_same(
    decisions: list[DecisionRecord], tmp_path: Path
) -> None:
    lost = decisions[2].model_copy(update={"revision": "sha256:" + "0" * 64})
    recorder = JsonlRecorder(tmp_path / "lost.jsonl")
    recorder.write(lost)
    recorder.close()
    done = run("explain", lost.input.request, "--records", str(tmp_path / "lost.jsonl"))
    assert done.returncode == 0
    assert "violated  retail.order_pending, asks for block" in done.stdout
    assert "note: no policies at hand have the revision sha256:000000000000" in done.stdout
    refused = run("fixture", lost.input.request, "--records", str(tmp_path / "lost.jsonl"), "-o", str(tmp_path))
    assert refused.returncode == 2
    assert refused.stderr.startswith("ledgeragent: no policies at hand have the revision ")


def test_every_command_shows_an_example() -> None:
    for command in ("explain", "fixture", "coverage"):
        assert f"Example: ledgeragent {command} " in run(command, "--help").stdout
