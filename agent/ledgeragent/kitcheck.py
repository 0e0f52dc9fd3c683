"""Everything that is wrong with a folder of domains, at once; and the making of what is generated in it.

`check` only looks: at the files themselves, at whether the generated ones are those of their sources, and with an `opa`
at format, types, tests, coverage, lint, the stated cases and the knock-out. What could not be looked at is said. The
single checks belong to the modules they are named after.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ledgeragent.cases import cases_path, load_cases, vectors
from ledgeragent.compile import Sources, compiled_files, data_texts, encoded, page_texts, pretty, write
from ledgeragent.domain import Domain
from ledgeragent.engine import Embedded, Engine, LocalOpa, compiled_module
from ledgeragent.engine.local import opa_version
from ledgeragent.engine.versions import check_version
from ledgeragent.errors import BadInput, DomainError, LedgerAgentError
from ledgeragent.gate import Gate, load_vectors
from ledgeragent.kit import refresh
from ledgeragent.knockout import knock_out
from ledgeragent.lint import lint
from ledgeragent.policies import check_name, domains

UNDECIDED: Final = "undecided"
PARTS: Final = ("files", "format", "types", "tests", "lint", "vectors")
"""What can be looked at alone: the files and what is generated; `opa fmt`; `opa check`; `opa test` and coverage; the
lint; the stated cases, the knock-out and the proof."""
_TIMEOUT_S: Final = 300


@dataclass
class Found:
    """What a check found.

    Attributes:
        problems: each with file and place.
        skipped: what was not looked at, and why.
        done: what was looked at and is sound.
    """

    problems: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    done: list[str] = field(default_factory=list)


def compile_folder(sources: Sources, opa: Path | None) -> list[Path]:
    """Write everything that is generated.

    Args:
        sources: the folders.
        opa: the `opa` that fills in the vectors and compiles the module; without it only pages and data are written.

    Returns:
        The files that were written, unchanged ones left out.

    Raises:
        LedgerAgentError: when the sources do not allow it, with everything that is wrong.
    """
    _named_domains(sources)
    written = write(refresh(sources))
    written += write(encoded(page_texts(sources)))
    written += write(encoded(data_texts(sources)))
    if opa is not None:
        version = opa_version(opa)
        check_version(version, f"the OPA at {opa}")
        written += write(encoded(vector_texts(sources, opa)))
        written += write(compiled_files(sources, opa, version))
    return written


def vector_texts(sources: Sources, opa: Path) -> dict[Path, str]:
    """The vectors of every domain that states cases.

    Raises:
        BadInput: with every case that is not decided as stated.
    """
    files = {}
    for name in domains(sources.schemas):
        stated = cases_path(sources.schemas, name)
        if not stated.is_file():
            continue
        domain = Domain.load(name, schemas=sources.schemas, rego=sources.rego)
        document = vectors(load_cases(stated, name), domain, sources.rego, opa)
        files[sources.schemas / "vectors" / f"{name}.json"] = pretty(document)
    return files


def check_folder(sources: Sources, opa: Path | None, parts: Collection[str] = PARTS) -> Found:
    """Look at everything, or at some parts.

    Args:
        sources: the folders.
        opa: the `opa` to look with, or None.
        parts: of `PARTS`.
    """
    found = Found()
    try:
        names = _named_domains(sources)
    except BadInput as error:
        found.problems.append(str(error))
        return found
    # What only OPA itself looks at does not need domains that load.
    own = {"files", "lint", "vectors"} & set(parts)
    loaded = [domain for name in names if own and (domain := _load(sources, name, found)) is not None]
    if "files" in parts:
        _check_files(sources, loaded, len(names), found)
    if opa is None:
        found.skipped += ["opa fmt, check and test, lint, the stated cases and the knock-out: there is no `opa` here"]
    else:
        _check_with_opa(sources, opa, found, parts)
        for domain in loaded:
            _check_domain_with_opa(sources, domain, opa, found, parts)
    for domain in loaded if "vectors" in parts else ():
        _check_vectors(sources, domain, opa, found)
    return found


def _check_files(sources: Sources, loaded: Sequence[Domain], named: int, found: Found) -> None:
    _check_json(sources, found)
    _check_shared(sources, found)
    if len(loaded) == named:
        _check_generated(sources, found)
    for domain in loaded:
        _check_undecided(sources, domain, found)


def _named_domains(sources: Sources) -> list[str]:
    names = domains(sources.schemas)
    if not names:
        raise BadInput(
            f"{sources.schemas}: no domain (a folder with tools.json) is here; `ledgeragent domain new` makes one"
        )
    for name in names:
        check_name(name)
    return names


def _load(sources: Sources, name: str, found: Found) -> Domain | None:
    folder = sources.schemas / name
    try:
        domain = Domain.load(name, schemas=sources.schemas, rego=sources.rego)
    except DomainError as error:
        # The domain names its own two files shortly; here there may be several domains.
        found.problems += [
            problem.replace("tools.json:", f"{folder / 'tools.json'}:", 1)
            if problem.startswith("tools.json:")
            else problem.replace("rego:", f"{sources.rego / 'ledgeragent' / name}:", 1)
            if problem.startswith("rego:")
            else problem
            for problem in error.problems
        ]
        return None
    found.done.append(f"{folder}: its tools ({len(domain.tools)}), facts and Rego agree")
    return domain


def _check_json(sources: Sources, found: Found) -> None:
    """Files that no domain has read yet."""
    for path in sorted(sources.rego.rglob("*.json")):
        try:
            json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            found.problems.append(f"{path}: is not JSON: {error}")


def _check_shared(sources: Sources, found: Found) -> None:
    for path, content in refresh(sources).items():
        if not path.is_file() or path.read_bytes() != content:
            found.problems.append(f"{path}: is not this version's; `ledgeragent domain compile` renews what is shared")


def _check_generated(sources: Sources, found: Found) -> None:
    for path, text in {**page_texts(sources), **data_texts(sources)}.items():
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            found.problems.append(f"{path}: is out of date; run `ledgeragent domain compile`")


def _check_undecided(sources: Sources, domain: Domain, found: Found) -> None:
    tools_file = sources.schemas / domain.name / "tools.json"
    for tool in domain.tools:
        if f"{domain.name}.{UNDECIDED}" in domain.guarded_by(tool):
            found.problems.append(
                f"{tools_file}: {tool}: nobody has decided whether it reads, writes or has no effect; it is blocked"
            )


def _check_with_opa(sources: Sources, opa: Path, found: Found, parts: Collection[str]) -> None:
    for part, look in (("format", _check_format), ("types", _check_types), ("tests", _check_tests)):
        if part in parts and not look(sources, opa, found):
            return


def _check_format(sources: Sources, opa: Path, found: Found) -> bool:
    """Whether there is sense in going on; likewise below."""
    formatted = _opa(opa, sources, "fmt", "--list", sources.rego.name)
    if formatted.returncode and not formatted.stdout.strip():
        found.problems.append(f"opa fmt: {_said(formatted)}")
        return False
    for name in formatted.stdout.split():
        found.problems.append(f"{sources.rego.parent / name}: is not formatted; run `opa fmt --write`")
    if not formatted.stdout.strip():
        found.done.append("opa fmt")
    return True


def _check_types(sources: Sources, opa: Path, found: Found) -> bool:
    checked = _opa(opa, sources, "check", "--strict", "--schema", sources.schemas.name, sources.rego.name)
    if checked.returncode:
        found.problems.append(f"opa check: {_said(checked)}")
        return False
    found.done.append("opa check")
    return True


def _check_tests(sources: Sources, opa: Path, found: Found) -> bool:
    tested = _opa(opa, sources, "test", "--fail-on-empty", sources.rego.name)
    if tested.returncode:
        found.problems.append(f"opa test: {_said(tested)}")
        return False
    found.done.append(f"opa test: {tested.stdout.strip().splitlines()[-1]}")
    _check_coverage(sources, opa, found)
    return True


def _check_coverage(sources: Sources, opa: Path, found: Found) -> None:
    # Without -b: with it, OPA reports 100 % whatever was run. The shared gate is tested where it is made.
    report = _opa(opa, sources, "test", "--coverage", "--format", "json", sources.rego.name)
    covered: dict[str, Any] = json.loads(report.stdout)["files"]
    problems = [
        f"{sources.rego.parent / name}:{place['start']['row']}: no test reaches this"
        for name, file in sorted(covered.items())
        if not name.endswith("_test.rego") and not _is_shared(sources, name)
        for place in file.get("not_covered", ())
    ]
    found.problems += list(dict.fromkeys(problems))
    if not problems:
        found.done.append("every line of the policies is reached by a test")


def _is_shared(sources: Sources, name: str) -> bool:
    return name.startswith(tuple(f"{sources.rego.name}/ledgeragent/{one}/" for one in ("gate", "common")))


def _check_domain_with_opa(sources: Sources, domain: Domain, opa: Path, found: Found, parts: Collection[str]) -> None:
    if "lint" in parts:
        _run(f"lint of {domain.name}", lambda: lint(sources.rego, sources.schemas, domain.name, opa), found)
    if "vectors" in parts:
        _run(f"the stated cases of {domain.name}", lambda: _case_problems(sources, domain, opa), found)


def _run(what: str, problems: Callable[[], Iterable[str]], found: Found) -> None:
    try:
        own = list(problems())
    except LedgerAgentError as error:
        own = [f"{what}: {error}"]
    found.problems += own
    if not own:
        found.done.append(what)


def _case_problems(sources: Sources, domain: Domain, opa: Path) -> Iterator[str]:
    stated = cases_path(sources.schemas, domain.name)
    target = sources.schemas / "vectors" / f"{domain.name}.json"
    if not stated.is_file():
        return
    try:
        text = pretty(vectors(load_cases(stated, domain.name), domain, sources.rego, opa))
    except BadInput as error:
        yield from (line if line.startswith(str(stated)) else f"{stated}: {line}" for line in str(error).splitlines())
        return
    if not target.is_file() or target.read_text(encoding="utf-8") != text:
        yield f"{target}: is out of date; run `ledgeragent domain compile`"


def _check_vectors(sources: Sources, domain: Domain, opa: Path | None, found: Found) -> None:
    """Nothing is proved by vectors that say too little, so they come first."""
    path = sources.schemas / "vectors" / f"{domain.name}.json"
    try:
        stated = load_vectors(path, domain)
    except BadInput as error:
        found.problems.append(str(error))
        return
    if opa is not None:
        _run(f"the knock-out of {domain.name}", lambda: _knock_out_problems(sources, domain, path, stated, opa), found)
        _run(f"the proof of {domain.name} on the engine opa", lambda: _unproved(sources, domain, path, opa), found)
    what = f"the proof of {domain.name} on the embedded engine"
    if (sources.compiled / "policy.wasm").is_file():
        _run(what, lambda: _unproved(sources, domain, path, None), found)
    else:
        found.skipped.append(f"{what}: it is not compiled yet")


def _knock_out_problems(
    sources: Sources, domain: Domain, path: Path, stated: Sequence[Mapping[str, Any]], opa: Path
) -> Iterator[str]:
    result = knock_out(sources.rego, sources.schemas, domain.name, stated, opa)
    yield from (f"{path}: {problem}" for problem in result.problems)


def _unproved(sources: Sources, domain: Domain, path: Path, opa: Path | None) -> tuple[str, ...]:
    """Nothing when the domain proves itself; else that is raised."""
    with _engine(sources, opa) as engine:
        Gate(domain, engine, vectors=path).prove()
    return ()


def _engine(sources: Sources, opa: Path | None) -> Engine:
    if opa is not None:
        return LocalOpa(sources.rego, opa)
    return Embedded(compiled_module(sources.rego, sources.schemas, sources.compiled))


def _opa(opa: Path, sources: Sources, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(opa.resolve()), *arguments],
        cwd=sources.rego.parent,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )


def _said(done: subprocess.CompletedProcess[str]) -> str:
    return (done.stdout + done.stderr).strip()[:4000]
