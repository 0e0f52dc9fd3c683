"""The protocol every engine follows, and what all of them share.

An engine evaluates one of a domain's two rules on one gate input and gives back what Open Policy Agent
answered, as parsed JSON. It promises nothing about that value: whether it is a decision, for this request
and by proved policies, is the gate's to judge. What an engine does promise is that every failure is an
`EngineError` with a code of the closed list in `errors`, and that a result which is undefined never comes
back as a value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Literal, NoReturn, Protocol, Self, runtime_checkable

from ledgeragent import jsonio
from ledgeragent.errors import (
    BadInput,
    EngineAnswer,
    EngineEvaluation,
    EngineRefused,
    EngineStatus,
    EngineUndefined,
)

Rule = Literal["decision", "proof"]

RULES: Final = ("decision", "proof")
UNKNOWN_VERSION: Final = "unknown"
MAX_INPUT_BYTES: Final = 16_000_000
MAX_ANSWER_BYTES: Final = 16_000_000

_DOMAIN = re.compile(r"[a-z][a-z0-9_]*")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_REGO_FILE = re.compile(r"[A-Za-z0-9_./-]{1,200}\.rego")
_MAX_ERRORS = 5
_OPA_CODES: Final = frozenset(
    {
        "evaluation_error",
        "eval_builtin_error",
        "eval_cancel_error",
        "eval_conflict_error",
        "eval_internal_error",
        "eval_type_error",
        "eval_with_merge_error",
        "internal_error",
        "invalid_operation",
        "invalid_parameter",
        "resource_conflict",
        "resource_not_found",
        "unauthorized",
        "undefined_document",
    }
)


@runtime_checkable
class Engine(Protocol):
    """A policy decision point.

    `name` is "opa", "opa-local" or "embedded"; `version` is OPA's own version ("unknown" as long as a
    remote server has not told it); `location` is a URL or path for people. Engines are safe to share
    between threads.
    """

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str: ...

    @property
    def location(self) -> str: ...

    def evaluate(self, domain: str, rule: Rule, gate_input: Mapping[str, Any]) -> Any:
        """Return the value of `data.ledgeragent.<domain>.<rule>` for `gate_input`, not yet trusted.

        Raises:
            EngineError: whatever kept the engine from giving a value, undefined included.
            BadInput: the domain's name or the input cannot be sent to any engine.
        """
        ...

    def close(self) -> None:
        """Release what the engine holds. May be called more than once."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


@dataclass(frozen=True)
class Answer:
    """What an engine answered: the rule's value, not yet trusted, and the id of OPA's own log entry on it, if any."""

    value: Any
    decision_id: str | None = None


@runtime_checkable
class Logs(Protocol):
    """What an engine has besides when a decision log is kept where it evaluates."""

    def answer(self, domain: str, rule: Rule, gate_input: Mapping[str, Any]) -> Answer:
        """As `Engine.evaluate`, with the decision's id in that log."""
        ...


def answer_of(engine: Engine, domain: str, rule: Rule, gate_input: Mapping[str, Any]) -> Answer:
    """Ask an engine, for the decision's id too where the engine can tell it.

    Raises:
        EngineError, BadInput: as `Engine.evaluate`.
    """
    if isinstance(engine, Logs):
        return engine.answer(domain, rule, gate_input)
    return Answer(engine.evaluate(domain, rule, gate_input))


class ClosesOnExit:
    """Gives an engine `with` blocks."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release what the engine holds."""
        raise NotImplementedError


def rule_path(domain: str, rule: str) -> str:
    """Return "ledgeragent/<domain>/<rule>" once both are known to be safe in a URL path.

    Raises:
        BadInput: the domain is not `[a-z][a-z0-9_]*` or the rule is neither "decision" nor "proof".
    """
    if not _DOMAIN.fullmatch(domain):
        raise BadInput(f"domain name {domain!r}: only a-z, 0-9 and _ are allowed, and a letter comes first")
    if rule not in RULES:
        raise BadInput(f"rule {rule!r}: an engine evaluates only {' and '.join(RULES)}")
    return f"ledgeragent/{domain}/{rule}"


def encode_input(value: Any) -> bytes:
    """Return `value` as UTF-8 JSON, the same bytes for every engine.

    Raises:
        BadInput: it holds something JSON or UTF-8 has no form for (NaN, infinity, lone surrogates, other
            objects), is nested too deeply, or is over `MAX_INPUT_BYTES`.
    """
    try:
        raw = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise BadInput(f"the gate input cannot be written as JSON: {type(error).__name__}") from None
    if len(raw) > MAX_INPUT_BYTES:
        raise BadInput(
            f"the gate input has {len(raw)} bytes, over the limit of {MAX_INPUT_BYTES}; send a smaller slice"
        )
    return raw


def decode_answer(raw: bytes, where: str) -> Any:
    """Return the JSON value in `raw`, as strict as `jsonio` is (UTF-8, no duplicate keys, only finite
    numbers, not too deep).

    Raises:
        EngineAnswer: anything else, saying what it looks like and `where` it came from.
    """
    try:
        return jsonio.parse(raw.decode(), what="the answer", limit=MAX_ANSWER_BYTES)
    except BadInput as error:
        raise EngineAnswer(f"{where} gave no strict JSON: {error}; it sent {_looks(raw)}") from None
    except UnicodeDecodeError:
        raise EngineAnswer(f"{where} gave no strict JSON: not UTF-8; it sent {_looks(raw)}") from None


def raise_for_status(status: int, raw: bytes, where: str) -> None:
    """Turn every HTTP status but 200 into the error it stands for, with OPA's own codes.

    OPA's words are left out: those of a built-in's error quote what the built-in was given.

    Raises:
        EngineRefused: 401, 403.
        EngineEvaluation: 500, which OPA gives for a failed evaluation (strict built-in errors included).
        EngineStatus: any other.
    """
    if status == 200:
        return
    said = _codes(raw)
    if status in (401, 403):
        raise EngineRefused(f"{where} refused the request (HTTP {status}): {said}; check the token")
    if status == 500:
        raise EngineEvaluation(f"{where} could not evaluate (HTTP 500): {said}")
    raise EngineStatus(f"{where} answered HTTP {status}: {said}; is this an OPA server?", status=status)


def result_of(answer: Any, path: str, where: str) -> Any:
    """Return the `result` of OPA's answer document.

    Raises:
        EngineAnswer: the document is not an object.
        EngineUndefined: it has no `result`; OPA says so with HTTP 200.
    """
    if not isinstance(answer, dict):
        raise EngineAnswer(f"{where} answered with {type(answer).__name__} where an object with `result` belongs")
    if "result" not in answer:
        raise_undefined(path, where)
    return answer["result"]


def decision_id_of(answer: Any) -> str | None:
    """The id under which OPA's decision log has a decision; None when it keeps none. Anything but a UUID is no id."""
    found = answer.get("decision_id") if isinstance(answer, dict) else None
    return found if isinstance(found, str) and _UUID.fullmatch(found) else None


def raise_undefined(path: str, where: str) -> NoReturn:
    """Raise the error for a rule without a value.

    Raises:
        EngineUndefined: always.
    """
    raise EngineUndefined(f"{where}: data.{path.replace('/', '.')} is undefined; are the domain's policies loaded?")


def _codes(raw: bytes) -> str:
    """The codes of OPA's error document and where in the policies each error arose; else what was sent instead."""
    try:
        document = json.loads(raw)
    except (ValueError, RecursionError):
        return _looks(raw)
    if not isinstance(document, dict) or not _is_code(document.get("code")):
        return _looks(raw)
    errors = document.get("errors")
    told = [_error(one) for one in errors if isinstance(one, dict)] if isinstance(errors, list) else []
    return ", ".join([document["code"], *told[:_MAX_ERRORS]])


def _error(error: dict[str, Any]) -> str:
    code = error["code"] if _is_code(error.get("code")) else "error"
    place = error.get("location")
    row = place.get("row") if isinstance(place, dict) else None
    file = place.get("file") if isinstance(place, dict) else None
    if not isinstance(file, str) or not _REGO_FILE.fullmatch(file) or not isinstance(row, int):
        return str(code)
    return f"{code} at {file}:{row}"


def _is_code(code: object) -> bool:
    return code in _OPA_CODES


def _looks(raw: bytes) -> str:
    """What bytes look like, without a word of theirs."""
    if not raw:
        return "nothing"
    kinds = {b"<": "markup", b"{": "a JSON object", b"[": "a JSON array", b'"': "a JSON text"}
    return f"{len(raw)} bytes of {kinds.get(raw.lstrip()[:1], 'something else')}"
