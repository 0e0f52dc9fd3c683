"""`ledgeragent records`: verify, and keys and open, for those who keep records that not everybody may read.

Reads options and prints; what is sealed and opened is the business of `redact` and `sealing`, verifying that of
`cli_verify`.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from ledgeragent.cli_gates import example
from ledgeragent.cli_verify import verify
from ledgeragent.jsonio import canonical
from ledgeragent.records import read_records
from ledgeragent.redact import opened
from ledgeragent.sealing import PrivateKey, make_keys

app = typer.Typer(
    help="Decision records: verifying them, keys for encrypted ones, and opening these.", no_args_is_help=True
)
app.command(epilog=example("ledgeragent records verify records.jsonl"))(verify)


@app.command(epilog="Example: [bold]ledgeragent records keys auditor.pem records.pub[/bold]")
def keys(
    private: Annotated[Path, typer.Argument(help="Where to write the private key: for whoever may read records.")],
    public: Annotated[Path, typer.Argument(help="Where to write the public key: for the hosts that write them.")],
) -> None:
    """Make a pair of keys for encrypted records. Nothing is overwritten."""
    typer.echo(f"wrote {private} and {public}; records sealed with it carry the key id {make_keys(private, public)}")


@app.command(name="open", epilog="Example: [bold]ledgeragent records open records.jsonl --key auditor.pem[/bold]")
def open_(
    files: Annotated[list[Path], typer.Argument(help="Record files (JSONL).")],
    key: Annotated[Path, typer.Option(help="The private key they were sealed for.")],
    out: Annotated[Path | None, typer.Option(help="Write there instead of stdout, readable by its owner only.")] = None,
) -> None:
    """Write records as they were before they were encrypted, one a line; others are written as they are."""
    own = PrivateKey.load(key)
    with ExitStack() as stack:
        target = sys.stdout
        if out is not None:
            out.touch(mode=0o600)
            target = stack.enter_context(out.open("w", encoding="ascii"))
        for path in files:
            for record in read_records(path):
                target.write(canonical(opened(record, own).model_dump(mode="json")) + "\n")
