"""Hand-written loops: the decorator for their functions."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ledgeragent import Gate, Toolset
from ledgeragent.adapters.core import Guard
from ledgeragent.adapters.plain import conversation, guarded
from ledgeragent.errors import TicketError, WiringError
from ledgeragent.session import Session
from support import five, retail

pytest_plugins = ["support.fixtures"]


def tools_of(table: five.Table) -> dict[str, Callable[..., Any]]:
    """The shop's tools as somebody would write them down."""

    def find_user_id_by_email(email: str) -> Any:
        return table.run("find_user_id_by_email", {"email": email})

    def get_order_details(order_id: str) -> Any:
        return table.run("get_order_details", {"order_id": order_id})

    def cancel_pending_order(order_id: str, reason: str) -> Any:
        return table.run("cancel_pending_order", {"order_id": order_id, "reason": reason})

    return {one.__name__: guarded(one) for one in (find_user_id_by_email, get_order_details, cancel_pending_order)}


def test_a_hand_written_loop_comes_to_the_same(table: five.Table, tmp_path: Path) -> None:
    tools = tools_of(table)
    read: list[str] = []

    def dispatch(name: str, arguments: dict[str, Any]) -> str:
        return five.as_text(tools[name](**arguments))

    with conversation(Guard(table.session), dispatch, tools):
        for step in table.conversation.steps:  # the model's part
            read.append(dispatch(step.tool, json.loads(json.dumps(step.arguments))))
    table.check(read, tmp_path)


def test_so_does_one_that_awaits(table: five.Table, tmp_path: Path) -> None:
    def later(name: str) -> Callable[..., Any]:
        async def tool(**arguments: Any) -> Any:
            return table.run(name, arguments)

        tool.__name__ = name
        return guarded(tool)

    tools = {step.tool: later(step.tool) for step in table.conversation.steps}

    async def dispatch(name: str, arguments: dict[str, Any]) -> str:
        return five.as_text(await tools[name](**arguments))

    async def loop() -> list[str]:
        with conversation(Guard(table.session), dispatch, tools):
            return [await dispatch(step.tool, dict(step.arguments)) for step in table.conversation.steps]

    table.check(asyncio.run(loop()), tmp_path)


@guarded
def cancel_pending_order(order_id: str, reason: str) -> str:
    """Cancel a pending order."""
    return f"{order_id} is cancelled: {reason}"


def get_order_details(order_id: str) -> dict[str, Any]:
    return retail.PENDING


def call(name: str, arguments: dict[str, Any]) -> Any:
    return globals()[name](**arguments)


def test_a_guarded_function_refuses_outside_a_conversation() -> None:
    with pytest.raises(TicketError, match="cancel_pending_order was called outside a conversation"):
        cancel_pending_order("#W1", "no longer needed")


def test_within_one_it_answers_with_its_return_or_with_the_reason(session: Session) -> None:
    with conversation(Guard(session), call, ["cancel_pending_order"]):
        assert "retail.cancel_reason" in cancel_pending_order("#W1", reason="changed my mind")
        assert "gate.arguments" in cancel_pending_order("#W1")
        assert cancel_pending_order("#W1", "no longer needed") == "#W1 is cancelled: no longer needed"
    assert retail.history(session) == [("cancel_pending_order", "executed")]


def test_a_function_that_is_not_guarded_stops_the_start(session: Session) -> None:
    with (
        pytest.raises(WiringError, match="canary calls were not carried out: TypeError: get_order_details"),
        conversation(Guard(session), call, ["cancel_pending_order", "get_order_details"]),
    ):
        pass

    def reads(name: str, arguments: dict[str, Any]) -> Any:
        return get_order_details("#W1") if name == "get_order_details" else call(name, arguments)

    with (
        pytest.raises(WiringError, match="get_order_details was not answered by the guard"),
        conversation(Guard(session), reads, ["cancel_pending_order", "get_order_details"]),
    ):
        pass


def test_a_tool_that_the_domain_does_not_declare_stops_the_start(session: Session) -> None:
    with (
        pytest.raises(WiringError, match="does not declare drop_table"),
        conversation(Guard(session), call, ["drop_table"]),
    ):
        pass


def test_the_function_still_describes_itself_and_leaves_no_way_around_the_guard(gate: Gate) -> None:
    assert not hasattr(cancel_pending_order, "__wrapped__")
    assert list(inspect.signature(cancel_pending_order).parameters) == ["order_id", "reason"]
    [tool] = Toolset.from_functions(cancel_pending_order)
    assert (tool.name, tool.description) == ("cancel_pending_order", "Cancel a pending order.")
    assert tool.parameters["required"] == ["order_id", "reason"]


def test_another_conversation_has_another_guard(gate: Gate, session: Session) -> None:
    fresh = Session(gate, now=retail.NOW)
    with conversation(Guard(session), call, ["cancel_pending_order"]):
        with conversation(Guard(fresh), call, ["cancel_pending_order"]):
            assert "Not read in this session" in cancel_pending_order("#W1", "no longer needed")
        assert "is cancelled" in cancel_pending_order("#W1", "no longer needed")
