"""`ledgeragent records` as an auditor meets it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ledgeragent.contracts import DecisionRecord
from ledgeragent.domain import Domain
from ledgeragent.jsonio import canonical
from ledgeragent.records import JsonlRecorder, Record, parse_record
from ledgeragent.redact import Encrypted, Redacted
from ledgeragent.sealing import PublicKey
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
    for command in ("keys", "open"):
        assert f"Example: ledgeragent records {command}" in run(tmp_path, command, "--help").stdout
