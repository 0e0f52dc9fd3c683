"""An MCP proxy: between any MCP client and any MCP server, a ledger of what reads returned and a gate before writes.

`relay` passes the messages of one connection and takes the calls out of them, `guard` is what the session says to
them, `toollist` holds what the server offers against what is declared, `resource` offers the ledger, `upstreams` opens
the way to the server, `stdio` and `http` are the two ways in for a client, `service` brings these together. Needs the
extra `mcp`.
"""
