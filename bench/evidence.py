"""What the gate would have said to recorded conversations, as Markdown: the tables of docs/evidence.md.

    python bench/evidence.py [FILE...]

Files hold conversations (they are replayed on the embedded engine) or rows that `ledgeragent replay --format jsonl`
wrote; default: the retail recordings of the reference data beside the repository. Numbers only: what they mean is said
in the document.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ledgeragent.conversation import open_lines, read_conversation
from ledgeragent.domain import Domain
from ledgeragent.engine import open_engine
from ledgeragent.errors import LedgerAgentError
from ledgeragent.gate import Gate
from ledgeragent.jsonio import parse
from ledgeragent.replay import Replay

Row = Mapping[str, Any]
REPOSITORY: Final = Path(__file__).resolve().parent.parent
RECORDINGS: Final = REPOSITORY.parent / "shared" / "data" / "conversations" / "retail.jsonl.gz"
VERDICTS: Final = ("allow", "revise", "block")
MAX_LINE: Final = 50_000_000
GROUPS: Final[Sequence[tuple[str, Callable[[float | None], bool]]]] = (
    ("reward 1", lambda reward: reward == 1),
    ("reward 0", lambda reward: reward == 0),
    ("reward between", lambda reward: reward is not None and 0 < reward < 1),
    ("no reward", lambda reward: reward is None),
)
OUTCOMES: Final = {True: "executed", False: "refused by the tool", None: "no return recorded"}
INDEPENDENT: Final[Mapping[str, tuple[int, tuple[float, float, float]]]] = {
    "reward 1": (1756, (93.5, 6.5, 0.0)),
    "reward 0": (949, (95.3, 4.7, 0.0)),
}
"""Another implementation of the same rules, over more recordings: executed writes, and their shares in percent."""


def rows(files: Iterable[str]) -> Iterator[Row]:
    """The judged calls of files of either kind.

    Raises:
        BadInput: naming the line that is neither.
    """
    gate = Gate(Domain.load("retail"), open_engine("embedded"))
    for file in files:
        for place, line in open_lines(file):
            document = parse(line, what=place, limit=MAX_LINE)
            if "messages" in document:
                replay = Replay(read_conversation(line, place=place), gate)
                yield from (judged.row() for judged in replay.judged())
            else:
                yield document


def is_undeclared(row: Row) -> bool:
    """Whether the call is of a tool that the domain does not have."""
    return any(finding["predicate"] == "gate.tool" for finding in row["findings"])


def share(part: int, whole: int) -> str:
    """A count with its share."""
    return f"{part} ({100 * part / whole:.1f} %)" if whole else "0"


def table(head: Sequence[str], body: Iterable[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *body]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def verdict_table(judged: Sequence[Row]) -> str:
    """Verdicts by reward and recorded outcome."""
    body = []
    for title, fits in GROUPS:
        for executed, outcome in OUTCOMES.items():
            found = Counter(row["verdict"] for row in judged if fits(row["reward"]) and row["executed"] is executed)
            if found.total():
                body.append([title, outcome, found.total(), *(share(found[one], found.total()) for one in VERDICTS)])
    return table(["conversations", "recorded outcome", "writes", *VERDICTS], body)


def findings_table(judged: Sequence[Row], executed: bool) -> str:
    """Findings by predicate and cause, one column per group; the shares are of the group's writes."""
    columns = []
    for title, fits in GROUPS:
        chosen = [row for row in judged if fits(row["reward"]) and row["executed"] is executed]
        if chosen:
            found = Counter(_kind(finding) for row in chosen for finding in row["findings"])
            columns.append((f"{title} ({len(chosen)})", len(chosen), found))
    kinds = sorted({kind for _, _, found in columns for kind in found})
    body = [[*kind, *(share(found[kind], total) for _, total, found in columns)] for kind in kinds]
    return table(["predicate", "cause", "verdict", *(title for title, _, _ in columns)], body)


def _kind(finding: Mapping[str, str]) -> tuple[str, str, str]:
    return finding["predicate"], finding["cause"], finding["verdict"]


def comparison_table(judged: Sequence[Row]) -> str:
    """Shares of executed writes beside the independent count's, which leaves `gate.loop` out."""
    body = []
    for title, fits in GROUPS:
        if title in INDEPENDENT:
            ran = [row for row in judged if fits(row["reward"]) and row["executed"]]
            found = Counter(_verdict_without_loop(row) for row in ran)
            theirs, shares = INDEPENDENT[title]
            ours = " / ".join(f"{100 * found[one] / len(ran):.1f}" for one in VERDICTS) if ran else "-"
            body.append([title, f"{ours} ({len(ran)})", f"{' / '.join(map(str, shares))} ({theirs})"])
    return table(["executed writes", "here: allow / revise / block %", "independent count"], body)


def _verdict_without_loop(row: Row) -> str:
    if "error" in row:
        return "block"
    verdicts = {finding["verdict"] for finding in row["findings"] if finding["predicate"] != "gate.loop"}
    return next((one for one in reversed(VERDICTS) if one in verdicts), "allow")


def undeclared_table(judged: Sequence[Row]) -> str:
    """Calls of undeclared tools, which are blocked."""
    found: Counter[tuple[str, str, str]] = Counter()
    for row in judged:
        title = next(title for title, fits in GROUPS if fits(row["reward"]))
        found[row["tool"], title, row["verdict"]] += 1
    return table(["tool", "conversations", "verdict", "calls"], [[*key, found[key]] for key in sorted(found)])


def report(judged: Sequence[Row]) -> str:
    """The whole report."""
    undeclared = [row for row in judged if is_undeclared(row)]
    writes = [row for row in judged if not is_undeclared(row)]
    refused = [row for row in writes if row["executed"] is False]
    caught = sum(row["verdict"] != "allow" for row in refused)
    errors = sum("error" in row for row in judged)
    conversations = len({row["conversation"] for row in judged})
    counts = (
        f"{len(judged)} judged calls in {conversations} conversations: {len(writes)} declared writes, "
        f"{len(undeclared)} calls of undeclared tools, {errors} engine errors."
    )
    return "\n\n".join(
        [
            counts,
            "### Verdicts",
            verdict_table(writes),
            "### Findings on executed writes",
            findings_table(writes, executed=True),
            "### Findings on writes that the tool refused",
            f"Caught by the gate before the tool was asked: {caught} of {len(refused)}.",
            findings_table(writes, executed=False),
            "### Undeclared tools",
            undeclared_table(undeclared),
            "### Beside the independent count",
            comparison_table(writes),
        ]
    )


def main() -> int:
    """Print the report; exit status 1 when a file cannot be used or an engine failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", help="conversations or replay rows, JSONL or .gz")
    files: list[str] = parser.parse_args().files or [str(RECORDINGS)]
    if files == [str(RECORDINGS)] and not RECORDINGS.is_file():
        print(f"NOT RUN: the reference data {RECORDINGS} is not here", file=sys.stderr)
        return 1 if os.environ.get("LEDGERAGENT_REQUIRE") else 0
    try:
        judged = list(rows(files))
    except LedgerAgentError as error:
        print(error, file=sys.stderr)
        return 1
    print(report(judged))
    return 1 if any("error" in row for row in judged) else 0


if __name__ == "__main__":
    sys.exit(main())
