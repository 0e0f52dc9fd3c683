"""The command line as a user meets it: in a pipe, with bad input, with nothing behind an address."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ledgeragent.policies import EXAMPLES, SCHEMAS

CONVERSATIONS = EXAMPLES / "conversations" / "retail.jsonl"
VECTORS: list[dict[str, Any]] = json.loads((SCHEMAS / "vectors" / "retail.json").read_text())["vectors"]


def run(*arguments: str, stdin: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command with output in pipes, as another program would."""
    plain = {name: value for name, value in os.environ.items() if name not in ("FORCE_COLOR", "LEDGERAGENT_OPA_URL")}
    done = subprocess.run(
        [sys.executable, "-m", "ledgeragent", *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        env={**plain, **environment},
        timeout=120,
        check=False,
    )
    assert "Traceback" not in done.stderr
    return done


def line(**fields: Any) -> str:
    return json.dumps({"id": "c", "domain": "retail", "messages": [], **fields})


def calling(tool: str, arguments: Any) -> list[Mapping[str, Any]]:
    return [{"role": "assistant", "tool_calls": [{"id": "1", "name": tool, "arguments": arguments}]}]


def first_vector(verdict: str) -> dict[str, Any]:
    return next(vector["input"] for vector in VECTORS if vector["decision"]["verdict"] == verdict)


def gates(demo: str, title: str) -> list[str]:
    """The verdicts that the demo shows in the conversation with this title."""
    (shown,) = [part for part in f"\n{demo}".split("\n# ") if part.startswith(title)]
    return [text.strip() for text in shown.splitlines() if text.strip().startswith("gate:")]


def test_the_demo_shows_the_refused_cancellation_and_the_corrected_refund() -> None:
    done = run("demo")
    assert done.returncode == 0
    assert gates(done.stdout, "A cancellation without a ground") == ["gate: REVISE", "gate: BLOCK"]
    assert gates(done.stdout, "A refund is sent to the wrong card") == ["gate: REVISE", "gate: ALLOW"]
    assert "retail.refund_payment_in_order_history" in done.stdout
    judged = sum(text.strip().startswith("gate:") for text in done.stdout.splitlines())
    assert f"{judged} judged calls: " in done.stdout


def test_the_demo_is_plain_in_a_pipe_and_coloured_on_request() -> None:
    assert "\x1b[" not in run("demo").stdout
    assert "\x1b[" in run("demo", FORCE_COLOR="1").stdout


def test_the_demo_fits_a_narrow_terminal() -> None:
    told = run("demo", COLUMNS="40").stdout.split("judged calls")[0]
    assert max(len(text) for text in told.splitlines()) <= 40


def test_replay_writes_one_json_line_per_judged_call() -> None:
    done = run("replay", str(CONVERSATIONS), "--engine", "embedded", "--format", "jsonl")
    assert done.returncode == 0
    rows = [json.loads(text) for text in done.stdout.splitlines()]
    assert rows[0] == {
        "conversation": "corrected-refund",
        "index": 8,
        "call_id": "corrected-refund-4",
        "tool": "return_delivered_order_items",
        "verdict": "revise",
        "findings": [
            {
                "predicate": "retail.refund_payment_in_order_history",
                "status": "violated",
                "verdict": "revise",
                "cause": "violated",
            }
        ],
        "executed": False,
        "reward": None,
    }
    assert "11 judged calls: 4 allow, 5 revise, 2 block" in done.stderr


def test_workers_change_neither_the_rows_nor_their_order(tmp_path: Path) -> None:
    many = tmp_path / "many.jsonl"
    texts = CONVERSATIONS.read_text().splitlines()
    many.write_text(
        "\n".join(json.dumps({**json.loads(text), "id": f"{n}"}) for n, text in enumerate(texts * 6)), encoding="utf-8"
    )
    arguments = ("replay", str(many), "--engine", "embedded", "--format", "jsonl")
    alone = run(*arguments).stdout
    assert len(alone.splitlines()) == 66
    assert run(*arguments, "--workers", "2").stdout == alone


def test_replay_reports_lines_that_are_no_conversations_and_judges_the_rest(tmp_path: Path) -> None:
    out = tmp_path / "verdicts.txt"
    lines = [
        "{not json",
        '{"id": "a"}',
        line(domain="nowhere"),
        line(domain=None),
        line(now="yesterday", messages=calling("drop_all", {})),
        line(id="good", messages=calling("drop_all", "{}")),
    ]
    done = run("replay", "-", "--engine", "embedded", "--out", str(out), stdin="\n".join(lines))
    assert done.returncode == 1
    said = " ".join(done.stderr.split())
    for reason in (
        "stdin line 1 is not JSON",
        "stdin line 2: 'messages' must be a list",
        "stdin line 3: no domain 'nowhere'",
        "stdin line 4 names no domain; add --domain",
        "stdin line 5: 'now' must be RFC 3339 with an offset",
        "5 lines skipped",
    ):
        assert reason in said
    assert out.read_text() == "good  0  drop_all  block  gate.tool (violated)\n"


def test_replay_says_which_file_it_cannot_read() -> None:
    done = run("replay", "no-such-file.jsonl", "--engine", "embedded")
    assert done.returncode == 1
    assert "no-such-file.jsonl cannot be read" in " ".join(done.stderr.split())


@pytest.mark.parametrize(("verdict", "status"), [("allow", 0), ("revise", 10), ("block", 20)])
def test_check_tells_the_verdict_by_its_exit_status(verdict: str, status: int) -> None:
    asked = first_vector(verdict)
    done = run("check", "--engine", "embedded", stdin=json.dumps(asked))
    assert done.returncode == status
    decision = json.loads(done.stdout)
    assert (decision["verdict"], decision["request"]) == (verdict, asked["request"])


def test_check_blocks_what_is_not_a_gate_input() -> None:
    done = run("check", "--engine", "embedded", stdin='{"domain": "retail"}')
    assert done.returncode == 20
    assert json.loads(done.stdout)["findings"][0]["predicate"] == "gate.input"


@pytest.mark.parametrize("stdin", ["", "{", "[]", '{"domain": 1}', '{"domain": "nowhere"}', '{"a": NaN}'])
def test_check_refuses_what_names_no_domain(stdin: str) -> None:
    done = run("check", "--engine", "embedded", stdin=stdin)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("ledgeragent: stdin")


def test_a_policy_server_that_is_not_there_is_an_error_of_its_own() -> None:
    asked = json.dumps(first_vector("allow"))
    for arguments in (("check",), ("replay", str(CONVERSATIONS))):
        done = run(*arguments, "--engine", "http://127.0.0.1:9", stdin=asked)
        assert (done.returncode, done.stdout) == (30, "")
        assert "engine.unreachable" in done.stderr
    assert run("doctor", "--engine", "http://127.0.0.1:9").returncode == 1


def test_a_configured_server_that_is_gone_is_not_replaced_by_other_policies() -> None:
    asked = json.dumps(first_vector("allow"))
    done = run("check", stdin=asked, LEDGERAGENT_OPA_URL="http://127.0.0.1:9")
    assert (done.returncode, done.stdout) == (30, "")


def test_policies_that_are_not_those_of_the_module_are_refused(tmp_path: Path) -> None:
    page = tmp_path / "rego" / "ledgeragent" / "retail" / "retail.rego"
    page.parent.mkdir(parents=True)
    page.write_text("package ledgeragent.retail\n")
    arguments = ("--engine", "embedded", "--policies", str(tmp_path / "rego"))
    done = run("replay", str(CONVERSATIONS), *arguments)
    assert (done.returncode, done.stdout) == (30, "")
    assert "run `make compile`" in done.stderr


def test_doctor_says_what_would_be_used_and_that_it_proves_itself() -> None:
    done = run("doctor", "--engine", "embedded")
    assert done.returncode == 0
    assert "domain retail: 16 tools; proved for revision" in " ".join(done.stdout.split())


def test_policies_lists_every_predicate() -> None:
    rows = json.loads(run("policies", "--domain", "retail", "--format", "json").stdout)
    assert [row["id"] for row in rows] == [
        "common.no_repeat_write",
        "retail.cancel_reason",
        "retail.gift_card_covers",
        "retail.items_in_order",
        "retail.once_per_order",
        "retail.order_delivered",
        "retail.order_owner",
        "retail.order_pending",
        "retail.payment_change_single",
        "retail.payment_on_profile",
        "retail.refund_payment_in_order_history",
        "retail.replacement_grounded",
        "retail.user_authenticated",
    ]
    assert all(row["title"] in run("policies").stdout for row in rows[:1])
    assert run("policies", "--domain", "nowhere").returncode == 2


@pytest.mark.parametrize("command", ["replay", "check", "demo", "policies", "doctor"])
def test_every_command_has_an_example_in_its_help(command: str) -> None:
    assert f"ledgeragent {command}" in " ".join(run(command, "--help").stdout.split())


def test_a_reader_that_goes_away_ends_the_command_quietly(tmp_path: Path) -> None:
    many = tmp_path / "many.jsonl"
    many.write_text(CONVERSATIONS.read_text() * 60)  # more rows than a pipe holds
    replay = f"{sys.executable} -m ledgeragent replay {many} --engine embedded --format jsonl"
    command = f"{replay} | head -c 1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False, timeout=60)
    assert (done.stdout, done.stderr) == ("{1\n", "")
