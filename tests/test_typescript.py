"""The clients in TypeScript: strictly typed, they pass every shared vector on a real OPA, and work with a real sidecar."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ledgeragent.engine import LocalOpa
from ledgeragent.gate import Gate
from ledgeragent.policies import SCHEMAS
from ledgeragent.records import JsonlRecorder, read_records
from needs import need
from support.sidecar import TOKEN, serving

pytest_plugins = ["support.fixtures"]

ROOT = SCHEMAS.parent
EXAMPLE = ROOT / "examples" / "typescript"
WHOLE = sum(row["vectors"] for row in json.loads((SCHEMAS / "vectors" / "index.json").read_text())["files"])


@pytest.fixture(scope="session")
def modules() -> Path:
    """What the example is compiled with; from the cache or from npm."""
    need(shutil.which("node"), "node; `scripts/typescript --install` installs it")
    found = subprocess.run([ROOT / "scripts" / "typescript"], capture_output=True, text=True, check=False)
    need(found.returncode == 0, found.stderr.strip())
    return Path(found.stdout.strip())


@pytest.fixture(scope="session")
def built(modules: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example, compiled."""
    return compiled(copied(tmp_path_factory.mktemp("typescript"), modules))


def copied(folder: Path, modules: Path) -> Path:
    shutil.copytree(EXAMPLE, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("node_modules", "dist"))
    (folder / "node_modules").symlink_to(modules)
    return folder


def compiled(folder: Path) -> Path:
    done = run(folder, ["node_modules/.bin/tsc", "--outDir", "dist"])
    assert done.returncode == 0, done.stdout
    return folder


def run(folder: Path, command: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=folder, env=os.environ | environment, capture_output=True, text=True, timeout=120, check=False
    )


def lines(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_it_has_no_runtime_dependencies() -> None:
    package = json.loads((EXAMPLE / "package.json").read_text(encoding="utf-8"))
    assert set(package["devDependencies"]) == {"typescript", "@types/node"}
    assert "dependencies" not in package


def test_every_shared_vector_is_passed_on_a_real_opa(built: Path, local_opa: LocalOpa) -> None:
    command = ["node", "dist/conformance.js", str(SCHEMAS), local_opa.location]
    done = run(built, command, OPA_TOKEN=local_opa.token)
    rows = lines(done)
    assert [row for row in rows if row["failed"]] == []
    assert sum(row["vectors"] for row in rows) == WHOLE
    assert done.returncode == 0, done.stderr


def test_without_the_token_of_its_opa_no_domain_is_proved(built: Path, local_opa: LocalOpa) -> None:
    done = run(built, ["node", "dist/conformance.js", str(SCHEMAS), local_opa.location], OPA_TOKEN="another")
    rows = {row["file"]: row["failed"] for row in lines(done)}
    assert rows["retail.json"] == ["the proof: engine.refused"]
    assert done.returncode == 1


@pytest.mark.parametrize(
    ("file", "before", "after", "failing"),
    [
        ("accept.ts", 'if (decision["request"] !== input["request"])', "if (false)", "host/acceptance.json"),
        ("accept.ts", "if (!isGranted(", "if (false && !isGranted(", "host/acceptance.json"),
        ("accept.ts", 'grant["kind"] === one["kind"] &&', "", "host/acceptance.json"),
        ("accept.ts", "|| !isObliged(decision)", "", "host/acceptance.json"),
        ("accept.ts", "listed.length !== judged.length ||", "", "host/acceptance.json"),
        ("accept.ts", 'RANK[decision["verdict"] as string] === worst &&', "", "host/acceptance.json"),
        ("grants.ts", 'verifies(grant, signed["signature"] as string, key) &&', "", "host/grants.json"),
        ("grants.ts", 'key.kind === grant["kind"] &&', "", "host/grants.json"),
        ("grants.ts", "`${CONTRACT}\\n${canonical(grant)}`", "canonical(grant)", "host/grants.json"),
        ("grants.ts", "wall < host &&", "", "host/grants.json"),
        ("grants.ts", "|| agents.includes(approver)", "", "host/grants.json"),
        ("grants.ts", "=== (await factsDigest(input)) &&", '!== "" &&', "host/grants.json"),
        ("grants.ts", '!used.has(grant["id"] as string)', "true", "host/grants.json"),
        ("json.ts", "if (found.has(key))", "if (false)", "host/canonical.json"),
        ("ledger.ts", "=> fillWidely(template, scope)", "=> fill(template, scope)", "host/slices.json"),
        ("host.ts", "held.ledger === ledger", "true", "host/rejections.json"),
        ("host.ts", "this.#writes.filter((one) => !own(one))", "this.#writes", "host/histories.json"),
    ],
)
def test_a_host_that_leaves_something_out_does_not_pass(
    tmp_path: Path, modules: Path, file: str, before: str, after: str, failing: str
) -> None:
    folder = copied(tmp_path / "broken", modules)
    source = folder / "src" / file
    text = source.read_text(encoding="utf-8")
    assert before in text
    source.write_text(text.replace(before, after, 1), encoding="utf-8")
    done = run(folder, ["node_modules/.bin/tsc", "--outDir", "dist", "--noCheck"])
    assert done.returncode == 0, done.stdout
    rows = lines(run(folder, ["node", "dist/conformance.js", str(SCHEMAS)]))
    assert failing in [row["file"] for row in rows if row["failed"]]


def test_the_agent_of_the_example_keeps_to_the_policy_through_a_sidecar(
    built: Path, gate: Gate, tmp_path: Path
) -> None:
    record = tmp_path / "r.jsonl"
    with serving(gate, recorder=JsonlRecorder(record)) as client:
        done = run(built, ["node", "dist/agent.js", client.url], SIDECAR_TOKEN=TOKEN)
    assert done.returncode == 0, done.stderr
    *writes, last = lines(done)
    assert [row["verdict"] for row in writes] == ["revise", "allow", "revise"]
    assert writes[1]["result"] == "Order #W4001 is cancelled."
    assert last["said"] == "Your order is cancelled."
    assert "orders.#W4001" in last["ledger"]
    assert [told(one.model_dump()) for one in read_records(record)] == ["revise", "allow", "executed", "revise"]


def told(record: Mapping[str, Any]) -> Any:
    return record["verdict"] if record["kind"] == "decision" else record["outcome"]


def test_the_client_takes_no_refusal_for_an_answer(built: Path, gate: Gate) -> None:
    with serving(gate) as client:
        done = run(built, ["node", "dist/agent.js", client.url], SIDECAR_TOKEN="another-token-than-that")
    assert done.returncode == 1
    assert "request.token" in done.stderr
    assert done.stdout == ""
