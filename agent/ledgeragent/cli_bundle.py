"""`ledgeragent bundle`: build and verify, for people who roll policies out.

Reads options and prints; what is packed and checked is the business of `bundle` and `bundlecheck`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from ledgeragent.bundle import Signing, bundles_of, gate_bundle, pack
from ledgeragent.bundlecheck import Expected, Trust, check_bundles
from ledgeragent.cli_gates import (
    FloorOption,
    FreezeOption,
    Gates,
    MinimumOption,
    OverridesOption,
    PinOption,
    PoliciesOption,
    SchemasOption,
    numbers_of,
)
from ledgeragent.compile import Sources
from ledgeragent.engine import find_opa
from ledgeragent.errors import BadInput
from ledgeragent.policies import REGO, SCHEMAS, compiled_for, domains

app = typer.Typer(help="Pack policies for OPA to download, and check what was packed.", no_args_is_help=True)

AlgorithmOption = Annotated[str, typer.Option("--signing-alg", help="RS, PS or ES with 256, 384 or 512.")]


@app.command(epilog="Example: [bold]ledgeragent bundle build --out bundles --sequence 7 --signing-key key.pem[/bold]")
def build(
    out: Annotated[Path, typer.Option("--out", help="Folder to write the bundle files into.", metavar="DIR")],
    policies: PoliciesOption = REGO,
    schemas: SchemasOption = SCHEMAS,
    overrides: OverridesOption = None,
    floor: FloorOption = None,
    freeze: FreezeOption = None,
    sequence: Annotated[int, typer.Option(min=0, help="The number of this build; a gate never goes back.")] = 0,
    only: Annotated[
        list[str] | None, typer.Option(help="Only this bundle (gate, domain-retail, freeze …); repeat it for more.")
    ] = None,
    signing_key: Annotated[Path | None, typer.Option(help="PEM file of the private key to sign with.")] = None,
    signing_alg: AlgorithmOption = "RS256",
    claims_file: Annotated[Path | None, typer.Option(help="JSON file with more claims to sign (keyid, scope).")] = None,
) -> None:
    """Write a bundle for the shared gate, one for each domain, and one for each kind of policy data given."""
    given = Gates("embedded", policies, schemas, overrides, floor, freeze).policy_data()
    sources = Sources(policies, schemas, compiled_for(policies))
    content = {kind: own for kind, own in given.items() if own is not None}
    bundles = bundles_of(sources, content, sequence=sequence, only=only or ())
    alone = any(bundle.kind == "domain" for bundle in bundles) and all(bundle.kind != "gate" for bundle in bundles)
    signing = None if signing_key is None else Signing(signing_key, signing_alg, claims_file)
    packed = pack(bundles, out, _opa(), beside=[gate_bundle(policies)] if alone else (), signing=signing)
    console = Console(highlight=False, soft_wrap=True)
    for one in packed:
        console.print(f"wrote {escape(str(one.path))}: roots {', '.join(one.bundle.roots)}, {one.bundle.revision}")
    console.print(
        "signed" if signing is not None else "[yellow]not signed[/]: an OPA that wants a signature refuses them"
    )


@app.command(epilog="Example: [bold]ledgeragent bundle verify bundles/*.tar.gz --verification-key key.pub.pem[/bold]")
def verify(
    files: Annotated[list[Path], typer.Argument(help="Bundle files that are to be in one OPA.")],
    schemas: SchemasOption = SCHEMAS,
    verification_key: Annotated[
        list[Path] | None, typer.Option(help="PEM file of a public key that is trusted; repeat it for more.")
    ] = None,
    signing_alg: AlgorithmOption = "RS256",
    scope: Annotated[str | None, typer.Option(help="The scope that the signature must name.")] = None,
    pin: PinOption = None,
    minimum: MinimumOption = None,
) -> None:
    """Say everything that is wrong with bundle files; exit status 1 when there is something."""
    today = datetime.now(UTC).date().isoformat()
    expected = Expected(pin, numbers_of(minimum or (), domains(schemas)), today)
    trust = None if not verification_key else Trust(verification_key, signing_alg, scope)
    found = check_bundles(files, schemas, _opa(), expected, trust)
    console = Console(highlight=False, soft_wrap=True)
    for line in found.done:
        console.print(f"[green]ok[/]      {escape(line)}")
    for line in found.skipped:
        console.print(f"[yellow]skipped[/] {escape(line)}")
    for line in found.problems:
        console.print(f"[red]wrong[/]   {escape(line)}")
    console.print(f"{len(found.problems)} problem{'' if len(found.problems) == 1 else 's'}")
    raise typer.Exit(1 if found.problems else 0)


def _opa() -> Path:
    opa = find_opa()
    if opa is None:
        raise BadInput("bundles are compiled, signed and checked by `opa`, and there is none here; run `make opa`")
    return opa
