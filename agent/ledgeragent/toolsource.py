"""Tool definitions that somebody already has, turned into declarations of the gate.

Reads a JSON file (an OpenAI tools array in either form, or the answer of MCP's `tools/list`) or asks an MCP server. Of
a parameter schema it keeps what the closed subset knows, closes objects, and reports the rest with its place. Whatever
a source says about a tool's effect is a hint for people: nothing here decides.
"""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from ledgeragent.contracts import Parameters
from ledgeragent.domain import MAX_ARGUMENT_DEPTH, parameter_problems
from ledgeragent.errors import BadInput
from ledgeragent.jsonio import parse

MCP: Final = "mcp:"
_HINTS: Final = ("destructiveHint", "idempotentHint", "openWorldHint", "readOnlyHint")
_START_SECONDS: Final = 30
_KEPT: Final = frozenset(Parameters.model_fields) - {"log"}  # what may be logged is for the domain's author to say
_ANNOTATIONS: Final = frozenset(
    ("title", "default", "examples", "$schema", "$id", "$comment", "$defs", "definitions", "deprecated", "strict")
)
_ADVICE: Final[Mapping[str, str]] = {
    "allOf": "write the object out",
    "anyOf": "choose one shape, or declare one tool per shape",
    "oneOf": "choose one shape, or declare one tool per shape",
    "exclusiveMaximum": "use maximum",
    "exclusiveMinimum": "use minimum",
    "additionalProperties": "name the properties it may have and set it to false",
    "patternProperties": "name the properties it may have, or take a list of objects with a name",
    "$ref": "write what it refers to in its place",
}
_OTHER_ADVICE: Final = "leave it out of the schema and check it in a predicate"


@dataclass(frozen=True)
class Definition:
    """A tool as its source defines it; `hints` are the source's own words about its effect."""

    name: str
    description: str
    parameters: Any
    hints: tuple[str, ...]


@dataclass(frozen=True)
class Closed:
    """Parameters in the closed subset.

    Attributes:
        parameters: the schema, or None when it does not fit.
        problems: what does not fit, with its place and what to do.
        notes: what was made stricter or left unchecked.
    """

    parameters: Mapping[str, Any] | None
    problems: tuple[str, ...]
    notes: tuple[str, ...]


def read_tools(source: str) -> list[Definition]:
    """Read tool definitions.

    Args:
        source: the path of a JSON file, or `mcp:` and the command that starts an MCP server on standard input.

    Raises:
        BadInput: when it cannot be read, or what stands there is no list of tools.
    """
    if source.startswith(MCP):
        return _definitions(_ask_server(shlex.split(source.removeprefix(MCP))), source)
    try:
        text = Path(source).read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise BadInput(f"{source} cannot be read: {error}") from None
    return _definitions(parse(text, what=source, limit=20_000_000), source)


def _definitions(document: Any, source: str) -> list[Definition]:
    found = document
    for key in ("result", "tools"):
        found = found[key] if isinstance(found, dict) and key in found else found
    if not isinstance(found, list) or not found:
        raise BadInput(f"{source} holds no tools: an array of tool definitions, or an object with `tools`, is expected")
    definitions = [read_definition(one, f"{source}: tool {number}") for number, one in enumerate(found)]
    names = [one.name for one in definitions]
    for twice in sorted({name for name in names if names.count(name) > 1}):
        raise BadInput(f"{source} defines {twice} twice; keep one")
    return definitions


def read_definition(tool: Any, place: str) -> Definition:
    """Read one tool definition, an OpenAI tool or one of MCP's.

    Args:
        tool: the definition.
        place: where it stands, for the error message.

    Raises:
        BadInput: when it is none.
    """
    body = tool.get("function", tool) if isinstance(tool, dict) else None
    if not isinstance(body, dict):
        raise BadInput(f"{place} is not a tool definition: an object is expected")
    name = body.get("name")
    if not isinstance(name, str) or not name or any(char in name for char in '"\\{}\n'):
        raise BadInput(f"{place} has no usable `name`")
    parameters = body.get("parameters", body.get("inputSchema"))
    annotations = body.get("annotations")
    hints = annotations if isinstance(annotations, dict) else {}
    return Definition(
        name,
        str(body.get("description") or body.get("title") or name),
        {"type": "object", "properties": {}} if parameters is None else parameters,
        tuple(f"{key} {json.dumps(hints[key])}" for key in _HINTS if isinstance(hints.get(key), bool)),
    )


def _ask_server(command: Sequence[str]) -> list[dict[str, Any]]:
    if not command:
        raise BadInput("mcp: needs the command that starts the server, for example --from 'mcp:python server.py'")
    try:
        import mcp  # an extra: only this source needs it
        from mcp.client.stdio import stdio_client
    except ImportError:
        raise BadInput(
            "asking an MCP server needs the package `mcp`: pip install 'ledgeragent[mcp]', or save the server's answer "
            "to tools/list in a file and give that"
        ) from None

    async def ask() -> list[dict[str, Any]]:
        parameters = mcp.StdioServerParameters(command=command[0], args=list(command[1:]))
        async with stdio_client(parameters) as streams, mcp.ClientSession(*streams) as session:
            await session.initialize()
            tools: list[dict[str, Any]] = []
            following: Any = None
            while True:
                answer = await session.list_tools(params=following)
                page = answer.model_dump(mode="json", exclude_none=True, by_alias=True)
                tools += page["tools"]
                if not page.get("nextCursor"):
                    return tools
                following = mcp.types.PaginatedRequestParams(cursor=page["nextCursor"])

    try:
        return asyncio.run(asyncio.wait_for(ask(), _START_SECONDS))
    except Exception as error:  # noqa: BLE001 - whatever a foreign program does, the user hears which one and what
        raise BadInput(f"the MCP server `{shlex.join(command)}` gave no tools: {_reason(error)}") from None


def _reason(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"no answer within {_START_SECONDS} s" if isinstance(error, TimeoutError) else str(error) or repr(error)


def close(schema: Any) -> Closed:
    """Bring a tool's parameter schema into the closed subset.

    Args:
        schema: the JSON Schema of the arguments.

    Returns:
        The parameters, or what keeps them out. Objects without a word about other properties are closed; annotations
        are dropped; a nullable type (`anyOf` with null) becomes a list of types; `const` an `enum`; `$ref` is resolved.
    """
    closing = _Closing(schema)
    found = closing.node(schema, "parameters", ())
    if found.get("type") == "object":
        found.setdefault("properties", {})
        found["additionalProperties"] = False
    if not closing.problems:
        closing.problems += _problems(found)
    return Closed(None if closing.problems else found, tuple(closing.problems), tuple(closing.notes))


def _problems(found: Any) -> list[str]:
    try:
        parameters = Parameters.model_validate_json(json.dumps(found))
    except ValidationError as error:
        return [f"{'.'.join(('parameters', *map(str, one['loc'])))}: {one['msg']}" for one in error.errors()]
    problems = list(parameter_problems(parameters, "parameters", MAX_ARGUMENT_DEPTH))
    return problems if parameters.type == "object" else [*problems, "parameters must be an object"]


class _Closing:
    def __init__(self, schema: Any) -> None:
        root = schema if isinstance(schema, dict) else {}
        self.shared = {**_table(root, "$defs"), **_table(root, "definitions")}
        self.problems: list[str] = []
        self.notes: list[str] = []

    def node(self, schema: Any, place: str, inside: tuple[str, ...]) -> dict[str, Any]:
        if not isinstance(schema, dict):
            self.problems.append(f"{place} is not a schema; say what may stand there")
            return {}
        reference = schema.get("$ref")
        if isinstance(reference, str) and reference in self.shared and reference not in inside:
            rest = {key: value for key, value in schema.items() if key != "$ref"}
            return self.node({**self.shared[reference], **rest}, place, (*inside, reference))
        schema = self._single(schema)
        found = {key: value for key, value in schema.items() if key in _KEPT}
        if found.get("additionalProperties") not in (None, False):
            self._refuse(place, "additionalProperties")
        for key in schema:
            self._other(key, place)
        if "const" in schema:
            found["enum"] = [schema["const"]]
        self._below(found, place, inside)
        return found

    def _below(self, found: dict[str, Any], place: str, inside: tuple[str, ...]) -> None:
        properties = found.get("properties")
        if isinstance(properties, dict):
            found["properties"] = {
                name: self.node(below, f"{place}.{name}", inside) for name, below in properties.items()
            }
            if "additionalProperties" not in found:
                self.notes.append(f"{place} is closed: other properties are refused")
            found["additionalProperties"] = False
        if "items" in found:
            found["items"] = self.node(found["items"], f"{place}[]", inside)

    def _other(self, key: str, place: str) -> None:
        if key == "format":
            self.notes.append(f"{place}: `format` is not checked; use a pattern where it matters")
        elif key not in _KEPT | _ANNOTATIONS | {"const"} and not key.startswith("x-"):
            self._refuse(place, key)

    def _refuse(self, place: str, key: str) -> None:
        self.problems.append(f"{place}: `{key}` is outside the closed subset; {_ADVICE.get(key, _OTHER_ADVICE)}")

    def _single(self, schema: dict[str, Any]) -> dict[str, Any]:
        """`anyOf` of one shape and null, as generators write an optional argument, as that shape with two types."""
        for key in ("anyOf", "oneOf", "allOf"):
            branches = schema.get(key)
            if not isinstance(branches, list) or not all(isinstance(one, dict) for one in branches):
                continue
            shapes = [one for one in branches if one.get("type") != "null"]
            if len(shapes) == 1:
                rest = {name: value for name, value in schema.items() if name != key}
                shape = self.shared.get(str(shapes[0].get("$ref")), shapes[0])
                return {**(_nullable(shape) if len(branches) > 1 else shape), **rest}
        return schema


def _nullable(shape: Mapping[str, Any]) -> dict[str, Any]:
    kinds = shape.get("type", [])
    found: dict[str, Any] = {**shape, "type": [*([kinds] if isinstance(kinds, str) else kinds), "null"]}
    if "enum" in shape:
        found["enum"] = [*shape["enum"], None]
    return found


def _table(root: Mapping[str, Any], name: str) -> dict[str, Any]:
    table = root.get(name)
    if not isinstance(table, dict):
        return {}
    return {f"#/{name}/{key}": node for key, node in table.items() if isinstance(node, dict)}
