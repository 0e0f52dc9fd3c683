"""The host's vectors: the files are what the script makes of our own sessions, and our own gate accepts what they say."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import ModuleType
from typing import Any

import pytest

from ledgeragent.contracts import GateInput
from ledgeragent.domain import Domain
from ledgeragent.engine import Breaker, Engine, OpaServer
from ledgeragent.errors import DECISION_CODES, ENGINE_CODES
from ledgeragent.gate import Gate
from ledgeragent.policies import SCHEMAS, domains

pytest_plugins = ["support.fixtures"]

VECTORS = SCHEMAS / "vectors"


def read(name: str) -> list[dict[str, Any]]:
    vectors: list[dict[str, Any]] = json.loads((VECTORS / "host" / f"{name}.json").read_text(encoding="utf-8"))[
        "vectors"
    ]
    return vectors


@pytest.fixture(scope="module")
def script() -> ModuleType:
    path = SCHEMAS.parent / "scripts" / "host_vectors.py"
    spec = importlib.util.spec_from_file_location("host_vectors", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_files_are_what_the_script_makes(script: ModuleType) -> None:
    made = script.documents()
    assert {path: path.read_text(encoding="utf-8") for path in made} == {
        path: script.text_of(document) for path, document in made.items()
    }


def test_the_index_names_every_file_and_its_content() -> None:
    index = json.loads((VECTORS / "index.json").read_text(encoding="utf-8"))
    rows = {row["file"]: row for row in index["files"]}
    files = [path for path in VECTORS.rglob("*.json") if path.name != "index.json" and ".cases." not in path.name]
    assert sorted(rows) == sorted(path.relative_to(VECTORS).as_posix() for path in files)
    for path in files:
        row, document = rows[path.relative_to(VECTORS).as_posix()], json.loads(path.read_text(encoding="utf-8"))
        assert (row["contract"], row["vectors"]) == (document["contract"], len(document["vectors"]))
        assert row["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert {row["domain"] for row in rows.values()} == {*domains(SCHEMAS), None}


def test_the_page_explains_every_file_and_every_field() -> None:
    page = (SCHEMAS.parent / "docs" / "vectors.md").read_text(encoding="utf-8")
    for path in sorted((VECTORS / "host").glob("*.json")):
        assert f"**{path.name}**" in page
        fields = re.search(rf"\*\*{path.name}\*\*: `(\{{.*?)`\.", page, flags=re.DOTALL)
        assert fields is not None, path.name
        for name in read(path.stem)[0]:
            assert re.search(rf"\b{name}\b", fields[1]), (path.name, name)


@pytest.mark.parametrize("name", ["acceptance", "slices", "histories", "rejections", "canonical", "grants"])
def test_names_are_unique(name: str) -> None:
    names = [vector["name"] for vector in read(name)]
    assert len(names) == len(set(names))


# Acceptance -------------------------------------------------------------------------------------------------------


class Stage:
    """An OPA that proves itself and then gives the answer it is told to."""

    def __init__(self, engine: Engine) -> None:
        self.vector: dict[str, Any] = {}
        self._engine = engine

    def answer(self, path: str, asked: Any) -> tuple[int, bytes]:
        if "/proof" not in path:
            answer = self.vector["answer"]
            return answer["status"], answer["body"].encode()
        proof = self._engine.evaluate("retail", "proof", asked["input"])
        proof["policy"] = {**proof["policy"], **self.vector["proved"]}
        return 200, json.dumps({"result": proof}).encode()


@contextmanager
def staged(stage: Stage) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, body = stage.answer(self.path, asked)
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = False
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture(scope="module")
def stage(embedded: Engine) -> Stage:
    return Stage(embedded)


@pytest.fixture(scope="module")
def judge(stage: Stage, retail_domain: Domain) -> Iterator[Gate]:
    stage.vector = read("acceptance")[0]
    with staged(stage) as url, OpaServer(url, breaker=Breaker(failures=10_000)) as engine:
        gate = Gate(retail_domain, engine)
        gate.prove()
        yield gate


@pytest.mark.parametrize("vector", read("acceptance"), ids=lambda vector: vector["name"])
def test_our_own_gate_accepts_just_what_the_vectors_say(vector: Mapping[str, Any], stage: Stage, judge: Gate) -> None:
    stage.vector = dict(vector)
    judged = judge.judge(vector["input"])
    code = judged.failure.code if judged.failure is not None else None
    assert (judged.decision is not None, judged.verdict, code) == (
        vector["accepted"],
        vector["verdict"],
        vector["error"],
    )
    tool = vector["input"]["action"]["tool"]
    declared = judge.domain.guarded_by(tool) if tool in judge.domain.tools else None
    assert vector["guarded_by"] == (list(declared) if declared is not None else None)


def test_the_acceptance_vectors_have_every_verdict_and_use_codes_of_the_lists() -> None:
    vectors = read("acceptance")
    assert {one["verdict"] for one in vectors if one["accepted"]} == {"allow", "revise", "block"}
    assert {one["verdict"] for one in vectors if not one["accepted"]} == {"block"}
    codes = {one["error"] for one in vectors} - {None}
    assert codes <= {*ENGINE_CODES, *DECISION_CODES}
    for one in vectors:
        GateInput.model_validate(one["input"])
