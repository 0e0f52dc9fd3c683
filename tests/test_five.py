"""The five conversations themselves: a bare session and the agent of our own judge and record them alike."""

from __future__ import annotations

from pathlib import Path

from ledgeragent.agent import LedgerAgent, Options
from ledgeragent.gate import Gate
from support import five
from support.scripted_model import ScriptedModel, calls, says

pytest_plugins = ["support.fixtures"]


def test_the_agent_of_our_own_comes_to_the_same(table: five.Table, tmp_path: Path) -> None:
    answers = [calls((step.tool, step.arguments)) for step in table.conversation.steps]
    agent = LedgerAgent(
        ScriptedModel(*answers, says("Done.")),
        table.shop.tools,
        table.session.gate,
        now=table.shop.now,
        options=Options(mode="same-turn"),
        session=table.session,
        executor=lambda call, arguments: table.run(call.tool, arguments),
    )
    agent.send("Go on.")
    read = [message["content"] for message in agent.history if message["role"] == "tool"]
    table.check(read, tmp_path)


def test_a_record_of_another_conversation_is_another(gate: Gate, tmp_path: Path) -> None:
    records = [
        five.normal(five.driven(one, gate, tmp_path / f"{number}.jsonl").record)
        for number, one in enumerate(five.FIVE)
        if not one.engine_down
    ]
    assert all(one not in records[:number] for number, one in enumerate(records))
