"""`ledgeragent domain`: new, check, compile, for people who write policies of their own.

Reads options and prints; what is made and checked is the business of `kit` and `kitcheck`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.markup import escape

from ledgeragent import kit
from ledgeragent.compile import Sources
from ledgeragent.engine import find_opa
from ledgeragent.errors import BadInput
from ledgeragent.kitcheck import PARTS, check_folder, compile_folder
from ledgeragent.toolsource import read_tools

app = typer.Typer(help="Write a domain of your own: begin, compile, check.", no_args_is_help=True)

FolderArgument = Annotated[Path, typer.Argument(help="The folder with rego/ and schemas/.", metavar="DIR")]
_NO_OPA: Final = "there is no `opa` here, so vectors and module were not made; the engine `opa` needs neither"


@app.command(epilog="Example: [bold]ledgeragent domain new deployments --from tools.json[/bold]")
def new(
    name: Annotated[str, typer.Argument(help="The domain's name: lower-case letters, digits and _.")],
    source: Annotated[
        str,
        typer.Option("--from", help="OpenAI tools or MCP's answer to tools/list (a JSON file), or 'mcp:COMMAND ARGS'."),
    ],
    folder: Annotated[Path, typer.Option("--dir", help="Where to write.", metavar="DIR")] = Path(),
) -> None:
    """Begin a domain from tool definitions. Nothing is overwritten, and no tool may be called before you decide."""
    made = kit.new(name, read_tools(source), folder)
    out = Console(highlight=False, soft_wrap=True)
    for path in made.files:
        out.print(f"wrote {escape(str(path))}")
    for note in made.notes:
        out.print(f"[dim]note[/] {escape(note)}")
    for problem in made.left_out:
        out.print(f"[red]left out[/] {escape(problem)}")
    out.print(f"{len(made.tools)} tools, all of them undecided; next: docs/write-a-domain.md")
    raise typer.Exit(1 if made.left_out else 0)


@app.command(name="compile", epilog="Example: [bold]ledgeragent domain compile .[/bold]")
def compile_(folder: FolderArgument = Path()) -> None:
    """Write what is generated: pages, data, and with an opa the vectors and the module of the embedded engine."""
    opa = find_opa()
    out = Console(highlight=False, soft_wrap=True)
    for path in compile_folder(Sources.under(folder), opa):
        out.print(f"wrote {escape(str(path))}")
    if opa is None:
        out.print(f"[yellow]skipped[/] {_NO_OPA}")


@app.command(epilog="Example: [bold]ledgeragent domain check .[/bold]")
def check(
    folder: FolderArgument = Path(),
    only: Annotated[
        list[str] | None, typer.Option(help=f"Look at this part only: {', '.join(PARTS)}; repeat it for more.")
    ] = None,
    require_opa: Annotated[
        bool, typer.Option("--require-opa", help="What cannot be looked at for want of an `opa` is wrong: for CI.")
    ] = False,
) -> None:
    """Say everything that is wrong, with file and place; exit status 1 when there is something."""
    unknown = sorted(set(only or ()) - set(PARTS))
    if unknown:
        raise BadInput(f"--only {unknown[0][:80]}: there is no such part; there are {', '.join(PARTS)}")
    opa = find_opa()
    if require_opa and opa is None:
        raise BadInput("there is no `opa` on PATH, and --require-opa was given")
    found = check_folder(Sources.under(folder), opa, only or PARTS)
    out = Console(highlight=False, soft_wrap=True)
    for line in found.done:
        out.print(f"[green]ok[/]      {escape(line)}")
    for line in found.skipped:
        out.print(f"[yellow]skipped[/] {escape(line)}")
    for line in found.problems:
        out.print(f"[red]wrong[/]   {escape(line)}")
    out.print(f"{len(found.problems)} problem{'' if len(found.problems) == 1 else 's'}")
    raise typer.Exit(1 if found.problems else 0)
