"""What commands that judge have in common: their options, and the gates these open.

One engine for a command, opened when it is first needed; one proved gate per domain.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, Self

import typer
from rich.markup import escape

from ledgeragent.domain import Domain
from ledgeragent.engine import Engine, open_engine
from ledgeragent.errors import BadInput, LedgerAgentError
from ledgeragent.gate import Gate
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


def example(text: str) -> str:
    """The example at the end of a command's help."""
    return f"Example: [bold]{escape(text)}[/bold]"


class Gates:
    """The gates of one command, as its options say."""

    def __init__(self, engine: str, policies: Path, schemas: Path, overrides: Path | None = None) -> None:
        self.engine = engine
        self.policies = policies
        self.schemas = schemas
        self.overrides = overrides
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
            if name not in domains(self.schemas):
                known = ", ".join(domains(self.schemas)) or "none"
                raise BadInput(f"{place}: no domain {name[:80]!r} under {self.schemas} (there: {known})")
            self._gates[name] = _proved_gate(name, self.open(), self.policies, self.schemas)
        return self._gates[name]

    def open(self) -> Engine:
        """The engine, opened once."""
        if self._opened is None:
            self._opened = open_engine(
                self.engine, policies=self.policies, schemas=self.schemas, overrides=self._read_overrides()
            )
        return self._opened

    def _read_overrides(self) -> dict[str, Any] | None:
        if self.overrides is None:
            return None
        known = {name: Domain.load(name, schemas=self.schemas, rego=None) for name in domains(self.schemas)}
        return read_overrides(self.overrides, known, today=datetime.now(UTC).date().isoformat())

    def close(self) -> None:
        """Close the engine, if it was opened."""
        if self._opened is not None:
            self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def _proved_gate(name: str, engine: Engine, policies: Path, schemas: Path) -> Gate:
    # A server has its own policies: there the proof alone holds them and the tools together.
    rego = policies if policies.is_dir() and engine.name != "opa" else None
    gate = Gate(Domain.load(name, schemas=schemas, rego=rego), engine, vectors=schemas / "vectors" / f"{name}.json")
    try:
        gate.prove()
    except BadInput as error:
        raise _Unproved(str(error)) from None
    return gate


class _Unproved(LedgerAgentError):
    """The policies in use do not pass the domain's vectors: nothing can be judged."""
