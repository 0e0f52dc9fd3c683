"""Policy data that comes beside the policies: a deployment's overrides, an organisation's floor, the emergency freeze.

Each is one JSON file, one contract and one root of its own in OPA. OPA applies them; `overrides`, `floor` and `freeze`
say, before anything is opened, what could not be meant. Here is what the three share: reading a file, and saying
everything that is wrong with it at once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import RootModel, ValidationError

from ledgeragent.contracts import WriteTool
from ledgeragent.domain import Domain
from ledgeragent.errors import BadInput
from ledgeragent.jsonio import parse

EVERY_WRITE: Final = "*"
"""What stands for every write of a domain where a tool is named."""

Entry = TypeVar("Entry")


def read(path: Path, problems: Callable[[Any], Iterable[str]]) -> dict[str, Any]:
    """Read and check a file of policy data.

    Args:
        path: the JSON file.
        problems: says what is wrong with its content.

    Returns:
        Its content, as the policy data under the root of its kind.

    Raises:
        BadInput: with everything that is wrong, one line each.
    """
    try:
        document = parse(path.read_text(encoding="utf-8"), what=str(path))
    except (OSError, UnicodeError) as error:
        raise BadInput(f"{path} cannot be read: {error}") from None
    found = list(problems(document))
    if found:
        lines = "\n".join(f"  - {problem}" for problem in found)
        raise BadInput(f"{path} cannot be used, {len(found)} problem(s):\n{lines}")
    content: dict[str, Any] = document
    return content


def file_problems(
    document: Any,
    model: type[RootModel[dict[str, Entry]]],
    domains: Mapping[str, Domain],
    own: Callable[[Domain, Entry], Iterable[str]],
) -> Iterator[str]:
    """What is wrong with a document: with its form, or else with what it says of each domain.

    Args:
        document: the parsed file.
        model: its contract.
        domains: the domains that may be named.
        own: what is wrong with a domain's entry; each line follows the domain's name and a full stop.
    """
    try:
        file = model.model_validate_json(json.dumps(document))
    except ValidationError as error:
        yield from (f"{'.'.join(str(part) for part in one['loc'])}: {one['msg']}" for one in error.errors())
        return
    for name, entry in file.root.items():
        domain = domains.get(name)
        if domain is None:
            yield f"{name}: no such domain (there: {', '.join(sorted(domains)) or 'none'})"
        else:
            yield from (f"{name}.{problem}" for problem in own(domain, entry))


def tool_problem(domain: Domain, tool: str) -> str | None:
    """What is wrong with a tool's name in policy data, or None."""
    if tool == EVERY_WRITE or isinstance(domain.tools.get(tool), WriteTool):
        return None
    return f"no write of the domain (there: {', '.join(sorted(filter(domain.is_write, domain.tools)))})"
