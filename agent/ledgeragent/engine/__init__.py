"""Policy decision points behind one protocol: an OPA server, a local OPA, and the policies embedded in the process."""

from ledgeragent.engine.base import Engine, Rule
from ledgeragent.engine.breaker import Breaker
from ledgeragent.engine.embedded import Embedded, Module, bundle_module, compiled_module
from ledgeragent.engine.local import LocalOpa, find_opa
from ledgeragent.engine.opa import AsyncOpaServer, OpaServer
from ledgeragent.engine.select import open_engine

__all__ = [
    "AsyncOpaServer",
    "Breaker",
    "Embedded",
    "Engine",
    "LocalOpa",
    "Module",
    "OpaServer",
    "Rule",
    "bundle_module",
    "compiled_module",
    "find_opa",
    "open_engine",
]
