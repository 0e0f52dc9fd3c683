"""A bundle server and an OPA that pulls from it: what a roll-out looks like, small enough for a test."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from ledgeragent.engine import OpaServer
from ledgeragent.engine.local import AUTHZ

TOKEN = "a-token-that-is-long-enough"
PATIENCE_S = 30.0


class BundleServer:
    """Serves bundle files by name, with an ETag, and counts what it was asked for by status."""

    def __init__(self) -> None:
        self.bundles: dict[str, bytes] = {}
        self.answered: list[tuple[str, int]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                content = server.bundles.get(self.path.removeprefix("/").removesuffix(".tar.gz"))
                tag = '"' + hashlib.sha256(content or b"").hexdigest() + '"'
                status = 404 if content is None else 304 if self.headers.get("If-None-Match") == tag else 200
                server.answered.append((self.path, status))
                body = content if status == 200 and content is not None else b""
                self.send_response(status)
                self.send_header("ETag", tag)
                self.send_header("Content-Type", "application/gzip")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Tests look at `answered`."""

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        self._thread = threading.Thread(target=self._http.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop serving."""
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


class PullingOpa:
    """An `opa run --server` that downloads bundles from a service, asks for signatures, and polls every second."""

    def __init__(self, opa: Path, folder: Path, service: str, keys: Mapping[str, Path]) -> None:
        """Start it.

        Args:
            opa: the executable.
            folder: where its configuration and log go.
            service: URL of the bundle server.
            keys: bundle name → the public key that its signature must be by.
        """
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self._log = folder / "opa.log"
        configuration = folder / "opa.json"
        configuration.write_text(json.dumps(_configuration(service, keys)), encoding="utf-8")
        command = [str(opa), "run", "--server", f"--addr=127.0.0.1:{port}", "--log-level=error", "--skip-version-check"]
        command += ["--authentication=token", "--authorization=basic", "--ignore=*_test.rego"]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*command, "--config-file", str(configuration), "--bundle", str(AUTHZ)],
                stdout=log,
                stderr=log,
                env={**os.environ, "LEDGERAGENT_OPA_TOKEN": TOKEN},
            )
        self.pid = self._process.pid

    @property
    def running(self) -> bool:
        """Whether the process that was started is still there."""
        return self._process.poll() is None

    def ready(self) -> bool:
        """Whether every bundle has been activated once."""
        try:
            with urllib.request.urlopen(f"{self.url}/health?bundles", timeout=1) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def said(self) -> str:
        """What it logged so far."""
        return self._log.read_text(encoding="utf-8")

    def engine(self) -> OpaServer:
        """An engine that asks it."""
        return OpaServer(self.url, token=TOKEN)

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()


def _configuration(service: str, keys: Mapping[str, Path]) -> dict[str, Any]:
    names = {path: f"key{number}" for number, path in enumerate(dict.fromkeys(keys.values()))}
    return {
        "services": {"org": {"url": service}},
        "keys": {name: {"algorithm": "RS256", "key": path.read_text()} for path, name in names.items()},
        "bundles": {
            bundle: {
                "service": "org",
                "resource": f"{bundle}.tar.gz",
                "polling": {"min_delay_seconds": 1, "max_delay_seconds": 1},
                "signing": {"keyid": names[key]},
            }
            for bundle, key in keys.items()
        },
    }


@contextmanager
def pulling(opa: Path, folder: Path, server: BundleServer, keys: Mapping[str, Path]) -> Iterator[PullingOpa]:
    """An OPA that has activated every bundle."""
    running = PullingOpa(opa, folder, server.url, keys)
    try:
        wait(running.ready, running.said)
        yield running
    finally:
        running.close()


def wait(happened: Callable[[], bool], said: Callable[[], str]) -> None:
    """Wait until something has happened; fail with what was said."""
    deadline = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < deadline, said()
        time.sleep(0.05)
