"""`ledgeragent report`: one HTML page about recorded conversations and decision records.

Reads options and files, shares the work among processes, writes the page; what stands in it is `report`'s business.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console

from ledgeragent import __version__
from ledgeragent.catalogue import read_catalogue
from ledgeragent.cli_gates import (
    EngineOption,
    FloorOption,
    FreezeOption,
    Gates,
    OverridesOption,
    PoliciesOption,
    SchemasOption,
)
from ledgeragent.contracts import RECORD, DecisionRecord
from ledgeragent.conversation import MAX_LINE, read_conversation
from ledgeragent.domain import Domain
from ledgeragent.errors import BadInput, LedgerAgentError
from ledgeragent.jsonio import parse
from ledgeragent.policies import REGO, SCHEMAS, domains
from ledgeragent.recordfiles import MAX_RECORD, open_texts
from ledgeragent.records import Record, parse_record
from ledgeragent.report import Entry, Everything, Masked, Page, Sessions, Shown, of_conversation, packed
from ledgeragent.report.page import light
from ledgeragent.terminal import counting
from ledgeragent.workers import Processes, chunks, in_order

_ENTRIES: Final = 8
"""Lines that a process is given at a time, and entries of a block: what is unpacked when one of them is opened."""


def report(
    files: Annotated[
        list[str],
        typer.Argument(
            help="Conversations or decision records, JSONL, .gz too, the current file for its set; - for stdin."
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The page to write, readable by its owner only.")] = Path(
        "report.html"
    ),
    domain: Annotated[str | None, typer.Option(help="Domain of conversations that name none.")] = None,
    engine: EngineOption = "auto",
    policies: PoliciesOption = REGO,
    schemas: SchemasOption = SCHEMAS,
    overrides: OverridesOption = None,
    floor: FloorOption = None,
    freeze: FreezeOption = None,
    now: Annotated[str | None, typer.Option(help="Clock of conversations that carry none (RFC 3339, offset).")] = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes; the page stays the same.")] = 1,
    redact: Annotated[
        bool,
        typer.Option(
            "--redact",
            help="Show only what the domains' allow-lists name. Without it the page holds what was said and what tools "
            "returned, personal data included.",
        ),
    ] = False,
) -> None:
    """Write one HTML page: timelines, the ledger at each step, verdicts and why.

    Conversations are replayed; of records it shows what was decided then.

    It needs no network, runs nothing of what it shows, and holds personal data unless --redact is given.

    Exit status 1 when lines were skipped.
    """
    started = time.monotonic()
    errors = Console(stderr=True, highlight=False)
    job = _Job(
        domain=domain,
        now=now,
        gates=(engine, policies, schemas, overrides, floor, freeze),
        key=secrets.token_bytes(32) if redact else None,
    )
    about = {
        "version": __version__,
        "made": datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        "files": [Path(name).name for name in files],
        "masked": redact,
    }
    page = Page(about, _rules(policies, schemas))
    with ExitStack() as stack:
        advance = stack.enter_context(counting(errors, "lines"))
        batches = stack.enter_context(closing(_batches(files, job, workers)))
        reading = _Reading(batches, advance)
        size = _write(page.text(reading.blocks()), out)
    for problem in reading.shown_problems():
        errors.print(f"skipped: {problem}", style="yellow", markup=False, soft_wrap=True)
    took = time.monotonic() - started
    counts = f"{_counted(page.entries, 'conversation')}, {_counted(page.calls, 'judged call')}"
    warning = "" if redact else "; it holds personal data"
    errors.print(f"{out}: {size / 1e6:,.1f} MB, {counts}, in {took:,.1f} s{warning}", markup=False, soft_wrap=True)
    raise typer.Exit(1 if reading.skipped else 0)


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _write(pieces: Iterable[str], out: Path) -> int:
    """Write a file that only its owner may read, in place of an older one when it is whole; its size in bytes."""
    part = out.with_name(out.name + ".part")
    try:
        part.unlink(missing_ok=True)
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as target:
            for piece in pieces:
                target.write(piece)
        part.replace(out)
    finally:
        part.unlink(missing_ok=True)
    return out.stat().st_size


def _rules(policies: Path, schemas: Path) -> Mapping[str, Mapping[str, str]]:
    """The predicates in words, where the policies are a folder that says them."""
    found: dict[str, Mapping[str, str]] = {}
    for name in domains(schemas) if policies.is_dir() else ():
        try:
            entries = read_catalogue(name, rego=policies, schemas=schemas)
        except LedgerAgentError:
            continue  # another domain's policies are no concern of these files
        for entry in entries:
            words = {"title": entry.title, "description": entry.description, "remedy": entry.remedy}
            found[entry.id] = {key: " ".join(value.split()) for key, value in words.items()}
    return found


# Reading lines --------------------------------------------------------------------------------------------------

Line = tuple[str, str | None]
"""(place, line); of a file that cannot be read (what is wrong, None)."""


@dataclass(frozen=True)
class _Batch:
    """What came of some lines."""

    lines: int
    entries: Sequence[Entry] = ()
    block: str = ""
    records: Sequence[tuple[Record, str]] = ()
    problems: Sequence[str] = ()


@dataclass
class _Reading:
    """Makes blocks of batches: conversations at once, records once all of them are there."""

    batches: Iterable[_Batch]
    advance: Callable[[int], None]
    skipped: int = 0
    _problems: list[str] = field(default_factory=list)

    def blocks(self) -> Iterator[tuple[Sequence[Entry], str]]:
        sessions = Sessions()
        for batch in self.batches:
            self.advance(batch.lines)
            self._note(batch.problems)
            for record, place in batch.records:
                sessions.add(record, place)
            if batch.entries:
                yield batch.entries, batch.block
        told = sessions.entries()
        while some := list(islice(told, _ENTRIES)):
            yield some, packed(some)

    def _note(self, problems: Sequence[str]) -> None:
        self.skipped += len(problems)
        self._problems += problems[: _MAX_PROBLEMS - len(self._problems)]

    def shown_problems(self) -> Iterator[str]:
        """What was skipped, and why; of very many the first ones."""
        yield from self._problems
        if self.skipped > len(self._problems):
            yield f"{self.skipped - len(self._problems):,} more lines"


_MAX_PROBLEMS: Final = 50


class _Job:
    """What a process needs to read lines; engine and gates are opened when they are first needed."""

    def __init__(self, domain: str | None, now: str | None, gates: tuple[Any, ...], key: bytes | None) -> None:
        self.arguments = (domain, now, gates, key)
        self._domain, self._now = domain, now
        self._gates = Gates(*gates)
        self._domains: dict[str, Domain] = {}
        self._shown: Shown = Everything() if key is None else Masked(key)

    def read(self, lines: Sequence[Line]) -> _Batch:
        """Make entries of lines that are conversations, and take those that are records."""
        entries: list[Entry] = []
        records: list[tuple[Record, str]] = []
        problems: list[str] = []
        for place, line in lines:
            try:
                if line is None:
                    raise BadInput(place)
                if _is_record(line, place):
                    records.append((self._record(line, place), _source(place)))
                else:
                    entries.append(self._conversation(line, place))
            except BadInput as problem:
                problems.append(str(problem))
        block = packed(entries) if entries else ""
        return _Batch(len(lines), [light(entry) for entry in entries], block, records, problems)

    def _conversation(self, line: str, place: str) -> Entry:
        conversation = read_conversation(line, place=place)
        name = conversation.domain or self._domain
        if name is None:
            raise BadInput(f"{place} names no domain; add --domain")
        return of_conversation(
            conversation, self._gates.gate(name, place), self._shown, now=self._now, source=_source(place)
        )

    def _record(self, line: str, place: str) -> Record:
        record = parse_record(line, place=place)
        if not isinstance(self._shown, Masked):
            return record
        domain = self._domain_of(record.input.domain, place) if isinstance(record, DecisionRecord) else None
        return self._shown.record(domain, record)

    def _domain_of(self, name: str, place: str) -> Domain:
        if name not in self._domains:
            if name not in domains(self._gates.schemas):
                raise BadInput(f"{place}: no domain {name!r} under {self._gates.schemas}: what to mask is not known")
            self._domains[name] = Domain.load(name, schemas=self._gates.schemas, rego=None)
        return self._domains[name]

    def close(self) -> None:
        """Close the engine."""
        self._gates.close()


def _source(place: str) -> str:
    """A place without the folder."""
    return place.rpartition("/")[2]


def _is_record(line: str, place: str) -> bool:
    document = parse(line, what=place, limit=max(MAX_LINE, MAX_RECORD))
    return isinstance(document, dict) and document.get("contract") == RECORD


def _batches(files: Sequence[str], job: _Job, workers: int) -> Generator[_Batch, None, None]:
    """The batches of all lines, in their order."""
    lines = open_texts(files)
    if workers == 1:
        with closing(job):
            for chunk in chunks(lines, _ENTRIES):
                yield job.read(chunk)
        return
    with Processes(workers, _work, _start_worker, *job.arguments) as pool:
        for _, batch in in_order(chunks(lines, _ENTRIES), pool):
            yield batch


_worker: _Job


def _start_worker(*arguments: Any) -> None:
    global _worker  # one job per worker process, for as long as the process lives
    _worker = _Job(*arguments)


def _work(lines: list[Line]) -> _Batch:
    return _worker.read(lines)
