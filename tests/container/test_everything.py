"""The README's production section, followed word for word, and what then has to hold of the containers it starts."""

from __future__ import annotations

import copy
import json
import logging
import os
import re
import secrets
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests

from ledgeragent import Domain, Engine, Gate, Judged, OpaServer
from ledgeragent.errors import ENGINE_CODES
from support.canary import CANARY, overrun

pytestmark = pytest.mark.container
_log = logging.getLogger(__name__)
REPO = Path(__file__).resolve().parent.parent.parent
TOKEN = secrets.token_hex(16)
SERVICES = ("bundle-server", "collector", "entry", "opa-1", "opa-2")
DECISION = "/v1/data/ledgeragent/retail/decision"


@dataclass(frozen=True)
class Stack:
    """What the README's commands have started, up to the one that replaces the OPAs.

    Attributes:
        url: the entry's address.
        said: what the commands wrote.
        replace: that last command.
    """

    compose: list[str]
    env: dict[str, str]
    url: str
    said: str
    replace: str

    def run(self, *arguments: str) -> str:
        """A compose command; what it wrote to stdout."""
        command = [*self.compose, "--profile", "everything", *arguments]
        done = subprocess.run(command, cwd=REPO, env=self.env, capture_output=True, text=True, timeout=180, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def container(self, service: str) -> str:
        """The id of a service's container."""
        labels = {"project": self.env["COMPOSE_PROJECT_NAME"], "service": service}
        filters = [f"--filter=label=com.docker.compose.{name}={value}" for name, value in labels.items()]
        command = ["docker", "ps", "--all", "--quiet", "--no-trunc", *filters]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    def inspect(self, service: str) -> dict[str, Any]:
        """What Docker knows of a service's container."""
        said = subprocess.run(["docker", "inspect", self.container(service)], capture_output=True, check=True).stdout
        [known] = json.loads(said)
        assert isinstance(known, dict)
        return known

    def address(self, service: str) -> str:
        """The address of a service on the internal network, which only this machine and the others on it reach."""
        networks: dict[str, dict[str, str]] = self.inspect(service)["NetworkSettings"]["Networks"]
        return next(network["IPAddress"] for name, network in networks.items() if name.endswith("_inside"))

    def kept(self) -> list[dict[str, Any]]:
        """The decisions on the collector's disk."""
        text = self.run("exec", "-T", "collector", "sh", "-c", "cat /decisions/decisions-*.jsonl")
        return [json.loads(line) for line in text.splitlines()]

    def script(self, *lines: str) -> str:
        """Run lines of the README in a shell; what they wrote."""
        text = "\n".join(("set -euo pipefail", *lines))
        text = text.replace("http://127.0.0.1:8180", self.url).replace(
            ".venv/bin/ledgeragent", f"{sys.executable} -m ledgeragent"
        )
        text = re.sub(r"^docker-compose\b", " ".join(self.compose), text, flags=re.MULTILINE)
        done = subprocess.run(
            ["bash", "-c", text], cwd=REPO, env=self.env, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def wait_for(what: str, true: Callable[[], bool], seconds: float = 60) -> None:
    """Come back when it is so."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.2)


@pytest.fixture(scope="module")
def stack(compose: list[str], images: None) -> Iterator[Stack]:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = str(probe.getsockname()[1])
    readme = (REPO / "README.md").read_text(encoding="utf-8")
    [block] = re.findall(r"## In production\n\n```sh\n(.*?)```", readme, flags=re.DOTALL)
    export, up, doctor, count, replace = block.splitlines()
    env = os.environ | {
        "COMPOSE_PROJECT_NAME": f"ledgeragent-everything-{os.getpid()}",
        "LEDGERAGENT_ENTRY_PORT": port,
        "PYTHONPATH": str(REPO / "agent"),
    }
    names = re.findall(r"(\w+)=\$\(openssl rand -hex 32\)", export)
    assert names == ["LEDGERAGENT_OPA_TOKEN", "LEDGERAGENT_COLLECTOR_TOKEN"]
    env |= dict.fromkeys(names, TOKEN)
    started = Stack(compose, env, f"http://127.0.0.1:{port}", "", replace)
    try:
        started.script(up)
        wait_for("every service is healthy", lambda: set(health(started)) == {"healthy"})
        said = started.script(doctor)
        wait_for("decisions are on the collector's disk", lambda: "decisions-000001" in listing(started))
        yield Stack(compose, env, started.url, said + started.script(count), replace)
    finally:
        started.run("down", "--volumes")


def health(stack: Stack) -> list[str]:
    return [stack.inspect(service)["State"]["Health"]["Status"] for service in SERVICES]


def listing(stack: Stack) -> str:
    return stack.run("exec", "-T", "collector", "ls", "/decisions")


@pytest.fixture(scope="module")
def inputs() -> list[dict[str, Any]]:
    """Gate inputs of the retail domain: allowed, revised and blocked ones."""
    vectors = json.loads((REPO / "schemas" / "vectors" / "retail.json").read_text(encoding="utf-8"))["vectors"]
    return [vector["input"] for vector in vectors]


@pytest.fixture(scope="module")
def expected(embedded: Engine, inputs: list[dict[str, Any]]) -> list[str]:
    """What is right: the verdicts of the same policies on another engine."""
    gate = Gate(Domain.load("retail"), embedded)
    verdicts = [gate.judge(one).verdict for one in inputs]
    assert set(verdicts) == {"allow", "revise", "block"}
    return [str(verdict) for verdict in verdicts]


def ask(url: str, gate_input: dict[str, Any], token: str | None = TOKEN, path: str = DECISION) -> requests.Response:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    return requests.post(f"{url}{path}", json={"input": gate_input}, headers=headers, timeout=20)


def numbered(gate_input: dict[str, Any], request: str) -> dict[str, Any]:
    return {**copy.deepcopy(gate_input), "request": request}


def test_the_readmes_commands_lead_to_proved_domains_and_kept_decisions(stack: Stack) -> None:
    assert re.findall(r"ok   domain (\w+)", stack.said) == ["airline", "retail", "telecom", "telehealth"]
    assert re.search(r"^[1-9]\d* /decisions/decisions-000001.jsonl$", stack.said, flags=re.MULTILINE)


def test_decisions_through_the_entry_are_those_of_the_policies(
    stack: Stack, inputs: list[dict[str, Any]], expected: list[str]
) -> None:
    with OpaServer(stack.url, token=TOKEN) as engine:
        gate = Gate(Domain.load("retail"), engine)
        assert [gate.judge(one).verdict for one in inputs] == expected


@pytest.mark.parametrize("service", SERVICES)
def test_a_container_has_no_rights_it_does_not_need(stack: Stack, service: str) -> None:
    known = stack.inspect(service)
    host = known["HostConfig"]
    assert {
        "user": known["Config"]["User"],
        "read-only": host["ReadonlyRootfs"],
        "dropped": host["CapDrop"],
        "added": host["CapAdd"] or [],
        "options": host["SecurityOpt"],
        "privileged": host["Privileged"],
    } == {
        "user": "1000:1000",
        "read-only": True,
        "dropped": ["ALL"],
        "added": ["NET_BIND_SERVICE"] if service in ("bundle-server", "entry") else [],
        "options": ["no-new-privileges:true"],
        "privileged": False,
    }
    ran_by = subprocess.run(
        ["docker", "top", known["Id"], "-o", "pid,uid"], capture_output=True, text=True, check=True
    ).stdout.splitlines()[1:]
    assert {line.split()[1] for line in ran_by} == {"1000"}


def test_only_the_entry_is_published_and_only_on_loopback(stack: Stack) -> None:
    known = {service: stack.inspect(service) for service in SERVICES}
    published = {
        (service, binding["HostIp"])
        for service, one in known.items()
        for bindings in one["NetworkSettings"]["Ports"].values()
        for binding in bindings or []
    }
    assert published == {("entry", "127.0.0.1")}
    networks = {
        service: sorted(name.rpartition("_")[2] for name in one["NetworkSettings"]["Networks"])
        for service, one in known.items()
    }
    assert networks == {service: ["inside"] for service in SERVICES} | {"entry": ["inside", "outside"]}
    [inside] = [name for name in known["opa-1"]["NetworkSettings"]["Networks"] if name.endswith("_inside")]
    said = subprocess.run(["docker", "network", "inspect", inside], capture_output=True, check=True).stdout
    assert json.loads(said)[0]["Internal"] is True


def test_the_entry_passes_on_decisions_and_nothing_else(stack: Stack, inputs: list[dict[str, Any]]) -> None:
    closed = ("/", "/health", "/metrics", "/v1/data", "/v1/policies", "/v1/config", "/v1/data/ledgeragent/retail")
    stati = {path: requests.request("GET", stack.url + path, timeout=10).status_code for path in closed}
    stati |= {f"POST {path}": ask(stack.url, {}, path=path).status_code for path in closed}
    assert set(stati.values()) == {404}, stati
    assert ask(stack.url, inputs[0]).status_code == 200


@pytest.mark.parametrize("service", ["opa-1", "opa-2"])
def test_the_api_of_an_opa_is_closed_without_the_token(
    stack: Stack, service: str, inputs: list[dict[str, Any]]
) -> None:
    api = f"http://{stack.address(service)}:8181"
    assert ask(api, inputs[0]).status_code == 200
    assert [ask(api, inputs[0], token=other).status_code for other in (None, "x", TOKEN[:-1])] == [401] * 3
    for token in (None, TOKEN):
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        attempts = [
            ("PUT", "/v1/policies/mine", "package ledgeragent.retail\ndecision := {}"),
            ("PUT", "/v1/data/ledgeragent/retail", "{}"),
            ("PATCH", "/v1/data/ledgeragent", "[]"),
            ("GET", "/v1/policies", None),
            ("GET", "/v1/data", None),
            ("GET", "/v1/config", None),
            ("GET", "/metrics", None),
            ("POST", "/v1/query", '{"query": "data"}'),
            ("POST", "/v1/compile", "{}"),
        ]
        stati = {
            f"{method} {path}": requests.request(method, api + path, data=data, headers=headers, timeout=10).status_code
            for method, path, data in attempts
        }
        assert stati == dict.fromkeys(stati, 401)


@pytest.mark.parametrize("service", ["opa-1", "opa-2"])
def test_the_diagnostic_port_tells_the_health_and_nothing_else(
    stack: Stack, service: str, inputs: list[dict[str, Any]]
) -> None:
    port = f"http://{stack.address(service)}:8282"
    healthy = requests.get(f"{port}/health?bundles&plugins", timeout=10)
    assert (healthy.status_code, healthy.json()) == (200, {})
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    for path in ("/v1/data", "/v1/policies", "/metrics", "/v1/config", "/"):
        assert requests.get(port + path, timeout=10).status_code == 401
        assert requests.get(port + path, headers=bearer, timeout=10).status_code == 401
    assert ask(port, inputs[0]).status_code == 404


def test_a_decision_is_on_the_collectors_disk_under_the_id_that_opa_answered(
    stack: Stack, inputs: list[dict[str, Any]]
) -> None:
    answered = [ask(stack.url, one).json()["decision_id"] for one in inputs]
    wait_for("all of them are kept", lambda: set(answered) <= {one["decision_id"] for one in stack.kept()})
    kept = {one["decision_id"]: one for one in stack.kept()}
    assert {kept[one]["path"] for one in answered} == {"ledgeragent/retail/decision"}
    assert {kept[one]["labels"]["version"] for one in answered} == {"1.22.3"}


def test_what_may_not_be_logged_is_not_on_the_collectors_disk(stack: Stack, inputs: list[dict[str, Any]]) -> None:
    answered = [ask(stack.url, overrun(one)).json()["decision_id"] for one in inputs]
    wait_for("all of them are kept", lambda: set(answered) <= {one["decision_id"] for one in stack.kept()})
    kept = json.dumps([one for one in stack.kept() if one["decision_id"] in answered])
    assert CANARY not in kept
    assert '"domain": "retail"' in kept


def test_decisions_made_while_the_collector_is_down_arrive_when_it_is_back(
    stack: Stack, inputs: list[dict[str, Any]]
) -> None:
    stack.run("stop", "collector")
    try:
        answered = [ask(stack.url, inputs[0]).json()["decision_id"] for _ in range(4)]
    finally:
        stack.run("start", "collector")
    wait_for("they are kept", lambda: set(answered) <= {one["decision_id"] for one in stack.kept()}, 120)


def test_without_its_token_the_collector_and_the_bundle_server_take_nothing(stack: Stack) -> None:
    collector = f"http://{stack.address('collector')}:9090"
    assert requests.post(f"{collector}/logs", json=[{"decision_id": "made up"}], timeout=10).status_code == 401
    bundles = f"http://{stack.address('bundle-server')}:8080"
    there = requests.get(f"{bundles}/gate.tar.gz", timeout=10)
    assert there.status_code == 200
    again = requests.get(f"{bundles}/gate.tar.gz", headers={"If-None-Match": there.headers["ETag"]}, timeout=10)
    assert again.status_code == 304
    stati = {
        method: requests.request(method, f"{bundles}/gate.tar.gz", data=b"x", timeout=10).status_code
        for method in ("PUT", "POST", "DELETE")
    }
    assert stati == dict.fromkeys(stati, 405)


def test_the_opas_take_no_bundle_that_is_not_signed(
    stack: Stack, inputs: list[dict[str, Any]], expected: list[str]
) -> None:
    # What somebody who has taken over the bundle server could do: the same bundle without its signature.
    unsigned = (
        "import gzip, io, pathlib, tarfile\n"
        "path = pathlib.Path('/bundles/domain-retail.tar.gz')\n"
        "old = tarfile.open(path)\n"
        "packed = io.BytesIO()\n"
        "with tarfile.open(fileobj=packed, mode='w:gz') as new:\n"
        "    for one in old.getmembers():\n"
        "        if not one.name.endswith('.signatures.json'):\n"
        "            new.addfile(one, old.extractfile(one))\n"
        "path.write_bytes(packed.getvalue())\n"
    )
    stack.run("run", "--rm", "--entrypoint", "python3", "bundles", "-c", unsigned)
    try:
        wait_for(
            "both OPAs have refused it",
            lambda: all("bundle missing .signatures.json file" in stack.run("logs", one) for one in ("opa-1", "opa-2")),
        )
        assert [ask(stack.url, one).json()["result"]["verdict"] for one in inputs] == expected
    finally:
        stack.run("run", "--rm", "bundles")


def test_a_rolling_restart_never_changes_a_verdict(
    stack: Stack, inputs: list[dict[str, Any]], expected: list[str]
) -> None:
    before = {service: stack.container(service) for service in ("opa-1", "opa-2")}
    with asking(stack.url, inputs, expected) as seen:
        stack.script(stack.replace)
    after = {service: stack.container(service) for service in ("opa-1", "opa-2")}
    assert all(before[service] != after[service] for service in before)
    _log.info("while both were replaced: %s", dict(seen))
    right = seen.pop("right")
    assert set(seen) <= set(ENGINE_CODES), seen
    assert right > 20 * sum(seen.values()), seen


def test_when_one_opa_is_killed_the_other_one_decides(
    stack: Stack, inputs: list[dict[str, Any]], expected: list[str]
) -> None:
    with asking(stack.url, inputs, expected) as seen:
        stack.run("kill", "opa-1")
        wait_for("the entry has noticed", lambda: all(ask(stack.url, one).status_code == 200 for one in inputs))
        gate_answers = [ask(stack.url, one).json()["result"]["verdict"] for one in inputs]
        stack.run("start", "opa-1")
    assert gate_answers == expected
    assert set(seen) - {"right"} <= set(ENGINE_CODES), seen
    wait_for("it is back", lambda: set(health(stack)) == {"healthy"})


class asking:  # noqa: N801  (reads as a sentence)
    """A gate that is asked without a pause meanwhile.

    Gives a count of "right", what the failures' codes were, and what was wrong.
    """

    def __init__(self, url: str, inputs: list[dict[str, Any]], expected: list[str]) -> None:
        self._url, self._inputs, self._expected = url, inputs, expected
        self._seen: Counter[str] = Counter()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._ask)

    def __enter__(self) -> Counter[str]:
        self._thread.start()
        return self._seen

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _ask(self) -> None:
        with OpaServer(self._url, token=TOKEN) as engine:
            gate = Gate(Domain.load("retail"), engine)
            while not self._stop.is_set():
                for number, (one, verdict) in enumerate(zip(self._inputs, self._expected, strict=True)):
                    request = f"{number}-{secrets.token_hex(8)}"
                    self._seen[_sort(gate.judge(numbered(one, request)), verdict)] += 1


def _sort(judged: Judged, expected: str) -> str:
    if judged.failure is not None:
        return judged.failure.code if judged.verdict == "block" else f"{judged.verdict} with {judged.failure}"
    return "right" if judged.verdict == expected else f"{judged.verdict} for {expected}"
