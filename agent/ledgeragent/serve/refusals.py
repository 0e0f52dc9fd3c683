"""Why the sidecar does not do what it was asked to: a code of a closed list, an HTTP status, a message for people.

A refusal is never a verdict: it has no verdict in it, and nothing may run on it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from ledgeragent.errors import (
    BadInput,
    LedgerError,
    RecordError,
    SessionClosed,
    SessionError,
    TicketError,
    origin,
)

CODES: Final[Mapping[str, int]] = {
    "request.form": 400,
    "request.token": 401,
    "request.host": 403,
    "request.path": 404,
    "request.method": 405,
    "request.slow": 408,
    "request.repeated": 409,
    "request.size": 413,
    "request.type": 415,
    "call.refused": 409,
    "ticket.refused": 409,
    "session.closed": 409,
    "session.lost": 404,
    "session.busy": 503,
    "session.conflict": 409,
    "session.damaged": 500,
    "session.rolled_back": 500,
    "session.unavailable": 503,
    "serve.full": 503,
    "serve.busy": 503,
    "serve.stopping": 503,
    "host.record": 500,
    "host.internal": 500,
}
"""Every code a refusal can have, and its HTTP status."""

_log = logging.getLogger(__name__)


class Refusal(Exception):
    """What was asked is not done. `code` is one of `CODES`."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.status = CODES[code]
        self.message = message


def refusal_of(error: Exception) -> Refusal:
    """The refusal that an exception comes to; of what is not ours, no word leaves the process."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, SessionError):
        return Refusal(error.code, str(error))
    for kind, code in _CODE_OF:
        if isinstance(error, kind):
            return Refusal(code, str(error))
    _log.error("a request failed: %s", origin(error))
    return Refusal("host.internal", f"{type(error).__name__} in the sidecar; nothing of this request may be acted on")


_CODE_OF: Final = (
    (SessionClosed, "session.closed"),
    (TicketError, "ticket.refused"),
    (LedgerError, "call.refused"),
    (RecordError, "host.record"),
    (BadInput, "request.form"),
)
