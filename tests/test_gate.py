"""The gate believes only an answer that proves itself; everything else is a block with a code of the closed list."""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from ledgeragent import errors
from ledgeragent import gate as gate_module
from ledgeragent.domain import Domain
from ledgeragent.engine import Engine
from ledgeragent.errors import DECISION_CODES, ENGINE_CODES, BadInput, EngineError, EngineTimeout
from ledgeragent.gate import NUMBERED, OWN, Failure, Gate, Judged
from ledgeragent.parts import domain_part, gate_part
from ledgeragent.policies import REGO
from ledgeragent.session import Session
from support import retail, toy
from support.engines import Meddled, finding
from support.toy import but
from test_jsonio import values

pytest_plugins = ["support.fixtures"]

Answer = Callable[[dict[str, Any]], Any]
GateOver = Callable[..., tuple[Gate, Meddled]]


@pytest.fixture
def cancel(session: Session) -> dict[str, Any]:
    """The gate input of a cancellation that is allowed."""
    return dict(retail.propose(session, retail.cancel()).gate_input)


@pytest.fixture
def gate_over(retail_domain: Domain, embedded: Engine) -> GateOver:
    """Makes a gate over the real engine, whose decisions (and proofs, if it says so) are meddled with."""

    def make(decision: Answer, proof: Answer = lambda answer: answer, **options: Any) -> tuple[Gate, Meddled]:
        changes = {"decision": decision, "proof": proof}
        engine = Meddled(embedded, lambda rule, answer: changes[rule](answer))
        return Gate(retail_domain, engine, **options), engine

    return make


def blocked(judged: Judged) -> str:
    """The code of a block for which there is no decision."""
    assert (judged.verdict, judged.decision) == ("block", None)
    assert judged.failure is not None
    assert judged.failure.code in (*ENGINE_CODES, *DECISION_CODES)
    assert judged.failure.message
    return judged.failure.code


def test_an_answer_that_proves_itself_is_taken(gate: Gate, cancel: dict[str, Any]) -> None:
    judged = gate.judge(cancel)
    assert judged.decision is not None
    assert (judged.verdict, judged.failure, judged.decision.request) == ("allow", None, cancel["request"])
    assert judged.decision.predicates == list(gate.domain.guarded_by("cancel_pending_order"))
    assert gate.revisions == {judged.decision.policy.revision}
    assert judged.latency_ms > 0


ONE = [finding("retail.order_owner", "block")]


def watched_by(gate_id: str) -> Answer:
    """An allow in which a finding of the gate's own is in shadow, which no policy data can put it in."""
    shadow = ("findings", [finding(gate_id, "block", "shadow")])
    nothing_judged = gate_id in ("gate.input", "gate.tool", "gate.arguments")
    return lambda answer: but(answer, shadow, *([("predicates", [])] if nothing_judged else []))


NOT_ACCEPTED: dict[str, tuple[str, Answer]] = {
    "nothing": ("decision.schema", lambda _: None),
    "true": ("decision.schema", lambda _: True),
    "the word allow": ("decision.schema", lambda _: "allow"),
    "an empty object": ("decision.schema", lambda _: {}),
    "a list of decisions": ("decision.schema", lambda answer: [answer]),
    "a verdict alone": ("decision.schema", lambda _: {"verdict": "allow"}),
    "another verdict": ("decision.schema", lambda answer: but(answer, ("verdict", "permit"))),
    "a verdict in capitals": ("decision.schema", lambda answer: but(answer, ("verdict", "ALLOW"))),
    "no verdict": ("decision.schema", lambda answer: but(answer, ("verdict", ...))),
    "an extra field": ("decision.schema", lambda answer: but(answer, ("allow", True))),
    "an extra verdict in a finding": (
        "decision.schema",
        lambda answer: but(answer, ("verdict", "block"), ("findings", [{**ONE[0], "verdict": "allow"}])),
    ),
    "another status": (
        "decision.schema",
        lambda answer: but(answer, ("verdict", "block"), ("findings", [{**ONE[0], "status": "holds"}])),
    ),
    "another mode": ("decision.schema", lambda answer: but(answer, ("findings", [{**ONE[0], "mode": "off"}]))),
    "another contract": ("decision.schema", lambda answer: but(answer, ("contract", "ledgeragent.decision/2"))),
    "no revision": ("decision.schema", lambda answer: but(answer, ("policy", {}))),
    "predicates as an object": ("decision.schema", lambda answer: but(answer, ("predicates", {}))),
    "an allow in spite of a finding": ("decision.schema", lambda answer: but(answer, ("findings", ONE))),
    "a revise where a finding blocks": (
        "decision.schema",
        lambda answer: but(answer, ("findings", ONE), ("verdict", "revise")),
    ),
    "a block without a finding": ("decision.schema", lambda answer: but(answer, ("verdict", "block"))),
    "a finding of a predicate it does not list": (
        "decision.schema",
        lambda answer: but(answer, ("verdict", "block"), ("findings", [finding("retail.other", "block")])),
    ),
    "another request": ("decision.request", lambda answer: but(answer, ("request", "another"))),
    "no request": ("decision.request", lambda answer: but(answer, ("request", ""))),
    "one predicate fewer": ("decision.predicates", lambda answer: but(answer, ("predicates/0", ...))),
    "no predicates": ("decision.predicates", lambda answer: but(answer, ("predicates", []))),
    "one predicate more": ("decision.predicates", lambda answer: but(answer, ("predicates/+", "retail.z"))),
    "a predicate twice": (
        "decision.predicates",
        lambda answer: but(answer, ("predicates/+", answer["predicates"][-1])),
    ),
    "another revision": ("decision.revision", lambda answer: but(answer, ("policy/revision", "sha256:other"))),
    "no revision at all": ("decision.revision", lambda answer: but(answer, ("policy/revision", "none"))),
    **{f"an allow that {gate_id} only watches": ("decision.schema", watched_by(gate_id)) for gate_id in sorted(OWN)},
}


@pytest.mark.parametrize("what", sorted(NOT_ACCEPTED))
def test_an_answer_that_is_not_a_decision_on_this_request_is_a_block(
    gate_over: GateOver, cancel: dict[str, Any], what: str
) -> None:
    code, decision = NOT_ACCEPTED[what]
    assert blocked(gate_over(decision)[0].judge(cancel)) == code


def test_whatever_json_is_answered_it_is_no_allow(gate_over: GateOver, cancel: dict[str, Any]) -> None:
    gate, engine = gate_over(lambda answer: answer)
    gate.prove()

    @given(values)
    def no_allow(value: Any) -> None:
        engine.change = lambda _, answer: value
        assert blocked(gate.judge(cancel)) == "decision.schema"

    no_allow()


def _unproved(answer: dict[str, Any]) -> Any:
    return but(answer, ("verdict", "allow"), ("findings", []))


def test_a_finding_in_shadow_does_not_count_and_stays_visible(gate_over: GateOver, cancel: dict[str, Any]) -> None:
    watched = finding("retail.cancel_reason", "block", "shadow")
    judged = gate_over(lambda answer: but(answer, ("findings", [watched])))[0].judge(cancel)
    assert judged.decision is not None
    assert (judged.verdict, [one.predicate for one in judged.decision.findings]) == ("allow", ["retail.cancel_reason"])


def test_a_tool_the_host_does_not_know_is_never_allowed_whatever_the_policies_say(
    gate_over: GateOver, cancel: dict[str, Any]
) -> None:
    allow: Answer = lambda answer: but(answer, ("verdict", "allow"), ("findings", []), ("predicates", []))  # noqa: E731
    judged = gate_over(allow)[0].judge(but(cancel, ("action/tool", "delete_customer")))
    assert blocked(judged) in DECISION_CODES


@pytest.mark.parametrize("code", ENGINE_CODES)
def test_an_engine_that_gives_no_answer_is_a_block_with_its_code(
    gate_over: GateOver, cancel: dict[str, Any], code: str
) -> None:
    def fail(_: Any) -> Any:
        raise EngineError("out of order", code=code)

    for answers in ((fail,), (lambda answer: answer, fail)):
        judged = gate_over(*answers)[0].judge(cancel)
        assert (blocked(judged), judged.failure) == (code, Failure(code, "out of order"))


def test_every_kind_of_engine_error_has_a_code_of_the_list() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, EngineError)]
    assert {kind.code for kind in kinds} == set(ENGINE_CODES)
    with pytest.raises(ValueError, match="not one of ENGINE_CODES"):
        EngineError("x", code="engine.odd")


@pytest.mark.parametrize("error", [RuntimeError("secret"), KeyError("x"), RecursionError(), MemoryError()])
def test_a_crash_inside_the_host_is_a_block_that_tells_no_secrets(
    gate_over: GateOver, cancel: dict[str, Any], error: Exception
) -> None:
    def crash(_: Any) -> Any:
        raise error

    judged = gate_over(crash)[0].judge(cancel)
    assert (blocked(judged), judged.failure) == (
        "host.internal",
        Failure("host.internal", f"{type(error).__name__} in the host"),
    )


@pytest.mark.parametrize("odd", ["\ud800", float("nan"), {1, 2}, "x" * 17_000_000], ids=["text", "NaN", "set", "size"])
def test_an_input_that_cannot_be_sent_is_a_block(gate: Gate, cancel: dict[str, Any], odd: Any) -> None:
    assert blocked(gate.judge(but(cancel, ("action/arguments/reason", odd)))) == "host.input"


@pytest.mark.parametrize(
    "gate_input",
    [
        {},
        {"request": "r-1"},
        {"request": "r-1", "action": []},
        {"request": "r-1", "action": {"tool": ["cancel_pending_order"]}},
        {"request": 5},
        {"request": None, "stranger": {}},
    ],
)
def test_a_malformed_input_is_blocked_by_the_policies_themselves(gate: Gate, gate_input: dict[str, Any]) -> None:
    judged = gate.judge(gate_input)
    assert judged.decision is not None, judged.failure
    assert (judged.verdict, [one.predicate for one in judged.decision.findings]) == ("block", ["gate.input"])


OVERRIDE: dict[str, Any] = {
    "predicate": "retail.cancel_reason",
    "mode": "off",
    "verdict": "",
    "owner": "o",
    "reason": "r",
    "expires": "2030-01-01T00:00:00Z",
    "applied": True,
}


# Proof before use ------------------------------------------------------------------------------------------------


def test_the_vectors_are_run_before_the_first_decision_and_not_again(
    gate_over: GateOver, cancel: dict[str, Any]
) -> None:
    gate, engine = gate_over(lambda answer: answer)
    assert (engine.asked, gate.revisions) == ([], frozenset())
    assert [gate.judge(cancel).verdict, gate.judge(cancel).verdict] == ["allow", "allow"]
    proofs = engine.asked.index("decision")
    assert engine.asked == ["proof"] * proofs + ["decision"] * 2
    assert proofs > 7


@pytest.mark.parametrize(
    "proof",
    [
        _unproved,
        lambda answer: but(answer, ("predicates", [])),
        lambda answer: but(answer, ("overrides", [OVERRIDE])),
        lambda answer: but(answer, ("obligations", [{}])),
        lambda answer: but(answer, ("request", "another")),
    ],
)
def test_policies_that_do_not_decide_the_vectors_let_nothing_through_ever(
    gate_over: GateOver, cancel: dict[str, Any], proof: Answer
) -> None:
    gate, engine = gate_over(lambda answer: answer, proof)
    for _ in range(2):
        assert blocked(gate.judge(cancel)) in ("decision.proof", "decision.schema", "decision.request")
    assert "decision" not in engine.asked
    with pytest.raises(BadInput):
        gate.prove()


def test_a_revision_that_was_refused_stays_refused_even_if_it_behaves_later(
    gate_over: GateOver, cancel: dict[str, Any]
) -> None:
    gate, engine = gate_over(lambda answer: answer, _unproved_blocks)
    assert blocked(gate.judge(cancel)) == "decision.proof"
    engine.change = lambda _, answer: answer
    assert blocked(gate.judge(cancel)) == "decision.proof"
    engine.change = lambda _, answer: but(answer, ("policy/revision", "sha256:mended"))
    assert gate.judge(cancel).verdict == "allow"
    assert gate.revisions == {"sha256:mended"}


def _unproved_blocks(answer: dict[str, Any]) -> Any:
    return _unproved(answer) if answer["verdict"] == "block" else answer


def test_a_new_revision_is_proved_before_its_first_decision_counts(gate_over: GateOver, cancel: dict[str, Any]) -> None:
    gate, engine = gate_over(lambda answer: answer)
    assert gate.judge(cancel).verdict == "allow"
    first = set(gate.revisions)
    engine.asked.clear()
    engine.change = lambda _, answer: but(answer, ("policy/revision", "sha256:second"))
    assert gate.judge(cancel).verdict == "allow"
    assert gate.revisions == first | {"sha256:second"}
    assert engine.asked[:2] == ["decision", "proof"]
    engine.change = lambda rule, answer: but(
        _unproved_blocks(answer) if rule == "proof" else answer, ("policy/revision", "sha256:third")
    )
    assert blocked(gate.judge(cancel)) == "decision.proof"
    assert gate.revisions == first | {"sha256:second"}


def test_a_revision_that_changes_while_it_is_proved_is_not_proved(gate_over: GateOver, cancel: dict[str, Any]) -> None:
    numbers = iter(range(1000))
    change: Answer = lambda answer: but(answer, ("policy/revision", f"sha256:{next(numbers)}"))  # noqa: E731
    gate, _ = gate_over(change, change)
    assert (blocked(gate.judge(cancel)), gate.revisions) == ("decision.revision", frozenset())


def test_proving_asks_the_engine_in_use_now_and_not_the_memory_of_an_earlier_proof(
    gate_over: GateOver,
) -> None:
    gate, engine = gate_over(lambda answer: answer)
    first = gate.prove()
    assert gate.revisions == {first}
    engine.change = lambda _, answer: but(answer, ("policy/revision", "sha256:second"))
    assert gate.prove() == "sha256:second"
    engine.change = lambda _, answer: but(_unproved_blocks(answer), ("policy/revision", "sha256:third"))
    with pytest.raises(BadInput, match="do not decide vector"):
        gate.prove()


def test_a_new_gate_is_proved_before_its_first_decision_counts(gate_over: GateOver, cancel: dict[str, Any]) -> None:
    gate, engine = gate_over(lambda answer: answer)
    assert gate.judge(cancel).verdict == "allow"
    engine.asked.clear()
    engine.change = lambda _, answer: but(answer, ("policy/gate", "sha256:second"))
    assert gate.judge(cancel).verdict == "allow"
    assert engine.asked[:2] == ["decision", "proof"]
    engine.change = lambda rule, answer: but(
        _unproved_blocks(answer) if rule == "proof" else answer, ("policy/gate", "sha256:third")
    )
    assert blocked(gate.judge(cancel)) == "decision.proof"


def test_a_decision_by_one_gate_and_a_proof_by_another_is_no_proof(gate_over: GateOver, cancel: dict[str, Any]) -> None:
    gate, _ = gate_over(lambda answer: but(answer, ("policy/gate", "sha256:other")))
    assert blocked(gate.judge(cancel)) == "decision.revision"


# Pins and sequence numbers ---------------------------------------------------------------------------------------


def test_only_pinned_revisions_of_domain_and_gate_decide(
    gate_over: GateOver, gate: Gate, cancel: dict[str, Any]
) -> None:
    shown = gate.in_use()
    both, more = {shown.revision, shown.gate}, {shown.revision, shown.gate, "sha256:next"}
    assert [gate_over(lambda answer: answer, pin=pin)[0].judge(cancel).verdict for pin in (both, more)] == ["allow"] * 2
    for pin in ({shown.revision}, [shown.gate], ("sha256:next",)):
        assert blocked(gate_over(lambda answer: answer, pin=pin)[0].judge(cancel)) == "decision.pin"


def numbered(**numbers: int) -> Answer:
    """A decision of policies that bear these sequence numbers."""
    changes = [(f"policy/sequence/{part}", number) for part, number in numbers.items()]
    return lambda answer: but(answer, *changes)


@pytest.mark.parametrize("part", NUMBERED)
def test_below_the_minimum_nothing_decides(gate_over: GateOver, cancel: dict[str, Any], part: str) -> None:
    for number, expected in ((0, None), (6, None), (7, "allow"), (8, "allow")):
        judged = gate_over(numbered(**{part: number}), minimum={part: 7})[0].judge(cancel)
        if expected is None:
            assert blocked(judged) == "decision.pin"
            assert judged.failure is not None
            assert judged.failure.message == (
                f"the {part} in use has sequence number {number}, which is below 7, the minimum"
            )
        else:
            assert judged.verdict == expected


@pytest.mark.parametrize("part", NUMBERED)
def test_a_gate_never_goes_back_behind_a_number_it_has_seen(
    gate_over: GateOver, cancel: dict[str, Any], part: str
) -> None:
    gate, engine = gate_over(numbered(**{part: 3}))
    assert gate.judge(cancel).verdict == "allow"
    for number, code in ((5, None), (4, "decision.pin"), (0, "decision.pin"), (5, None), (6, None)):
        engine.change = lambda _, answer, number=number: numbered(**{part: number})(answer)  # type: ignore[misc]
        judged = gate.judge(cancel)
        assert (blocked(judged) if code else judged.verdict) == (code or "allow")


def test_numbers_of_decisions_that_were_not_accepted_do_not_count(gate_over: GateOver, cancel: dict[str, Any]) -> None:
    gate, engine = gate_over(lambda answer: numbered(domain=9)(but(answer, ("predicates", []))))
    assert blocked(gate.judge(cancel)) == "decision.predicates"
    engine.change = lambda _, answer: answer
    assert gate.judge(cancel).verdict == "allow"


def test_an_answer_that_was_overtaken_is_asked_for_once_more(gate_over: GateOver, cancel: dict[str, Any]) -> None:
    numbers = iter([7, 6, 7, 6, 6])
    gate, engine = gate_over(lambda answer: numbered(domain=next(numbers))(answer))
    assert [gate.judge(cancel).verdict, gate.judge(cancel).verdict] == ["allow", "allow"]
    assert blocked(gate.judge(cancel)) == "decision.pin"
    assert engine.asked.count("decision") == 5


def test_what_is_in_use_is_said_and_held_against_pin_and_minimum(gate_over: GateOver) -> None:
    shown = gate_over(numbered(freeze=2))[0].in_use()
    assert (shown.sequence.freeze, shown.sequence.domain) == (2, 0)
    with pytest.raises(
        BadInput, match=r"^decision\.pin: the domain's revision in use, sha256:[0-9a-f]{64}, is not pinned$"
    ):
        gate_over(lambda answer: answer, pin=["sha256:other"])[0].in_use()
    with pytest.raises(BadInput, match=r"^decision\.pin: the floor in use has sequence number 0, which is below 1"):
        gate_over(lambda answer: answer, minimum={"floor": 1})[0].in_use()


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"pin": "sha256:one"}, "pin a set of revisions"),
        ({"pin": []}, "accepts nothing"),
        ({"minimum": {"retail": 1}}, "give a number from 1 for domain, gate, overrides, floor, freeze"),
        ({"minimum": {"domain": 0}}, "give a number from 1"),
    ],
)
def test_pins_and_minimums_that_could_not_be_meant_are_refused(
    gate_over: GateOver, options: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(BadInput, match=complaint):
        gate_over(lambda answer: answer, **options)


def test_many_threads_at_once_prove_once_and_agree(gate_over: GateOver, cancel: dict[str, Any]) -> None:
    gate, engine = gate_over(lambda answer: answer)
    verdicts: list[str] = []
    threads = [threading.Thread(target=lambda: verdicts.append(gate.judge(cancel).verdict)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    alone, its_engine = gate_over(lambda answer: answer)
    alone.prove()
    assert (verdicts, engine.asked.count("decision")) == (["allow"] * 8, 8)
    assert engine.asked.count("proof") == len(its_engine.asked)


class Slow:
    """An engine's answer that comes when it is told to, and then is an error."""

    def __init__(self, error: BaseException) -> None:
        self._asked = threading.Event()
        self._told = threading.Event()
        self._error = error

    def __call__(self, _: Any) -> Any:
        self._asked.set()
        self._told.wait(30)
        raise self._error

    def ends_for(self, judge: Callable[[], object], others: int) -> None:
        """Let one thread ask and `others` wait for it, then give the answer."""
        threads = [threading.Thread(target=judge) for _ in range(1 + others)]
        threads[0].start()
        self._asked.wait(30)
        for thread in threads[1:]:
            thread.start()
        while not _all_wait(threads):
            time.sleep(0.001)
        self._told.set()
        for thread in threads:
            thread.join()


def _all_wait(threads: list[threading.Thread]) -> bool:
    """Whether each thread is in a wait that does not end by itself."""
    frames = sys._current_frames()
    stacks = [traceback.extract_stack(frames[one.ident]) for one in threads if one.ident in frames]
    return len(stacks) == len(threads) and all(stack[-1].name == "wait" for stack in stacks)


def test_a_proof_that_fails_fails_everybody_who_waited_for_it_at_once(
    gate_over: GateOver, cancel: dict[str, Any]
) -> None:
    slow = Slow(EngineTimeout("no answer within 5 s"))
    gate, engine = gate_over(slow, slow)
    codes: list[str] = []
    slow.ends_for(lambda: codes.append(blocked(gate.judge(cancel))), others=7)
    assert (codes, engine.asked) == (["engine.timeout"] * 8, ["proof"])


def test_an_interrupted_proof_is_a_block_and_no_interrupt_to_those_who_waited_for_it(
    gate_over: GateOver, cancel: dict[str, Any]
) -> None:
    slow = Slow(KeyboardInterrupt())
    gate, engine = gate_over(slow, slow)
    came: list[str] = []

    def judge() -> None:
        try:
            came.append(blocked(gate.judge(cancel)))
        except KeyboardInterrupt:
            came.append("interrupted")

    slow.ends_for(judge, others=3)
    assert sorted(came) == ["host.internal"] * 3 + ["interrupted"]
    engine.change = lambda rule, answer: answer
    assert gate.judge(cancel).verdict == "allow"


def test_decisions_of_a_revision_that_is_not_in_use_share_proofs_however_many_they_are(
    gate_over: GateOver, cancel: dict[str, Any]
) -> None:
    gate, engine = gate_over(lambda answer: answer)
    gate.prove()
    once = len(engine.asked)
    engine.asked.clear()
    all_here = threading.Barrier(8)

    def other(rule: str, answer: dict[str, Any]) -> Any:
        if rule == "proof":
            time.sleep(0.001)  # so that the others come while it runs
            return answer
        all_here.wait(30)
        return but(answer, ("policy/revision", "sha256:other"))

    engine.change = other
    codes: list[str] = []
    threads = [threading.Thread(target=lambda: codes.append(blocked(gate.judge(cancel)))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert codes == ["decision.revision"] * 8
    assert engine.asked.count("proof") < 5 * once  # two, and more only for those whom a busy machine held up


def test_a_proof_that_takes_too_long_is_a_timeout(
    gate_over: GateOver, cancel: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate_module, "_PROOF_SECONDS", 0.0)
    gate, _ = gate_over(lambda answer: answer)
    assert blocked(gate.judge(cancel)) == "engine.timeout"
    monkeypatch.setattr(gate_module, "_PROOF_SECONDS", 30.0)
    assert gate.judge(cancel).verdict == "allow"


def test_an_answer_to_another_vector_or_to_an_earlier_proof_proves_nothing_and_refuses_nothing_for_ever(
    gate_over: GateOver, cancel: dict[str, Any]
) -> None:
    kept: list[Any] = []
    gate, engine = gate_over(lambda answer: answer, lambda answer: kept.append(answer) or answer)
    gate.prove()
    replayed = iter(kept[:])
    gate, engine = gate_over(lambda answer: answer, lambda answer: next(replayed))
    assert blocked(gate.judge(cancel)) == "decision.request"
    engine.change = lambda rule, answer: answer
    assert gate.judge(cancel).verdict == "allow"


# Vectors ---------------------------------------------------------------------------------------------------------


def test_a_gate_without_vectors_is_not_built(toy_domain: Domain, embedded: Engine, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no vectors to prove the policies with"):
        Gate(toy_domain, embedded)
    with pytest.raises(BadInput, match="no vectors to prove the policies with"):
        Gate(toy_domain, embedded, vectors=tmp_path)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda document: [document], "not vectors of domain 'toy'"),
        (lambda document: but(document, ("contract", ...)), "not vectors of domain 'toy'"),
        (lambda document: but(document, ("domain", "retail")), "not vectors of domain 'toy'"),
        (lambda document: but(document, ("vectors", ...)), "vectors"),
        (lambda document: but(document, ("vectors", {})), "vectors"),
        (lambda document: but(document, ("vectors", [])), "at least one allow, one revise and one block"),
        (lambda document: but(document, ("vectors/1", ...)), "at least one allow, one revise and one block"),
        (lambda document: but(document, ("vectors/2", ...)), "at least one allow, one revise and one block"),
        (lambda document: but(document, ("vectors/0/decision", ...)), "vectors"),
        (lambda document: but(document, ("vectors/0/input", [])), "vectors"),
        (lambda document: but(document, ("vectors/0", "allow")), "vectors"),
        (lambda document: but(document, ("vectors/0/name", ...)), "vectors"),
        (lambda document: but(document, ("vectors/0/input/action/tool", "wait")), "no allowed vector for pay"),
    ],
)
def test_vectors_that_prove_too_little_or_cannot_be_read_are_refused(
    toy_domain: Domain, tmp_path: Path, change: Callable[[Any], Any], complaint: str
) -> None:
    assert toy.gate(toy_domain, tmp_path).prove() == "sha256:told"
    with pytest.raises(BadInput, match=complaint):
        toy.gate(toy_domain, tmp_path, change)


@pytest.mark.parametrize("content", [b"{", b'{"a": 1, "a": 1}', b"\xff\xfe"])
def test_vectors_that_are_no_json_are_refused(
    toy_domain: Domain, embedded: Engine, tmp_path: Path, content: bytes
) -> None:
    file = tmp_path / "vectors.json"
    file.write_bytes(content)
    with pytest.raises(BadInput, match=r"vectors\.json"):
        Gate(toy_domain, embedded, vectors=file)


def test_the_shipped_vectors_hold_for_the_shipped_policies(gate: Gate) -> None:
    assert gate.prove() == domain_part(REGO, gate.domain).revision
    assert gate.in_use().gate == gate_part(REGO).revision
