"""The local OPA: a child that is ours, answers only what it must, and never outlives us."""

from __future__ import annotations

import http.client
import json
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from ledgeragent.engine import LocalOpa, OpaServer, find_opa, open_engine
from ledgeragent.engine.local import opa_version
from ledgeragent.errors import (
    EngineClosed,
    EngineEvaluation,
    EnginePolicies,
    EngineRefused,
    EngineUndefined,
    EngineUnreachable,
)
from opa.small import REGO, build, write_small

EXPECTED = {"echo": "hello", "limit": 3, "text": "hello is 5"}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small(tmp_path_factory.mktemp("small"))


@pytest.fixture(scope="module")
def engine(small: Path, opa_binary: Path) -> Iterator[LocalOpa]:
    with LocalOpa(small, opa_binary) as engine:
        yield engine


def raw(engine: LocalOpa, method: str, path: str, body: Any = None, token: str | None = None) -> int:
    address = urlsplit(engine.location)
    connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=5)
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    connection.request(method, path, None if body is None else json.dumps(body), headers)
    status = connection.getresponse().status
    connection.close()
    return status


def wait_until_gone(pid: int) -> bool:
    for _ in range(100):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


def opa_pid(engine: LocalOpa) -> int:
    listed = subprocess.run(["ps", "-ww", "-eo", "pid=,args="], capture_output=True, text=True, check=True).stdout
    port = urlsplit(engine.location).port
    found = [
        int(line.split()[0])
        for line in listed.splitlines()
        if f"--addr=127.0.0.1:{port}" in line and "/bin/sh" not in line
    ]
    assert len(found) == 1, found
    return found[0]


def test_it_evaluates_the_folder_it_was_given(engine: LocalOpa) -> None:
    assert engine.evaluate("small", "decision", {"say": "hello"}) == EXPECTED
    assert (engine.name, engine.version.count(".")) == ("opa-local", 2)


def test_an_undefined_rule_and_an_unknown_domain_are_undefined(engine: LocalOpa) -> None:
    for domain, gate_input in (("small", {"say": False}), ("small", {}), ("other", {"say": "hello"})):
        with pytest.raises(EngineUndefined):
            engine.evaluate(domain, "decision", gate_input)


def test_a_builtin_error_is_an_error_and_not_undefined(engine: LocalOpa) -> None:
    with pytest.raises(EngineEvaluation, match=r"eval_type_error at .*small\.rego:7"):
        engine.evaluate("small", "decision", {"say": 5})


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/data"),
        ("GET", "/v1/data/ledgeragent/small/decision"),
        ("POST", "/v1/data"),
        ("POST", "/v1/data/ledgeragent/small"),
        ("POST", "/v1/data/ledgeragent/small/decision/echo"),
        ("POST", "/v1/data/ledgeragent/small/_text"),
        ("POST", "/v1/data/ledgeragent/Small/decision"),
        ("POST", "/v0/data/ledgeragent/small/decision"),
        ("POST", "/"),
        ("POST", "/v1/query"),
        ("POST", "/v1/compile"),
        ("GET", "/v1/policies"),
        ("PUT", "/v1/policies/x"),
        ("DELETE", "/v1/policies/x"),
        ("PUT", "/v1/data/ledgeragent_overrides"),
        ("PATCH", "/v1/data/ledgeragent_overrides"),
        ("GET", "/v1/config"),
        ("GET", "/v1/status"),
        ("GET", "/metrics"),
    ],
)
def test_nothing_but_the_entry_points_is_open_even_with_the_token(engine: LocalOpa, method: str, path: str) -> None:
    assert raw(engine, method, path, {"input": {}}, engine.token) in (401, 404)


def test_the_entry_points_need_the_token_and_health_does_not(engine: LocalOpa) -> None:
    path = "/v1/data/ledgeragent/small/decision"
    assert raw(engine, "POST", path, {"input": {"say": "x"}}, engine.token) == 200
    assert raw(engine, "POST", path, {"input": {"say": "x"}}) == 401
    assert raw(engine, "POST", path, {"input": {"say": "x"}}, engine.token[:-1]) == 401
    assert raw(engine, "GET", "/health") == 200
    with OpaServer(engine.location, token="not-the-token-of-it") as other, pytest.raises(EngineRefused):
        other.evaluate("small", "decision", {"say": "x"})


def test_the_token_is_not_on_any_command_line(engine: LocalOpa) -> None:
    listed = subprocess.run(["ps", "-ww", "-eo", "args="], capture_output=True, text=True, check=True).stdout
    assert engine.location.rpartition(":")[2] in listed
    assert engine.token not in listed


def test_policies_cannot_see_the_environment_of_the_host(
    opa_binary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_SECRET_OF_THE_HOST", "x")
    names = "package ledgeragent.small\n\ndecision := [name | some name, _ in opa.runtime().env]\n"
    with LocalOpa(write_small(tmp_path, names), opa_binary) as engine:
        seen = set(engine.evaluate("small", "decision", {}))
    assert "A_SECRET_OF_THE_HOST" not in seen
    assert seen <= {"LEDGERAGENT_OPA_TOKEN", "PWD", "OLDPWD", "SHLVL", "_"}


def test_overrides_are_a_bundle_of_their_own(small: Path, opa_binary: Path, tmp_path: Path) -> None:
    (tmp_path / ".manifest").write_text('{"roots": ["ledgeragent_overrides"]}')
    (tmp_path / "ledgeragent_overrides").mkdir()
    (tmp_path / "ledgeragent_overrides" / "data.json").write_text('{"small": {"x": 1}}')
    with LocalOpa(small, opa_binary, beside=[tmp_path]) as engine:
        assert engine.evaluate("small", "proof", {}) == {"small": {"x": 1}}


def test_a_bundle_file_is_taken_as_well(small: Path, opa_binary: Path, tmp_path: Path) -> None:
    with LocalOpa(build(opa_binary, small, tmp_path / "small.tar.gz", "rego"), opa_binary) as engine:
        assert engine.evaluate("small", "decision", {"say": "hello"}) == EXPECTED


def test_a_bundle_compiled_to_webassembly_is_refused_with_advice(small: Path, opa_binary: Path, tmp_path: Path) -> None:
    with pytest.raises(EnginePolicies, match="without `-t wasm`"):
        LocalOpa(build(opa_binary, small, tmp_path / "small.tar.gz"), opa_binary)


def test_policies_that_do_not_compile_are_refused_in_opas_words(opa_binary: Path, tmp_path: Path) -> None:
    with pytest.raises(EnginePolicies, match=r"small\.rego:\d+: rego_unsafe_var_error: var unknown_thing"):
        LocalOpa(write_small(tmp_path, REGO + "\nx := unknown_thing\n"), opa_binary)


def test_policies_that_are_not_there_are_refused(opa_binary: Path, tmp_path: Path) -> None:
    with pytest.raises(EnginePolicies, match="no such folder"):
        LocalOpa(tmp_path / "nowhere", opa_binary)


def test_closing_ends_the_child_and_the_engine(small: Path, opa_binary: Path) -> None:
    engine = LocalOpa(small, opa_binary)
    pid = opa_pid(engine)
    engine.close()
    engine.close()
    assert wait_until_gone(pid)
    with pytest.raises(EngineClosed):
        engine.evaluate("small", "decision", {"say": "x"})


def kill(engine: LocalOpa) -> None:
    pid = opa_pid(engine)
    os.kill(pid, signal.SIGKILL)
    assert wait_until_gone(pid)
    while engine._child.alive:
        time.sleep(0.01)


def test_a_child_that_died_is_started_again_with_the_policies_it_had(
    small: Path, opa_binary: Path, tmp_path: Path
) -> None:
    (tmp_path / ".manifest").write_text('{"roots": ["ledgeragent_overrides"]}')
    (tmp_path / "data.json").write_text('{"ledgeragent_overrides": {"small": 1}}')
    with LocalOpa(small, opa_binary, beside=[tmp_path]) as engine:
        first = engine.token
        kill(engine)
        assert engine.evaluate("small", "decision", {"say": "hello"}) == EXPECTED
        assert engine.evaluate("small", "proof", {}) == {"small": 1}
        assert engine.token != first
        (tmp_path / "data.json").write_text('{"ledgeragent_overrides": {"small": 2}}')
        assert engine.evaluate("small", "proof", {}) == {"small": 1}
        kill(engine)
        with pytest.raises(EnginePolicies, match="its policies have changed since"):
            engine.evaluate("small", "proof", {})


def test_a_child_that_dies_of_a_question_is_unreachable(small: Path, opa_binary: Path) -> None:
    with LocalOpa(small, opa_binary) as engine:
        os.kill(opa_pid(engine), signal.SIGSTOP)
        threading.Timer(0.2, lambda: os.kill(opa_pid(engine), signal.SIGKILL)).start()
        with pytest.raises(EngineUnreachable, match=r"has died|cannot be reached"):
            engine.evaluate("small", "decision", {"say": "hello"})
        assert engine.evaluate("small", "decision", {"say": "hello"}) == EXPECTED


def test_a_child_that_does_not_come_up_again_in_time_is_unreachable(
    small: Path, opa_binary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opa = tmp_path / "opa"
    opa.symlink_to(opa_binary)
    with LocalOpa(small, opa, timeout=0.3) as engine:
        kill(engine)
        monkeypatch.setattr(engine, "_binary", Path("/bin/cat"))
        for _ in range(2):
            with pytest.raises((EngineUnreachable, EnginePolicies)):
                engine.evaluate("small", "decision", {"say": "hello"})
        monkeypatch.undo()
        monkeypatch.setattr(engine, "_timeout", 30)
        assert engine.evaluate("small", "decision", {"say": "hello"}) == EXPECTED


def test_overrides_given_as_data_outlive_a_child(
    opa_binary: Path, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEDGERAGENT_OPA_BIN", str(opa_binary))
    engine = open_engine("opa", policies=small, overrides={"small": {"x": 1}})
    assert isinstance(engine, LocalOpa)
    with engine:
        kill(engine)
        assert engine.evaluate("small", "proof", {}) == {"small": {"x": 1}}


@pytest.mark.parametrize("end", ["pass", "raise SystemExit(3)", "1 / 0", "os.kill(os.getpid(), 9)", "os._exit(0)"])
def test_the_child_ends_with_its_process_however_that_ends(
    small: Path, opa_binary: Path, end: str, tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import os, sys\nfrom pathlib import Path\nfrom ledgeragent.engine.local import LocalOpa\n"
        "engine = LocalOpa(Path(sys.argv[1]), Path(sys.argv[2]))\n"
        "print(engine._child._process.pid, flush=True)\n" + end + "\n"
    )
    run = subprocess.run(
        [sys.executable, str(program), str(small), str(opa_binary)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert wait_until_gone(int(run.stdout))


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_process_does_not_end_its_parents_child(small: Path, opa_binary: Path) -> None:
    with LocalOpa(small, opa_binary) as engine:
        pid = os.fork()
        if pid == 0:
            engine.close()
            os._exit(0)
        os.waitpid(pid, 0)
        assert engine.evaluate("small", "decision", {"say": "hello"}) == EXPECTED


def fake_opa(folder: Path, version: str) -> Path:
    file = folder / "opa"
    file.write_text(f"#!/bin/sh\necho 'Version: {version}'\n")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return file


@pytest.mark.parametrize("version", ["0.70.0", "1.9.0", "1.20.0", "1.21.0"])
def test_an_unsupported_opa_is_not_started(small: Path, tmp_path: Path, version: str) -> None:
    with pytest.raises(EnginePolicies, match=rf"version '{version}'.*use 1\.10 or later"):
        LocalOpa(small, fake_opa(tmp_path, version))


def test_something_that_is_not_opa_is_not_started(small: Path, tmp_path: Path) -> None:
    with pytest.raises(EnginePolicies, match="does not say which version"):
        LocalOpa(small, Path("/bin/echo"))
    with pytest.raises(EnginePolicies, match="cannot be run"):
        opa_version(tmp_path / "nothing")


def test_the_configured_opa_comes_first_and_nothing_steps_in_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "path").mkdir()
    on_path = fake_opa(tmp_path / "path", "1.22.3")
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("LEDGERAGENT_OPA_BIN", raising=False)
    assert find_opa() == on_path
    monkeypatch.setenv("LEDGERAGENT_OPA_BIN", str(tmp_path / "missing"))
    with pytest.raises(EnginePolicies, match="LEDGERAGENT_OPA_BIN"):
        find_opa()
