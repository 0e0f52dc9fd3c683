"""`python -m ledgeragent.compile`: everything in the repository that is generated, written or compared.

Written are the contracts' JSON Schemas, each domain's `data.json` for OPA, the WebAssembly module of the policies with
its manifest, and the catalogue of predicates as pages under `docs/policies/`. The module depends on OPA's version, so
one exact version is used; with another one, or none, the comparison of the module is skipped and said so.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter

from ledgeragent.catalogue import as_markdown, read_catalogue
from ledgeragent.contracts import Decision, DecisionRecord, GateInput, OutcomeRecord, OverridesFile, ToolsFile
from ledgeragent.domain import Domain
from ledgeragent.engine.local import find_opa
from ledgeragent.engine.versions import PINNED
from ledgeragent.errors import LedgerAgentError
from ledgeragent.policies import COMPILED, REGO, SCHEMAS, domains, revision

CONTRACTS: Final[Mapping[str, Any]] = {
    "gate_input": GateInput,
    "decision": Decision,
    "tools": ToolsFile,
    "record": DecisionRecord | OutcomeRecord,
    "overrides": OverridesFile,
}
"""Contract name → the model that its schema is made of."""


def contract_schema(name: str) -> dict[str, Any]:
    """The JSON Schema 2020-12 of a contract, made of its model."""
    schema = TypeAdapter(CONTRACTS[name]).json_schema()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:ledgeragent:{name}",
        **_without_titles(schema),
    }


def _without_titles(node: Any, *, names: bool = False) -> Any:
    """Drop the titles that pydantic makes of field names; where keys are names, `title` is one of them."""
    if isinstance(node, list):
        return [_without_titles(item) for item in node]
    if not isinstance(node, dict):
        return node
    kept = {key: value for key, value in node.items() if names or key != "title" or not isinstance(value, str)}
    return {key: _without_titles(value, names=key in ("properties", "$defs")) for key, value in kept.items()}


def pretty(value: Any) -> str:
    """JSON for files that people read."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def generated_text() -> dict[Path, str]:
    """Every generated text file with what it must hold; nothing here needs OPA.

    Raises:
        DomainError: when a domain's parts disagree.
    """
    now = revision(REGO, SCHEMAS)
    files = {SCHEMAS / f"{name}.schema.json": pretty(contract_schema(name)) for name in CONTRACTS}
    for name in domains(SCHEMAS):
        domain = Domain.load(name)
        files[REGO / "ledgeragent" / name / "data.json"] = pretty(domain.declared(now))
        page = as_markdown(read_catalogue(name), f"{domain.file.title}: what is enforced")
        files[REGO.parent / "docs" / "policies" / f"{name}.md"] = page
    return files


def compiled_files(opa: Path) -> dict[Path, bytes]:
    """The module and its manifest, made by this OPA.

    Args:
        opa: an `opa` of the pinned version.

    Raises:
        LedgerAgentError: with OPA's own words when it fails.
    """
    entrypoints = [f"ledgeragent/{name}/{rule}" for name in domains(SCHEMAS) for rule in ("decision", "proof")]
    with tempfile.TemporaryDirectory() as folder:
        bundle = Path(folder) / "bundle.tar.gz"
        chosen = [flag for one in entrypoints for flag in ("-e", one)]
        # From the root and with the relative path: the module depends on the names it was built from.
        _run(
            opa,
            "build",
            "-b",
            "rego",
            "-t",
            "wasm",
            "--ignore",
            "*_test.rego",
            *chosen,
            "-o",
            str(bundle),
            cwd=REGO.parent,
        )
        with tarfile.open(bundle, "r:gz") as archive:
            member = archive.extractfile("/policy.wasm")
            if member is None:
                raise LedgerAgentError("opa build made no policy.wasm")
            wasm = member.read()
    texts = generated_text()
    manifest = {
        "data": {
            path.relative_to(REGO).as_posix(): _sha256(text.encode())
            for path, text in texts.items()
            if path.is_relative_to(REGO)
        },
        "entrypoints": entrypoints,
        "opa": PINNED,
        "revision": revision(REGO, SCHEMAS),
        "wasm": _sha256(wasm),
    }
    return {
        COMPILED / "policy.wasm": wasm,
        COMPILED / "manifest.json": pretty(manifest).encode(),
    }


def _sha256(raw: bytes) -> str:
    return "sha256:" + hashlib.sha256(raw).hexdigest()


def _run(opa: Path, *arguments: str, cwd: Path | None = None) -> str:
    done = subprocess.run([opa, *arguments], cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LedgerAgentError(f"opa {arguments[0]} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def _pinned_opa() -> Path | None:
    opa = find_opa()
    if opa is None:
        return None
    said = subprocess.run([opa, "version"], capture_output=True, text=True, check=False).stdout
    return opa if f"Version: {PINNED}\n" in said else None


def _differences(files: Mapping[Path, bytes]) -> list[str]:
    return [
        str(path.relative_to(REGO.parent))
        for path, expected in files.items()
        if not path.is_file() or path.read_bytes() != expected
    ]


def main(arguments: list[str] | None = None) -> int:
    """Write the generated files, or with `--check` compare them; exit status 1 when they differ or cannot be made."""
    parser = argparse.ArgumentParser(prog="python -m ledgeragent.compile", description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare only; fail when a file is out of date")
    check = parser.parse_args(arguments).check
    try:
        texts = {path: text.encode() for path, text in generated_text().items()}
        if not check:
            _write(texts)
        opa = _pinned_opa()
        files = {**texts, **(compiled_files(opa) if opa is not None else {})}
    except LedgerAgentError as error:
        print(error, file=sys.stderr)
        return 1
    if opa is None:
        print(f"NOT {'compared' if check else 'compiled'}: the module, as there is no opa {PINNED} (run `make opa`)")
    if not check:
        _write(files)
        return 0 if opa is not None else 1
    different = _differences(files)
    for name in different:
        print(f"out of date: {name} (run `make compile`)", file=sys.stderr)
    return 1 if different or (opa is None and os.environ.get("LEDGERAGENT_REQUIRE") == "1") else 0


def _write(files: Mapping[Path, bytes]) -> None:
    for path, content in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_file() or path.read_bytes() != content:
            path.write_bytes(content)
            print(f"wrote {path.relative_to(REGO.parent)}")


__all__ = ["CONTRACTS", "compiled_files", "contract_schema", "generated_text", "main"]

if __name__ == "__main__":
    sys.exit(main())
