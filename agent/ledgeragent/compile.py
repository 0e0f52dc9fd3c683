"""`python -m ledgeragent.compile`: everything in the repository that is generated, written or compared.

Written are the contracts' JSON Schemas, each domain's page and its `data.json` for OPA, the WebAssembly module of the
policies with its manifest, and the catalogue of predicates under `docs/policies/`. The module depends on OPA's version,
so one exact version is used; with another one, or none, the comparison of the module is skipped and said so. Folders of
one's own are made the same way; `ledgeragent domain compile` does it.
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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter

from ledgeragent.catalogue import as_markdown, read_catalogue
from ledgeragent.contracts import (
    ApprovalRequest,
    Decision,
    DecisionRecord,
    FloorFile,
    FreezeFile,
    GateInput,
    OutcomeRecord,
    OverridesFile,
    SignedGrant,
    ToolsFile,
    WriteTool,
)
from ledgeragent.domain import Domain, load_tools
from ledgeragent.engine.local import find_opa, opa_version
from ledgeragent.engine.versions import PINNED
from ledgeragent.errors import LedgerAgentError
from ledgeragent.page import page_of
from ledgeragent.parts import GATE, data_file, domain_part, gate_part
from ledgeragent.policies import COMPILED, REGO, SCHEMAS, compiled_for, domains, sources_digest

CONTRACTS: Final[Mapping[str, Any]] = {
    "gate_input": GateInput,
    "decision": Decision,
    "tools": ToolsFile,
    "record": DecisionRecord | OutcomeRecord,
    "overrides": OverridesFile,
    "floor": FloorFile,
    "freeze": FreezeFile,
    "approval_request": ApprovalRequest,
    "grant": SignedGrant,
}
"""Contract name → the model that its schema is made of."""

_WIDTH: Final = 119


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


def fitted(value: Any, indent: int = 0, before: int = 0) -> str:
    """JSON in which what fits into a line is on one: for data that would else be a column of brackets.

    Args:
        value: what to write.
        indent: how far in its line begins, in spaces.
        before: how much stands in that line before it, in characters.
    """
    line = json.dumps(value, ensure_ascii=False)
    if not value or not isinstance(value, dict | list) or indent + before + len(line) <= _WIDTH:
        return line
    inner = indent + 2
    if isinstance(value, dict):
        named = [(f"{json.dumps(key)}: ", item) for key, item in value.items()]
    else:
        named = [("", item) for item in value]
    rows = ",\n".join(" " * inner + name + fitted(item, inner, len(name)) for name, item in named)
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return f"{opening}\n{rows}\n{' ' * indent}{closing}"


@dataclass(frozen=True)
class Sources:
    """The folders that policies are compiled from and to.

    Attributes:
        rego: the bundle root.
        schemas: the folder with one folder per domain.
        compiled: where the module and its manifest go.
    """

    rego: Path
    schemas: Path
    compiled: Path

    @classmethod
    def shipped(cls) -> Sources:
        """The folders of this repository."""
        return cls(REGO, SCHEMAS, COMPILED)

    @classmethod
    def under(cls, folder: Path) -> Sources:
        """The folders of a policy author: `rego/`, `schemas/` and `compiled/` below one folder."""
        return cls(folder / "rego", folder / "schemas", compiled_for(folder / "rego"))


def contract_texts(sources: Sources) -> dict[Path, str]:
    """The contracts' JSON Schemas; `opa check` reads them."""
    return {sources.schemas / f"{name}.schema.json": pretty(contract_schema(name)) for name in CONTRACTS}


def page_texts(sources: Sources) -> dict[Path, str]:
    """The page of every domain, from the predicates' `guards`. Everything else relies on them being written.

    Raises:
        DomainError: when a tools.json cannot be read.
    """
    pages = {}
    for name in domains(sources.schemas):
        tools = load_tools(name, sources.schemas).tools
        writes = {tool.name: tool.guarded_by for tool in tools if isinstance(tool, WriteTool)}
        pages[sources.rego / "ledgeragent" / name / f"{name}.rego"] = page_of(sources.rego, name, writes)
    return pages


def data_texts(sources: Sources) -> dict[Path, str]:
    """The gate's and each domain's `data.json`.

    Raises:
        DomainError: when a domain's parts disagree.
        BadInput: when there is no shared gate.
    """
    gate = gate_part(sources.rego)
    texts = {sources.rego / data_file(GATE): fitted({"build": gate.stamped()[GATE]["build"]}) + "\n"}
    for name in domains(sources.schemas):
        part = domain_part(sources.rego, _load(name, sources))
        texts[sources.rego / data_file(name)] = fitted({"declared": part.stamped()[name]["declared"]}) + "\n"
    return texts


def _load(name: str, sources: Sources) -> Domain:
    return Domain.load(name, schemas=sources.schemas, rego=sources.rego)


def compiled_files(sources: Sources, opa: Path, version: str) -> dict[Path, bytes]:
    """The module and its manifest.

    Args:
        sources: the folders; pages and data are written.
        opa: the `opa` to compile with.
        version: its version, for the manifest.

    Raises:
        LedgerAgentError: with OPA's own words when it fails.
    """
    entrypoints = [f"ledgeragent/{name}/{rule}" for name in domains(sources.schemas) for rule in ("decision", "proof")]
    wasm = _module(sources.rego, opa, entrypoints)
    manifest = {
        "data": {
            path.relative_to(sources.rego).as_posix(): _sha256(text.encode())
            for path, text in data_texts(sources).items()
        },
        "entrypoints": entrypoints,
        "opa": version,
        "sources": sources_digest(sources.rego, sources.schemas),
        "wasm": _sha256(wasm),
    }
    return {
        sources.compiled / "policy.wasm": wasm,
        sources.compiled / "manifest.json": pretty(manifest).encode(),
    }


def _module(rego: Path, opa: Path, entrypoints: Sequence[str]) -> bytes:
    chosen = [flag for one in entrypoints for flag in ("-e", one)]
    with tempfile.TemporaryDirectory() as folder:
        bundle = Path(folder) / "bundle.tar.gz"
        # With the relative path: the module depends on the names it was built from.
        build = ["build", "-b", rego.name, "-t", "wasm", "--ignore", "*_test.rego", *chosen, "-o", str(bundle)]
        _run(opa, *build, cwd=rego.parent)
        with tarfile.open(bundle, "r:gz") as archive:
            member = archive.extractfile("/policy.wasm")
            if member is None:
                raise LedgerAgentError("opa build made no policy.wasm")
            return member.read()


def _catalogue_pages() -> dict[Path, str]:
    """`docs/policies/<domain>.md` for the shipped domains."""
    folder = REGO.parent / "docs" / "policies"
    return {
        folder / f"{name}.md": as_markdown(read_catalogue(name), f"{Domain.load(name).file.title}: what is enforced")
        for name in domains()
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
    return opa if opa is not None and opa_version(opa) == PINNED else None


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
    sources = Sources.shipped()
    try:
        files = encoded({**contract_texts(sources), **page_texts(sources)})
        if not check:
            _write(files)
        files |= encoded({**data_texts(sources), **_catalogue_pages()})
        if not check:
            _write(files)
        opa = _pinned_opa()
        files |= compiled_files(sources, opa, PINNED) if opa is not None else {}
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


def encoded(texts: Mapping[Path, str]) -> dict[Path, bytes]:
    """Generated texts as files hold them."""
    return {path: text.encode() for path, text in texts.items()}


def write(files: Mapping[Path, bytes]) -> list[Path]:
    """Write what differs; the paths of those files."""
    written = []
    for path, content in files.items():
        if not path.is_file() or path.read_bytes() != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            written.append(path)
    return written


def _write(files: Mapping[Path, bytes]) -> None:
    for path in write(files):
        print(f"wrote {path.relative_to(REGO.parent)}")


__all__ = [
    "CONTRACTS",
    "Sources",
    "compiled_files",
    "contract_schema",
    "contract_texts",
    "data_texts",
    "encoded",
    "main",
    "page_texts",
    "write",
]

if __name__ == "__main__":
    sys.exit(main())
