"""The page on the MCP proxy runs as it stands, from an empty folder to a public server that is gated."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from ledgeragent.contracts import DecisionRecord
from ledgeragent.policies import REGO
from ledgeragent.records import read_records
from needs import need
from support.mcp_proxy import called, environment
from test_write_a_domain import BLOCK, command, run

__all__ = ["command"]  # a fixture

GUIDE = REGO.parent / "docs" / "mcp-proxy.md"
SERVERS = Path(os.environ.get("LEDGERAGENT_MCP_SERVERS", Path.home() / ".cache" / "ledgeragent" / "mcp-servers"))
SERVER = SERVERS / "node_modules" / ".bin" / "mcp-server-memory"
HOW = "the public MCP servers; run scripts/mcp-servers (needs npm)"


@pytest.fixture
def folder(tmp_path: Path, command: dict[str, str]) -> Path:
    """The folder the page ends with; pip and npm are not asked again for what is here."""
    need(SERVER.exists() and shutil.which("node"), HOW)
    work = tmp_path / "work"
    work.mkdir()
    (work / "node_modules").symlink_to(SERVERS / "node_modules")
    for name in ("pip", "npm"):
        stub = tmp_path / "bin" / name
        stub.write_text("#!/bin/sh\n", encoding="utf-8")
        stub.chmod(0o755)
    said = ""
    text, _ = GUIDE.read_text(encoding="utf-8").split("That is it.")
    for block in list(BLOCK.finditer(text))[1:]:
        if block["file"] is not None:
            target = work / block["file"]
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(block["body"], encoding="utf-8")
        elif block["kind"] == "sh":
            said = run(block["body"], work, command)
        else:
            for line in block["body"].splitlines():
                assert line in said, said
    return work


def gated(folder: Path, server: Path, **more: str) -> StdioServerParameters:
    """What the page's client configuration starts."""
    text = GUIDE.read_text(encoding="utf-8").split("most clients read a file like this one:")[1]
    [configured] = json.loads(next(BLOCK.finditer(text))["body"])["mcpServers"].values()
    arguments = [one.replace("/path/to/this/folder", str(folder)) for one in configured["args"]]
    arguments = [one.replace("/path/to", str(folder)) for one in arguments]
    assert configured["command"] == "ledgeragent"
    assert arguments[-1] == str(server)
    return StdioServerParameters(
        command=sys.executable, args=["-m", "ledgeragent", *arguments], env=environment(**more)
    )


def test_a_public_server_is_gated_by_following_the_page(folder: Path, command: dict[str, str]) -> None:
    memory = {"MEMORY_FILE_PATH": str(folder / "memory.json"), "LEDGERAGENT_OPA_BIN": command["LEDGERAGENT_OPA_BIN"]}
    lamp = {"name": "lamp", "entityType": "thing", "observations": ["bright"]}
    grace = {"name": "Grace", "entityType": "person", "observations": []}
    delete_lamp = ("delete_entities", {"entityNames": ["lamp"]})

    async def work() -> list[str]:
        server = gated(folder, folder / "node_modules" / ".bin" / "mcp-server-memory", **memory)
        async with Client(server) as client:
            assert len((await client.list_tools()).tools) == 9
            steps: list[tuple[str, dict[str, Any]]] = [
                ("create_entities", {"entities": [lamp, grace]}),
                delete_lamp,
                ("open_nodes", {"names": ["lamp", "Grace"]}),
                delete_lamp,
                ("delete_entities", {"entityNames": ["Grace"]}),
                ("read_graph", {}),
            ]
            return [await called(client, *step) for step in steps]

    answers = asyncio.run(work())
    parts = ("lamp", "Not read in this session", "bright", "deleted successfully", "Persons are not", "gate.tool")
    for part, answer in zip(parts, answers, strict=True):
        assert part in answer, answers
    records = [one for one in read_records(folder / "decisions.jsonl") if isinstance(one, DecisionRecord)]
    assert [one.verdict for one in records] == ["allow", "revise", "allow", "block", "block"]
    kept = (folder / "memory.json").read_text()
    assert "Grace" in kept
    assert "lamp" not in kept
