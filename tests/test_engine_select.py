"""Which engine a spec gives, and that nothing steps in for one that was asked for."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from ledgeragent import policies
from ledgeragent.engine import open_engine
from ledgeragent.errors import BadInput, EnginePolicies, EngineUnreachable
from scripted import http_answer, says, scripted

SHIPPED: dict[str, Any] = {
    "policies": policies.REGO,
    "schemas": policies.SCHEMAS,
    "compiled": policies.COMPILED,
}


@pytest.fixture
def no_opa(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("LEDGERAGENT_OPA_BIN", raising=False)


@pytest.mark.usefixtures("no_opa")
def test_auto_takes_the_embedded_engine_when_nothing_else_is_there_and_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO), open_engine("auto", **SHIPPED) as engine:
        assert engine.name == "embedded"
    assert "engine: embedded at" in caplog.text


def test_auto_takes_an_opa_that_is_there(opa_binary: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO), open_engine("auto", **SHIPPED) as engine:
        assert engine.name == "opa-local"
    assert f"{opa_binary} is there" in caplog.text


def test_auto_takes_the_configured_server_with_its_token(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "token").write_text("token-in-a-file\n")
    with scripted(says(http_answer(b'{"result": 1}'))) as server:
        monkeypatch.setenv("LEDGERAGENT_OPA_URL", server.url)
        monkeypatch.setenv("LEDGERAGENT_OPA_TOKEN_FILE", str(tmp_path / "token"))
        with caplog.at_level(logging.INFO), open_engine("auto", **SHIPPED) as engine:
            assert (engine.name, engine.location) == ("opa", server.url)
            engine.evaluate("retail", "decision", {})
    assert b"Authorization: Bearer token-in-a-file" in server.requests[0]
    assert "LEDGERAGENT_OPA_URL is set" in caplog.text


def test_nothing_steps_in_for_a_configured_server_that_is_down(monkeypatch: pytest.MonkeyPatch) -> None:
    with scripted(says(b"")) as server:
        url = server.url
    monkeypatch.setenv("LEDGERAGENT_OPA_URL", url)
    with open_engine("auto", **SHIPPED) as engine, pytest.raises(EngineUnreachable):
        engine.evaluate("retail", "decision", {})


@pytest.mark.usefixtures("no_opa")
def test_nothing_steps_in_for_a_local_opa_that_is_not_there() -> None:
    with pytest.raises(EnginePolicies, match="run `make opa`"):
        open_engine("opa", **SHIPPED)


def test_a_url_and_a_name_are_taken_literally() -> None:
    with open_engine("http://127.0.0.1:8181", **SHIPPED) as server, open_engine("embedded", **SHIPPED) as embedded:
        assert (server.name, embedded.name) == ("opa", "embedded")


@pytest.mark.parametrize("spec", ["", "wasm", "Embedded", "127.0.0.1:8181", "ftp://127.0.0.1"])
def test_another_spec_is_bad_input(spec: str) -> None:
    with pytest.raises(BadInput, match="use auto, embedded, opa"):
        open_engine(spec, **SHIPPED)
