"""What an organisation demands and what it stops: refused where it could not be meant, applied alike by every engine."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import RootModel, ValidationError

from ledgeragent.contracts import FloorFile, FreezeFile
from ledgeragent.domain import Domain
from ledgeragent.engine import Engine, open_engine
from ledgeragent.errors import BadInput
from ledgeragent.floor import floor_gaps, read_floor
from ledgeragent.freeze import read_freeze
from ledgeragent.gate import Gate
from ledgeragent.opacli import evaluate
from ledgeragent.policies import REGO, SCHEMAS
from oracle import worlds

JSON = Any
ACCOUNTED = {"owner": "Security", "reason": "Incident 7."}
ALWAYS = {"owner": "Audit", "reason": "Always."}
CANCEL = "cancel_pending_order"


def frozen(*tools: str, **more: Any) -> JSON:
    """A freeze of tools of retail."""
    return {"retail": {"tools": {tool: {**ACCOUNTED, "since": "2026-05-01"} for tool in tools}, **more}}


def demanded(tool: str, *predicates: str, **more: Any) -> JSON:
    """A floor of one tool of retail."""
    return {"retail": {"tools": {tool: {**ALWAYS, "predicates": list(predicates)}}, **more}}


def overridden(predicate: str, **change: str) -> JSON:
    """An override of one predicate of retail that never expires."""
    signed = {"owner": "Shop", "reason": "Trial.", "expires": "9999-12-31"}
    return {"retail": {"predicates": {predicate: {**signed, **change}}}}


# Reading ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("{", "is not JSON"),
        ([], "Input should be an object"),
        ({"Retail": {"tools": {}}}, "String should match pattern"),
        ({"airport": {"tools": {}}}, "airport: no such domain (there: retail)"),
        ({"retail": {}}, "retail.tools: Field required"),
        (frozen("refund"), "retail.tools.refund: no write of the domain (there: cancel_pending_order,"),
        (frozen("get_order_details"), "retail.tools.get_order_details: no write of the domain"),
        ({"retail": {"tools": {"*": ACCOUNTED}}}, "retail.tools.*.since: Field required"),
        ({"retail": {"tools": {"*": {**ACCOUNTED, "since": "now"}}}}, "String should match pattern"),
        ({"retail": {"tools": {"*": {"reason": "x", "since": "2026-05-01"}}}}, "owner: Field required"),
        (frozen("*", until="2026-06-01"), "Extra inputs are not permitted"),
        (frozen("*", sequence=-1), "greater than or equal to 0"),
    ],
)
def test_a_freeze_that_could_not_be_meant_is_refused(content: JSON, complaint: str, tmp_path: Path) -> None:
    assert complaint in refusal(read_freeze, content, tmp_path)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("{", "is not JSON"),
        ({"airport": {}}, "airport: no such domain (there: retail)"),
        (demanded("refund", "retail.order_owner"), "retail.tools.refund: no write of the domain"),
        (demanded(CANCEL), "at least 1 item"),
        (demanded(CANCEL, "airline.owner"), f"{CANCEL}: airline.owner is not an id of the domain (retail.…) or of all"),
        ({"retail": {"tools": {"*": {**ALWAYS}}}}, "retail.tools.*.predicates: Field required"),
        ({"retail": {"settings": {"limit": ALWAYS}}}, "retail.settings.limit: unknown setting; there are address"),
        ({"retail": {"settings": {"cancel_reasons": {"owner": "x"}}}}, "reason: Field required"),
        (demanded("*", "common.once", note="x"), "Extra inputs are not permitted"),
    ],
)
def test_a_floor_that_could_not_be_meant_is_refused(content: JSON, complaint: str, tmp_path: Path) -> None:
    assert complaint in refusal(read_floor, content, tmp_path)


def refusal(reader: Callable[..., JSON], content: JSON, tmp_path: Path) -> str:
    file = tmp_path / "data.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    with pytest.raises(BadInput) as refused:
        reader(file, {"retail": Domain.load("retail")})
    assert str(file) in str(refused.value)
    return str(refused.value)


def test_what_is_sound_is_read_as_it_is(tmp_path: Path) -> None:
    known = {"retail": Domain.load("retail")}
    kept = {"settings": {"cancel_reasons": ALWAYS}}
    for reader, content in (
        (read_freeze, frozen("*", CANCEL, sequence=4)),
        (read_floor, demanded("*", "common.no_repeat_write", sequence=4, **kept)),
    ):
        file = tmp_path / "data.json"
        file.write_text(json.dumps(content), encoding="utf-8")
        assert reader(file, known) == content  # type: ignore[operator]


def test_the_gaps_of_a_domain_are_named_by_write() -> None:
    retail = Domain.load("retail")
    assert list(floor_gaps(demanded(CANCEL, "retail.order_owner"), retail)) == []
    assert list(floor_gaps(demanded(CANCEL, "retail.signed", "retail.order_owner"), retail)) == [
        f"{CANCEL} is not guarded by retail.signed, which Audit demands"
    ]
    assert len(list(floor_gaps(demanded("*", "common.once"), retail))) == 7
    assert list(floor_gaps({"airline": {}}, retail)) == []


# What OPA takes for sound is what the contracts take, and nothing else --------------------------------------------


@pytest.mark.parametrize(
    ("kind", "model", "sound"),
    [
        ("freeze", FreezeFile, frozen("*", CANCEL, sequence=4)),
        (
            "floor",
            FloorFile,
            demanded(CANCEL, "retail.order_owner", "x.y", sequence=1, settings={"cancel_reasons": ALWAYS}),
        ),
    ],
)
def test_rego_and_contract_agree_on_what_is_malformed(
    kind: str, model: type[RootModel[Any]], sound: JSON, opa_binary: Path
) -> None:
    pick = random.Random(kind).choice
    documents = [sound, *(worlds.mutated(sound, pick) for _ in range(2000))]
    # Without a name to look for there is no reason but a malformed document.
    call = {"freeze": 'freeze.reasons("retail", set())', "floor": 'floor.gaps("retail", set(), set())'}[kind]
    rule = f"[found | found := data.ledgeragent.gate.{call} with data.ledgeragent_{kind} as input]"
    answers = [found == [[]] for found in evaluate(opa_binary, REGO, rule, documents)]
    assert answers == [takes(model, own(document)) for document in documents]
    assert 0 < answers.count(True) < len(answers)


def own(document: JSON) -> JSON:
    """Only what concerns retail: other domains' data is theirs to mend."""
    if not isinstance(document, dict):
        return document
    return {"retail": document["retail"]} if "retail" in document else {}


def takes(model: type[RootModel[Any]], document: JSON) -> bool:
    try:
        model.model_validate_json(json.dumps(document))
    except ValidationError:
        return False
    return True


# Applying --------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["embedded", "opa"])
def engine_name(request: pytest.FixtureRequest) -> str:
    if request.param == "opa":
        request.getfixturevalue("opa_binary")
    name: str = request.param
    return name


def allowed_input(tool: str = CANCEL) -> JSON:
    return next(
        vector["input"]
        for vector in vectors("retail")
        if vector["decision"]["verdict"] == "allow" and vector["input"]["action"]["tool"] == tool
    )


def vectors(domain: str) -> list[JSON]:
    found: list[JSON] = json.loads((SCHEMAS / "vectors" / f"{domain}.json").read_text(encoding="utf-8"))["vectors"]
    return found


def judged(engine: Engine, gate_input: JSON) -> tuple[str, list[tuple[str, str]]]:
    """The verdict and the findings by predicate and message, of a gate that has proved itself."""
    said = Gate(Domain.load("retail"), engine).judge(gate_input)
    assert said.decision is not None, said.failure
    return said.verdict, [(one.predicate, one.message) for one in said.decision.findings]


@pytest.mark.parametrize("tool", [CANCEL, "*"])
def test_a_frozen_write_is_blocked_by_a_gate_that_proves_itself(engine_name: str, tool: str) -> None:
    subject = CANCEL if tool == CANCEL else "Every write"
    with open_engine(engine_name, freeze=frozen(tool)) as engine:
        reason = f"{subject} is frozen by Security since 2026-05-01: Incident 7."
        assert judged(engine, allowed_input()) == ("block", [("gate.frozen", reason)])


def test_other_writes_go_on_while_one_is_frozen(engine_name: str) -> None:
    with open_engine(engine_name, freeze=frozen(CANCEL)) as engine:
        assert judged(engine, allowed_input("modify_user_address")) == ("allow", [])


def test_a_write_below_the_floor_is_blocked_by_a_gate_that_proves_itself(engine_name: str) -> None:
    with open_engine(engine_name, floor=demanded(CANCEL, "retail.order_owner", "common.four_eyes")) as engine:
        reason = "Not judged by common.four_eyes, which Audit demands: Always."
        assert judged(engine, allowed_input()) == ("block", [("gate.floor", reason)])
        assert judged(engine, allowed_input("modify_user_address")) == ("allow", [])


@pytest.mark.parametrize("change", [{"mode": "off"}, {"mode": "shadow"}])
def test_an_override_of_what_the_floor_demands_is_shown_and_changes_nothing(
    engine_name: str, change: dict[str, str]
) -> None:
    bored = {**allowed_input(), "action": {"call_id": "1", "tool": CANCEL, "arguments": {}}}
    bored["action"]["arguments"] = {**allowed_input()["action"]["arguments"], "reason": "bored"}
    override = overridden("retail.cancel_reason", **change)
    for floor, verdict in ((None, "allow"), (demanded(CANCEL, "retail.cancel_reason"), "revise")):
        with open_engine(engine_name, overrides=override, floor=floor) as engine:
            said = Gate(Domain.load("retail"), engine).judge(bored)
            assert said.decision is not None
            rows = [(row.target, row.applied) for row in said.decision.overrides]
            assert (said.verdict, rows) == (verdict, [("retail.cancel_reason", verdict == "allow")])


@pytest.mark.parametrize("odd", [False, [], {"retail": None}, {"retail": {"tools": {"*": True}}}])
def test_malformed_data_stops_every_write_and_no_proof(engine_name: str, odd: JSON) -> None:
    with open_engine(engine_name, freeze=odd, floor=odd) as engine:
        verdict, findings = judged(engine, allowed_input())
    assert (verdict, [one for one, _ in findings]) == ("block", ["gate.floor", "gate.frozen"])
    assert all("malformed" in message for _, message in findings)


def test_numbers_of_policy_data_are_shown_in_the_decision(engine_name: str) -> None:
    override = {"retail": {"sequence": 5}}
    floor, freeze = {"retail": {"sequence": 6}, "airline": {"sequence": 9}}, {"retail": {"sequence": 7, "tools": {}}}
    with open_engine(engine_name, overrides=override, floor=floor, freeze=freeze) as engine:
        shown = Gate(Domain.load("retail"), engine).in_use().sequence
    assert shown.model_dump() == {"domain": 0, "gate": 0, "overrides": 5, "floor": 6, "freeze": 7}


def test_a_freeze_adds_its_finding_to_every_decision_on_a_write_and_takes_nothing_away(
    domain_name: str, embedded: Engine
) -> None:
    stop = {domain_name: frozen("*")["retail"]}
    with open_engine("embedded", freeze=stop) as engine:
        for vector in vectors(domain_name):
            before = embedded.evaluate(domain_name, "decision", vector["input"])
            after = engine.evaluate(domain_name, "decision", vector["input"])
            if not Domain.load(domain_name).guarded_by(str(vector["input"].get("action", {}).get("tool"))):
                continue
            if before["findings"] and before["findings"][0]["predicate"] == "gate.input":
                assert after == before
                continue
            rest = [one for one in after["findings"] if one["predicate"] not in ("gate.frozen", "gate.loop")]
            assert after["verdict"] == "block"
            assert rest == [one for one in before["findings"] if one["predicate"] != "gate.loop"]
            assert (after["predicates"], after["overrides"]) == (before["predicates"], before["overrides"])
            assert engine.evaluate(domain_name, "proof", vector["input"]) == embedded.evaluate(
                domain_name, "proof", vector["input"]
            )


# Alike on every engine -------------------------------------------------------------------------------------------


def policy_data() -> Iterator[Mapping[str, JSON]]:
    """Sound data of all three kinds together, and the same with parts deleted, replaced or mistyped anywhere."""
    sound = {
        "overrides": {
            "retail": {
                **overridden("retail.cancel_reason", mode="shadow")["retail"],
                "settings": {
                    "cancel_reasons": {"value": ["bored"], "owner": "o", "reason": "r", "expires": "9999-12-31"}
                },
            }
        },
        "floor": demanded("*", "retail.cancel_reason", sequence=2, settings={"cancel_reasons": ALWAYS}),
        "freeze": frozen("return_delivered_order_items", sequence=3),
    }
    yield sound
    pick = random.Random("policy data").choice
    for _ in range(12):
        yield {kind: worlds.mutated(content, pick) for kind, content in sound.items()}


def test_engines_agree_whatever_policy_data_there_is(opa_binary: Path) -> None:
    pick = random.Random("inputs").choice
    for given in policy_data():
        inputs = [vector["input"] for vector in vectors("retail")] + [worlds.world(pick) for _ in range(50)]
        with open_engine("embedded", **given) as one, open_engine("opa", **given) as other:  # type: ignore[arg-type]
            for document in inputs:
                for rule in ("decision", "proof"):
                    answers = [engine.evaluate("retail", rule, document) for engine in (one, other)]  # type: ignore[arg-type]
                    assert answers[0] == answers[1], (given, document)
