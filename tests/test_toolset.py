"""Tools from functions, from definitions and from an MCP server."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from ledgeragent.errors import BadInput
from ledgeragent.session import ToolRefused
from ledgeragent.toolset import Tool, ToolFailed, Toolset
from needs import need


class Line(BaseModel):
    item: str
    count: int = 1


def order(order_id: str, lines: list[Line], speed: Literal["slow", "fast"] = "slow") -> str:
    """Order things."""
    return f"{order_id}: {sum(line.count for line in lines)} {speed}"


def test_a_function_becomes_a_tool_with_the_schema_of_its_type_hints() -> None:
    [tool] = Toolset.from_functions(order)
    assert tool.definition == {
        "type": "function",
        "function": {
            "name": "order",
            "description": "Order things.",
            "parameters": {
                "$defs": {
                    "Line": {
                        "properties": {
                            "item": {"title": "Item", "type": "string"},
                            "count": {"default": 1, "title": "Count", "type": "integer"},
                        },
                        "required": ["item"],
                        "title": "Line",
                        "type": "object",
                    }
                },
                "additionalProperties": False,
                "properties": {
                    "order_id": {"type": "string"},
                    "lines": {"items": {"$ref": "#/$defs/Line"}, "type": "array"},
                    "speed": {"default": "slow", "enum": ["slow", "fast"], "type": "string"},
                },
                "required": ["order_id", "lines"],
                "type": "object",
            },
        },
    }


def test_a_function_gets_its_arguments_in_the_types_it_asks_for() -> None:
    [tool] = Toolset.from_functions(order)
    assert tool.run("order", {"order_id": "o1", "lines": [{"item": "a", "count": 2}, {"item": "b"}]}) == "o1: 3 slow"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"lines": []}, "order_id: Field required"),
        ({"order_id": "o", "lines": [{"item": 3}]}, "lines.0.item: Input should be a valid string"),
        ({"order_id": "o", "lines": [], "more": 1}, "more: Extra inputs are not permitted"),
    ],
)
def test_arguments_a_function_does_not_take_are_a_definite_no(arguments: dict[str, Any], complaint: str) -> None:
    [tool] = Toolset.from_functions(order)
    with pytest.raises(ToolRefused, match=f"order does not take these arguments: {complaint}"):
        tool.run("order", arguments)


def test_a_coroutine_function_is_awaited() -> None:
    async def wait(seconds: int) -> str:
        return f"waited {seconds}"

    [tool] = Toolset.from_functions(wait)
    assert asyncio.run(tool.run("wait", {"seconds": 3})) == "waited 3"


def test_a_parameter_the_model_could_not_be_told_about_is_refused() -> None:
    def untyped(a) -> str:  # type: ignore[no-untyped-def]
        return str(a)

    def starred(*a: str) -> str:
        return str(a)

    def odd(a: object, b: type[asyncio.Queue[int]]) -> str:
        return str((a, b))

    for function, complaint in (
        (untyped, "'a' has no type hint"),
        (starred, "named parameters"),
        (odd, "no JSON Schema"),
    ):
        with pytest.raises(BadInput, match=complaint):
            Toolset.from_functions(function)


def test_definitions_come_wrapped_or_bare_and_are_sent_as_they_are() -> None:
    bare = {"name": "a", "description": "A.", "parameters": {"type": "object", "properties": {"x": {"type": "string"}}}}
    toolset = Toolset.from_openai([{"type": "function", "function": bare}, {"name": "b"}], lambda name, given: name)
    assert toolset.definitions == [
        {"type": "function", "function": bare},
        {
            "type": "function",
            "function": {"name": "b", "description": "", "parameters": {"type": "object", "properties": {}}},
        },
    ]
    assert toolset["b"].run("b", {}) == "b"


def test_a_definition_without_a_name_or_a_name_given_twice_is_refused() -> None:
    with pytest.raises(BadInput, match="tool definition 1 has no 'name'"):
        Toolset.from_openai([{"name": "a"}, {"function": {}}], print)
    with pytest.raises(BadInput, match="tool 'a' is given twice"):
        Toolset.from_openai([{"name": "a"}, {"name": "a"}], print)


def test_a_toolset_is_looked_up_by_name() -> None:
    tool = Tool("a", "", {"type": "object"}, lambda name, given: None)
    toolset = Toolset([tool])
    assert (list(toolset), len(toolset), "a" in toolset, "b" in toolset, toolset["a"]) == ([tool], 1, True, False, tool)


SERVER = """
from mcp.server.mcpserver import MCPServer

server = MCPServer("desk")


@server.tool(description="Look up a customer.")
def find_user_id_by_email(email: str) -> str:
    return "ada_quist_1001"


@server.tool(description="Cancel.")
def cancel_pending_order(order_id: str, reason: str) -> str:
    raise ValueError("the back end went away")


server.run()
"""


def test_the_tools_of_an_mcp_server_run_on_the_server_and_its_errors_are_no_definite_no(tmp_path: Path) -> None:
    try:
        import mcp
        from mcp.client.stdio import stdio_client
    except ImportError:
        need(None, "the package mcp (pip install 'ledgeragent[mcp]')")
    server = tmp_path / "server.py"
    server.write_text(SERVER, encoding="utf-8")

    async def tried() -> tuple[Any, str, str]:
        parameters = mcp.StdioServerParameters(command=sys.executable, args=[str(server)])
        async with stdio_client(parameters) as streams, mcp.ClientSession(*streams) as client:
            await client.initialize()
            toolset = await Toolset.from_mcp(client)
            found = await toolset["find_user_id_by_email"].run("find_user_id_by_email", {"email": "a@b.c"})
            with pytest.raises(ToolFailed) as failure:
                await toolset["cancel_pending_order"].run("cancel_pending_order", {"order_id": "#W1", "reason": "no"})
            return toolset["find_user_id_by_email"].definition["function"], found, str(failure.value)

    definition, found, failed = asyncio.run(tried())
    assert definition["description"] == "Look up a customer."
    assert definition["parameters"]["required"] == ["email"]
    assert found == "ada_quist_1001"
    assert "cancel_pending_order" in failed
