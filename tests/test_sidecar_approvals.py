"""Human approval over HTTP: a review says what must be consented to, a grant comes back with the call, and counts once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ledgeragent import cli
from ledgeragent.approval import Approvals, Signer
from ledgeragent.contracts import ApprovalRequest, Grant, SignedGrant
from ledgeragent.domain import Domain
from ledgeragent.engine import open_engine
from ledgeragent.errors import BadInput
from ledgeragent.gate import Gate
from ledgeragent.policies import EXAMPLES
from ledgeragent.records import JsonlRecorder, read_records
from ledgeragent.shops import open_shop
from support.sidecar import TOKEN, Answer, Client, Talk, serving
from test_approval import APPROVED, CANCEL, NOW, READS, RULE, SECRET, TRIP, USER, key
from test_sidecar import started

pytest_plugins = ["support.fixtures"]

APPROVALS = Approvals([key()], agents=["bot"])
DESK = Signer.hmac("desk", SECRET)


@pytest.fixture(scope="module")
def airline_gate() -> Iterator[Gate]:
    with open_engine("embedded", overrides=APPROVED) as engine:
        yield Gate(Domain.load("airline"), engine)


@pytest.fixture(scope="module")
def client(airline_gate: Gate) -> Iterator[Client]:
    with serving({"airline": airline_gate}, approvals=APPROVALS) as client:
        yield client


def learned(client: Client) -> Talk:
    """A session that read what a cancellation is judged by: nothing but an approval can allow it."""
    talk, shop = client.open(domain="airline", now=NOW), open_shop("airline")
    for tool, arguments in READS:
        talk.read(tool, arguments, shop.tools[tool].run(tool, arguments))
    return talk


def asked(talk: Talk, *grants: SignedGrant, **about: Any) -> Answer:
    call = {"tool": CANCEL.tool, "arguments": json.dumps(CANCEL.arguments), "call_id": CANCEL.call_id}
    return talk.post("reviews", calls=[call], grants=[one.model_dump() for one in grants], **about)


def reviewed(talk: Talk, *grants: SignedGrant, **about: Any) -> dict[str, Any]:
    answer = asked(talk, *grants, **about)
    assert answer.status == 200, answer
    [review] = answer.body["reviews"]
    return dict(review)


def granted(review: dict[str, Any]) -> SignedGrant:
    """What the approver's service makes of the request, which reached it as JSON."""
    return DESK.grant(ApprovalRequest.model_validate_json(json.dumps(review["approval_request"])), "grace")


def said(review: dict[str, Any]) -> list[str]:
    return [line.split(": ", 1)[1] for line in review["refused_grants"]]


def test_a_person_is_asked_signs_and_the_call_runs_once(airline_gate: Gate, tmp_path: Path) -> None:
    with serving({"airline": airline_gate}, approvals=APPROVALS, recorder=JsonlRecorder(tmp_path / "r")) as client:
        talk = learned(client)
        first = reviewed(talk)
        grant = granted(first)
        second = reviewed(talk, grant)
        run = talk.run(second)
        again = reviewed(talk, grant)
    request = first["approval_request"]
    assert (first["verdict"], first["ticket"], first["refused_grants"]) == ("block", None, [])
    assert (request["tool"], request["arguments"], request["requester"]) == (CANCEL.tool, CANCEL.arguments, USER)
    assert (request["session"], request["request"]) == (talk.id, first["request"])
    assert [(one["predicate"], one["approvers"]) for one in request["obligations"]] == [(RULE, ["bot", "grace", USER])]
    assert ["reservations", TRIP, "cabin"] in [one["path"] for one in request["evidence"]]
    assert (second["verdict"], second["approval_request"], second["refused_grants"]) == ("allow", None, [])
    assert second["decision"]["obligations"][0]["grant"] == grant.grant.id
    assert run["arguments"] == CANCEL.arguments
    assert (again["ticket"], said(again)) == (None, ["it was used before"])
    kept = [one.input.grants for one in read_records(tmp_path / "r") if one.kind == "decision"]
    assert kept == [[], [grant.grant], []]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"arguments": {"reservation_id": "KX4T2C"}}, "it is for another call"),
        ({"session": "another"}, "it is for another session"),
        ({"approver": USER}, "who asks cannot approve"),
        ({"approver": "bot"}, "an agent cannot consent"),
        ({"approver": "mallory"}, "its key may not sign in the approver's name"),
        ({"facts": "sha256:0"}, "what the call was judged by has changed since"),
    ],
)
def test_a_grant_with_one_thing_wrong_lifts_nothing_and_the_review_says_what(
    client: Client, change: dict[str, Any], why: str
) -> None:
    talk = learned(client)
    grant = granted(reviewed(talk)).grant
    review = reviewed(talk, DESK.sign(Grant.model_validate({**grant.model_dump(), **change})))
    assert (review["verdict"], review["ticket"], said(review)) == ("block", None, [why])
    assert review["approval_request"] is not None


def test_a_grant_that_somebody_else_signed_lifts_nothing(client: Client) -> None:
    talk = learned(client)
    request = ApprovalRequest.model_validate_json(json.dumps(reviewed(talk)["approval_request"]))
    review = reviewed(talk, Signer.hmac("desk", b"x" * 32).grant(request, "grace"))
    assert (review["verdict"], said(review)) == ("block", ["its signature is none of a key that this host takes"])


def test_what_is_no_signed_grant_is_refused_and_judges_nothing(client: Client) -> None:
    talk = learned(client)
    sound = granted(reviewed(talk)).model_dump()
    call = {"tool": CANCEL.tool, "arguments": "{}", "call_id": "c1"}
    turn = talk.shown()["turn"]
    for grants in ([{**sound, "key": ""}], [{**sound, "signature": None}], [sound["grant"]], ["yes"], [sound] * 21):
        refused = talk.post("reviews", calls=[call], grants=grants)
        assert (refused.status, refused.code) == (400, "request.form")
    assert talk.shown()["turn"] == turn


def test_a_sidecar_without_keys_asks_for_nothing_and_takes_no_grant(client: Client, airline_gate: Gate) -> None:
    grant = granted(reviewed(learned(client)))
    with serving({"airline": airline_gate}) as bare:
        talk = learned(bare)
        review, refused = reviewed(talk), asked(talk, grant)
    assert (review["verdict"], review["approval_request"]) == ("block", None)
    assert (refused.status, refused.code) == (400, "request.form")
    assert "without --approvals" in refused.body["error"]["message"]


def test_a_lost_answer_is_given_again_and_the_grant_is_spent_once(client: Client) -> None:
    talk = learned(client)
    grant = granted(reviewed(talk))
    first, second = (reviewed(talk, grant, headers={"Idempotency-Key": "once"}) for _ in range(2))
    assert first == second
    assert (first["verdict"], len(first["ticket"])) == ("allow", 32)
    assert talk.shown()["open"] == [
        {"request": first["request"], "tool": CANCEL.tool, "call_id": "c1", "started": False}
    ]


def test_the_command_wants_a_keys_file_that_is_one(tmp_path: Path) -> None:
    def refused(*options: str) -> str:
        said = CliRunner().invoke(cli.app, ["serve", *options], env={"LEDGERAGENT_SERVE_TOKEN": TOKEN})
        assert isinstance(said.exception, BadInput)
        return str(said.exception)

    file = tmp_path / "keys.json"
    assert "no approval keys" in refused("--approvals", str(file))
    file.write_text('{"contract": "ledgeragent.approval-keys/1", "keys": [{"id": "desk"}]}')
    assert "not a file of approval keys" in refused("--approvals", str(file))
    assert "without --approvals nobody can" in refused("--agent", "bot")


def options(tmp_path: Path) -> list[str]:
    """Of a command that serves the airline of examples/chat and takes the desk's grants."""
    keys = {"contract": "ledgeragent.approval-keys/1", "keys": [key().model_dump()]}
    (tmp_path / "keys.json").write_text(json.dumps(keys))
    overrides = str(EXAMPLES / "chat" / "overrides.json")
    return [
        "--domain",
        "airline",
        "--overrides",
        overrides,
        "--approvals",
        str(tmp_path / "keys.json"),
        "--agent",
        "bot",
    ]


def test_the_command_takes_the_grants_of_its_keys_file(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    _, client = started(request, *options(tmp_path))
    talk = learned(client)
    grant = granted(reviewed(talk))
    botched = DESK.sign(grant.grant.model_copy(update={"approver": "bot"}))
    assert said(reviewed(talk, botched)) == ["an agent cannot consent"]
    assert talk.run(reviewed(talk, grant))["arguments"] == CANCEL.arguments
