"""Verifying records: each by itself, judged again with the policies it names, and outcomes against decisions."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from ledgeragent.contracts import DecisionRecord, OutcomeRecord
from ledgeragent.conversation import open_lines, read_conversation
from ledgeragent.domain import Domain
from ledgeragent.engine import Engine, LocalOpa, open_engine
from ledgeragent.errors import BadInput, EngineTimeout
from ledgeragent.gate import Gate, Rehearsal
from ledgeragent.jsonio import canonical
from ledgeragent.policies import EXAMPLES, REGO, SCHEMAS, domains
from ledgeragent.records import JsonlRecorder, Record, Redact, read_records
from ledgeragent.redact import Encrypted, Pseudonyms, Redacted
from ledgeragent.rejudge import Rejudge
from ledgeragent.replay import Replay
from ledgeragent.sealing import PrivateKey, PublicKey, make_keys
from ledgeragent.verify import Walk, heads
from support import retail
from support.engines import Meddled
from support.retail import cancel, give_back, propose
from support.verifying import problems, walked

pytest_plugins = ["support.fixtures"]

RULE = "ledgeragent/retail/cancel_reason/cancel_reason.rego"


@pytest.fixture(scope="module")
def rejudge() -> Iterator[Rejudge]:
    """With the shipped policies, on the embedded engine."""
    rejudge = Rejudge()
    yield rejudge
    rejudge.close()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "records.jsonl"


def recorded(gate: Gate | Rehearsal, file: Path, form: Redact | None = None) -> list[Record]:
    """A session's records: an allowed call that ran, two rejected ones, and an allowed one that did not run."""
    recorder = JsonlRecorder(file, form)
    session = retail.desk(gate, recorder=recorder, session_id="5e55104a" * 4)
    if session.enforced:
        retail.run(session, cancel())
    for call in (cancel("#W9"), cancel("#W2", "because"), give_back()):
        propose(session, call)
    session.close()
    recorder.close()
    return list(read_records(file))


def rewritten(file: Path, change: Callable[[dict[str, Any]], object], at: int) -> None:
    """Change one record and make the chain anew, as whoever can write the whole file can."""
    rows = [json.loads(line) for line in file.read_text(encoding="ascii").splitlines()]
    change(rows[at])
    file.unlink()
    recorder = JsonlRecorder(file)
    for row in rows:
        model = DecisionRecord if row["kind"] == "decision" else OutcomeRecord
        recorder.write(model.model_validate_json(canonical(row)))
    recorder.close()


def test_sound_records_are_counted_and_nothing_is_said(gate: Gate, file: Path, rejudge: Rejudge) -> None:
    recorded(gate, file)
    walk, told = walked([file], rejudge)
    assert (told, walk.decisions, walk.outcomes, walk.records, walk.linked) == ([], {"exactly": 4}, 2, 6, 6)


def _at(record: dict[str, Any], place: str) -> tuple[Any, Any]:
    *above, last = (int(key) if key.isdigit() else key for key in place.split("/"))
    for key in above:
        record = record[key]
    return record, last


@pytest.mark.parametrize(
    ("place", "value", "kinds"),
    [
        ("verdict", "block", ["contradiction", "outcome"]),
        ("revision", "sha256:0", ["contradiction"]),
        ("error", "engine.timeout", ["contradiction"]),
        ("session", "another", ["contradiction", "outcome"]),
        ("call_id", "another", ["contradiction"]),
        ("decision/request", "another", ["contradiction"]),
        ("decision", None, ["contradiction"]),
        ("facts", [], ["facts"]),
        ("facts/1/path", ["orders", "#W8"], ["facts"]),
        ("input/ledger/orders/#W1/status", "delivered", ["decision"]),
        ("input/action/arguments/reason", "because", ["decision"]),
        ("input/session/rejections", 3, []),
        ("decision/predicates", [], ["decision"]),
        ("decision/policy/gate", "sha256:" + "0" * 64, ["policies"]),
    ],
)
def test_what_was_changed_shows_though_the_chain_was_made_anew(
    gate: Gate, file: Path, rejudge: Rejudge, place: str, value: Any, kinds: list[str]
) -> None:
    recorded(gate, file)

    def change(row: dict[str, Any]) -> None:
        record, key = _at(row, place)
        record[key] = value

    rewritten(file, change, 0)
    assert [kind for _, kind, differs in problems(file, rejudge) if differs] == kinds


def test_a_verdict_that_was_turned_names_what_decides_and_no_value(gate: Gate, file: Path, rejudge: Rejudge) -> None:
    recorded(gate, file)

    def turn(row: dict[str, Any]) -> None:
        row["verdict"] = row["decision"]["verdict"] = "allow"
        row["decision"]["findings"] = []

    rewritten(file, turn, 3)
    _, told = walked([file], rejudge)
    assert [(at, kind, said) for at, kind, _, said in told] == [
        (
            4,
            "decision",
            "recorded allow, judged again block; now: retail.cancel_reason (revise, violated), "
            "retail.order_pending (block, violated)",
        )
    ]


def test_an_older_record_that_does_not_say_where_facts_were_read_is_told_of_only(
    gate: Gate, file: Path, rejudge: Rejudge
) -> None:
    rows = [one.model_dump(mode="json", exclude={"facts", "previous"}) for one in recorded(gate, file)]
    file.write_text("".join(canonical(row) + "\n" for row in rows), encoding="ascii")
    assert {(kind, differs) for _, kind, differs in problems(file, rejudge)} == {("facts", False)}


def test_a_block_without_a_decision_is_counted_by_its_code(
    retail_domain: Domain, embedded: Engine, file: Path, rejudge: Rejudge
) -> None:
    def down(rule: str, answer: Any) -> Any:
        raise EngineTimeout("no answer within 2 s")

    recorder = JsonlRecorder(file)
    propose(retail.desk(Gate(retail_domain, Meddled(embedded, down)), recorder=recorder), cancel())
    recorder.close()
    walk, told = walked([file], rejudge)
    assert (told, walk.decisions, walk.errors) == ([], {"error": 1}, {"engine.timeout": 1})


# Outcomes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("order", "at"),
    [
        ((0, 1, 1, 2, 3, 4, 5), 3),  # twice
        ((1, 0, 2, 3, 4, 5), 1),  # before its decision
        ((1, 2, 3, 4, 5), 1),  # without one
    ],
)
def test_an_outcome_without_an_admitted_call_that_waits_for_it_shows(
    gate: Gate, file: Path, order: tuple[int, ...], at: int
) -> None:
    rows = recorded(gate, file)
    _write(file, [rows[number] for number in order])
    assert problems(file) == [(at, "outcome", True)]


def _write(file: Path, records: list[Record]) -> None:
    file.unlink()
    recorder = JsonlRecorder(file)
    for record in records:
        recorder.write(record)
    recorder.close()


@pytest.mark.parametrize(("enforced", "expected"), [(True, [(2, "outcome", True)]), (False, [])])
def test_a_rejected_call_has_an_outcome_only_under_a_shadow(
    gate: Gate, file: Path, enforced: bool, expected: Any
) -> None:
    rows = recorded(gate, file)
    rejected, outcome = rows[2], rows[1]
    assert isinstance(rejected, DecisionRecord)
    ran = outcome.model_copy(update={"request": rejected.input.request})
    _write(file, [rejected.model_copy(update={"enforced": enforced}), ran])
    assert problems(file) == expected


def test_an_outcome_whose_decision_is_in_an_earlier_file_is_only_told(gate: Gate, file: Path) -> None:
    recorded(gate, file)
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[1:]))
    [first, *_] = read_records(file)
    assert first.previous is not None
    assert problems(file, walk=Walk(after=heads([first.previous]))) == [(1, "outcome", False)]
    assert problems(file) == [(1, "chain", True), (1, "outcome", False)]


def test_a_head_that_is_none_is_refused() -> None:
    with pytest.raises(BadInput, match="'abc' is no digest of a record"):
        heads(["abc"])


# Policies and policy data ---------------------------------------------------------------------------------------


def _replayed(gates: Mapping[str, Gate], file: Path) -> int:
    recorder = JsonlRecorder(file)
    judged = 0
    for path in sorted((EXAMPLES / "conversations").glob("*.jsonl")):
        for place, line in open_lines(str(path)):
            conversation = read_conversation(line, place=place)
            run = Replay(conversation, gates[conversation.domain or ""], recorder=recorder)
            judged += len(list(run.judged()))
    recorder.close()
    return judged


def test_the_records_of_replays_verify_in_all_domains(embedded: Engine, file: Path, rejudge: Rejudge) -> None:
    gates = {name: Gate(Domain.load(name), embedded) for name in domains()}
    judged = _replayed(gates, file)
    walk, told = walked([file], rejudge)
    asked = {one.input.domain for one in read_records(file) if isinstance(one, DecisionRecord)}
    assert (told, walk.decisions, asked) == ([], {"exactly": judged}, set(domains()))


@pytest.fixture(scope="module")
def loosened(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shipped policies with a rule that holds whatever the reason; a revision of its own."""
    top = tmp_path_factory.mktemp("loosened")
    shutil.copytree(REGO, top / "rego")
    shutil.copytree(SCHEMAS, top / "schemas")
    rule = top / "rego" / RULE
    text = rule.read_text(encoding="utf-8")
    assert "\nholds if" in text
    rule.write_text(text + "\nholds if input.action.tool\n", encoding="utf-8")
    return top


def test_a_record_is_judged_with_the_policies_it_names(
    loosened: Path, file: Path, opa_binary: Path, retail_domain: Domain
) -> None:
    data = loosened / "rego" / "ledgeragent" / "retail" / "data.json"
    given = Rejudge("opa", policies=[str(loosened)])
    shown = {name: own for one in given._given for name, own in one.revisions().items()}
    before = json.loads(data.read_text(encoding="utf-8"))
    data.write_text(data.read_text(encoding="utf-8").replace(_revision(before), shown["retail"]), encoding="utf-8")
    with LocalOpa(loosened / "rego", opa_binary) as engine:
        recorded(Rehearsal(retail_domain, engine), file)
    walk, told = walked([file], given)
    given.close()
    assert (told, walk.decisions) == ([], {"exactly": 3})
    shipped = Rejudge(repository=file.parent)
    _, told = walked([file], shipped)
    shipped.close()
    assert [(kind, said[:40]) for _, kind, _, said in told] == [
        ("policies", "no policies at hand have the revision sh")
    ] * 3


def _revision(data: Any) -> str:
    found: str = data["declared"]["revision"]
    return found


OVERRIDE = {"mode": "off", "owner": "o", "reason": "r", "expires": "2024-12-31"}


def _overrides(folder: Path, number: int, *predicates: str) -> Path:
    path = folder / f"overrides-{number}-{len(predicates)}.json"
    own = {"sequence": number, "predicates": dict.fromkeys(predicates, OVERRIDE)}
    path.write_text(json.dumps({"retail": own}), encoding="utf-8")
    return path


def test_a_decision_under_overrides_needs_them_and_says_so(retail_domain: Domain, file: Path, tmp_path: Path) -> None:
    first, second = _overrides(tmp_path, 4, "retail.cancel_reason"), _overrides(tmp_path, 5)
    content = json.loads(first.read_text(encoding="utf-8"))
    with open_engine("embedded", overrides=content) as engine:
        recorded(Rehearsal(retail_domain, engine), file)
    for given, lack in (
        ((), "made under overrides 4, not given (--overrides FILE)"),
        ((second,), "made under overrides 4, and number 5 is given"),
        ((first,), None),
        ((second, first), None),
        ((first, second), None),
    ):
        rejudge = Rejudge(data={"overrides": given})
        _, told = walked([file], rejudge)
        rejudge.close()
        assert {(kind, differs, said.partition("it was ")[2]) for _, kind, differs, said in told} == (
            {("unclear", False, lack)} if lack is not None else set()
        )


def test_decisions_without_policy_data_are_not_judged_under_what_is_given(
    gate: Gate, file: Path, tmp_path: Path
) -> None:
    recorded(gate, file)
    rejudge = Rejudge(data={"overrides": [_overrides(tmp_path, 4, "retail.cancel_reason")]})
    assert problems(file, rejudge) == []
    rejudge.close()


def test_a_freeze_without_a_number_shows_in_what_it_stopped(retail_domain: Domain, file: Path, tmp_path: Path) -> None:
    freeze = {"retail": {"tools": {"*": {"owner": "o", "reason": "r", "since": "2024-01-01"}}}}
    path = tmp_path / "freeze.json"
    path.write_text(json.dumps(freeze), encoding="utf-8")
    with open_engine("embedded", freeze=freeze) as engine:
        recorded(Rehearsal(retail_domain, engine), file)
    for given, expected in (((), 3), ((path,), 0)):
        rejudge = Rejudge(data={"freeze": given})
        _, told = walked([file], rejudge)
        rejudge.close()
        lack = "it was made under freeze without a number, not given (--freeze FILE)"
        assert [(kind, said.partition("; it was")[0] != "", said.endswith(lack)) for _, kind, _, said in told] == [
            ("unclear", True, True)
        ] * expected


def test_policy_data_that_is_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "floor.json"
    path.write_text('{"retail": {"tools": 1}}', encoding="utf-8")
    with pytest.raises(BadInput, match=r"floor\.json cannot be used, 1 problem"):
        Rejudge(data={"floor": [path]})


# Redacted -------------------------------------------------------------------------------------------------------


def _forms(domain: Domain, folder: Path) -> dict[str, Redact]:
    make_keys(folder / "auditor.pem", folder / "records.pub")
    return {
        "no": Redacted(domain),
        "by_equality": Pseudonyms(domain, key=b"k" * 32),
        "when_opened": Encrypted(domain, key=PublicKey.load(folder / "records.pub")),
    }


@pytest.mark.parametrize("how", ["no", "by_equality", "when_opened"])
def test_what_a_redacted_record_can_no_longer_reproduce_is_counted(
    gate: Gate, retail_domain: Domain, file: Path, tmp_path: Path, rejudge: Rejudge, how: str
) -> None:
    form = _forms(retail_domain, tmp_path)[how]
    recorder = JsonlRecorder(file, form)
    recorder.close()
    recorded(gate, file, form)
    walk, told = walked([file], rejudge)
    assert (told, set(walk.decisions) - {"no"}, walk.outcomes) == ([], {how} - {"no"}, 2)
    if how == "when_opened":
        walk, told = walked([file], rejudge, key=PrivateKey.load(tmp_path / "auditor.pem"))
        assert (told, walk.decisions) == ([], {"opened": 4})


def test_a_sealed_record_that_was_changed_around_does_not_open(
    gate: Gate, retail_domain: Domain, file: Path, tmp_path: Path, rejudge: Rejudge
) -> None:
    recorded(gate, file, _forms(retail_domain, tmp_path)["when_opened"])
    rewritten(file, lambda row: row.update(enforced=False), 0)
    _, told = walked([file], rejudge, key=PrivateKey.load(tmp_path / "auditor.pem"))
    assert [(at, kind, differs) for at, kind, differs, _ in told] == [(1, "sealed", True)]


def test_stand_ins_that_decide_otherwise_are_not_called_a_difference(
    gate: Gate, retail_domain: Domain, file: Path, tmp_path: Path, rejudge: Rejudge
) -> None:
    recorded(gate, file, _forms(retail_domain, tmp_path)["by_equality"])
    at = next(
        at
        for at, one in enumerate(read_records(file))
        if isinstance(one, DecisionRecord) and one.redacted is not None and one.redacted.judged_again == "by_equality"
    )
    rewritten(file, lambda row: row["input"].update(ledger={}), at)
    _, told = walked([file], rejudge)
    assert [(kind, differs) for _, kind, differs, _ in told] == [("unclear", False)]
    assert told[0][3].endswith("stand-ins were judged, which a rule can tell from texts")
