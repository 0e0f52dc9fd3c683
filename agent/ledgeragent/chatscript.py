"""A written conversation for `ledgeragent chat --script`, and the model that plays its assistant.

One JSON object per line. `{"user": "…"}` begins a turn (or is a command of the chat, such as `/ledger`), each line
`{"assistant": "…", "calls": [{"tool": "…", "arguments": {…}}]}` after it is one generation; a turn ends with a line
that calls nothing. `{"approver": "…", "approve": true}` and `{"confirm": true}` are what somebody answers when they are
asked for consent during the turn. What the gate says to the calls is not written down: it is found out.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from ledgeragent.contracts import ApprovalRequest, Consent
from ledgeragent.conversation import open_lines
from ledgeragent.errors import BadInput
from ledgeragent.jsonio import parse
from ledgeragent.model import Definition, Generation, Message, ProposedCall


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Call(_Strict):
    tool: str = Field(min_length=1)
    arguments: dict[str, Any] = {}


class _User(_Strict):
    user: str = Field(min_length=1)


class _Assistant(_Strict):
    assistant: str = ""
    calls: list[_Call] = []


class _Approval(_Strict):
    approver: str = Field(min_length=1)
    approve: bool


class _Confirmation(_Strict):
    confirm: bool


_Line = _User | _Approval | _Confirmation | _Assistant
_KINDS: Sequence[tuple[str, TypeAdapter[Any]]] = (
    ("user", TypeAdapter(_User)),
    ("approver", TypeAdapter(_Approval)),
    ("confirm", TypeAdapter(_Confirmation)),
    ("", TypeAdapter(_Assistant)),
)
"""A field → what a line with it is; any other is one of the assistant."""


@dataclass
class ScriptedTurn:
    """What the user says, and what a scripted model answers to it and to what its calls return.

    Attributes:
        user: the user's words, or a command of the chat.
        place: where they are written, for error messages.
        answers: one per generation; the last calls nothing.
        consents: what is answered to requests for consent, in order: the kind, who is asked ("" for the user), whether
            they consent.
    """

    user: str
    place: str
    answers: list[Generation] = field(default_factory=list)
    consents: list[tuple[Consent, str, bool]] = field(default_factory=list)

    @property
    def is_command(self) -> bool:
        """Whether it is for the chat itself."""
        return self.user.startswith("/")


def read_script(name: str, *, played: bool) -> list[ScriptedTurn]:
    """Read a script.

    Args:
        name: a JSONL file, or `-` for stdin.
        played: whether its assistant lines will be played, and so must be whole.

    Raises:
        BadInput: naming the line that does not fit, and why.
    """
    turns: list[ScriptedTurn] = []
    for place, text in open_lines(name):
        line = _read(text, place)
        if isinstance(line, _User):
            turns.append(ScriptedTurn(line.user, place))
        elif not turns:
            raise BadInput(f'{place}: a script begins with a line of the user: {{"user": "…"}}')
        elif isinstance(line, _Approval):
            turns[-1].consents.append(("approval", line.approver, line.approve))
        elif isinstance(line, _Confirmation):
            turns[-1].consents.append(("user_confirmation", "", line.confirm))
        else:
            turns[-1].answers.append(_generation(line))
    if not turns:
        raise BadInput(f"script {name} has no lines")
    if played:
        for turn in turns:
            _check(turn)
    return turns


def _read(text: str, place: str) -> _Line:
    value = parse(text, what=place)
    if not isinstance(value, dict):
        raise BadInput(f"{place}: a line of a script is a JSON object")
    try:
        kind = next(kind for field, kind in _KINDS if field in value or not field)
        return kind.validate_python(value)  # type: ignore[no-any-return]
    except ValidationError as error:
        found = error.errors(include_url=False)[0]
        where = ".".join(str(key) for key in found["loc"])
        raise BadInput(f"{place}: {where}: {found['msg']}") from None


def _generation(line: _Assistant) -> Generation:
    calls = tuple(ProposedCall("", one.tool, json.dumps(one.arguments)) for one in line.calls)
    return Generation(line.assistant, calls, finish="tool_calls" if calls else "stop")


def _check(turn: ScriptedTurn) -> None:
    said = [not one.calls for one in turn.answers]
    if turn.is_command:
        if said or turn.consents:
            raise BadInput(f"{turn.place}: nothing answers a command; take the assistant lines after it away")
    elif True not in said:
        raise BadInput(
            f"{turn.place}: the turn has no end: write an assistant line without calls for it, or add --model"
        )
    elif said.index(True) != len(said) - 1:
        raise BadInput(f"{turn.place}: an assistant line without calls ends the turn, but there are more after it")


class ScriptModel:
    """A model that says what a script has for the turn at hand."""

    def __init__(self) -> None:
        self._left: list[Generation] = []
        self._consents: list[tuple[Consent, str, bool]] = []

    def begin(self, turn: ScriptedTurn) -> None:
        """Go on to a turn; what the last one left over (it ended early in one-call mode) is dropped."""
        self._left = list(turn.answers)
        self._consents = list(turn.consents)

    def consent(self, request: ApprovalRequest, kind: Consent) -> str | None:
        """Who gives the consent that is asked for, as the script has it; None when nobody does."""
        if not self._consents or self._consents[0][0] != kind:
            return None
        _, name, given = self._consents.pop(0)
        return (name or request.requester) if given else None

    def generate(self, messages: Sequence[Message], tools: Sequence[Definition]) -> Generation:  # noqa: ARG002
        """The next line, whatever was asked."""
        return self._left.pop(0)
