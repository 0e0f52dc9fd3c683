"""The gate on the host's side: asks the policy decision point and believes only an answer that proves itself.

A decision is accepted only if it fits its contract, echoes the request, lists exactly the predicates that guard the
tool, agrees with its own findings, and carries a revision that was proved: before the first decision, and again for
every revision seen for the first time, the domain's vectors are run against the very engine in use. Everything else is
a block with an error of a closed list. There is no switch for failing open.
"""

from __future__ import annotations

import logging
import re
import secrets
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from ledgeragent.contracts import Decision, Verdict, described
from ledgeragent.domain import Domain
from ledgeragent.engine import Engine
from ledgeragent.engine.base import answer_of
from ledgeragent.errors import BadInput, EngineError, EngineTimeout, origin
from ledgeragent.jsonio import parse
from ledgeragent.policies import SCHEMAS

VECTORS: Final = "ledgeragent.vectors/1"
_NOT_JUDGED: Final = frozenset({"gate.input", "gate.tool", "gate.arguments"})
"""Findings after which no predicate is judged; none of them can be part of an allow."""
_OWN: Final = _NOT_JUDGED | {"gate.unguarded", "gate.loop"}
"""Ids of the gate itself; no override reaches them."""
_RANK: Final[Mapping[str, int]] = {"allow": 0, "revise": 1, "block": 2}
_PROOF_SECONDS: Final = 30.0
"""A proof that takes longer fails; decisions wait for it."""
_ID: Final = re.compile(r"[a-z0-9_]+(\.[a-z0-9_]+)+")
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Failure:
    """Why no decision could be accepted: a code of the closed list in `errors`, and words for people."""

    code: str
    message: str


@dataclass(frozen=True)
class Judged:
    """What came of asking the gate.

    Attributes:
        verdict: the decision's, or `block` when there is none.
        decision: the accepted decision, or None.
        failure: why there is none.
        latency_ms: time spent asking and checking, in milliseconds.
        decision_id: the id of this decision in OPA's own log, where OPA keeps one.
    """

    verdict: Verdict
    decision: Decision | None
    failure: Failure | None
    latency_ms: float
    decision_id: str | None = None


class _NotAccepted(Exception):
    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.failure = Failure(code, message)


class Gate:
    """Judges calls of one domain with one engine. Thread-safe; serves any number of sessions."""

    def __init__(self, domain: Domain, engine: Engine, *, vectors: Path | None = None, pin: str | None = None) -> None:
        """Prepare a gate; nothing is asked yet.

        Args:
            domain: the loaded domain.
            engine: the policy decision point.
            vectors: the domain's vectors file; default: the shipped one.
            pin: the only revision to accept (`sha256:…`), or None.

        Raises:
            BadInput: when there are no vectors: a gate that cannot be proved is not built.
        """
        self.domain = domain
        self.engine = engine
        self._pin = pin
        self._vectors = load_vectors(vectors or SCHEMAS / "vectors" / f"{domain.name}.json", domain)
        self._proved: set[str] = set()
        self._refused: dict[str, Failure] = {}
        self._under_way: Future[str] | None = None
        self._lock = threading.Lock()

    @property
    def revisions(self) -> frozenset[str]:
        """Revisions that were proved with this engine."""
        return frozenset(self._proved)

    def judge(self, gate_input: Mapping[str, Any]) -> Judged:
        """Ask for one decision.

        Args:
            gate_input: a gate input as its contract has it.

        Returns:
            The accepted decision, or a block that says what was wrong. Never raises for anything the engine does.
        """
        started = time.perf_counter()
        logged: str | None = None
        try:
            if not self._proved:
                self._prove(expected=None)
            answer = answer_of(self.engine, self.domain.name, "decision", gate_input)
            logged = answer.decision_id
            decision = _asked(answer.value, gate_input)
            if decision.policy.revision not in self._proved:
                self._prove(expected=decision.policy.revision)
            self._check_against(decision, gate_input)
        except _NotAccepted as error:
            return self._failed(error.failure, started, logged)
        except EngineError as error:
            return self._failed(Failure(error.code, str(error)), started)
        except BadInput as error:
            return self._failed(Failure("host.input", str(error)), started)
        except Exception as error:  # noqa: BLE001 - whatever breaks must end as a block, not as a way around the gate
            _log.error("the gate failed: %s", origin(error))
            return self._failed(Failure("host.internal", f"{type(error).__name__} in the host"), started)
        return Judged(decision.verdict, decision, None, _since(started), logged)

    def prove(self) -> str:
        """Run the vectors now and give the revision they hold for.

        Raises:
            EngineError: when the engine gives no answer.
            BadInput: when a vector does not hold; the message names the first.
        """
        try:
            return self._proof()[0]
        except _NotAccepted as error:
            raise BadInput(str(error)) from None

    def _failed(self, failure: Failure, started: float, logged: str | None = None) -> Judged:
        return Judged("block", None, failure, _since(started), logged)

    def _check_against(self, decision: Decision, gate_input: Mapping[str, Any]) -> None:
        if self._pin is not None and decision.policy.revision != self._pin:
            raise _NotAccepted("decision.pin", f"the decision was not made with {self._pin}, which alone is accepted")
        tool = _tool(gate_input)
        if decision.verdict == "allow" and tool not in self.domain.tools:
            raise _NotAccepted("decision.predicates", "the tool is not declared here, yet the decision allows it")
        expected = () if _NOT_JUDGED & _ids(decision) else self.domain.guarded_by(tool)
        if tuple(decision.predicates) != tuple(expected):
            raise _NotAccepted(
                "decision.predicates",
                f"the predicates {_names(expected)} must be judged for this call; the decision lists "
                f"{_names(decision.predicates)}",
            )

    def _prove(self, expected: str | None) -> None:
        """Have `expected` proved, or with None whatever revision is in use."""
        while not (self._proved if expected is None else expected in self._proved):
            revision, own = self._proof()
            if own and expected not in (None, revision):
                raise _NotAccepted("decision.revision", "a decision came of another revision than the one in use")

    def _proof(self) -> tuple[str, bool]:
        """The revision proved now, and whether this caller ran the proof: those who come meanwhile share its outcome.

        One after the other, each would wait for the engine's budget again when it does not answer.
        """
        with self._lock:
            running = self._under_way
            proof = self._under_way = running or Future()
        if running is not None:
            return running.result(), False
        try:
            revision = self._run_vectors()
            self._proved.add(revision)
            proof.set_result(revision)
        except Exception as error:
            proof.set_exception(error)
            raise
        except BaseException:  # an interrupt is this thread's alone
            proof.set_exception(_NotAccepted("host.internal", "the proof that this decision waited for was given up"))
            raise
        finally:
            with self._lock:
                self._under_way = None
        _log.info("%s: %d vectors hold for revision %s", self.domain.name, len(self._vectors), revision)
        return revision, True

    def _run_vectors(self) -> str:
        revisions: set[str] = set()
        deadline = time.monotonic() + _PROOF_SECONDS
        for vector in self._vectors:
            if time.monotonic() > deadline:
                raise EngineTimeout(f"{self.domain.name}: the vectors could not be run within {_PROOF_SECONDS} s")
            asked = _with_own_request(vector["input"])
            decision = _as_decision(self.engine.evaluate(self.domain.name, "proof", asked))
            if not _echoes(decision, asked):
                raise _NotAccepted("decision.request", "the engine answered another request while it was being proved")
            revisions.add(decision.policy.revision)
            if decision.policy.revision in self._refused:
                raise _NotAccepted("decision.proof", self._refused[decision.policy.revision].message)
            answered = decision.model_dump(exclude={"request", "policy"})
            if answered != vector["decision"]:
                failure = Failure(
                    "decision.proof",
                    f"the policies in use do not decide vector {vector['name']!r} as {self.domain.name} must "
                    f"(verdict {decision.verdict}, expected {vector['decision']['verdict']}); nothing is let through",
                )
                self._refused[decision.policy.revision] = failure
                raise _NotAccepted(failure.code, failure.message)
        if len(revisions) != 1:
            raise _NotAccepted("decision.revision", "the revision changed while it was being proved; ask again")
        return revisions.pop()


class ShadowGate:
    """Judges as a gate does and lets every call through: for a roll-out, and to measure what enforcing would change.

    It is another class than `Gate`, not a setting of it: whoever holds a `Gate` enforces. Every record it leads to says
    `enforced: false`.
    """

    def __init__(self, gate: Gate) -> None:
        """Shadow a gate; says so in the log.

        Args:
            gate: judges; what it answers is only recorded.
        """
        self.domain = gate.domain
        self.engine = gate.engine
        self._gate = gate
        _log.warning("SHADOW: calls of domain %s are judged and recorded, none is held back", gate.domain.name)

    def judge(self, gate_input: Mapping[str, Any]) -> Judged:
        """What the gate says; as `Gate.judge`."""
        return self._gate.judge(gate_input)


def _as_decision(answer: Any) -> Decision:
    try:
        decision = Decision.model_validate(answer)
    except ValidationError as error:
        raise _NotAccepted("decision.schema", f"the answer is not a decision: {described(error)}") from None
    worst = max((_RANK[one.verdict] for one in decision.findings if one.mode == "enforce"), default=0)
    if _RANK[decision.verdict] != worst:
        raise _NotAccepted("decision.schema", f"the verdict {decision.verdict} does not follow from its findings")
    if any(one.predicate in _OWN and one.mode != "enforce" for one in decision.findings):
        raise _NotAccepted("decision.schema", "a finding of the gate itself is in shadow, which nothing may do")
    if not _ids(decision) <= {*decision.predicates, *_OWN}:
        raise _NotAccepted("decision.schema", "the decision has findings of predicates it does not list")
    return decision


def _with_own_request(gate_input: Mapping[str, Any]) -> Mapping[str, Any]:
    """A vector's input under a random request: an answer to another vector or an earlier proof is not its own."""
    asked = gate_input.get("request")
    return {**gate_input, "request": secrets.token_hex(16)} if isinstance(asked, str) and asked else gate_input


def _asked(answer: Any, gate_input: Mapping[str, Any]) -> Decision:
    decision = _as_decision(answer)
    if not _echoes(decision, gate_input):
        raise _NotAccepted("decision.request", "the engine answered another request")
    return decision


def _echoes(decision: Decision, gate_input: Mapping[str, Any]) -> bool:
    """Whether it answers this request; a malformed one has no text to echo."""
    asked = gate_input.get("request")
    return decision.request == (asked if isinstance(asked, str) else "")


def _tool(gate_input: Mapping[str, Any]) -> str:
    action = gate_input.get("action")
    return str(action.get("tool", "")) if isinstance(action, Mapping) else ""


def load_vectors(path: Path, domain: Domain) -> Sequence[Mapping[str, Any]]:
    """Read a domain's vectors.

    Raises:
        BadInput: when the file is not there, is of another domain, or has no allow, no revise or no block.
    """
    try:
        document = parse(path.read_text(encoding="utf-8"), what=str(path), limit=10_000_000)
    except (OSError, UnicodeError) as error:
        raise BadInput(f"no vectors to prove the policies with: {path}: {error}") from None
    head = (document.get("contract"), document.get("domain")) if isinstance(document, dict) else ()
    if head != (VECTORS, domain.name):
        raise BadInput(f"{path}: not vectors of domain {domain.name!r} under contract {VECTORS!r}")
    found = document.get("vectors")
    if not isinstance(found, list) or not all(_is_vector(one) for one in found):
        raise BadInput(f"{path}: vectors must be a list of objects with a name, an input and the decision on it")
    vectors: list[dict[str, Any]] = found
    verdicts = {vector["decision"]["verdict"] for vector in vectors}
    if verdicts != {"allow", "revise", "block"}:
        raise BadInput(f"{path}: vectors must hold at least one allow, one revise and one block")
    unproved = {name for name in domain.tools if domain.is_write(name)} - _tools_of(vectors)
    if unproved:
        raise BadInput(f"{path}: no allowed vector for {', '.join(sorted(unproved))}")
    return vectors


def _tools_of(vectors: Sequence[Mapping[str, Any]]) -> set[str]:
    return {_tool(one["input"]) for one in vectors if one["decision"]["verdict"] == "allow"}


def _is_vector(one: Any) -> bool:
    if not isinstance(one, dict) or one.keys() != {"name", "input", "decision"} or not isinstance(one["input"], dict):
        return False
    try:
        Decision.model_validate({**one["decision"], "request": "", "policy": {"revision": "any"}})
    except (TypeError, ValidationError):
        return False
    return isinstance(one["name"], str)


def _ids(decision: Decision) -> set[str]:
    return {finding.predicate for finding in decision.findings}


def _names(ids: Sequence[str]) -> str:
    # What has not the form of an id is no id, and nobody knows what else it is.
    return ", ".join(one if _ID.fullmatch(one) else "(no id)" for one in ids) or "(none)"


def _since(started: float) -> float:
    return round((time.perf_counter() - started) * 1000, 3)
