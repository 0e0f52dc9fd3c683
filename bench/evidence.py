"""What the gate would have said to recorded conversations, as Markdown: the tables of docs/evidence.md.

    python bench/evidence.py [FILE...]

Files hold conversations, which are replayed on the embedded engine; default: the recordings of the reference data
beside the repository, one file per domain. Numbers only: what they mean is said in the document.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ledgeragent import policies
from ledgeragent.conversation import open_lines, read_conversation
from ledgeragent.domain import Domain
from ledgeragent.engine import open_engine
from ledgeragent.errors import BadInput, LedgerAgentError
from ledgeragent.gate import Gate
from ledgeragent.replay import JudgedCall, Replay, findings

Row = Mapping[str, Any]
Ignored = Callable[[Mapping[str, Any]], bool]
REPOSITORY: Final = Path(__file__).resolve().parent.parent
RECORDINGS: Final = REPOSITORY.parent / "shared" / "data" / "conversations"
VERDICTS: Final = ("allow", "revise", "block")
GROUPS: Final[Sequence[tuple[str, Callable[[float | None], bool]]]] = (
    ("reward 1", lambda reward: reward == 1),
    ("reward 0", lambda reward: reward == 0),
    ("reward between", lambda reward: reward is not None and 0 < reward < 1),
    ("no reward", lambda reward: reward is None),
)
OUTCOMES: Final = {True: "executed", False: "refused by the tool", None: "no return recorded"}
NOT_OFFERED: Final = {"airline": "flight_status"}
"""Facts that no recording could have: the older airline tool set has no get_flight_status, and nothing calls it."""
INDEPENDENT: Final[Mapping[str, Mapping[str, tuple[int, tuple[float, float, float]]]]] = {
    "airline": {"reward 1": (670, (73.7, 23.9, 2.4)), "reward 0": (1505, (49.1, 43.5, 7.4))},
    "retail": {"reward 1": (1756, (93.5, 6.5, 0.0)), "reward 0": (949, (95.3, 4.7, 0.0))},
    "telecom": {"reward 1": (137, (87.6, 5.8, 6.6)), "reward 0": (82, (73.2, 18.3, 8.5))},
    "telehealth": {"reward 1": (21, (71, 29, 0)), "reward 0": (113, (92, 8, 0))},
}
"""Another implementation of the same rules, over more recordings: executed writes, and their shares in percent."""


def rows(files: Iterable[str]) -> Iterator[Row]:
    """The judged calls of the conversations in files.

    Raises:
        BadInput: naming the line that is no conversation of a domain.
    """
    gates: dict[str, Gate] = {}
    engine = open_engine("embedded")
    for file in files:
        for place, line in open_lines(file):
            conversation = read_conversation(line, place=place)
            domain = conversation.domain
            if domain is None:
                raise BadInput(f"{place}: the conversation names no domain")
            if domain not in gates:
                gates[domain] = Gate(Domain.load(domain), engine)
            yield from (row(domain, judged) for judged in Replay(conversation, gates[domain]).judged())


def row(domain: str, judged: JudgedCall) -> Row:
    """A judged call with its domain; the cause of a finding that only asks for what was not offered says so."""
    document = judged.row()
    for shown, finding in zip(document["findings"], findings(judged.review), strict=True):
        roots = {fact.path[0] for fact in finding.missing}
        if roots == {NOT_OFFERED.get(domain)}:
            shown["cause"] = "not offered"
    return {**document, "domain": domain}


def is_undeclared(row: Row) -> bool:
    """Whether the call is of a tool that the domain does not have."""
    return any(finding["predicate"] == "gate.tool" for finding in row["findings"])


def is_loop(finding: Mapping[str, Any]) -> bool:
    """Whether the finding is about the session, not the call; the independent count has none of these."""
    return bool(finding["predicate"] == "gate.loop")


def is_loop_or_not_offered(finding: Mapping[str, Any]) -> bool:
    """Whether the finding says nothing against the call, or only asks for a read that could not be made."""
    return is_loop(finding) or finding["cause"] == "not offered"


def verdict(row: Row, ignored: Ignored = is_loop) -> str:
    """The worst verdict of the findings that count."""
    if "error" in row:
        return "block"
    verdicts = {finding["verdict"] for finding in row["findings"] if not ignored(finding)}
    return next((one for one in reversed(VERDICTS) if one in verdicts), "allow")


def share(part: int, whole: int) -> str:
    """A count with its share."""
    return f"{part} ({100 * part / whole:.1f} %)" if whole else "0"


def table(head: Sequence[str], body: Iterable[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *body]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def verdict_table(judged: Sequence[Row], ignored: Ignored = is_loop) -> str:
    """Verdicts by reward and recorded outcome."""
    body = []
    for title, fits in GROUPS:
        for executed, outcome in OUTCOMES.items():
            chosen = [row for row in judged if fits(row["reward"]) and row["executed"] is executed]
            found = Counter(verdict(row, ignored) for row in chosen)
            if chosen:
                body.append([title, outcome, len(chosen), *(share(found[one], len(chosen)) for one in VERDICTS)])
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


def cost_table(domain: str, judged: Sequence[Row]) -> str:
    """What each predicate costs: the good writes that it stops, and those that nothing else would have stopped."""
    good = [row for row in judged if row["executed"] and row["reward"] == 1]
    stopped: Counter[str] = Counter()
    alone: Counter[str] = Counter()
    for row in good:
        predicates = {finding["predicate"] for finding in row["findings"] if not is_loop(finding)}
        stopped.update(predicates)
        alone.update(predicates if len(predicates) == 1 else ())
    listed = {*policies.read_rego(policies.REGO, domain).listed, *stopped}
    body = [[one, share(stopped[one], len(good)), share(alone[one], len(good))] for one in sorted(listed)]
    return table(["predicate", f"of {len(good)} good writes stopped", "by it alone"], body)


def comparison_table(domain: str, judged: Sequence[Row]) -> str:
    """Shares of executed writes beside the independent count's, which leaves `gate.loop` out."""
    body = []
    for title, fits in GROUPS:
        if title in INDEPENDENT[domain]:
            ran = [row for row in judged if fits(row["reward"]) and row["executed"]]
            theirs, shares = INDEPENDENT[domain][title]
            other = f"{' / '.join(map(str, shares))} ({theirs})"
            body.append([title, f"{_shares(ran, is_loop)} ({len(ran)})", other])
            if domain in NOT_OFFERED:
                body.append([f"{title}, without reads not offered", f"{_shares(ran, is_loop_or_not_offered)}", ""])
    return table(["executed writes", "here: allow / revise / block %", "independent count"], body)


def _shares(ran: Sequence[Row], ignored: Ignored) -> str:
    found = Counter(verdict(row, ignored) for row in ran)
    return " / ".join(f"{100 * found[one] / len(ran):.1f}" for one in VERDICTS) if ran else "-"


def summary_table(judged: Sequence[Row]) -> str:
    """One line per domain, and a second one where reads were not offered."""
    body = []
    for domain in sorted({row["domain"] for row in judged}):
        writes = [row for row in judged if row["domain"] == domain and not is_undeclared(row)]
        body.append(_summary(domain, writes, is_loop))
        if domain in NOT_OFFERED:
            body.append(_summary(f"{domain}, without reads not offered", writes, is_loop_or_not_offered))
    shown = "allow / revise / block %"
    return table(["executed writes", f"reward 1: {shown}", f"reward 0: {shown}", "refused ones caught before"], body)


def _summary(title: str, writes: Sequence[Row], ignored: Ignored) -> list[str]:
    good, bad = ([row for row in writes if row["executed"] and row["reward"] == reward] for reward in (1, 0))
    refused = [row for row in writes if row["executed"] is False]
    caught = sum(verdict(row, ignored) != "allow" for row in refused)
    shares = [f"{_shares(ran, ignored)} ({len(ran)})" for ran in (good, bad)]
    return [title, *shares, f"{caught} of {len(refused)}"]


def undeclared_table(judged: Sequence[Row]) -> str:
    """Calls of undeclared tools, which are blocked."""
    found: Counter[tuple[str, str, str]] = Counter()
    for row in judged:
        title = next(title for title, fits in GROUPS if fits(row["reward"]))
        found[row["tool"], title, row["verdict"]] += 1
    return table(["tool", "conversations", "verdict", "calls"], [[*key, found[key]] for key in sorted(found)])


def report(domain: str, judged: Sequence[Row]) -> str:
    """A domain's report."""
    undeclared = [row for row in judged if is_undeclared(row)]
    writes = [row for row in judged if not is_undeclared(row)]
    refused = [row for row in writes if row["executed"] is False]
    caught = sum(verdict(row) != "allow" for row in refused)
    errors = sum("error" in row for row in judged)
    conversations = len({row["conversation"] for row in judged})
    parts = [
        f"## {domain.capitalize()}",
        f"{len(judged)} judged calls in {conversations} conversations: {len(writes)} declared writes, "
        f"{len(undeclared)} calls of undeclared tools, {errors} engine errors.",
        "### Verdicts",
        verdict_table(writes),
    ]
    if domain in NOT_OFFERED:
        parts += [
            f"### Verdicts without the findings that only ask for `{NOT_OFFERED[domain]}`",
            verdict_table(writes, is_loop_or_not_offered),
        ]
    parts += [
        "### Findings on executed writes",
        findings_table(writes, executed=True),
        "### What each predicate costs",
        cost_table(domain, writes),
        "### Findings on writes that the tool refused",
        f"Caught by the gate before the tool was asked: {caught} of {len(refused)}.",
        findings_table(writes, executed=False),
    ]
    if undeclared:
        parts += ["### Undeclared tools", undeclared_table(undeclared)]
    return "\n\n".join([*parts, "### Beside the independent count", comparison_table(domain, writes)])


def main() -> int:
    """Print the reports; exit status 1 when a file cannot be used or an engine failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", help="conversations, JSONL or .gz")
    files: list[str] = parser.parse_args().files
    if not files and not RECORDINGS.is_dir():
        print(f"NOT RUN: the reference data {RECORDINGS} is not here", file=sys.stderr)
        return 1 if os.environ.get("LEDGERAGENT_REQUIRE") else 0
    try:
        judged = list(rows(files or [str(RECORDINGS / f"{domain}.jsonl.gz") for domain in policies.domains()]))
    except LedgerAgentError as error:
        print(error, file=sys.stderr)
        return 1
    print(summary_table(judged), end="\n\n")
    for domain in sorted({row["domain"] for row in judged}):
        print(report(domain, [row for row in judged if row["domain"] == domain]), end="\n\n")
    return 1 if any("error" in row for row in judged) else 0


if __name__ == "__main__":
    sys.exit(main())
