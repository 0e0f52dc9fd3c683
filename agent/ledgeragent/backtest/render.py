"""A backtest for people and programs: a table for a terminal, JSON, and a comment for a pull request.

The comment is read by more people than the calls were meant for: it shows only what the domain's allow-list lets
through (`x-log`), no messages, and it is cut to what a comment may hold. Everything else shows what the calls held.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any, Final

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ledgeragent.backtest.compare import outcome
from ledgeragent.backtest.summary import Group, Summary
from ledgeragent.backtest.words import Told, differences, entry_fields
from ledgeragent.jsonio import readable
from ledgeragent.paths import dotted
from ledgeragent.terminal import STYLES, brief, contents

JSON = dict[str, Any]
COMMENT_LIMIT: Final = 65_000
"""Characters; GitHub takes 65,536."""

_TABLE_EXAMPLES: Final = 3
_MAX_CELL: Final = 120
_UNTOLD: Final = "cannot be told from records"


@dataclass(frozen=True)
class Backtest:
    """What is rendered.

    Attributes:
        summary: the numbers.
        old, new: both sets of policies.
        interrupted: where the run was stopped, or None when it read everything.
    """

    summary: Summary
    old: Told
    new: Told
    interrupted: str | None = None


def headline(found: Backtest) -> str:
    """The outcome in one sentence."""
    summary = found.summary
    calls = _plural(summary.counts["compared"], "call")
    if not summary.counts["compared"]:
        return "No call could be compared."
    if not summary.changed and not summary.untold:
        return f"No verdict changes in {calls}."
    text = f"{summary.changed:,} of {calls} {'changes its' if summary.changed == 1 else 'change their'} verdict"
    if summary.untold:
        text += f"; for {summary.untold:,} it {_UNTOLD}"
    if summary.allowed:
        text += f"; {summary.allowed:,} of them allowed"
    return text + "."


def notes(found: Backtest) -> Iterator[str]:
    """Everything a reader must know about the numbers, one sentence each."""
    summary, counts = found.summary, found.summary.counts
    if found.interrupted is not None:
        yield f"The run was interrupted after {found.interrupted}: this is what it found until there."
    for told in (found.old, found.new):
        yield from (f"{why[0].upper()}{why[1:]}." for why in told.problems)
        yield from (f"The vectors of {name} do not hold for {told.name}: {why}" for name, why in told.unproved.items())
    if summary.untold:
        yield (
            "Some findings miss facts that the policies of the records did not ask for, so that no record holds them: "
            "judge conversations (--conversations) to know."
        )
    if summary.loops:
        yield (
            f"gate.loop takes part in {_plural(summary.loops, 'change')}: it counts rejections, and what was rejected "
            "before differs between the two runs."
        )
    if counts["overridden"]:
        yield (
            f"{_plural(counts['overridden'], 'recorded decision')} were made with overrides in force; without "
            "--overrides (--floor, --freeze) the new ones are not."
        )
    yield from _left_out(summary)
    for text in summary.unused:
        yield f"--allow-change {text!r} fits no change."


def _left_out(summary: Summary) -> Iterator[str]:
    counts = summary.counts
    for why, count in summary.below("incomparable").items():
        yield f"{_plural(count, 'record')} not compared: {why}."
    for what, count in summary.below("error").items():
        side, _, code = what.partition("|")
        yield f"No decision of the {side} policies for {_plural(count, 'call')}: {code}."
    if counts["skipped"]:
        yield f"{_plural(counts['skipped'], 'line')} skipped: not judged."
    if counts["findings"] or counts["messages"]:
        yield (
            f"With the same verdict: other findings in {_plural(counts['findings'], 'call')}, only other words in "
            f"{_plural(counts['messages'], 'call')} (--all lists them)."
        )


def _plural(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _policies(told: Told) -> str:
    shown = ", ".join(f"{part} {revision[:15]}" for part, revision in sorted(told.revisions.items()))
    return f"{told.name} ({shown})" if shown else told.name


# Terminal ---------------------------------------------------------------------------------------------------------


def print_table(found: Backtest, rows: Iterable[JSON], console: Console, *, everything: bool) -> None:
    """Print groups, each with a few calls and the facts that decided; with `everything` every call of every kind."""
    console.print(Text(headline(found), style="bold"))
    console.print(Text.assemble(("old  ", "dim"), _policies(found.old)))
    console.print(Text.assemble(("new  ", "dim"), _policies(found.new)))
    for note in notes(found):
        console.print(Text(note, style="yellow"))
    if found.summary.groups:
        console.print(_groups_table(found.summary.groups))
    if everything:
        for row in rows:
            _print_call(row, console)
        return
    for group in found.summary.groups:
        console.print(Text.assemble((group.predicate, "bold"), f"  {_what(group)}"))
        for row in group.examples[:_TABLE_EXAMPLES]:
            _print_call(row, console)
        if group.calls > _TABLE_EXAMPLES:
            rest = f"  … {group.calls - _TABLE_EXAMPLES:,} more (--format jsonl lists all)"
            console.print(Text(rest, style="dim"))


def _groups_table(groups: Iterable[Group]) -> Table:
    table = Table(box=SIMPLE_HEAD)
    for name in ("predicate", "finding", "verdict"):
        table.add_column(name, overflow="fold")
    for name in ("calls", "allowed"):
        table.add_column(name, justify="right")
    for one in groups:
        verdict = Text.assemble(
            (one.verdict[0], STYLES.get(one.verdict[0], "")), " → ", (one.verdict[1], STYLES.get(one.verdict[1], ""))
        )
        verdict.append(f" ({_UNTOLD})" if one.kind == "untold" else "")
        table.add_row(one.predicate, _what(one), verdict, f"{one.calls:,}", f"{one.allowed:,}")
    return table


def _what(group: Group) -> str:
    before, after = group.finding
    if group.change == "appeared":
        return f"appears: {after}"
    if group.change == "vanished":
        return f"vanishes: {before}"
    return f"{group.change}: {before} → {after}"


def _print_call(row: Mapping[str, Any], console: Console) -> None:
    verdicts = f"{row['old']['verdict']} → {row['new']['verdict']}"
    line = Text.assemble(("  " + where(row), "cyan"), f"  {row['tool']}  {verdicts}")
    console.print(_safe(line), soft_wrap=True)
    console.print(_safe(Text(f"    arguments {brief(row['arguments'])}", style="dim")), soft_wrap=True)
    for change in row["changes"]:
        said = (change["new"] or change["old"] or {}).get("message", "")
        told = f"    {change['predicate']}: {outcome(change['old'])} → {outcome(change['new'])}  {said}".rstrip()
        console.print(_safe(Text(told)), soft_wrap=True)
    for fact in row["facts"]:
        told = contents(fact["value"]) if "value" in fact else f"({fact['cause']})"
        console.print(_safe(Text(f"    {dotted(fact['path'])} = {told}", style="dim")), soft_wrap=True)


def _safe(text: Text) -> Text:
    own = text.copy()
    own.plain = "".join(one if one.isprintable() else " " for one in own.plain)
    return own


def where(row: Mapping[str, Any]) -> str:
    """Where a call stands: its conversation and message, or its record."""
    if "conversation" in row:
        return f"{row['conversation']} message {row['index']}.{row['position']}"
    return f"record {row['request'][:12]} at {row['at']}"


# JSON -------------------------------------------------------------------------------------------------------------


def write_jsonl(rows: Iterable[JSON], target: IO[str]) -> None:
    """One line per call that changed."""
    for row in rows:
        target.write(json.dumps(_own(row), ensure_ascii=False) + "\n")


def write_json(found: Backtest, rows: Iterable[JSON], target: IO[str]) -> None:
    """One document: the numbers, the catalogue of the predicates that changed, and every call that changed."""
    head: JSON = {
        **found.summary.as_json(),
        "interrupted": found.interrupted,
        "old": found.old.as_json(),
        "new": found.new.as_json(),
        "catalogue": {
            name: {
                key: {"old": both[0], "new": both[1]} for key, both in entry_fields(found.old, found.new, name).items()
            }
            for name in sorted({*found.summary.predicates(), *differences(found.old, found.new)})
        },
        "notes": list(notes(found)),
    }
    target.write(json.dumps(head, ensure_ascii=False, indent=1)[:-2] + ',\n "calls": [')
    first = True
    for row in rows:
        target.write(("\n  " if first else ",\n  ") + json.dumps(_own(row), ensure_ascii=False))
        first = False
    target.write("]\n}\n")


def _own(row: Mapping[str, Any]) -> JSON:
    facts = [{key: value for key, value in fact.items() if key != "shown"} for fact in row["facts"]]
    return {**{key: value for key, value in row.items() if key != "shown"}, "facts": facts}


# Markdown ---------------------------------------------------------------------------------------------------------


def markdown(found: Backtest, limit: int = COMMENT_LIMIT) -> str:
    """A comment for a pull request.

    Args:
        found: what to say.
        limit: most characters; what does not fit is left out, least important first, and said so.
    """
    parts = [*_top(found), *_catalogue(found)]
    parts += [_details(group) for group in found.summary.groups]
    reserve = 200
    kept, size, cut = [], 0, 0
    for number, part in enumerate(parts):
        # The summary comes first and is worth more than being whole: its table ends where the comment does.
        room = limit - reserve - size
        text = part if len(part) <= room else (_shortened(part, room) if number == 0 else "")
        cut += text != part
        kept.append(text)
        size += len(text)
    told = (
        f"\n_Cut to fit a comment: {_plural(cut, 'section')} shortened or left out; `--format json` has everything._\n"
    )
    return "".join(kept) + (told if cut else "")


def _shortened(part: str, room: int) -> str:
    return part[: part.rfind("\n", 0, max(room, 1)) + 1]


def _top(found: Backtest) -> Iterator[str]:
    summary = found.summary
    sign = "❌" if summary.failed else "✅"
    lines = [f"### {sign} Policy backtest: {_escaped(headline(found))}\n"]
    lines += [f"* old: {_code(_policies(found.old))}", f"* new: {_code(_policies(found.new))}"]
    lines += [f"* {_escaped(note)}" for note in notes(found)]
    if summary.groups:
        lines += ["", "| predicate | finding | verdict | calls | allowed | tools |", "|---|---|---|---:|---:|---|"]
    for one in summary.groups:
        verdict = f"{one.verdict[0]} → {one.verdict[1]}" + (f" ({_UNTOLD})" if one.kind == "untold" else "")
        tools = ", ".join(f"{_code(tool)} {count:,}" for tool, count in one.tools.most_common(5))
        cells = [_code(one.predicate), _escaped(_what(one)), verdict, f"{one.calls:,}", f"{one.allowed:,}", tools]
        lines.append("| " + " | ".join(cells) + " |")
    yield "\n".join(lines) + "\n"


def _catalogue(found: Backtest) -> Iterator[str]:
    differing = differences(found.old, found.new)
    names = list(dict.fromkeys([*found.summary.predicates(), *differing]))
    for name in names:
        fields = entry_fields(found.old, found.new, name)
        if not fields:
            continue
        says = "the catalogue changes" if name in differing else "the catalogue says the same of both"
        lines = [
            f"\n<details><summary>Catalogue: {_code(name)} ({says})</summary>\n",
            "| | old | new |",
            "|---|---|---|",
        ]
        for field, (before, after) in fields.items():
            mark = f"**{field}**" if before != after else field
            lines.append(f"| {mark} | {_escaped(before)} | {_escaped(after) if before != after else '(the same)'} |")
        yield "\n".join(lines) + "\n\n</details>\n"


def _details(group: Group) -> str:
    more = f", the first {len(group.examples)}" if group.calls > len(group.examples) else ""
    head = f"{_code(group.predicate)} {_escaped(_what(group))}: {_plural(group.calls, 'call')}{more}"
    lines = [f"\n<details><summary>{head}</summary>\n", "| call | tool | verdict | facts |", "|---|---|---|---|"]
    for row in group.examples:
        facts = [_fact(fact["shown"]) for fact in row["facts"]]
        if row["shown"]["arguments"]:
            facts.insert(0, f"arguments {_value(row['shown']['arguments'])}")
        verdicts = f"{row['old']['verdict']} → {row['new']['verdict']}"
        place = _code(where(row) if "conversation" in row else f"record {row['request'][:12]}")
        lines.append(f"| {place} | {_code(row['tool'])} | {verdicts} | {'<br>'.join(facts)} |")
    return "\n".join(lines) + "\n\n</details>\n"


def _fact(shown: Mapping[str, Any]) -> str:
    told = _value(shown["value"]) if "value" in shown else f"({shown['cause']})"
    return f"{_code(dotted(shown['path']))} = {told}"


def _value(value: Any) -> str:
    text = readable(value)
    return _code(text if len(text) <= _MAX_CELL else text[: _MAX_CELL - 1] + "…")


def _code(text: str) -> str:
    return f"<code>{_escaped(text)}</code>"


_MEANT: Final = {ord(one): f"&#{ord(one)};" for one in "|@#`*_[]\\~:"}


def _escaped(text: str) -> str:
    """A text that is only text in Markdown, within a table too: no mention, no link, no markup, no line of its own."""
    plain = "".join(one if one.isprintable() else " " for one in text)
    return html.escape(plain, quote=False).translate(_MEANT)
