"""Carries out the right actions of a benchmark task through a session, on the benchmark's real tools.

Whatever the gate wants read is read before a write is proposed again; what became of each write is handed back. The
tools of a domain, and how its customer is identified, are the tests' part.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from ledgeragent.feedback import SuggestedRead
from ledgeragent.gate import Gate
from ledgeragent.session import Call, Review, Session, Ticket, ToolRefused

JSON = Any
MAX_ROUNDS = 3


class Backend(Protocol):
    """The benchmark's tools on a database of their own."""

    def offers(self, tool: str) -> bool:
        """Whether there is such a tool."""

    def call(self, tool: str, arguments: JSON) -> str:
        """Run a tool; its return as the benchmark writes it. A no is a `ToolRefused`."""

    def would_accept(self, tool: str, arguments: JSON) -> bool:
        """Whether a write would run; tried on a copy."""

    def act_as_user(self, tool: str, arguments: JSON) -> None:
        """Do what the task has the customer do on their own device."""


class Toolkit:
    """A `Backend` of the benchmark's tools, where the customer has none of their own."""

    def __init__(self, tools: Callable[[Any], Any], database: bytes) -> None:
        self._make = tools
        self.tools = tools(pickle.loads(database))

    def offers(self, tool: str) -> bool:
        """See `Backend.offers`."""
        return hasattr(self.tools, tool)

    def call(self, tool: str, arguments: JSON) -> str:
        """See `Backend.call`."""
        from tau2.environment.environment import Environment

        try:
            return str(Environment.to_json_str(getattr(self.tools, tool)(**arguments)))
        except ValueError as error:
            raise ToolRefused(str(error)) from error

    def would_accept(self, tool: str, arguments: JSON) -> bool:
        """See `Backend.would_accept`."""
        try:
            Toolkit(self._make, pickle.dumps(self.tools.db)).call(tool, arguments)
        except ToolRefused:
            return False
        return True

    def act_as_user(self, tool: str, arguments: JSON) -> None:
        """See `Backend.act_as_user`."""
        raise AssertionError(f"{tool} is no tool of the customer's")


@dataclass(frozen=True)
class Ending:
    """How one gold write ended: the last review of it, and what happened before and after."""

    task: str
    review: Review
    reads: int
    accepted: bool


class Clerk:
    """Carries out a task's gold actions.

    Args:
        task: a line of the gold file.
        gate: judges the writes.
        backend: runs the tools.
        identify: the look-up that a customer is asked for first, or None when the task's actions hold it.
    """

    def __init__(
        self, task: JSON, gate: Gate, backend: Backend, identify: tuple[str, Mapping[str, str]] | None
    ) -> None:
        self._task = task
        self._backend = backend
        self._identify = identify
        self._session = Session(gate, now=gate.domain.file.now)

    def work(self) -> Iterator[Ending]:
        """Identify the customer, then act in order; one ending per write."""
        if self._identify is not None:
            self._read(*self._identify)
        for action in self._task["actions"]:
            self._session.next_turn()
            tool, arguments = action["name"], action["arguments"]
            if action.get("requestor") == "user":
                self._backend.act_as_user(tool, arguments)
            elif self._session.domain.is_write(tool):
                yield self._write(tool, arguments)
            elif self._backend.offers(tool):
                self._read(tool, arguments)

    def _read(self, tool: str, arguments: JSON) -> None:
        issued = self._session.issue(tool, arguments)
        try:
            content = self._backend.call(tool, arguments)
        except ToolRefused as refusal:
            self._session.observe(issued.call_id, f"Error: {refusal}", error=True)
            return
        observation = self._session.observe(issued.call_id, content)
        assert observation.problems == (), f"task {self._task['task_id']}, {tool}: {observation.problems}"

    def _write(self, tool: str, arguments: JSON) -> Ending:
        reads = 0
        for _ in range(MAX_ROUNDS):
            (review,) = self._session.review([Call(tool, arguments)])
            if review.verdict != "revise" or not review.reads:
                break
            for read in review.reads:
                for wanted in self.answered(read, arguments):
                    self._read(read.tool, wanted)
                    reads += 1
        ticket = review.ticket
        accepted = self._backend.would_accept(tool, arguments) if ticket is None else self._executed(ticket)
        return Ending(self._task["task_id"], review, reads, accepted)

    def answered(self, read: SuggestedRead, arguments: JSON) -> Iterable[Mapping[str, str]]:
        """The arguments to make a read with that the gate named for a write with these arguments.

        Once the customer is identified nothing is left to ask them; a domain where there is overrides this.
        """
        assert read.ask == (), f"task {self._task['task_id']}: asks for {read} after authentication"
        return [read.arguments]

    def _executed(self, ticket: Ticket) -> bool:
        try:
            self._session.execute(ticket, self._backend.call)
        except ToolRefused:
            return False
        return True


def rejected_but_accepted(endings: list[Ending]) -> dict[tuple[str, str], str]:
    """(task, tool) → the gate's words, for writes that the tools accept and the gate did not allow."""
    return {
        (ending.task, ending.review.call.tool): ending.review.message
        for ending in endings
        if ending.accepted and ending.review.verdict != "allow"
    }
