"""docs/operate: the manifests are valid, start OPA the same way, and the bare-binary recipe works with the real OPA."""

from __future__ import annotations

import functools
import http.server
import json
import os
import re
import secrets
import shlex
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import requests
import yaml

from ledgeragent import Domain, Gate, OpaServer
from ledgeragent.engine.versions import PINNED
from needs import need

REPO = Path(__file__).resolve().parent.parent
OPERATE = REPO / "docs" / "operate"
UNIT = OPERATE / "opa.service"
MANIFESTS = list(yaml.safe_load_all((OPERATE / "kubernetes.yaml").read_text(encoding="utf-8")))
COMPOSE = yaml.safe_load((REPO / "docker-compose.yml").read_text(encoding="utf-8"))["services"]
TOKEN = secrets.token_hex(16)


def deployment() -> dict[str, Any]:
    return next(one for one in MANIFESTS if one["kind"] == "Deployment")["spec"]["template"]["spec"]  # type: ignore[no-any-return]


def unit_command() -> list[str]:
    text = UNIT.read_text(encoding="utf-8").replace("\\\n", " ")
    [command] = re.findall(r"^ExecStart=(.*)$", text, flags=re.MULTILINE)
    return shlex.split(command)


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda one: one["kind"])
def test_a_manifest_is_what_kubernetes_takes(manifest: dict[str, Any]) -> None:
    kubernetes_validate.validate(manifest, "1.37", strict=True)


def test_a_misspelt_manifest_would_be_noticed() -> None:
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate({**MANIFESTS[0], "automountServiceAcountToken": False}, "1.37", strict=True)


def test_every_container_of_the_pod_is_without_rights_it_does_not_need() -> None:
    pod = deployment()
    assert (pod["securityContext"]["runAsNonRoot"], pod["automountServiceAccountToken"]) == (True, False)
    for container in (*pod["initContainers"], *pod["containers"]):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }


def test_all_three_recipes_start_opa_with_the_same_options() -> None:
    def options(command: list[str]) -> set[str]:
        where = ("--addr=", "--diagnostic-addr=", "--config-file=", "--set-file=")
        return {
            part.partition("=")[0] + "=" if part.startswith(where) else part
            for part in command
            if part.startswith("-") or part in ("run",)
        }

    [sidecar] = deployment()["initContainers"]
    commands = [COMPOSE["opa-1"]["command"], COMPOSE["opa-2"]["command"], sidecar["args"], unit_command()[1:]]
    assert all(options(command) == options(commands[0]) for command in commands)
    # Just OPA has no bundles to wait for.
    alone = {"--config-file=", "--set-file=", "--ready-timeout=60", "--shutdown-grace-period=10"}
    assert options(commands[0]) - options(COMPOSE["opa"]["command"]) == alone


def test_whatever_logs_decisions_loads_the_masks_before_it_can_be_asked() -> None:
    masks = REPO / "agent" / "ledgeragent" / "masks"
    [sidecar] = deployment()["initContainers"]
    for command in (
        COMPOSE["opa"]["command"],
        COMPOSE["opa-1"]["command"],
        COMPOSE["opa-2"]["command"],
        sidecar["args"],
    ):
        assert command.index("/masks") > command.index("--bundle")
    assert unit_command()[-1] == "/etc/ledgeragent/masks"
    for service in ("opa", "opa-1", "opa-2"):
        assert f"./{masks.relative_to(REPO)}:/masks:ro" in COMPOSE[service]["volumes"]
    [mounted] = [one["name"] for one in sidecar["volumeMounts"] if one["mountPath"] == "/masks"]
    [volume] = [one["configMap"]["items"] for one in deployment()["volumes"] if one["name"] == mounted]
    sources = {path.relative_to(masks).as_posix() for path in masks.rglob("*") if path.is_file()}
    assert {item["path"] for item in volume} == {name for name in sources if not name.endswith("_test.rego")}


def test_the_api_of_sidecar_and_unit_listens_on_loopback() -> None:
    [sidecar] = deployment()["initContainers"]
    assert "--addr=127.0.0.1:8181" in sidecar["args"]
    assert {"--addr=127.0.0.1:8181", "--diagnostic-addr=127.0.0.1:8282"} <= set(unit_command())


def test_every_opa_image_is_the_pinned_one() -> None:
    files = ("docker-compose.yml", "Dockerfile", "docs/operate/kubernetes.yaml")
    named = {
        version
        for name in files
        for version in re.findall(r"openpolicyagent/opa:(\S+)", (REPO / name).read_text(encoding="utf-8"))
    }
    assert named == {PINNED}


def test_the_files_that_the_pages_name_are_there() -> None:
    for page in OPERATE.glob("*.md"):
        text = page.read_text(encoding="utf-8")
        links = re.findall(r"\]\(((?!http)[^)#]+)\)", text)
        named = re.findall(r"(?<![\w/])(?:docs|agent|tests|scripts)/[\w./-]+\w", text)
        missing = [link for link in links if not (page.parent / link).exists()]
        assert missing + [name for name in named if not (REPO / name).exists()] == []


def test_systemd_has_nothing_to_say_against_the_unit() -> None:
    need(shutil.which("systemd-analyze"), "systemd-analyze")
    done = subprocess.run(["systemd-analyze", "verify", str(UNIT)], capture_output=True, text=True, check=False)
    said = [line for line in done.stderr.splitlines() if UNIT.name in line and "is not executable" not in line]
    assert said == []


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves a folder without a word."""

    def log_message(self, *_: object) -> None: ...


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """A bundle server; gives its address."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def running(command: list[str], env: dict[str, str]) -> Iterator[None]:
    process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        assert process.wait(30) == 0


def wait_for(what: str, true: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end, f"not within a minute: {what}"
        time.sleep(0.1)


def answers(url: str) -> bool:
    try:
        return requests.get(url, timeout=5).status_code == 200
    except requests.ConnectionError:
        return False


def test_the_units_command_line_decides_and_its_decisions_are_kept(opa_binary: Path, tmp_path: Path) -> None:
    bundles, decisions = tmp_path / "bundles", tmp_path / "decisions"
    bundles.mkdir()
    key, public = tmp_path / "key.pem", tmp_path / "key.pub.pem"
    subprocess.run(["openssl", "genrsa", "-out", key, "3072"], check=True, capture_output=True)
    subprocess.run(["openssl", "rsa", "-in", key, "-pubout", "-out", public], check=True, capture_output=True)
    build = [sys.executable, "-m", "ledgeragent", "bundle", "build", f"--out={bundles}", f"--signing-key={key}"]
    subprocess.run(build, check=True, capture_output=True)
    api, diagnostic, collector = free_port(), free_port(), free_port()
    replaced = {
        "/usr/local/bin/opa": str(opa_binary),
        "--addr=127.0.0.1:8181": f"--addr=127.0.0.1:{api}",
        "--diagnostic-addr=127.0.0.1:8282": f"--diagnostic-addr=127.0.0.1:{diagnostic}",
        "--config-file=/etc/ledgeragent/opa.yaml": f"--config-file={OPERATE / 'opa.yaml'}",
        "--set-file=keys.org.key=/etc/ledgeragent/key.pub.pem": f"--set-file=keys.org.key={public}",
        "/etc/ledgeragent/authz": str(REPO / "agent" / "ledgeragent" / "authz"),
        "/etc/ledgeragent/masks": str(REPO / "agent" / "ledgeragent" / "masks"),
    }
    command = unit_command()
    assert set(replaced) <= set(command)
    env = {
        "LEDGERAGENT_OPA_TOKEN": TOKEN,
        "LEDGERAGENT_COLLECTOR_TOKEN": TOKEN,
        "LEDGERAGENT_COLLECTOR_URL": f"http://127.0.0.1:{collector}",
    }
    collect = [sys.executable, "-m", "ledgeragent", "collect", f"--listen=127.0.0.1:{collector}", f"--out={decisions}"]
    with ExitStack() as stack:
        env["LEDGERAGENT_BUNDLES_URL"] = stack.enter_context(served(bundles))
        stack.enter_context(running(collect, os.environ | env))
        stack.enter_context(running([replaced.get(part, part) for part in command], env))
        wait_for("OPA is healthy", lambda: answers(f"http://127.0.0.1:{diagnostic}/health?bundles&plugins"))
        with OpaServer(f"http://127.0.0.1:{api}", token=TOKEN) as engine:
            Gate(Domain.load("retail"), engine).prove()
        wait_for("decisions are kept", lambda: any(decisions.glob("decisions-*.jsonl")))
    [kept] = decisions.iterdir()
    events = [json.loads(line) for line in kept.read_text(encoding="utf-8").splitlines()]
    assert {event["path"] for event in events} == {"ledgeragent/retail/proof"}
    assert {tuple(event.get("masked") or event["erased"]) for event in events} == {("/input", "/result")}
    assert "mira_holt_2041" not in kept.read_text(encoding="utf-8")
