"""The tools of an MCP server as a toolset's tools. What its annotations say about them is not believed or used.

Needs the extra `mcp`.
"""

from __future__ import annotations

import json
from typing import Any, Final

from mcp import ClientSession
from mcp.types import CallToolResult, PaginatedRequestParams
from mcp.types import Tool as Declared

from ledgeragent.errors import LedgerError
from ledgeragent.toolset import Tool, ToolFailed

_MAX_PAGES: Final = 100


async def mcp_tools(client: ClientSession) -> list[Tool]:
    """Ask a server for its tools, all pages.

    Args:
        client: an initialised session with the server.

    Raises:
        LedgerError: when the list of tools does not end.
    """
    tools: list[Tool] = []
    cursor: str | None = None
    for _ in range(_MAX_PAGES):
        page = await client.list_tools(params=PaginatedRequestParams(cursor=cursor))
        tools += [_tool(client, one) for one in page.tools]
        cursor = page.next_cursor
        if not cursor:
            return tools
    raise LedgerError(f"the MCP server's list of tools does not end after {_MAX_PAGES} pages")


def _tool(client: ClientSession, declared: Declared) -> Tool:
    async def run(name: str, arguments: dict[str, Any]) -> str:
        result = await client.call_tool(name, arguments)
        if not isinstance(result, CallToolResult):
            raise ToolFailed(f"{name} asks for something this client cannot give")
        text = _text(result)
        if result.is_error:
            raise ToolFailed(text or f"{name} failed")  # no definite no: the protocol does not say so
        return text

    return Tool(declared.name, declared.description or "", declared.input_schema, run)


def _text(result: CallToolResult) -> str:
    """What a server returned, as text: its text blocks, or its structured content where it gives no text."""
    blocks = [block.text for block in result.content if block.type == "text"]
    if blocks or result.structured_content is None:
        return "\n".join(blocks)
    return json.dumps(result.structured_content, ensure_ascii=False)
