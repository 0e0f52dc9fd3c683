"""`ledgeragent bundle`, and policy data on the command line, as an operator meets them."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ledgeragent.parts import gate_part
from ledgeragent.policies import REGO
from needs import need
from test_cli import first_vector, run

WIDE = {"COLUMNS": "1000"}
STOPPED = {"retail": {"tools": {"*": {"owner": "Security", "reason": "Incident 7.", "since": "2026-05-01"}}}}
DEMAND = {"owner": "Audit", "reason": "Always.", "predicates": ["common.four_eyes"]}


@pytest.fixture
def key(tmp_path: Path) -> Path:
    """A private key; the public one is beside it."""
    need(shutil.which("openssl"), "openssl")
    private, public = tmp_path / "org.pem", tmp_path / "org.pub"
    subprocess.run(["openssl", "genrsa", "-out", str(private), "2048"], check=True, capture_output=True)
    subprocess.run(
        ["openssl", "rsa", "-in", str(private), "-pubout", "-out", str(public)], check=True, capture_output=True
    )
    return private


def written(folder: Path, content: Any) -> str:
    file = folder / "data.json"
    file.write_text(json.dumps(content), encoding="utf-8")
    return str(file)


def test_what_is_built_is_listed_and_verifies(tmp_path: Path, opa_binary: Path, key: Path) -> None:
    out = tmp_path / "bundles"
    only = ("--only", "gate", "--only", "domain-retail", "--only", "freeze")
    built = run(
        *("bundle", "build", "--out", str(out), "--sequence", "3", "--signing-key", str(key)),
        *("--freeze", written(tmp_path, STOPPED), *only),
        LEDGERAGENT_OPA_BIN=str(opa_binary),
    )
    assert built.returncode == 0, built.stderr
    gate = gate_part(REGO).revision
    assert f"wrote {out}/gate.tar.gz: roots ledgeragent/common, ledgeragent/gate, {gate}" in built.stdout.splitlines()
    assert built.stdout.splitlines()[-1] == "signed"
    files = [str(out / f"{name}.tar.gz") for name in ("gate", "domain-retail", "freeze")]
    trusted = ("--verification-key", str(key.with_suffix(".pub")), "--minimum", "freeze=3", "--minimum", "retail=3")
    good = run("bundle", "verify", *files, *trusted, LEDGERAGENT_OPA_BIN=str(opa_binary))
    assert (good.returncode, good.stdout.splitlines()[-1]) == (0, "0 problems")
    bad = run("bundle", "verify", *files, "--minimum", "freeze=4", LEDGERAGENT_OPA_BIN=str(opa_binary))
    assert bad.returncode == 1
    assert bad.stdout.splitlines()[-3:] == [
        "skipped the signatures: give the public key",
        f"wrong   {files[2]}: retail: its sequence number 3 is below 4, the minimum",
        "1 problem",
    ]


def test_a_domain_alone_is_built_against_the_gate_beside_it(tmp_path: Path, opa_binary: Path) -> None:
    built = run(
        *("bundle", "build", "--out", str(tmp_path / "bundles"), "--only", "domain-telecom"),
        LEDGERAGENT_OPA_BIN=str(opa_binary),
    )
    assert built.returncode == 0, built.stderr
    assert [path.name for path in (tmp_path / "bundles").iterdir()] == ["domain-telecom.tar.gz"]
    assert built.stdout.splitlines()[-1] == "not signed: an OPA that wants a signature refuses them"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (
            ("build", "--out", "x", "--only", "retail"),
            "there is no bundle 'retail' here; there are gate, domain-airline,",
        ),
        (
            ("build", "--out", "x", "--only", "gate", "--signing-key", "nowhere.pem"),
            "key nowhere.pem: there is no such file",
        ),
        (("verify", "nowhere.tar.gz", "--verification-key", "nowhere.pub"), "key nowhere.pub: there is no such file"),
        (("verify", "nowhere.tar.gz", "--minimum", "shop=1"), "--minimum shop=1: write NAME=NUMBER"),
        (("verify", "nowhere.tar.gz", "--minimum", "gate=0"), "--minimum gate=0: write NAME=NUMBER"),
    ],
)
def test_what_cannot_be_meant_is_one_message(opa_binary: Path, arguments: tuple[str, ...], complaint: str) -> None:
    done = run("bundle", *arguments, LEDGERAGENT_OPA_BIN=str(opa_binary))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"ledgeragent: {complaint}")


def test_without_an_opa_nothing_is_built(tmp_path: Path) -> None:
    nowhere = {"PATH": "", "XDG_CACHE_HOME": str(tmp_path), "LEDGERAGENT_OPA_BIN": ""}
    done = run("bundle", "build", "--out", str(tmp_path / "bundles"), "--only", "gate", **nowhere)
    assert (done.returncode, list(tmp_path.iterdir())) == (2, [])
    assert "there is none here; run `make opa`" in done.stderr


@pytest.mark.parametrize("command", ["build", "verify"])
def test_the_help_of_each_has_an_example(command: str) -> None:
    assert f"ledgeragent bundle {command}" in " ".join(run("bundle", command, "--help").stdout.split())


def test_check_and_replay_apply_a_freeze(tmp_path: Path) -> None:
    asked = first_vector("allow")
    freeze = ("--engine", "embedded", "--freeze", written(tmp_path, STOPPED))
    done = run("check", *freeze, stdin=json.dumps(asked))
    decision = json.loads(done.stdout)
    assert (done.returncode, [one["predicate"] for one in decision["findings"]]) == (20, ["gate.frozen"])
    talk = {"id": "c", "domain": "retail", "messages": [{"role": "assistant", "tool_calls": [call(asked)]}]}
    replayed = run("replay", "-", *freeze, "--format", "jsonl", stdin=json.dumps(talk))
    [row] = [json.loads(line) for line in replayed.stdout.splitlines()]
    assert (row["verdict"], row["findings"][0]["predicate"]) == ("block", "gate.frozen")


def call(asked: dict[str, Any]) -> dict[str, Any]:
    return {"id": "1", "name": asked["action"]["tool"], "arguments": asked["action"]["arguments"]}


def test_doctor_names_what_is_below_the_floor(tmp_path: Path) -> None:
    floor = {"retail": {"sequence": 2, "tools": {"modify_user_address": DEMAND}}}
    doctor = ("doctor", "--engine", "embedded", "--domain", "retail")
    done = run(*doctor, "--floor", written(tmp_path, floor), **WIDE)
    assert done.returncode == 1
    assert "; floor 2" in done.stdout
    assert done.stdout.splitlines()[-1] == (
        "FAIL floor of retail: modify_user_address is not guarded by common.four_eyes, which Audit demands: it is blocked"
    )
    refused = run(*doctor, "--floor", written(tmp_path, {"shop": {}}), **WIDE)
    assert refused.returncode == 1
    assert "shop: no such domain" in refused.stdout


def test_doctor_holds_what_is_in_use_against_pins(tmp_path: Path) -> None:
    doctor = ("doctor", "--engine", "embedded", "--domain", "retail", "--domain", "telecom")
    done = run(*doctor, "--pin", gate_part(REGO).revision, **WIDE)
    assert done.returncode == 1
    assert done.stdout.count(": decision.pin: the domain's revision in use, sha256:") == 2
