"""`ledgeragent tau2 run`, `tau2 export` and `passk`: measure an arm on τ²-bench, and say what came out.

Reads options, shows progress, prints. Running is `adapters.tau2.run`'s business, which is imported only here and only
when it is needed: it needs the benchmark. Counting is `passk`'s.
"""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from ledgeragent import passk, terminal
from ledgeragent.arms import Arm
from ledgeragent.cli_gates import EngineOption, Gates, example
from ledgeragent.domain import Domain
from ledgeragent.errors import BadInput
from ledgeragent.loop import Mode
from ledgeragent.passk import FAILURES, KS, Estimate, Report
from ledgeragent.policies import REGO, SCHEMAS, domains
from ledgeragent.results import ResultWriter, read_results

if TYPE_CHECKING:
    from ledgeragent.adapters.tau2.run import Plan

app = typer.Typer(help="Measure the agent on τ²-bench, with and without ledger and gate.", no_args_is_help=True)

_INTERRUPTED: Final = 130
_NOT_A_NAME: Final = re.compile(r"[^A-Za-z0-9._-]+")

FileArgument = Annotated[Path, typer.Argument(help="A result file of `tau2 run`.", metavar="FILE")]


@app.command(epilog=example("ledgeragent tau2 run --domain retail --arm both --model openai/gpt-4.1 --trials 4"))
def run(
    domain: Annotated[str, typer.Option(help="airline, retail or telecom.")],
    model: Annotated[
        str, typer.Option(help="The agent's model as litellm knows it; with --base-url the server's name for it.")
    ],
    arm: Annotated[
        Arm, typer.Option(help="fc: neither; ledger: only shown; gate: only enforced; both.", case_sensitive=False)
    ] = "both",
    base_url: Annotated[str | None, typer.Option(help="An OpenAI-compatible endpoint, up to /v1.")] = None,
    trials: Annotated[int, typer.Option(min=1, help="Simulations per task.")] = 4,
    tasks: Annotated[str | None, typer.Option(help="Ids of tasks, with commas between.", show_default="all")] = None,
    num_tasks: Annotated[int | None, typer.Option(min=1, help="Only the first N tasks.", show_default="all")] = None,
    user_model: Annotated[
        str | None, typer.Option(help="The simulated user's model.", show_default="the agent's")
    ] = None,
    user_base_url: Annotated[
        str | None, typer.Option(help="Its endpoint; without --user-model the agent's.", show_default="its provider's")
    ] = None,
    temperature: Annotated[float, typer.Option(min=0, max=2, help="Of the agent's model; the user's is 0.")] = 0.0,
    mode: Annotated[
        Mode, typer.Option(help="When all calls of a message were rejected: try again at once, or tell the user.")
    ] = "same-turn",
    max_steps: Annotated[int, typer.Option(min=1, help="A simulation ends after so many messages.")] = 200,
    seed: Annotated[int, typer.Option(help="The trials' seeds are made from it.")] = 300,
    concurrency: Annotated[int, typer.Option(min=1, help="Simulations at a time.")] = 1,
    engine: EngineOption = "embedded",
    out: Annotated[
        Path | None,
        typer.Option(help="The result file; an existing one is gone on with.", show_default="by its options"),
    ] = None,
) -> None:
    """Run tasks with one arm; every finished simulation is a line of the result file.

    Break it off at any time: the same command goes on where it ended. Keys are taken from the environment, as litellm
    does (OPENAI_API_KEY, ANTHROPIC_API_KEY, …). Exit status: 0 all there, 1 some gave no result, 130 interrupted.
    """
    _need_benchmark()
    from ledgeragent.adapters.tau2.run import DOMAINS, Endpoint, Plan, Run

    if domain not in DOMAINS:
        raise BadInput(f"no domain {domain[:80]!r} to run; there are {', '.join(DOMAINS)}")
    agent = Endpoint(model, base_url, temperature)
    user = Endpoint(user_model or model, user_base_url or (base_url if user_model is None else None))
    wanted = tuple(one.strip() for one in tasks.split(",")) if tasks is not None else None
    about = Run(domain, arm, agent, user, trials, wanted, num_tasks, mode, max_steps, seed)
    path = out or Path(f"{domain}-{arm}-{_NOT_A_NAME.sub('-', model)}.jsonl")
    with Gates(engine, REGO, SCHEMAS) as gates:
        _finish(Plan(about, gates.gate(domain, "--domain")), path, concurrency)


def _finish(plan: Plan, path: Path, concurrency: int) -> None:
    errors = Console(stderr=True, highlight=False, soft_wrap=True)
    with ResultWriter(path, plan.header) as file:
        try:
            with progress(errors, len(file.done), len(plan)) as advance:
                failed = plan.finish(file, concurrency=concurrency, advance=advance)
        except KeyboardInterrupt:
            failed = None
        there = f"{len(file.done)} of {len(plan)} simulations are in {path}"
    if failed is None:
        errors.print(f"interrupted: {there}; the same command goes on", markup=False)
        raise typer.Exit(_INTERRUPTED)
    for one in failed:
        errors.print(f"no result: {one}", style="yellow", markup=False)
    errors.print(
        there + ("" if len(file.done) == len(plan) else "; the same command tries the others again"), markup=False
    )
    raise typer.Exit(1 if failed else 0)


def _need_benchmark() -> None:
    missing = [name for name in ("tau2", "litellm") if importlib.util.find_spec(name) is None]
    if missing:
        raise BadInput(
            f"the benchmark is not installed here (no {missing[0]}): python -m pip install 'ledgeragent[tau2]'"
        )


@contextmanager
def progress(console: Console, done: int, total: int) -> Iterator[Callable[[], None]]:
    """Progress on a terminal, silence elsewhere; gives what is called after each simulation."""
    columns = (TextColumn("simulations"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with terminal.progress(console, *columns, total=total) as update:
        update(completed=done)
        yield lambda: update(advance=1)


@app.command(epilog=example("ledgeragent tau2 export retail-both.jsonl --out retail-both.json"))
def export(
    file: FileArgument,
    out: Annotated[Path | None, typer.Option(help="Write there instead of stdout.")] = None,
) -> None:
    """Write a result file as the benchmark writes its own, for its viewer and its metrics."""
    _need_benchmark()
    from ledgeragent.adapters.tau2.run import as_benchmark

    text = as_benchmark(read_results(file))
    if out is None:
        typer.echo(text)
    else:
        out.write_text(text, encoding="utf-8")


def passk_command(
    files: Annotated[
        list[Path], typer.Argument(help="Result files of `tau2 run`, or of the benchmark.", metavar="RESULTS…")
    ],
    format_: Annotated[Literal["table", "json"], typer.Option("--format", help="How to say it.")] = "table",
) -> None:
    """pass^1 to pass^4 in percent, with 95 % intervals (bootstrap over tasks), per domain, arm and model.

    Also what a simulation cost, what the gate said, and why trials failed. Files of one run's parts are put together.
    """
    ours = domains()
    reports = []
    for sources in passk.grouped(passk.read_source(path) for path in files):
        name = sources[0].domain
        reports.append(passk.report(sources, Domain.load(name).is_write if name in ours else None))
    if format_ == "json":
        typer.echo(json.dumps([asdict(one) for one in reports], ensure_ascii=False, indent=2))
        return
    typer.echo("\n\n".join(_text(one) for one in reports))


def _text(report: Report) -> str:
    return "\n".join(
        [
            f"{report.domain} · {report.arm} · {report.model}: {report.tasks} tasks, {report.simulations} simulations",
            _row("", [f"pass^{k}" for k in KS], "mean"),
            _row("all tasks", [_cell(report.passk[k]) for k in KS], _percent(report.mean)),
            *_write_rows(report),
            *_left_out(report),
            *_costs(report),
            *_verdicts(report),
            f"{'ended':14}{_listed(report.ended)}",
            *_failures(report),
        ]
    )


def _row(name: str, cells: Sequence[str], last: str) -> str:
    return f"{name:14}" + "".join(f"{cell:21}" for cell in cells) + last


def _cell(estimate: Estimate | None) -> str:
    if estimate is None:
        return "-"
    return f"{_percent(estimate.value)} [{_percent(estimate.low)}, {_percent(estimate.high)}]"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f}"


def _write_rows(report: Report) -> list[str]:
    if not report.write_tasks:
        return []
    return [_row(f"{report.write_tasks} with writes", [_cell(report.write_passk[k]) for k in KS], "")]


def _left_out(report: Report) -> list[str]:
    short = {k: one.left_out for k, one in report.passk.items() if one is not None and one.left_out}
    return [f"{'left out':14}" + ", ".join(f"{count} tasks of pass^{k}" for k, count in short.items())] if short else []


def _costs(report: Report) -> list[str]:
    counts, size = report.counts, max(report.simulations, 1)
    said = f"{counts.generations / size:.1f} generations"
    if counts.uncounted < counts.generations:
        said += f", {counts.prompt / size:,.0f} prompt and {counts.completion / size:,.0f} completion tokens"
        said += f" ({counts.uncounted} generations not counted)" if counts.uncounted else ""
    if counts.view_bytes:
        share = f", {100 * counts.view_tokens / counts.prompt:.1f} % of the prompt tokens" if counts.prompt else ""
        said += f"; the ledger {counts.view_bytes / size:,.0f} bytes{share}"
    return [f"{'a simulation':14}{said}"]


def _verdicts(report: Report) -> list[str]:
    counts = report.counts
    if not counts.verdicts:
        return []
    rows = [f"{'verdicts':14}{_listed(counts.verdicts)}"]
    return rows + ([f"{'because of':14}{_listed(counts.predicates)}"] if counts.predicates else [])


def _listed(counted: object) -> str:
    assert isinstance(counted, dict)
    return ", ".join(f"{name} {count}" for name, count in sorted(counted.items(), key=lambda one: (-one[1], one[0])))


def _failures(report: Report) -> list[str]:
    if not report.failures:
        return []
    total = sum(report.failures.values())
    found = [(name, report.failures[name]) for name in FAILURES if name in report.failures]
    return [
        f"{'failures':14}{total}: "
        + ", ".join(f"{name} {count} ({100 * count / total:.1f} %)" for name, count in found)
    ]
