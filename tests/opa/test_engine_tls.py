"""TLS to an OPA server: only whom the given authority vouches for, and with a client certificate where it is asked."""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ledgeragent.engine import AsyncOpaServer, OpaServer
from ledgeragent.errors import BadInput, EngineError, EngineUnreachable
from needs import need
from opa.small import write_small


def ask_blocking(url: str, **options: Any) -> Any:
    with OpaServer(url, **options) as engine:
        return engine.evaluate("small", "decision", {"say": "hello"})


def ask_async(url: str, **options: Any) -> Any:
    async def ask() -> Any:
        async with AsyncOpaServer(url, **options) as engine:
            return await engine.aevaluate("small", "decision", {"say": "hello"})

    return asyncio.run(ask())


def ask_requests(url: str, **options: Any) -> Any:
    return ask_blocking(url, client="opa-python-client", **options)


@pytest.fixture(params=[ask_blocking, ask_requests, ask_async], ids=["blocking", "requests", "async"])
def ask(request: pytest.FixtureRequest) -> Callable[..., Any]:
    asks: Callable[..., Any] = request.param
    return asks


def self_signed(folder: Path, name: str) -> tuple[Path, Path]:
    cert, key = folder / f"{name}.pem", folder / f"{name}.key"
    subject = ["-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2", "-nodes"]
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    command = ["openssl", "req", "-x509", *curve, *subject, "-keyout", str(key), "-out", str(cert)]
    subprocess.run(command, check=True, capture_output=True)
    return cert, key


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Path]]:
    need(shutil.which("openssl"), "openssl")
    folder = tmp_path_factory.mktemp("certificates")
    return {name: self_signed(folder, name) for name in ("server", "client", "stranger")}


def serve(opa: Path, root: Path, cert: tuple[Path, Path], *more: str) -> tuple[str, subprocess.Popen[bytes]]:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = [str(opa), "run", "--server", f"--addr=https://127.0.0.1:{port}", "--ignore=*_test.rego"]
    command += ["--log-level=error", "--skip-version-check", f"--tls-cert-file={cert[0]}"]
    command += [f"--tls-private-key-file={cert[1]}", *more, "-b", str(root)]
    child = subprocess.Popen(command)
    for _ in range(200):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.05)
    return f"https://127.0.0.1:{port}", child


@pytest.fixture(scope="module")
def url(
    opa_binary: Path, certificates: dict[str, tuple[Path, Path]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    url, child = serve(opa_binary, write_small(tmp_path_factory.mktemp("small")), certificates["server"])
    yield url
    child.kill()
    child.wait()


@pytest.fixture(scope="module")
def mutual_url(
    opa_binary: Path, certificates: dict[str, tuple[Path, Path]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    options = ["--authentication=tls", f"--tls-ca-cert-file={certificates['client'][0]}"]
    root = write_small(tmp_path_factory.mktemp("small"))
    url, child = serve(opa_binary, root, certificates["server"], *options)
    yield url
    child.kill()
    child.wait()


def test_the_authority_that_was_given_is_trusted(
    ask: Callable[..., Any], url: str, certificates: dict[str, tuple[Path, Path]]
) -> None:
    assert ask(url, ca=certificates["server"][0])["echo"] == "hello"


@pytest.mark.parametrize("authority", [None, "stranger"])
def test_nobody_else_is(
    ask: Callable[..., Any], url: str, certificates: dict[str, tuple[Path, Path]], authority: str | None
) -> None:
    with pytest.raises(EngineUnreachable, match="certificate"):
        ask(url, ca=certificates[authority][0] if authority else None)


@pytest.mark.parametrize("client", ["direct", "opa-python-client"])
def test_the_environment_cannot_add_an_authority(
    client: str, url: str, certificates: dict[str, tuple[Path, Path]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificates["server"][0]))
    with pytest.raises(EngineUnreachable, match="certificate"):
        ask_blocking(url, client=client)


def test_a_client_certificate_is_shown_where_it_is_asked_for(
    ask: Callable[..., Any], mutual_url: str, certificates: dict[str, tuple[Path, Path]]
) -> None:
    assert ask(mutual_url, ca=certificates["server"][0], cert=certificates["client"])["echo"] == "hello"
    for cert in (None, certificates["stranger"]):
        with pytest.raises(EngineError):
            ask(mutual_url, ca=certificates["server"][0], cert=cert)


def test_a_connection_is_kept_until_a_tls_file_is_replaced(
    url: str, certificates: dict[str, tuple[Path, Path]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ca = tmp_path / "ca.pem"
    shutil.copy(certificates["server"][0], ca)
    connected: list[object] = []
    connect = socket.socket.connect

    def counted(self: socket.socket, address: Any) -> None:
        connected.append(address)
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", counted)
    with OpaServer(url, ca=ca) as engine:
        for _ in range(3):
            engine.evaluate("small", "decision", {"say": "hello"})
        assert len(connected) == 1
        shutil.copy(certificates["stranger"][0], tmp_path / "other.pem")
        (tmp_path / "other.pem").replace(ca)
        with pytest.raises(EngineUnreachable, match="certificate"):
            engine.evaluate("small", "decision", {"say": "hello"})


def test_plain_http_to_a_tls_port_is_an_error(ask: Callable[..., Any], url: str) -> None:
    with pytest.raises(EngineError):
        ask(url.replace("https", "http"))


def test_tls_files_go_with_https_and_must_be_there(certificates: dict[str, tuple[Path, Path]]) -> None:
    with pytest.raises(BadInput, match="needs https"):
        OpaServer("http://127.0.0.1:8181", ca=certificates["server"][0])
    with pytest.raises(BadInput, match="no such file"):
        OpaServer("https://127.0.0.1:8181", ca=Path("missing.pem"))
