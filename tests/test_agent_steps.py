"""What an agent tells its host while a turn is under way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ledgeragent import AsyncLedgerAgent, Domain, Engine, Gate, Generation, LedgerAgent, ProposedCall, Step
from ledgeragent.model import Definition, Message
from ledgeragent.shops import open_shop

READ = ProposedCall("1", "get_order_details", '{"order_id": "#W4001"}')
UNREAD = ProposedCall("2", "modify_user_address", "{}")
ANSWERS = (Generation(calls=(READ, UNREAD)), Generation("Done."))


class Model:
    def __init__(self) -> None:
        self.left = list(ANSWERS)

    def generate(self, messages: Sequence[Message], tools: Sequence[Definition]) -> Generation:
        return self.left.pop(0)


class AsyncModel(Model):
    async def generate(self, messages: Sequence[Message], tools: Sequence[Definition]) -> Generation:  # type: ignore[override]
        return super().generate(messages, tools)


Send = Callable[[Gate, dict[str, Any]], tuple[Step, ...]]


def sync_turn(gate: Gate, about: dict[str, Any]) -> tuple[Step, ...]:
    return LedgerAgent(Model(), open_shop("retail").tools, gate, **about).send("Hello").steps


def async_turn(gate: Gate, about: dict[str, Any]) -> tuple[Step, ...]:
    agent = AsyncLedgerAgent(AsyncModel(), open_shop("retail").tools, gate, **about)
    return asyncio.run(agent.send("Hello")).steps


@pytest.mark.parametrize("turn", [sync_turn, async_turn])
def test_the_host_is_handed_every_step_before_its_calls_run(turn: Send, embedded: Engine) -> None:
    seen: list[Any] = []

    def ran(call: Any, arguments: Any) -> str:
        seen.append(call.tool)
        return "{}"

    about = {"now": open_shop("retail").now, "on_step": seen.append, "executor": ran}
    first, second = turn(Gate(Domain.load("retail"), embedded), about)
    assert seen == [first, "get_order_details", second]
