"""The ledger as one of the session's resources, beside the server's own. What it says is the view's business."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mcp.types import INVALID_PARAMS
from mcp.types.jsonrpc import JSONRPCResponse

from ledgeragent.proxy import wire

_TYPE: Final = "text/plain"
_RESOURCE: Final[Mapping[str, Any]] = {
    "uri": wire.LEDGER,
    "name": "ledger",
    "title": "Ledger",
    "description": "What the tools of this session returned, as the policy check sees it.",
    "mimeType": _TYPE,
}
_ALONE: Final[Mapping[str, Mapping[str, Any]]] = {
    "resources/list": {"resources": [_RESOURCE]},
    "resources/templates/list": {"resourceTemplates": []},
}


def has(answer: JSONRPCResponse) -> bool:
    """Whether a server that answered `initialize` has resources of its own."""
    return isinstance((answer.result.get("capabilities") or {}).get("resources"), Mapping)


def offered(answer: JSONRPCResponse) -> JSONRPCResponse:
    """The server's answer to `initialize`, with resources that can be subscribed to."""
    given = answer.result.get("capabilities") or {}
    resources = {**(given.get("resources") or {}), "subscribe": True}
    return wire.result(answer.id, {**answer.result, "capabilities": {**given, "resources": resources}})


def beside(answer: JSONRPCResponse, *, first: bool) -> JSONRPCResponse:
    """A page of the server's resources; the first begins with the ledger, and none has another one of that name."""
    listed = wire.listed(answer, "resources")
    theirs = [one for one in listed if not (isinstance(one, Mapping) and one.get("uri") == wire.LEDGER)]
    return wire.result(answer.id, {**answer.result, "resources": [_RESOURCE, *theirs] if first else theirs})


def alone(identifier: wire.Id, method: str) -> wire.Answer:
    """The answer about resources where the server has none: the ledger is the only one."""
    if method in _ALONE:
        return wire.result(identifier, _ALONE[method])
    return wire.error(identifier, INVALID_PARAMS, "there is no such resource")


def read(identifier: wire.Id, text: str) -> wire.Answer:
    """The ledger, read."""
    return wire.result(identifier, {"contents": [{"uri": wire.LEDGER, "mimeType": _TYPE, "text": text}]})
