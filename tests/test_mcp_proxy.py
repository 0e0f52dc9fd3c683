"""The MCP proxy judges and records as everything else does, between real clients and servers on real transports."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from ledgeragent.domain import Domain
from ledgeragent.gate import Gate
from ledgeragent.shops import open_shop
from support import five
from support.mcp_proxy import SHOP, arguments, called, environment, listening, on_stdio, served
from support.mcp_shop import server_of

pytest_plugins = ["support.fixtures"]


@contextmanager
def judged_by(conversation: five.Conversation, gate: Gate, domain: Domain) -> Iterator[tuple[Gate, str]]:
    """The gate of a conversation, and the engine as the command line names it."""
    if not conversation.engine_down:
        yield gate, "embedded"
        return
    with five.nobody(domain) as down:
        yield down, down.engine.location


async def played(conversation: five.Conversation, server: Any) -> list[str]:
    async with Client(server) as client:
        return [await called(client, step.tool, step.arguments) for step in conversation.steps]


@pytest.mark.parametrize("conversation", five.FIVE, ids=five.NAMES)
def test_on_stdio_verdicts_and_record_are_those_of_the_bare_session(
    conversation: five.Conversation, gate: Gate, retail_domain: Domain, tmp_path: Path
) -> None:
    ran = tmp_path / "ran.json"
    with judged_by(conversation, gate, retail_domain) as (same_gate, engine):
        record = str(tmp_path / "record.jsonl")
        proxy = on_stdio("--engine", engine, "--record", record, "--", *SHOP, SHOP_RAN=str(ran))
        conversation.check(asyncio.run(played(conversation, proxy)))
        expected = five.driven(conversation, same_gate, tmp_path / "expected.jsonl")
    assert five.normal(Path(record)) == five.normal(expected.record)
    assert json.loads(ran.read_text()) == {"ran": expected.ran, "shop": expected.shop.digest()}


@pytest.mark.parametrize("conversation", five.FIVE, ids=five.NAMES)
def test_over_http_verdicts_and_record_are_those_of_the_bare_session(
    conversation: five.Conversation, gate: Gate, retail_domain: Domain, tmp_path: Path
) -> None:
    shop, ran = open_shop("retail"), list[str]()
    with (
        judged_by(conversation, gate, retail_domain) as (same_gate, engine),
        served(server_of(shop, retail_domain, ran).streamable_http_app()) as upstream,
    ):
        record = str(tmp_path / "record.jsonl")
        told = "every write is blocked" if conversation.engine_down else ""
        with listening("--engine", engine, "--record", record, "--upstream", f"{upstream}/mcp", says=told) as url:
            conversation.check(asyncio.run(played(conversation, url)))
        expected = five.driven(conversation, same_gate, tmp_path / "expected.jsonl")
    assert five.normal(Path(record)) == five.normal(expected.record)
    assert (ran, shop.digest()) == (expected.ran, expected.shop.digest())


def command(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments(*options)], capture_output=True, text=True, check=False, env=environment(), input=""
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "name one server: its COMMAND after `--`, or its URL with --upstream"),
        (["--upstream", "http://127.0.0.1:1", "--", "true"], "name one server"),
        (["--upstream", "file:///etc"], "an http or https URL is expected"),
        (["--upstream", "http://127.0.0.1:1", "--upstream-token-env", "NO_SUCH"], "it must be set"),
        (["--listen", "127.0.0.1:0", "--principal", "ada", "--", "true"], "--principal is for stdio"),
        (["--tokens", "tokens.json", "--", "true"], "--tokens is for HTTP"),
        (["--listen", "0.0.0.0:0", "--engine", "embedded", "--", "true"], "say who may come in with --tokens FILE"),
        (["--listen", "8080", "--engine", "embedded", "--", "true"], "write HOST:PORT"),
        (["--domain", "nowhere", "--engine", "embedded", "--", "true"], "no domain 'nowhere'"),
    ],
)
def test_what_makes_no_sense_is_one_message_and_status_2(options: list[str], said: str) -> None:
    finished = command(*options)
    assert (finished.returncode, finished.stdout) == (2, "")
    assert said in " ".join(finished.stderr.split())


def test_a_server_that_does_not_start_ends_it_with_status_1_and_a_message() -> None:
    finished = command("--engine", "embedded", "--", "/no/such/program")
    assert finished.returncode == 1
    assert "the connection to the server failed" in finished.stderr
