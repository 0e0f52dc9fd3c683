"""The policy folder: where it is, which sources it holds, and what its files say without an engine.

The digest of the sources covers everything that what is generated depends on: the Rego (tests left out), hand-written
policy data and each domain's two schema files. It holds the compiled module and the folder together; the revisions that
decisions show are those of `parts`. Asking a policy a question is the engines' business.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ledgeragent.errors import BadInput

_PACKAGE: Final = Path(__file__).resolve().parent
ROOTS: Final[Mapping[str, str]] = {
    "overrides": "ledgeragent_overrides",
    "floor": "ledgeragent_floor",
    "freeze": "ledgeragent_freeze",
}
"""Kind of policy data that comes beside the policies → the root it has in OPA."""

BY_CHOICE: Final = frozenset({"common.user_confirmed"})
"""Common predicates that guard only the tools which list them; every other one that is named guards every write."""

_DOMAIN_NAME: Final = re.compile(r"[a-z][a-z0-9_]*\Z")
_GUARDING: Final = re.compile(r'^guarding\["(?P<tool>[^"]+)"\] := \{(?P<body>[^}]*)\}', re.MULTILINE)
_LISTED: Final = re.compile(r'"([^"]*)":')
_GUARDS: Final = re.compile(r"^guards := \{(?P<body>[^}]*)\}", re.MULTILINE)
_TEXT: Final = re.compile(r'"([^"]*)"')


def _source(name: str) -> Path:
    """A folder of the repository: in the wheel below the package, in a checkout two levels above it."""
    bundled = _PACKAGE / "_bundled" / name
    return bundled if bundled.is_dir() else _PACKAGE.parent.parent / name


REGO: Final = _source("rego")
"""The policies this version ships."""

SCHEMAS: Final = _source("schemas")
"""The contracts and domains this version ships."""

EXAMPLES: Final = _source("examples")
"""Conversations written for this project; `ledgeragent demo` replays them."""

COMPILED: Final = _PACKAGE / "compiled"
"""What `make compile` made of both: `policy.wasm` and `manifest.json`."""


def compiled_for(rego: Path) -> Path:
    """Where a bundle root's module is: for the shipped one in the package, for any other in `compiled/` beside it."""
    return COMPILED if rego.resolve() == REGO else rego.parent / "compiled"


def check_name(domain: str) -> str:
    """The domain's name, if it may become part of a path.

    Raises:
        BadInput: for anything but `[a-z][a-z0-9_]*`.
    """
    if not _DOMAIN_NAME.match(domain):
        raise BadInput(f"{domain[:80]!r} is not a domain name: use lower-case letters, digits and _, a letter first")
    return domain


def domains(schemas: Path = SCHEMAS) -> list[str]:
    """The names of the domains under a schemas folder, sorted."""
    return sorted(path.parent.name for path in schemas.glob("*/tools.json"))


def sources_digest(rego: Path, schemas: Path) -> str:
    """Digest of the sources that anything is generated from, as `sha256:<hex>`.

    Args:
        rego: the bundle root.
        schemas: the folder with one folder per domain.

    Returns:
        SHA-256 over the sorted relative names and contents; the same on every machine.

    Raises:
        BadInput: when a folder is not there or holds no policies.
    """
    found = list(_sources(rego, schemas))
    if not any(name.endswith(".rego") for name, _ in found):
        raise BadInput(f"no .rego files under {rego}: name the bundle root (the folder that holds ledgeragent/)")
    total = hashlib.sha256()
    for name, path in sorted(found):
        total.update(f"{name}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return "sha256:" + total.hexdigest()


def _sources(rego: Path, schemas: Path) -> Iterator[tuple[str, Path]]:
    for path in rego.rglob("*"):
        name = path.relative_to(rego).as_posix()
        if path.is_file() and not _is_output(name) and (name.endswith((".rego", ".json")) or name == ".manifest"):
            yield f"rego/{name}", path
    for path in (*schemas.glob("*/ledger.schema.json"), *schemas.glob("*/tools.json")):
        yield f"schemas/{path.relative_to(schemas).as_posix()}", path


def _is_output(name: str) -> bool:
    """Tests decide nothing; `ledgeragent/<domain>/data.json` is generated from tools.json."""
    parts = name.split("/")
    generated = len(parts) == 3 and parts[0] == "ledgeragent" and parts[2] == "data.json"
    return generated or name.endswith("_test.rego")


@dataclass(frozen=True)
class RegoFacts:
    """What a domain's Rego files say, read without an engine.

    Attributes:
        page: tool → ids of the predicates that the domain's page lists for it; None when there is no page.
        guards: id → tools, for every predicate folder that has a literal `guards`.
    """

    page: dict[str, frozenset[str]] | None
    guards: dict[str, frozenset[str]]

    @property
    def listed(self) -> tuple[str, ...]:
        """Every id on the page, sorted."""
        return tuple(sorted({one for ids in (self.page or {}).values() for one in ids}))


def read_rego(rego: Path, domain: str) -> RegoFacts:
    """Read the domain's page and its predicates' `guards`."""
    folder = rego / "ledgeragent" / check_name(domain)
    page = folder / f"{domain}.rego"
    guards: dict[str, frozenset[str]] = {}
    for path in sorted(folder.glob("*/*.rego")):
        match = _GUARDS.search(path.read_text(encoding="utf-8"))
        if match and not path.name.endswith("_test.rego"):
            guards[f"{domain}.{path.parent.name}"] = frozenset(_TEXT.findall(match["body"]))
    return RegoFacts(_read_page(page.read_text(encoding="utf-8")) if page.is_file() else None, guards)


def _read_page(text: str) -> dict[str, frozenset[str]]:
    return {rule["tool"]: frozenset(_LISTED.findall(rule["body"])) for rule in _GUARDING.finditer(text)}
