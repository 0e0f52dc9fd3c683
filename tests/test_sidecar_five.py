"""The five conversations over HTTP: the same verdicts, the same record, the same end of the shop as on a bare session."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ledgeragent.domain import Domain
from ledgeragent.gate import Gate
from ledgeragent.records import JsonlRecorder
from ledgeragent.session import Session
from ledgeragent.shops import open_shop
from support import five
from support.sidecar import Talk, serving

pytest_plugins = ["support.fixtures"]


@pytest.fixture(params=five.FIVE, ids=five.NAMES)
def played(
    request: pytest.FixtureRequest, gate: Gate, retail_domain: Domain, tmp_path: Path
) -> Iterator[tuple[five.Table, Talk]]:
    """A conversation's table, and a session of it behind HTTP that records to the table's record."""
    conversation: five.Conversation = request.param
    record = tmp_path / "record.jsonl"
    shop = open_shop("retail")
    with ExitStack() as stack:
        judge = stack.enter_context(five.nobody(retail_domain)) if conversation.engine_down else gate
        client = stack.enter_context(serving(judge, recorder=JsonlRecorder(record)))
        # The table's own session takes no part: it only says which gate the record must have come from.
        table = five.Table(conversation, Session(judge, now=shop.now), shop, record)
        yield table, client.open(now=shop.now)


def test_a_conversation_over_http_comes_to_the_same(played: tuple[five.Table, Talk], tmp_path: Path) -> None:
    table, talk = played
    steps = enumerate(table.conversation.steps)
    answers = [step_over_http(table, talk, step, f"call-{number}") for number, step in steps]
    table.check(answers, tmp_path)


def step_over_http(table: five.Table, talk: Talk, step: five.Step, call_id: str) -> str:
    """What the model reads in a call's place."""
    arguments: Any = dict(step.arguments)
    if step.verdict is None:
        talk.post("reads", tool=step.tool, arguments=arguments, call_id=call_id, new_turn=True)
        content = five.as_text(table.run(step.tool, arguments))
        talk.post("observations", call_id=call_id, content=content)
        return content
    review = talk.review(step.tool, arguments, call_id)
    assert review["verdict"] == step.verdict
    if review["ticket"] is None:
        return str(review["message"])
    redeemed = talk.post("redemptions", ticket=review["ticket"]).body
    content = five.as_text(table.run(redeemed["tool"], redeemed["arguments"]))
    assert talk.post("outcomes", ticket=review["ticket"], outcome="executed", content=content).status == 200
    return content
