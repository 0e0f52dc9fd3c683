"""Other people's policy layers on the same write, rules and facts, beside our own `review`, in one run.

    python bench/peers.py [--peer NAME]... [--rounds N] [--json] [--offline]

The write is the one of latency.py: nine rules, ledgers of 5, 50 and 500 records. Each peer is installed from its
registry into an environment of its own below the cache folder, gets the facts the way its own documentation passes
state, and asks the pinned OPA where it uses one: once with *our* rules, the very Rego of ours, and once with *plain*
rules, which refuse the same calls in as few lines as they can and say nothing of what would settle them. Before
anything is timed it must allow a call that is allowed, and refuse one that breaks a rule and one whose facts are not
there; what it says to a fact that a write has overtaken is told, not demanded. Everything then takes turns, so that a
slow moment of the machine meets all. What does not install is left out, and said.

The folder peers/ has the plain rules, and for each peer how it is installed, driven and described. Exit status 1: a
peer that is installed could not be measured, or gave a wrong verdict.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parent))

from latency import CALL, SIZES, Bench, records
from ledgeragent.domain import Domain
from ledgeragent.engine import Engine, find_opa, open_engine
from ledgeragent.engine.local import opa_version
from ledgeragent.errors import LedgerAgentError
from ledgeragent.gate import Gate
from ledgeragent.policies import REGO
from ledgeragent.session import Call, Review, Session

PEERS: Final = Path(__file__).resolve().parent / "peers"
NAMES: Final = ("agt", "kitelogik", "ai_sdk", "opadk")
OURS: Final = {"server": "opa", "process": "opa", "in process": "embedded"}
"""Kind of a peer → the engine it is held against. Nothing of ours starts a process for a decision."""

RULES: Final = ("ours", "plain")
MIDDLE: Final = 50
WARM_UP: Final = 5
PLAIN: Final = "Plain rules do not tell unknown from violated, word no feedback, and check neither input nor arguments."
DEMANDED: Final = {"allowed": True, "violated": False, "missing": False}
PAYMENT: Final = Call("modify_pending_order_payment", {"order_id": "#W1", "payment_method_id": "gift_card_1"})
JSON = dict[str, Any]


class NotMeasured(Exception):
    """A peer that could not be installed, started or trusted; the text says why."""


class NotInstalled(NotMeasured):
    """A peer that its registry does not give here."""


@dataclass
class Row:
    """One way to ask.

    Attributes:
        who: the software.
        how: how it asks.
        kind: a key of OURS.
        rules: one of RULES.
        why: what it leaves out or has at hand that makes it fast.
        samples: ledger size → milliseconds.
        verdicts: case → what it says.
    """

    who: str
    how: str
    kind: str
    rules: str = "ours"
    why: str = ""
    samples: dict[int, list[float]] = field(default_factory=lambda: {size: [] for size in SIZES})
    verdicts: dict[str, str] = field(default_factory=dict)

    @property
    def ours(self) -> bool:
        """Whether it is one of our engines."""
        return self.who == "ledgeragent"

    def p50(self, size: int) -> float:
        """Median at a ledger size."""
        return statistics.median(self.samples[size])

    def p95(self, size: int) -> float:
        """95th percentile at a ledger size."""
        return statistics.quantiles(self.samples[size], n=20)[-1]


# -- the cases ---------------------------------------------------------------------------------------------------------

Change = Callable[[str, JSON, Any], Any]
"""Tool, arguments and return of a read → another return, or None for a read not made."""


def as_is(_tool: str, _arguments: JSON, content: Any) -> Any:
    """The return as it is."""
    return content


def session_of(gate: Gate, size: int, change: Change = as_is) -> Session:
    """A session that has made the reads of latency.py, changed as told."""
    session = Session(gate, now=gate.domain.file.now)
    for tool, arguments, content in reads_of(size, change):
        observation = session.observe(session.issue(tool, arguments).call_id, content)
        if observation.problems:
            raise LedgerAgentError(f"a made-up record does not fit: {observation.problems}")
    return session


def reads_of(size: int, change: Change) -> Iterator[tuple[str, JSON, Any]]:
    """The reads, without those that were changed into None."""
    for tool, arguments, content in records(size):
        changed = change(tool, arguments, content)
        if changed is not None:
            yield tool, arguments, changed


def delivered(tool: str, arguments: JSON, content: Any) -> Any:
    """The order has been delivered: it can no longer be modified."""
    ours = tool == "get_order_details" and arguments["order_id"] == "#W1"
    return {**content, "status": "delivered"} if ours else content


def unread(_tool: str, arguments: JSON, content: Any) -> Any:
    """One of the two products was not read."""
    return None if arguments.get("product_id") == "chairs" else content


def cases(gate: Gate) -> dict[str, tuple[Session, JSON]]:
    """Name → a session of ours in that state, and the same facts for a peer.

    `stale`: after the reads, a write of the session changed what the gift card holds.
    """
    made = {f"allowed@{size}": state_of(session_of(gate, size), size) for size in SIZES}
    made[f"violated@{MIDDLE}"] = state_of(session_of(gate, MIDDLE, delivered), MIDDLE, delivered)
    made[f"missing@{MIDDLE}"] = state_of(session_of(gate, MIDDLE, unread), MIDDLE, unread)
    history = [{"tool": PAYMENT.tool, "arguments": PAYMENT.arguments, "outcome": "executed"}]
    _, facts = state_of(session_of(gate, MIDDLE), MIDDLE, history=history)
    made[f"stale@{MIDDLE}"] = paid(gate), facts
    return made


def write_cases(folder: Path) -> Path:
    """Write what peers are given into a file of a folder; gives the file."""
    with contextlib.closing(open_engine("embedded")) as engine:
        given = {name: case for name, (_, case) in cases(Gate(Domain.load("retail"), engine)).items()}
    file = folder / "cases.json"
    file.write_text(json.dumps(given), encoding="utf-8")
    return file


def paid(gate: Gate) -> Session:
    """A session whose last write drew on the gift card; what the card holds has not been read again."""
    session = session_of(gate, MIDDLE)
    (review,) = session.review([PAYMENT])
    if review.ticket is None:
        raise LedgerAgentError(f"the write that makes facts stale must be allowed: {review.message}")
    session.execute(review.ticket, lambda *_: "done")
    return session


def state_of(session: Session, size: int, change: Change = as_is, history: Sequence[JSON] = ()) -> tuple[Session, JSON]:
    """A session, and what a peer is given: the call, every fact of the ledger as read, earlier writes, the reads."""
    reads = [{"tool": tool, "arguments": arguments, "content": it} for tool, arguments, it in reads_of(size, change)]
    known = {"id": session.id, "now": session.now, "turn": session.turn, "principal": None, "rejections": 0}
    if session.principal is not None:
        known["principal"] = session.principal.model_dump()
    state = {"ledger": session.ledger.tree(), "history": list(history), "session": known}
    return session, {"tool": CALL.tool, "arguments": CALL.arguments, "state": state, "reads": reads}


# -- the policies ------------------------------------------------------------------------------------------------------


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


# -- installing --------------------------------------------------------------------------------------------------------


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


# -- asking ------------------------------------------------------------------------------------------------------------


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


Ask = Callable[[int], float]
"""Judges the allowed call once at a ledger size; milliseconds."""

Asked = tuple[Row, Ask]


def about(peer: str) -> JSON:
    """What is told about a peer."""
    return tomllib.loads((PEERS / peer / "about.toml").read_text(encoding="utf-8"))


def open_peer(
    peer: str, rules: str, environment: Path, made: Path, opa: Path, stack: ExitStack
) -> tuple[list[Asked], JSON]:
    """Start and check a peer; its rows with what to time, and its versions.

    Args:
        peer: one of NAMES.
        rules: one of RULES.
        environment: where it is installed.
        made: the file with the cases.
        opa: the executable.
        stack: ends what is started here.

    Raises:
        NotMeasured: it cannot be started, or gives a wrong verdict.
    """
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    policies = write_policies(peer, rules, folder, environment, opa)
    url = stack.enter_context(opa_server(opa, policies))
    variables = os.environ | {"OPA_URL": url, "OPA": str(opa), "PATH": f"{opa.parent}:{os.environ['PATH']}"}
    driver = Driver([*command_of(peer, environment), str(made), str(policies)], variables)
    stack.callback(driver.close)
    told = about(peer)
    rows = []
    for variant, it in told["variants"].items():
        if rules not in it.get("rules", RULES):
            continue
        row = Row(told["title"], it["how"], it["kind"], rules, it.get("why", ""))
        row.verdicts = {case: verdict_of(driver, variant, case) for case in (*DEMANDED, "stale")}
        rows.append((row, lambda size, variant=variant: float(driver.ask(variant, f"allowed@{size}")["ms"])))
    return rows, driver.versions


def command_of(peer: str, environment: Path) -> list[str]:
    """How its driver is started."""
    if peer != "ai_sdk":
        return [str(environment / "bin" / "python"), str(PEERS / peer / "driver.py")]
    shutil.copy(PEERS / peer / "driver.js", environment)
    return [str(environment / "node_modules" / "node" / "bin" / "node"), str(environment / "driver.js")]


def verdict_of(driver: Driver, variant: str, case: str) -> str:
    """What a peer says to a case, in a word or two.

    Raises:
        NotMeasured: it is not what must be said.
    """
    answer = driver.ask(variant, f"{case}@{MIDDLE}")
    if DEMANDED.get(case, answer["allowed"]) is not answer["allowed"]:
        raise NotMeasured(f"wrong verdict: {variant}, {case}: {answer['allowed']} {answer['said']}")
    return "allowed" if answer["allowed"] else f"refused: {answer['said']}"


def ours(engine: Engine, kind: str) -> list[Asked]:
    """Our own review over an engine, and the engine alone: its slice of the same facts, nothing made or checked."""
    gate = Gate(Domain.load("retail"), engine)
    gate.prove()
    review = Row("ledgeragent", f"`review`, {engine.name}", kind)
    for name, (session, _) in cases(gate).items():
        review.verdicts.setdefault(name.partition("@")[0], told(session.review([CALL])[0]))
    alone = Row("ledgeragent", f"the engine alone, {engine.name}", kind)
    timed = {size: Bench(gate, size).timed() for size in SIZES}
    return [
        (review, lambda size: timed[size]["slice", "review"]()),
        (alone, lambda size: timed[size]["slice", "evaluate"]()),
    ]


def told(review: Review) -> str:
    """Our verdict, with what decided and the reads that would settle it."""
    if review.decision is None or review.verdict == "allow":
        return review.verdict
    found = ", ".join(dict.fromkeys(finding.predicate for finding in review.decision.findings))
    reads = ", ".join(map(str, review.reads))
    return f"{review.verdict}: {found}" + (f"; read {reads}" if reads else "")


def measure(asked: Sequence[Asked], rounds: int) -> None:
    """Take the samples: in each round all rows and sizes, in another order.

    Those that start processes are asked in every fifth round only.
    """
    order = random.Random(8)
    for number in range(WARM_UP + rounds):
        for row, ask in order.sample(asked, len(asked)):
            if row.kind == "process" and number % 5:
                continue
            for size in SIZES:
                elapsed = ask(size)
                if number >= WARM_UP:
                    row.samples[size].append(elapsed)


# -- telling -----------------------------------------------------------------------------------------------------------


def ratio(row: Row, rows: Sequence[Row], size: int = MIDDLE) -> float:
    """Its median over that of our engine of its kind."""
    kind = "in process" if OURS[row.kind] == "embedded" else "server"
    return row.p50(size) / next(one for one in rows if one.ours and one.kind == kind).p50(size)


def table(rows: Sequence[Row]) -> str:
    """Times and ratios as Markdown."""
    head = ["", "rules", "asked", *(f"{size} records: p50 / p95 ms" for size in SIZES)]
    head += [f"to ours, {size}" for size in SIZES]
    body = []
    for row in rows:
        times = [f"{row.p50(size):.2f} / {row.p95(size):.2f}" for size in SIZES]
        ratios = [f"{ratio(row, rows, size):.2f}" for size in SIZES]
        body.append([row.who, row.rules, row.how, *times, *ratios])
    return markdown(head, body)


def verdicts(rows: Sequence[Row]) -> str:
    """What each says to the four cases, as Markdown."""
    names = [*DEMANDED, "stale"]
    body = [[row.who, row.rules, row.how, *(row.verdicts[name] for name in names)] for row in rows if row.verdicts]
    return markdown(
        ["", "rules", "asked", "allowed", "a rule broken", "a fact not read", "a fact overtaken by a write"], body
    )


def cannot(peers: Sequence[str]) -> str:
    """What the peers do about what a ledger and a gate are for, as Markdown."""
    told = {peer: about(peer) for peer in peers}
    columns = {
        "needed": "what it needed",
        "state": "how facts are passed",
        "rules": "which rules it can express",
        "missing": "missing facts",
        "stale": "staleness",
        "order": "writes of one message",
        "feedback": "feedback",
        "revision": "proof of revision",
        "records": "records",
    }
    body = [
        [title, *(it[key] if key in it else it["cannot"][key] for it in told.values())]
        for key, title in columns.items()
    ]
    return markdown(["", *(it["title"] for it in told.values())], body)


def faster(rows: Sequence[Row]) -> list[str]:
    """Those that beat ours at the middle size, and why, one line each."""
    return [
        f"{row.who}, {row.how}, {row.rules} rules: {ratio(row, rows):.2f} of ours at {MIDDLE} records. "
        f"{PLAIN + ' ' if row.rules == 'plain' else ''}{row.why}"
        for row in rows
        if not row.ours and ratio(row, rows) < 1
    ]


def markdown(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, ["---"] * len(head), *body))


def as_json(rows: Sequence[Row], versions: Mapping[str, JSON], left_out: Mapping[str, NotMeasured]) -> str:
    """Everything as JSON, times in milliseconds."""
    shown = [
        {
            "who": row.who,
            "how": row.how,
            "rules": row.rules,
            "kind": row.kind,
            "ms": {size: {"p50": row.p50(size), "p95": row.p95(size), "n": len(row.samples[size])} for size in SIZES},
            "to_ours": {size: ratio(row, rows, size) for size in SIZES},
            "verdicts": row.verdicts,
        }
        for row in rows
    ]
    return json.dumps(
        {
            "unit": "ms",
            "rows": shown,
            "versions": versions,
            "not_measured": {peer: str(why) for peer, why in left_out.items()},
        },
        indent=2,
    )


def report(rows: Sequence[Row], versions: Mapping[str, JSON], left_out: Mapping[str, NotMeasured]) -> str:
    """The tables, and what stands beside them."""
    parts = [table(rows), verdicts(rows), cannot([peer for peer in NAMES if peer in versions])]
    parts.append("\n".join(f"* Faster than ours: {line}" for line in faster(rows)) or "No peer is faster than ours.")
    parts += [f"Not measured: {peer}: {reason}" for peer, reason in left_out.items()]
    parts.append("\n".join(f"{who}: " + ", ".join(f"{k} {v}" for k, v in it.items()) for who, it in versions.items()))
    return "\n\n".join(parts)


def main() -> int:
    """Install, check, time, tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", action="append", choices=NAMES, help="measure only this one; can be repeated")
    parser.add_argument("--rounds", type=int, default=100, help="samples per figure, at least 10")
    parser.add_argument("--json", action="store_true", help="JSON instead of tables")
    parser.add_argument("--offline", action="store_true", help="ask no registry: only what is installed already")
    options = parser.parse_args()
    if options.rounds < 10:
        parser.error("--rounds: at least 10")
    opa = find_opa()
    if opa is None:
        print("NOT MEASURED: the peers ask a real OPA, and there is none (run `make opa`)", file=sys.stderr)
        return 1
    with ExitStack() as stack:
        asked = [
            *ours(stack.enter_context(contextlib.closing(open_engine("opa"))), "server"),
            *ours(stack.enter_context(contextlib.closing(open_engine("embedded"))), "in process"),
        ]
        versions: dict[str, JSON] = {"ledgeragent": {"python": sys.version.split()[0], "opa": opa_version(opa)}}
        left_out: dict[str, NotMeasured] = {}
        made = write_cases(Path(stack.enter_context(tempfile.TemporaryDirectory())))
        for peer in options.peer or NAMES:
            try:
                environment = install(peer, offline=options.offline)
                for rules in RULES:
                    rows, versions[peer] = open_peer(peer, rules, environment, made, opa, stack)
                    asked += rows
            except NotMeasured as reason:
                left_out[peer] = reason
                print(f"NOT MEASURED: {peer}: {reason}", file=sys.stderr)
        measure(asked, options.rounds)
    shown = sorted((row for row, _ in asked), key=lambda row: RULES.index(row.rules))
    print(as_json(shown, versions, left_out) if options.json else report(shown, versions, left_out))
    return 1 if any(not isinstance(reason, NotInstalled) for reason in left_out.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
