"""What the MCP proxy costs a call, and whether it holds: many sessions for minutes, each seeing its own facts alone.

    python bench/mcp_proxy.py latency                 # per call, beside the bare connection
    python bench/mcp_proxy.py load --seconds 300      # 50 sessions at a time, a server with 24 tools

Both print JSON. `load` ends with status 1 when anything was mixed up, failed, or the proxy's memory went on growing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters, types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from ledgeragent.domain import Domain

NOW = "2024-05-15T15:00:00-05:00"
EXTRA = 8
ROUNDS = 5
WARM = 10
ADDRESS = dict.fromkeys(("address1", "address2", "city", "country", "state", "zip"), "")
HERE = Path(__file__).resolve()
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(HERE.parent.parent / "agent")}


# The server: the retail domain's sixteen tools and eight that nobody declared -----------------------------------------


def server() -> Server[Any]:
    """Answers from the arguments alone: an order's number begins with the number of the session it belongs to."""
    domain = Domain.load("retail")
    tools = [
        types.Tool(
            name=tool.name,
            description=tool.description,
            input_schema=tool.parameters.model_dump(mode="json", by_alias=True, exclude_none=True),
        )
        for tool in domain.tools.values()
    ]
    tools += [types.Tool(name=f"extra_{number}", input_schema={"type": "object"}) for number in range(EXTRA)]
    assert len(tools) == 24

    async def listed(_: Any, __: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=tools)

    async def called(_: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        text = answer(params.name, params.arguments or {})
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)])

    return Server("bench", on_list_tools=listed, on_call_tool=called)


def answer(tool: str, arguments: dict[str, Any]) -> str:
    """What a tool returns."""
    if tool == "find_user_id_by_email":
        return user(int(re.findall(r"\d+", arguments["email"])[0]))
    if tool != "get_order_details":
        return f"{arguments['order_id']} is cancelled"
    order = {"order_id": arguments["order_id"], "user_id": user(int(arguments["order_id"][2:8])), "address": ADDRESS}
    return json.dumps({**order, "items": [], "status": "pending", "payment_history": []})


def user(number: int) -> str:
    """The customer of a session."""
    return f"bench_user_{number}"


def order_of(number: int, count: int) -> str:
    """One of a session's orders."""
    return f"#W{number:06}{count:04}"


def cancel(order: str) -> tuple[str, dict[str, Any]]:
    """The call that cancels an order."""
    return "cancel_pending_order", {"order_id": order, "reason": "no longer needed"}


async def serve_stdio() -> None:
    """The server on standard input and output."""
    one = server()
    async with stdio_server() as streams:
        await one.run(*streams, one.create_initialization_options())


def serve_http(port: int) -> None:
    """The server over HTTP."""
    import uvicorn

    uvicorn.run(server().streamable_http_app(), port=port, log_level="critical")


# Processes -----------------------------------------------------------------------------------------------------------

BARE = (sys.executable, str(HERE), "serve")


def proxied(*options: str) -> list[str]:
    """What starts a proxy."""
    return [sys.executable, "-m", "ledgeragent", "mcp-proxy", "--domain", "retail", "--now", NOW, *options]


@contextmanager
def bare_http() -> Iterator[str]:
    """The server over HTTP in a process of its own; gives its URL."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen([*BARE, "--port", str(port)], env=ENVIRONMENT)
    try:
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                time.sleep(0.05)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        process.wait()


@contextmanager
def proxy_http(*options: str) -> Iterator[tuple[str, int]]:
    """A proxy over HTTP; gives its URL and process id."""
    command = proxied("--listen", "127.0.0.1:0", *options)
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
    assert process.stderr is not None
    try:
        yield process.stderr.readline().split()[-1], process.pid
    finally:
        process.terminate()
        process.wait()
        process.stderr.close()


# Latency -------------------------------------------------------------------------------------------------------------


Times = dict[str, list[float]]


async def timed(bare: Any, ours: Any, calls: int) -> tuple[Times, Times]:
    """Milliseconds of each read and each write over two connections, in turn: what else the machine does hits both."""
    found: tuple[Times, Times] = ({"read": [], "write": []}, {"read": [], "write": []})
    async with Client(bare, mode="legacy") as first, Client(ours, mode="legacy") as second:
        for client in (first, second):
            await client.call_tool("find_user_id_by_email", {"email": "1@example.com"})
        for count in range(calls + WARM):
            for client, times in zip((first, second), found, strict=True):
                order = order_of(1, count)
                read = await one_call(client, "get_order_details", {"order_id": order})
                write = await one_call(client, *cancel(order))
                if count >= WARM:
                    times["read"].append(read)
                    times["write"].append(write)
    return found


async def one_call(client: Client, tool: str, arguments: dict[str, Any]) -> float:
    """Milliseconds of a call that must succeed."""
    begun = time.perf_counter()
    result = await client.call_tool(tool, arguments)
    taken = 1000 * (time.perf_counter() - begun)
    if result.is_error:
        raise SystemExit(f"{tool} failed: {result.content}")
    return taken


def latency(engine: str, calls: int) -> int:
    """Print the median and the 95th percentile of a call, bare and through the proxy, and their ratio."""
    command = StdioServerParameters(command=BARE[0], args=list(BARE[1:]), env=ENVIRONMENT)
    words = proxied("--engine", engine, "--", *BARE)
    through = StdioServerParameters(command=words[0], args=words[1:], env=ENVIRONMENT)
    with bare_http() as url, proxy_http("--engine", engine, "--upstream", url) as (proxy, _):
        ways: dict[str, tuple[Any, Any]] = {"stdio": (command, through), "http": (url, proxy)}
        for name, (direct, ours) in ways.items():
            bare, gated = asyncio.run(timed(direct, ours, calls))
            for kind in ("read", "write"):
                about = {"transport": name, "call": kind, "engine": engine}
                print(json.dumps({**about, **compared(bare[kind], gated[kind])}))
    return 0


def compared(bare: list[float], ours: list[float]) -> dict[str, Any]:
    """Milliseconds and ratios."""
    tail = [round(statistics.quantiles(one, n=20)[-1], 2) for one in (bare, ours)]
    middle = [round(statistics.median(one), 2) for one in (bare, ours)]
    return {
        "bare_p50_ms": middle[0],
        "proxied_p50_ms": middle[1],
        "ratio_p50": round(middle[1] / middle[0], 2),
        "bare_p95_ms": tail[0],
        "proxied_p95_ms": tail[1],
    }


# Load ----------------------------------------------------------------------------------------------------------------


class Load:
    """Sessions that come and go until the time is over."""

    def __init__(self, url: str, until: float) -> None:
        self.url, self.until = url, until
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []
        self._number = 0

    async def worker(self) -> None:
        """One session after the other."""
        while time.monotonic() < self.until:
            self._number += 1
            number = self._number
            try:
                async with Client(self.url, mode="legacy") as client:
                    await self._session(client, number)
            except Exception as error:  # noqa: BLE001 - counted, and the others go on
                self.wrong.append(f"session {number}: {error!r}"[:300])
            self.counts["sessions"] += 1

    async def _session(self, client: Client, number: int) -> None:
        await self._expect(client, number, "find_user_id_by_email", {"email": f"{number}@example.com"}, user(number))
        for count in range(ROUNDS):
            if time.monotonic() > self.until:
                return
            order = order_of(number, count)
            await self._expect(client, number, *cancel(order), "Not read in this session")
            await self._expect(client, number, *cancel(order_of(number + 1, count)), "Not read in this session")
            await self._expect(client, number, "get_order_details", {"order_id": order}, user(number))
            await self._expect(client, number, *cancel(order), f"{order} is cancelled")
            await self._expect(client, number, f"extra_{count % EXTRA}", {}, "gate.tool")
        text = (await client.read_resource("ledger://current")).contents[0].text  # type: ignore[union-attr]
        seen = {int(one) for one in re.findall(r"#W(\d{6})", text)} | {int(n) for n in re.findall(r"user_(\d+)", text)}
        self.counts["ledgers"] += 1
        if seen != {number}:
            self.wrong.append(f"the ledger of session {number} shows {sorted(seen)}")

    async def _expect(self, client: Client, number: int, tool: str, arguments: dict[str, Any], text: str) -> None:
        result = await client.call_tool(tool, arguments)
        said = "".join(block.text for block in result.content if isinstance(block, types.TextContent))
        self.counts["calls"] += 1
        if text not in said:
            self.wrong.append(f"session {number}, {tool}: {said[:200]}")


def resident(pid: int) -> int:
    """Megabytes that a process holds."""
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) // 1024


@asynccontextmanager
async def watched(pid: int, seconds: float, memory: dict[str, int]) -> AsyncIterator[None]:
    """Look at the proxy's memory: once everything has been used, in the middle, and at the end."""

    async def look() -> None:
        for name, part in (("start", 0.1), ("middle", 0.4), ("end", 0.45)):
            await asyncio.sleep(seconds * part)
            memory[name] = resident(pid)

    task = asyncio.create_task(look())
    try:
        yield
    finally:
        await task


async def loaded(url: str, pid: int, seconds: float, sessions: int) -> dict[str, Any]:
    """Load a proxy; what came of it."""
    memory: dict[str, int] = {}
    load = Load(url, time.monotonic() + seconds)
    begun = time.monotonic()
    async with watched(pid, seconds, memory):
        await asyncio.gather(*(load.worker() for _ in range(sessions)))
    memory["after"] = resident(pid)
    taken = round(time.monotonic() - begun, 1)
    return {"seconds": taken, "at a time": sessions, **load.counts, "wrong": load.wrong[:20], "memory_mb": memory}


def load(engine: str, seconds: float, sessions: int) -> int:
    """Load a proxy over HTTP before a server with 24 tools."""
    with bare_http() as url, proxy_http("--engine", engine, "--upstream", url) as (proxy, pid):
        found = asyncio.run(loaded(proxy, pid, seconds, sessions))
    print(json.dumps(found))
    memory = found["memory_mb"]
    grows = seconds >= 60 and memory["end"] > 1.1 * memory["middle"]
    return 1 if found["wrong"] or grows else 0


def main() -> int:
    """Read what to do, and do it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("latency")
    one.add_argument("--engine", default="embedded")
    one.add_argument("--calls", type=int, default=300)
    two = commands.add_parser("load")
    two.add_argument("--engine", default="embedded")
    two.add_argument("--seconds", type=float, default=300)
    two.add_argument("--sessions", type=int, default=50)
    three = commands.add_parser("serve")
    three.add_argument("--port", type=int)
    given = parser.parse_args()
    if given.command == "latency":
        return latency(given.engine, given.calls)
    if given.command == "load":
        return load(given.engine, given.seconds, given.sessions)
    if given.port is None:
        asyncio.run(serve_stdio())
    else:
        serve_http(given.port)
    return 0


if __name__ == "__main__":
    sys.exit(main())
