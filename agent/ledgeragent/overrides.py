"""What a deployment changes without editing rules: predicates' modes and verdicts, and settings.

An overrides file is the policy data that a deployment puts under `ledgeragent_overrides`. OPA applies it; this module
reads it before anything is opened and refuses what could not be meant: an unknown id, a misspelt verdict, an entry
without an owner, a reason or a date, one that has expired, one that weakens a protected predicate, a value that does
not fit the domain's settings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ledgeragent.contracts import DomainOverrides, OverridesFile, PredicateOverride, SettingOverride
from ledgeragent.domain import Domain, Validator
from ledgeragent.policydata import file_problems, read


def read_overrides(path: Path, domains: Mapping[str, Domain], *, today: str) -> dict[str, Any]:
    """Read and check an overrides file.

    Args:
        path: the JSON file.
        domains: the loaded domains that may be named in it.
        today: the date that decides what has expired, `YYYY-MM-DD`.

    Returns:
        Its content, as the policy data `ledgeragent_overrides`.

    Raises:
        BadInput: with everything that is wrong, one line each.
    """
    return read(path, lambda document: overrides_problems(document, domains, today=today))


def overrides_problems(document: Any, domains: Mapping[str, Domain], *, today: str) -> Iterator[str]:
    """What is wrong with the content of an overrides file."""
    return file_problems(document, OverridesFile, domains, lambda domain, own: _problems(domain, own, today))


def _problems(domain: Domain, overrides: DomainOverrides, today: str) -> Iterator[str]:
    for predicate, entry in overrides.predicates.items():
        yield from (f"predicates.{predicate}: {text}" for text in _predicate(domain, predicate, entry, today))
    for key, setting in overrides.settings.items():
        yield from (f"settings.{key}: {text}" for text in _setting(domain, key, setting, today))


def _predicate(domain: Domain, predicate: str, entry: PredicateOverride, today: str) -> Iterator[str]:
    known = {one for tool in domain.tools for one in domain.guarded_by(tool)}
    if predicate not in known:
        yield f"unknown id; the domain enforces {', '.join(sorted(known))}"
    if entry.mode is None and entry.verdict is None:
        yield "changes nothing; give a mode or a verdict"
    if predicate in domain.file.protected and (entry.mode in ("shadow", "off") or entry.verdict == "revise"):
        yield "is protected and cannot be weakened here"
    if entry.expires < today:
        yield f"expired on {entry.expires}; renew it or take it out"


def _setting(domain: Domain, key: str, entry: SettingOverride, today: str) -> Iterator[str]:
    known = domain.settings.get("properties", {})
    schema = known.get(key)
    if schema is None:
        yield f"unknown setting; there are {', '.join(sorted(known)) or 'none'}"
    else:
        whole = {**schema, "$defs": domain.settings.get("$defs", {})}
        for error in Validator(whole).iter_errors(entry.value):
            place = "".join(f".{part}" for part in error.absolute_path)
            yield f"value{place}: {error.message[:200]}"
    if entry.expires < today:
        yield f"expired on {entry.expires}; renew it or take it out"
