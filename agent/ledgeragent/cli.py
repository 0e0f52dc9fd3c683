"""The command line: replay, check, demo, policies, doctor; further commands have modules of their own, `cli_…`.

Reads options, opens files and engines, prints. Every error a user can cause ends as one message on stderr, never as a
traceback. Exit status: 0 done, 1 something was skipped or is wrong, 2 the command could not start; `check` has its
own.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Annotated, Any, Final, Literal

import typer
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding

from ledgeragent import __version__, cli_backtest, cli_bundle, cli_domain, cli_records, cli_rollout, cli_tau2, cli_why
from ledgeragent.catalogue import Entry, as_html, as_json, as_markdown, read_catalogue
from ledgeragent.cli_chat import chat
from ledgeragent.cli_collect import collect
from ledgeragent.cli_gates import (
    EngineOption,
    FloorOption,
    FreezeOption,
    Gates,
    MinimumOption,
    OverridesOption,
    PinOption,
    PoliciesOption,
    SchemasOption,
    Unproved,
    example,
)
from ledgeragent.cli_proxy import mcp_proxy
from ledgeragent.cli_report import report
from ledgeragent.cli_serve import serve
from ledgeragent.conversation import open_lines, read_conversation
from ledgeragent.demo import show
from ledgeragent.engine import Engine, find_opa
from ledgeragent.errors import BadInput, EngineError, LedgerAgentError
from ledgeragent.gate import Gate
from ledgeragent.jsonio import canonical, parse
from ledgeragent.parts import gate_part
from ledgeragent.policies import EXAMPLES, REGO, SCHEMAS, domains
from ledgeragent.records import JsonlRecorder
from ledgeragent.replay import Replay, Tally
from ledgeragent.terminal import counting, print_tally
from ledgeragent.workers import Processes, chunks, in_order

app = typer.Typer(
    help="Keep tool-calling agents to policy: a ledger of what tools returned, and a gate before every write.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
JUDGE: Final = "Judge calls"
WORK: Final = "Work with what was judged"
WRITE: Final = "Write rules"
RUN: Final = "Run it"
MEASURE: Final = "Measure an agent"
app.add_typer(cli_domain.app, name="domain", rich_help_panel=WRITE)
app.add_typer(cli_bundle.app, name="bundle", rich_help_panel=RUN)
app.add_typer(cli_records.app, name="records", rich_help_panel=WORK)
app.add_typer(cli_tau2.app, name="tau2", rich_help_panel=MEASURE)
app.command(
    rich_help_panel=WORK,
    epilog=example("ledgeragent backtest --records records.jsonl --policies rego --against git:main"),
)(cli_backtest.backtest)
app.command(rich_help_panel=RUN, epilog="Example: [bold]ledgeragent rollout records.jsonl[/bold]")(cli_rollout.rollout)
app.command(
    name="explain", rich_help_panel=WORK, epilog=example("ledgeragent explain 5571cc39 --records records.jsonl")
)(cli_why.explain_command)
app.command(
    name="fixture",
    rich_help_panel=WORK,
    epilog=example("ledgeragent fixture 5571cc39 --records records.jsonl -o incidents"),
)(cli_why.fixture_command)
app.command(
    name="coverage", rich_help_panel=WORK, epilog=example("ledgeragent coverage examples/conversations/retail.jsonl")
)(cli_why.coverage_command)
CHECK_STATUS: Final = {"allow": 0, "revise": 10, "block": 20}
ENGINE_STATUS: Final = 30
_CHUNK: Final = 8


@app.callback()
def _options(
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Say which engine was taken, and why.")] = False,
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
) -> None:
    logging.basicConfig(level=logging.INFO if verbose else logging.ERROR, format="%(name)s: %(message)s")
    if version:
        typer.echo(__version__)
        raise typer.Exit


@app.command(
    rich_help_panel=JUDGE, epilog=example("ledgeragent replay talks.jsonl.gz --format jsonl --out verdicts.jsonl")
)
def replay(
    files: Annotated[list[str], typer.Argument(help="JSONL files of conversations, .gz too; - for stdin.")],
    domain: Annotated[str | None, typer.Option(help="Domain of conversations that name none.")] = None,
    engine: EngineOption = "auto",
    policies: PoliciesOption = REGO,
    schemas: SchemasOption = SCHEMAS,
    overrides: OverridesOption = None,
    floor: FloorOption = None,
    freeze: FreezeOption = None,
    now: Annotated[str | None, typer.Option(help="Clock of conversations that carry none (RFC 3339, offset).")] = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes; the order of the output stays.")] = 1,
    format_: Annotated[Literal["table", "jsonl"], typer.Option("--format", help="What to write per call.")] = "table",
    out: Annotated[Path | None, typer.Option(help="Write there instead of stdout.")] = None,
    record: Annotated[
        Path | None, typer.Option(help="Append a record of every decision and outcome to this file (JSONL).")
    ] = None,
) -> None:
    """Judge recorded conversations: build the ledger from their returns, judge every write when it comes."""
    job = _Job(domain, engine, policies, schemas, now, overrides, floor, freeze, record)
    errors = Console(stderr=True)
    tally = Tally()
    skipped = 0
    with ExitStack() as stack:
        target = stack.enter_context(out.open("w", encoding="utf-8")) if out is not None else sys.stdout
        advance = stack.enter_context(counting(errors, "conversations"))
        for problem, rows in stack.enter_context(_judged(files, job, workers)):
            advance(1)
            if problem is not None:
                skipped += 1
                errors.print(f"skipped: {problem}", style="yellow", markup=False, highlight=False)
            tally.add(rows)
            for row in rows:
                _write_row(row, format_, target)
        target.flush()
    print_tally(tally, errors)
    if skipped:
        errors.print(f"{skipped} line{'' if skipped == 1 else 's'} skipped", style="yellow")
    raise typer.Exit(1 if skipped else 0)


class _Job(Gates):
    """What a worker needs to judge lines; it opens its engine and gates when it first needs them."""

    def __init__(
        self,
        domain: str | None,
        engine: str,
        policies: Path,
        schemas: Path,
        now: str | None,
        overrides: Path | None = None,
        floor: Path | None = None,
        freeze: Path | None = None,
        record: Path | None = None,
    ) -> None:
        super().__init__(engine, policies, schemas, overrides, floor, freeze)
        self.domain = domain
        self.now = now
        self.record = record
        self._recorder = JsonlRecorder(record) if record is not None else None

    def judge(self, place: str, line: str) -> tuple[str | None, list[dict[str, Any]]]:
        """(what is wrong with the line, rows of its judged calls)."""
        try:
            conversation = read_conversation(line, place=place)
            name = conversation.domain or self.domain
            if name is None:
                raise BadInput(f"{place} names no domain; add --domain")
            run = Replay(conversation, self.gate(name, place), now=self.now, recorder=self._recorder)
            return None, [judged.row() for judged in run.judged()]
        except BadInput as error:
            return str(error), []

    def close(self) -> None:
        """Close the engine and the record file."""
        super().close()
        if self._recorder is not None:
            self._recorder.close()


Judged = tuple[str | None, list[dict[str, Any]]]


@contextmanager
def _judged(files: list[str], job: _Job, workers: int) -> Iterator[Iterator[Judged]]:
    lines = (line for name in files for line in _lines(name))
    if workers == 1:
        try:
            yield (_one(job, line) for line in lines)
        finally:
            job.close()
        return
    job.close()  # the workers have their own
    shown = (job.domain, job.engine, job.policies, job.schemas, job.now)
    arguments = (*shown, job.overrides, job.floor, job.freeze, job.record)
    with Processes(workers, _work, _start_worker, *arguments) as pool:
        yield (one for _, found in in_order(chunks(lines, _CHUNK), pool) for one in found)


Line = tuple[str, str | None]


def _lines(name: str) -> Iterator[Line]:
    """(place, line); a file that cannot be read is (what is wrong, None)."""
    try:
        yield from open_lines(name)
    except BadInput as error:
        yield str(error), None


def _one(job: _Job, line: Line) -> Judged:
    place, text = line
    return job.judge(place, text) if text is not None else (place, [])


_worker: _Job


def _start_worker(*arguments: Any) -> None:
    global _worker  # one job per worker process, for as long as the process lives
    _worker = _Job(*arguments)


def _work(lines: list[Line]) -> list[Judged]:
    return [_one(_worker, line) for line in lines]


def _write_row(row: dict[str, Any], format_: str, target: IO[str]) -> None:
    if format_ == "jsonl":
        target.write(json.dumps(row, ensure_ascii=False) + "\n")
        return
    what = ", ".join(f"{one['predicate']} ({one['cause']})" for one in row["findings"]) or row.get("error", "")
    target.write(f"{row['conversation']}  {row['index']}  {row['tool']}  {row['verdict']}  {what}".rstrip() + "\n")


@app.command(rich_help_panel=JUDGE, epilog=example("ledgeragent check --engine embedded < gate-input.json"))
def check(
    engine: EngineOption = "auto",
    policies: PoliciesOption = REGO,
    schemas: SchemasOption = SCHEMAS,
    overrides: OverridesOption = None,
    floor: FloorOption = None,
    freeze: FreezeOption = None,
) -> None:
    """Judge one gate input from stdin; its decision goes to stdout.

    Exit status: 0 allow, 10 revise, 20 block, 30 no decision, 2 no gate input.
    """
    document = parse(sys.stdin.read(), what="stdin", limit=20_000_000)
    name = document.get("domain") if isinstance(document, dict) else None
    if not isinstance(name, str):
        raise BadInput("stdin is not a gate input: it has no 'domain' (schemas/gate_input.schema.json says what it is)")
    with Gates(engine, policies, schemas, overrides, floor, freeze) as gates:
        try:
            judged = gates.gate(name, "stdin").judge(document)
        except (EngineError, Unproved) as error:
            typer.echo(f"{error.code}: {error}" if isinstance(error, EngineError) else str(error), err=True)
            raise typer.Exit(ENGINE_STATUS) from None
    if judged.decision is None:
        assert judged.failure is not None
        typer.echo(f"{judged.failure.code}: {judged.failure.message}", err=True)
        raise typer.Exit(ENGINE_STATUS)
    typer.echo(canonical(judged.decision.model_dump(mode="json")))
    raise typer.Exit(CHECK_STATUS[judged.verdict])


@app.command(rich_help_panel=JUDGE, epilog=example("ledgeragent demo"))
def demo(
    engine: EngineOption = "embedded",
    files: Annotated[list[Path] | None, typer.Argument(help="Conversations to show.", show_default="ours")] = None,
) -> None:
    """Replay example conversations: the ledger as it grows, each verdict with its reason, and a summary."""
    console = Console(highlight=False)
    rows: list[dict[str, Any]] = []
    with Gates(engine, REGO, SCHEMAS) as gates:
        for path in files or sorted((EXAMPLES / "conversations").glob("*.jsonl")):
            for place, line in open_lines(str(path)):
                conversation = read_conversation(line, place=place)
                rows += show(conversation, gates.gate(conversation.domain or "", place), console)
        tally = Tally()
        tally.add(rows)
        print_tally(tally, console)
        proved = gates.open()
        console.print(f"engine: {proved.name}, OPA {proved.version}", markup=False)


app.command(
    rich_help_panel=JUDGE, epilog=example("ledgeragent chat --domain retail --script examples/chat/retail.jsonl")
)(chat)
app.command(rich_help_panel=RUN, epilog=example("ledgeragent collect --out decisions"))(collect)
app.command(rich_help_panel=WORK, epilog=example("ledgeragent report talks.jsonl.gz records.jsonl -o report.html"))(
    report
)
app.command(rich_help_panel=RUN, epilog=example("ledgeragent serve --domain retail --record records.jsonl"))(serve)
app.command(
    name="mcp-proxy", rich_help_panel=RUN, epilog=example("ledgeragent mcp-proxy --domain . -- npx some-mcp-server")
)(mcp_proxy)


@app.command(rich_help_panel=WRITE, epilog=example("ledgeragent policies --domain retail --format html > retail.html"))
def policies(
    domain: Annotated[str | None, typer.Option(help="Only this domain.")] = None,
    format_: Annotated[Literal["text", "json", "md", "html"], typer.Option("--format", help="How to say it.")] = "text",
    policies: PoliciesOption = REGO,
    schemas: SchemasOption = SCHEMAS,
) -> None:
    """The catalogue of predicates: what is enforced, on which tools, with which evidence."""
    if domain is not None and domain not in domains(schemas):
        raise BadInput(f"no domain {domain[:80]!r} under {schemas}; there: {', '.join(domains(schemas)) or 'none'}")
    names = [domain] if domain is not None else domains(schemas)
    entries = [entry for name in names for entry in read_catalogue(name, rego=policies, schemas=schemas)]
    title = f"What is enforced: {', '.join(names)}"
    if format_ == "text":
        _print_entries(entries)
    elif format_ == "json":
        typer.echo(as_json(entries), nl=False)
    else:
        typer.echo(as_markdown(entries, title) if format_ == "md" else as_html(entries, title), nl=False)


def _print_entries(entries: Sequence[Entry]) -> None:
    out = Console(highlight=False)
    for entry in entries:
        out.print(f"[bold]{escape(entry.id)}[/]  {escape(entry.title)}")
        for name in ("description", "tools", "evidence", "remedy", "severity", "policy"):
            value = getattr(entry, name)
            said = ", ".join(value) if isinstance(value, tuple) else " ".join(value.split())
            out.print(Padding(f"[dim]{name}:[/] {escape(said or 'none')}", (0, 0, 0, 4), expand=False))


@app.command(rich_help_panel=RUN, epilog=example("ledgeragent doctor --engine http://127.0.0.1:8181"))
def doctor(
    engine: EngineOption = "auto",
    policies: PoliciesOption = REGO,
    schemas: SchemasOption = SCHEMAS,
    overrides: OverridesOption = None,
    floor: FloorOption = None,
    freeze: FreezeOption = None,
    domain: Annotated[list[str] | None, typer.Option(help="Only this domain; repeat it for more.")] = None,
    pin: PinOption = None,
    minimum: MinimumOption = None,
) -> None:
    """Say what is installed, which engine would be used, and whether it proves itself for every domain.

    Exit status: 1 when something is not as it must be; nothing of what fails here would be let through.
    """
    out = Console(highlight=False)
    failed = False

    def line(good: bool, what: str, said: str) -> None:
        nonlocal failed
        failed = failed or not good
        out.print(f"[{'green' if good else 'red'}]{'ok  ' if good else 'FAIL'}[/] {escape(what)}: {escape(said)}")

    line(True, "ledgeragent", __version__)
    line(True, "opa on this machine", str(find_opa() or "none (the embedded engine needs none)"))
    if policies.is_dir():
        _try(line, "policies", lambda: f"{policies}, gate {gate_part(policies).revision}")
    with Gates(engine, policies, schemas, overrides, floor, freeze, pin, minimum) as gates:
        if _try(line, f"engine {engine}", lambda: _describe(gates.open())):
            for name in domain or domains(schemas):
                if _try(line, f"domain {name}", lambda name=name: _describe_gate(gates.gate(name, "doctor"))):  # type: ignore[misc]
                    for gap in gates.gaps(name):
                        line(False, f"floor of {name}", f"{gap}: it is blocked")
    raise typer.Exit(1 if failed else 0)


def _describe(engine: Engine) -> str:
    return f"{engine.name} at {engine.location}, OPA {engine.version}"


def _describe_gate(gate: Gate) -> str:
    shown = gate.in_use()
    numbers = ", ".join(f"{part} {number}" for part, number in shown.sequence.model_dump().items() if number)
    return (
        f"{len(gate.domain.tools)} tools; proved for revision {shown.revision} with gate {shown.gate}; "
        f"{numbers or 'nothing is numbered'}"
    )


def _try(line: Callable[[bool, str, str], None], what: str, ask: Callable[[], str]) -> bool:
    try:
        line(True, what, ask())
    except LedgerAgentError as error:
        code = f"{error.code}: " if isinstance(error, EngineError) else ""
        line(False, what, code + str(error))
        return False
    return True


app.command(
    name="passk", rich_help_panel=MEASURE, epilog=example("ledgeragent passk retail-fc.jsonl retail-both.jsonl")
)(cli_tau2.passk_command)


def main() -> None:
    """Entry point: run a command; every error of ours is one message and a status."""
    try:
        app()
    except EngineError as error:
        _stop(f"{error.code}: {error}", ENGINE_STATUS)
    except (LedgerAgentError, OSError) as error:
        _stop(str(error), 2)


def _stop(message: str, status: int) -> None:
    print(f"ledgeragent: {message}", file=sys.stderr)  # noqa: T201
    sys.exit(status)
