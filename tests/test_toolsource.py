"""Tool definitions from their usual sources, and what of their parameters the gate can check."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from ledgeragent.errors import BadInput
from ledgeragent.toolsource import Definition, close, read_tools
from needs import need

TEXT = {"type": "string"}
PARAMETERS = {"type": "object", "properties": {"service": TEXT}, "required": ["service"], "additionalProperties": False}


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}


def source(folder: Path, document: Any) -> str:
    path = folder / "tools.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document), encoding="utf-8")
    return str(path)


OPENAI = {"name": "deploy", "description": "Deploy.", "parameters": PARAMETERS}
MCP_TOOL: dict[str, Any] = {
    "name": "deploy",
    "description": "Deploy.",
    "inputSchema": PARAMETERS,
    "annotations": {"title": "Deploy", "readOnlyHint": False, "destructiveHint": True},
}


@pytest.mark.parametrize(
    "document",
    [
        [{"type": "function", "function": OPENAI}],
        [OPENAI],
        {"tools": [OPENAI]},
        {"jsonrpc": "2.0", "id": 1, "result": {"tools": [{**MCP_TOOL, "annotations": None}]}},
    ],
)
def test_every_usual_form_gives_the_same_definition(tmp_path: Path, document: Any) -> None:
    assert read_tools(source(tmp_path, document)) == [Definition("deploy", "Deploy.", PARAMETERS, ())]


def test_what_an_mcp_source_says_about_effects_is_only_a_hint(tmp_path: Path) -> None:
    annotations = {**MCP_TOOL["annotations"], "idempotentHint": '"deploy", }', "otherHint": True}
    [tool] = read_tools(source(tmp_path, {"tools": [{**MCP_TOOL, "annotations": annotations}]}))
    assert tool.hints == ("destructiveHint true", "readOnlyHint false")


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ("{", "is not JSON"),
        ([], "holds no tools"),
        ({"functions": [OPENAI]}, "holds no tools"),
        ([5], "tool 0 is not a tool definition"),
        ([{"function": "deploy"}], "tool 0 is not a tool definition"),
        ([OPENAI, {"name": 5}], "tool 1 has no usable `name`"),
        ([{"name": 'a"] := 1'}], "tool 0 has no usable `name`"),
        ([OPENAI, OPENAI], "defines deploy twice"),
    ],
)
def test_what_is_no_list_of_tools_is_refused_with_its_place(tmp_path: Path, document: Any, said: str) -> None:
    with pytest.raises(BadInput, match=r"tools\.json") as refused:
        read_tools(source(tmp_path, document))
    assert said in str(refused.value)


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(BadInput, match=r"nowhere\.json cannot be read"):
        read_tools("nowhere.json")


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"type": "object"}, of()),
        ({"type": "object", "properties": {"a": TEXT}}, of(a=TEXT)),
        (of(a={**TEXT, "title": "A", "default": "x", "examples": ["y"], "x-own": 1}), of(a=TEXT)),
        (of(a={"const": "x"}), of(a={"enum": ["x"]})),
        (of(a={"anyOf": [TEXT, {"type": "null"}], "default": None}), of(a={"type": ["string", "null"]})),
        (
            of(a={"anyOf": [{"enum": ["x"], "type": "string"}, {"type": "null"}]}),
            of(a={"enum": ["x", None], "type": ["string", "null"]}),
        ),
        ({**of(a={"$ref": "#/$defs/A"}), "$defs": {"A": TEXT}}, of(a=TEXT)),
        ({**of(a={"allOf": [{"$ref": "#/definitions/A"}]}), "definitions": {"A": TEXT}}, of(a=TEXT)),
        (
            of(a={"type": "array", "items": {"type": "object", "properties": {}}}),
            of(a={"type": "array", "items": of()}),
        ),
    ],
)
def test_what_means_the_same_in_the_subset_is_brought_into_it(given: Any, kept: Any) -> None:
    closed = close(given)
    assert (closed.parameters, closed.problems) == (kept, ())


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ([], "parameters is not a schema"),
        (TEXT, "parameters must be an object"),
        (of(a=True), "parameters.a is not a schema"),
        (of(a={}), "parameters.a needs a type or an enum"),
        (of(a={"type": "array"}), "parameters.a is an array and must declare its items"),
        (
            of(a={"oneOf": [TEXT, {"type": "integer"}]}),
            "parameters.a: `oneOf` is outside the closed subset; choose one",
        ),
        (of(a={"type": "integer", "exclusiveMinimum": 0}), "parameters.a: `exclusiveMinimum` is outside"),
        (of(a={"type": "object", "additionalProperties": TEXT}), "parameters.a: `additionalProperties` is outside"),
        (of(a={"type": "array", "items": TEXT, "uniqueItems": True}), "parameters.a: `uniqueItems` is outside"),
        (of(a={"type": "array", "items": {"not": TEXT}}), "parameters.a[]: `not` is outside"),
        (of(a={**TEXT, "pattern": r"\d+"}), "parameters.a.pattern"),
        (of(a={**TEXT, "minLength": "3"}), "parameters.properties.a.minLength: "),
        (of(a={"enum": [{}]}), "parameters.properties.a.enum"),
        (
            {**of(a={"$ref": "#/$defs/A"}), "$defs": {"A": of(a={"$ref": "#/$defs/A"})}},
            "parameters.a.a: `$ref` is outside",
        ),
        (of(a=of(b=of(c=of(d=of(e=TEXT))))), "parameters.a.b.c.d.e is nested more than 4 levels deep"),
    ],
)
def test_what_the_gate_could_not_check_is_reported_with_its_place(given: Any, problem: str) -> None:
    closed = close(given)
    assert closed.parameters is None
    assert problem in "\n".join(closed.problems)


def test_what_becomes_stricter_or_is_left_unchecked_is_noted() -> None:
    closed = close({"type": "object", "properties": {"a": {**TEXT, "format": "date"}}})
    assert closed.notes == (
        "parameters.a: `format` is not checked; use a pattern where it matters",
        "parameters is closed: other properties are refused",
    )


SERVER = """
from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations

server = MCPServer("deployments")


@server.tool(description="Deploy.", annotations=ToolAnnotations(readOnlyHint=True))
def deploy(service: str) -> str:
    return "done"


server.run()
"""


def test_an_mcp_server_is_asked_for_its_tools(tmp_path: Path) -> None:
    try:
        import mcp  # noqa: F401
    except ImportError:
        need(None, "the package mcp (pip install 'ledgeragent[mcp]')")
    server = tmp_path / "server.py"
    server.write_text(SERVER, encoding="utf-8")
    [tool] = read_tools(f"mcp:{sys.executable} {server}")
    assert (tool.name, tool.description, tool.hints) == ("deploy", "Deploy.", ("readOnlyHint true",))
    assert close(tool.parameters).parameters == PARAMETERS


def test_a_server_that_is_none_is_named_with_its_reason() -> None:
    try:
        import mcp  # noqa: F401
    except ImportError:
        need(None, "the package mcp (pip install 'ledgeragent[mcp]')")
    with pytest.raises(BadInput, match="the MCP server `false` gave no tools: "):
        read_tools("mcp:false")


def test_without_the_package_the_message_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    with pytest.raises(BadInput, match=r"pip install 'ledgeragent\[mcp\]', or save the server's answer"):
        read_tools("mcp:python server.py")
    with pytest.raises(BadInput, match="needs the command that starts the server"):
        read_tools("mcp:")
