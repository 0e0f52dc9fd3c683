"""`ledgeragent backtest` as a security team meets it, on records, with the shipped policies and overrides as the change."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from ledgeragent.cli import main
from ledgeragent.cli_backtest import _old
from ledgeragent.domain import Domain
from ledgeragent.gate import Gate
from ledgeragent.jsonio import canonical
from ledgeragent.policies import COMPILED, REGO, SCHEMAS
from ledgeragent.policysource import PolicySources
from ledgeragent.records import JsonlRecorder, Record, read_records
from ledgeragent.redact import Pseudonyms, Redacted
from support import retail
from support.retail import cancel, propose

pytest_plugins = ["support.fixtures"]
PENDING = "retail.order_pending"
RULE = {"mode": "off", "owner": "test", "reason": "to see what changes", "expires": "2099-12-31"}
CHANGED = [("cancel_pending_order", "block", "allow", PENDING, "vanished")]


def command(*arguments: object) -> list[str]:
    """The command line."""
    return [sys.executable, "-m", "ledgeragent", "backtest", *map(str, arguments)]


def run(folder: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run it there, in this process: what it prints and its status."""
    asked = ["ledgeragent", "backtest", "--policies", REGO, "--workers", 1, *arguments]
    out, err, status = io.StringIO(), io.StringIO(), 0
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", [str(one) for one in asked])
        patch.chdir(folder)
        try:
            main()
        except SystemExit as ended:
            status = int(ended.code or 0)
    return subprocess.CompletedProcess(asked, status, out.getvalue(), err.getvalue())


def changed(text: str) -> list[tuple[Any, ...]]:
    """(tool, old, new, predicate, change) of every row."""
    return [
        (row["tool"], row["old"]["verdict"], row["new"]["verdict"], one["predicate"], one["change"])
        for row in map(json.loads, text.splitlines())
        for one in row["changes"]
    ]


@pytest.fixture
def records(tmp_path: Path, gate: Gate) -> list[Record]:
    """Four calls on record: allowed, blocked as the order is delivered, wrong in its reason, and not yet read."""
    recorder = JsonlRecorder(tmp_path / "records.jsonl")
    session = retail.desk(gate)
    session._recorder = recorder
    for call in (cancel(), cancel("#W2"), cancel(reason="bored"), cancel("#W9")):
        propose(session, call)
    recorder.close()
    return list(read_records(tmp_path / "records.jsonl"))


@pytest.fixture
def off(tmp_path: Path) -> Path:
    """Overrides that switch one predicate off."""
    file = tmp_path / "off.json"
    file.write_text(json.dumps({"retail": {"predicates": {PENDING: RULE}}}), encoding="utf-8")
    return file


def test_the_same_policies_change_nothing(tmp_path: Path, records: list[Record]) -> None:
    done = run(tmp_path, "--records", "records.jsonl")
    assert done.stdout.startswith("No verdict changes in 4 calls.\nold  the decisions as recorded (retail sha256:")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_change_is_listed_with_its_predicate_and_the_fact_that_decides(
    tmp_path: Path, records: list[Record], off: Path
) -> None:
    done = run(tmp_path, "--records", "records.jsonl", "--overrides", off, "--format", "jsonl")
    assert (changed(done.stdout), done.returncode) == (CHANGED, 1)
    row = json.loads(done.stdout)
    assert row["facts"] == [{"path": ["orders", "#W2", "status"], "value": "delivered"}]
    assert (row["kind"], row["file"], row["line"], row["arguments"]["order_id"]) == (
        "verdict",
        "records.jsonl",
        2,
        "#W2",
    )
    assert done.stderr == "1 of 4 calls changes its verdict.\n"


def test_calls_that_keep_their_verdict_are_counted_and_listed_when_asked_for(
    tmp_path: Path, records: list[Record], off: Path
) -> None:
    asked = ("--records", "records.jsonl", "--overrides", off)
    told = run(tmp_path, *asked).stdout
    assert "With the same verdict: other findings in 2 calls, only other words in 0 calls" in " ".join(told.split())
    everything = run(tmp_path, *asked, "--all", "--format", "jsonl").stdout
    assert [json.loads(line)["kind"] for line in everything.splitlines()] == ["verdict", "findings", "findings"]


@pytest.mark.parametrize(
    ("allowed", "status", "unused"),
    [
        ((f"{PENDING}:block->allow",), 0, []),
        (("@cancel_*",), 0, []),
        ((f"{PENDING}:block->revise",), 1, [f"{PENDING}:block->revise"]),
        ((f"{PENDING}", "airline.*"), 0, ["airline.*"]),
    ],
)
def test_a_change_that_is_meant_is_no_failure(
    tmp_path: Path, records: list[Record], off: Path, allowed: tuple[str, ...], status: int, unused: list[str]
) -> None:
    options = [part for text in allowed for part in ("--allow-change", text)]
    done = run(tmp_path, "--records", "records.jsonl", "--overrides", off, "--format", "json", *options)
    document = json.loads(done.stdout)
    assert (done.returncode, document["unused"], document["changed"]) == (status, unused, 1)
    assert document["unexpected"] == status
    assert [changed(json.dumps(row)) for row in document["calls"]] == [CHANGED]
    assert document["groups"][0]["tools"] == {"cancel_pending_order": 1}
    assert set(document["catalogue"]) == {PENDING}


def test_a_comment_shows_the_catalogue_and_no_more_than_may_be_logged(
    tmp_path: Path, records: list[Record], off: Path
) -> None:
    done = run(tmp_path, "--records", "records.jsonl", "--overrides", off, "--format", "markdown", "--out", "c.md")
    text = (tmp_path / "c.md").read_text(encoding="utf-8")
    assert (done.returncode, done.stdout) == (1, "")
    assert text.startswith("### ❌ Policy backtest: 1 of 4 calls changes its verdict.\n")
    assert "Only a pending order can be cancelled or modified" in text
    assert '<code>orders.&#35;W2.status</code> = <code>"delivered"</code>' in text
    for hidden in (retail.USER, retail.EMAIL, "can be cancelled or modified.<br>", "The status of order"):
        assert hidden not in text


def test_records_that_cannot_be_judged_again_are_counted_and_the_others_judged(
    tmp_path: Path, records: list[Record], retail_domain: Domain, off: Path
) -> None:
    forms = (Redacted(retail_domain), Pseudonyms(retail_domain, key=b"k" * 32))
    kept = [form(record) for form in forms for record in records]
    again = [one.redacted.judged_again for one in kept if one.redacted is not None]
    (tmp_path / "kept.jsonl").write_text(
        "".join(canonical(one.model_dump(mode="json")) + "\n" for one in kept), encoding="utf-8"
    )
    done = run(tmp_path, "--records", "kept.jsonl", "--overrides", off, "--format", "json")
    document = json.loads(done.stdout)
    assert document["compared"] == again.count("by_equality")
    assert sum(document["incomparable"].values()) == again.count("no")
    assert "redacted: judged again no" in document["incomparable"]


def test_lines_that_are_no_records_are_named_and_fail(tmp_path: Path, records: list[Record]) -> None:
    with (tmp_path / "records.jsonl").open("a", encoding="utf-8") as file:
        file.write("{\n")
    done = run(tmp_path, "--records", "records.jsonl")
    assert done.returncode == 1
    assert done.stderr.startswith("skipped: records.jsonl line 5 is not JSON")
    assert "1 line skipped: not judged." in done.stdout


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("records.jsonl",), "say what the files hold: --records or --conversations"),
        (("--records", "--conversations", "records.jsonl"), "say what the files hold"),
        (("--conversations", "records.jsonl", "--against", "recorded"), "conversations hold no decisions"),
        (("--records", "nothing.jsonl"), "nothing.jsonl cannot be read"),
        (("--records", "records.jsonl", "--against", "nowhere"), "no policies at nowhere"),
        (("--records", "records.jsonl", "--allow-change", "x->y"), "write PREDICATE@TOOL:OLD->NEW"),
        (("--records", "-", "--state", "state"), "stdin cannot be resumed"),
    ],
)
def test_what_cannot_be_meant_is_one_message_and_status_2(
    tmp_path: Path, records: list[Record], arguments: tuple[str, ...], complaint: str
) -> None:
    done = run(tmp_path, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert complaint in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_conversations_are_compared_with_the_last_commit_of_the_new_policies_or_else_with_the_shipped_ones(
    tmp_path: Path,
) -> None:
    top = tmp_path / "top"
    for source, name in ((REGO, "rego"), (SCHEMAS, "schemas"), (COMPILED, "compiled")):
        shutil.copytree(source, top / "policies" / name)
    new = str(top / "policies" / "rego")
    for own, inputs, name in (
        (None, "records", None),
        ("recorded", "records", None),
        (None, "conversations", "shipped"),
    ):
        with PolicySources(repository=top) as sources:
            old = _old(sources, new, own, inputs)
            assert (old and old.policies) == (REGO if name else None)
    git = ("git", "-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false")
    for arguments in (("init", "-q", "-b", "main"), ("add", "-A"), ("commit", "-qm", "policies")):
        subprocess.run([*git, *arguments], cwd=top, check=True)
    with PolicySources(repository=top) as sources:
        for own, name in ((None, "git:HEAD:policies"), ("git:main", "git:main:policies"), ("git:main:policies", None)):
            old = _old(sources, new, own, "conversations")
            assert old is not None
            assert (old.name, old.revisions()) == (name or own, sources.shipped().revisions())


def many(folder: Path, records: list[Record], copies: int) -> list[str]:
    """A file of so many copies of the records; its lines."""
    lines = [canonical(one.model_dump(mode="json")) + "\n" for one in records] * copies
    (folder / "many.jsonl").write_text("".join(lines), encoding="utf-8")
    return lines


def test_any_number_of_workers_says_the_same(tmp_path: Path, records: list[Record], off: Path) -> None:
    many(tmp_path, records, 50)
    asked = ("--records", "many.jsonl", "--overrides", off, "--format", "jsonl")
    one, two = run(tmp_path, *asked), run(tmp_path, *asked, "--workers", 2)
    assert one.stdout == two.stdout
    assert changed(one.stdout) == CHANGED * 50
    assert [json.loads(line)["line"] for line in one.stdout.splitlines()] == list(range(2, 200, 4))


@pytest.mark.parametrize(("how", "status"), [(signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, 130)])
def test_a_run_that_was_ended_is_gone_on_with_and_judges_every_call_once(
    tmp_path: Path, records: list[Record], off: Path, how: signal.Signals, status: int
) -> None:
    many(tmp_path, records, 300)
    state = tmp_path / "state"
    asked = ("--records", "many.jsonl", "--overrides", off, "--format", "jsonl", "--state", state)
    with subprocess.Popen(
        command("--policies", REGO, "--workers", 2, *asked),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as begun:
        while not state.exists() or state.read_bytes().count(b"\n") < 4:
            assert begun.poll() is None
            time.sleep(0.01)  # until some pieces are judged: nothing else says so
        os.kill(begun.pid, how)
        out, err = begun.communicate()
    assert begun.returncode == status
    assert b"Traceback" not in err
    before = state.read_bytes()
    if how == signal.SIGINT:
        assert 0 < len(out.splitlines()) < 300
        assert b"run the same command again to go on from --state" in err

    done = run(tmp_path, *asked)
    assert changed(done.stdout) == CHANGED * 300
    assert [json.loads(line)["line"] for line in done.stdout.splitlines()] == list(range(2, 1200, 4))
    assert done.stderr.startswith("going on after line ")
    assert state.read_bytes().startswith(before[: before.rfind(b"\n") + 1])
    again = run(tmp_path, *asked, "--allow-change", ":block->allow")
    assert (again.returncode, again.stdout) == (0, done.stdout)
