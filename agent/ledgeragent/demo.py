"""`ledgeragent demo`: example conversations, the ledger as it grows, and every verdict with its reason.

Only shows what `replay` does; it decides nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ledgeragent.conversation import Conversation, RecordedCall
from ledgeragent.feedback import reasons
from ledgeragent.gate import Gate
from ledgeragent.paths import Path, dotted
from ledgeragent.replay import JudgedCall, Replay, ReplayStep, Tally, findings

STYLES: Final = {"allow": "bold green", "revise": "bold yellow", "block": "bold red"}
_MAX_VALUE: Final = 60
_MAX_FIELDS: Final = 7


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
        _show_words(message, console)
        for _ in [call for turn in conversation.turns for call in turn if call.index == index and not call.by_user]:
            before = set(replay.session.ledger.stale_paths())
            step = next(steps)
            _show_step(step, replay, console)
            _show_stale([path for path in replay.session.ledger.stale_paths() if path not in before], console)
            if step.judged is not None:
                rows.append(step.judged.row())
    for _ in steps:
        pass
    console.print()
    return rows


def print_tally(tally: Tally, console: Console) -> None:
    """Print the verdicts of all calls, and a table of counts per predicate, verdict and cause."""
    total = sum(tally.verdicts.values())
    shown = ", ".join(f"{tally.verdicts[verdict]} {verdict}" for verdict in STYLES)
    console.print(f"{total} judged call{'' if total == 1 else 's'}: {shown}")
    table = Table(box=SIMPLE_HEAD)
    table.add_column("predicate", overflow="fold")
    table.add_column("verdict")
    table.add_column("cause")
    table.add_column("calls", justify="right")
    for (predicate, verdict, cause), count in sorted(tally.findings.items(), key=lambda item: (-item[1], item[0])):
        table.add_row(predicate, Text(verdict, style=STYLES[verdict]), cause, str(count))
    for code, count in sorted(tally.errors.items()):
        table.add_row(code, Text("block", style=STYLES["block"]), "error", str(count))
    if table.row_count:
        console.print(table)


def _show_words(message: Mapping[str, Any], console: Console) -> None:
    role, content = message.get("role"), message.get("content")
    if role in ("user", "assistant") and isinstance(content, str) and content:
        speaker = "customer" if role == "user" else "agent"
        _indented(console, Text.assemble((f"{speaker}: ", "bold cyan" if role == "user" else "bold"), content), 0)


def _show_step(step: ReplayStep, replay: Replay, console: Console) -> None:
    if step.judged is not None:
        _show_judged(step.judged, console)
        return
    _indented(console, Text.assemble(("read ", "dim"), _call_text(step.call)), 2)
    if step.problem is not None:
        _indented(console, Text(f"not taken: {step.problem}", style="red"), 4)
    if step.observation is None:
        return
    for path in step.observation.paths:
        value = _contents(replay.session.ledger.lookup(path))
        _indented(console, Text.assemble(("ledger + ", "green"), dotted(path), (f" = {value}", "dim")), 4)
    for problem in step.observation.problems:
        _indented(console, Text(f"not a fact: {problem.path}: {problem.reason}", style="yellow"), 4)
    if not step.observation.paths and not step.observation.problems:
        _indented(console, Text("ledger unchanged", style="dim"), 4)


def _show_judged(judged: JudgedCall, console: Console) -> None:
    review = judged.review
    _indented(console, Text.assemble(("write ", "dim"), _call_text(judged.call)), 2)
    _indented(console, Text.assemble(("gate: ", "dim"), (review.verdict.upper(), STYLES[review.verdict])), 4)
    if review.failure is not None:
        _indented(console, Text(f"{review.failure.code}: {review.failure.message}", style="red"), 6)
    for predicates, words in reasons(findings(review)):
        _indented(console, Text.assemble((f"{predicates}: ", "bold"), words), 6)
    for read in review.reads:
        _indented(console, Text.assemble(("asks for ", "dim"), str(read)), 6)
    _indented(console, Text(f"recorded without the gate: {_recorded(judged)}", style="dim"), 4)


def _show_stale(paths: list[Path], console: Console) -> None:
    if paths:
        names = ", ".join(dotted(path) for path in paths)
        _indented(console, Text.assemble(("ledger ~ ", "yellow"), ("stale: " + names, "dim")), 4)


def _recorded(judged: JudgedCall) -> str:
    if judged.executed is None:
        return "no return"
    if judged.executed:
        return "executed"
    return f"refused by the tool ({str(judged.call.content)[:_MAX_VALUE]})"


def _call_text(call: RecordedCall) -> str:
    if not isinstance(call.arguments, Mapping):
        return f"{call.tool}({_brief(call.arguments)})"
    return f"{call.tool}({', '.join(f'{key}={_brief(value)}' for key, value in call.arguments.items())})"


def _brief(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _MAX_VALUE else text[: _MAX_VALUE - 1] + "…"


def _contents(value: Any) -> str:
    """A record in a few words: its plain fields, and how much its lists and maps hold."""
    if not isinstance(value, Mapping):
        return _brief(value)
    plain = [f"{key} {_brief(one)}" for key, one in value.items() if isinstance(one, str | int | float)]
    sizes = [f"{len(one)} {key}" for key, one in value.items() if isinstance(one, list | Mapping) and one]
    return "; ".join((plain + sizes)[:_MAX_FIELDS])


def _indented(console: Console, text: Text, columns: int) -> None:
    for line in text.wrap(console, max(20, console.width - columns)):
        line.rstrip()
        console.print(Text(" " * columns) + line, soft_wrap=True)
