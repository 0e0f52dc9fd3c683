"""LedgerAgent: a ledger of what an agent's tools really returned, and a policy gate before every write.

The usual way in: load a `Domain`, open an engine, build a `Gate`, and give every conversation a `Session`.
"""

from ledgeragent.contracts import Decision, Finding, Principal
from ledgeragent.domain import Domain
from ledgeragent.engine import AsyncOpaServer, Embedded, Engine, LocalOpa, OpaServer, open_engine
from ledgeragent.errors import (
    BadInput,
    DomainError,
    EngineError,
    LedgerAgentError,
    LedgerError,
    RecordError,
    SessionClosed,
    TicketError,
)
from ledgeragent.feedback import SuggestedRead
from ledgeragent.gate import Failure, Gate, Judged
from ledgeragent.ledger import Ledger, Limits, NotAFact, Provenance
from ledgeragent.records import JsonlRecorder, Recorder
from ledgeragent.session import Call, IssuedCall, Observation, Review, Session, Ticket, ToolRefused

__version__ = "0.1.0"

__all__ = [
    "AsyncOpaServer",
    "BadInput",
    "Call",
    "Decision",
    "Domain",
    "DomainError",
    "Embedded",
    "Engine",
    "EngineError",
    "Failure",
    "Finding",
    "Gate",
    "IssuedCall",
    "JsonlRecorder",
    "Judged",
    "Ledger",
    "LedgerAgentError",
    "LedgerError",
    "Limits",
    "LocalOpa",
    "NotAFact",
    "Observation",
    "OpaServer",
    "Principal",
    "Provenance",
    "RecordError",
    "Recorder",
    "Review",
    "Session",
    "SessionClosed",
    "SuggestedRead",
    "Ticket",
    "TicketError",
    "ToolRefused",
    "open_engine",
]
