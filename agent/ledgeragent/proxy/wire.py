"""The messages the proxy itself writes, and what it reads in others'.

It knows JSON-RPC and the names MCP has for things; sessions and gates are the business of others.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, Protocol

from mcp.shared.message import SessionMessage
from mcp.types import UNSUPPORTED_PROTOCOL_VERSION
from mcp.types.jsonrpc import (
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
)
from mcp.types.version import HANDSHAKE_PROTOCOL_VERSIONS

LEDGER: Final = "ledger://current"
"""Where a client reads the session's ledger."""

ABOUT: Final = "ledgeragent/decision"
"""Key in `_meta` of a rejected call's result: verdict, request id and error, for a host that wants to know."""

Id = int | str
Answer = JSONRPCResponse | JSONRPCError
Message = JSONRPCRequest | JSONRPCNotification | Answer


class Reader(Protocol):
    """Where messages come from; what could not be read as one comes as the exception."""

    async def receive(self) -> SessionMessage | Exception: ...


class Writer(Protocol):
    """Where messages go."""

    async def send(self, item: SessionMessage, /) -> None: ...


def request(identifier: Id, method: str, params: Mapping[str, Any] | None) -> JSONRPCRequest:
    """A request; without params where there are none."""
    if params is None:
        return JSONRPCRequest(jsonrpc="2.0", id=identifier, method=method)
    return JSONRPCRequest(jsonrpc="2.0", id=identifier, method=method, params=dict(params))


def notification(method: str, params: Mapping[str, Any]) -> JSONRPCNotification:
    """A notification."""
    return JSONRPCNotification(jsonrpc="2.0", method=method, params=dict(params))


def result(identifier: Id, value: Mapping[str, Any]) -> JSONRPCResponse:
    """A successful answer."""
    return JSONRPCResponse(jsonrpc="2.0", id=identifier, result=dict(value))


def error(identifier: Id | None, code: int, message: str, data: Any = None) -> JSONRPCError:
    """An answer that says what is wrong with the request."""
    body = ErrorData(code=code, message=message) if data is None else ErrorData(code=code, message=message, data=data)
    return JSONRPCError(jsonrpc="2.0", id=identifier, error=body)


def answered(answer: Answer, identifier: Id) -> Answer:
    """The same answer under another id."""
    return answer.model_copy(update={"id": identifier})


def stateless(identifier: Id | None, requested: str) -> JSONRPCError:
    """The refusal of a protocol version whose requests belong to no session; names those that do."""
    data = {"supported": list(HANDSHAKE_PROTOCOL_VERSIONS), "requested": requested}
    what = "a request without a session has no ledger: begin one with `initialize`"
    return error(identifier, UNSUPPORTED_PROTOCOL_VERSION, what, data)


def rejection(identifier: Id, text: str, about: Mapping[str, Any]) -> JSONRPCResponse:
    """A tool result that says why the call was not executed."""
    value = {"content": [{"type": "text", "text": text}], "isError": True, "_meta": {ABOUT: dict(about)}}
    return result(identifier, value)


def doubtful(answer: JSONRPCResponse, text: str) -> JSONRPCResponse:
    """A failed tool result with a word on what that leaves open; the rest of it as it was."""
    content = [*answer.result["content"], {"type": "text", "text": text}]
    return result(answer.id, {**answer.result, "content": content})


def is_tool_result(answer: Answer | None) -> bool:
    """Whether an answer is what a tool returned: not an error of the protocol, not a task that was begun."""
    return isinstance(answer, JSONRPCResponse) and isinstance(answer.result.get("content"), list)


def listed(answer: JSONRPCResponse, key: str) -> list[Any]:
    """A list that an answer holds."""
    found = answer.result.get(key)
    return found if isinstance(found, list) else []


def texts(value: Mapping[str, Any]) -> list[str]:
    """The text blocks of a tool result."""
    blocks = [one for one in value.get("content", ()) if isinstance(one, Mapping) and one.get("type") == "text"]
    return [one["text"] for one in blocks if isinstance(one.get("text"), str)]


def returned(value: Mapping[str, Any], *, as_json: bool) -> str:
    """What a tool returned, as the text that can become facts.

    Args:
        value: the tool result.
        as_json: whether the tool's facts are read from JSON.

    Returns:
        Its text blocks. Where it has none, or they are not JSON although they should be, its structured content.
    """
    blocks, structured = texts(value), value.get("structuredContent")
    text = "\n".join(blocks)
    if structured is not None and (not blocks or (as_json and not _is_json(text))):
        return json.dumps(structured, ensure_ascii=False)
    return text


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
