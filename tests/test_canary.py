"""A canary in every field: what the gate judges, what engines answer, what fails. It must be in no log of ours.

The sinks: records in each form but the one that keeps everything, what our loggers write, and the words and traces of
every error that can leave the package. OPA's own log is `tests/opa/test_masks.py`'s part. What the model and the user
are told is no log.
"""

from __future__ import annotations

import hashlib
import json
import logging
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ledgeragent import policies
from ledgeragent.contracts import RECORD, DecisionRecord, EngineShown, GateInput, OutcomeRecord, Principal
from ledgeragent.conversation import read_conversation
from ledgeragent.domain import Domain
from ledgeragent.engine import Engine, OpaServer
from ledgeragent.errors import (
    DECISION_CODES,
    ENGINE_CODES,
    EngineTimeout,
    LedgerAgentError,
    ModelError,
    origin,
    shown_id,
)
from ledgeragent.gate import Gate, ShadowGate
from ledgeragent.jsonio import parse
from ledgeragent.ledger import Ledger
from ledgeragent.loop import Admitted, Loop
from ledgeragent.models.openai import OpenAIModel
from ledgeragent.records import JsonlRecorder, Record, Redact, parse_record, wall_clock
from ledgeragent.redact import Encrypted, Pseudonyms, Redacted
from ledgeragent.sealing import PublicKey, make_keys
from ledgeragent.session import Call, Session, Ticket
from ledgeragent.sessions.seal import Seal
from scripted import http_answer, says, scripted
from support import retail
from support.canary import CANARY, disguised, one_by_one, overrun, vectors
from support.chat_server import Answer, ChatServer
from support.engines import Meddled
from support.retail import cancel, propose

pytest_plugins = ["support.fixtures"]

PERSON = Principal(id=f"1.{CANARY}", source="host", claims={CANARY: [CANARY, {"mail": CANARY}]})


@pytest.fixture
def forms(tmp_path: Path) -> dict[str, Redact]:
    """Every form that hides something, for all shipped domains."""
    make_keys(tmp_path / "private.pem", tmp_path / "public.pem")
    domains = [Domain.load(name) for name in policies.domains()]
    return {
        "redacted": Redacted(*domains),
        "pseudonyms": Pseudonyms(*domains, key=b"k" * 32),
        "encrypted": Encrypted(*domains, key=PublicKey.load(tmp_path / "public.pem")),
    }


@pytest.fixture(autouse=True)
def _no_log_holds_it(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Whatever a test here does, our loggers stay clean down to DEBUG."""
    with caplog.at_level(logging.DEBUG, logger="ledgeragent"):
        yield
    assert CANARY not in caplog.text


def words(error: BaseException) -> str:
    """What of an error can get into a log: its words, its trace, and those of what caused it."""
    return "".join(traceback.format_exception(error)) + str(error) + repr(error)


def planted(domain: Domain, gate_input: Any) -> Iterator[Any]:
    """The case about other people; with a canary everywhere; and with one in each field by turns."""
    yield disguised(domain, gate_input)
    yield overrun(gate_input)
    yield from one_by_one(gate_input)


def some_of_each_verdict(found: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for verdict in ("allow", "revise", "block"):
        yield from [one for one in found if one["decision"]["verdict"] == verdict][::15]


def written(folder: Path, forms: dict[str, Redact | None], records: list[Record]) -> dict[str, bytes]:
    """What each form leaves in its file."""
    for name, form in forms.items():
        recorder = JsonlRecorder(folder / name, form)
        for record in records:
            recorder.write(record)
        recorder.close()
    return {name: (folder / name).read_bytes() for name in forms}


def recorded(gate: Gate, gate_input: Any) -> list[Record]:
    """A decision's record and an outcome's, as a session under these ids would write them."""
    judged = gate.judge(gate_input)
    try:
        asked = GateInput.model_validate_json(json.dumps(gate_input))
    except ValueError:
        return []  # no session makes this; the session tests below see to what becomes of odd calls
    return [
        DecisionRecord(
            contract=RECORD,
            kind="decision",
            at=wall_clock(),
            session=f"s.{CANARY}",
            call_id=CANARY,
            input=asked,
            decision=judged.decision,
            error=judged.failure.code if judged.failure is not None else None,
            verdict=judged.verdict,
            enforced=True,
            revision=judged.decision.policy.revision if judged.decision is not None else "",
            engine=EngineShown(name=gate.engine.name, version=gate.engine.version, decision_id=CANARY),
            ledger_digest=CANARY,
            latency_ms=judged.latency_ms,
        ),
        OutcomeRecord(
            contract=RECORD,
            kind="outcome",
            at=wall_clock(),
            session=CANARY,
            call_id=CANARY,
            request=CANARY,
            outcome="uncertain",
        ),
    ]


# Records ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", policies.domains())
def test_no_record_that_hides_anything_holds_it(
    name: str, embedded: Engine, forms: dict[str, Redact], tmp_path: Path
) -> None:
    domain = Domain.load(name)
    gate = Gate(domain, embedded)
    records: list[Record] = []
    for vector in some_of_each_verdict(vectors(name)):
        for asked in planted(domain, vector["input"]):
            records += recorded(gate, asked)
    assert {one.verdict for one in records if isinstance(one, DecisionRecord)} == {"allow", "revise", "block"}
    assert any(CANARY in finding.message for finding in _findings(records))
    found = written(tmp_path, {**forms, "as it is": None}, records)
    assert {form for form, text in found.items() if CANARY.encode() in text} == {"as it is"}
    assert {form: text.count(b"\n") for form, text in found.items()} == dict.fromkeys(found, len(records))


def _findings(records: list[Record]) -> Iterator[Any]:
    for record in records:
        if isinstance(record, DecisionRecord) and record.decision is not None:
            yield from record.decision.findings


def test_a_session_of_a_person_leaves_it_in_no_record(gate: Gate, forms: dict[str, Redact], tmp_path: Path) -> None:
    """The whole way: ids, principal, claims, returns, keys, odd calls, an admitted one and its outcome."""
    for name, form in [*forms.items(), ("as it is", None)]:
        recorder = JsonlRecorder(tmp_path / name, form)
        session = Session(gate, now=retail.NOW, principal=PERSON, session_id=CANARY, recorder=recorder)
        order = {**retail.order("#W1", "pending", user_id=PERSON.id), "note": CANARY}
        for tool, arguments, content in [
            ("get_order_details", {"order_id": "#W1"}, order),
            ("get_order_details", {"order_id": CANARY}, {**order, "order_id": CANARY}),
            ("get_user_details", {"user_id": PERSON.id}, {"name": CANARY}),
            ("find_user_id_by_email", {"email": CANARY}, CANARY),
        ]:
            session.observe(session.issue(tool, arguments, f"{tool}.{CANARY}").call_id, json.dumps(content))
        calls = [
            cancel("#W1", call_id=CANARY),
            cancel(CANARY, CANARY, CANARY),
            Call("cancel_pending_order", f'{{"{CANARY}": ', CANARY),
            Call("cancel_pending_order", f'{{"{CANARY}": 1, "{CANARY}": 2}}', CANARY),
            Call("cancel_pending_order", {CANARY: {CANARY: CANARY}}, CANARY),
            Call(CANARY, {CANARY: CANARY}, CANARY),
            Call("modify_user_address", {"user_id": PERSON.id, "address1": CANARY}, CANARY),
        ]
        reviews = session.review(calls)
        for review in reviews:
            if review.ticket is not None:
                session.execute(review.ticket, lambda tool, arguments: CANARY)
        session.close(CANARY)
        recorder.close()
        assert (CANARY.encode() in (tmp_path / name).read_bytes()) is (name == "as it is")
        assert len((tmp_path / name).read_bytes().splitlines()) >= len(calls)


# Engines ---------------------------------------------------------------------------------------------------------


def answer(body: str, status: str = "200 OK") -> bytes:
    return http_answer(body.encode(), status)


GARBAGE = [
    answer(CANARY),
    answer(f"<html>{CANARY}</html>"),
    answer(f'{{"result": {{"verdict": "{CANARY}'),
    answer(f'{{"{CANARY}": 1, "{CANARY}": 2}}'),
    answer(f'["{CANARY}"]'),
    answer(f'{{"result": "{CANARY}"}}'),
    answer(f'{{"result": {{"{CANARY}": "{CANARY}"}}}}'),
    answer(json.dumps({"result": {"contract": CANARY, "request": CANARY, "verdict": CANARY, "findings": [CANARY]}})),
    answer(json.dumps({"decision_id": CANARY, "result": 1, "provenance": {"version": CANARY}})),
    answer(
        json.dumps({"code": CANARY, "message": CANARY, "errors": [{"message": CANARY}]}), "500 Internal Server Error"
    ),
    answer(json.dumps({"code": "internal_error", "message": CANARY, "errors": [{"code": CANARY}]}), "500 Error"),
    answer(CANARY, "400 Bad Request"),
    answer(CANARY, f"404 {CANARY}"),
    answer(CANARY, "401 Unauthorized"),
    answer(CANARY, "302 Found"),
    f"{CANARY}\r\n\r\n".encode(),
    f"HTTP/1.1 {CANARY}\r\n\r\n".encode(),
    f"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{CANARY}\r\n".encode(),
    f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(CANARY)}\r\n\r\n{CANARY}".encode(),
    f"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{CANARY}".encode(),
    f"HTTP/1.1 200 OK\r\n{CANARY}\r\n\r\n".encode(),
    b"\xff" + CANARY.encode(),
    b"",
]


@pytest.mark.parametrize("garbage", GARBAGE, ids=range(len(GARBAGE)))
def test_an_engine_that_answers_with_it_is_not_quoted(
    retail_domain: Domain, forms: dict[str, Redact], tmp_path: Path, garbage: bytes
) -> None:
    asked = disguised(retail_domain, vectors("retail")[0]["input"])
    with scripted(says(garbage)) as server, OpaServer(server.url, timeout=5) as engine:
        gate = Gate(retail_domain, engine)
        judged = gate.judge(asked)
        with pytest.raises(LedgerAgentError) as caught:
            gate.prove()
        found = written(tmp_path, {**forms}, recorded(gate, asked))
    assert judged.failure is not None
    assert judged.failure.code in {*ENGINE_CODES, *DECISION_CODES}
    assert CANARY not in judged.failure.message + words(caught.value)
    assert {form for form, text in found.items() if CANARY.encode() in text} == set()


def said(change: Callable[[dict[str, Any]], Any]) -> Callable[[str, dict[str, Any]], Any]:
    """Answers every decision changed, and the proof as it is."""
    return lambda rule, decision: change(decision) if rule == "decision" else decision


def fails(error: BaseException) -> Callable[[dict[str, Any]], Any]:
    def change(_: dict[str, Any]) -> Any:
        raise error

    return change


@pytest.mark.parametrize(
    "change",
    [
        lambda decision: CANARY,
        lambda decision: {**decision, "request": CANARY},
        lambda decision: {**decision, "predicates": [CANARY]},
        lambda decision: {**decision, "verdict": CANARY},
        lambda decision: {**decision, "policy": {**decision["policy"], "revision": CANARY}},
        lambda decision: {**decision, CANARY: CANARY},
        lambda decision: {**decision, "findings": [{CANARY: CANARY}]},
        fails(EngineTimeout("no complete answer within 5 s")),
        fails(KeyError(CANARY)),
        fails(ValueError(f"{CANARY} is no value")),
        fails(RecursionError(CANARY)),
    ],
)
def test_a_decision_that_is_not_accepted_or_fails_is_not_quoted(
    retail_domain: Domain, embedded: Engine, caplog: pytest.LogCaptureFixture, change: Callable[[dict[str, Any]], Any]
) -> None:
    gate = Gate(retail_domain, Meddled(embedded, said(change)))  # type: ignore[arg-type]
    judged = gate.judge(disguised(retail_domain, vectors("retail")[0]["input"]))
    assert (judged.verdict, judged.decision) == ("block", None)
    assert judged.failure is not None
    assert CANARY not in judged.failure.message
    assert CANARY not in caplog.text


def test_an_input_that_cannot_be_sent_is_not_quoted(gate: Gate) -> None:
    for odd in ({CANARY: {CANARY}}, {"request": f"{CANARY}\ud800"}, {"x": float("nan"), CANARY: 1}):
        judged = gate.judge(odd)
        assert judged.failure is not None
        assert CANARY not in judged.failure.message


def test_the_log_of_an_unexpected_failure_names_its_type_and_place(
    retail_domain: Domain, embedded: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    gate = Gate(retail_domain, Meddled(embedded, said(fails(KeyError(CANARY)))))  # type: ignore[arg-type]
    gate.judge(vectors("retail")[0]["input"])
    [line] = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
    assert line.startswith("the gate failed: KeyError at test_canary.py:")
    assert origin(KeyError(CANARY)) == "KeyError"


MODEL_ANSWERS = [
    Answer(CANARY, status=400),
    Answer(CANARY, status=503),
    Answer(body=CANARY.encode(), headers={"Content-Type": "application/json"}),
    Answer(body=json.dumps({"choices": [{"message": {"content": {CANARY: CANARY}}}]}).encode()),
    Answer(body=f"data: {CANARY}\n\n".encode()),
    Answer(body=f'data: {{"error": {{"message": "{CANARY}"}}}}\n\n'.encode()),
    Answer(CANARY, cut_after=2),
]


@pytest.mark.parametrize("answer", MODEL_ANSWERS, ids=range(len(MODEL_ANSWERS)))
def test_a_models_endpoint_that_says_it_is_not_quoted_in_the_message(answer: Answer) -> None:
    with (
        ChatServer(lambda *_: answer) as server,
        OpenAIModel("scripted", base_url=server.url, retries=0) as model,
        pytest.raises(ModelError) as caught,
    ):
        model.generate([{"role": "user", "content": CANARY}], [])
    assert CANARY not in words(caught.value)


# Errors ----------------------------------------------------------------------------------------------------------


TICKET = Ticket(CANARY, CANARY, CANARY, CANARY, CANARY)


def _twice(session: Session) -> None:
    session.issue("get_order_details", {"order_id": CANARY}, CANARY)
    session.issue("get_order_details", {"order_id": CANARY}, CANARY)


def _another_person(session: Session) -> None:
    session.identify(Principal(id=f"2.{CANARY}", source="host"))


def _spoilt(change: Callable[[Any], None]) -> Callable[[Session], None]:
    """A ledger read back from a text in which something was changed."""

    def read(session: Session) -> None:
        text = json.dumps(session.ledger.to_json())
        document = json.loads(text)
        change(document)
        Ledger.from_json(document, session.domain)

    return read


def _set(place: tuple[Any, ...], value: Any) -> Callable[[Any], None]:
    def change(document: Any) -> None:
        for key in place[:-1]:
            document = document[key]
        document[place[-1]] = value

    return change


RAISES: list[Callable[[Session], Any]] = [
    lambda session: session.issue(CANARY, {}),
    lambda session: session.issue("get_order_details", f'{{"{CANARY}": '),
    lambda session: session.issue("get_order_details", f'{{"{CANARY}": 1, "{CANARY}": 2}}'),
    lambda session: session.issue("get_order_details", [CANARY]),
    lambda session: session.issue("get_order_details", {CANARY: {CANARY}}),
    lambda session: session.issue("get_order_details", {CANARY: f"{CANARY}\ud800"}),
    _twice,
    lambda session: session.observe(CANARY, CANARY),
    lambda session: session.redeem(TICKET),
    lambda session: session.report(TICKET, "executed", CANARY),
    lambda session: session.set_clock(CANARY),
    _another_person,
    lambda session: Session(session.gate, now=CANARY),
    lambda session: Principal.model_validate({"id": CANARY, "source": CANARY}),
    lambda session: GateInput.model_validate({"ledger": CANARY, "history": [CANARY]}),
    lambda session: Loop(session, ()).start(Admitted(CANARY, CANARY, {CANARY: CANARY}, None)),
    lambda session: parse(f'{{"{CANARY}"', what="a return"),
    lambda session: parse_record(json.dumps({"kind": CANARY, CANARY: CANARY}), place="line 1"),
    lambda session: read_conversation(json.dumps({"id": 1, "messages": CANARY}), place="line 1"),
    _spoilt(_set(("records", 0, "path"), ["users", CANARY])),
    _spoilt(_set(("records", 0, "path"), [CANARY])),
    _spoilt(_set(("records", 0, "path"), CANARY)),
    _spoilt(_set(("records", 0, "value"), {CANARY: CANARY})),
    _spoilt(_set(("records", 0, "value"), CANARY)),
    _spoilt(_set(("records", 0, "provenance", CANARY), CANARY)),
    _spoilt(_set(("records", 0, "provenance", "turn"), CANARY)),
    _spoilt(_set(("marks",), [{"pattern": [CANARY], "write": 1, "known": None}])),
    _spoilt(_set(("domain",), CANARY)),
    _spoilt(_set(("digest",), CANARY)),
    lambda session: Session.from_json({**session.to_json(), "id": 5, CANARY: CANARY}, session.gate),
    lambda session: Session.from_json({**session.to_json(), "issued": [_under_way(CANARY)]}, session.gate),
    lambda session: Session.from_json({**session.to_json(), "issued": [_under_way("x", CANARY)]}, session.gate),
    lambda session: Seal([b"k" * 32]).open(CANARY.encode() * 4, CANARY),
]


def _under_way(tool: str, argument: Any = 2**60) -> dict[str, Any]:
    """A read as a saved session has it."""
    arguments = {CANARY: argument}
    return {"call_id": CANARY, "tool": tool, "arguments": arguments, "issued": 0, "proves": True}


@pytest.mark.parametrize("raises", RAISES, ids=range(len(RAISES)))
def test_no_error_that_leaves_the_package_quotes_it(gate: Gate, raises: Callable[[Session], Any]) -> None:
    session = Session(gate, now=retail.NOW, principal=PERSON, session_id=CANARY)
    retail.read_order(session)
    retail.read_profile(session)
    with pytest.raises((LedgerAgentError, ValueError)) as caught:
        raises(session)
    assert CANARY not in words(caught.value)


def test_what_no_record_fits_is_not_quoted(gate: Gate, tmp_path: Path) -> None:
    recorder = JsonlRecorder(tmp_path / "records.jsonl")
    session = Session(gate, now=retail.NOW, principal=PERSON, session_id=CANARY, recorder=recorder)
    review = propose(session, Call(f"{CANARY}\ud800", {CANARY: CANARY}, CANARY))
    recorder.close()
    assert review.failure is not None
    assert review.verdict == "block"
    assert CANARY not in review.failure.message


def test_a_shadow_whose_records_fail_does_not_quote_it(
    retail_domain: Domain, embedded: Engine, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    def broken(_: Record) -> Record:
        raise ValueError(CANARY)

    recorder = JsonlRecorder(tmp_path / "records.jsonl", broken)
    shadow = ShadowGate(Gate(retail_domain, embedded))
    session = Session(shadow, now=retail.NOW, principal=PERSON, session_id=CANARY, recorder=recorder)
    propose(session, Call(CANARY, {CANARY: CANARY}, CANARY))
    recorder.close()
    assert "a shadow's decision could not be recorded: the record cannot be redacted" in caplog.text


def test_an_id_is_told_as_it_is_only_when_it_looks_drawn_at_random() -> None:
    assert shown_id("0123456789abcdef") == "0123456789abcdef"
    assert shown_id("4111111111111111") == "sha256:" + hashlib.sha256(b"4111111111111111").hexdigest()[:16]
    assert CANARY not in shown_id(CANARY)
