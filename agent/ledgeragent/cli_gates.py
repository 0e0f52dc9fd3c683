"""What commands that judge have in common: their options, and the gates these open.

One engine for a command, opened when it is first needed; one proved gate per domain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, Self

import typer
from rich.markup import escape

from ledgeragent.domain import Domain
from ledgeragent.engine import Engine, open_engine
from ledgeragent.errors import BadInput, LedgerAgentError
from ledgeragent.floor import floor_gaps, read_floor
from ledgeragent.freeze import read_freeze
from ledgeragent.gate import NUMBERED, Gate
from ledgeragent.overrides import read_overrides
from ledgeragent.policies import domains

EngineOption = Annotated[
    str, typer.Option("--engine", help="auto, embedded, opa (a local child process), or the URL of an OPA server.")
]
PoliciesOption = Annotated[
    Path, typer.Option("--policies", help="Bundle root folder, or a bundle file.", show_default="the shipped ones")
]
SchemasOption = Annotated[
    Path, typer.Option("--schemas", help="Folder of the domains' schemas.", show_default="the shipped ones")
]
OverridesOption = Annotated[
    Path | None, typer.Option("--overrides", help="The deployment's overrides (a JSON file); checked before use.")
]
FloorOption = Annotated[
    Path | None, typer.Option("--floor", help="The organisation's floor (a JSON file); checked before use.")
]
FreezeOption = Annotated[
    Path | None, typer.Option("--freeze", help="The writes that are stopped (a JSON file); checked before use.")
]
PinOption = Annotated[
    list[str] | None,
    typer.Option("--pin", help="A revision to accept, of a domain or of the gate; repeat it for each."),
]
MinimumOption = Annotated[
    list[str] | None,
    typer.Option(
        "--minimum",
        help="The least sequence number to accept of a domain, or of gate, overrides, floor or freeze.",
        metavar="NAME=NUMBER",
    ),
]


def example(text: str) -> str:
    """The example at the end of a command's help."""
    return f"Example: [bold]{escape(text)}[/bold]"


class Gates:
    """The gates of one command, as its options say."""

    def __init__(
        self,
        engine: str,
        policies: Path,
        schemas: Path,
        overrides: Path | None = None,
        floor: Path | None = None,
        freeze: Path | None = None,
        pin: Sequence[str] | None = None,
        minimum: Sequence[str] | None = None,
    ) -> None:
        self.engine = engine
        self.policies = policies
        self.schemas = schemas
        self.overrides = overrides
        self.floor = floor
        self.freeze = freeze
        self.pin = pin
        self._minimum = numbers_of(minimum or (), domains(schemas))
        self._opened: Engine | None = None
        self._gates: dict[str, Gate] = {}

    def gate(self, name: str, place: str) -> Gate:
        """The proved gate of a domain.

        Args:
            name: the domain.
            place: where it was named, for the error message.

        Raises:
            BadInput: when there is no such domain.
            LedgerAgentError: when the engine or the domain cannot be used at all.
        """
        if name not in self._gates:
            gate = self.unproved(name, place)
            try:
                gate.prove()
            except BadInput as error:
                raise Unproved(str(error)) from None
            self._gates[name] = gate
        return self._gates[name]

    def unproved(self, name: str, place: str) -> Gate:
        """A new gate of a domain of which nothing was asked yet: it proves itself before its first decision.

        Raises:
            BadInput: when there is no such domain.
            LedgerAgentError: when the engine or the domain cannot be used at all.
        """
        if name not in domains(self.schemas):
            known = ", ".join(domains(self.schemas)) or "none"
            raise BadInput(f"{place}: no domain {name[:80]!r} under {self.schemas} (there: {known})")
        # A server has its own policies: there the proof alone holds them and the tools together.
        rego = self.policies if self.policies.is_dir() and self.open().name != "opa" else None
        return Gate(
            Domain.load(name, schemas=self.schemas, rego=rego),
            self.open(),
            vectors=self.schemas / "vectors" / f"{name}.json",
            pin=self.pin,
            minimum=_minimum_of(self._minimum, name, domains(self.schemas)),
        )

    def open(self) -> Engine:
        """The engine, opened once."""
        if self._opened is None:
            self._opened = open_engine(self.engine, policies=self.policies, schemas=self.schemas, **self.policy_data())
        return self._opened

    def gaps(self, name: str) -> list[str]:
        """What a domain lacks of the given floor."""
        floor = self.policy_data().get("floor")
        return [] if floor is None else list(floor_gaps(floor, self.gate(name, "the floor").domain))

    def policy_data(self) -> dict[str, Any]:
        """The content of the given overrides, floor and freeze.

        Raises:
            BadInput: with everything that is wrong with the first of them that cannot be used.
        """
        if (self.overrides, self.floor, self.freeze) == (None, None, None):
            return {}
        known = {name: Domain.load(name, schemas=self.schemas, rego=None) for name in domains(self.schemas)}
        today = datetime.now(UTC).date().isoformat()
        return {
            "overrides": None if self.overrides is None else read_overrides(self.overrides, known, today=today),
            "floor": None if self.floor is None else read_floor(self.floor, known),
            "freeze": None if self.freeze is None else read_freeze(self.freeze, known),
        }

    def close(self) -> None:
        """Close the engine, if it was opened."""
        if self._opened is not None:
            self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def numbers_of(texts: Sequence[str], known: Sequence[str]) -> dict[str, int]:
    """Minimums by name, from options of the form NAME=NUMBER.

    Args:
        texts: the options.
        known: the domains that may be named, beside gate, overrides, floor and freeze.

    Raises:
        BadInput: for an option of another form, or a name that is none.
    """
    names = [*(part for part in NUMBERED if part != "domain"), *known]
    found: dict[str, int] = {}
    for text in texts:
        name, _, number = text.partition("=")
        if name not in names or not number.isdecimal() or int(number) < 1:
            raise BadInput(
                f"--minimum {text}: write NAME=NUMBER, a number from 1, and one of {', '.join(names)} as NAME"
            )
        found[name] = int(number)
    return found


def _minimum_of(numbers: Mapping[str, int], name: str, known: Sequence[str]) -> dict[str, int]:
    """The minimum of a domain's gate: what names another domain does not concern it."""
    own = {"domain": numbers[name]} if name in numbers else {}
    return {part: number for part, number in numbers.items() if part not in known} | own


class Unproved(LedgerAgentError):
    """The policies in use do not pass the domain's vectors: nothing can be judged."""
