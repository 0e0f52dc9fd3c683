"""The policies inside this process: compiled to WebAssembly by OPA, run by opa-py-wasm.

The engine that needs nothing set up. It evaluates a module that `make compile` made from exactly these
policies and refuses to run when they differ, so that editing a policy can never leave the old one in force.
The module's data is read from the policy folder (or from the bundle file that carries both). Built-in
functions that the module leaves to its host are `builtins`' part. Evaluations share a pool of instances,
each bounded in time and memory.
"""

from __future__ import annotations

import hashlib
import json
import logging
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

import opapywasm.runtime
from opapywasm import (
    UNDEFINED,
    OpaBuiltinError,
    OpaInvalidInputError,
    OpaPolicyClosedError,
    OpaPoolTimeoutError,
    OpaWasmError,
    OpaWasmPolicy,
    PolicyConfig,
)

from ledgeragent import jsonio
from ledgeragent.engine.base import (
    MAX_ANSWER_BYTES,
    MAX_INPUT_BYTES,
    UNKNOWN_VERSION,
    ClosesOnExit,
    Rule,
    encode_input,
    raise_undefined,
    rule_path,
)
from ledgeragent.engine.builtins import HOST_BUILTINS, BuiltinFailed
from ledgeragent.errors import BadInput, EngineAnswer, EngineClosed, EngineEvaluation, EnginePolicies, EngineTimeout
from ledgeragent.policies import sources_digest

DEFAULT_TIMEOUT: Final = 5.0

_POOL_SIZE: Final = 4
_PAGE_BYTES: Final = 65_536
_MEMORY_PAGES: Final = 4096  # 256 MiB for one instance, room for an input of the largest size
_MAX_MODULE_BYTES: Final = 64_000_000

# opa-py-wasm warns whenever a module holds more than 128 KiB of texts, as any real one does. Nobody can act on it.
logging.getLogger("opapywasm.runtime").addFilter(lambda record: "larger initial memory" not in str(record.msg))


@dataclass(frozen=True)
class Module:
    """A compiled module with what it needs: its data, and the version of the OPA that compiled it."""

    wasm: bytes
    data: dict[str, Any]
    version: str
    location: str


def compiled_module(policies: Path, schemas: Path, compiled: Path) -> Module:
    """Read the module of a policy folder, made by `make compile`.

    Args:
        policies: the bundle root that was compiled (`rego/`).
        schemas: the schemas that belong to it (`schemas/`).
        compiled: the folder with `policy.wasm` and `manifest.json`.

    Raises:
        EnginePolicies: a file is missing, or the policies are no longer the ones that were compiled.
    """
    manifest = _read_json(compiled / "manifest.json")
    try:
        actual = sources_digest(policies, schemas)
    except BadInput as error:
        raise EnginePolicies(str(error)) from error
    if manifest.get("sources") != actual:
        raise EnginePolicies(
            f"{compiled / 'policy.wasm'} was compiled from sources {manifest.get('sources')}, "
            f"but {policies} and {schemas} are {actual}; run `make compile`, or use an OPA"
        )
    wasm = _read(compiled / "policy.wasm")
    _check_digest(wasm, manifest.get("wasm"), compiled / "policy.wasm")
    # The generated data is not part of the sources it is made of.
    for name, digest in manifest.get("data", {}).items():
        _check_digest(_read(policies / name), digest, policies / name)
    version = str(manifest.get("opa", UNKNOWN_VERSION))
    return Module(wasm, folder_data(policies), version, str(compiled / "policy.wasm"))


def bundle_module(bundle: Path) -> Module:
    """Read a bundle file made by `opa build -t wasm`.

    Raises:
        EnginePolicies: it cannot be read, or holds no compiled module.
    """
    try:
        with tarfile.open(bundle, "r:gz") as archive:
            files = {member.name.lstrip("/"): _member(archive, member) for member in archive if member.isfile()}
    except (OSError, tarfile.TarError, EOFError) as error:
        raise EnginePolicies(f"bundle {bundle} cannot be read: {error}") from error
    if "policy.wasm" not in files:
        raise EnginePolicies(
            f"bundle {bundle} holds no compiled module; make it with `opa build -t wasm`, or use an OPA"
        )
    data = _parse(files.get("data.json", b"{}"), f"data.json in {bundle}")
    return Module(files["policy.wasm"], data, UNKNOWN_VERSION, str(bundle))


def folder_data(root: Path) -> dict[str, Any]:
    """Return the data of a bundle root as OPA reads it: each `data.json` at the path of its folder.

    Raises:
        EnginePolicies: a file is not a JSON object, two files define the same key, or data is in YAML.
    """
    merged: dict[str, Any] = {}
    for file in sorted(root.rglob("data.*")):
        if file.suffix in (".yaml", ".yml"):
            raise EnginePolicies(f"{file}: the embedded engine reads data.json only")
        if file.name != "data.json":
            continue
        content: Any = _read_json(file)
        for key in reversed(file.parent.relative_to(root).parts):
            content = {key: content}
        _merge(merged, content, file)
    return merged


class Embedded(ClosesOnExit):
    """The policies as a WebAssembly module in this process; safe to share between threads.

    Args:
        module: from `compiled_module` or `bundle_module`.
        deployed: policy data beside the policies, by root (`ledgeragent_overrides`, `ledgeragent_floor`,
            `ledgeragent_freeze`).
        timeout: the budget of one evaluation in seconds: half of it to wait for an instance, half to evaluate.

    Raises:
        EnginePolicies: the module cannot be run, or asks for a built-in that is not on the list.
    """

    def __init__(
        self, module: Module, *, deployed: Mapping[str, Any] | None = None, timeout: float = DEFAULT_TIMEOUT
    ) -> None:
        self.name = "embedded"
        self.version = module.version
        self.location = module.location
        self._timeout = timeout
        self._policy = _load(module, {**module.data, **(deployed or {})}, timeout)

    def evaluate(self, domain: str, rule: Rule, gate_input: Mapping[str, Any]) -> Any:
        """See `Engine.evaluate`."""
        path = rule_path(domain, rule)
        raw = encode_input(gate_input)
        if path not in self._policy.entrypoints:
            raise_undefined(path, self.location)
        try:
            value = self._policy.evaluate(raw, path)
        except OpaPolicyClosedError as error:
            raise EngineClosed("the embedded engine is closed; open a new one") from error
        except OpaPoolTimeoutError as error:
            raise EngineTimeout(f"no instance of the module was free within {self._timeout / 2} s") from error
        except (OpaWasmError, RecursionError) as error:
            raise EngineEvaluation(f"{self.location} could not evaluate: {error}") from error
        if value is UNDEFINED:
            raise_undefined(path, self.location)
        try:
            jsonio.check(value, what="the answer")
        except BadInput as error:
            raise EngineAnswer(f"{self.location}: {error}") from error
        return value

    def close(self) -> None:
        """Release the module's instances."""
        self._policy.close()


def _load(module: Module, data: dict[str, Any], timeout: float) -> OpaWasmPolicy:
    config = PolicyConfig(
        pool_size=_POOL_SIZE,
        borrow_timeout_seconds=timeout / 2,
        max_input_bytes=MAX_INPUT_BYTES,
        max_data_bytes=MAX_INPUT_BYTES,
        max_result_bytes=MAX_ANSWER_BYTES,
        max_cstring_scan_bytes=MAX_ANSWER_BYTES,
        parse_raw_json_input=False,  # `encode_input` has just written it
        max_memory_pages=_MEMORY_PAGES,
        eval_timeout_seconds=timeout / 2,
    )
    _make_room(module.wasm)
    try:
        policy = OpaWasmPolicy.from_wasm_bytes(module.wasm, config)
    except OpaWasmError as error:
        raise EnginePolicies(f"{module.location} is not a module compiled by OPA: {error}") from error
    foreign = sorted(set(policy.builtins) - set(HOST_BUILTINS))
    if foreign:
        policy.close()
        raise EnginePolicies(
            f"{module.location} needs {', '.join(foreign)}, which the embedded engine does not provide; "
            "use an OPA, or write the policy without"
        )
    for name in policy.builtins:
        policy.register_builtin(name, _guarded(HOST_BUILTINS[name]))
    try:
        policy.set_data(data)
    except OpaInvalidInputError as error:
        policy.close()
        raise EnginePolicies(f"the data of {module.location} cannot be loaded: {error}") from error
    return policy


def _make_room(wasm: bytes) -> None:
    """Let opa-py-wasm 1.2 start a module that declares more than two pages of memory (about 100 predicates do).

    It offers every module two pages and takes the refusal for a broken module. What a module declares is its own text
    and a little more, so its size says how much to offer.
    """
    enough = 2 + len(wasm) // _PAGE_BYTES
    opapywasm.runtime._DEFAULT_MEMORY_PAGES = max(opapywasm.runtime._DEFAULT_MEMORY_PAGES, enough)


def _guarded(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        try:
            return function(*arguments)
        except BuiltinFailed as error:
            raise OpaBuiltinError(str(error)) from error

    return call


def _check_digest(content: bytes, expected: object, file: Path) -> None:
    if "sha256:" + hashlib.sha256(content).hexdigest() != expected:
        raise EnginePolicies(f"{file} is not the file that `make compile` wrote; run it again, or use an OPA")


def _merge(into: dict[str, Any], content: Any, file: Path) -> None:
    for key, value in content.items():
        known = into.get(key)
        if isinstance(known, dict) and isinstance(value, dict):
            _merge(known, value, file)
        elif key in into:
            raise EnginePolicies(f"{file}: the key {key!r} is defined in another data.json as well")
        else:
            into[key] = value


def _member(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    if member.size > _MAX_MODULE_BYTES:
        raise tarfile.TarError(f"{PurePosixPath(member.name).name} has {member.size} bytes")
    stream = archive.extractfile(member)
    return b"" if stream is None else stream.read()


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise EnginePolicies(f"{file} cannot be read ({error}); run `make compile`, or use an OPA") from error


def _read_json(file: Path) -> dict[str, Any]:
    return _parse(_read(file), str(file))


def _parse(raw: bytes, where: str) -> dict[str, Any]:
    try:
        document = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise EnginePolicies(f"{where} is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise EnginePolicies(f"{where} is not a JSON object")
    return document
