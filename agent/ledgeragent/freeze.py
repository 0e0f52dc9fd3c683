"""The emergency switch, read before it is used: which writes are stopped, by whom, since when and why.

The policy data `ledgeragent_freeze`. It can only tighten, so OPA takes a malformed one for a freeze of the whole
domain; this module refuses it instead, where a person can still mend it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ledgeragent.contracts import DomainFreeze, FreezeFile
from ledgeragent.domain import Domain
from ledgeragent.policydata import file_problems, read, tool_problem


def read_freeze(path: Path, domains: Mapping[str, Domain]) -> dict[str, Any]:
    """Read and check a freeze file.

    Args:
        path: the JSON file.
        domains: the loaded domains that may be named in it.

    Returns:
        Its content, as the policy data `ledgeragent_freeze`.

    Raises:
        BadInput: with everything that is wrong, one line each.
    """
    return read(path, lambda document: freeze_problems(document, domains))


def freeze_problems(document: Any, domains: Mapping[str, Domain]) -> Iterator[str]:
    """What is wrong with the content of a freeze file."""
    return file_problems(document, FreezeFile, domains, _problems)


def _problems(domain: Domain, freeze: DomainFreeze) -> Iterator[str]:
    for tool in freeze.tools:
        problem = tool_problem(domain, tool)
        if problem is not None:
            yield f"tools.{tool}: {problem}"
