"""Which engine to use, for the command line and for notebooks.

A library user names the engine and its policies; only here may the surroundings decide, and what was taken
is logged. A configured OPA that cannot be used is an error: nothing steps in for it.
"""

from __future__ import annotations

import json
import logging
import os
import tempfile
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ledgeragent.engine.base import Engine
from ledgeragent.engine.embedded import Embedded, bundle_module, compiled_module
from ledgeragent.engine.local import LocalOpa, find_opa
from ledgeragent.engine.opa import DEFAULT_TIMEOUT, OpaServer
from ledgeragent.errors import BadInput
from ledgeragent.policies import REGO, ROOTS, SCHEMAS, compiled_for

_log = logging.getLogger(__name__)

URL_VARIABLE: Final = "LEDGERAGENT_OPA_URL"
TOKEN_VARIABLE: Final = "LEDGERAGENT_OPA_TOKEN"
TOKEN_FILE_VARIABLE: Final = "LEDGERAGENT_OPA_TOKEN_FILE"


def open_engine(
    spec: str,
    *,
    policies: Path = REGO,
    schemas: Path = SCHEMAS,
    compiled: Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    floor: Mapping[str, Any] | None = None,
    freeze: Mapping[str, Any] | None = None,
    timeout: float = DEFAULT_TIMEOUT,
) -> Engine:
    """Open the engine that `spec` names.

    Args:
        spec: "embedded", "opa" (a local child process), "auto", or the URL of an OPA server. With a URL,
            the token comes from `LEDGERAGENT_OPA_TOKEN` or the file that `LEDGERAGENT_OPA_TOKEN_FILE`
            names.
        policies: bundle root folder or bundle file, for "embedded" and "opa"; a server has its own. Default here
            and below: what this version ships.
        schemas: the schemas that go with the policies.
        compiled: the folder with the compiled module, for "embedded"; default: the one that goes with `policies`.
        overrides: the deployment's policy data `ledgeragent_overrides`, for "embedded" and "opa"; a server has its own.
        floor: the organisation's `ledgeragent_floor`, likewise.
        freeze: what is stopped, `ledgeragent_freeze`, likewise.
        timeout: the budget of one evaluation in seconds.

    Returns:
        The engine; for "auto" a server when `LEDGERAGENT_OPA_URL` is set, else a local OPA when there is an
        `opa`, else the embedded engine.

    Raises:
        BadInput: `spec` is none of these, or a URL or token is not usable.
        EngineError: the engine does not start with these policies.
    """
    given = zip(ROOTS.values(), (overrides, floor, freeze), strict=True)
    source = _Source(
        policies,
        schemas,
        compiled or compiled_for(policies),
        {root: content for root, content in given if content is not None},
        timeout,
    )
    if spec == "auto":
        return _auto(source)
    if spec == "embedded":
        return _embedded(source)
    if spec == "opa":
        return _local(source, None)
    if spec.startswith(("http://", "https://", "unix://")):
        return _server(spec, source)
    raise BadInput(f"engine {spec!r}: use auto, embedded, opa, or the URL of an OPA server (http, https, unix)")


@dataclass(frozen=True)
class _Source:
    """What an engine is opened with: see `open_engine`; `deployed` is policy data by root."""

    policies: Path
    schemas: Path
    compiled: Path
    deployed: Mapping[str, Any]
    timeout: float


def _auto(source: _Source) -> Engine:
    url = os.environ.get(URL_VARIABLE)
    engine: Engine
    if url:
        engine, why = _server(url, source), f"{URL_VARIABLE} is set"
    elif (opa := find_opa()) is not None:
        engine, why = _local(source, opa), f"{opa} is there"
    else:
        engine, why = _embedded(source), "there is no OPA"
    _log.info("engine: %s at %s, because %s", engine.name, engine.location, why)
    return engine


def _server(url: str, source: _Source) -> OpaServer:
    if source.deployed:
        raise BadInput(
            f"{', '.join(source.deployed)} cannot be given to the server at {url}: put them into a bundle that it loads"
        )
    file = os.environ.get(TOKEN_FILE_VARIABLE)
    return OpaServer(
        url,
        token=os.environ.get(TOKEN_VARIABLE) or None,
        token_file=Path(file) if file else None,
        timeout=source.timeout,
    )


def _local(source: _Source, opa: Path | None) -> LocalOpa:
    if not source.deployed:
        return LocalOpa(source.policies, opa, timeout=source.timeout)
    folder = tempfile.TemporaryDirectory()
    try:
        beside = [_bundle(Path(folder.name) / root, root, content) for root, content in source.deployed.items()]
        engine = LocalOpa(source.policies, opa, beside=beside, timeout=source.timeout)
    except BaseException:
        folder.cleanup()
        raise
    # A child that dies is started again with the same bundles.
    weakref.finalize(engine, folder.cleanup)
    return engine


def _bundle(folder: Path, root: str, content: Any) -> Path:
    folder.mkdir()
    (folder / ".manifest").write_text(json.dumps({"roots": [root]}), encoding="utf-8")
    (folder / "data.json").write_text(json.dumps({root: content}), encoding="utf-8")
    return folder


def _embedded(source: _Source) -> Embedded:
    if source.policies.is_dir():
        module = compiled_module(source.policies, source.schemas, source.compiled)
    else:
        module = bundle_module(source.policies)
    return Embedded(module, deployed=source.deployed, timeout=source.timeout)
