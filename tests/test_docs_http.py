"""The pages on the contract over HTTP and on the sidecar: their commands run as they stand, and say what the pages say."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from ledgeragent.contracts import Decision, GateInput
from ledgeragent.engine import LocalOpa
from ledgeragent.gate import OWN, Gate
from ledgeragent.policies import SCHEMAS
from ledgeragent.serve.refusals import CODES
from needs import need
from support.sidecar import TOKEN, serving

pytest_plugins = ["support.fixtures"]

DOCS = SCHEMAS.parent / "docs"
BLOCK = re.compile(r"^```(?P<kind>\w+)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)


def played(page: str, folder: Path, environment: dict[str, str]) -> tuple[int, int]:
    """Run a page's commands in order, and look for what it promises; how many blocks of each there were."""
    need(shutil.which("curl"), "curl")
    need(shutil.which("jq"), "jq")
    said, counts = "", {"sh": 0, "text": 0}
    for block in BLOCK.finditer((DOCS / page).read_text(encoding="utf-8")):
        if block["kind"] not in counts:
            continue
        counts[block["kind"]] += 1
        if block["kind"] == "text":
            for line in block["body"].splitlines():
                assert line in said, f"{page} promises {line!r}; the commands said:\n{said}"
            continue
        done = subprocess.run(
            ["/bin/sh", "-e", "-c", block["body"]],
            cwd=folder, env=os.environ | environment, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        said = done.stdout
        assert done.returncode == 0, f"{block['body']}\n{said}{done.stderr}"
    return counts["sh"], counts["text"]


def test_the_commands_of_the_contract_run_against_a_real_opa(tmp_path: Path, local_opa: LocalOpa) -> None:
    environment = {"OPA_URL": local_opa.location, "OPA_TOKEN": local_opa.token}
    assert played("http-contract.md", tmp_path, environment) == (3, 3)


def test_the_contract_names_every_field_of_a_gate_input_and_of_a_decision() -> None:
    page = (DOCS / "http-contract.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`[^|]*`) \|", page, flags=re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`([\w.]+)`", row)}
    fields = GateInput.model_fields
    inner = {f"{name}.{one}" for name in ("session", "action") for one in fields[name].annotation.model_fields}  # type: ignore[union-attr]
    assert named == (set(fields) - {"session", "action"}) | inner
    decision = page[page.index("## The decision") : page.index("## The host's duties")]
    for name in Decision.model_fields:
        assert f"`{name}`" in decision
    for name in OWN:
        assert f"`{name}`" in decision


@pytest.mark.parametrize("page", ["http-contract.md", "vectors.md", "sidecar.md", "policy-ci.md"])
def test_every_file_that_the_pages_link_to_is_there(page: str) -> None:
    links = re.findall(r"\]\(((?!http)[^)#]+)\)", (DOCS / page).read_text(encoding="utf-8"))
    assert links
    assert [link for link in links if not (DOCS / link).exists()] == []


def test_the_commands_of_the_sidecars_page_run_against_a_real_sidecar(tmp_path: Path, gate: Gate) -> None:
    with serving(gate) as client:
        environment = {"SIDECAR_URL": client.url, "LEDGERAGENT_SERVE_TOKEN": TOKEN}
        assert played("sidecar.md", tmp_path, environment) == (4, 4)


def test_the_sidecars_page_names_every_code_with_its_status() -> None:
    page = (DOCS / "sidecar.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w.]+)` \| (\d+) \|", page, flags=re.MULTILINE)
    assert {code: int(status) for code, status in rows} == dict(CODES)
