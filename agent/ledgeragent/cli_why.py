"""`ledgeragent explain`, `fixture` and `coverage`: why a decision, a test of it, and what the policies look at.

Reads options, opens files and policies, prints; what is said is `explain`'s, `fixture`'s and `coverage`'s.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer
from rich.console import Console
from rich.text import Text

from ledgeragent.cli_gates import EngineOption, Gates, PoliciesOption, SchemasOption
from ledgeragent.contracts import DecisionRecord
from ledgeragent.conversation import MAX_LINE, read_conversation
from ledgeragent.coverage import Corpus, Counting, Looks, looks
from ledgeragent.deciding import Line, whole_trace
from ledgeragent.domain import Domain
from ledgeragent.engine import find_opa
from ledgeragent.errors import BadInput
from ledgeragent.explain import Explanation, Fact, Outcome, call_text, explain
from ledgeragent.fixture import make_fixture, write_fixture
from ledgeragent.jsonio import parse
from ledgeragent.paths import dotted
from ledgeragent.policies import REGO, SCHEMAS, domains
from ledgeragent.policysource import PolicySources
from ledgeragent.recordfiles import open_texts
from ledgeragent.records import find_record, parse_record
from ledgeragent.reopen import Deployed, Reopened, Reopener
from ledgeragent.replay import Replay
from ledgeragent.terminal import STYLES, brief, print_lines
from ledgeragent.terminal import Line as Paragraph

_STATUS: Final = {"holds": "green", "unknown": "yellow", "violated": "red"}

RecordArgument = Annotated[
    str, typer.Argument(metavar="RECORD_ID", help="The decision's request id, or its first 6 characters or more.")
]
RecordsOption = Annotated[
    list[str], typer.Option("--records", help="A record file, .gz too, the current one for its set; - for stdin.")
]
NamedPolicies = Annotated[
    str | None,
    typer.Option(
        "--policies", help="Policies to look into first for the record's revision: a folder, a bundle file or git:REV."
    ),
]
NamedSchemas = Annotated[
    Path | None, typer.Option("--schemas", help="The schemas to use instead of those beside the policies.")
]
Then = Annotated[Path | None, typer.Option(help="What was in force then (a JSON file).")]


def explain_command(
    record_id: RecordArgument,
    records: RecordsOption,
    policies: NamedPolicies = None,
    schemas: NamedSchemas = None,
    overrides: Then = None,
    floor: Then = None,
    freeze: Then = None,
    trace: Annotated[bool, typer.Option("--trace", help="OPA's whole trace of what did not hold, after it.")] = False,
    format_: Annotated[Literal["text", "json"], typer.Option("--format", help="How to say it.")] = "text",
) -> None:
    """Say why a call was allowed, revised or blocked: facts, predicates, deciding lines, what an allow would take."""
    record, became = find_record(records, record_id)
    with ExitStack() as stack:
        sources = stack.enter_context(PolicySources(schemas=schemas))
        deployed = Deployed.read({"overrides": overrides, "floor": floor, "freeze": freeze})
        reopener = stack.enter_context(Reopener(sources, policies, deployed))
        opened, missing = _opened(reopener, record)
        opa = find_opa()
        found = explain(record, became, opened, opa)
        found = dataclasses.replace(found, notes=(*missing, *found.notes))
        if format_ == "json":
            typer.echo(json.dumps(_document(found), ensure_ascii=False, indent=2))
        else:
            print_lines(_paragraphs(found), Console(highlight=False))
        if trace:
            _print_trace(found, opened, opa)


def _opened(reopener: Reopener, record: DecisionRecord) -> tuple[Reopened | None, tuple[str, ...]]:
    try:
        return reopener.of(record), ()
    except BadInput as problem:
        return None, (str(problem),)


def _print_trace(found: Explanation, opened: Reopened | None, opa: Path | None) -> None:
    failed = [
        one.predicate for one in found.outcomes if one.status != "holds" and not one.predicate.startswith("gate.")
    ]
    if opened is None or opa is None or not opened.source.policies.is_dir():
        raise BadInput("a trace needs an opa on PATH and the record's policies in a folder or in git")
    if failed:
        given = found.record.input.model_dump(mode="json")
        typer.echo("\n" + whole_trace(opa, opened.source.policies, failed, given))


def _document(found: Explanation) -> dict[str, Any]:
    record = found.record
    return {
        "request": record.input.request,
        "session": record.session,
        "turn": record.input.session.turn,
        "at": record.at,
        "tool": record.input.action.tool,
        "arguments": record.input.action.arguments,
        "verdict": record.verdict,
        "enforced": record.enforced,
        "error": record.error,
        "revision": record.revision,
        "policies": found.policies,
        "became": [{"outcome": one.outcome, "at": one.at} for one in found.became],
        "facts": [_fact(one) for one in found.facts],
        "other_facts": [one.model_dump(mode="json") for one in found.others],
        "predicates": [dataclasses.asdict(one) for one in found.outcomes],
        "reads": list(found.reads),
        "same": found.same,
        "notes": list(found.notes),
    }


def _fact(fact: Fact) -> dict[str, Any]:
    read = None if fact.read is None else fact.read.model_dump(mode="json")
    return {
        "path": list(fact.path),
        "known": fact.known,
        "value": fact.value,
        "read": read,
        "stale_by": list(fact.stale_by),
        "used_by": list(fact.used_by),
    }


# Words ---------------------------------------------------------------------------------------------------------------


def _paragraphs(found: Explanation) -> Iterator[Paragraph]:
    record = found.record
    yield Paragraph(
        Text.assemble(
            (record.verdict.upper(), STYLES[record.verdict]),
            "  ",
            (call_text(record.input.action.tool, record.input.action.arguments), "bold"),
            "" if record.enforced else "  (in shadow: not held back)",
        )
    )
    yield Paragraph(Text(_when(record), style="dim"), 2)
    yield Paragraph(Text(_by_what(found), style="dim"), 2)
    yield Paragraph(Text(_became(found)), 2)
    if record.error is not None:
        yield Paragraph(Text(f"no decision could be accepted: {record.error}", style="red"), 2)
    yield from _fact_paragraphs(found)
    yield from _outcome_paragraphs(found)
    yield from _needed_paragraphs(found)
    for note in found.notes:
        yield Paragraph(Text(f"note: {note}", style="yellow"))


def _when(record: DecisionRecord) -> str:
    session = record.input.session
    whose = f" for {session.principal.id} ({session.principal.source})" if session.principal is not None else ""
    return f"{record.at}, session {record.session}, turn {session.turn}{whose}; its clock: {session.now}"


def _by_what(found: Explanation) -> str:
    record = found.record
    where = f" ({found.policies})" if found.policies is not None else ""
    again = {True: "; judged again: the same", False: "; JUDGED AGAIN: NOT THE SAME", None: ""}[found.same]
    revision = f"policies {record.revision[:19]}…{where}" if record.revision else "no policies"
    return f"{revision}, engine {record.engine.name} {record.engine.version}{again}"


def _became(found: Explanation) -> str:
    if not found.became:
        return "outcome: none on record"
    return "outcome: " + ", then ".join(f"{one.outcome} at {one.at}" for one in found.became)


def _fact_paragraphs(found: Explanation) -> Iterator[Paragraph]:
    yield Paragraph(Text("\nfacts", style="bold"))
    for fact in found.facts:
        value = {"known": _value(fact), "missing": "never read", "stale": "stale"}[fact.known]
        style = "yellow" if fact.known != "known" else ""
        yield Paragraph(Text.assemble(dotted(fact.path), " = " if fact.known == "known" else ": ", (value, style)), 2)
        if fact.read is not None:
            read = fact.read
            yield Paragraph(Text(f"read by {read.tool}, call {read.call_id}, turn {read.turn}, {read.at}", "dim"), 6)
        for write in fact.stale_by:
            yield Paragraph(Text(f"changed by {write}", style="yellow"), 6)
        yield Paragraph(Text(f"for {', '.join(fact.used_by)}", style="dim"), 6)
    if not found.facts:
        yield Paragraph(Text("none asked for", style="dim"), 2)
    if found.others:
        names = ", ".join(dotted(one.path) for one in found.others)
        yield Paragraph(Text(f"at hand and not asked for: {names}", style="dim"), 2)


def _value(fact: Fact) -> str:
    return brief(fact.value) if fact.value is not None else "null or absent"


def _outcome_paragraphs(found: Explanation) -> Iterator[Paragraph]:
    yield Paragraph(Text("\npredicates", style="bold"))
    for one in found.outcomes:
        asks = f", asks for {one.verdict}" if one.verdict is not None else ""
        shadow = " in shadow" if one.mode == "shadow" else ""
        lifted = f"; {one.lifted}" if one.lifted else ""
        said = f"  {one.predicate}{asks}{shadow}{lifted}"
        yield Paragraph(Text.assemble((one.status, _STATUS[one.status]), said), 2)
        if one.again not in (None, one.status):
            yield Paragraph(Text(f"judged again: {one.again}", style="bold red"), 6)
        if one.message:
            yield Paragraph(Text(one.message), 6)
        for line in one.lines:
            yield from _line_paragraphs(line, 6)
    if not found.outcomes:
        yield Paragraph(Text("none was judged", style="dim"), 2)


def _line_paragraphs(line: Line, columns: int) -> Iterator[Paragraph]:
    mark = {True: "holds", False: "fails", None: "rule"}[line.holds]
    yield Paragraph(Text.assemble((f"{line.file}:{line.row} ", "dim"), (f"{mark}: ", "bold"), line.text), columns)
    for below in line.because:
        yield from _line_paragraphs(below, columns + 2)


def _needed_paragraphs(found: Explanation) -> Iterator[Paragraph]:
    failed = [one for one in found.outcomes if one.status != "holds" and one.mode == "enforce"]
    if not failed:
        return
    yield Paragraph(Text("\nfor an allow", style="bold"))
    for one in failed:
        yield Paragraph(Text.assemble((f"{one.predicate}: ", "bold"), _needed(one, found)), 2)
    for read in found.reads:
        yield Paragraph(Text.assemble(("read first: ", "bold"), read), 2)


def _needed(one: Outcome, found: Explanation) -> str:
    compared = [
        f"{dotted(fact.path)} is {_value(fact)}"
        for fact in found.facts
        if one.predicate in fact.used_by and fact.known == "known" and not isinstance(fact.value, dict | list)
    ]
    consent = [f"Or {one.consent}."] if one.consent else []
    return " ".join(
        [one.needed or "see its message.", *consent, *([f"Now {', '.join(compared)}."] if compared else [])]
    )


# Fixture -------------------------------------------------------------------------------------------------------------


def fixture_command(
    record_id: RecordArgument,
    records: RecordsOption,
    out: Annotated[Path, typer.Option("-o", "--out", help="The folder to write to.")],
    policies: NamedPolicies = None,
    schemas: NamedSchemas = None,
    overrides: Then = None,
    floor: Then = None,
    freeze: Then = None,
) -> None:
    """Make a test of a decision: a Rego test and a contract vector, with the fewest facts and nothing personal."""
    record, _ = find_record(records, record_id)
    with ExitStack() as stack:
        sources = stack.enter_context(PolicySources(schemas=schemas))
        deployed = Deployed.read({"overrides": overrides, "floor": floor, "freeze": freeze})
        opened = stack.enter_context(Reopener(sources, policies, deployed)).of(record)
        made = make_fixture(record, opened, deployed)
        for path in write_fixture(made, out):
            typer.echo(f"wrote {path}")
        left, all_ = made.facts
        typer.echo(f"values of the ledger that are left: {left} of {all_}; texts with stand-ins: {made.replaced}")
        for note in made.notes:
            typer.echo(f"note: {note}")
        if opened.source.policies.is_dir():
            typer.echo(f"run it: opa test {opened.source.policies} {out} --run {made.stem}")


# Coverage ------------------------------------------------------------------------------------------------------------


def coverage_command(
    files: Annotated[
        list[str] | None, typer.Argument(help="Conversations or records to count in (JSONL, .gz too; - for stdin).")
    ] = None,
    domain: Annotated[list[str] | None, typer.Option(help="Only this domain; repeat it for more.")] = None,
    engine: EngineOption = "auto",
    policies: PoliciesOption = REGO,
    schemas: SchemasOption = SCHEMAS,
    require_fired: Annotated[
        bool, typer.Option("--require-fired", help="Exit status 1 when a predicate never fired in the files.")
    ] = False,
    format_: Annotated[Literal["table", "json"], typer.Option("--format", help="How to say it.")] = "table",
) -> None:
    """Say which facts the policies look at, which they never do, and which predicates never fired in a corpus."""
    if require_fired and not files:
        raise BadInput("--require-fired needs files to count in")
    if not policies.is_dir():
        raise BadInput(f"{policies} is no folder: coverage reads the policies' files")
    opa = find_opa()
    with Gates(engine, policies, schemas) as gates:
        counted = _Counted(gates, domain or domains(schemas), opa)
        for place, line in open_texts(files or ()):
            if line is None:
                raise BadInput(place)
            counted.add(place, line)
        found = counted.done()
        seen = [looks(one, policies, schemas, opa) for one in counted.domains.values()]
    if format_ == "json":
        document = {one.domain: {**dataclasses.asdict(one), "corpus": _corpus(found.get(one.domain))} for one in seen}
        typer.echo(json.dumps(document, ensure_ascii=False, indent=2))
    else:
        for one in seen:
            print_lines(_coverage_paragraphs(one, found.get(one.domain)), Console(highlight=False))
    raise typer.Exit(1 if require_fired and any(one.silent for one in found.values()) else 0)


class _Counted:
    """Counts lines of conversations and of records, each in its domain."""

    def __init__(self, gates: Gates, names: Sequence[str], opa: Path | None) -> None:
        unknown = set(names) - set(domains(gates.schemas))
        if unknown:
            raise BadInput(f"no domain {', '.join(sorted(unknown))} under {gates.schemas}")
        self.domains = {name: Domain.load(name, schemas=gates.schemas, rego=gates.policies) for name in names}
        self._gates = gates
        self._opa = opa
        self._counting: dict[str, Counting] = {}

    def add(self, place: str, line: str) -> None:
        document = parse(line, what=place, limit=MAX_LINE)
        if isinstance(document, dict) and "messages" in document:
            self._add_conversation(place, line)
            return
        record = parse_record(line, place=place)
        if isinstance(record, DecisionRecord) and record.input.domain in self.domains:
            whole = record.redacted is None or record.redacted.judged_again == "exactly"
            given = record.input.model_dump(mode="json")
            self._of(record.input.domain).add(given, record.decision, whole=whole)

    def _add_conversation(self, place: str, line: str) -> None:
        conversation = read_conversation(line, place=place)
        if conversation.domain is None:
            raise BadInput(f"{place} names no domain")
        if conversation.domain not in self.domains:
            return
        for judged in Replay(conversation, self._gates.gate(conversation.domain, place)).judged():
            self._of(conversation.domain).add(judged.review.gate_input, judged.review.decision)

    def _of(self, name: str) -> Counting:
        if name not in self._counting:
            self._counting[name] = Counting(self.domains[name], self._gates.policies, self._opa)
        return self._counting[name]

    def done(self) -> dict[str, Corpus]:
        for one in self._counting.values():
            one.finish()
        return {name: one.corpus for name, one in self._counting.items()}


def _corpus(found: Corpus | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "calls": dict(found.calls),
        "verdicts": dict(found.verdicts),
        "no_decision": found.no_decision,
        "predicates": {name: dataclasses.asdict(one) for name, one in sorted(found.predicates.items())},
        "silent": found.silent,
        "factless": None if found.factless is None else dict(found.factless),
    }


def _coverage_paragraphs(seen: Looks, found: Corpus | None) -> Iterator[Paragraph]:
    yield Paragraph(Text(f"{seen.domain}", style="bold"))
    source = "" if seen.exact else " (as stated; with an opa on PATH, as the rules have it)"
    yield Paragraph(Text(f"{len(seen.read)} paths are read{source}", style="bold"), 2)
    for path, users in seen.read.items():
        yield Paragraph(Text.assemble(path, (f"  {_own(users, seen.domain)}", "dim")), 4)
    yield from _list_paragraphs("no predicate reads", seen.unread)
    yield from _list_paragraphs("read by tools, needed by no predicate", [f"{p}  by {t}" for t, p in seen.needless])
    rows = [f"{one}{'  (unguarded, with an owner)' if one in seen.unguarded else ''}" for one in seen.common_only]
    yield from _list_paragraphs("writes that no rule of the domain guards", rows)
    if found is not None:
        yield from _corpus_paragraphs(found)
    yield Paragraph(Text(""))


def _corpus_paragraphs(found: Corpus) -> Iterator[Paragraph]:
    verdicts = ", ".join(f"{name} {count}" for name, count in sorted(found.verdicts.items()))
    yield Paragraph(Text(f"{found.calls.total()} judged calls: {verdicts or 'no decision'}", style="bold"), 2)
    width = max((len(name) for name in found.predicates), default=9)
    yield Paragraph(Text(f"{'predicate':{width}}  judged violated unknown", style="dim"), 4)
    for name, one in sorted(found.predicates.items()):
        style = "yellow" if name in found.silent else ""
        yield Paragraph(Text(f"{name:{width}} {one.judged:7} {one.violated:8} {one.unknown:7}", style=style), 4)
    yield from _list_paragraphs("never fired", found.silent)
    if found.factless is not None:
        rows = [f"{tool}  {count}" for tool, count in sorted(found.factless.items())]
        yield from _list_paragraphs("allowed calls of which no predicate asked for a fact", rows)


def _list_paragraphs(title: str, rows: Sequence[str]) -> Iterator[Paragraph]:
    yield Paragraph(Text(f"{title}: {len(rows) or 'none'}", style="bold"), 2)
    for row in rows:
        yield Paragraph(Text(row), 4)


def _own(users: Sequence[str], domain: str) -> str:
    return ", ".join(one.removeprefix(f"{domain}.") for one in users)
