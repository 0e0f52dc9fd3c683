"""The gate on the host's side: asks the policy decision point and believes only an answer that proves itself.

A decision is accepted only if it fits its contract, echoes the request, lists exactly the predicates that guard the
tool, agrees with its own findings, lifts none of them but by a grant that the host gave it, and was made with policies
that were proved: before the first decision, and again for every revision of the domain or of the shared gate seen for
the first time, the domain's vectors are run against the very engine in use. Policies that are not pinned, or older than
some already seen, are refused. Everything else is a block with an error of a closed list. There is no switch for
failing open.
"""

from __future__ import annotations

import logging
import re
import secrets
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from ledgeragent.contracts import Decision, Grant, PolicyShown, SequenceShown, Verdict, described
from ledgeragent.domain import Domain
from ledgeragent.engine import Engine
from ledgeragent.engine.base import answer_of
from ledgeragent.errors import BadInput, EngineError, EngineTimeout, origin
from ledgeragent.jsonio import parse
from ledgeragent.policies import SCHEMAS

VECTORS: Final = "ledgeragent.vectors/1"
_NOT_JUDGED: Final = frozenset({"gate.input", "gate.tool", "gate.arguments"})
"""Findings after which no predicate is judged; none of them can be part of an allow."""
OWN: Final = _NOT_JUDGED | {"gate.unguarded", "gate.loop", "gate.floor", "gate.frozen"}
"""Ids of the gate itself; no override reaches them."""
NUMBERED: Final = tuple(SequenceShown.model_fields)
"""What can bear a sequence number, and so have a minimum."""
_RANK: Final[Mapping[str, int]] = {"allow": 0, "revise": 1, "block": 2}
_PROOF_SECONDS: Final = 30.0
"""A proof that takes longer fails; decisions wait for it."""
_ID: Final = re.compile(r"[a-z0-9_]+(\.[a-z0-9_]+)+")
_REVISION: Final = re.compile(r"sha256:[0-9a-f]{64}")
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


_Proved = tuple[str, str]
"""Revisions of the domain's policies and of the shared gate: what a proof holds for."""


class _NotAccepted(Exception):
    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.failure = Failure(code, message)
        self.logged: str | None = None


class Gate:
    """Judges calls of one domain with one engine. Thread-safe; serves any number of sessions."""

    def __init__(
        self,
        domain: Domain,
        engine: Engine,
        *,
        vectors: Path | None = None,
        pin: Collection[str] | None = None,
        minimum: Mapping[str, int] | None = None,
    ) -> None:
        """Prepare a gate; nothing is asked yet.

        Args:
            domain: the loaded domain.
            engine: the policy decision point.
            vectors: the domain's vectors file; default: the shipped one.
            pin: the only revisions to accept (`sha256:…`), those of the domain and of the shared gate; None: any that
                is proved.
            minimum: the least sequence number to accept of `domain`, `gate`, `overrides`, `floor` or `freeze`. Whatever
                it says, a gate never goes back behind a number that it has seen.

        Raises:
            BadInput: when there are no vectors (a gate that cannot be proved is not built), or pin or minimum could not
                be meant.
        """
        self.domain = domain
        self.engine = engine
        self._pin = _pinned(pin)
        self._minimum = _least(minimum or {})
        self._highest = dict.fromkeys(NUMBERED, 0)
        self._vectors = load_vectors(vectors or SCHEMAS / "vectors" / f"{domain.name}.json", domain)
        self._proved: set[_Proved] = set()
        self._refused: dict[_Proved, Failure] = {}
        self._under_way: Future[_Proved] | None = None
        self._lock = threading.Lock()
        self._counting = threading.Lock()

    @property
    def revisions(self) -> frozenset[str]:
        """Revisions of the domain's policies that were proved with this engine."""
        return frozenset(own for own, _ in self._proved)

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
            decision, logged = self._ask_in_force(gate_input)
            if _policies(decision) not in self._proved:
                self._prove(expected=_policies(decision))
            self._check_against(decision, gate_input)
            self._count(decision.policy.sequence)
        except _NotAccepted as error:
            return self._failed(error.failure, started, error.logged or logged)
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
            return self._proof()[0][0]
        except _NotAccepted as error:
            raise BadInput(f"{error.failure.code}: {error}") from None

    def in_use(self) -> PolicyShown:
        """Which policies the engine decides with now, freeze, floor and overrides included.

        Raises:
            EngineError: when the engine gives no answer.
            BadInput: when they are not pinned, or older than they must be.
        """
        asked = next(one["input"] for one in self._vectors if one["decision"]["verdict"] == "allow")
        try:
            return self._ask_in_force(asked)[0].policy
        except _NotAccepted as error:
            raise BadInput(f"{error.failure.code}: {error}") from None

    def _failed(self, failure: Failure, started: float, logged: str | None = None) -> Judged:
        return Judged("block", None, failure, _since(started), logged)

    def _ask_in_force(self, gate_input: Mapping[str, Any]) -> tuple[Decision, str | None]:
        """The decision, made with policies that may decide, and its id in OPA's own log."""
        decision, logged = self._ask(gate_input)
        if self._behind(decision.policy.sequence, self._highest):
            # Another thread may have seen newer policies while this answer was on its way.
            decision, logged = self._ask(gate_input)
        with _logged_as(logged):
            self._check_policy(decision.policy)
        return decision, logged

    def _ask(self, gate_input: Mapping[str, Any]) -> tuple[Decision, str | None]:
        answer = answer_of(self.engine, self.domain.name, "decision", gate_input)
        with _logged_as(answer.decision_id):
            return _asked(answer.value, gate_input), answer.decision_id

    def _check_policy(self, shown: PolicyShown) -> None:
        for what, revision in (("domain", shown.revision), ("gate", shown.gate)):
            if self._pin is not None and revision not in self._pin:
                raise _NotAccepted("decision.pin", f"the {what}'s revision in use, {_shown(revision)}, is not pinned")
        for least, why in ((self._minimum, "the minimum"), (self._highest, "a number already seen")):
            for part in self._behind(shown.sequence, least):
                raise _NotAccepted(
                    "decision.pin",
                    f"the {part} in use has sequence number {getattr(shown.sequence, part)}, "
                    f"which is below {least[part]}, {why}",
                )

    @staticmethod
    def _behind(shown: SequenceShown, least: Mapping[str, int]) -> list[str]:
        return [part for part in NUMBERED if getattr(shown, part) < least.get(part, 0)]

    def _count(self, shown: SequenceShown) -> None:
        with self._counting:
            self._highest = {part: max(seen, getattr(shown, part)) for part, seen in self._highest.items()}

    def _check_against(self, decision: Decision, gate_input: Mapping[str, Any]) -> None:
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

    def _prove(self, expected: _Proved | None) -> None:
        """Have `expected` proved, or with None whatever revision is in use."""
        if self._proved if expected is None else expected in self._proved:
            return
        for began_later in (False, True):
            _, own = self._proof()
            if expected is None or expected in self._proved:
                return
            if own or began_later:  # one that was under way may have begun before the policies came into use
                break
        raise _NotAccepted("decision.revision", "a decision came of other policies than those in use")

    def _proof(self) -> tuple[_Proved, bool]:
        """The revision proved now, and whether this caller ran the proof: those who come meanwhile share its outcome.

        One after the other, each would wait for the engine's budget again when it does not answer.
        """
        with self._lock:
            running = self._under_way
            proof = self._under_way = running or Future()
        if running is not None:
            return running.result(), False
        try:
            found = self._run_vectors()
            self._proved.add(found)
            proof.set_result(found)
        except Exception as error:
            proof.set_exception(error)
            raise
        except BaseException:  # an interrupt is this thread's alone
            proof.set_exception(_NotAccepted("host.internal", "the proof that this decision waited for was given up"))
            raise
        finally:
            with self._lock:
                self._under_way = None
        _log.info("%s: %d vectors hold for %s", self.domain.name, len(self._vectors), _revisions(found))
        return found, True

    def _run_vectors(self) -> _Proved:
        found: set[_Proved] = set()
        deadline = time.monotonic() + _PROOF_SECONDS
        for vector in self._vectors:
            if time.monotonic() > deadline:
                raise EngineTimeout(f"{self.domain.name}: the vectors could not be run within {_PROOF_SECONDS} s")
            asked = _with_own_request(vector["input"])
            decision = _as_decision(self.engine.evaluate(self.domain.name, "proof", asked))
            if not _echoes(decision, asked):
                raise _NotAccepted("decision.request", "the engine answered another request while it was being proved")
            found.add(_policies(decision))
            if _policies(decision) in self._refused:
                raise _NotAccepted("decision.proof", self._refused[_policies(decision)].message)
            answered = decision.model_dump(exclude={"request", "policy"})
            if answered != vector["decision"]:
                failure = Failure(
                    "decision.proof",
                    f"the policies in use do not decide vector {vector['name']!r} as {self.domain.name} must "
                    f"(verdict {decision.verdict}, expected {vector['decision']['verdict']}); nothing is let through",
                )
                self._refused[_policies(decision)] = failure
                raise _NotAccepted(failure.code, failure.message)
        if len(found) != 1:
            raise _NotAccepted("decision.revision", "the policies changed while they were being proved; ask again")
        return found.pop()


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


class Rehearsal:
    """Asks policies that nobody proved, for comparing them: what would they say? Nothing may run on the answer.

    The answer must be a decision on the request, as for a `Gate`; neither the vectors nor the tool's declared
    predicates are held against it, since these are what a new policy may be about to change.
    """

    def __init__(self, domain: Domain, engine: Engine) -> None:
        """Rehearse a domain's policies.

        Args:
            domain: the loaded domain.
            engine: has the policies to ask.
        """
        self.domain = domain
        self.engine = engine

    def judge(self, gate_input: Mapping[str, Any]) -> Judged:
        """What the policies say; as `Gate.judge`."""
        started = time.perf_counter()
        try:
            answer = answer_of(self.engine, self.domain.name, "decision", gate_input)
            decision = _asked(answer.value, gate_input)
        except _NotAccepted as error:
            return Judged("block", None, error.failure, _since(started))
        except EngineError as error:
            return Judged("block", None, Failure(error.code, str(error)), _since(started))
        except BadInput as error:
            return Judged("block", None, Failure("host.input", str(error)), _since(started))
        return Judged(decision.verdict, decision, None, _since(started), answer.decision_id)


def _policies(decision: Decision) -> _Proved:
    return decision.policy.revision, decision.policy.gate


def _revisions(proved: _Proved) -> str:
    return f"revision {_shown(proved[0])} with gate {_shown(proved[1])}"


def _shown(revision: str) -> str:
    """A revision for messages; what is none can be any text of an engine's."""
    return revision if _REVISION.fullmatch(revision) else "(no digest)"


@contextmanager
def _logged_as(decision_id: str | None) -> Iterator[None]:
    """What is not accepted in here has this id in OPA's own log."""
    try:
        yield
    except _NotAccepted as error:
        error.logged = decision_id
        raise


def _pinned(pin: Collection[str] | None) -> frozenset[str] | None:
    if isinstance(pin, str):
        raise BadInput("pin a set of revisions: the domain's and the gate's, not one text")
    if pin is not None and not pin:
        raise BadInput("an empty set of pins accepts nothing; give the revisions of domain and gate")
    return None if pin is None else frozenset(pin)


def _least(minimum: Mapping[str, int]) -> Mapping[str, int]:
    for part, number in minimum.items():
        if part not in NUMBERED or number < 1:
            raise BadInput(f"minimum {part!r}: {number!r}: give a number from 1 for {', '.join(NUMBERED)}")
    return dict(minimum)


def _as_decision(answer: Any) -> Decision:
    try:
        decision = Decision.model_validate(answer)
    except ValidationError as error:
        raise _NotAccepted("decision.schema", f"the answer is not a decision: {described(error)}") from None
    worst = max((_RANK[one.verdict] for one in decision.findings if one.mode == "enforce"), default=0)
    if _RANK[decision.verdict] != worst:
        raise _NotAccepted("decision.schema", f"the verdict {decision.verdict} does not follow from its findings")
    if any(one.predicate in OWN and one.mode != "enforce" for one in decision.findings):
        raise _NotAccepted("decision.schema", "a finding of the gate itself is in shadow, which nothing may do")
    if not _ids(decision) <= {*decision.predicates, *OWN}:
        raise _NotAccepted("decision.schema", "the decision has findings of predicates it does not list")
    if not _obliged(decision):
        raise _NotAccepted("decision.schema", "its obligations are not those of its findings, or lift what none lifts")
    return decision


def _obliged(decision: Decision) -> bool:
    """Whether each obligation is of a violated predicate of its own, and what is lifted is what a grant fulfils."""
    asked = [(one.predicate, "violated", "enforce" if one.grant is None else "lifted") for one in decision.obligations]
    found = [(one.predicate, one.status, one.mode) for one in decision.findings]
    lifted = [one for one in found if one[2] == "lifted"]
    return (
        len(set(asked)) == len(asked)
        and {*asked} <= {*found}
        and {*lifted} <= {*asked}
        and not any(predicate in OWN for predicate, _, _ in asked)
    )


def _with_own_request(gate_input: Mapping[str, Any]) -> Mapping[str, Any]:
    """A vector's input under a random request: an answer to another vector or an earlier proof is not its own."""
    asked = gate_input.get("request")
    return {**gate_input, "request": secrets.token_hex(16)} if isinstance(asked, str) and asked else gate_input


def _asked(answer: Any, gate_input: Mapping[str, Any]) -> Decision:
    decision = _as_decision(answer)
    if not _echoes(decision, gate_input):
        raise _NotAccepted("decision.request", "the engine answered another request")
    if not _given(decision) <= _offered(gate_input):
        raise _NotAccepted("decision.grant", "the decision lifts a finding by a grant that was not given for it")
    return decision


_Lift = tuple[str, str, str]
"""Id and kind of a grant, and a predicate that it is for."""


def _given(decision: Decision) -> set[_Lift]:
    return {(one.grant, one.kind, one.predicate) for one in decision.obligations if one.grant is not None}


def _offered(gate_input: Mapping[str, Any]) -> set[_Lift]:
    """What the grants of a gate input can lift; one that is malformed lifts nothing."""
    grants = gate_input.get("grants")
    found: set[_Lift] = set()
    for document in grants if isinstance(grants, list) else ():
        try:
            grant = Grant.model_validate(document)
        except ValidationError:
            return set()
        found |= {(grant.id, grant.kind, predicate) for predicate in grant.predicates}
    return found


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


_ANY_POLICY: Final = PolicyShown(
    revision="any", gate="any", sequence=SequenceShown(**dict.fromkeys(NUMBERED, 0))
).model_dump()


def _is_vector(one: Any) -> bool:
    if not isinstance(one, dict) or one.keys() != {"name", "input", "decision"} or not isinstance(one["input"], dict):
        return False
    try:
        Decision.model_validate({**one["decision"], "request": "", "policy": _ANY_POLICY})
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
