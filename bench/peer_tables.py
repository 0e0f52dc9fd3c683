"""Figures and verdicts of the peers as Markdown and JSON."""

from __future__ import annotations

import json
import statistics
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from peer_cases import JSON, MIDDLE, SIZES
from peer_set_up import NAMES, PEERS, NotMeasured

OURS: Final = {"server": "opa", "process": "opa", "in process": "embedded"}
"""Kind of a peer → the engine it is held against. Nothing of ours starts a process for a decision."""

CASES: Final = ("allowed", "violated", "missing", "stale")
LESS: Final = (
    "What ours does in its time and no peer does: it cuts the slice that the call needs out of the ledger, holds the "
    "answer against its schema, the request, the list of predicates and a proved revision, and makes a ticket that "
    "binds the arguments. Plain rules moreover do not tell unknown from violated, word no feedback, and check neither "
    "the input nor the arguments."
)


@dataclass
class Row:
    """One way to ask.

    Attributes:
        who: the software.
        how: how it asks.
        kind: a key of OURS.
        rules: one of RULES.
        why: what it leaves out or has at hand that makes it fast.
        samples: ledger size → milliseconds.
        verdicts: case → what it says.
    """

    who: str
    how: str
    kind: str
    rules: str = "ours"
    why: str = ""
    samples: dict[int, list[float]] = field(default_factory=lambda: {size: [] for size in SIZES})
    verdicts: dict[str, str] = field(default_factory=dict)

    @property
    def ours(self) -> bool:
        """Whether it is one of our engines."""
        return self.who == "ledgeragent"

    def p50(self, size: int) -> float:
        """Median at a ledger size."""
        return statistics.median(self.samples[size])

    def p95(self, size: int) -> float:
        """95th percentile at a ledger size."""
        return statistics.quantiles(self.samples[size], n=20)[-1]


def about(peer: str) -> JSON:
    """What is told about a peer."""
    return tomllib.loads((PEERS / peer / "about.toml").read_text(encoding="utf-8"))


def ratio(row: Row, rows: Sequence[Row], size: int = MIDDLE) -> float:
    """Its median over that of our engine of its kind."""
    kind = "in process" if OURS[row.kind] == "embedded" else "server"
    return row.p50(size) / next(one for one in rows if one.ours and one.kind == kind).p50(size)


def table(rows: Sequence[Row]) -> str:
    """Times and ratios as Markdown."""
    head = ["", "rules", "asked", *(f"{size} records: p50 / p95 ms" for size in SIZES)]
    head += [f"to ours, {size}" for size in SIZES]
    body = []
    for row in rows:
        times = [f"{row.p50(size):.2f} / {row.p95(size):.2f}" for size in SIZES]
        ratios = [f"{ratio(row, rows, size):.2f}" for size in SIZES]
        body.append([row.who, row.rules, row.how, *times, *ratios])
    return markdown(head, body)


def verdicts(rows: Sequence[Row]) -> str:
    """What each says to the four cases, as Markdown; ways to ask that say the same share a line."""
    said: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        if row.verdicts:
            words = [row.verdicts[name] for name in CASES]
            said.setdefault((row.who, row.rules, *words), []).append(row.how)
    body = [[who, rules, "; ".join(hows), *words] for (who, rules, *words), hows in said.items()]
    return markdown(["", "rules", "asked", "allowed", "a rule broken", "a fact not read", "a fact overtaken"], body)


def cannot(peers: Sequence[str]) -> str:
    """What the peers do about what a ledger and a gate are for, as Markdown."""
    told = {peer: about(peer) for peer in peers}
    columns = {
        "needed": "what it needed",
        "state": "how facts are passed",
        "rules": "which rules it can express",
        "missing": "missing facts",
        "stale": "staleness",
        "order": "writes of one message",
        "feedback": "feedback",
        "revision": "proof of revision",
        "records": "records",
    }
    body = [
        [title, *(it[key] if key in it else it["cannot"][key] for it in told.values())]
        for key, title in columns.items()
    ]
    return markdown(["", *(it["title"] for it in told.values())], body)


def faster(rows: Sequence[Row]) -> str:
    """Those that beat ours at the middle size, and why, as a Markdown list."""
    named = {"ours": "our rules", "plain": "plain rules"}
    found = [
        f"* {row.who}, {row.how}, {named[row.rules]}: {ratio(row, rows):.2f} of ours at {MIDDLE} records. {row.why}"
        for row in rows
        if not row.ours and ratio(row, rows) < 1
    ]
    return "\n".join([LESS, "", "Faster than ours:", "", *found]) if found else "No peer is faster than ours."


def markdown(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, ["---"] * len(head), *body))


def as_json(rows: Sequence[Row], versions: Mapping[str, JSON], left_out: Mapping[str, NotMeasured]) -> str:
    """Everything as JSON, times in milliseconds."""
    shown = [
        {
            "who": row.who,
            "how": row.how,
            "rules": row.rules,
            "kind": row.kind,
            "ms": {size: {"p50": row.p50(size), "p95": row.p95(size), "n": len(row.samples[size])} for size in SIZES},
            "to_ours": {size: ratio(row, rows, size) for size in SIZES},
            "verdicts": row.verdicts,
        }
        for row in rows
    ]
    return json.dumps(
        {
            "unit": "ms",
            "rows": shown,
            "versions": versions,
            "not_measured": {peer: str(why) for peer, why in left_out.items()},
        },
        indent=2,
    )


def report(rows: Sequence[Row], versions: Mapping[str, JSON], left_out: Mapping[str, NotMeasured]) -> str:
    """The tables, and what stands beside them."""
    parts = [table(rows), verdicts(rows), cannot([peer for peer in NAMES if peer in versions])]
    parts.append(faster(rows))
    parts += [f"Not measured: {peer}: {reason}" for peer, reason in left_out.items()]
    parts.append("\n".join(f"{who}: " + ", ".join(f"{k} {v}" for k, v in it.items()) for who, it in versions.items()))
    return "\n\n".join(parts)
