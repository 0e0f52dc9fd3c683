"""OPA's decision log: masked by the domains' lists, by Python and Rego alike, and without a canary in any field."""

from __future__ import annotations

import gzip
import json
import random
import secrets
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import requests

from ledgeragent import policies
from ledgeragent.domain import Domain
from ledgeragent.engine import LocalOpa
from ledgeragent.engine.local import MASKS
from ledgeragent.errors import EngineEvaluation, EnginePolicies
from ledgeragent.masking import Masking
from ledgeragent.opacli import evaluate
from support.canary import CANARY, disguised, one_by_one, overrun, replaced, texts, vectors

REVISION = "sha256:" + "a" * 64
ODD: list[Any] = [
    None,
    True,
    False,
    0,
    5.0,
    1.5,
    "",
    CANARY,
    [],
    {},
    {"a": 1},
    [[CANARY]],
    {CANARY: {CANARY: 1}},
    "a/b~c",
]
STRANGE_KEYS = [CANARY, "a/b~0c", "*", "fields", ""]


@pytest.fixture(scope="module")
def merged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Policies and masks as one bundle root, for `opa eval`."""
    root = tmp_path_factory.mktemp("merged")
    shutil.copytree(policies.REGO, root, dirs_exist_ok=True)
    shutil.copytree(MASKS / "system", root / "system")
    (root / ".manifest").write_text('{"roots": ["ledgeragent", "system/log"]}')
    return root


def everywhere(value: Any, place: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    yield place
    rows = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in rows:
        yield from everywhere(inner, (*place, key))


def mutated(chance: random.Random, value: Any) -> Any:
    """One place of another type, and sometimes a key that nobody expects."""
    changed = replaced(value, chance.choice(list(everywhere(value))), chance.choice(ODD))
    place = chance.choice(list(everywhere(changed)))
    holder = changed
    for key in place:
        holder = holder[key]
    if isinstance(holder, dict) and chance.random() < 0.3:
        return replaced(changed, place, {**holder, chance.choice(STRANGE_KEYS): chance.choice(ODD)})
    return changed


def granted(asked: Any) -> dict[str, Any]:
    """Somebody's consent to the call."""
    return {
        "id": secrets.token_hex(16),
        "kind": "approval",
        "predicates": ["common.x"],
        "domain": asked["domain"],
        "session": CANARY,
        "tool": asked["action"]["tool"],
        "arguments": asked["action"]["arguments"],
        "facts": CANARY,
        "approver": CANARY,
        "issued": "2026-03-02T10:00:00-05:00",
        "expires": {"session": "2026-03-02T10:15:00-05:00", "host": "2026-03-02T10:15:00Z"},
    }


def cases(domain: str) -> list[tuple[Any, Any]]:
    """Inputs and results: the vectors' own, with canaries, and mutated."""
    chance = random.Random(domain)
    own = Domain.load(domain)
    found: list[tuple[Any, Any]] = []
    for vector in vectors(domain):
        asked = {**vector["input"], "grants": [granted(vector["input"])]}
        result = {**vector["decision"], "request": asked["request"], "policy": {"revision": REVISION}}
        result["obligations"] = [{"kind": "approval", "predicate": f"{domain}.x", "approvers": [CANARY], "grant": None}]
        found += [(asked, result), (disguised(own, asked), result), (overrun(asked), overrun_result(result))]
        found += [(mutated(chance, asked), mutated(chance, result)) for _ in range(3)]
    return found


def overrun_result(result: Any) -> Any:
    for place in list(texts(result)):
        result = replaced(result, place, CANARY)
    return {**result, CANARY: [CANARY]}


@pytest.mark.parametrize("name", policies.domains())
def test_rego_and_python_mask_alike_and_leave_no_canary(name: str, merged: Path, opa_binary: Path) -> None:
    log = Domain.load(name).log
    found = cases(name)
    events = [{"path": f"ledgeragent/{name}/decision", "input": asked, "result": result} for asked, result in found]
    assert len(events) > 200
    for (asked, result), masks in zip(found, evaluate(opa_binary, merged, "data.system.log.mask", events), strict=True):
        shown = {mask["path"]: mask["value"] for mask in masks if isinstance(mask, dict)}
        erased = {mask for mask in masks if isinstance(mask, str)}
        if isinstance(asked, dict) and asked.get("domain") == name:
            masking = Masking(log)
            assert shown == {
                "/input": masking.allowed(log["input"], asked),
                "/result": masking.allowed(log["decision"], result),
            }
            assert erased == {"/nd_builtin_cache"}
        else:
            assert (shown, erased) == ({}, {"/input", "/result", "/nd_builtin_cache"})
        assert CANARY not in json.dumps(masks)


def test_a_list_that_shows_everything_is_seen_by_this_test(merged: Path, opa_binary: Path, tmp_path: Path) -> None:
    """A canary does appear where a list lets it: the test above can fail."""
    shutil.copytree(merged, tmp_path / "open")
    data = tmp_path / "open" / "ledgeragent" / "retail" / "data.json"
    document = json.loads(data.read_text())
    document["declared"]["log"]["input"]["fields"]["session"]["fields"]["id"] = {"value": [{"types": ["string"]}]}
    data.write_text(json.dumps(document))
    asked = overrun(vectors("retail")[0]["input"])
    [masks] = evaluate(
        opa_binary,
        tmp_path / "open",
        "data.system.log.mask",
        [{"path": "ledgeragent/retail/decision", "input": asked, "result": {}}],
    )
    assert CANARY in json.dumps(masks)


# A real OPA ------------------------------------------------------------------------------------------------------


def entries(log: str) -> list[dict[str, Any]]:
    """The entries of a console's decision log."""
    lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    return [line for line in lines if line.get("type") == "openpolicyagent.org/decision_logs"]


def asking(engine: LocalOpa) -> Callable[[str, Any], requests.Response]:
    """Asks as any other stack would, whatever the body is."""
    session = requests.Session()
    session.headers["Authorization"] = f"Bearer {engine.token}"

    def ask(domain: str, body: Any) -> requests.Response:
        url = f"{engine.location}/v1/data/ledgeragent/{domain}/decision?strict-builtin-errors=true"
        return session.post(url, json=body, timeout=10)

    return ask


def test_the_console_log_of_a_real_opa_holds_no_canary(opa_binary: Path, tmp_path: Path) -> None:
    file = tmp_path / "decisions.jsonl"
    chance = random.Random(5)
    verdicts = set()
    asked = 0
    with LocalOpa(policies.REGO, opa_binary, decision_log=file) as engine:
        ask = asking(engine)
        for name in policies.domains():
            domain = Domain.load(name)
            for number, vector in enumerate(vectors(name)):
                known = vector["input"]
                planted = overrun(known) if number % 2 else chance.choice(list(one_by_one(known)))
                for body in (disguised(domain, known), planted):
                    answer = ask(name, {"input": body})
                    verdicts.add(answer.json()["result"]["verdict"])
                    asked += 1
        for odd in ({"input": CANARY}, {"input": [CANARY]}, {"input": {"domain": CANARY}}, {}, {"input": None}):
            assert ask("retail", odd).status_code == 200
            asked += 1
    log = file.read_text(encoding="utf-8")
    assert verdicts == {"allow", "revise", "block"}
    assert len(entries(log)) == asked
    assert CANARY not in log
    assert file.stat().st_mode & 0o777 == 0o600


def test_an_entry_shows_what_may_be_logged_and_is_linked_by_request_and_decision_id(
    opa_binary: Path, tmp_path: Path
) -> None:
    file = tmp_path / "decisions.jsonl"
    known = {**vectors("retail")[0]["input"], "request": "0123456789abcdef" * 2}
    with LocalOpa(policies.REGO, opa_binary, decision_log=file) as engine:
        answer = engine.answer("retail", "decision", known)
    [entry] = entries(file.read_text(encoding="utf-8"))
    assert answer.decision_id == entry["decision_id"]
    assert entry["input"]["request"] == entry["result"]["request"] == known["request"]
    assert entry["input"]["action"]["tool"] == known["action"]["tool"]
    assert entry["result"]["verdict"] == answer.value["verdict"]
    assert entry["result"]["policy"]["revision"] == answer.value["policy"]["revision"]
    assert entry["masked"] == ["/input", "/result"]


def test_without_a_decision_log_there_is_no_id(local_opa: LocalOpa) -> None:
    assert local_opa.answer("retail", "decision", vectors("retail")[0]["input"]).decision_id is None


def test_an_error_that_quotes_an_argument_is_not_logged_and_not_told(opa_binary: Path, tmp_path: Path) -> None:
    root = tmp_path / "rego"
    shop = root / "ledgeragent" / "shop"
    shop.mkdir(parents=True)
    (root / ".manifest").write_text('{"roots": ["ledgeragent"]}')
    (shop / "shop.rego").write_text(
        "package ledgeragent.shop\n\ndecision := time.parse_rfc3339_ns(input.when) / 1000000000\n\nproof := decision\n"
    )
    file = tmp_path / "decisions.jsonl"
    with LocalOpa(root, opa_binary, decision_log=file) as engine:
        with pytest.raises(EngineEvaluation, match=r"internal_error, eval_builtin_error at .*shop\.rego:3") as caught:
            engine.evaluate("shop", "decision", {"domain": "shop", "when": CANARY})
        answered = engine.evaluate("shop", "decision", {"domain": "shop", "when": "2026-01-01T00:00:00Z"})
    log = file.read_text(encoding="utf-8")
    assert answered == 1767225600
    assert [entry["erased"] for entry in entries(log)] == [["/input", "/result"]]
    assert CANARY not in log
    assert CANARY not in str(caught.value)


def test_a_decision_log_that_cannot_be_opened_is_named(opa_binary: Path, tmp_path: Path) -> None:
    with pytest.raises(EnginePolicies, match=r"decisions\.jsonl cannot be opened: No such file"):
        LocalOpa(policies.REGO, opa_binary, decision_log=tmp_path / "nowhere" / "decisions.jsonl")


class Collector:
    """An HTTP service that keeps the decision logs it is sent."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                collector.bodies.append(gzip.decompress(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=[0.05])
        self._thread.start()

    def entries(self) -> list[dict[str, Any]]:
        """Everything received so far."""
        return [entry for body in self.bodies for entry in json.loads(body)]

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def collector() -> Iterator[Collector]:
    """A collector on loopback."""
    running = Collector()
    yield running
    running.close()


@contextmanager
def reporting(opa: Path, collector: Collector) -> Iterator[str]:
    """An OPA that sends its decision log to a collector, without authorisation; its URL."""
    settings = [
        f"services.collector.url={collector.url}",
        "decision_logs.service=collector",
        "decision_logs.reporting.min_delay_seconds=1",
        "decision_logs.reporting.max_delay_seconds=1",
    ]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    bundles = [part for bundle in (policies.REGO, MASKS) for part in ("-b", str(bundle))]
    command = [str(opa), "run", "--server", f"--addr=127.0.0.1:{port}", "--log-level=error", "--ignore=*_test.rego"]
    with subprocess.Popen([*command, *(f"--set={one}" for one in settings), *bundles]) as process:
        try:
            until(lambda: _healthy(f"http://127.0.0.1:{port}"))
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()


def _healthy(url: str) -> bool:
    try:
        return requests.get(f"{url}/health", timeout=5).status_code == 200
    except requests.ConnectionError:
        return False


def until(true: Callable[[], bool]) -> None:
    """Wait for something that will be so soon."""
    deadline = time.monotonic() + 30
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_the_log_that_a_collector_is_sent_holds_no_canary(opa_binary: Path, collector: Collector) -> None:
    asked = 0
    with reporting(opa_binary, collector) as url:
        for name in policies.domains():
            domain = Domain.load(name)
            for vector in vectors(name)[::8]:
                for body in (disguised(domain, vector["input"]), overrun(vector["input"])):
                    requests.post(f"{url}/v1/data/ledgeragent/{name}/decision", json={"input": body}, timeout=10)
                    asked += 1
        until(lambda: len(collector.entries()) >= asked)
    assert len(collector.entries()) == asked
    assert {entry["result"]["verdict"] for entry in collector.entries()} == {"allow", "revise", "block"}
    assert CANARY.encode() not in b"".join(collector.bodies)
