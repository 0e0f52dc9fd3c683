"""Bundles: the parts of the policies, and the policy data beside them, packed for OPA to download.

Each bundle has roots of its own, so that what several teams build lives in one OPA and none can step on another: the
gate with the common predicates, each domain, each domain's overrides, the floor, the freeze. Its manifest names the
roots, the revision and the language version; tests, fixtures and files without a rule are left out. Signatures are
made by `opa sign`, and nothing is packed that `opa build` does not compile. Whether a bundle is what it should be is
for `bundlecheck` to say.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ledgeragent.compile import Sources, data_texts, page_texts
from ledgeragent.domain import Domain
from ledgeragent.errors import BadInput
from ledgeragent.jsonio import digest
from ledgeragent.parts import GATE, SHARED, Part, domain_part, gate_part
from ledgeragent.policies import ROOTS, domains

MANIFEST: Final = ".manifest"
SIGNATURES: Final = ".signatures.json"
DATA: Final = "data.json"
_ALGORITHMS: Final = re.compile(r"(RS|PS|ES)(256|384|512)\Z")
_MAX_BYTES: Final = 64_000_000
_TIMEOUT_S: Final = 120


@dataclass(frozen=True)
class Bundle:
    """What is in a bundle.

    Attributes:
        name: "gate", "domain-<domain>", "overrides-<domain>", "floor" or "freeze".
        roots: the paths of OPA's data that it owns, and no other bundle may.
        revision: digest of its contents.
        rules: path → content of each Rego file.
        data: its policy data from the root on.
    """

    name: str
    roots: tuple[str, ...]
    revision: str
    rules: Mapping[str, bytes]
    data: Mapping[str, Any]

    @property
    def kind(self) -> str:
        """ "gate", "domain", "overrides", "floor" or "freeze"."""
        return self.name.partition("-")[0]

    @property
    def domain(self) -> str:
        """The domain it belongs to; empty when it belongs to all."""
        return self.name.partition("-")[2]

    def files(self) -> dict[str, bytes]:
        """Every file in it, the signature aside."""
        manifest = {"revision": self.revision, "roots": list(self.roots), "rego_version": 1}
        return {MANIFEST: _text(manifest), DATA: _text(self.data), **self.rules}


@dataclass(frozen=True)
class Signing:
    """How to sign.

    Attributes:
        key: PEM file of the private key.
        algorithm: RS, PS or ES with 256, 384 or 512. A shared secret is not taken: who checks with it could sign.
        claims: JSON file with further claims (`keyid`, `scope`, `iss`), or None.
    """

    key: Path
    algorithm: str = "RS256"
    claims: Path | None = None


@dataclass(frozen=True)
class Packed:
    """A bundle file that was written.

    Attributes:
        bundle: what is in it.
        path: the file.
        digest: SHA-256 of the file, as `sha256:<hex>`.
    """

    bundle: Bundle
    path: Path
    digest: str


def gate_bundle(rego: Path, sequence: int = 0) -> Bundle:
    """The bundle of the shared gate and the common predicates.

    Args:
        rego: the bundle root folder.
        sequence: its number; 0 for none.
    """
    return _policies(gate_part(rego), GATE, sequence)


def domain_bundle(rego: Path, domain: Domain, sequence: int = 0) -> Bundle:
    """The bundle of one domain.

    Args:
        rego: the bundle root folder.
        domain: the loaded domain.
        sequence: its number; 0 for none.

    Raises:
        BadInput: when its rules refer to another domain, which its revision would not cover.
    """
    part = domain_part(rego, domain)
    if part.strangers():
        raise BadInput(f"{domain.name} refers to {', '.join(part.strangers())}, which is no part of it or of the gate")
    return _policies(part, f"domain-{domain.name}", sequence)


def data_bundles(kind: str, content: Mapping[str, Any], sequence: int = 0) -> list[Bundle]:
    """The bundles of policy data: one for a floor or a freeze, one for each domain's overrides.

    Args:
        kind: "overrides", "floor" or "freeze".
        content: the policy data by domain, as `read_overrides`, `read_floor` or `read_freeze` gives it.
        sequence: the number for every domain in it; 0 leaves the numbers as they are.
    """
    numbered = {name: {**own, "sequence": sequence} if sequence else dict(own) for name, own in content.items()}
    if kind != "overrides":
        return [_data_bundle(kind, ROOTS[kind], numbered)]
    return [_data_bundle(f"{kind}-{name}", f"{ROOTS[kind]}/{name}", {name: own}) for name, own in numbered.items()]


def _data_bundle(name: str, root: str, content: Mapping[str, Any]) -> Bundle:
    return Bundle(name, (root,), digest(content), {}, {root.partition("/")[0]: content})


def _policies(part: Part, name: str, sequence: int) -> Bundle:
    return Bundle(name, roots_of(part.name), part.revision, part.rules, {"ledgeragent": part.stamped(sequence)})


def roots_of(part: str) -> tuple[str, ...]:
    """The roots of a part: those of the gate, or that of a domain."""
    return tuple(f"ledgeragent/{package}" for package in (SHARED if part == GATE else (part,)))


def bundles_of(
    sources: Sources, policy_data: Mapping[str, Mapping[str, Any]], *, sequence: int = 0, only: Sequence[str] = ()
) -> list[Bundle]:
    """Every bundle of a folder of policies and of the policy data given with it.

    Args:
        sources: the folders; what is generated must be up to date.
        policy_data: the content of overrides, floor and freeze, as far as there are.
        sequence: the number that all of them bear; 0 for none.
        only: names of bundles to make; empty for all.

    Raises:
        LedgerAgentError: when a domain cannot be loaded, a generated file is out of date, or a name is none of them.
    """
    made = {
        bundle.name: bundle for kind, content in policy_data.items() for bundle in data_bundles(kind, content, sequence)
    }
    names = [GATE, *(f"domain-{name}" for name in domains(sources.schemas)), *made]
    for name in only:
        if name not in names:
            raise BadInput(f"there is no bundle {name!r} here; there are {', '.join(names)}")
    wanted = only or names
    # Whoever has to stop something now need not wait for the policies to be in order.
    if not made.keys() >= set(wanted):
        _refuse_stale(sources)
    return [made.get(name) or _of_sources(name, sources, sequence) for name in names if name in wanted]


def _of_sources(name: str, sources: Sources, sequence: int) -> Bundle:
    if name == GATE:
        return gate_bundle(sources.rego, sequence)
    domain = Domain.load(name.removeprefix("domain-"), schemas=sources.schemas, rego=sources.rego)
    return domain_bundle(sources.rego, domain, sequence)


def _refuse_stale(sources: Sources) -> None:
    for path, text in {**page_texts(sources), **data_texts(sources)}.items():
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            raise BadInput(f"{path} is out of date; run `ledgeragent domain compile` (or `make compile`)")


def pack(
    bundles: Sequence[Bundle], folder: Path, opa: Path, *, beside: Sequence[Bundle] = (), signing: Signing | None = None
) -> list[Packed]:
    """Write bundle files, `<name>.tar.gz` each. The same contents give the same bytes, signed with RS too.

    Args:
        bundles: what to write.
        folder: where; it is made.
        opa: the `opa` that compiles and signs.
        beside: further bundles that these need to compile (a domain needs the gate); they are not written.
        signing: how to sign, or None.

    Raises:
        BadInput: when OPA does not compile them together or does not sign, in its words. Nothing is written then.
    """
    if signing is not None:
        check_key(signing.key, signing.algorithm)
    with tempfile.TemporaryDirectory() as temporary:
        stages = {bundle.name: Path(temporary) / bundle.name for bundle in (*bundles, *beside)}
        for bundle in (*bundles, *beside):
            unpack(bundle.files(), stages[bundle.name])
        # A domain calls functions of the gate, so that `opa build` takes it only together with the gate.
        _opa(opa, "build", "--bundle", *stages, "--output", "all.tar.gz", cwd=Path(temporary))
        if signing is not None:
            for bundle in bundles:
                _sign(stages[bundle.name], opa, signing)
        archives = {bundle.name: _archive(stages[bundle.name]) for bundle in bundles}
    folder.mkdir(parents=True, exist_ok=True)
    packed = []
    for bundle in bundles:
        path = folder / f"{bundle.name}.tar.gz"
        # In one step: a server may be serving this folder.
        fresh = folder / f".{bundle.name}.new"
        fresh.write_bytes(archives[bundle.name])
        fresh.replace(path)
        packed.append(Packed(bundle, path, "sha256:" + hashlib.sha256(archives[bundle.name]).hexdigest()))
    return packed


def check_key(key: Path, algorithm: str) -> None:
    """Refuse a key that is no file, which OPA would take for a shared secret, and algorithms of shared secrets.

    Raises:
        BadInput: says which.
    """
    if not _ALGORITHMS.match(algorithm):
        raise BadInput(f"signing algorithm {algorithm!r}: use RS, PS or ES with 256, 384 or 512")
    if not key.is_file():
        raise BadInput(f"key {key}: there is no such file")


def _sign(stage: Path, opa: Path, signing: Signing) -> None:
    claims = () if signing.claims is None else ("--claims-file", str(signing.claims.resolve()))
    key = ("--signing-key", str(signing.key.resolve()), "--signing-alg", signing.algorithm)
    # From inside: the signature holds the names as OPA is given them.
    _opa(opa, "sign", "--bundle", ".", *key, *claims, cwd=stage)


def _archive(stage: Path) -> bytes:
    """A tar.gz that depends on names and contents only."""
    raw = io.BytesIO()
    with gzip.GzipFile(fileobj=raw, mode="wb", mtime=0) as zipped, tarfile.open(fileobj=zipped, mode="w") as archive:
        for path in sorted(path for path in stage.rglob("*") if path.is_file()):
            member = tarfile.TarInfo(path.relative_to(stage).as_posix())
            member.size, member.mode = path.stat().st_size, 0o644
            with path.open("rb") as content:
                archive.addfile(member, content)
    return raw.getvalue()


def read_archive(path: Path) -> dict[str, bytes]:
    """The files in a bundle file, by their path in it.

    Raises:
        BadInput: when it is no tar.gz, or holds links, a path twice or one that leads out of it, or is too large.
    """
    found: dict[str, bytes] = {}
    left = _MAX_BYTES
    try:
        with tarfile.open(path, "r:gz") as archive:
            for member in archive:
                name = member.name.removeprefix("./").lstrip("/")
                left -= member.size
                if member.isdir():
                    continue
                if not member.isfile() or ".." in name.split("/") or name in found or left < 0:
                    raise BadInput(f"{path}: {member.name} is no plain file, is there twice, or is too large")
                content = archive.extractfile(member)
                found[name] = b"" if content is None else content.read()
    except (OSError, tarfile.TarError, EOFError) as error:
        raise BadInput(f"{path} cannot be read as a bundle: {error}") from None
    return found


def unpack(files: Mapping[str, bytes], folder: Path) -> None:
    """Write the files of a bundle into a folder of their own."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def _text(value: Any) -> bytes:
    return (json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()


def _opa(opa: Path, *arguments: str, cwd: Path) -> None:
    done = subprocess.run(
        [str(opa.resolve()), *arguments], cwd=cwd, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
    )
    if done.returncode:
        raise BadInput(f"opa {arguments[0]}: {(done.stderr or done.stdout).strip()[:2000]}")
