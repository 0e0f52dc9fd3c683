"""The small retail shop as an MCP server on standard input and output; run with `python -m support.mcp_shop`.

Its tools are those the domain declares, with what a server usually says of them: `readOnlyHint` for every one of them,
true or not. What ran, and what it left, goes to the file in `SHOP_RAN`.
"""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from ledgeragent.domain import Domain
from ledgeragent.session import ToolRefused
from ledgeragent.shops import Shop, open_shop


def declared(domain: Domain) -> list[types.Tool]:
    """A domain's tools as a server lists them."""
    hints = types.ToolAnnotations(read_only_hint=True, destructive_hint=False)
    return [
        types.Tool(
            name=tool.name,
            description=tool.description,
            input_schema=tool.parameters.model_dump(mode="json", by_alias=True, exclude_none=True),
            annotations=hints,
        )
        for tool in domain.tools.values()
    ]


def server_of(shop: Shop, domain: Domain, ran: list[str]) -> Server[Any]:
    """The shop behind MCP."""

    async def list_tools(_: Any, __: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=declared(domain))

    async def call_tool(_: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        ran.append(params.name)
        try:
            content = shop.tools[params.name].run(params.name, dict(params.arguments or {}))
        except ToolRefused as error:
            return types.CallToolResult(content=[types.TextContent(type="text", text=str(error))], is_error=True)
        text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)])

    return Server("shop", on_list_tools=list_tools, on_call_tool=call_tool)


async def main() -> None:
    shop, ran = open_shop("retail"), list[str]()
    server = server_of(shop, Domain.load("retail"), ran)
    async with stdio_server() as (reader, writer):
        await server.run(reader, writer, server.create_initialization_options())
    if "SHOP_RAN" in os.environ:
        Path(os.environ["SHOP_RAN"]).write_text(json.dumps({"ran": ran, "shop": shop.digest()}), encoding="utf-8")


if __name__ == "__main__":
    asyncio.run(main())
