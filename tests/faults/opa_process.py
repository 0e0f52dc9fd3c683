"""A real OPA as somebody else's process: it can be killed, paused and started again at the same address."""

from __future__ import annotations

import contextlib
import http.client
import socket
import subprocess
import time
from pathlib import Path

from ledgeragent.engine.local import AUTHZ

TOKEN = "the-token-of-the-fault-campaign"


class OpaProcess:
    """An OPA server over a bundle root, with the authorisation that a deployment has."""

    def __init__(self, binary: Path, root: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self._port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self._port}"
        self._command = [str(binary), "run", "--server", f"--addr=127.0.0.1:{self._port}", "--authentication=token"]
        self._command += ["--authorization=basic", "--ignore=*_test.rego", "--log-level=error", "--skip-version-check"]
        self._command += ["-b", str(root), "-b", str(AUTHZ)]
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def pid(self) -> int:
        """The process."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it and wait until it is healthy."""
        self._process = subprocess.Popen(self._command, env={"LEDGERAGENT_OPA_TOKEN": TOKEN})
        deadline = time.monotonic() + 60
        while not self._is_healthy():
            assert self._process.poll() is None, "OPA did not start"
            assert time.monotonic() < deadline, "OPA was not ready in a minute"
            time.sleep(0.02)

    def kill(self) -> None:
        """End it at once. May be called when it has ended."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _is_healthy(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=1)
        with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
        return False


def wait_until_busy(pid: int) -> None:
    """Wait until a process has begun to compute: an evaluation that does not end is under way."""
    began = _ticks(pid)
    deadline = time.monotonic() + 30
    while _ticks(pid) < began + 10:
        assert time.monotonic() < deadline, "OPA computes nothing"
        time.sleep(0.01)


def wait_until_stopped(pid: int) -> None:
    """Wait until every thread of a process has stopped."""
    deadline = time.monotonic() + 30
    while any(_stat(task)[0] != "T" for task in Path(f"/proc/{pid}/task").glob("*/stat")):
        assert time.monotonic() < deadline, "OPA goes on"
        time.sleep(0.001)


def _stat(file: Path) -> list[str]:
    """What follows the name in a process's or thread's status line: its state, and so on."""
    return file.read_text(encoding="ascii").rpartition(")")[2].split()


def _ticks(pid: int) -> int:
    """Processor time of a process, in clock ticks."""
    fields = _stat(Path(f"/proc/{pid}/stat"))
    return int(fields[11]) + int(fields[12])
