"""Records for those who may not keep everything: what each form shows, says of itself, and still decides."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ledgeragent import policies, sealing
from ledgeragent.contracts import Decision, DecisionRecord, OutcomeRecord, Principal
from ledgeragent.domain import Domain, Validator
from ledgeragent.engine import Engine
from ledgeragent.errors import BadInput, RecordError
from ledgeragent.gate import Gate
from ledgeragent.jsonio import canonical
from ledgeragent.policies import SCHEMAS
from ledgeragent.records import JsonlRecorder, Record, parse_record, read_records
from ledgeragent.redact import Encrypted, Pseudonyms, Redacted, agrees, opened
from ledgeragent.sealing import PrivateKey, PublicKey, make_keys
from support import retail
from support.canary import vectors
from support.retail import admitted, cancel, give_back, propose
from test_contracts import OUTCOME, RECORD

pytest_plugins = ["support.fixtures"]

KEY = b"k" * 32
RANDOM = "0123456789abcdef" * 2


@pytest.fixture
def keys(tmp_path: Path) -> tuple[Path, Path]:
    """Files of a private and a public key."""
    private, public = tmp_path / "private.pem", tmp_path / "public.pem"
    make_keys(private, public)
    return private, public


def record(asked: Any, decision: Any, **changes: Any) -> DecisionRecord:
    """A record of a decision on a gate input."""
    document = {**RECORD, "input": asked, "decision": decision, "verdict": decision["verdict"], **changes}
    return DecisionRecord.model_validate_json(json.dumps(document))


def decided(engine: Engine, asked: Any) -> Any:
    return engine.evaluate(asked["domain"], "decision", asked)


CALL = {
    "contract": "ledgeragent.gate-input/1",
    "request": RANDOM,
    "domain": "retail",
    "session": {
        "id": "+1 512 555 0100",
        "now": "2024-05-15T15:00:00-05:00",
        "turn": 3,
        "principal": {"id": "ada_quist_1001", "source": "host", "claims": {"mail": "ada@example.com", "age": 36}},
        "rejections": 0,
    },
    "action": {
        "call_id": "call_1",
        "tool": "modify_pending_order_address",
        "arguments": {
            "order_id": "#W1",
            "address1": "1 Harbour Lane",
            "address2": "",
            "city": "Austin",
            "state": "TX",
            "country": "USA",
            "zip": "78701",
        },
    },
    "ledger": {
        "auth": {"user_id": "ada_quist_1001"},
        "orders": {"#W1": {"user_id": "ada_quist_1001", "status": "pending", "secret": "x"}, "ada's order": {}},
        "users": {"ada_quist_1001": {"payment_methods": {"gift_card_1": {"id": "gift_card_1", "balance": 5}}}},
    },
    "stale": [["orders", "#W1", "address"], ["users", "ada_quist_1001", "email"]],
    "history": [{"tool": "send_mail", "arguments": {"to": "ada@example.com"}, "outcome": "executed"}],
    "siblings": [],
    "grants": [
        {
            "id": RANDOM,
            "kind": "approval",
            "predicates": ["retail.order_pending"],
            "domain": "retail",
            "session": "+1 512 555 0100",
            "tool": "cancel_pending_order",
            "arguments": {"order_id": "#W1", "note": "for Ada"},
            "facts": "sha256:2",
            "approver": "grace@example.com",
            "issued": "2024-05-15T15:00:00-05:00",
            "expires": {"session": "2024-05-15T15:15:00-05:00", "host": "2026-01-01T00:00:00Z"},
        }
    ],
}


# What is shown ---------------------------------------------------------------------------------------------------


def test_a_redacted_record_shows_what_is_marked_and_says_what_it_hides(retail_domain: Domain, embedded: Engine) -> None:
    shown = Redacted(retail_domain)(record(CALL, decided(embedded, CALL))).model_dump(mode="json")
    assert shown["input"] == {
        "contract": "ledgeragent.gate-input/1",
        "request": RANDOM,
        "domain": "retail",
        "session": {
            "id": "(masked)",
            "now": "2024-05-15T15:00:00-05:00",
            "turn": 3,
            "principal": {"id": "(masked)", "source": "host", "claims": {}},
            "rejections": 0,
        },
        "action": {
            "call_id": "(masked)",
            "tool": "modify_pending_order_address",
            "arguments": {
                "order_id": "#W1",
                **dict.fromkeys(["address1", "address2", "city", "state", "country", "zip"], "(masked)"),
            },
        },
        "ledger": {
            "auth": {"user_id": "(masked)"},
            "orders": {"#W1": {"user_id": "(masked)", "status": "pending"}},
            "users": "(masked)",
        },
        "stale": [["orders", "#W1", "address"], ["users", "(masked)", "(masked)"]],
        "history": [{"tool": "(masked)", "arguments": {}, "outcome": "executed"}],
        "siblings": [],
        "grants": [
            {
                "id": RANDOM,
                "kind": "approval",
                "predicates": ["retail.order_pending"],
                "domain": "retail",
                "session": "(masked)",
                "tool": "cancel_pending_order",
                "arguments": {"order_id": "#W1"},
                "facts": "(masked)",
                "approver": "(masked)",
                "issued": "2024-05-15T15:00:00-05:00",
                "expires": {"session": "2024-05-15T15:15:00-05:00", "host": "2026-01-01T00:00:00Z"},
            }
        ],
    }
    assert (shown["session"], shown["call_id"], shown["ledger_digest"]) == ("(masked)", "(masked)", "(masked)")
    about = shown["redacted"]
    assert (about["form"], about["judged_again"], about["pseudonyms"], about["key"], about["sealed"]) == (
        *("redacted", "no", []),
        *(None, None),
    )
    assert ["input", "ledger", "users"] in about["masked"]
    assert ["input", "ledger", "orders", "*", "(undeclared)"] in about["masked"]
    assert ["input", "stale", "*", "(key)"] in about["masked"]
    assert ["input", "action", "arguments", "order_id"] not in about["masked"]


def test_messages_are_masked_and_what_the_policies_name_is_not(retail_domain: Domain, embedded: Engine) -> None:
    refused = {**CALL, "ledger": {**CALL["ledger"], "orders": {"#W1": {"user_id": "eve_1", "status": "processed"}}}}  # type: ignore[dict-item]
    original = record(refused, decided(embedded, refused))
    shown = Redacted(retail_domain)(original)
    assert isinstance(shown, DecisionRecord)
    assert original.decision is not None
    assert shown.decision is not None
    assert {one.predicate for one in original.decision.findings} >= {"retail.order_owner", "retail.order_pending"}
    assert shown.decision.model_dump() == {
        **original.decision.model_dump(),
        "findings": [{**one.model_dump(), "message": "(masked)"} for one in original.decision.findings],
    }


def test_a_record_with_nothing_to_hide_is_kept_and_decides_exactly(retail_domain: Domain) -> None:
    asked = {
        **CALL,
        "session": {**CALL["session"], "id": RANDOM, "principal": None},  # type: ignore[dict-item]
        "action": {"call_id": RANDOM, "tool": "cancel_pending_order", "arguments": {"order_id": "#W1"}},
        "ledger": {},
        "stale": [],
        "history": [],
        "grants": [],
    }
    decision = {**RECORD["decision"], "findings": [], "overrides": [], "verdict": "allow", "request": RANDOM}
    kept = Redacted(retail_domain)(record(asked, decision, session=RANDOM, call_id=RANDOM))
    assert isinstance(kept, DecisionRecord)
    assert kept.input.model_dump() == asked
    assert kept.redacted is not None
    assert kept.redacted.judged_again == "exactly"


def test_an_outcome_shows_random_ids_only(retail_domain: Domain) -> None:
    outcome = OutcomeRecord.model_validate({**OUTCOME, "request": RANDOM, "session": "ada@example.com"})
    shown = Redacted(retail_domain)(outcome)
    assert isinstance(shown, OutcomeRecord)
    assert (shown.request, shown.session, shown.call_id, shown.outcome) == (RANDOM, "(masked)", "(masked)", "withheld")


@pytest.mark.parametrize(
    ("id_", "shown"),
    [
        ("0123456789abcdef", True),
        ("a" * 64, True),
        ("3f2b6a0e-8c1d-4e5f-9a7b-0c1d2e3f4a5b", True),
        ("4111111111111111", False),
        ("0123456789abcde", False),
        ("call_1", False),
        ("ada@example.com", False),
        ("0123456789ABCDEF", False),
    ],
)
def test_only_what_looks_drawn_at_random_is_a_random_id(retail_domain: Domain, id_: str, shown: bool) -> None:
    outcome = OutcomeRecord.model_validate({**OUTCOME, "session": id_})
    assert (Redacted(retail_domain)(outcome).session == id_) is shown


def test_a_record_of_a_domain_that_was_not_given_is_refused(retail_domain: Domain, embedded: Engine) -> None:
    asked = vectors("telecom")[0]["input"]
    with pytest.raises(RecordError, match="a record of domain telecom cannot be redacted; domains given: retail"):
        Redacted(retail_domain)(record(asked, decided(embedded, asked)))


# Pseudonyms ------------------------------------------------------------------------------------------------------


def test_the_same_text_has_the_same_stand_in_wherever_it_stands(retail_domain: Domain, embedded: Engine) -> None:
    form = Pseudonyms(retail_domain, key=KEY)
    shown = form(record(CALL, decided(embedded, CALL)))
    assert isinstance(shown, DecisionRecord)
    ada = form.stand_in("ada_quist_1001")
    asked = shown.input
    assert asked.session.principal is not None
    assert (
        asked.session.principal.id == asked.ledger["auth"]["user_id"] == asked.ledger["orders"]["#W1"]["user_id"] == ada
    )
    assert list(asked.ledger["users"]) == [ada]
    assert asked.ledger["users"][ada]["payment_methods"] == {"gift_card_1": {"id": "gift_card_1", "balance": 5}}
    assert asked.stale[1] == ["users", ada, "email"]
    mail = form.stand_in("ada@example.com")
    assert asked.session.principal.claims == {form.stand_in("mail"): mail, form.stand_in("age"): "(masked)"}
    assert asked.history[0].arguments == {form.stand_in("to"): mail}
    assert asked.session.id == asked.grants[0].session == form.stand_in("+1 512 555 0100")
    assert asked.grants[0].approver == form.stand_in("grace@example.com")
    about = shown.redacted
    assert about is not None
    assert (about.form, about.key) == ("pseudonyms", form.key_id)
    assert about.judged_again == "no"  # the age among the claims is lost
    assert ["input", "session", "principal", "claims", "*"] in about.masked


def test_stand_ins_depend_on_the_key_and_do_not_give_it_away(retail_domain: Domain) -> None:
    one, other = (Pseudonyms(retail_domain, key=key) for key in (KEY, b"x" * 32))
    assert one.stand_in("a") == one.stand_in("a") != one.stand_in("b")
    assert one.stand_in("a") != other.stand_in("a")
    assert one.key_id != other.key_id
    assert KEY.hex() not in one.key_id + one.stand_in("a")


def test_a_short_key_is_refused(retail_domain: Domain) -> None:
    with pytest.raises(BadInput, match="has 31 bytes; give at least 32"):
        Pseudonyms(retail_domain, key=b"k" * 31)


LOOKS_INSIDE = {"telehealth.supplier_quote_observed"}
"""Predicates of the vectors that do more with a text than compare it with another one of the record."""


@pytest.mark.parametrize("name", policies.domains())
def test_a_record_with_pseudonyms_decides_as_before_or_says_that_it_may_not(name: str, embedded: Engine) -> None:
    form = Pseudonyms(Domain.load(name), key=KEY)
    said, different = [], set()
    for vector in vectors(name):
        asked = vector["input"]
        if asked["domain"] != name:
            continue
        kept = form(record(asked, decided(embedded, asked)))
        assert isinstance(kept, DecisionRecord)
        assert kept.redacted is not None
        said.append(kept.redacted.judged_again)
        again = Decision.model_validate(decided(embedded, kept.input.model_dump(mode="json")))
        if kept.redacted.judged_again == "by_equality" and not agrees(kept, again):
            different |= {one.predicate for one in again.findings}
    assert said.count("by_equality") > 0.9 * len(said)
    assert different <= LOOKS_INSIDE


def test_a_text_that_is_shown_here_and_hidden_there_makes_it_say_no(retail_domain: Domain, embedded: Engine) -> None:
    asked = {
        **CALL,
        "grants": [],
        "session": {**CALL["session"], "principal": None},  # type: ignore[dict-item]
        "history": [{"tool": "send_mail", "arguments": {"about": "#W1"}, "outcome": "executed"}],
    }
    kept = Pseudonyms(retail_domain, key=KEY)(record(asked, decided(embedded, asked)))
    assert kept.redacted is not None
    assert kept.redacted.judged_again == "no"


def test_arguments_that_would_no_longer_fit_make_it_say_no(tmp_path: Path, embedded: Engine) -> None:
    """A stand-in breaks the pattern of a parameter that is not marked: the gate would refuse it for that."""
    schemas = tmp_path / "schemas"
    tools = json.loads((SCHEMAS / "retail" / "tools.json").read_text(encoding="utf-8"))
    [tool] = [one for one in tools["tools"] if one["name"] == "modify_pending_order_address"]
    tool["parameters"]["properties"]["zip"]["pattern"] = "^[0-9]{5}$"
    (schemas / "retail").mkdir(parents=True)
    (schemas / "retail" / "tools.json").write_text(json.dumps(tools), encoding="utf-8")
    ledger = SCHEMAS / "retail" / "ledger.schema.json"
    (schemas / "retail" / "ledger.schema.json").write_text(ledger.read_text(encoding="utf-8"), encoding="utf-8")
    strict = Domain.load("retail", schemas=schemas, rego=None)
    asked = {**CALL, "grants": [], "session": {**CALL["session"], "principal": None}}  # type: ignore[dict-item]
    original = record(asked, decided(embedded, asked))
    for domain, said in ((Domain.load("retail"), "by_equality"), (strict, "no")):
        kept = Pseudonyms(domain, key=KEY)(original)
        assert kept.redacted is not None
        assert kept.redacted.judged_again == said


# Encrypted -------------------------------------------------------------------------------------------------------


@pytest.fixture
def sealed(retail_domain: Domain, embedded: Engine, keys: tuple[Path, Path]) -> tuple[Record, Record]:
    """A record, and as it is kept."""
    original = record(CALL, decided(embedded, CALL))
    return original, Encrypted(retail_domain, key=PublicKey.load(keys[1]))(original)


def test_an_encrypted_record_shows_as_much_as_a_redacted_one_and_opens_with_its_key(
    retail_domain: Domain, sealed: tuple[Record, Record], keys: tuple[Path, Path]
) -> None:
    original, kept = sealed
    masked = Redacted(retail_domain)(original)
    assert kept.redacted is not None
    assert kept.redacted.judged_again == "when_opened"
    assert kept.model_copy(update={"redacted": None}) == masked.model_copy(update={"redacted": None})
    key = PrivateKey.load(keys[0])
    assert kept.redacted.key == key.id == PublicKey.load(keys[1]).id
    assert opened(kept, key) == original
    assert opened(parse_record(canonical(kept.model_dump(mode="json")), place="x"), key) == original


def test_the_same_record_is_sealed_differently_each_time(
    retail_domain: Domain, sealed: tuple[Record, Record], keys: tuple[Path, Path]
) -> None:
    original, kept = sealed
    again = Encrypted(retail_domain, key=PublicKey.load(keys[1]))(original)
    assert kept.redacted is not None
    assert again.redacted is not None
    assert again.redacted.sealed != kept.redacted.sealed


def test_records_that_are_not_encrypted_are_given_back(retail_domain: Domain, keys: tuple[Path, Path]) -> None:
    plain = OutcomeRecord.model_validate(OUTCOME)
    masked = Redacted(retail_domain)(plain)
    key = PrivateKey.load(keys[0])
    assert (opened(plain, key), opened(masked, key)) == (plain, masked)


def _another_verdict(kept: Record) -> Record:
    return kept.model_copy(update={"verdict": "allow" if kept.verdict != "allow" else "block"})  # type: ignore[union-attr]


def _sealed_as(change: Callable[[str], str]) -> Callable[[Record], Record]:
    def changed(kept: Record) -> Record:
        assert kept.redacted is not None
        assert kept.redacted.sealed is not None
        redacted = kept.redacted.model_copy(update={"sealed": change(kept.redacted.sealed)})
        return kept.model_copy(update={"redacted": redacted})

    return changed


@pytest.mark.parametrize(
    "change",
    [
        _another_verdict,
        _sealed_as(lambda text: text[:40] + ("A" if text[40] != "A" else "B") + text[41:]),
        _sealed_as(lambda text: text[:40]),
        _sealed_as(lambda text: "not base64"),
        _sealed_as(lambda text: ""),
    ],
)
def test_a_record_that_was_changed_does_not_open(
    sealed: tuple[Record, Record], keys: tuple[Path, Path], change: Callable[[Record], Record]
) -> None:
    with pytest.raises(BadInput, match=r"does not open with the key .*: it is another key's, or was changed since"):
        opened(change(sealed[1]), PrivateKey.load(keys[0]))


def test_another_key_does_not_open_it(sealed: tuple[Record, Record], tmp_path: Path) -> None:
    make_keys(tmp_path / "other.pem", tmp_path / "other.pub")
    with pytest.raises(BadInput, match="another key's"):
        opened(sealed[1], PrivateKey.load(tmp_path / "other.pem"))


# Keys ------------------------------------------------------------------------------------------------------------


def test_only_its_owner_can_read_the_private_key_and_nothing_is_overwritten(keys: tuple[Path, Path]) -> None:
    assert keys[0].stat().st_mode & 0o777 == 0o600
    before = keys[0].read_bytes()
    with pytest.raises(BadInput, match=r"cannot be written to .*private\.pem: File exists"):
        make_keys(*keys)
    assert keys[0].read_bytes() == before


@pytest.mark.parametrize(
    ("content", "complaint"), [(None, "cannot be read"), (b"", "no"), (b"-----BEGIN X-----", "no")]
)
def test_a_file_without_a_key_is_named(tmp_path: Path, content: bytes | None, complaint: str) -> None:
    file = tmp_path / "key.pem"
    if content is not None:
        file.write_bytes(content)
    for load in (PrivateKey.load, PublicKey.load):
        with pytest.raises(BadInput, match=rf"key\.pem.*{complaint}"):
            load(file)


def test_a_private_key_is_no_public_one_and_the_other_way_round(keys: tuple[Path, Path]) -> None:
    with pytest.raises(BadInput, match="holds no public X25519 key"):
        PublicKey.load(keys[0])
    with pytest.raises(BadInput, match="holds no private X25519 key"):
        PrivateKey.load(keys[1])


def test_without_the_package_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> Any:
        raise ImportError

    monkeypatch.setattr(sealing, "_imported", absent)
    with pytest.raises(BadInput, match=r"install ledgeragent\[encrypted\]"):
        make_keys(tmp_path / "a", tmp_path / "b")


# In a session ----------------------------------------------------------------------------------------------------


def test_a_recorder_writes_the_form_it_was_given_and_it_fits_the_published_schema(
    gate: Gate, retail_domain: Domain, tmp_path: Path
) -> None:
    schema = Validator(json.loads((SCHEMAS / "record.schema.json").read_text(encoding="utf-8")))
    file = tmp_path / "records.jsonl"
    recorder = JsonlRecorder(file, Pseudonyms(retail_domain, key=KEY))
    session = retail.desk(gate, recorder=recorder)
    admitted(session, cancel())
    propose(session, cancel("#W9"))
    session.close()
    recorder.close()
    kept = list(read_records(file))
    assert [type(one) for one in kept] == [DecisionRecord, DecisionRecord, OutcomeRecord]
    assert {one.redacted.form for one in kept if one.redacted is not None} == {"pseudonyms"}
    assert len({one.session for one in kept}) == 1
    assert retail.USER not in file.read_text(encoding="ascii")
    rows = [json.loads(line) for line in file.read_text(encoding="ascii").splitlines()]
    assert [problem.message for row in rows for problem in schema.iter_errors(row)] == []


def test_where_facts_were_read_is_shown_and_whose_they_are_is_not(
    gate: Gate, retail_domain: Domain, tmp_path: Path
) -> None:
    recorder = JsonlRecorder(tmp_path / "records.jsonl", Redacted(retail_domain))
    propose(retail.desk(gate, recorder=recorder), give_back("lamp-a"))
    recorder.close()
    [kept] = read_records(recorder.path)
    assert isinstance(kept, DecisionRecord)
    assert [(one.path, one.tool, one.at) for one in kept.facts] == [
        (["auth", "user_id"], "find_user_id_by_email", retail.NOW),
        (["orders", "#W2"], "get_order_details", retail.NOW),
        (["users", "(masked)"], "get_user_details", retail.NOW),
    ]


def test_a_form_that_fails_withholds_the_decision_and_writes_nothing(gate: Gate, tmp_path: Path) -> None:
    def broken(_: Record) -> Record:
        raise KeyError(retail.USER)

    file = tmp_path / "records.jsonl"
    recorder = JsonlRecorder(file, broken)
    review = propose(retail.desk(gate, recorder=recorder), cancel())
    recorder.close()
    assert review.failure is not None
    assert (review.verdict, review.ticket, review.failure.code) == ("block", None, "host.record")
    assert review.failure.message == "the record cannot be redacted (KeyError in its form)"
    assert file.read_bytes() == b""


def test_a_session_under_a_domain_the_form_does_not_know_decides_nothing(gate: Gate, tmp_path: Path) -> None:
    recorder = JsonlRecorder(tmp_path / "records.jsonl", Redacted(Domain.load("telecom")))
    review = propose(retail.desk(gate, recorder=recorder), cancel())
    recorder.close()
    assert review.failure is not None
    assert "domain retail cannot be redacted" in review.failure.message


# Judging again ---------------------------------------------------------------------------------------------------


def test_a_kept_record_agrees_with_the_decision_made_again_word_by_word(embedded: Engine) -> None:
    asked = vectors("retail")[0]["input"]
    original = record(asked, decided(embedded, asked))
    again = Decision.model_validate(decided(embedded, {**asked, "request": "another"}))
    assert agrees(original, again)
    refused = next(one for one in vectors("retail") if one["decision"]["findings"])["input"]
    made = Decision.model_validate(decided(embedded, refused))
    finding = made.findings[0].model_copy(update={"message": "Other words."})
    reworded = made.model_copy(update={"findings": [finding, *made.findings[1:]]})
    assert not agrees(record(refused, made.model_dump()), reworded)
    assert not agrees(original, made)


def test_a_record_without_a_decision_agrees_with_none(embedded: Engine) -> None:
    asked = vectors("retail")[0]["input"]
    made = decided(embedded, asked)
    failed = record(asked, made).model_copy(update={"decision": None, "error": "engine.timeout"})
    assert not agrees(failed, Decision.model_validate(made))


# Reading ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ('{"kind": "decision", "ada', "line 2 is no whole record: cut off"),
        ("[]", "line 2 is no whole record"),
        ('{"kind": "decision", "ada@example.com": 1}', "line 2 is no record"),
        ('{"a": 1, "a": 2}', "has a key twice"),
        ("é", "line 2 is no whole record"),
    ],
)
def test_a_line_that_is_no_record_is_named_and_not_quoted(tmp_path: Path, line: str, complaint: str) -> None:
    file = tmp_path / "records.jsonl"
    file.write_text(canonical(OUTCOME) + "\n" + line + "\n", encoding="utf-8")
    with pytest.raises(BadInput, match=complaint) as caught:
        list(read_records(file))
    assert "ada" not in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"records\.jsonl cannot be read: No such file"):
        list(read_records(tmp_path / "records.jsonl"))


def test_a_principal_without_claims_is_judged_again(gate: Gate, retail_domain: Domain, tmp_path: Path) -> None:
    """The whole way: a session's record with pseudonyms, read back, decides the same on the gate's own engine."""
    file = tmp_path / "records.jsonl"
    recorder = JsonlRecorder(file, Pseudonyms(retail_domain, key=KEY))
    session = retail.desk(gate, recorder=recorder)
    session.identify(Principal(id=retail.USER, source="host"))
    propose(session, cancel())
    recorder.close()
    [kept] = read_records(file)
    assert isinstance(kept, DecisionRecord)
    assert kept.redacted is not None
    assert kept.redacted.judged_again == "by_equality"
    again = gate.judge(kept.input.model_dump(mode="json"))
    assert again.decision is not None
    assert agrees(kept, again.decision)
