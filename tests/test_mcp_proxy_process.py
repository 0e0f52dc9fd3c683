"""The proxy as a process: lines, interrupts, and many sessions at a time."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ledgeragent.proxy.stdio import Lines
from support.mcp_proxy import SHOP, arguments, environment

BENCH = Path(__file__).resolve().parent.parent / "bench" / "mcp_proxy.py"
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}},
}


def test_a_line_that_is_too_long_is_no_message_and_the_next_is_read() -> None:
    async def work() -> list[str]:
        reader, writer = os.pipe()
        lines = Lines(reader, 100_000)
        found = []
        texts = (b"one\n", b"x" * 150_000 + b"\ntwo\n", b"y" * 300_000 + b"\n", "drei ä\n".encode(), b"cut off")
        with os.fdopen(writer, "wb") as file:
            await asyncio.to_thread(file.write, b"".join(texts))
        async for line in lines:
            found.append(line)
        os.close(reader)
        return found

    assert asyncio.run(work()) == ["one", "{\n", "two", "{\n", "drei ä"]


@pytest.fixture
def started() -> subprocess.Popen[str]:
    """A proxy on standard input and output whose session has begun."""
    command = [sys.executable, *arguments("--engine", "embedded", "--", *SHOP)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, text=True, env=environment(), **pipes)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(INITIALIZE) + "\n")
    process.stdin.flush()
    assert json.loads(process.stdout.readline())["result"]["serverInfo"]["name"] == "shop"
    return process


def children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def test_an_interrupt_ends_it_cleanly_and_its_server_with_it(started: subprocess.Popen[str]) -> None:
    [server] = children(started.pid)
    started.send_signal(signal.SIGINT)
    out, err = started.communicate(timeout=60)
    assert (started.returncode, out, err) == (130, "", "")
    assert not Path(f"/proc/{server}").exists()


def test_the_end_of_the_server_ends_it_with_status_1_although_the_client_says_nothing(
    started: subprocess.Popen[str],
) -> None:
    [server] = children(started.pid)
    os.kill(int(server), signal.SIGKILL)
    assert started.wait(timeout=60) == 1
    started.communicate()


def test_many_sessions_at_a_time_see_their_own_facts_alone() -> None:
    command = [sys.executable, str(BENCH), "load", "--seconds", "5", "--sessions", "10"]
    finished = subprocess.run(command, capture_output=True, text=True, check=False, env=environment())
    assert finished.returncode == 0, finished.stdout + finished.stderr
    found = json.loads(finished.stdout)
    assert found["wrong"] == []
    assert found["calls"] > 0
