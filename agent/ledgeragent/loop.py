"""The loop without its I/O: append, absorb, render, generate, gate, one message at a time.

`Loop` holds a conversation's history in the shape providers accept and says what comes next; whoever drives it (the
`LedgerAgent`, a benchmark's orchestrator) calls the model and runs the tools. Rejected calls are answered in the
history with the reason, so that every request is valid for the provider's API. Nothing here waits for anything but the
gate.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from pydantic_core import to_jsonable_python

from ledgeragent.approval import Approve
from ledgeragent.errors import BadInput, LedgerError, RecordError, TicketError
from ledgeragent.feedback import USER_FAILURE
from ledgeragent.jsonio import canonical, copied, parse
from ledgeragent.model import Definition, Generation, Message, ProposedCall, Usage
from ledgeragent.session import Call, Review, Session, Ticket, ToolRefused
from ledgeragent.view import LedgerView, Rendered

Mode = Literal["same-turn", "one-call"]
"""After a message lost all its calls: generate again at once, or go back to the user and on with their next message."""
Next = Literal["run", "generate", "reply"]
ToolOutcome = Literal["executed", "refused", "uncertain"]
_INTERRUPTED: Final = "interrupted before it returned"
_NO_NAME: Final = re.compile(r"[^A-Za-z0-9_-]")
_MAX_NAME: Final = 64


@dataclass(frozen=True)
class Admitted:
    """A call that may run.

    Attributes:
        call_id: unique in the conversation; the return names it.
        tool: the tool.
        arguments: parsed; for a write exactly what was judged.
        ticket: of a write, one-use; None for what changes nothing.
    """

    call_id: str
    tool: str
    arguments: Mapping[str, Any]
    ticket: Ticket | None


@dataclass(frozen=True)
class Rejected:
    """A call that was dropped.

    Attributes:
        call: as the model proposed it.
        message: what the model is told.
        review: what the gate said, or None for a read whose arguments are no JSON object.
    """

    call: Call
    message: str
    review: Review | None


@dataclass(frozen=True)
class Request:
    """What the model is asked.

    Attributes:
        messages: system prompt, history, and the ledger as the last message where it is shown.
        tools: tool definitions.
        view: the ledger's block, or None where it is not shown.
        size: bytes of messages and definitions as JSON.
    """

    messages: list[Message]
    tools: Sequence[Definition]
    view: Rendered | None
    size: int


@dataclass(frozen=True)
class Step:
    """What one generation came to.

    Attributes:
        next: `run` the admitted calls, `generate` again, or `reply` to the user.
        text: for the user, with `reply`.
        generation: what the model answered.
        admitted: calls to run, in order.
        rejected: calls that were dropped.
        reviews: of all writes, admitted ones too.
        view_bytes: size of the ledger's block in the request.
        view_tokens: its share of the prompt's tokens, by bytes; None where the provider counts no tokens.
        ended: why the turn ends, with `reply`: the model `said` something, or too many `revisions`.
    """

    next: Next
    text: str
    generation: Generation
    admitted: tuple[Admitted, ...]
    rejected: tuple[Rejected, ...]
    reviews: tuple[Review, ...]
    view_bytes: int
    view_tokens: int | None
    ended: Literal["said", "revisions"] | None


class Loop:
    """One conversation. Not for several threads at once."""

    def __init__(
        self,
        session: Session,
        tools: Sequence[Definition],
        *,
        system: str = "",
        view: LedgerView | None = None,
        mode: Mode = "same-turn",
        max_revisions: int = 3,
        history: Sequence[Message] = (),
        approve: Approve | None = None,
    ) -> None:
        """Begin a conversation, or go on with one.

        Args:
            session: its ledger and gate.
            tools: definitions of what the model may call.
            system: the system prompt, or "".
            view: shows the ledger in every request; None leaves it out.
            mode: what follows when a message lost all its calls.
            max_revisions: in `same-turn`, so many times in a row the model may try again within a turn.
            history: what was said before, as the attribute of this name gave it between two turns.
            approve: is asked where consent is all that a write wants; see `Session.review`.
        """
        self.session = session
        self._tools = list(tools)
        self._view = view
        self._mode = mode
        self._max_revisions = max_revisions
        self._approve = approve
        self._head: list[Message] = [{"role": "system", "content": system}] if system else []
        self._history: list[Message] = [copied(message) for message in history]
        self._size = _size(self._head) + _size(self._tools) + sum(_size(message) for message in self._history)
        self._open: dict[str, Admitted] = {}
        self._started: dict[str, str] = {}
        self._answers: dict[str, str] = {}
        self._order: list[str] = []
        self._used = {call["id"] for message in self._history for call in message.get("tool_calls", ())}
        self._revisions = 0
        self._asked: Request | None = None

    @property
    def history(self) -> list[Message]:
        """The conversation so far, without system prompt and ledger; a copy."""
        return [copied(message) for message in self._history]

    @property
    def waiting(self) -> tuple[Admitted, ...]:
        """Admitted calls that have not returned."""
        return tuple(self._open.values())

    # In ---------------------------------------------------------------------------------------------------------

    def user_said(self, text: str) -> None:
        """A message of the user; calls that never returned are given up first."""
        self.give_up()
        self._revisions = 0
        self._append({"role": "user", "content": text})

    def assistant_said(self, text: str) -> None:
        """A message the host sent in the assistant's name (a greeting)."""
        self._append({"role": "assistant", "content": text})

    def recall(self, text: str, answered: Sequence[tuple[ProposedCall, str]]) -> None:
        """A message of the model from before this loop, whose calls have already run.

        Only the history grows; what the calls returned is the host's to observe.

        Args:
            text: what stood beside the calls, or "".
            answered: its calls in order, each with what the model read as its answer.
        """
        calls = [Call(one.name, one.arguments, self._own_id(one)) for one, _ in answered]
        self._append(_assistant(text, calls))
        for call, (_, answer) in zip(calls, answered, strict=True):
            self._append({"role": "tool", "tool_call_id": call.call_id, "content": answer})

    def request(self) -> Request:
        """What to ask the model now.

        Raises:
            LedgerError: while admitted calls have not returned.
        """
        if self._open:
            raise LedgerError(f"{len(self._open)} admitted call(s) have not returned: report them before generating")
        view = self._view.render() if self._view is not None else None
        messages = [*self._head, *self._history]
        if view is not None:
            messages.append({"role": "user", "content": view.text})
        self._asked = Request(messages, self._tools, view, self._size + (view.size if view is not None else 0))
        return self._asked

    def take(self, generation: Generation) -> Step:
        """Gate what the model answered."""
        self.session.next_turn()
        if not generation.calls:
            if generation.content:
                self._append({"role": "assistant", "content": generation.content})
            return self._step("reply", generation, text=generation.content, ended="said")
        calls = [Call(one.name, one.arguments, self._own_id(one)) for one in generation.calls]
        writes = [call for call in calls if self.session.domain.is_write(call.tool)]
        reviews = {review.call.call_id: review for review in self.session.review(writes, approve=self._approve)}
        # Not before: calls that nothing can answer any more would make every later request invalid.
        self._append(_assistant(generation.content, calls))
        self._order = [call.call_id for call in calls]
        sorted_out = [sort_out(call, reviews.get(call.call_id)) for call in calls]
        admitted = tuple(one for one in sorted_out if isinstance(one, Admitted))
        rejected = tuple(one for one in sorted_out if isinstance(one, Rejected))
        self._open = {one.call_id: one for one in admitted}
        self._answers = {one.call.call_id: one.message for one in rejected}
        self._flush()
        return self._went(generation, admitted, rejected, tuple(reviews.values()))

    def _went(
        self,
        generation: Generation,
        admitted: tuple[Admitted, ...],
        rejected: tuple[Rejected, ...],
        reviews: tuple[Review, ...],
    ) -> Step:
        if admitted:
            self._revisions = 0
            return self._step("run", generation, admitted, rejected, reviews)
        self._revisions += 1
        if self._mode == "same-turn" and self._revisions <= self._max_revisions:
            return self._step("generate", generation, admitted, rejected, reviews)
        text = _for_user(rejected)
        self._append({"role": "assistant", "content": text})
        return self._step("reply", generation, admitted, rejected, reviews, text=text, ended="revisions")

    # Running ----------------------------------------------------------------------------------------------------

    def start(self, call: Admitted) -> dict[str, Any]:
        """An admitted call begins to run.

        Returns:
            The arguments to run it with: a copy of its own.

        Raises:
            TicketError: when it may not run any more (facts that admitted it have changed); the history then says so
                and the call is over.
            LedgerError: when it is not waiting to be run.
        """
        if self._open.get(call.call_id) != call or call.call_id in self._started:
            raise LedgerError("this call is not waiting to be run")
        if call.ticket is None:
            issued = self.session.issue(call.tool, call.arguments, secrets.token_hex(8))
            self._started[call.call_id] = issued.call_id
            return copied(call.arguments)  # type: ignore[no-any-return]
        try:
            arguments = self.session.redeem(call.ticket)
        except TicketError as problem:
            self._answer(call, f"{call.tool} was not executed: {problem}")
            raise
        self._started[call.call_id] = call.call_id
        return arguments

    def returned(self, call: Admitted, content: Any, outcome: ToolOutcome = "executed") -> str:
        """A started call came back.

        Args:
            call: the call.
            content: what the tool returned or said; any JSON-like value, models and dataclasses too.
            outcome: `executed`, `refused` (a definite no, or a read that failed), or `uncertain` (it may have run).

        Returns:
            What the model will read.

        Raises:
            LedgerError: when the call was not started.
            RecordError: when the outcome could not be recorded; it counts, and the history has it.
        """
        if call.call_id not in self._started:
            raise LedgerError("this call was not started")
        issued = self._started.pop(call.call_id)
        value = plain(content)
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        if outcome == "uncertain" and call.ticket is not None:
            text = doubtful(call.tool, text)
        try:
            if call.ticket is not None:
                self.session.report(call.ticket, outcome, value)
            else:
                self._observe(issued, value, error=outcome != "executed")
        finally:
            self._answer(call, text)
        return text

    def _observe(self, issued: str, value: Any, *, error: bool) -> None:
        observed = self.session.observe(issued, value, error=error)
        if self._view is not None:
            self._view.note(observed.problems, observed.paths)

    def give_up(self) -> None:
        """Calls that never returned: started writes are uncertain, others are withheld; the history says so."""
        for call in self.waiting:
            try:
                if call.call_id in self._started:
                    self.returned(call, _INTERRUPTED, "uncertain")
                    continue
                if call.ticket is not None:
                    self.session.report(call.ticket, "withheld")
            except (LedgerError, TicketError, RecordError):
                pass  # the session has ended; the history is made whole all the same
            if call.call_id in self._open:
                self._answer(call, f"{call.tool} was not executed: {_INTERRUPTED}.")

    # Inside -----------------------------------------------------------------------------------------------------

    def _answer(self, call: Admitted, text: str) -> None:
        del self._open[call.call_id]
        self._answers[call.call_id] = text
        self._flush()

    def _flush(self) -> None:
        """Once all calls of a message are over, their answers go into the history, in the calls' order."""
        if not self._open:
            for call_id in self._order:
                self._append({"role": "tool", "tool_call_id": call_id, "content": self._answers[call_id]})
            self._order, self._answers = [], {}

    def _append(self, message: Message) -> None:
        self._history.append(message)
        self._size += _size(message)

    def _own_id(self, call: ProposedCall) -> str:
        """The provider's id; one of our own where it gave none or gave it before."""
        own = call.id if call.id and call.id not in self._used else f"call_{secrets.token_hex(8)}"
        self._used.add(own)
        return own

    def _step(
        self,
        following: Next,
        generation: Generation,
        admitted: tuple[Admitted, ...] = (),
        rejected: tuple[Rejected, ...] = (),
        reviews: tuple[Review, ...] = (),
        text: str = "",
        ended: Literal["said", "revisions"] | None = None,
    ) -> Step:
        asked = self._asked
        view_bytes = asked.view.size if asked is not None and asked.view is not None else 0
        tokens = _share(generation.usage, view_bytes, asked.size) if asked is not None else None
        return Step(following, text, generation, admitted, rejected, reviews, view_bytes, tokens, ended)


def sort_out(call: Call, review: Review | None) -> Admitted | Rejected:
    """What becomes of a proposed call.

    Args:
        call: as the model proposed it, its arguments as text.
        review: what the gate said, or None for what changes nothing.
    """
    arguments = _arguments(call)
    if review is None and isinstance(arguments, str):
        return Rejected(call, f"{call.tool} was not executed: {arguments}", None)
    if review is None:
        return Admitted(call.call_id, call.tool, cast(dict[str, Any], arguments), None)
    if review.ticket is None:
        malformed = f"\n{arguments}" if isinstance(arguments, str) else ""
        return Rejected(call, review.message + malformed, review)
    return Admitted(call.call_id, call.tool, parse(review.ticket.arguments, what="arguments"), review.ticket)


def plain(content: Any) -> Any:
    """What a tool returned as a JSON value: models and dataclasses taken apart, anything else as text.

    What cannot be read is a text that says so: the tool ran all the same.
    """
    try:
        return content if isinstance(content, str) else to_jsonable_python(content, fallback=str)
    except Exception as error:  # noqa: BLE001 - the code of whatever object a tool returned
        return f"(this cannot be read: {type(error).__name__})"


def outcome_of(error: BaseException, *, write: bool) -> tuple[str, ToolOutcome]:
    """What a call came to whose tool raised this, and the words for it.

    Args:
        error: what the tool raised.
        write: whether the call may change the environment.
    """
    if isinstance(error, ToolRefused):
        return f"Error: {error}", "refused"
    if not write:
        return f"Error: {str(error) or type(error).__name__}", "refused"
    return f"{type(error).__name__}: {error}", "uncertain"


def doubtful(tool: str, text: str) -> str:
    """What the model reads about a write that may have run."""
    return f"{tool} gave no definite answer and may have been carried out: {text}. Check before you go on."


def _assistant(content: str, calls: Sequence[Call]) -> Message:
    """The model's message as providers take it back: text even when empty, plain names, JSON objects as arguments."""
    return {
        "role": "assistant",
        "content": content,
        "tool_calls": [
            {
                "id": call.call_id,
                "type": "function",
                "function": {"name": _name(call.tool), "arguments": _valid(call.arguments)},
            }
            for call in calls
        ],
    }


def _name(tool: str) -> str:
    """A name that providers take back: models make up others (`functions.get_order`), and the history must be valid."""
    return _NO_NAME.sub("_", tool)[:_MAX_NAME] or "_"


def _arguments(call: Call) -> dict[str, Any] | str:
    """The parsed arguments, or what is wrong with their text."""
    try:
        value = parse(call.arguments, what=f"the arguments of {call.tool}")
    except BadInput as problem:
        return f"{str(problem).removesuffix('.')}. Call it again with valid JSON."
    kind = type(value).__name__
    return value if isinstance(value, dict) else f"The arguments of {call.tool} must be a JSON object, not {kind}."


def _valid(arguments: str) -> str:
    try:
        value = parse(arguments, what="arguments")
    except BadInput:
        return "{}"  # some providers refuse a history with malformed arguments; the answer says what was wrong
    return canonical(value) if isinstance(value, Mapping) else "{}"


def _for_user(rejected: Sequence[Rejected]) -> str:
    said = [one.review.user_message for one in rejected if one.review is not None and one.review.user_message]
    return " ".join(dict.fromkeys(said)) or USER_FAILURE


def _share(usage: Usage | None, part: int, whole: int) -> int | None:
    return round(usage.prompt * part / whole) if usage is not None and whole else None


def _size(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"))
