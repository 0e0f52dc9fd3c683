"""A deployment's overrides: what is refused before use, and what the accepted ones change on every engine."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ledgeragent.domain import Domain
from ledgeragent.engine import Engine, open_engine
from ledgeragent.errors import BadInput, DomainError
from ledgeragent.gate import Gate
from ledgeragent.overrides import read_overrides
from ledgeragent.policies import REGO, SCHEMAS
from ledgeragent.session import Call, Session

TODAY = "2026-06-01"
SIGNED = {"owner": "Payments", "reason": "Trial", "expires": "2026-12-31"}


def refusal(tmp_path: Path, content: Any) -> str:
    file = tmp_path / "overrides.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(BadInput) as refused:
        read_overrides(file, {"retail": Domain.load("retail")}, today=TODAY)
    assert str(file) in str(refused.value)
    return str(refused.value)


def predicate(name: str, **change: Any) -> dict[str, Any]:
    return {"retail": {"predicates": {name: {**SIGNED, **change}}}}


def setting(key: str, value: Any, **change: Any) -> dict[str, Any]:
    return {"retail": {"settings": {key: {**SIGNED, "value": value, **change}}}}


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("{", "is not JSON"),
        ({"Retail": {}}, "String should match pattern"),
        ({"airport": {}}, "airport: no such domain (there: retail)"),
        (predicate("retail.order_owners", mode="shadow"), "retail.order_owners: unknown id; the domain enforces"),
        (predicate("retail.cancel_reason", verdict="blok"), "Input should be 'revise' or 'block'"),
        (predicate("retail.cancel_reason", verdict="allow"), "Input should be 'revise' or 'block'"),
        (predicate("retail.cancel_reason", mode="disabled"), "Input should be 'enforce', 'shadow' or 'off'"),
        (predicate("retail.cancel_reason", mode="off", expires="2026-05-31"), "expired on 2026-05-31"),
        (predicate("retail.cancel_reason", mode="off", expires="soon"), "String should match pattern"),
        (predicate("retail.cancel_reason", mode="off", owner=""), "at least 1 character"),
        (predicate("retail.cancel_reason", mode="off", reason=None), "valid string"),
        (predicate("retail.cancel_reason"), "changes nothing; give a mode or a verdict"),
        (predicate("retail.order_owner", mode="off"), "is protected and cannot be weakened"),
        (predicate("retail.order_owner", verdict="revise"), "is protected and cannot be weakened"),
        (setting("cancel_reason", ["x"]), "unknown setting; there are address_change_after_item_modification"),
        (setting("cancel_reasons", "x"), "value: 'x' is not of type 'array'"),
        (setting("cancel_reasons", [5]), "value.0: 5 is not of type 'string'"),
        (setting("cancel_reasons", ["x"], expires="2026-05-31"), "expired on 2026-05-31"),
        (setting("cancel_reasons", ["x"], mode="off"), "Extra inputs are not permitted"),
    ],
)
def test_what_could_not_be_meant_is_refused(content: Any, complaint: str, tmp_path: Path) -> None:
    assert complaint in refusal(tmp_path, content)


def test_everything_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    content = {"retail": {**predicate("nothing", mode="off")["retail"], **setting("nothing", 1)["retail"]}}
    assert "2 problem(s)" in refusal(tmp_path, content)


@pytest.fixture(params=["embedded", "opa"])
def engine_name(request: pytest.FixtureRequest) -> str:
    if request.param == "opa":
        request.getfixturevalue("opa_binary")
    name: str = request.param
    return name


def review(engine: Engine, reason: str) -> tuple[str, list[Mapping[str, Any]]]:
    """A cancellation for a reason that the shop does not accept; everything else is as it should be."""
    session = Session(Gate(Domain.load("retail"), engine), now="2026-06-01T12:00:00Z")
    vector = json.loads((SCHEMAS / "vectors" / "retail.json").read_text())["vectors"][0]["input"]
    order_id = vector["action"]["arguments"]["order_id"]
    gate_input = {**vector, "session": {**vector["session"], "now": session.now}}
    gate_input["action"] = {"call_id": "1", "tool": "cancel_pending_order"}
    gate_input["action"]["arguments"] = {"order_id": order_id, "reason": reason}
    judged = session.gate.judge(gate_input)
    assert judged.decision is not None, judged.failure
    return judged.verdict, [row.model_dump() for row in judged.decision.overrides]


SHOWN = {"mode": "", "verdict": "", **SIGNED, "applied": True}


@pytest.mark.parametrize(
    ("content", "verdict", "shown"),
    [
        (None, "revise", []),
        (predicate("retail.cancel_reason", mode="off"), "allow", [{"target": "retail.cancel_reason", "mode": "off"}]),
        (
            predicate("retail.cancel_reason", verdict="block"),
            "block",
            [{"target": "retail.cancel_reason", "verdict": "block"}],
        ),
        (setting("cancel_reasons", ["bored"]), "allow", [{"target": "settings.cancel_reasons"}]),
    ],
)
def test_accepted_overrides_change_decisions_and_are_shown_in_them(
    engine_name: str, content: Mapping[str, Any] | None, verdict: str, shown: list[dict[str, Any]], tmp_path: Path
) -> None:
    file = tmp_path / "overrides.json"
    file.write_text(json.dumps(content))
    accepted = read_overrides(file, {"retail": Domain.load("retail")}, today=TODAY) if content else None
    with open_engine(engine_name, overrides=accepted) as engine:
        assert review(engine, "bored") == (verdict, [{**SHOWN, **row} for row in shown])


def test_a_remote_server_takes_no_overrides_from_here() -> None:
    with pytest.raises(BadInput, match="put them into a bundle"):
        open_engine("http://127.0.0.1:8181", overrides={})


def test_defaults_that_do_not_fit_their_schema_keep_the_domain_from_loading(tmp_path: Path) -> None:
    rego = tmp_path / "rego"
    shutil.copytree(REGO, rego)
    (rego / "ledgeragent" / "retail" / "defaults" / "data.json").write_text('{"cancel_reasons": []}')
    with pytest.raises(DomainError) as refused:
        Domain.load("retail", rego=rego)
    said = str(refused.value)
    assert "cancel_reasons: [] should be non-empty" in said
    assert "'address_change_after_item_modification' has no value" in said


def test_a_call_that_nothing_overrides_shows_nothing(embedded: Engine) -> None:
    session = Session(Gate(Domain.load("retail"), embedded), now="2026-06-01T12:00:00Z")
    [said] = session.review([Call("cancel_pending_order", {"order_id": "#W1", "reason": "bored"})])
    assert said.decision is not None
    assert said.decision.overrides == []
