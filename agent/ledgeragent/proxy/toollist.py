"""What a server offers, held against what the domain declares.

A tool is what its declaration says only while the server offers it with the declared description and parameters. Of
these a declaration may ask for less than the server takes (fewer types, a pattern, a smaller range, more required
arguments), never for more. What a server says about a tool's effect (annotations) and about its return (an output
schema) is neither believed nor compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from ledgeragent.contracts import Parameters
from ledgeragent.domain import Domain
from ledgeragent.errors import BadInput
from ledgeragent.toolsource import close, read_definition

_BOUNDS: Final = ("pattern", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems")


class ToolList:
    """The tools of one connection's server: which of them are what the domain declares."""

    def __init__(self, domain: Domain) -> None:
        """Know nothing yet: until the server's list was read, nothing is as declared."""
        self._domain = domain
        self._offered: frozenset[str] = frozenset()
        self._changed: dict[str, str] = {}

    def offered(self, tools: Iterable[Any]) -> list[str]:
        """Take the whole list of the server as of now.

        Returns:
            What was not known to differ before, a line each, for the operator.
        """
        listed = list(tools)
        names = [one.get("name") for one in listed if isinstance(one, Mapping)]
        self._offered = frozenset(name for name in names if isinstance(name, str))
        news = self.shown(listed)
        for name in sorted({name for name in self._offered if names.count(name) > 1}):
            news += self._differs(name, "it is offered twice")
        return news

    def shown(self, tools: Iterable[Any]) -> list[str]:
        """Take a part of a list that the client is shown. What differed once, differs until the session ends.

        Returns:
            As `offered`.
        """
        news: list[str] = []
        for one in tools:
            name = one.get("name") if isinstance(one, Mapping) else None
            declared = self._domain.tools.get(name) if isinstance(name, str) else None
            if declared is not None:
                what = next(_differences(declared.description, declared.parameters, one), None)
                news += self._differs(declared.name, what) if what is not None else []
        return news

    def _differs(self, name: str, what: str) -> list[str]:
        if name in self._changed or name not in self._domain.tools:
            return []
        self._changed[name] = what
        return [f"{name} is not what is declared, and is blocked: {what}"]

    def problem(self, name: str) -> str | None:
        """What keeps a declared tool from being what it is declared as, or None."""
        if name in self._changed:
            return self._changed[name]
        return None if name in self._offered else "the server does not offer it"


def _differences(description: str, parameters: Parameters, listed: Mapping[str, Any]) -> Iterator[str]:
    try:
        definition = read_definition(listed, "the tool")
    except BadInput as problem:
        yield str(problem)
        return
    if definition.description != description:
        yield "its description"
    closed = close(definition.parameters)
    if closed.parameters is None:
        yield closed.problems[0]
        return
    declared = parameters.model_dump(mode="json", by_alias=True, exclude_none=True)
    yield from _wider(declared, closed.parameters, "parameters")


def _wider(declared: Mapping[str, Any], listed: Mapping[str, Any], place: str) -> Iterator[str]:
    """Where a declared node asks for something else than the listed one, or takes what that does not take."""
    if declared.get("description") != listed.get("description") and place != "parameters":
        yield f"the description of {place}"
    if not _types(declared) <= _types(listed):
        yield f"the type of {place}"
    if "enum" in listed and not ("enum" in declared and all(one in listed["enum"] for one in declared["enum"])):
        yield f"the values of {place}"
    for bound in _BOUNDS:
        if bound in listed and not _within(bound, declared.get(bound), listed[bound]):
            yield f"`{bound}` of {place}"
    yield from _below(declared, listed, place)


def _below(declared: Mapping[str, Any], listed: Mapping[str, Any], place: str) -> Iterator[str]:
    ours, theirs = declared.get("properties", {}), listed.get("properties", {})
    if ours.keys() != theirs.keys():
        yield f"the properties of {place}: {', '.join(sorted(ours.keys() ^ theirs.keys()))}"
    if not set(listed.get("required", ())) <= set(declared.get("required", ())):
        yield f"what is required in {place}"
    for name in ours.keys() & theirs.keys():
        yield from _wider(ours[name], theirs[name], f"{place}.{name}")
    if "items" in listed:
        yield from _wider(declared.get("items", {}), listed["items"], f"{place}[]")


def _types(node: Mapping[str, Any]) -> frozenset[str]:
    kinds = node.get("type", ("string", "integer", "number", "boolean", "null", "array", "object"))
    found = {kinds} if isinstance(kinds, str) else set(kinds)
    return frozenset(found | {"integer"} if "number" in found else found)


def _within(bound: str, own: Any, limit: Any) -> bool:
    if bound == "pattern" or own is None:
        return bool(own == limit)
    return bool(own >= limit) if bound.startswith("min") else bool(own <= limit)
