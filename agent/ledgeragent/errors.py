"""Every exception LedgerAgent raises, in one tree.

Callers catch `LedgerAgentError` or a branch of it; nothing of requests, wasmtime or jsonschema leaks through.

    LedgerAgentError
    ├── BadInput            text, JSON or a conversation that is not what its contract says
    ├── DomainError         the parts of a domain disagree (carries every problem found)
    ├── LedgerError         a return that may not become a fact (caps, unknown call, already answered)
    ├── TicketError         a ticket that is spent, foreign or does not fit the call
    ├── WiringError         an agent can reach something that would not be guarded: it does not start
    ├── SessionClosed       the session has ended (principal changed, host closed it)
    ├── SessionError        a session beyond this process cannot be gone on with: nothing of it is let through
    │   ├── SessionLost         never created, expired, evicted or ended
    │   ├── SessionBusy         another replica is at work on it
    │   ├── SessionConflict     it exists already, or went on elsewhere meanwhile: what was judged here is void
    │   ├── SessionDamaged      edited, swapped, signed with an unknown key, or of another domain
    │   ├── SessionRolledBack   sound, but older than what was known of it
    │   └── SessionUnavailable  the store gave no usable answer
    ├── RecordError         a decision record could not be written: the decision is withheld
    ├── ModelError          the chat model gave no answer
    │   ├── ModelUnreachable    no connection, a stream that broke off, no answer in time, or too many requests
    │   ├── ModelRefused        the endpoint took neither key nor request (any other 4xx)
    │   └── ModelAnswer         an answer that is not what the protocol says
    └── EngineError         the policy decision point gave no usable answer
        ├── EngineUnreachable   no connection: not there, refused, name unknown, child process gone
        ├── EngineTimeout       no complete answer within the budget
        ├── EngineBreaker       not asked: it failed several times in a row, a moment ago
        ├── EngineRefused       401 or 403, or a token that cannot be read
        ├── EngineStatus        any other HTTP status
        ├── EngineUndefined     an answer without a result: the rule is undefined or not loaded
        ├── EngineAnswer        an answer that is not one strict JSON object
        ├── EngineEvaluation    the evaluation itself failed: built-in error, trap, memory, conflict
        ├── EnginePolicies      policies or module missing, not compiling, out of step, or OPA not supported
        └── EngineClosed        used after close()

`code` is of a closed list (`ENGINE_CODES`, `DECISION_CODES`): it is what a blocked review carries as its
`error`, so that a broken engine is never confused with a policy's refusal. What a store of sessions can come to is
a list of its own (`SESSION_CODES`): there is no review then, and no session.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

_RANDOM_ID: Final = re.compile("[0-9a-f]{16,64}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

ENGINE_CODES: Final = (
    "engine.unreachable",
    "engine.timeout",
    "engine.breaker",
    "engine.refused",
    "engine.status",
    "engine.undefined",
    "engine.answer",
    "engine.evaluation",
    "engine.policies",
    "engine.closed",
)
DECISION_CODES: Final = (
    "decision.schema",
    "decision.request",
    "decision.predicates",
    "decision.grant",
    "decision.revision",
    "decision.proof",
    "decision.pin",
    "host.input",
    "host.record",
    "host.internal",
)
SESSION_CODES: Final = (
    "session.lost",
    "session.busy",
    "session.conflict",
    "session.damaged",
    "session.rolled_back",
    "session.unavailable",
)


class LedgerAgentError(Exception):
    """Base class: the message says what was wrong, where, and what to do.

    Messages end up in logs, so they name types, places and numbers, and quote neither arguments nor facts nor answers.
    """


class BadInput(LedgerAgentError):
    """Text, JSON or a file that is not what its contract says."""


class DomainError(LedgerAgentError):
    """A domain whose parts disagree; `problems` holds every disagreement, one line each."""

    def __init__(self, domain: str, problems: Sequence[str]) -> None:
        self.domain = domain
        self.problems = tuple(problems)
        lines = "\n".join(f"  - {problem}" for problem in self.problems)
        super().__init__(f"domain {domain!r} cannot be used, {len(self.problems)} problem(s):\n{lines}")


class LedgerError(LedgerAgentError):
    """A tool return that may not become a fact."""


class TicketError(LedgerAgentError):
    """A ticket that is spent, foreign, or does not fit the call it is shown for."""


class WiringError(LedgerAgentError):
    """An agent can reach a tool, sub-agent or hand-over that would not be guarded: it does not start."""


class SessionClosed(LedgerAgentError):
    """The session has ended; open a new one."""


class SessionError(LedgerAgentError):
    """A session beyond this process cannot be gone on with; `code` is one of `SESSION_CODES`."""

    code: str = "session.unavailable"


class SessionLost(SessionError):
    """There is no such session: never created, expired, evicted, or ended. Nothing was created in its place."""

    code = "session.lost"


class SessionBusy(SessionError):
    """Another replica is at work on the session; try again when it is done."""

    code = "session.busy"


class SessionConflict(SessionError):
    """The session exists already, or went on elsewhere meanwhile: what was judged here since is void."""

    code = "session.conflict"


class SessionDamaged(SessionError):
    """What is stored is not what was stored under this id, by a replica that holds an accepted key."""

    code = "session.damaged"


class SessionRolledBack(SessionError):
    """What is stored was once right, but is older than what is known of the session."""

    code = "session.rolled_back"


class SessionUnavailable(SessionError):
    """The store gave no usable answer: unreachable, too slow, full, read-only, or not replicated as asked."""

    code = "session.unavailable"


class RecordError(LedgerAgentError):
    """A record could not be written, so the decision it stands for is withheld."""


class ModelError(LedgerAgentError):
    """The chat model gave no answer; nothing was done.

    `said` holds what the endpoint said, short and on one line, and is no part of the message: it may quote the
    conversation.
    """

    def __init__(self, message: str, *, said: str = "") -> None:
        super().__init__(message)
        self.said = said


class ModelUnreachable(ModelError):
    """No connection, a stream that broke off, no answer in time, or the endpoint is overloaded."""


class ModelRefused(ModelError):
    """The endpoint did not take the request: its key, its model's name, its size; `status` is the HTTP status."""

    def __init__(self, message: str, *, status: int, said: str = "") -> None:
        super().__init__(message, said=said)
        self.status = status


class ModelAnswer(ModelError):
    """The endpoint's answer is not what the chat-completions protocol says."""


def shown_id(identifier: str) -> str:
    """An id of a session for messages: as it is when it was drawn at random, else the first digits of its SHA-256.

    A host can take anything for an id, an e-mail address too. A store names its keys by the same digest.
    """
    if _RANDOM_ID.fullmatch(identifier) and re.search("[a-f]", identifier):
        return identifier
    return "sha256:" + hashlib.sha256(identifier.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def origin(error: BaseException) -> str:
    """Type and place of any exception, for a log: its own words may quote what nobody should read there."""
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    where = f" at {Path(last.tb_frame.f_code.co_filename).name}:{last.tb_lineno}" if last is not None else ""
    return f"{type(error).__name__}{where}"


class EngineError(LedgerAgentError):
    """The policy decision point gave no usable answer; `code` is one of `ENGINE_CODES`."""

    code: str = "engine.evaluation"

    def __init__(self, message: str, *, code: str | None = None) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code
        if self.code not in ENGINE_CODES:
            raise ValueError(f"{self.code!r} is not one of ENGINE_CODES")


class EngineUnreachable(EngineError):
    """No connection to the policy decision point, or its process is gone."""

    code = "engine.unreachable"


class EngineTimeout(EngineError):
    """No complete answer within the request budget."""

    code = "engine.timeout"


class EngineBreaker(EngineError):
    """The circuit breaker is open: the policy decision point failed several times in a row and is not asked now."""

    code = "engine.breaker"


class EngineRefused(EngineError):
    """The policy decision point did not accept the credentials (HTTP 401 or 403)."""

    code = "engine.refused"


class EngineStatus(EngineError):
    """An HTTP status that is neither 200 nor a refusal nor a failed evaluation; `status` is the number."""

    code = "engine.status"

    def __init__(self, message: str, *, status: int) -> None:
        super().__init__(message)
        self.status = status


class EngineUndefined(EngineError):
    """The rule gave no result: undefined for this input, or not loaded at all."""

    code = "engine.undefined"


class EngineAnswer(EngineError):
    """The answer is not one JSON object without duplicate keys and non-finite numbers."""

    code = "engine.answer"


class EngineEvaluation(EngineError):
    """The evaluation failed: a built-in's error, a conflict, a trap, or its memory or time limit."""

    code = "engine.evaluation"


class EnginePolicies(EngineError):
    """The policies cannot be used: missing, not compiling, out of step with the module, or an OPA not
    supported."""

    code = "engine.policies"


class EngineClosed(EngineError):
    """The engine was closed before this evaluation."""

    code = "engine.closed"
