"""`ledgeragent chat`: a conversation with an agent in one of our own shops, in the terminal.

Reads options, and what the customer types or a script has; the conversation itself is the business of `chat`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer
from rich.console import Console
from rich.text import Text

from ledgeragent.agent import Options
from ledgeragent.chat import Talk
from ledgeragent.chatapproval import Desk, answered
from ledgeragent.chatscreen import WIDE, Screen
from ledgeragent.chatscript import ScriptedTurn, ScriptModel, read_script
from ledgeragent.cli_gates import EngineOption, Gates, OverridesOption, PoliciesOption, SchemasOption
from ledgeragent.contracts import ApprovalRequest, Consent
from ledgeragent.conversation import open_lines
from ledgeragent.errors import BadInput, ModelError
from ledgeragent.gate import ShadowGate
from ledgeragent.model import Model
from ledgeragent.policies import EXAMPLES, REGO, SCHEMAS
from ledgeragent.records import JsonlRecorder
from ledgeragent.shops import open_shop
from ledgeragent.terminal import Line, said

if TYPE_CHECKING:
    from ledgeragent.models.openai import OpenAIModel

_KEY: Final = "OPENAI_API_KEY"
_INTERRUPTED: Final = 130


def chat(
    domain: Annotated[str, typer.Option(help="Which shop: retail or airline.")],
    model: Annotated[str | None, typer.Option(help="The model's name at its endpoint.")] = None,
    base_url: Annotated[
        str | None, typer.Option(help="An OpenAI-compatible API; mostly ends in /v1.", show_default="OpenAI's own")
    ] = None,
    api_key_env: Annotated[str, typer.Option(help="The environment variable that holds the API key.")] = _KEY,
    script: Annotated[
        str | None, typer.Option(help="Play a written conversation (JSONL, - for stdin); needs no model.")
    ] = None,
    view: Annotated[bool, typer.Option("--view/--no-view", help="Show the model the ledger.")] = True,
    shadow: Annotated[bool, typer.Option("--shadow", help="Judge, but hold nothing back.")] = False,
    mode: Annotated[
        Literal["same-turn", "one-call"],
        typer.Option(help="When a message lost all its calls: try again at once, or not."),
    ] = "same-turn",
    panel: Annotated[
        bool, typer.Option("--panel", help=f"Ledger and verdicts beside each turn, from {WIDE} columns on.")
    ] = False,
    record: Annotated[
        Path | None, typer.Option(help="Append a record of every decision and outcome to this file (JSONL).")
    ] = None,
    approve: Annotated[
        str | None, typer.Option(help="Somebody else, who is asked at this terminal to approve what needs an approval.")
    ] = None,
    engine: EngineOption = "auto",
    policies: PoliciesOption = REGO,
    schemas: SchemasOption = SCHEMAS,
    overrides: OverridesOption = None,
) -> None:
    """Talk to an agent in a small shop of ours: every read fills the ledger, every write goes through the gate."""
    shop = open_shop(domain)
    turns = read_script(_found(script), played=model is None) if script is not None else None
    if turns is None and model is None:
        raise BadInput("no model: add --model NAME (and --base-url URL), or play a written conversation with --script")
    screen = Screen(Console(highlight=False), panel=panel)
    scripted = ScriptModel()
    with ExitStack() as stack:
        asked: Model = scripted
        if model is not None:
            asked = stack.enter_context(_endpoint(model, base_url, api_key_env, screen.heard))
        tuned = Path(_found(str(overrides))) if overrides is not None else None
        gate = stack.enter_context(Gates(engine, policies, schemas, tuned)).gate(domain, "--domain")
        recorder = stack.enter_context(closing(JsonlRecorder(record))) if record is not None else None
        options = Options(system=shop.policy, view=view, mode=mode)
        typed = turns is None and sys.stdin.isatty()
        if approve is not None and not typed:
            raise BadInput("--approve asks at a terminal; a script has its own lines for that, and a pipe has nobody")
        desk = _desk(approve, turns, scripted, screen)
        talk = Talk(
            shop, ShadowGate(gate) if shadow else gate, asked, screen, options=options, recorder=recorder, desk=desk
        )
        stack.enter_context(closing(talk.agent))
        talk.introduce(model or f"the script {script}", typed=typed)
        lines = _played(turns, scripted) if turns is not None else _typed() if typed else _piped()
        raise typer.Exit(_converse(talk, lines, typed=typed))


def _found(name: str) -> str:
    """A file; the examples are at hand everywhere, under the name they have in the repository."""
    shipped = EXAMPLES.parent / name
    return str(shipped) if not Path(name).exists() and shipped.is_file() else name


def _endpoint(model: str, base_url: str | None, variable: str, on_text: Callable[[str], None]) -> OpenAIModel:
    key = os.environ.get(variable)
    if key is None and variable != _KEY:
        raise BadInput(f"--api-key-env names {variable}, which is not set")
    if key is None and not (base_url or os.environ.get("OPENAI_BASE_URL")):
        raise BadInput(
            f"no API key: set {_KEY}, name its variable with --api-key-env, or add --base-url of an API of yours"
        )
    from ledgeragent.models.openai import OpenAIModel  # needs an extra, and says so when it is not there

    return OpenAIModel(model, base_url=base_url, api_key=key, on_text=on_text)


# Who consents ---------------------------------------------------------------------------------------------------


def _desk(name: str | None, turns: Sequence[ScriptedTurn] | None, scripted: ScriptModel, screen: Screen) -> Desk | None:
    """Who can be asked for consent: a script's people, those at the terminal, or in a pipe nobody."""
    if turns is not None:
        names = [who for turn in turns for _, who, _ in turn.consents if who]
        return Desk(names, lambda request, kind: _told(screen, scripted.consent(request, kind), kind))
    if not sys.stdin.isatty():
        return None
    return Desk(
        [name] if name is not None else [], lambda request, kind: _told(screen, _asked(name, request, kind), kind)
    )


def _told(screen: Screen, name: str | None, kind: Consent) -> str | None:
    screen.show([answered(name, kind)])
    return name


def _asked(name: str | None, request: ApprovalRequest, kind: Consent) -> str | None:
    """Ask at the terminal; anything but a plain yes is a no."""
    who = name if kind == "approval" else request.requester
    question = f"{who}, do you approve it?" if kind == "approval" else f"{who}, do you want exactly this?"
    try:
        return who if input(f"{question} [y/N] ").strip().casefold() in ("y", "yes") else None
    except (EOFError, UnicodeDecodeError):
        typer.echo()
        return None


# What the customer says -----------------------------------------------------------------------------------------


def _typed() -> Iterator[str]:
    with suppress(ImportError):
        import readline  # noqa: F401 - its import gives `input` history and editing
    while True:
        try:
            text = input("you: ").strip()
        except (EOFError, KeyboardInterrupt):
            typer.echo()
            return
        except UnicodeDecodeError:
            typer.echo("that is not text in this terminal's encoding; type it again", err=True)
            continue
        if text:
            yield text


def _piped() -> Iterator[str]:
    for _, line in open_lines("-"):
        yield line.strip().encode("utf-8", "replace").decode()


def _played(turns: Sequence[ScriptedTurn], model: ScriptModel) -> Iterator[str]:
    for turn in turns:
        model.begin(turn)
        yield turn.user


def _converse(talk: Talk, lines: Iterator[str], *, typed: bool) -> int:
    """Take turns until there is nothing more to say; the exit status."""
    status = 0
    for text in lines:
        if text == "/quit":
            break
        if not typed:
            talk.screen.show([Line(Text(text, style="bold")) if text.startswith("/") else said("customer", text)])
        try:
            talk.take(text)
        except KeyboardInterrupt:
            talk.give_up("interrupted")
            if not typed:
                status = _INTERRUPTED
                break
        except ModelError as problem:
            if not (typed and talk.counts.generations):  # nobody is there, or the endpoint never worked
                raise
            talk.give_up(f"{problem} {problem.said}".strip())
    talk.sum_up()
    return status
