"""The tools of an MCP server as a toolset's tools. What its annotations say about them is not believed or used."""

from __future__ import annotations

import json
from typing import Any, Final

from ledgeragent.errors import LedgerError
from ledgeragent.toolset import Tool, ToolFailed

_MAX_PAGES: Final = 100


async def mcp_tools(client: Any) -> list[Tool]:
    """Ask a server for its tools, all pages.

    Args:
        client: an initialised `mcp.ClientSession`.

    Raises:
        LedgerError: when the list of tools does not end.
    """
    tools: list[Tool] = []
    cursor: str | None = None
    for _ in range(_MAX_PAGES):
        page = await client.list_tools(cursor=cursor)
        tools += [_tool(client, one) for one in page.tools]
        cursor = getattr(page, "nextCursor", None) or getattr(page, "next_cursor", None)
        if not cursor:
            return tools
    raise LedgerError(f"the MCP server's list of tools does not end after {_MAX_PAGES} pages")


def _tool(client: Any, declared: Any) -> Tool:
    schema = getattr(declared, "inputSchema", None) or getattr(declared, "input_schema", None)

    async def run(name: str, arguments: dict[str, Any]) -> Any:
        result = await client.call_tool(name, arguments)
        text = _text(result)
        if getattr(result, "isError", False) or getattr(result, "is_error", False):
            raise ToolFailed(text or f"{name} failed")  # not a definite no: the protocol does not say so
        return text

    return Tool(declared.name, declared.description or "", schema or {"type": "object"}, run)


def _text(result: Any) -> str:
    """What a server returned, as text: its structured content where it gives one, else its text blocks."""
    structured = getattr(result, "structuredContent", None) or getattr(result, "structured_content", None)
    if structured is not None:
        return json.dumps(structured, ensure_ascii=False)
    return "\n".join(block.text for block in result.content if getattr(block, "type", "") == "text")
