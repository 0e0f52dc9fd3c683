"""The tools an agent offers its model, and how each is run: plain functions, tool definitions, or an MCP server's.

What a tool may do is not said here: that is the domain's business. The loop refuses to start with a tool the domain
does not declare.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, get_type_hints

from pydantic import BaseModel, ConfigDict, PydanticUserError, ValidationError, create_model

from ledgeragent.errors import BadInput
from ledgeragent.jsonio import check, copied
from ledgeragent.model import Definition
from ledgeragent.session import ToolRefused

Run = Callable[[str, dict[str, Any]], Any]
"""Runs a tool: name and parsed arguments in, the return out. May be a coroutine function for an `AsyncLedgerAgent`.

`ToolRefused` means a definite no. For a write any other exception means that it may have run.
"""
_EMPTY: Final[Mapping[str, Any]] = {"type": "object", "properties": {}}


class ToolFailed(Exception):
    """A tool says that it failed, but not that nothing was changed."""


@dataclass(frozen=True)
class Tool:
    """One tool.

    Attributes:
        name: its name.
        description: for the model.
        parameters: JSON Schema of its arguments.
        run: called with the name and the parsed arguments.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    run: Run

    @property
    def definition(self) -> Definition:
        """The tool as the model sees it."""
        body = {"name": self.name, "description": self.description, "parameters": copied(self.parameters)}
        return {"type": "function", "function": body}


class Toolset:
    """Tools by name, each once, in the order they were given."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        """Collect tools.

        Raises:
            BadInput: when a name comes twice.
        """
        self._tools: dict[str, Tool] = {}
        for tool in tools:
            if tool.name in self._tools:
                raise BadInput(f"tool {tool.name!r} is given twice: the model could not tell them apart")
            self._tools[tool.name] = tool

    @classmethod
    def from_functions(cls, *functions: Callable[..., Any]) -> Toolset:
        """Tools made of functions: name, type hints and docstring say what the model needs to know.

        Args:
            functions: plain or coroutine functions with a type hint for each parameter.

        Raises:
            BadInput: for a parameter without a type hint, or one JSON has no type for.
        """
        return cls(_tool_of(function) for function in functions)

    @classmethod
    def from_openai(cls, definitions: Sequence[Mapping[str, Any]], run: Run) -> Toolset:
        """Tools from OpenAI tool definitions, with or without the `function` wrapping.

        Args:
            definitions: as they are sent to the API.
            run: runs any of them.

        Raises:
            BadInput: when one has no name.
        """
        tools = []
        for number, definition in enumerate(definitions):
            body = definition.get("function", definition)
            if not isinstance(body, Mapping) or not isinstance(body.get("name"), str) or not body["name"]:
                raise BadInput(f"tool definition {number} has no 'name'")
            parameters = body.get("parameters") or _EMPTY
            check(parameters, what=f"parameters of {body['name']}")
            tools.append(Tool(body["name"], str(body.get("description") or ""), copied(parameters), run))
        return cls(tools)

    @classmethod
    async def from_mcp(cls, client: Any) -> Toolset:
        """The tools of an MCP server, run through its client session; for an `AsyncLedgerAgent`.

        Args:
            client: an initialised `mcp.ClientSession` (or anything with its `list_tools` and `call_tool`).
        """
        # The package is an extra: only what the session gives is used here.
        from ledgeragent.mcptools import mcp_tools

        return cls(await mcp_tools(client))

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def __getitem__(self, name: str) -> Tool:
        return self._tools[name]

    @property
    def definitions(self) -> list[Definition]:
        """All tools as the model sees them."""
        return [tool.definition for tool in self]


def _tool_of(function: Callable[..., Any]) -> Tool:
    name = getattr(function, "__name__", type(function).__name__)
    model = _arguments_of(function, name)
    schema = model.model_json_schema()
    parameters = {key: value for key, value in schema.items() if key not in ("title", "description")}
    for one in parameters.get("properties", {}).values():
        one.pop("title", None)

    def given(arguments: dict[str, Any]) -> dict[str, Any]:
        try:
            read = model.model_validate(arguments)
        except ValidationError as error:
            raise ToolRefused(f"{name} does not take these arguments: {_first(error)}") from error
        return {field: getattr(read, field) for field in model.model_fields}

    if inspect.iscoroutinefunction(function):

        async def run_later(_: str, arguments: dict[str, Any]) -> Any:
            return await function(**given(arguments))

        return Tool(name, inspect.getdoc(function) or "", parameters, run_later)

    def run_now(_: str, arguments: dict[str, Any]) -> Any:
        return function(**given(arguments))

    return Tool(name, inspect.getdoc(function) or "", parameters, run_now)


def _arguments_of(function: Callable[..., Any], name: str) -> type[BaseModel]:
    """A model of the parameters, for their schema and to read arguments with."""
    hints = get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise BadInput(f"{name}: {parameter} cannot be filled from a JSON object; give named parameters")
        if parameter.name not in hints:
            raise BadInput(f"{name}: parameter {parameter.name!r} has no type hint, the model needs one")
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[parameter.name] = (hints[parameter.name], default)
    try:
        model: type[BaseModel] = create_model(
            name, __config__=ConfigDict(extra="forbid", hide_input_in_errors=True), **fields
        )
        model.model_json_schema()
    except (PydanticUserError, NameError) as error:
        raise BadInput(f"{name}: its parameters have no JSON Schema: {str(error).splitlines()[0]}") from error
    return model


def _first(error: ValidationError) -> str:
    found = error.errors(include_url=False)[0]
    return f"{'.'.join(str(key) for key in found['loc'])}: {found['msg']}"
