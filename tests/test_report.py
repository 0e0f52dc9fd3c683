"""`ledgeragent report`: what its page says of recordings, and what it may not say."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ledgeragent.cli import app
from ledgeragent.conversation import open_lines, read_conversation
from ledgeragent.domain import Domain
from ledgeragent.gate import Gate
from ledgeragent.policies import EXAMPLES
from ledgeragent.records import JsonlRecorder, read_records
from ledgeragent.redact import Redacted
from ledgeragent.replay import Replay
from ledgeragent.report import Everything, of_conversation
from support.report_page import HOSTILE, Unpacked, elements, record, unpacked

pytest_plugins = ["support.fixtures"]

FILES = sorted((EXAMPLES / "conversations").glob("*.jsonl"))
RETAIL = EXAMPLES / "conversations" / "retail.jsonl"
OWN_TAGS = {"a", "body", "button", "div", "h1", "head", "header", "html", "input", "kbd", "label", "main", "meta", "nav",
            "noscript", "p", "script", "section", "select", "span", "style", "title"}  # fmt: skip


def run(folder: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ledgeragent", "report", "--engine", "embedded", *map(str, arguments)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def page_of(folder: Path, *arguments: object) -> Unpacked:
    """The page that the command makes, run in this process."""
    given = ["--engine", "embedded", *map(str, arguments), "-o", str(folder / "report.html")]
    done = CliRunner().invoke(app, ["report", *given])
    assert done.exit_code == 0, done.output
    return unpacked((folder / "report.html").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Unpacked:
    """The page of all example conversations."""
    return page_of(tmp_path_factory.mktemp("whole"), *FILES)


@pytest.fixture
def records(tmp_path: Path, gate: Gate) -> Path:
    """The records of the retail examples."""
    path = tmp_path / "records.jsonl"
    recorder = JsonlRecorder(path)
    record(RETAIL, gate, recorder)
    recorder.close()
    return path


def changed(line: str, change: Callable[[dict[str, Any]], None]) -> str:
    document = json.loads(line)
    change(document)
    return json.dumps(document) + "\n"


# Conversations --------------------------------------------------------------------------------------------------


def test_the_index_has_every_judged_call_as_replay_has_it(whole: Unpacked, tmp_path: Path) -> None:
    command = ["replay", "--engine", "embedded", "--format", "jsonl", *map(str, FILES)]
    done = subprocess.run([sys.executable, "-m", "ledgeragent", *command], capture_output=True, text=True, check=True)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [
        (
            whole.entries[call["entry"]]["id"],
            call["tool"],
            call["verdict"],
            [{"predicate": one, "verdict": its, "cause": why} for one, its, why in call["findings"]],
        )
        for call in whole.calls
    ] == [
        (
            row["conversation"],
            row["tool"],
            row["verdict"],
            [{key: one[key] for key in ("predicate", "verdict", "cause")} for one in row["findings"]],
        )
        for row in rows
    ]


def test_the_changes_of_the_steps_build_the_ledger_as_it_stood_at_each(gate: Gate) -> None:
    compared = 0
    for place, line in open_lines(str(RETAIL)):
        conversation = read_conversation(line, place=place)
        steps = of_conversation(conversation, gate, Everything(), now=None, source=place).document["steps"]
        replay = Replay(conversation, gate)
        replayed = replay.steps()
        built: dict[tuple[str, ...], dict[str, Any]] = {}
        for number, step in enumerate(steps):
            for change in step.get("changes", ()):
                one = built.setdefault(tuple(change["path"]), {})
                one.update({"stale": []} | change)
            if step["kind"] in ("read", "write"):
                next(replayed)
                assert {path: (one["value"], one["read"]["tool"], one["stale"]) for path, one in built.items()} == {
                    path: (value, read.tool, [[list(each), _since(steps, path, each, number)] for each in stale])
                    for path, value, read, stale in replay.session.ledger.records()
                }
                compared += len(built)
    assert compared > 50


def _since(steps: list[dict[str, Any]], record: tuple[str, ...], path: tuple[str, ...], upto: int) -> int:
    """The step of the first write, since the record was read, after which the path is stale."""
    read = max(
        number
        for number, step in enumerate(steps[: upto + 1])
        if any(tuple(change["path"]) == record and "read" in change for change in step.get("changes", ()))
    )
    return next(
        number
        for number, step in enumerate(steps)
        if number > read
        and step["kind"] == "write"
        and any(list(path) == one for change in step.get("changes", ()) for one, _ in change.get("stale", ()))
    )


def test_a_step_says_what_was_judged_on_which_facts_and_what_is_missing(whole: Unpacked) -> None:
    [entry] = [number for number, one in enumerate(whole.entries) if one["id"] == "refused-cancellation"]
    revised, blocked = [step for step in whole.documents[entry]["steps"] if step["kind"] == "write"]
    flights = [["flight_status", "HAT062", "2024-05-16"], ["flight_status", "HAT284", "2024-05-17"]]
    assert (revised["verdict"], blocked["verdict"]) == ("revise", "block")
    assert revised["findings"][0]["missing"] == [[path, "missing"] for path in flights]
    assert [read[:2] for read in revised["reads"]] == [
        ["get_flight_status", {"flight_number": path[1], "date": path[2]}] for path in flights
    ]
    assert [path in blocked["saw"] for path in flights] == [True, True]
    assert [path in revised["saw"] for path in flights] == [False, False]
    assert blocked["outcome"] == "refused by the tool"
    assert "basic_economy" in blocked["findings"][0]["message"]
    assert "SI5UKW" in whole.entries[entry]["ids"]


def test_every_predicate_comes_with_its_rule_in_words(whole: Unpacked) -> None:
    found = {finding[0] for call in whole.calls for finding in call["findings"]}
    assert {one for one in found if not one.startswith("gate.")} <= set(whole.rules)
    assert all(set(rule) == {"title", "description", "remedy"} for rule in whole.rules.values())


def test_several_processes_make_the_same_page(tmp_path: Path, whole: Unpacked) -> None:
    assert run(tmp_path, *FILES, "--workers", 2).returncode == 0
    other = unpacked((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert (other.entries, other.calls, other.documents) == (whole.entries, whole.calls, whole.documents)


def test_what_is_in_a_text_of_a_recording_survives_even_where_it_is_no_unicode(tmp_path: Path) -> None:
    odd = HOSTILE + " \ud800 ~ � \0"
    lines = RETAIL.read_text(encoding="utf-8").splitlines()
    talk = changed(lines[1], lambda one: one["messages"][0].update(content=odd))
    (tmp_path / "talk.jsonl").write_text(talk, encoding="utf-8")
    done = run(tmp_path, "talk.jsonl")
    # I-JSON has no lone surrogates: such a line is refused, and nothing of it gets in.
    assert (done.returncode, "skipped: talk.jsonl line 1" in done.stderr) == (1, True)
    talk = changed(lines[1], lambda one: one["messages"][0].update(content=odd.replace("\ud800", "")))
    (tmp_path / "talk.jsonl").write_text(talk, encoding="utf-8")
    page = page_of(tmp_path, tmp_path / "talk.jsonl")
    assert page.documents[0]["steps"][0] == {"kind": "said", "who": "customer", "text": odd.replace("\ud800", "")}


# The page -------------------------------------------------------------------------------------------------------


def test_nothing_of_a_recording_stands_in_the_markup(tmp_path: Path) -> None:
    def spoil(one: dict[str, Any]) -> None:
        one |= {"id": HOSTILE, "title": HOSTILE}
        for message in one["messages"]:
            if message["role"] != "assistant" or not message.get("tool_calls"):
                message["content"] = HOSTILE
            for call in message.get("tool_calls", ()):
                call |= {"id": HOSTILE}
                call["arguments"]["order_id"] = HOSTILE
            if message["role"] == "tool":
                message["tool_call_id"] = HOSTILE

    line = changed(RETAIL.read_text(encoding="utf-8").splitlines()[1], spoil)
    (tmp_path / "<img src=x>.jsonl").write_text(line, encoding="utf-8")
    page = page_of(tmp_path, tmp_path / "<img src=x>.jsonl")
    assert (page.entries[0]["id"], page.documents[0]["steps"][0]["text"]) == (HOSTILE, HOSTILE)
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    found, _ = elements(text)
    assert {tag for tag, _ in found} == OWN_TAGS
    assert not [one for _, attributes in found for one in attributes if one.startswith("on") or one == "style"]
    assert "owned" not in text
    assert {tag: attributes for tag, attributes in found if tag in ("a", "link")} == {
        "a": {"class": "skip", "href": "#list"}
    }


def test_the_page_lets_only_its_own_style_and_script_run_and_nothing_be_fetched(tmp_path: Path) -> None:
    page_of(tmp_path, RETAIL)
    found, texts = elements((tmp_path / "report.html").read_text(encoding="utf-8"))
    [policy] = [one["content"] for tag, one in found if one.get("http-equiv") == "Content-Security-Policy"]
    digests = {
        name: base64.b64encode(hashlib.sha256(texts[name].encode()).digest()).decode() for name in ("script", "style")
    }
    assert policy == (
        f"default-src 'none'; script-src 'sha256-{digests['script']}'; style-src 'sha256-{digests['style']}'; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )
    assert not [word for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function(")
                if word in texts["script"]]  # fmt: skip
    assert "http" not in texts["script"] + texts["style"]


def test_the_page_is_its_owners_alone_and_an_older_one_stays_until_it_is_whole(tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text("older", encoding="utf-8")
    done = run(tmp_path, RETAIL, "--engine", "http://127.0.0.1:1")
    assert (done.returncode, (tmp_path / "report.html").read_text(encoding="utf-8")) == (30, "older")
    page_of(tmp_path, RETAIL)
    assert (tmp_path / "report.html").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_the_command_says_what_it_cost_and_what_it_skipped(tmp_path: Path) -> None:
    lines = RETAIL.read_text(encoding="utf-8").splitlines()
    bad = [lines[0], "[1]", changed(lines[1], lambda one: one.update(domain="nowhere")).strip(), '{"contract": 1}']
    (tmp_path / "some.jsonl").write_text("\n".join(bad), encoding="utf-8")
    done = run(tmp_path, "some.jsonl", "absent.gz", "-o", "page.html")
    skipped = [line for line in done.stderr.splitlines() if line.startswith("skipped: ")]
    assert [line.split(" is ")[0].split(":")[1].strip() for line in skipped] == [
        "some.jsonl line 2",
        "some.jsonl line 3",
        "some.jsonl line 4",
        "absent.gz cannot be read",
    ]
    assert "page.html: 0.1 MB, 1 conversation, 2 judged calls, in " in done.stderr
    assert done.stderr.rstrip().endswith("; it holds personal data")
    assert (done.returncode, done.stdout) == (1, "")


# Decision records -----------------------------------------------------------------------------------------------


def test_of_a_record_the_page_shows_the_slice_the_decision_saw(records: Path, tmp_path: Path) -> None:
    page = page_of(tmp_path, records)
    written = list(read_records(records))
    decisions = [one for one in written if one.kind == "decision"]
    steps = [step for document in page.documents for step in document["steps"]]
    assert [entry["kind"] for entry in page.entries] == ["session"] * 6
    assert len(steps) == len(decisions) > 0
    for step, decision in zip(steps, decisions, strict=True):
        rebuilt: dict[str, Any] = {}
        for fact in step["facts"]:
            if "value" in fact:
                inner = rebuilt
                for key in fact["path"][:-1]:
                    inner = inner.setdefault(key, {})
                inner[fact["path"][-1]] = fact["value"]
        assert rebuilt == decision.input.ledger
        assert {tuple(fact["path"]): fact["read"] for fact in step["facts"] if "read" in fact} == {
            tuple(fact.path): fact.model_dump(mode="json", exclude={"path"}) for fact in decision.facts
        }
        assert [path for fact in step["facts"] for path, _ in fact.get("stale", ())] == decision.input.stale
        assert step["request"] == decision.input.request


def test_outcomes_go_to_their_decisions_and_time_to_the_index(records: Path, tmp_path: Path) -> None:
    page = page_of(tmp_path, records)
    outcomes = {one.request: one.outcome for one in read_records(records) if one.kind == "outcome"}
    steps = [step for document in page.documents for step in document["steps"]]
    assert {step["request"]: step["outcome"] for step in steps if step["verdict"] == "allow"} == outcomes
    assert {step["outcome"] for step in steps if step["verdict"] != "allow"} == {"held back"}
    assert all(call["at"] > 1_600_000_000_000 for call in page.calls)


def test_a_field_is_stale_since_the_decision_that_first_saw_it_so(records: Path, tmp_path: Path) -> None:
    page = page_of(tmp_path, records)
    [number] = [at for at, one in enumerate(page.entries) if one["id"] == "replay:stale-order"]
    seen = [
        [since for fact in step["facts"] for _, since in fact.get("stale", ())]
        for step in page.documents[number]["steps"]
    ]
    assert [sorted(set(one)) for one in seen] == [[], [1], []]


def test_conversations_and_records_can_be_mixed_line_by_line(records: Path, tmp_path: Path) -> None:
    mixed = RETAIL.read_text(encoding="utf-8").splitlines()[:2] + records.read_text(encoding="utf-8").splitlines()
    (tmp_path / "mixed.jsonl").write_text("\n".join(mixed), encoding="utf-8")
    page = page_of(tmp_path, tmp_path / "mixed.jsonl")
    assert [entry["kind"] for entry in page.entries] == ["conversation"] * 2 + ["session"] * 6
    assert page.about["files"] == ["mixed.jsonl"]


def test_records_are_shown_without_engine_or_domain(records: Path, tmp_path: Path) -> None:
    (tmp_path / "other.jsonl").write_text(
        records.read_text(encoding="utf-8").replace('"domain":"retail"', '"domain":"elsewhere"'), encoding="utf-8"
    )
    page = page_of(tmp_path, tmp_path / "other.jsonl", "--engine", "http://127.0.0.1:1")
    assert {entry["domain"] for entry in page.entries} == {"elsewhere"}


def test_a_redacted_record_says_what_it_hides(retail_domain: Domain, gate: Gate, tmp_path: Path) -> None:
    recorder = JsonlRecorder(tmp_path / "redacted.jsonl", Redacted(retail_domain))
    record(RETAIL, gate, recorder)
    recorder.close()
    page = page_of(tmp_path, tmp_path / "redacted.jsonl")
    [first, *_] = [one for one in read_records(tmp_path / "redacted.jsonl") if one.redacted is not None]
    assert first.redacted is not None
    assert page.documents[0]["steps"][0]["redacted"] == first.redacted.model_dump(mode="json", exclude={"sealed"})
    assert page.entries[0]["title"] == "Decisions whose session is masked, of one or of many"


# Redaction ------------------------------------------------------------------------------------------------------

PERSONAL = [
    "chen",
    "silva",
    "maya",
    "ortiz",
    "12 garden lane",
    "springfield",
    "@example.com",
    "found it cheaper",
    "4242",
]


def test_a_redacted_page_has_nothing_that_the_allow_list_does_not_name(records: Path, tmp_path: Path) -> None:
    plain = page_of(tmp_path, RETAIL, records).everything().lower()
    assert [word for word in PERSONAL if word not in plain] == []
    masked = page_of(tmp_path, RETAIL, records, "--redact")
    # Ids and stand-ins are drawn at random: what they spell is nobody's.
    said = re.sub(r"~[a-z2-7]{26}|[0-9a-f]{16,}", "", masked.everything().lower())
    assert [word for word in PERSONAL if word in said] == []
    assert masked.about["masked"] is True


def test_a_redacted_page_keeps_verdicts_rules_and_what_is_allowed(whole: Unpacked, tmp_path: Path) -> None:
    masked = page_of(tmp_path, *FILES, "--redact")
    assert [(one["entry"], one["step"], one["verdict"], one["findings"]) for one in masked.calls] == [
        (one["entry"], one["step"], one["verdict"], one["findings"]) for one in whole.calls
    ]
    [entry] = [number for number, one in enumerate(whole.entries) if one["id"] == "stale-order"]
    statuses = [
        change["value"]["status"]
        for step in masked.documents[entry]["steps"]
        for change in step.get("changes", ())
        if change["path"][0] == "orders" and "value" in change
    ]
    assert statuses == ["pending", "pending (item modified)"]


def test_a_text_has_one_stand_in_all_over_a_page_and_another_on_the_next(records: Path, tmp_path: Path) -> None:
    first, second = (page_of(tmp_path, RETAIL, records, "--redact") for _ in range(2))

    def customers(page: Unpacked) -> set[str]:
        return {
            change["value"]
            for document in page.documents[:6]
            for step in document["steps"]
            for change in step.get("changes", ())
            if change["path"] == ["auth", "user_id"]
        }

    principals = {
        step["principal"]["id"] for document in first.documents[6:] for step in document["steps"] if step["principal"]
    }
    assert principals
    assert principals <= customers(first)
    assert not customers(first) & customers(second)


def test_a_record_of_an_unknown_domain_is_not_shown_where_it_had_to_be_redacted(records: Path, tmp_path: Path) -> None:
    (tmp_path / "other.jsonl").write_text(
        records.read_text(encoding="utf-8").replace('"domain":"retail"', '"domain":"elsewhere"'), encoding="utf-8"
    )
    done = run(tmp_path, "other.jsonl", "--redact")
    assert done.returncode == 1
    assert "no domain 'elsewhere'" in done.stderr
    assert unpacked((tmp_path / "report.html").read_text(encoding="utf-8")).entries == []


def test_the_help_says_that_a_page_holds_personal_data() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ledgeragent", "report", "--help"],
        capture_output=True, text=True, check=True, env={"COLUMNS": "100", "PATH": "/usr/bin", "NO_COLOR": "1", "PYTHONPATH": ":".join(sys.path)},
    )  # fmt: skip
    assert "personal data" in done.stdout
