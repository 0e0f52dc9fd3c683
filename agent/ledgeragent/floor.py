"""What an organisation demands of every team, read before it is used: predicates per tool, settings to be left alone.

The policy data `ledgeragent_floor`. OPA blocks a write that lacks what is demanded, and lets no override weaken it.
That a domain does not meet the floor is no fault of the file: `floor_gaps` says it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ledgeragent.contracts import DomainFloor, FloorFile
from ledgeragent.domain import Domain
from ledgeragent.policydata import EVERY_WRITE, file_problems, read, tool_problem


def read_floor(path: Path, domains: Mapping[str, Domain]) -> dict[str, Any]:
    """Read and check a floor file.

    Args:
        path: the JSON file.
        domains: the loaded domains that may be named in it.

    Returns:
        Its content, as the policy data `ledgeragent_floor`.

    Raises:
        BadInput: with everything that is wrong, one line each.
    """
    return read(path, lambda document: floor_problems(document, domains))


def floor_problems(document: Any, domains: Mapping[str, Domain]) -> Iterator[str]:
    """What is wrong with the content of a floor file."""
    return file_problems(document, FloorFile, domains, _problems)


def floor_gaps(document: Mapping[str, Any], domain: Domain) -> Iterator[str]:
    """What a domain lacks of a floor, one line per write and demand: all of these writes are blocked.

    Args:
        document: the content of a floor file without problems.
        domain: the loaded domain.
    """
    demands = document.get(domain.name, {}).get("tools", {})
    for tool in filter(domain.is_write, domain.tools):
        for name in (EVERY_WRITE, tool):
            lacking = sorted({*demands.get(name, {}).get("predicates", ())} - {*domain.guarded_by(tool)})
            if lacking:
                yield f"{tool} is not guarded by {', '.join(lacking)}, which {demands[name]['owner']} demands"


def _problems(domain: Domain, floor: DomainFloor) -> Iterator[str]:
    for tool, demand in floor.tools.items():
        problem = tool_problem(domain, tool)
        if problem is not None:
            yield f"tools.{tool}: {problem}"
        for predicate in demand.predicates:
            if not predicate.startswith((f"{domain.name}.", "common.")):
                yield f"tools.{tool}: {predicate} is not an id of the domain ({domain.name}.…) or of all (common.…)"
    known = domain.settings.get("properties", {})
    for key in floor.settings:
        if key not in known:
            yield f"settings.{key}: unknown setting; there are {', '.join(sorted(known)) or 'none'}"
