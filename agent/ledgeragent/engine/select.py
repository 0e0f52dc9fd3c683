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
from pathlib import Path
from typing import Any, Final

from ledgeragent.engine.base import Engine
from ledgeragent.engine.embedded import Embedded, bundle_module, compiled_module
from ledgeragent.engine.local import LocalOpa, find_opa
from ledgeragent.engine.opa import DEFAULT_TIMEOUT, OpaServer
from ledgeragent.errors import BadInput
from ledgeragent.policies import REGO, SCHEMAS, compiled_for

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
        timeout: the budget of one evaluation in seconds.

    Returns:
        The engine; for "auto" a server when `LEDGERAGENT_OPA_URL` is set, else a local OPA when there is an
        `opa`, else the embedded engine.

    Raises:
        BadInput: `spec` is none of these, or a URL or token is not usable.
        EngineError: the engine does not start with these policies.
    """
    compiled = compiled or compiled_for(policies)
    if spec == "auto":
        return _auto(policies, schemas, compiled, overrides, timeout)
    if spec == "embedded":
        return _embedded(policies, schemas, compiled, overrides, timeout)
    if spec == "opa":
        return _local(policies, None, overrides, timeout)
    if spec.startswith(("http://", "https://")):
        return _server(spec, overrides, timeout)
    raise BadInput(f"engine {spec!r}: use auto, embedded, opa, or the http(s) URL of an OPA server")


def _auto(policies: Path, schemas: Path, compiled: Path, overrides: Mapping[str, Any] | None, timeout: float) -> Engine:
    url = os.environ.get(URL_VARIABLE)
    engine: Engine
    if url:
        engine, why = _server(url, overrides, timeout), f"{URL_VARIABLE} is set"
    elif (opa := find_opa()) is not None:
        engine, why = _local(policies, opa, overrides, timeout), f"{opa} is there"
    else:
        engine, why = _embedded(policies, schemas, compiled, overrides, timeout), "there is no OPA"
    _log.info("engine: %s at %s, because %s", engine.name, engine.location, why)
    return engine


def _server(url: str, overrides: Mapping[str, Any] | None, timeout: float) -> OpaServer:
    if overrides is not None:
        raise BadInput(f"overrides cannot be given to the server at {url}: put them into a bundle that it loads")
    file = os.environ.get(TOKEN_FILE_VARIABLE)
    return OpaServer(
        url,
        token=os.environ.get(TOKEN_VARIABLE) or None,
        token_file=Path(file) if file else None,
        timeout=timeout,
    )


def _local(policies: Path, opa: Path | None, overrides: Mapping[str, Any] | None, timeout: float) -> LocalOpa:
    if overrides is None:
        return LocalOpa(policies, opa, timeout=timeout)
    folder = tempfile.TemporaryDirectory()
    bundle = Path(folder.name)
    try:
        (bundle / ".manifest").write_text(json.dumps({"roots": ["ledgeragent_overrides"]}), encoding="utf-8")
        (bundle / "data.json").write_text(json.dumps({"ledgeragent_overrides": overrides}), encoding="utf-8")
        engine = LocalOpa(policies, opa, overrides=bundle, timeout=timeout)
    except BaseException:
        folder.cleanup()
        raise
    # A child that dies is started again with the same bundles.
    weakref.finalize(engine, folder.cleanup)
    return engine


def _embedded(
    policies: Path, schemas: Path, compiled: Path, overrides: Mapping[str, Any] | None, timeout: float
) -> Embedded:
    module = compiled_module(policies, schemas, compiled) if policies.is_dir() else bundle_module(policies)
    return Embedded(module, overrides=overrides, timeout=timeout)
