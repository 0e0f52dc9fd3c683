"""LedgerAgent: a ledger of what an agent's tools really returned, and a policy gate before every write.

The usual way in: load a `Domain`, open an engine, build a `Gate`, and give every conversation a `Session`.
"""

from ledgeragent.agent import AsyncLedgerAgent, LedgerAgent, Options, Reply
from ledgeragent.contracts import Decision, Finding, Principal
from ledgeragent.domain import Domain
from ledgeragent.engine import AsyncOpaServer, Embedded, Engine, LocalOpa, OpaServer, open_engine
from ledgeragent.errors import (
    BadInput,
    DomainError,
    EngineError,
    LedgerAgentError,
    LedgerError,
    ModelAnswer,
    ModelError,
    ModelRefused,
    ModelUnreachable,
    RecordError,
    SessionBusy,
    SessionClosed,
    SessionConflict,
    SessionDamaged,
    SessionError,
    SessionLost,
    SessionRolledBack,
    SessionUnavailable,
    TicketError,
)
from ledgeragent.feedback import SuggestedRead
from ledgeragent.gate import Failure, Gate, Judged, ShadowGate
from ledgeragent.ledger import Ledger, Limits, NotAFact, Provenance
from ledgeragent.loop import Admitted, Loop, Rejected, Step
from ledgeragent.model import AsyncModel, Generation, Model, ProposedCall, Usage
from ledgeragent.records import JsonlRecorder, Recorder
from ledgeragent.session import Call, IssuedCall, Observation, Review, Session, Ticket, ToolRefused
from ledgeragent.toolset import Tool, ToolFailed, Toolset
from ledgeragent.view import LedgerView

__version__ = "0.1.0"

__all__ = [
    "Admitted",
    "AsyncLedgerAgent",
    "AsyncModel",
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
    "Generation",
    "IssuedCall",
    "JsonlRecorder",
    "Judged",
    "Ledger",
    "LedgerAgent",
    "LedgerAgentError",
    "LedgerError",
    "LedgerView",
    "Limits",
    "LocalOpa",
    "Loop",
    "Model",
    "ModelAnswer",
    "ModelError",
    "ModelRefused",
    "ModelUnreachable",
    "NotAFact",
    "Observation",
    "OpaServer",
    "Options",
    "Principal",
    "ProposedCall",
    "Provenance",
    "RecordError",
    "Recorder",
    "Rejected",
    "Reply",
    "Review",
    "Session",
    "SessionBusy",
    "SessionClosed",
    "SessionConflict",
    "SessionDamaged",
    "SessionError",
    "SessionLost",
    "SessionRolledBack",
    "SessionUnavailable",
    "ShadowGate",
    "Step",
    "SuggestedRead",
    "Ticket",
    "TicketError",
    "Tool",
    "ToolFailed",
    "ToolRefused",
    "Toolset",
    "Usage",
    "open_engine",
]
