"""Everything that is wrong with bundle files, at once, before an OPA gets them.

What a bundle says of itself (roots, revision, numbers) is held against what is in it; its signature against the keys
that are trusted; and an OPA of one's own loads all of them together and must decide the vectors of their domains. It is
the check to run before signing what another team built, and before rolling out.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ledgeragent.bundle import DATA, MANIFEST, SIGNATURES, check_key, read_archive, roots_of, unpack
from ledgeragent.domain import Domain
from ledgeragent.engine import LocalOpa
from ledgeragent.errors import BadInput, EngineError, LedgerAgentError
from ledgeragent.floor import floor_gaps, floor_problems
from ledgeragent.freeze import freeze_problems
from ledgeragent.gate import Gate
from ledgeragent.jsonio import digest, parse
from ledgeragent.kitcheck import Found
from ledgeragent.overrides import overrides_problems
from ledgeragent.page import page_of
from ledgeragent.parts import GATE, SHARED, Part, part_of, stamp_of
from ledgeragent.policies import ROOTS, domains

_MANIFEST_KEYS: Final = {"revision", "roots", "rego_version"}
_ROOT: Final = re.compile(r"(?P<first>[a-z_]+)/(?P<domain>[a-z][a-z0-9_]*)\Z")
_NOT_COMPILED: Final = re.compile(r"error: \d+ errors? occurred:")
_TIMEOUT_S: Final = 120


@dataclass(frozen=True)
class Trust:
    """Whose signatures count.

    Attributes:
        keys: PEM files of public keys; a signature by any of them is good.
        algorithm: what they sign with.
        scope: the scope that the signature must name, or None.
    """

    keys: Sequence[Path]
    algorithm: str = "RS256"
    scope: str | None = None


@dataclass(frozen=True)
class Expected:
    """What a deployment accepts.

    Attributes:
        pin: revisions of domains and of the gate; None for any.
        minimum: the least sequence number, by domain, or by "gate", "overrides", "floor" or "freeze".
        today: the date that decides which overrides have expired, `YYYY-MM-DD`.
    """

    pin: Collection[str] | None
    minimum: Mapping[str, int]
    today: str


@dataclass(frozen=True)
class _Opened:
    """A bundle file whose parts could be told apart: kind and domain as in `bundle.Bundle`."""

    path: Path
    kind: str
    domain: str
    manifest: Mapping[str, Any]
    files: Mapping[str, bytes]

    @property
    def part(self) -> Part:
        """The policies in it."""
        return part_of(self.domain or self.kind, self._sources())

    @property
    def data(self) -> Mapping[str, Any]:
        """The policy data in it, by root."""
        found = parse(self.files.get(DATA, b"{}").decode(), what=f"{self.path}: {DATA}", limit=50_000_000)
        if not isinstance(found, dict):
            raise BadInput(f"{self.path}: {DATA} is not a JSON object")
        return found

    def _sources(self) -> Iterator[tuple[str, bytes]]:
        return ((name, content) for name, content in self.files.items() if name not in (MANIFEST, SIGNATURES))


def check_bundles(files: Sequence[Path], schemas: Path, opa: Path, expected: Expected, trust: Trust | None) -> Found:
    """Look at everything.

    Args:
        files: bundle files that are to be in one OPA.
        schemas: the folder of the domains that they are for, with their vectors.
        opa: the `opa` to look with.
        expected: pins, minimums and the date.
        trust: whose signatures count; None leaves them unchecked, and says so.

    Raises:
        BadInput: when the check itself cannot be made: a key that is none.
    """
    for key in trust.keys if trust is not None else ():
        check_key(key, trust.algorithm)  # type: ignore[union-attr]
    found = Found()
    known = _known(schemas, found)
    opened = [one for path in files if (one := _opened(path, found)) is not None]
    for one in opened:
        before = len(found.problems)
        found.problems += (f"{one.path}: {problem}" for problem in _own_problems(one, opened, known, expected))
        if len(found.problems) == before:
            found.done.append(f"{one.path}: {_named(one)}, revision {one.manifest['revision']}: contents as stated")
    _check_signatures(files, opa, trust, found)
    _check_together(opened, schemas, known, opa, found)
    return found


def _known(schemas: Path, found: Found) -> dict[str, Domain]:
    known = {}
    for name in domains(schemas):
        try:
            known[name] = Domain.load(name, schemas=schemas, rego=None)
        except LedgerAgentError as error:
            found.problems.append(str(error))
    return known


def _opened(path: Path, found: Found) -> _Opened | None:
    try:
        files = read_archive(path)
        manifest = parse(files.get(MANIFEST, b"").decode(), what=f"its {MANIFEST}")
        kind, domain = _kind_of(manifest.get("roots") if isinstance(manifest, dict) else None)
        return _Opened(path, kind, domain, manifest, files)
    except (BadInput, UnicodeDecodeError) as error:
        found.problems.append(str(error) if str(path) in str(error) else f"{path}: {error}")
        return None


def _kind_of(roots: Any) -> tuple[str, str]:
    """(kind, domain) of a bundle with these roots."""
    if isinstance(roots, list) and sorted(map(str, roots)) == sorted(roots_of(GATE)):
        return GATE, ""
    root = roots[0] if isinstance(roots, list) and len(roots) == 1 else None
    for kind, own in ROOTS.items():
        if root == own and kind != "overrides":
            return kind, ""
    match = _ROOT.match(root) if isinstance(root, str) else None
    if match is not None and match["first"] == ROOTS["overrides"]:
        return "overrides", match["domain"]
    if match is not None and match["first"] == "ledgeragent" and match["domain"] not in SHARED:
        return "domain", match["domain"]
    raise BadInput(f"its roots {roots!r} are not those of one part: the gate, a domain, its overrides, floor or freeze")


def _named(one: _Opened) -> str:
    return f"{one.kind} {one.domain}".strip()


# One bundle ------------------------------------------------------------------------------------------------------


def _own_problems(
    one: _Opened, opened: Sequence[_Opened], known: Mapping[str, Domain], expected: Expected
) -> Iterator[str]:
    yield from _form_problems(one)
    try:
        if one.kind in ROOTS:
            yield from _data_problems(one, known, expected)
            yield from _gaps(one, opened, known)
        else:
            yield from _policy_problems(one, known, expected)
    except (BadInput, UnicodeDecodeError) as error:
        yield str(error)


def _form_problems(one: _Opened) -> Iterator[str]:
    if one.manifest.keys() != _MANIFEST_KEYS or one.manifest["rego_version"] != 1:
        yield f"its manifest must have {', '.join(sorted(_MANIFEST_KEYS))} and no more, rego_version being 1"
    for name in sorted(one.files):
        rule = name.endswith(".rego") and one.kind not in ROOTS
        if not rule and name not in (MANIFEST, SIGNATURES, DATA):
            yield f"{name} does not belong into it"


def _policy_problems(one: _Opened, known: Mapping[str, Domain], expected: Expected) -> Iterator[str]:
    part = one.part
    revision, sequence = stamp_of(part.name, one.data)
    yield from _stated_problems(one, part.revision, revision)
    if expected.pin is not None and part.revision not in expected.pin:
        yield f"its revision {part.revision} is not pinned"
    yield from _number_problems(sequence, expected.minimum, part.name)
    if one.kind == "domain":
        yield from _domain_problems(part, known.get(one.domain))
    for name in sorted(one.files.keys() - part.rules.keys() - {MANIFEST, SIGNATURES, DATA}):
        yield f"{name} holds no rule"


def _stated_problems(one: _Opened, actual: str, *stated: Any) -> Iterator[str]:
    for revision in dict.fromkeys((one.manifest.get("revision"), *stated)):
        if revision != actual:
            yield f"it says that its revision is {revision}, but its contents are {actual}"


def _number_problems(sequence: Any, minimum: Mapping[str, int], name: str) -> Iterator[str]:
    if not isinstance(sequence, int) or isinstance(sequence, bool) or sequence < 0:
        yield f"its sequence number is {sequence!r}"
    elif sequence < minimum.get(name, 0):
        yield f"its sequence number {sequence} is below {minimum[name]}, the minimum"


def _domain_problems(part: Part, domain: Domain | None) -> Iterator[str]:
    if part.strangers():
        yield f"its rules refer to {', '.join(part.strangers())}, which its revision does not cover"
    if domain is None:
        yield f"there is no domain {part.name} among the schemas, so nothing of it could be judged"
        return
    own = part.data.get(part.name, {})
    if own.get("declared") != domain.declared():
        yield "its generated data is not that of the schemas given here: they and the bundle are of different versions"
    with tempfile.TemporaryDirectory() as folder:
        unpack(part.rules, Path(folder))
        writes = {tool: domain.guarded_by(tool) for tool in domain.tools if domain.is_write(tool)}
        page = page_of(Path(folder), part.name, writes, tunable=bool(own.get("defaults")))
    if part.rules.get(f"ledgeragent/{part.name}/{part.name}.rego") != page.encode():
        yield "its page is not the one that is generated from its predicates: whoever wrote it decides by itself"


def _data_problems(one: _Opened, known: Mapping[str, Domain], expected: Expected) -> Iterator[str]:
    content = one.data.get(ROOTS[one.kind])
    yield from _stated_problems(one, digest(content))
    problems = {
        "overrides": lambda: overrides_problems(content, known, today=expected.today),
        "floor": lambda: floor_problems(content, known),
        "freeze": lambda: freeze_problems(content, known),
    }
    form = list(problems[one.kind]())
    yield from form
    if not form:
        assert isinstance(content, dict)
        for name, own in content.items():
            yield from (
                f"{name}: {problem}" for problem in _number_problems(own.get("sequence", 0), expected.minimum, one.kind)
            )


def _gaps(one: _Opened, opened: Sequence[_Opened], known: Mapping[str, Domain]) -> Iterator[str]:
    """What the domains that are here too lack of a floor that is sound."""
    content = one.data.get(ROOTS["floor"]) if one.kind == "floor" else None
    if content is None or list(floor_problems(content, known)):
        return
    for name in sorted({other.domain for other in opened if other.kind == "domain"} & known.keys()):
        yield from (f"{name}: {gap}" for gap in floor_gaps(content, known[name]))


# Signatures ------------------------------------------------------------------------------------------------------


def _check_signatures(files: Sequence[Path], opa: Path, trust: Trust | None, found: Found) -> None:
    if trust is None:
        found.skipped.append("the signatures: give the public key")
        return
    for path in files:
        said = [_unverified(path, key, opa, trust) for key in trust.keys]
        if None in said:
            found.done.append(f"{path}: its signature is by a key that is trusted")
        else:
            found.problems.append(f"{path}: its signature does not hold: {said[0]}")


def _unverified(path: Path, key: Path, opa: Path, trust: Trust) -> str | None:
    """Why OPA does not load the bundle with this key; None when it does."""
    scope = () if trust.scope is None else ("--scope", trust.scope)
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [
                str(opa.resolve()),
                "build",
                *("--bundle", str(path.resolve())),
                *("--verification-key", str(key.resolve()), "--signing-alg", trust.algorithm, *scope),
                *("--output", str(Path(folder) / "bundle.tar.gz")),
            ],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    said = (done.stderr + done.stdout).strip()
    # A domain alone does not compile, for want of the gate; OPA compiles only what it has verified.
    if done.returncode == 0 or _NOT_COMPILED.match(said):
        return None
    return said[:500] or "opa build failed without a word"


# All of them together --------------------------------------------------------------------------------------------


def _check_together(
    opened: Sequence[_Opened], schemas: Path, known: Mapping[str, Domain], opa: Path, found: Found
) -> None:
    names = [_named(one) for one in opened]
    found.problems += (
        f"{name} is there more than once" for name in sorted({one for one in names if names.count(one) > 1})
    )
    own = [one.domain for one in opened if one.kind == "domain" and one.domain in known]
    if own and GATE not in names:
        found.problems.append(
            f"the vectors of {', '.join(own)} cannot be run without the bundle of the gate; give it too"
        )
        return
    if not opened or len(set(names)) < len(names):
        return
    with tempfile.TemporaryDirectory() as temporary:
        folders = [Path(temporary) / str(number) for number, _ in enumerate(opened)]
        for one, folder in zip(opened, folders, strict=True):
            # Whose signature it is has been looked at; this OPA has no key.
            unpack({name: content for name, content in one.files.items() if name != SIGNATURES}, folder)
        try:
            with LocalOpa(folders[0], opa, beside=folders[1:]) as engine:
                found.done.append(f"one OPA takes {', '.join(names)} together")
                for name in own:
                    _prove(known[name], engine, schemas, found)
        except EngineError as error:
            found.problems.append(f"together: {error}")


def _prove(domain: Domain, engine: LocalOpa, schemas: Path, found: Found) -> None:
    try:
        Gate(domain, engine, vectors=schemas / "vectors" / f"{domain.name}.json").prove()
    except LedgerAgentError as error:
        found.problems.append(f"domain {domain.name}: {error}")
    else:
        found.done.append(f"domain {domain.name}: its vectors hold")
