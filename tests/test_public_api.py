"""The names that `import ledgeragent` gives: a promise to other people's code."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest

import ledgeragent
from ledgeragent import errors
from ledgeragent.errors import SESSION_CODES, DomainError, EngineStatus, LedgerAgentError, SessionError

NAMES = [
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


def test_exactly_these_names_are_public() -> None:
    assert sorted(ledgeragent.__all__) == NAMES
    for name in NAMES:
        assert getattr(ledgeragent, name).__doc__, name


def test_the_package_is_typed_and_has_the_version_of_its_distribution() -> None:
    assert (Path(ledgeragent.__file__).parent / "py.typed").is_file()
    try:
        installed = importlib.metadata.version("ledgeragent")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("ledgeragent runs from its sources here and has no distribution")
    assert ledgeragent.__version__ == installed


def test_every_error_is_in_the_tree_that_is_drawn_once() -> None:
    kinds = {kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)}
    assert all(issubclass(kind, LedgerAgentError) for kind in kinds)
    for kind in kinds:
        assert kind.__name__ in (errors.__doc__ or ""), kind
        assert kind.__doc__


def test_errors_carry_what_programs_need() -> None:
    problem = DomainError("toy", ["one", "two"])
    assert (problem.domain, problem.problems) == ("toy", ("one", "two"))
    assert str(problem) == "domain 'toy' cannot be used, 2 problem(s):\n  - one\n  - two"
    assert (EngineStatus("x", status=503).status, EngineStatus("x", status=503).code) == (503, "engine.status")


def test_each_error_of_a_store_of_sessions_has_a_code_of_its_own() -> None:
    assert tuple(kind.code for kind in SessionError.__subclasses__()) == SESSION_CODES


def test_importing_the_package_starts_nothing_and_needs_no_optional_framework() -> None:
    code = (
        "import sys, threading, ledgeragent; "
        "assert threading.active_count() == 1; "
        "print([name for name in ('openai', 'mcp', 'langchain', 'redis', 'tau2', 'pytest') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert (done.stdout, done.stderr) == ("[]\n", "")
