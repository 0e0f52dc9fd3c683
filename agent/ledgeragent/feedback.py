"""Words for a rejected call: which reads would settle it, what the model is told, what the user is told.

Deterministic text made of the decision's findings and the domain's `settles`; no rule lives here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ledgeragent.contracts import Decision, Finding, ReadTool
from ledgeragent.domain import Domain
from ledgeragent.paths import Path, dotted

_ASK: Final = "?"
_PLACEHOLDER: Final = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True)
class SuggestedRead:
    """A read that would settle a missing fact.

    Attributes:
        tool: the read tool.
        arguments: its arguments as far as the path gives them.
        ask: arguments that only the user can give.
        path: the missing path it settles.
    """

    tool: str
    arguments: Mapping[str, str]
    ask: tuple[str, ...]
    path: Path

    def __str__(self) -> str:
        given = [f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in self.arguments.items()]
        return f"{self.tool}({', '.join([*given, *(f'{name}=<ask the user>' for name in self.ask)])})"


def suggested_reads(domain: Domain, findings: Sequence[Finding]) -> tuple[SuggestedRead, ...]:
    """The reads that would settle what the findings miss, each once, in the order of the findings."""
    found: dict[tuple[str, str], SuggestedRead] = {}
    for finding in findings:
        if finding.mode == "enforce":
            for fact in finding.missing:
                for read in _reads_for(domain, tuple(fact.path)):
                    found.setdefault((read.tool, str(read)), read)
    return tuple(found.values())


def _reads_for(domain: Domain, path: Path) -> Iterator[SuggestedRead]:
    for tool in domain.tools.values():
        if not isinstance(tool, ReadTool):
            continue
        for settled in tool.settles:
            names = _captured(tuple(settled.path), path)
            if names is not None:
                filled = {key: _filled(text, names) for key, text in settled.arguments.items() if text != _ASK}
                ask = tuple(key for key, text in settled.arguments.items() if text == _ASK)
                yield SuggestedRead(tool.name, filled, ask, path)


def _captured(pattern: Path, path: Path) -> dict[str, str] | None:
    if len(pattern) > len(path):
        return None
    names: dict[str, str] = {}
    for key, actual in zip(pattern, path, strict=False):
        if key.startswith("{"):
            names[key[1:-1]] = actual
        elif key != actual:
            return None
    return names


def _filled(text: str, names: Mapping[str, str]) -> str:
    # In one go: an id that reads like a placeholder is not filled in.
    return _PLACEHOLDER.sub(lambda found: names.get(found[1], found[0]), text)


def model_message(tool: str, decision: Decision, reads: Sequence[SuggestedRead]) -> str:
    """What the model is told about a rejected call."""
    lines = [_headline(decision).format(tool=tool)]
    lines += [f"- [{names}] {text}" for names, text in reasons(decision.findings)]
    if decision.verdict == "revise" and reads:
        lines.append("Settle it first, then propose the call again: " + _together(reads) + ".")
    return "\n".join(lines)


def reasons(findings: Sequence[Finding]) -> list[tuple[str, str]]:
    """(predicates, words) for every reason that counts: violated rules one by one, unknown facts together."""
    enforced = [one for one in findings if one.mode == "enforce"]
    found = [(one.predicate, one.message) for one in enforced if one.status == "violated"]
    unknown = [one for one in enforced if one.status == "unknown"]
    if unknown:
        causes = {tuple(fact.path): fact.cause for one in unknown for fact in one.missing}
        words = [
            f"{introduction}: {', '.join(sorted(_shown(path) for path, cause in causes.items() if cause == wanted))}."
            for wanted, introduction in _CAUSES.items()
            if wanted in causes.values()
        ]
        found.append((", ".join(sorted({one.predicate for one in unknown})), " ".join(words)))
    return found


def _shown(path: Path) -> str:
    """A path as people see it; ids come from tool returns and must not begin a line of their own."""
    return dotted(key if key.isprintable() else json.dumps(key) for key in path)


_CAUSES: Final[Mapping[str, str]] = {
    "missing": "Not read in this session",
    "stale": "Changed by a write since it was read",
}


def _headline(decision: Decision) -> str:
    """Where nothing but consent is wanting, that is what the model is told to ask for."""
    enforced = {one.predicate for one in decision.findings if one.mode == "enforce"}
    still_open = {one.predicate: one.kind for one in decision.obligations if one.grant is None}
    if not enforced or enforced - still_open.keys():
        return _HEADLINES[decision.verdict]
    wanted = " and ".join(_CONSENTS[kind] for kind in sorted({*still_open.values()}))
    return f"{{tool}} was not executed. It needs {wanted}. Say so, and propose the very same call again once given:"


_CONSENTS: Final[Mapping[str, str]] = {
    "approval": "an approval by somebody else than who asks for it",
    "user_confirmation": "the user's confirmation of exactly this call",
}


_HEADLINES: Final[Mapping[str, str]] = {
    "allow": "{tool} may run.",
    "revise": "{tool} was not executed. It can be proposed again once this is mended:",
    "block": "{tool} was refused. Do not retry it; explain why to the user, or hand over:",
}


def _together(reads: Sequence[SuggestedRead]) -> str:
    """Alternatives for one fact are joined by "or", reads for different facts by "and"."""
    by_path: dict[Path, list[str]] = {}
    for read in reads:
        by_path.setdefault(read.path, []).append(str(read))
    alternatives = list(dict.fromkeys(tuple(texts) for texts in by_path.values()))
    return ", and ".join(" or ".join(texts) for texts in alternatives)


def failure_message(tool: str, code: str) -> str:
    """What the model is told when no decision could be had."""
    return f"{tool} was not executed: the policy check is not available ({code}). Do not retry it; hand over."


def user_message(decision: Decision) -> str:
    """What the user can be told about a rejected call, without ids of rules or tools."""
    enforced = [one for one in decision.findings if one.mode == "enforce"]
    # What the gate itself says (arguments, loops) is for the model and names tools.
    broken = [one.message for one in enforced if one.status == "violated" and not one.predicate.startswith("gate.")]
    if broken:
        return " ".join(dict.fromkeys(broken))
    if decision.verdict == "block":
        return USER_FAILURE
    return "I need to look something up before I can do that." if enforced else ""


USER_FAILURE = "I can't make this change at the moment. A colleague will take over."
