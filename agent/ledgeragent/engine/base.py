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
_MAX_QUOTED = 500


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
        raise BadInput(f"the gate input cannot be written as JSON: {error}") from error
    if len(raw) > MAX_INPUT_BYTES:
        raise BadInput(
            f"the gate input has {len(raw)} bytes, over the limit of {MAX_INPUT_BYTES}; send a smaller slice"
        )
    return raw


def decode_answer(raw: bytes, where: str) -> Any:
    """Return the JSON value in `raw`, as strict as `jsonio` is (UTF-8, no duplicate keys, only finite
    numbers, not too deep).

    Raises:
        EngineAnswer: anything else, quoting the beginning and naming `where` it came from.
    """
    try:
        return jsonio.parse(raw.decode(), what="the answer", limit=MAX_ANSWER_BYTES)
    except (BadInput, UnicodeDecodeError) as error:
        raise EngineAnswer(f"{where} gave no strict JSON: {error}; it began {_quote(raw)}") from error


def raise_for_status(status: int, raw: bytes, where: str) -> None:
    """Turn every HTTP status but 200 into the error it stands for, with OPA's own message.

    Raises:
        EngineRefused: 401, 403.
        EngineEvaluation: 500, which OPA gives for a failed evaluation (strict built-in errors included).
        EngineStatus: any other.
    """
    if status == 200:
        return
    said = _opa_message(raw)
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


def raise_undefined(path: str, where: str) -> NoReturn:
    """Raise the error for a rule without a value.

    Raises:
        EngineUndefined: always.
    """
    raise EngineUndefined(f"{where}: data.{path.replace('/', '.')} is undefined; are the domain's policies loaded?")


def _opa_message(raw: bytes) -> str:
    try:
        document = json.loads(raw)
    except (ValueError, RecursionError):
        return _quote(raw)
    if not isinstance(document, dict):
        return _quote(raw)
    parts = [str(document.get("code", "")), str(document.get("message", ""))]
    errors = document.get("errors")
    if isinstance(errors, list):
        parts += [str(each.get("message", "")) for each in errors if isinstance(each, dict)]
    return _shorten(": ".join(part for part in parts if part)) or _quote(raw)


def _quote(raw: bytes) -> str:
    return repr(_shorten(raw[: 4 * _MAX_QUOTED].decode("utf-8", "replace"))) if raw else "(empty)"


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_QUOTED else text[:_MAX_QUOTED] + "…"
