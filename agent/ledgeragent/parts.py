"""The parts that policies are made of, and the digest that names each: the shared gate, and every domain.

A part is what one team owns and one bundle holds. Its revision is the digest of what decides in it, the rules and the
policy data, and of nothing else: the same wherever the part is read from, so that it can be computed again from a
bundle. What a decision depends on is its domain's part and the gate's. Packing parts is the business of `bundle`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ledgeragent.domain import Domain
from ledgeragent.errors import BadInput
from ledgeragent.jsonio import canonical, parse
from ledgeragent.policies import check_name

GATE: Final = "gate"
"""The name of the part that all domains share."""

SHARED: Final = ("common", "gate")
"""The packages of that part, below `ledgeragent`."""

_STAMP: Final = ("revision", "sequence")
_NO_RULE: Final = re.compile(rb"(#.*|(package|import) [A-Za-z0-9_.]+( as [A-Za-z0-9_]+)?)?")
_REFERENCE: Final = re.compile(r"\bdata\.ledgeragent(?:\.([a-z_][a-z0-9_]*))?(?![A-Za-z0-9_])")


@dataclass(frozen=True)
class Part:
    """The rules and the policy data of the gate or of a domain.

    Attributes:
        name: "gate", or the domain's name.
        rules: path below the bundle root → content, for every Rego file that decides something.
        data: the policy data by package below `ledgeragent`, without the stamp.
    """

    name: str
    rules: Mapping[str, bytes]
    data: Mapping[str, Any]

    @property
    def packages(self) -> tuple[str, ...]:
        """The packages it consists of, below `ledgeragent`."""
        return SHARED if self.name == GATE else (self.name,)

    @property
    def revision(self) -> str:
        """SHA-256 over its sorted files and its data, as `sha256:<hex>`."""
        total = hashlib.sha256()
        for path, content in sorted(self.rules.items()):
            total.update(f"{path}\0{hashlib.sha256(content).hexdigest()}\n".encode())
        total.update(canonical(self.data).encode("ascii"))
        return "sha256:" + total.hexdigest()

    def stamped(self, sequence: int = 0) -> dict[str, Any]:
        """Its policy data as OPA gets it, with revision and sequence number."""
        stamp = dict(zip(_STAMP, (self.revision, sequence), strict=True))
        own = self.data.get(self.name, {})
        if self.name == GATE:
            return {**self.data, GATE: {**own, "build": stamp}}
        return {**self.data, self.name: {**own, "declared": dict(sorted({**own["declared"], **stamp}.items()))}}

    def strangers(self) -> tuple[str, ...]:
        """Packages it refers to that belong to another part than the gate's: its revision would not cover them."""
        found = {match[1] or "(all of ledgeragent)" for text in self.rules.values() for match in _references(text)}
        return tuple(sorted(found - {*self.packages, *SHARED}))


def _references(text: bytes) -> Iterator[re.Match[str]]:
    for line in text.decode("utf-8", "replace").splitlines():
        if not line.lstrip().startswith("#"):
            yield from _REFERENCE.finditer(line)


def gate_part(rego: Path) -> Part:
    """The gate's part of a bundle root.

    Raises:
        BadInput: when it holds none, or policy data that is not JSON.
    """
    part = part_of(GATE, _files(rego, SHARED))
    if not part.rules:
        raise BadInput(f"no shared gate under {rego}: name the bundle root (the folder that holds ledgeragent/)")
    return part


def domain_part(rego: Path, domain: Domain) -> Part:
    """A domain's part of a bundle root; the generated data is that of the loaded domain, whatever the file says.

    Raises:
        BadInput: when its policy data is not JSON.
    """
    files = dict(_files(rego, (domain.name,)))
    files.pop(data_file(domain.name), None)
    part = part_of(domain.name, files.items())
    own = {**part.data.get(domain.name, {}), "declared": domain.declared()}
    return Part(part.name, part.rules, {domain.name: own})


def data_file(name: str) -> str:
    """Where the generated data of a part is, below the bundle root."""
    return f"ledgeragent/{check_name(name)}/data.json"


def part_of(name: str, files: Iterable[tuple[str, bytes]]) -> Part:
    """A part from its files; tests and files without a rule are left out.

    Args:
        name: "gate", or the domain's name.
        files: (path below the bundle root, content), of Rego and `data.json` files.

    Raises:
        BadInput: when policy data is not a JSON object, or two files give one key.
    """
    rules: dict[str, bytes] = {}
    data: dict[str, Any] = {}
    for path, content in files:
        if path.endswith(".rego"):
            if not path.endswith("_test.rego") and _has_a_rule(content):
                rules[path] = content
        else:
            _merge(data, _placed(path, content), path)
    own = ((package, _unstamped(name, package, below)) for package, below in data.get("ledgeragent", {}).items())
    # A package that has nothing but the stamp is one without data.
    return Part(name, rules, {package: below for package, below in own if below != {}})


def stamp_of(name: str, data: Mapping[str, Any]) -> tuple[Any, Any]:
    """(revision, sequence) as the policy data of a part says; None for what it does not say.

    Args:
        name: "gate", or the domain's name.
        data: the whole policy data of a bundle.
    """
    node: Any = data
    for key in ("ledgeragent", name, "build" if name == GATE else "declared"):
        node = node.get(key) if isinstance(node, Mapping) else None
    return (node.get("revision"), node.get("sequence")) if isinstance(node, Mapping) else (None, None)


def _unstamped(name: str, package: str, own: Any) -> Any:
    if package != name or not isinstance(own, Mapping):
        return own
    if name == GATE:
        return {key: value for key, value in own.items() if key != "build"}
    declared = own.get("declared", {})
    kept = {key: value for key, value in declared.items() if key not in _STAMP} if isinstance(declared, dict) else {}
    return {**own, "declared": kept}


def _files(rego: Path, packages: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    for package in packages:
        for path in sorted((rego / "ledgeragent" / package).rglob("*")):
            if path.is_file() and (path.suffix == ".rego" or path.name == "data.json"):
                yield path.relative_to(rego).as_posix(), path.read_bytes()


def _has_a_rule(content: bytes) -> bool:
    return any(not _NO_RULE.fullmatch(line.strip()) for line in content.splitlines())


def _placed(path: str, content: bytes) -> dict[str, Any]:
    """A file's data at the path of its folder, as OPA reads it."""
    try:
        document = parse(content.decode(), what=path, limit=50_000_000)
    except UnicodeDecodeError as error:
        raise BadInput(f"{path} is not UTF-8: {error}") from None
    if not isinstance(document, dict):
        raise BadInput(f"{path}: policy data must be a JSON object")
    for key in reversed(path.split("/")[:-1]):
        document = {key: document}
    return document


def _merge(into: dict[str, Any], more: Mapping[str, Any], path: str) -> None:
    for key, value in more.items():
        known = into.get(key)
        if isinstance(known, dict) and isinstance(value, Mapping):
            _merge(known, value, path)
        elif key in into:
            raise BadInput(f"{path}: the key {key!r} is in another data.json as well")
        else:
            into[key] = value
