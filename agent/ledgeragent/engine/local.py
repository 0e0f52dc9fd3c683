"""An Open Policy Agent of one's own: a child process on loopback that lives as long as its engine.

For development: whoever has an `opa` gets the decisions of a real server without running one. The child
loads the policies as a bundle, next to the authorisation policy of `authz/`, which opens nothing but the
health check and the two entry points of a domain, and those only with a random token that travels in the
child's environment, and to the masks of `masks/`, by which a decision log holds only what may be logged.
A child that died is started again, with the very policies it had. Talking to it is `opa`'s part.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import http.client
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final

from ledgeragent.engine.base import Answer, ClosesOnExit, Rule
from ledgeragent.engine.opa import DEFAULT_TIMEOUT, OpaServer
from ledgeragent.engine.versions import PINNED, check_version
from ledgeragent.errors import EngineBreaker, EngineClosed, EnginePolicies, EngineUnreachable

AUTHZ: Final = Path(__file__).resolve().parent.parent / "authz"
MASKS: Final = Path(__file__).resolve().parent.parent / "masks"
TOKEN_VARIABLE: Final = "LEDGERAGENT_OPA_TOKEN"
BINARY_VARIABLE: Final = "LEDGERAGENT_OPA_BIN"

_START_SECONDS: Final = 30.0
_STOP_SECONDS: Final = 5.0
_ENDING_SECONDS: Final = 0.2
_PORT_TRIES: Final = 3
_LAST_WORDS: Final = 4000

# The shell starts OPA and waits for it; a second process waits for the end of standard input, which is a
# pipe that only this Python process writes to. When Python goes, however it goes, the pipe closes and OPA
# is killed. The shell is OPA's parent, so the process number cannot have passed to somebody else by then.
_SUPERVISOR: Final = """
exec 3<&0 </dev/null
"$@" 3<&- &
opa=$!
(while read -r _; do :; done <&3; kill -9 "$opa") >/dev/null 2>&1 &
watcher=$!
exec 3<&-
wait "$opa"
status=$?
kill "$watcher" 2>/dev/null
exit "$status"
"""


def find_opa() -> Path | None:
    """Return the `opa` to use: `LEDGERAGENT_OPA_BIN`, else the one `make opa` built, else the one on PATH.

    Raises:
        EnginePolicies: `LEDGERAGENT_OPA_BIN` is set but is not an executable file; another one must not
        step in.
    """
    configured = os.environ.get(BINARY_VARIABLE)
    if configured:
        if not os.access(configured, os.X_OK) or not Path(configured).is_file():
            raise EnginePolicies(f"{BINARY_VARIABLE}={configured}: not an executable file; correct or unset it")
        return Path(configured)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    built = cache / "ledgeragent" / "opa" / PINNED / "opa"
    if os.access(built, os.X_OK):
        return built
    found = shutil.which("opa")
    return Path(found) if found else None


def opa_version(opa: Path) -> str:
    """Return the version that `opa` reports, for example "1.22.3".

    Raises:
        EnginePolicies: it cannot be run, or does not report one.
    """
    try:
        run = subprocess.run([str(opa), "version"], capture_output=True, text=True, timeout=_START_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise EnginePolicies(f"{opa} cannot be run: {error}") from error
    for line in run.stdout.splitlines():
        label, _, version = line.partition(":")
        if label.strip() == "Version":
            return version.strip()
    raise EnginePolicies(f"{opa} does not say which version of OPA it is; is it OPA?")


class LocalOpa(ClosesOnExit):
    """A child `opa run --server`, started with the engine and ended with it.

    `location` and `token` let another engine or process of the same user ask the same child.

    Args:
        policies: a folder that is a bundle root (`rego/`), or a bundle file.
        opa: the executable; None takes `find_opa()`.
        beside: further bundle roots or files, each with roots of its own (overrides, floor, freeze, other teams).
        timeout: the budget of one evaluation in seconds.
        decision_log: a file to which OPA appends its decision log, masked, as JSON lines among whatever else it says;
            None for no such log.

    Raises:
        EnginePolicies: there is no usable `opa`, or the policies are missing or do not compile (with OPA's
        words).
        EngineUnreachable: the child did not come up.
    """

    def __init__(
        self,
        policies: Path,
        opa: Path | None = None,
        *,
        beside: Sequence[Path] = (),
        timeout: float = DEFAULT_TIMEOUT,
        decision_log: Path | None = None,
    ) -> None:
        binary = opa or find_opa()
        if binary is None:
            raise EnginePolicies("there is no `opa` on PATH; run `make opa`, or use the embedded engine")
        bundles = [policies, *beside]
        for bundle in bundles:
            if not bundle.exists():
                raise EnginePolicies(f"policies {bundle}: there is no such folder or bundle file")
        self.name = "opa-local"
        self.version = opa_version(binary)
        check_version(self.version, f"the OPA at {binary}")
        self._binary = binary
        self._bundles = bundles
        self._timeout = timeout
        self._decision_log = decision_log
        self._policies = _digest(bundles)
        self._closed = False
        self._starting = threading.Lock()
        self._start(_START_SECONDS)

    def evaluate(self, domain: str, rule: Rule, gate_input: Mapping[str, Any]) -> Any:
        """See `Engine.evaluate`."""
        return self.answer(domain, rule, gate_input).value

    def answer(self, domain: str, rule: Rule, gate_input: Mapping[str, Any]) -> Answer:
        """See `Logs.answer`. A child that has died meanwhile is started again, within the budget."""
        with self._starting:
            if self._closed:
                raise EngineClosed("the engine of the local OPA is closed; open a new one")
            if not self._child.alive:
                self._start_again()
            child, server = self._child, self._server
        try:
            return server.answer(domain, rule, gate_input)
        except (EngineUnreachable, EngineBreaker) as error:
            # A child that is about to end closes its connections first.
            if child.alive and (isinstance(error, EngineBreaker) or not child.ends_within(_ENDING_SECONDS)):
                raise
            raise EngineUnreachable(f"the local OPA has died ({child.last_words()}); ask again to start it") from error

    def close(self) -> None:
        """End the child process."""
        with self._starting:
            self._closed = True
            self._server.close()
            self._child.end()

    def _start(self, seconds: float) -> None:
        self._child = _Child(self._binary, self._bundles, seconds, self._decision_log)
        self.location = self._child.url
        self.token = self._child.token
        self._server = OpaServer(self._child.url, token=self.token, timeout=self._timeout)

    def _start_again(self) -> None:
        # What was proved were these policies; others need an engine, and a proof, of their own.
        if _digest(self._bundles) != self._policies:
            raise EnginePolicies("the local OPA has died, and its policies have changed since; open a new engine")
        self._server.close()
        self._child.end()
        self._start(self._timeout)


def _digest(bundles: list[Path]) -> str:
    digest = hashlib.sha256()
    for bundle in bundles:
        files = sorted(bundle.rglob("*")) if bundle.is_dir() else [bundle]
        for file in files:
            if file.is_file():
                digest.update(f"{file}\0{hashlib.sha256(_content(file)).hexdigest()}\0".encode())
    return digest.hexdigest()


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise EnginePolicies(f"policies: {file} cannot be read: {error}") from error


class _Child:
    """The child process, its port, its token, and its end."""

    def __init__(self, binary: Path, bundles: list[Path], seconds: float, decision_log: Path | None = None) -> None:
        self._seconds = seconds
        self._decision_log = decision_log
        self.token = secrets.token_urlsafe(32)
        self.ended = False
        self._owner = os.getpid()
        for tries_left in reversed(range(_PORT_TRIES)):
            self._start(binary, bundles)
            try:
                self._wait_until_healthy()
                break
            except _PortTakenError:
                self.end()
                self.ended = False
                if not tries_left:
                    raise EngineUnreachable("the local OPA found no free port on 127.0.0.1") from None
            except BaseException:
                self.end()
                raise
        atexit.register(self.end)

    @property
    def alive(self) -> bool:
        # Only the process that started the child can tell.
        return not self.ended and (os.getpid() != self._owner or self._process.poll() is None)

    def ends_within(self, seconds: float) -> bool:
        """Whether the child ends; waits for it at most so long."""
        try:
            return os.getpid() == self._owner and self._process.wait(seconds) is not None
        except subprocess.TimeoutExpired:
            return False

    def last_words(self) -> str:
        """Return the end of what the child wrote."""
        if self.ended:
            return "it was ended"
        # Read without moving the position, which the child's own descriptor shares.
        log = self._log.fileno()
        said = os.pread(log, _LAST_WORDS, max(0, os.fstat(log).st_size - _LAST_WORDS))
        return said.decode("utf-8", "replace").strip() or "it said nothing"

    def end(self) -> None:
        """Kill the child and reap it; only the process that started it does."""
        if self.ended or os.getpid() != self._owner:
            return
        self.ended = True
        atexit.unregister(self.end)
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._log.close()

    def _start(self, binary: Path, bundles: list[Path]) -> None:
        self._port = _free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        self._log = _said_to(self._decision_log)
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", _SUPERVISOR, "ledgeragent-opa", *self._command(binary, bundles)],
            stdin=subprocess.PIPE,
            stdout=self._log,
            stderr=self._log,
            # Policies can read OPA's environment, so it holds the token and nothing of this process's.
            env={TOKEN_VARIABLE: self.token},
            start_new_session=True,
        )

    def _command(self, binary: Path, bundles: list[Path]) -> list[str]:
        logged = [] if self._decision_log is None else ["--set=decision_logs.console=true"]
        return [*_command(binary, self._port, bundles), *logged]

    def _wait_until_healthy(self) -> None:
        deadline = time.monotonic() + self._seconds
        for pause in _pauses():
            # Asked in this order, a health answer counts only when it came while our own child ran.
            healthy = _is_healthy(self._port)
            if not self.alive:
                self._raise_start_failure()
            if healthy:
                return
            if time.monotonic() > deadline:
                raise EngineUnreachable(f"the local OPA was not ready after {self._seconds:.0f} s: {self.last_words()}")
            time.sleep(pause)

    def _raise_start_failure(self) -> None:
        said = self.last_words()
        if "address already in use" in said:
            raise _PortTakenError
        if "initialize wasm module" in said:
            said += "\nThis OPA runs no WebAssembly: build the bundle without `-t wasm`, or use the embedded engine."
        raise EnginePolicies(f"OPA does not take these policies:\n{said}")


class _PortTakenError(Exception):
    """Somebody else took the port between choosing and using it."""


def _command(binary: Path, port: int, bundles: list[Path]) -> list[str]:
    loaded = [part for bundle in [*bundles, AUTHZ, MASKS] for part in ("-b", str(bundle.resolve()))]
    return [
        str(binary.resolve()),
        "run",
        "--server",
        f"--addr=127.0.0.1:{port}",
        "--authentication=token",
        "--authorization=basic",
        "--ignore=*_test.rego",
        "--log-level=error",
        "--skip-version-check",
        *loaded,
    ]


def _said_to(decision_log: Path | None) -> IO[bytes]:
    """Where the child writes; open as long as the child lives."""
    if decision_log is None:
        return tempfile.TemporaryFile()
    try:
        return os.fdopen(os.open(decision_log, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600), "r+b", buffering=0)
    except OSError as error:
        raise EnginePolicies(f"the decision log {decision_log} cannot be opened: {error.strerror}") from None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _is_healthy(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=1)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _pauses() -> Iterator[float]:
    pause = 0.01
    while True:
        yield pause
        pause = min(pause * 1.5, 0.25)
