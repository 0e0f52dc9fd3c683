"""`ledgeragent records` as an auditor meets it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ledgeragent.contracts import DecisionRecord
from ledgeragent.domain import Domain
from ledgeragent.gate import Gate
from ledgeragent.jsonio import canonical
from ledgeragent.policies import EXAMPLES
from ledgeragent.recordfiles import line_digest
from ledgeragent.records import JsonlRecorder, Record, parse_record
from ledgeragent.redact import Encrypted, Redacted
from ledgeragent.sealing import PublicKey
from support import retail
from support.retail import cancel, give_back, propose
from test_contracts import OUTCOME, RECORD

pytest_plugins = ["support.fixtures"]


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ledgeragent", "records", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture
def originals() -> list[Record]:
    """A decision's record and an outcome's."""
    return [parse_record(json.dumps(one), place="here") for one in (RECORD, OUTCOME)]


@pytest.fixture
def folder(tmp_path: Path, retail_domain: Domain, originals: list[Record]) -> Path:
    """A folder with a pair of keys, a file of encrypted records and one of redacted ones."""
    assert run(tmp_path, "keys", "auditor.pem", "records.pub").returncode == 0
    forms = {"encrypted": Encrypted(retail_domain, key=PublicKey.load(tmp_path / "records.pub"))}
    for name, form in {**forms, "redacted": Redacted(retail_domain)}.items():
        recorder = JsonlRecorder(tmp_path / f"{name}.jsonl", form)
        for record in originals:
            recorder.write(record)
        recorder.close()
    return tmp_path


def test_keys_are_made_once_and_their_id_is_told(tmp_path: Path) -> None:
    made = run(tmp_path, "keys", "auditor.pem", "records.pub")
    assert made.stdout == (
        "wrote auditor.pem and records.pub; records sealed with it carry the key id "
        f"{PublicKey.load(tmp_path / 'records.pub').id}\n"
    )
    again = run(tmp_path, "keys", "auditor.pem", "records.pub")
    assert (again.returncode, again.stdout) == (2, "")
    assert again.stderr == "ledgeragent: the key cannot be written to auditor.pem: File exists\n"


def test_encrypted_records_are_opened_and_others_stay_as_they_are(folder: Path, originals: list[Record]) -> None:
    done = run(folder, "open", "encrypted.jsonl", "redacted.jsonl", "--key", "auditor.pem")
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines[:2] == [canonical(one.model_dump(mode="json")) for one in originals]
    assert lines[2:] == (folder / "redacted.jsonl").read_text(encoding="ascii").splitlines()


def test_what_is_written_to_a_file_only_its_owner_can_read(folder: Path) -> None:
    done = run(folder, "open", "encrypted.jsonl", "--key", "auditor.pem", "--out", "open.jsonl")
    assert (done.returncode, done.stdout) == (0, "")
    out = folder / "open.jsonl"
    assert out.stat().st_mode & 0o777 == 0o600
    assert isinstance(parse_record(out.read_text(encoding="ascii").splitlines()[0], place="x"), DecisionRecord)


def test_a_changed_record_and_a_wrong_key_are_one_line_and_status_2(folder: Path) -> None:
    text = (folder / "encrypted.jsonl").read_text(encoding="ascii")
    (folder / "changed.jsonl").write_text(text.replace('"enforced":true', '"enforced":false'), encoding="ascii")
    run(folder, "keys", "other.pem", "other.pub")
    for file, key in (("changed.jsonl", "auditor.pem"), ("encrypted.jsonl", "other.pem")):
        done = run(folder, "open", file, "--key", key)
        assert done.returncode == 2
        assert done.stderr.startswith("ledgeragent: a sealed record does not open with the key ")


def test_every_command_shows_an_example(tmp_path: Path) -> None:
    for command in ("verify", "keys", "open"):
        assert f"Example: ledgeragent records {command}" in run(tmp_path, command, "--help").stdout


# Verify ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def records(tmp_path: Path, gate: Gate) -> Path:
    """A record file of a session: four decisions, two outcomes."""
    recorder = JsonlRecorder(tmp_path / "records.jsonl")
    session = retail.desk(gate, recorder=recorder)
    retail.run(session, cancel())
    for call in (cancel("#W9"), cancel("#W2"), give_back()):
        propose(session, call)
    session.close()
    recorder.close()
    return recorder.path


def summary(done: subprocess.CompletedProcess[str]) -> list[str]:
    """The lines of the summary, spaces made one."""
    return [" ".join(line.split()) for line in done.stderr.splitlines() if line.strip(" ─")]


@pytest.mark.parametrize("workers", ["1", "2"])
def test_sound_records_verify_and_the_head_is_told(records: Path, workers: str) -> None:
    head = line_digest(records.read_bytes().splitlines()[-1])
    done = run(records.parent, "verify", records.name, "--workers", workers, "--expect-head", head)
    assert (done.returncode, done.stdout) == (0, "")
    assert summary(done) == [
        "records number",
        "decisions judged again, as they stand 4",
        "outcomes 2",
        f"6 records, all of them in a chain; head {head}",
        "nothing differs",
    ]


@pytest.mark.parametrize("workers", ["1", "2"])
def test_what_differs_is_a_line_each_and_status_1(records: Path, workers: str) -> None:
    lines = records.read_bytes().splitlines(keepends=True)
    request = json.loads(lines[3])["input"]["request"]
    lines[2] = lines[2].replace(b'"enforced":true', b'"enforced":false')
    records.write_bytes(b"".join(lines))
    done = run(records.parent, "verify", records.name, "--workers", workers, "--format", "jsonl")
    said = "it does not follow the record above: one was changed, removed, added or moved"
    where = {"file": "records.jsonl", "line": 4, "request": request}
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {**where, "kind": "chain", "differs": True, "said": said}
    ]
    assert done.returncode == 1
    done = run(records.parent, "verify", records.name, "--workers", workers, "--no-judge")
    assert done.stdout == f"records.jsonl: line 4 ({request}): chain: {said}\n"
    assert "differs: chain 1" in summary(done)


def test_a_file_that_was_cut_short_shows_against_a_kept_head(records: Path) -> None:
    lines = records.read_bytes().splitlines(keepends=True)
    records.write_bytes(b"".join(lines[:-2]))
    head = line_digest(lines[-1].rstrip(b"\n"))
    assert run(records.parent, "verify", records.name).returncode == 0
    done = run(records.parent, "verify", records.name, "--expect-head", head)
    assert done.returncode == 1
    assert f"the head {head} is not among the records" in done.stdout


def test_sealed_records_are_judged_with_their_key_only(folder: Path) -> None:
    assert "decisions not judged: sealed (--key opens them) 1" in summary(run(folder, "verify", "encrypted.jsonl"))
    done = run(folder, "verify", "encrypted.jsonl", "--key", "auditor.pem")
    assert "decisions judged again, opened with the key 1" in summary(done)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["nowhere.jsonl"], "nowhere.jsonl cannot be read: No such file or directory"),
        (["records.jsonl", "--policies", "nowhere"], "no policies at nowhere"),
        (["records.jsonl", "--key", "nowhere.pem"], "the key nowhere.pem cannot be read"),
        (["records.jsonl", "--overrides", "nowhere.json"], "nowhere.json cannot be read"),
        (["records.jsonl", "--expect-head", "abc"], "'abc' is no digest of a record"),
    ],
)
def test_bad_input_is_one_message_and_status_2(records: Path, arguments: list[str], complaint: str) -> None:
    for more in ([], ["--workers", "2"]):
        done = run(records.parent, "verify", *arguments, *more)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f"ledgeragent: {complaint}")
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize("workers", ["1", "2"])
def test_an_interrupt_ends_it_with_what_was_found_so_far(records: Path, workers: str) -> None:
    command = [sys.executable, "-m", "ledgeragent", "records", "verify", "-", "--workers", workers, "--no-judge"]
    lines = records.read_bytes().splitlines(keepends=True)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, **pipes) as process:  # type: ignore[call-overload]
        process.stdin.write(b"".join([*lines[1:], *lines[1:] * 200]))
        process.stdin.flush()
        assert b"chain" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"interrupted" in err
    assert b"Traceback" not in err


def test_replay_keeps_the_records_that_verify_takes(tmp_path: Path) -> None:
    talks = [str(one) for one in sorted((EXAMPLES / "conversations").glob("*.jsonl"))]
    command = [sys.executable, "-m", "ledgeragent", "replay", *talks, "--engine", "embedded", "--format", "jsonl"]
    own = ["--record", "records.jsonl", "--workers", "2"]
    done = subprocess.run([*command, *own], cwd=tmp_path, capture_output=True, text=True, check=True)
    judged = len(done.stdout.splitlines())
    verified = run(tmp_path, "verify", "records.jsonl")
    assert (verified.returncode, verified.stdout) == (0, "")
    assert f"decisions judged again, as they stand {judged}" in summary(verified)
