"""The catalogue: what is enforced, in words, read from the policy files themselves.

Needs no engine: METADATA blocks are YAML in comments, `guards` are literal sets, tests are named in the file beside the
policy. A test holds what is read here against `opa inspect`. Rendering as Markdown or HTML is done here too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import jinja2
import yaml

from ledgeragent.domain import Domain
from ledgeragent.errors import BadInput
from ledgeragent.policies import REGO, SCHEMAS, read_rego

_TESTS: Final = re.compile(r"^(test_[a-z0-9_]+)", re.MULTILINE)
_KINDS: Final = re.compile(r'^(?:} else|obligation) := \{[^}]*?"kind": "([a-z_]+)"', re.MULTILINE)
_TEMPLATES: Final = jinja2.Environment(
    loader=jinja2.PackageLoader("ledgeragent"),
    autoescape=jinja2.select_autoescape(["html"]),
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
    undefined=jinja2.StrictUndefined,
)


@dataclass(frozen=True)
class Entry:
    """One predicate as a reviewer meets it.

    Attributes:
        id: `<domain>.<name>` or `common.<name>`.
        domain: the domain that enforces it.
        title: one line.
        description: the rule, for a reader who has never seen the code.
        tools: the writes it guards.
        evidence: path templates; `?` marks evidence that is only needed where it decides.
        reads: `history` and `siblings`, where the rule looks at earlier writes.
        remedy: what the agent can do about a finding.
        severity: critical, high, medium or low.
        policy: the section of the business policy it enforces.
        lifted_by: `approval` or `user_confirmation`, where its rule says that such a grant may lift its finding.
        tests: names of the tests beside it.
        source: its file, relative to the bundle root.
    """

    id: str
    domain: str
    title: str
    description: str
    tools: tuple[str, ...]
    evidence: tuple[str, ...]
    reads: tuple[str, ...]
    remedy: str
    severity: str
    policy: str
    lifted_by: tuple[str, ...]
    tests: tuple[str, ...]
    source: str


def read_catalogue(domain: str, *, rego: Path = REGO, schemas: Path = SCHEMAS) -> list[Entry]:
    """Every predicate a domain enforces, in the order of its page.

    Raises:
        DomainError: when the domain's parts disagree.
        BadInput: when a predicate's METADATA is missing or incomplete, naming the file.
    """
    loaded = Domain.load(domain, schemas=schemas, rego=rego)
    return [_entry(loaded, predicate, rego) for predicate in read_rego(rego, domain).listed]


def _entry(domain: Domain, predicate: str, rego: Path) -> Entry:
    family, _, name = predicate.partition(".")
    file = rego / "ledgeragent" / family / name / f"{name}.rego"
    metadata = package_metadata(file)
    custom = metadata.get("custom", {})
    test = file.with_name(f"{name}_test.rego")
    try:
        return Entry(
            id=predicate,
            domain=domain.name,
            title=metadata["title"],
            description=metadata["description"].strip(),
            tools=tuple(sorted(tool for tool in domain.tools if predicate in domain.guarded_by(tool))),
            evidence=tuple(custom["evidence"]),
            reads=tuple(custom.get("reads", ())),
            remedy=custom["remedy"],
            severity=custom["severity"],
            policy=custom["policy"],
            lifted_by=tuple(sorted(set(_KINDS.findall(file.read_text(encoding="utf-8"))))),
            tests=tuple(_TESTS.findall(test.read_text(encoding="utf-8"))) if test.is_file() else (),
            source=file.relative_to(rego).as_posix(),
        )
    except (KeyError, AttributeError, TypeError) as error:
        raise BadInput(f"{file}: METADATA of the package lacks {error}; see docs/write-a-domain.md") from None


def package_metadata(file: Path) -> Mapping[str, Any]:
    """The METADATA block in front of a file's `package` line.

    Raises:
        BadInput: when the file is not there, or the block is missing or is no YAML.
    """
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise BadInput(f"{file} cannot be read: {error}") from None
    block = list(_first_block(lines))
    try:
        found = yaml.safe_load("\n".join(line[2:] for line in block)) if block else None
    except yaml.YAMLError as error:
        raise BadInput(f"{file}: METADATA is no YAML: {' '.join(str(error).split())}") from None
    if not isinstance(found, dict):
        raise BadInput(f"{file} has no METADATA in front of its package line")
    return found


def _first_block(lines: Sequence[str]) -> Iterator[str]:
    inside = False
    for line in lines:
        if line.startswith("package "):
            return
        if line.strip() == "# METADATA":
            inside = True
        elif inside and line.startswith("#"):
            yield line
        else:
            inside = False


def as_json(entries: Sequence[Entry]) -> str:
    """The entries as a JSON array."""
    return json.dumps([asdict(entry) for entry in entries], indent=2, ensure_ascii=False) + "\n"


def as_markdown(entries: Sequence[Entry], title: str) -> str:
    """The entries as a Markdown page."""
    return _TEMPLATES.get_template("catalogue.md").render(title=title, entries=entries)


def as_html(entries: Sequence[Entry], title: str) -> str:
    """The entries as one HTML page that needs no network."""
    return _TEMPLATES.get_template("catalogue.html").render(title=title, entries=entries)
