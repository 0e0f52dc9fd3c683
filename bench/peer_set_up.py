"""Peers as they run: installed from their registry, their policy laid out, an OPA of their own, a driver to ask.

The folder peers/ has for each peer what to install, its policy, its driver and what is told of it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final

from ledgeragent.policies import REGO
from peer_cases import JSON

PEERS: Final = Path(__file__).resolve().parent / "peers"
NAMES: Final = ("agt", "kitelogik", "ai_sdk", "opadk")
RULES: Final = ("ours", "plain")


class NotMeasured(Exception):
    """A peer that could not be installed, started or trusted; the text says why."""


class NotInstalled(NotMeasured):
    """A peer that its registry does not give here."""


def policy(peer: str, rules: str) -> str:
    """A peer's policy: its own file, and the rules that all share without their head."""
    head, _, body = (PEERS / f"{rules}.rego").read_text(encoding="utf-8").partition("import rego.v1\n")
    assert head.rstrip().endswith("package rules")
    return (PEERS / peer / "policy.rego").read_text(encoding="utf-8") + body


def write_policies(peer: str, rules: str, folder: Path, environment: Path, opa: Path) -> Path:
    """Lay what a peer's OPA is started with into a folder, as the peer's documentation says; gives that folder."""
    policies = folder / "policies"
    if peer == "kitelogik":
        run([environment / "bin" / "kitelogik", "init", folder / "project"])
        policies = folder / "project" / "policies"
        (policies / "policy.yaml").unlink()
    else:
        policies.mkdir()
    (policies / "policy.rego").write_text(policy(peer, rules), encoding="utf-8")
    if rules == "ours":
        shutil.copytree(REGO / "ledgeragent", policies / "ledgeragent", ignore=shutil.ignore_patterns("*_test.rego"))
    if peer == "ai_sdk":
        bundle, entry = folder / "bundle.tar.gz", "agent/call/decision"
        run([opa, "build", "-t", "wasm", "-e", entry, "-o", bundle, policies])
        run(["tar", "-xzf", bundle, "-C", folder, "/policy.wasm", "/data.json"])
    return policies


@contextlib.contextmanager
def opa_server(opa: Path, policies: Path) -> Iterator[str]:
    """An OPA server over a folder, on loopback, that logs errors only; gives its URL."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    command = [str(opa), "run", "--server", f"--addr={address}", "--log-level=error", "--skip-version-check"]
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen([*command, str(policies)], stdin=subprocess.DEVNULL, stderr=said, stdout=said)
        try:
            wait_for(f"http://{address}/health", process, said)
            yield f"http://{address}"
        finally:
            process.terminate()
            process.wait(10)


def wait_for(url: str, process: subprocess.Popen[bytes], said: IO[bytes]) -> None:
    """Until the server answers."""
    for _ in range(300):
        if process.poll() is not None:
            said.seek(0)
            raise NotMeasured(f"its OPA server does not start: {said.read().decode(errors='replace').strip()[-400:]}")
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=1):
            return
        time.sleep(0.05)
    raise NotMeasured("its OPA server does not come up")


def run(command: Sequence[object], **options: Any) -> None:
    """Run a command; what it said is the reason when it fails."""
    words = [str(word) for word in command]
    ran = subprocess.run(words, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, **options)
    if ran.returncode:
        said = " ".join((ran.stderr + ran.stdout).split())[:400]
        raise NotMeasured(f"{Path(words[0]).name} {words[1]}: {said or f'status {ran.returncode}'}")


def python_for(peer: str) -> str:
    """This Python; for opadk the 3.13 that it asks for, if there is one on PATH or among pyenv's."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    candidates = ["python3.13", *map(str, pyenv.glob("3.13.*/bin/python3.13"))]
    for candidate in candidates if peer == "opadk" else []:
        with contextlib.suppress(NotMeasured, OSError):
            run([candidate, "--version"])
            return candidate
    return sys.executable


def install(peer: str, *, offline: bool = False) -> Path:
    """The environment of a peer, made when it is not there yet.

    Args:
        peer: one of NAMES.
        offline: ask no registry; a peer that is not installed is then not measured.

    Raises:
        NotInstalled: it cannot be installed.
    """
    wanted = next(path for name in ("requirements.txt", "package.json") if (path := PEERS / peer / name).exists())
    python = python_for(peer)
    digest = hashlib.sha256(wanted.read_bytes() + python.encode()).hexdigest()[:12]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    environment = cache / "ledgeragent" / "peers" / f"{peer}-{digest}"
    if (environment / "ready").exists():
        return environment
    if offline:
        raise NotInstalled(f"it is not installed in {environment}, and no registry is asked")
    print(f"installing {peer} into {environment}", file=sys.stderr)
    shutil.rmtree(environment, ignore_errors=True)
    environment.mkdir(parents=True)
    try:
        fill(peer, environment, wanted, python)
    except (NotMeasured, OSError) as error:
        raise NotInstalled(str(error)) from error
    (environment / "ready").touch()
    return environment


def fill(peer: str, environment: Path, wanted: Path, python: str) -> None:
    """Install what a peer's list says into an empty folder."""
    if wanted.suffix == ".json":
        shutil.copy(wanted, environment)
        run(["npm", "install", "--no-fund", "--no-audit"], cwd=environment)
        return
    run([python, "-m", "venv", environment])
    older = ["--ignore-requires-python"] if peer == "opadk" and python == sys.executable else []
    run([environment / "bin" / "pip", "install", "--quiet", *older, "-r", wanted])


class Driver:
    """A peer's process, which answers one line per decision (see peers/lines.py)."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._errors = tempfile.TemporaryFile(mode="w+")  # noqa: SIM115 - closed by `close`
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True, env=environment
        )
        try:
            self.versions: dict[str, str] = self._answer()["versions"]
        except NotMeasured:
            self.close()
            raise

    def ask(self, variant: str, case: str) -> JSON:
        """{"ms", "allowed", "said"} of one decision."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended, which is told below
            self._process.stdin.write(json.dumps([variant, case]) + "\n")
            self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> JSON:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._errors.seek(0)
            raise NotMeasured(f"its driver ended: {' '.join(self._errors.read().split())[-400:] or 'it said nothing'}")
        answer: JSON = json.loads(line)
        return answer

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(10)
        self._errors.close()


def command_of(peer: str, environment: Path) -> list[str]:
    """How its driver is started."""
    if peer != "ai_sdk":
        return [str(environment / "bin" / "python"), str(PEERS / peer / "driver.py")]
    shutil.copy(PEERS / peer / "driver.js", environment)
    return [str(environment / "node_modules" / "node" / "bin" / "node"), str(environment / "driver.js")]
