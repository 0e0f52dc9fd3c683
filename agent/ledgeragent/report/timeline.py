"""The entries of a report: what happened in one conversation or session, step by step, as plain JSON.

A conversation is replayed: its steps are words, calls that read and calls that were judged, each with what it changed
in the ledger, so that a reader can have the ledger as it stood at any step. Of decision records there is a step per
decision, with the slice of the ledger that it saw. A document has

    steps      in order; each has `kind`: said, read, write, other (a return that answers no call)
    changes    of a step: records stored, or whose staleness changed: `path`, `value` and `read` when stored, `stale`
    facts      of a recorded decision: all it saw
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ledgeragent.approval import consents, wanting
from ledgeragent.contracts import DecisionRecord, Finding, OutcomeRecord
from ledgeragent.conversation import Conversation, RecordedCall
from ledgeragent.domain import Domain
from ledgeragent.gate import Gate
from ledgeragent.jsonio import copied
from ledgeragent.ledger import Ledger, Provenance
from ledgeragent.marks import MASKED
from ledgeragent.paths import NOTHING, Path, is_prefix
from ledgeragent.records import Record
from ledgeragent.replay import Replay, ReplayStep, cause
from ledgeragent.replay import findings as findings_of
from ledgeragent.report.shown import Shown
from ledgeragent.session import Review

Step = dict[str, Any]

_SPEAKERS: Final = {"user": "customer", "assistant": "agent", "system": "system", "developer": "system"}
_MAX_ID: Final = 64
_MAX_IDS: Final = 400


@dataclass(frozen=True)
class JudgedRow:
    """A judged call in the index.

    Attributes:
        step: its step in the entry's document.
        findings: (predicate, verdict, cause) of each; for a failure its code, `block` and `error`.
        at: the host's clock, RFC 3339, where there is one.
    """

    step: int
    tool: str
    verdict: str
    findings: tuple[tuple[str, str, str], ...]
    at: str | None = None


@dataclass(frozen=True)
class Entry:
    """One line of a report's list.

    Attributes:
        kind: `conversation` or `session`.
        source: file and line it comes from.
        ids: what it can be found by: ids of records, and what calls name.
        document: what is shown when it is opened.
    """

    kind: str
    id: str
    title: str
    domain: str
    source: str
    calls: tuple[JudgedRow, ...]
    ids: tuple[str, ...]
    document: Mapping[str, Any]


def of_conversation(conversation: Conversation, gate: Gate, shown: Shown, *, now: str | None, source: str) -> Entry:
    """Replay a recorded conversation.

    Args:
        conversation: the recording.
        gate: judges its writes.
        shown: what may stand in the page.
        now: the clock, where the recording has none; else the domain's.
        source: where the recording stands.
    """
    return _Telling(Replay(conversation, gate, now=now), shown).entry(source)


class _Telling:
    """Tells one replay."""

    def __init__(self, replay: Replay, shown: Shown) -> None:
        self._replay = replay
        self._conversation = replay.conversation
        self._domain = replay.session.domain
        self._shown = shown
        self._watch = _Watch(replay.session.ledger, self._domain, shown)
        self._steps: list[Step] = []
        self._judged: list[JudgedRow] = []
        self._ids: dict[str, None] = {}
        self._policy: Step | None = None

    def entry(self, source: str) -> Entry:
        self._tell()
        conversation, engine = self._conversation, self._replay.session.gate.engine
        principal, title = conversation.principal, self._shown.words(conversation.title or "")
        document = {
            "now": self._replay.session.now,
            "reward": conversation.reward,
            "principal": self._shown.name(principal.id) if principal is not None else None,
            "policy": self._policy,
            "engine": f"{engine.name}, OPA {engine.version}",
            "steps": self._steps,
        }
        return Entry(
            "conversation",
            self._shown.name(conversation.id),
            title if title != MASKED else "",
            self._domain.name,
            source,
            tuple(self._judged),
            tuple(self._ids)[:_MAX_IDS],
            document,
        )

    def _tell(self) -> None:
        replayed = self._replay.steps()
        unmatched = set(self._conversation.unmatched)
        calls = {turn[0].index: turn for turn in self._conversation.turns}
        for index, message in enumerate(self._conversation.messages):
            self._say(message)
            if index in unmatched:
                self._steps.append({"kind": "other", "returned": self._returned(message.get("content"))})
            for call in calls.get(index, ()):
                self._steps.append(self._by_user(call) if call.by_user else self._step(next(replayed)))
        for _ in replayed:
            pass

    def _say(self, message: Mapping[str, Any]) -> None:
        who, text = _SPEAKERS.get(str(message.get("role"))), message.get("content")
        if who is not None and isinstance(text, str) and text:
            self._steps.append({"kind": "said", "who": who, "text": self._shown.words(text)})

    def _by_user(self, call: RecordedCall) -> Step:
        return {**self._called("read", call), "by": "customer"}

    def _step(self, step: ReplayStep) -> Step:
        if step.judged is not None:
            return self._write(step.call, step.judged.review, step.judged.executed)
        told = self._called("read", step.call)
        if step.problem is not None:
            told["problem"] = self._shown.words(step.problem)
        if step.observation is not None:
            told["kept_out"] = [
                [self._shown.words(one.path), self._shown.words(one.reason)] for one in step.observation.problems
            ]
        return told | self._changed()

    def _called(self, kind: str, call: RecordedCall) -> Step:
        arguments = _understood(call.arguments)
        told: Step = {
            "kind": kind,
            "tool": self._shown.tool(self._domain, call.tool),
            "arguments": self._shown.arguments(self._domain, call.tool, arguments),
            "turn": self._replay.session.turn,
        }
        self._found_by(_texts(told["arguments"]))
        if call.answered:
            told |= {"returned": self._returned(call.content), "failed": call.error}
        return told

    def _returned(self, content: Any) -> str:
        return self._shown.words(content if isinstance(content, str) else json.dumps(content, ensure_ascii=False))

    def _changed(self) -> Step:
        changes = self._watch.changes(len(self._steps))
        self._found_by(key for change in changes if "read" in change for key in change["path"][1:])
        return {"changes": changes} if changes else {}

    def _write(self, call: RecordedCall, review: Review, executed: bool | None) -> Step:
        told = self._called("write", call) | {
            "call_id": self._shown.name(call.call_id),
            "verdict": review.would,
            "findings": [_finding(one, self._domain, self._shown) for one in findings_of(review)],
            "reads": [
                [read.tool, self._shown.arguments(self._domain, read.tool, dict(read.arguments)), list(read.ask)]
                for read in review.reads
            ],
            "outcome": {True: "executed", False: "refused by the tool", None: "no return"}[executed],
            "saw": self._watch.seen(review.gate_input),
        }
        if review.decision is not None:
            self._policy = {"revision": review.decision.policy.revision, "gate": review.decision.policy.gate}
        if review.failure is not None:
            told["failure"] = [review.failure.code, self._shown.words(review.failure.message)]
        self._found_by([told["call_id"]])
        error = review.failure.code if review.failure is not None else None
        self._judged.append(
            JudgedRow(len(self._steps), told["tool"], review.would, _rows(findings_of(review), error)),
        )
        return told | self._changed()

    def _found_by(self, texts: Iterable[str]) -> None:
        self._ids.update(dict.fromkeys(text for text in texts if 0 < len(text) <= _MAX_ID and text != MASKED))


class _Watch:
    """Tells what a step changed in a ledger, and since which step a field is stale."""

    def __init__(self, ledger: Ledger, domain: Domain, shown: Shown) -> None:
        self._ledger = ledger
        self._domain = domain
        self._shown = shown
        self._change = 0
        self._known: dict[Path, Provenance] = {}
        self._since: dict[Path, dict[Path, int]] = {}

    def changes(self, step: int) -> list[Step]:
        """The records that changed since the last time, as of this step."""
        self._change, paths = self._ledger.changed_since(self._change)
        return [self._changed(path, step) for path in reversed(paths)]

    def _changed(self, path: Path, step: int) -> Step:
        found = self._ledger.as_read(path)
        assert found is not None, "a record that changed is there"
        value, provenance, stale = found
        told: Step = {"path": self._shown.path(self._domain, path)}
        stored = self._known.get(path) != provenance
        if stored:
            self._known[path] = provenance
            told |= {
                "value": self._shown.fact(self._domain, path, value),
                "read": {"tool": provenance.tool, "step": step, "turn": provenance.turn, "at": provenance.at},
            }
        before = {} if stored else self._since.get(path, {})
        self._since[path] = {one: before.get(one, step) for one in stale}
        if stale or before:
            told["stale"] = [[self._shown.path(self._domain, one), since] for one, since in self._since[path].items()]
        return told

    def seen(self, gate_input: Mapping[str, Any]) -> list[list[str]]:
        """The records of which a gate input shows something."""
        stale = [tuple(path) for path in gate_input["stale"]]
        return [
            self._shown.path(self._domain, path)
            for path in self._known
            if _below(gate_input["ledger"], path) is not NOTHING or any(is_prefix(path, one) for one in stale)
        ]


def _finding(finding: Finding, domain: Domain, shown: Shown) -> Step:
    return {
        "predicate": finding.predicate,
        "verdict": finding.verdict,
        "cause": cause(finding),
        "mode": finding.mode,
        "message": shown.words(finding.message),
        "paths": [shown.path(domain, tuple(path)) for path in finding.paths],
        "missing": [[shown.path(domain, tuple(one.path)), one.cause] for one in finding.missing],
    }


def _rows(findings: Sequence[Finding], error: str | None) -> tuple[tuple[str, str, str], ...]:
    rows = [(one.predicate, one.verdict, cause(one)) for one in findings]
    return (*rows, *([(error, "block", "error")] if error is not None else []))


def _understood(arguments: Any) -> Any:
    if not isinstance(arguments, str):
        return arguments
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner)


def _below(tree: Any, path: Sequence[str]) -> Any:
    for key in path:
        if not isinstance(tree, Mapping) or key not in tree:
            return NOTHING
        tree = tree[key]
    return tree


# Decision records -----------------------------------------------------------------------------------------------


@dataclass
class _Session:
    id: str
    domain: str
    source: str
    steps: list[tuple[str, Step, JudgedRow, tuple[str, ...]]] = field(default_factory=list)


class Sessions:
    """Puts decision records together by session; outcomes go to their decisions. All of them are held."""

    def __init__(self) -> None:
        self._sessions: dict[tuple[str, str], _Session] = {}
        self._outcomes: dict[tuple[str, str], str] = {}

    def add(self, record: Record, source: str) -> None:
        """Take a record in the form in which it may be shown."""
        if isinstance(record, OutcomeRecord):
            self._outcomes[(record.session, record.request)] = record.outcome
            return
        key = (record.input.domain, record.session)
        session = self._sessions.setdefault(key, _Session(record.session, record.input.domain, source))
        error = record.error
        row = JudgedRow(
            0,
            record.input.action.tool,
            record.verdict,
            _rows(record.decision.findings if record.decision is not None else (), error),
            record.at,
        )
        told = _decided(record)
        paths = [fact["path"] for fact in told["facts"]]
        texts = [
            record.input.request,
            record.call_id,
            *_texts(told["arguments"]),
            *(key for one in paths for key in one),
        ]
        ids = tuple(dict.fromkeys(text for text in texts if 0 < len(text) <= _MAX_ID and text != MASKED))
        session.steps.append((record.at, told, row, ids))

    def entries(self) -> Iterator[Entry]:
        """One entry per session, in the order in which they came; its decisions by time."""
        for session in self._sessions.values():
            yield self._entry(session)

    def _entry(self, session: _Session) -> Entry:
        ordered = sorted(session.steps, key=lambda step: step[0])
        since: dict[tuple[str, ...], int] = {}
        for number, (_, told, _, _) in enumerate(ordered):
            since = _dated(told, since, number)
            default = "not reported" if told["verdict"] == "allow" or not told["enforced"] else "held back"
            told["outcome"] = self._outcomes.get((session.id, told["request"]), default)
        ids = dict.fromkeys(text for _, _, _, texts in ordered for text in texts)
        masked = session.id == MASKED
        return Entry(
            "session",
            session.id,
            "Decisions whose session is masked, of one or of many" if masked else "",
            session.domain,
            session.source,
            tuple(
                JudgedRow(number, row.tool, row.verdict, row.findings, row.at)
                for number, (_, _, row, _) in enumerate(ordered)
            ),
            tuple(ids)[:_MAX_IDS],
            {"steps": [told for _, told, _, _ in ordered]},
        )


def _dated(told: Step, before: Mapping[tuple[str, ...], int], step: int) -> dict[tuple[str, ...], int]:
    """Fill in since which decision each path is seen stale."""
    now = {tuple(path): before.get(tuple(path), step) for fact in told["facts"] for path, _ in fact.get("stale", ())}
    for fact in told["facts"]:
        for one in fact.get("stale", ()):
            one[1] = now[tuple(one[0])]
    return now


def _decided(record: DecisionRecord) -> Step:
    asked, decision = record.input, record.decision
    told: Step = {
        "kind": "write",
        "tool": asked.action.tool,
        "arguments": _understood(asked.action.arguments),
        "turn": asked.session.turn,
        "now": asked.session.now,
        "at": record.at,
        "call_id": record.call_id,
        "request": asked.request,
        "verdict": record.verdict,
        "enforced": record.enforced,
        "findings": [
            one.model_dump(mode="json", exclude={"status", "missing"})
            | {"cause": cause(one), "missing": [[fact.path, fact.cause] for fact in one.missing]}
            | _consent(one.predicate, record)
            for one in (decision.findings if decision is not None else ())
        ],
        "principal": asked.session.principal.model_dump(mode="json") if asked.session.principal is not None else None,
        "rejections": asked.session.rejections,
        "history": [one.model_dump(mode="json") for one in asked.history],
        "siblings": [one.model_dump(mode="json") for one in asked.siblings],
        "overrides": [one.model_dump(mode="json") for one in (decision.overrides if decision is not None else ())],
        "policy": {"revision": record.revision, "gate": decision.policy.gate if decision is not None else ""},
        "engine": f"{record.engine.name}, OPA {record.engine.version}",
        "latency_ms": record.latency_ms,
        "facts": list(_facts(record)),
    }
    if record.error is not None:
        told["failure"] = [record.error, ""]
    if record.redacted is not None:
        told["redacted"] = record.redacted.model_dump(mode="json", exclude={"sealed"})
    return told


def _consent(predicate: str, record: DecisionRecord) -> Step:
    """Whose consent lifts a predicate's finding, or would."""
    lifted = consents(record.decision, [one.model_dump() for one in record.input.grants]).get(predicate)
    wanted = wanting(record.decision).get(predicate)
    if lifted is not None:
        return {"consent": lifted}
    return {"consent": f"{wanted} would lift it"} if wanted is not None else {}


def _facts(record: DecisionRecord) -> Iterator[Step]:
    """What the decision saw, by record where it is known what a record is, else by table."""
    rest = copied(record.input.ledger)
    stale = [tuple(path) for path in record.input.stale]
    for fact in record.facts:
        told: Step = {"path": fact.path, "read": fact.model_dump(mode="json", exclude={"path"})}
        value = _taken(rest, fact.path)
        if value is not NOTHING:
            told["value"] = value
        own = [one for one in stale if is_prefix(tuple(fact.path), one)]
        stale = [one for one in stale if one not in own]
        yield told | ({"stale": [[list(one), 0] for one in own]} if own else {})
    for table, value in rest.items():
        if value not in ({}, [], None):
            yield {"path": [table], "value": value}
    for path in stale:
        yield {"path": list(path), "stale": [[list(path), 0]]}


def _taken(tree: dict[str, Any], path: Sequence[str]) -> Any:
    """What stands under a path, which is taken out of the tree with the containers it leaves empty."""
    above = [tree]
    for key in path[:-1]:
        inner = above[-1].get(key)
        if not isinstance(inner, dict):
            return NOTHING
        above.append(inner)
    value = above[-1].pop(path[-1], NOTHING)
    for key, container in reversed(list(zip(path[:-1], above[:-1], strict=True))):
        if container[key] == {}:
            del container[key]
    return value
