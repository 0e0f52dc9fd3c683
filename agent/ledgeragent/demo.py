"""`ledgeragent demo`: example conversations, the ledger as it grows, and every verdict with its reason.

Only shows what `replay` does; it decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from ledgeragent.conversation import Conversation
from ledgeragent.gate import Gate
from ledgeragent.replay import JudgedCall, Replay, ReplayStep
from ledgeragent.terminal import Line, called, judged, learned, print_lines, said, went_stale

_SPEAKERS: Final = {"user": "customer", "assistant": "agent"}
_MAX_RETURN: Final = 60


def show(conversation: Conversation, gate: Gate, console: Console) -> list[dict[str, Any]]:
    """Replay one conversation and print it as it goes.

    Args:
        conversation: the recording.
        gate: judges its writes.
        console: where to print; colours only on a terminal.

    Returns:
        The rows of its judged calls, for the summary.
    """
    console.print(Text(f"# {conversation.title or conversation.id}", style="bold magenta"))
    replay = Replay(conversation, gate)
    steps = replay.steps()
    rows: list[dict[str, Any]] = []
    for index, message in enumerate(conversation.messages):
        role, content = message.get("role"), message.get("content")
        if role in _SPEAKERS and isinstance(content, str) and content:
            print_lines([said(_SPEAKERS[role], content)], console)
        for _ in [call for turn in conversation.turns for call in turn if call.index == index and not call.by_user]:
            before = set(replay.session.ledger.stale_paths())
            step = next(steps)
            print_lines(_step(step, replay), console)
            stale = [path for path in replay.session.ledger.stale_paths() if path not in before]
            print_lines(went_stale(stale), console)
            if step.judged is not None:
                rows.append(step.judged.row())
    for _ in steps:
        pass
    console.print()
    return rows


def _step(step: ReplayStep, replay: Replay) -> Iterator[Line]:
    yield called("write" if step.judged is not None else "read", step.call.tool, step.call.arguments)
    if step.judged is not None:
        yield from judged(step.judged.review)
        yield Line(Text(f"recorded without the gate: {_recorded(step.judged)}", style="dim"), 4)
    if step.problem is not None:
        yield Line(Text(f"not taken: {step.problem}", style="red"), 4)
    if step.observation is not None:
        yield from learned(step.observation.paths, step.observation.problems, replay.session.ledger)


def _recorded(one: JudgedCall) -> str:
    if one.executed is None:
        return "no return"
    if one.executed:
        return "executed"
    return f"refused by the tool ({str(one.call.content)[:_MAX_RETURN]})"
