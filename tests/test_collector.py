"""The decision-log collector: what OPA posts is on disk when it is told so, whatever it is; strangers write nothing."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import requests
from aiohttp.test_utils import TestClient, TestServer
from hypothesis import given
from hypothesis import strategies as st

from ledgeragent import collector
from ledgeragent.collector import Collector, DecisionLog, lines_of
from ledgeragent.errors import BadInput

TOKEN = "a-token-of-this-test"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
PACKED = {**BEARER, "Content-Encoding": "gzip", "Content-Type": "application/json"}

Client = TestClient[Any, Any]


def batch(*entries: object) -> bytes:
    return gzip.compress(json.dumps(entries).encode())


def kept(folder: Path) -> dict[str, list[Any]]:
    return {
        path.name: [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        for path in sorted(folder.iterdir())
    }


def talk(log: DecisionLog, ask: Callable[[Client], Awaitable[None]]) -> None:
    async def run() -> None:
        async with TestClient(TestServer(Collector(log, TOKEN).app())) as client:
            await ask(client)

    try:
        asyncio.run(run())
    finally:
        log.close()


def test_a_batch_is_on_disk_when_it_is_acknowledged(tmp_path: Path) -> None:
    async def ask(client: Client) -> None:
        answer = await client.post("/logs", data=batch({"decision_id": "1"}, {"decision_id": "2"}), headers=PACKED)
        assert answer.status == 200
        assert kept(tmp_path) == {"decisions-000001.jsonl": [{"decision_id": "1"}, {"decision_id": "2"}]}

    talk(DecisionLog(tmp_path, max_bytes=1000), ask)
    assert oct((tmp_path / "decisions-000001.jsonl").stat().st_mode)[-3:] == "600"


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer another-token-than-that"}, {"Authorization": TOKEN}])
def test_without_the_token_nothing_is_written(tmp_path: Path, headers: dict[str, str]) -> None:
    async def ask(client: Client) -> None:
        answer = await client.post("/logs", data=b"[]", headers=headers)
        assert answer.status == 401
        assert (await client.get("/health")).status == 200

    talk(DecisionLog(tmp_path, max_bytes=1000), ask)
    assert kept(tmp_path) == {}


def test_nothing_else_is_served(tmp_path: Path) -> None:
    async def ask(client: Client) -> None:
        asked = [await client.get("/logs", headers=BEARER), await client.post("/health"), await client.get("/")]
        assert [answer.status for answer in asked] == [405, 405, 404]

    talk(DecisionLog(tmp_path, max_bytes=1000), ask)


def test_a_full_file_is_followed_by_another_and_a_start_begins_one(tmp_path: Path) -> None:
    for entry in ("a", "b"):
        log = DecisionLog(tmp_path, max_bytes=10)
        log.append([b'"%s"' % entry.encode()])
        log.append([b'"0123456789"'])
        log.append([b'"c"'])
        log.close()
    assert kept(tmp_path) == {
        "decisions-000001.jsonl": ["a", "0123456789"],
        "decisions-000002.jsonl": ["c"],
        "decisions-000003.jsonl": ["b", "0123456789"],
        "decisions-000004.jsonl": ["c"],
    }


def test_two_collectors_of_one_folder_write_different_files(tmp_path: Path) -> None:
    first, second = DecisionLog(tmp_path, max_bytes=1000), DecisionLog(tmp_path, max_bytes=1000)
    for log, line in ((first, b"1"), (second, b"2"), (first, b"3")):
        log.append([line])
    first.close()
    second.close()
    assert kept(tmp_path) == {"decisions-000001.jsonl": [1, 3], "decisions-000002.jsonl": [2]}


def test_a_full_disk_leaves_no_part_of_a_batch_and_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    room = [len(b'{"decision_id": "1"}\n') + 5]
    write = os.write

    def small_disk(file: int, data: bytes) -> int:
        if not room[0]:
            raise OSError(28, "No space left on device")
        taken = write(file, bytes(data)[: room[0]])
        room[0] -= taken
        return taken

    async def ask(client: Client) -> None:
        monkeypatch.setattr(collector.os, "write", small_disk)
        stati = []
        for number in ("1", "2"):
            answer = await client.post("/logs", data=batch({"decision_id": number}), headers=PACKED)
            stati.append(answer.status)
        stati.append((await client.get("/health")).status)
        monkeypatch.undo()
        again = await client.post("/logs", data=batch({"decision_id": "2"}), headers=PACKED)
        assert [*stati, again.status, (await client.get("/health")).status] == [200, 503, 503, 200, 200]

    talk(DecisionLog(tmp_path, max_bytes=1000), ask)
    assert kept(tmp_path) == {"decisions-000001.jsonl": [{"decision_id": "1"}, {"decision_id": "2"}]}


def test_little_room_fails_the_health_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def ask(client: Client) -> None:
        monkeypatch.setattr(collector, "MIN_FREE", 2**62)
        assert (await client.get("/health")).status == 503

    talk(DecisionLog(tmp_path, max_bytes=1000), ask)


def test_a_batch_that_unpacks_to_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collector, "MAX_BATCH", 1000)

    async def ask(client: Client) -> None:
        answer = await client.post("/logs", data=gzip.compress(b" " * 1_000_000), headers=PACKED)
        assert answer.status == 413

    talk(DecisionLog(tmp_path, max_bytes=1000), ask)
    assert kept(tmp_path) == {}


@given(st.lists(st.recursive(st.none() | st.integers() | st.floats(allow_nan=False) | st.text(), st.lists)))
def test_any_array_is_taken_apart_into_its_entries(entries: list[Any]) -> None:
    for text in (json.dumps(entries), json.dumps(entries, indent=1, ensure_ascii=False), f" {json.dumps(entries)}\r\n"):
        assert [json.loads(line) for line in lines_of(text.encode("utf-8", "surrogatepass"))] == entries or (
            "\\ud" in text.encode("ascii", "backslashreplace").decode()
        )


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"[1", b"[1,]", b"[1 2]", b"[1] [2]", b"[\xff]", b'"a\nb"', b"[" * 100_000], ids=repr
)
def test_what_is_no_array_is_kept_as_it_came(body: bytes) -> None:
    [line] = lines_of(body)
    assert json.loads(line) == {"unparsed": body.decode("utf-8", "backslashreplace")}


def test_numbers_keep_every_digit() -> None:
    assert lines_of(b"[1e999, " + b"9" * 10_000 + b",\n 1.10]") == [b"1e999", b"9" * 10_000, b"1.10"]


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match=r"decision log folder .*file/logs"):
        DecisionLog(tmp_path / "file" / "logs", max_bytes=1)


def command(folder: Path, listen: str, token: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "ledgeragent", "collect", "--out", str(folder), "--listen", listen],
        env=os.environ | {collector.TOKEN_VARIABLE: token},
        stderr=subprocess.PIPE,
        text=True,
    )


def test_the_command_serves_until_it_is_told_to_stop(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    with command(tmp_path, address, TOKEN) as process:
        try:
            wait_until_healthy(process, address)
            answer = requests.post(f"http://{address}/logs", data=batch(1, 2), headers=PACKED, timeout=10)
            assert answer.status_code == 200
        finally:
            process.send_signal(signal.SIGTERM)
        assert (process.wait(20), process.stderr and process.stderr.read()) == (0, "")
    assert kept(tmp_path) == {"decisions-000001.jsonl": [1, 2]}


def wait_until_healthy(process: subprocess.Popen[str], address: str) -> None:
    for _ in range(600):
        assert process.poll() is None
        try:
            assert requests.get(f"http://{address}/health", timeout=10).status_code == 200
        except requests.ConnectionError:
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.05)
        else:
            return
    pytest.fail("the collector did not come up")


@pytest.mark.parametrize(
    ("listen", "token", "said"),
    [
        ("127.0.0.1:9090", "", "at least 16 characters"),
        ("127.0.0.1", TOKEN, "write host:port"),
        (":9090", TOKEN, "write host:port"),
        ("127.0.0.1:99999", TOKEN, "write host:port"),
    ],
)
def test_the_command_says_what_is_wrong_with_its_settings(tmp_path: Path, listen: str, token: str, said: str) -> None:
    with command(tmp_path, listen, token) as process:
        assert process.wait(60) == 2
        assert process.stderr is not None
        assert said in process.stderr.read()
