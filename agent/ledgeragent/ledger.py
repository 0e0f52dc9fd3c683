"""The ledger: what read tools really returned, as typed records under canonical paths.

Only `absorb` puts facts in, and only what parses, fits its schema and carries its own id gets in. Writes never put a
value in; they make fields stale, and a field stays stale until its record is read by a call issued after the write's
outcome was known. Costs of absorbing, marking and slicing do not depend on how much the ledger holds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, Final

from ledgeragent.contracts import FactRule, ReadTool, WriteTool
from ledgeragent.domain import Domain, whole_pattern
from ledgeragent.errors import BadInput, LedgerError
from ledgeragent.jsonio import MAX_TEXT, canonical, check, copied, digest, parse, text_digest
from ledgeragent.parsers import load_parser
from ledgeragent.paths import ANY, NOTHING, Path, PathTemplate, Pattern, Scope, Template, dotted, is_prefix

LEDGER: Final = "ledgeragent.ledger/1"
_BUCKETS: Final = 256


@dataclass(frozen=True)
class Limits:
    """Size caps of one session's ledger."""

    record_bytes: int = 262_144
    """Largest record, in bytes of canonical JSON."""
    records: int = 50_000
    total_bytes: int = 67_108_864
    """All records together, in bytes of canonical JSON."""


@dataclass(frozen=True)
class Provenance:
    """Where a record came from.

    Attributes:
        tool: the read that returned it.
        call_id: the call's id.
        turn: the session's turn when it was absorbed.
        at: the session's clock then, RFC 3339.
        issued: the session's event number when the read was issued.
    """

    tool: str
    call_id: str
    turn: int
    at: str
    issued: int


@dataclass
class _Record:
    value: Any
    size: int
    digest: str
    provenance: Provenance
    stale: tuple[Path, ...] = ()
    fresh: Any = NOTHING


@dataclass(frozen=True)
class NotAFact:
    """A part of a return that was kept out, and why."""

    path: str
    reason: str


@dataclass(frozen=True)
class Absorbed:
    """What a return became: paths now in the ledger, and what was kept out."""

    paths: tuple[Path, ...]
    problems: tuple[NotAFact, ...]


@dataclass(frozen=True)
class Slice:
    """The part of the ledger a decision may look at.

    Attributes:
        ledger: nested objects under canonical keys, without stale values.
        stale: stale paths among what was asked for, sorted.
        records: digest of every record touched, None where nothing was read: what a ticket is bound to.
        read: where each record at hand came from, sorted by path.
    """

    ledger: dict[str, Any]
    stale: list[list[str]]
    records: Mapping[Path, str | None]
    read: Mapping[Path, Provenance]


@dataclass(frozen=True)
class Shown:
    """What there is to show of a record.

    Attributes:
        fresh: its value without what is stale, or `NOTHING`. Not a copy: do not change it.
        stale: its stale fields, as paths below the record.
        issued: the session's event number of the read.
    """

    fresh: Any
    stale: tuple[Path, ...]
    issued: int


@dataclass(eq=False)
class _Mark:
    """Fields that one write changes; `known` is the event at which its outcome became known."""

    write: int
    pattern: Pattern
    known: int | None = None

    def holds_for(self, record: _Record) -> bool:
        return self.known is None or record.provenance.issued < self.known


@dataclass
class Ledger:
    """The records of one session. Not thread-safe: the session serialises."""

    domain: Domain
    limits: Limits = field(default_factory=Limits)
    _tables: dict[str, Any] = field(default_factory=dict)
    _marks: dict[Pattern, list[_Mark]] = field(default_factory=dict)
    _wide_marks: dict[str, list[_Mark]] = field(default_factory=dict)
    _marks_by_write: dict[int, list[_Mark]] = field(default_factory=dict)
    # By path: the text that its record adds to the digest.
    _buckets: list[dict[Path, str]] = field(default_factory=lambda: [{} for _ in range(_BUCKETS)])
    _bucket_digests: list[bytes] = field(default_factory=lambda: [b""] * _BUCKETS)
    _changed: dict[Path, int] = field(default_factory=dict)
    _change: int = 0
    _count: int = 0
    _bytes: int = 0

    # Reading ----------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self._count

    @property
    def size(self) -> int:
        """Bytes of canonical JSON of all records."""
        return self._bytes

    @property
    def digest(self) -> str:
        """Digest of values and stale paths, as `sha256:<hex>`: the same for the same facts in whatever order."""
        return "sha256:" + hashlib.sha256(b"".join(self._bucket_digests)).hexdigest()

    def lookup(self, path: Path) -> Any:
        """The fresh value under a path, or `NOTHING` when it was not read, is not there, or is stale."""
        depth = self.domain.schema.record_depth(path)
        record = self._record(path[:depth]) if depth is not None else None
        return _below(record.fresh, path[depth:]) if record is not None else NOTHING

    def provenance(self, path: Path) -> Provenance | None:
        """Where the record that a path lies in came from."""
        depth = self.domain.schema.record_depth(path)
        record = self._record(path[:depth]) if depth is not None else None
        return record.provenance if record is not None else None

    def stale_paths(self) -> list[Path]:
        """Every stale path of the records at hand, sorted."""
        return sorted(path for _, record in self._all() for path in record.stale)

    def tree(self) -> dict[str, Any]:
        """The whole ledger as nested objects, without stale values."""
        whole: dict[str, Any] = {}
        for path, record in self._all():
            if record.fresh is not NOTHING:
                _place(whole, path, copied(record.fresh))
        return whole

    def records(self) -> Iterator[tuple[Path, Any, Provenance, tuple[Path, ...]]]:
        """(path, value as read, provenance, stale paths) of every record, by path."""
        for path, record in sorted(self._all(), key=lambda item: item[0]):
            yield path, copied(record.value), record.provenance, record.stale

    def as_read(self, path: Path) -> tuple[Any, Provenance, tuple[Path, ...]] | None:
        """(value as read, provenance, stale paths) of a record, or None. The value is not a copy: do not change it."""
        record = self._record(path)
        return (record.value, record.provenance, record.stale) if record is not None else None

    def changed_since(self, change: int) -> tuple[int, list[Path]]:
        """Which records were stored or changed their staleness.

        Args:
            change: a number this method gave before, or 0 for everything.

        Returns:
            The number to ask with next time, and the records' paths. It costs what has changed, not what there is.
        """
        changed = list(takewhile(lambda path: self._changed[path] > change, reversed(self._changed)))
        return self._change, changed

    def shown(self, path: Path) -> Shown | None:
        """A record as a view shows it, or None when there is none under this path."""
        record = self._record(path)
        if record is None:
            return None
        return Shown(record.fresh, tuple(one[len(path) :] for one in record.stale), record.provenance.issued)

    # Slicing ----------------------------------------------------------------------------------------------------

    def slice(self, needs: Sequence[PathTemplate], scope: Scope) -> Slice:
        """Cut out what a decision may look at.

        Args:
            needs: templates of paths, from tools.json.
            scope: the call's arguments and the principal; ledger look-ups are answered here.

        Returns:
            The slice. A path that was never read is simply not in it; a field that its record lacks leaves the
            containers above it, so that the gate can tell known absence from a missing fact.
        """
        looking = Scope(scope.values, scope.principal, self.lookup)
        wanted = sorted({path for template in needs for path in self._expanded(template, looking)}, key=_by_length)
        out: dict[str, Any] = {}
        taken: set[Path] = set()
        stale: set[Path] = set()
        records: dict[Path, str | None] = {}
        read: dict[Path, Provenance] = {}
        for path in wanted:
            if any(path[:length] in taken for length in range(1, len(path) + 1)):
                continue
            taken.add(path)
            depth = self.domain.schema.record_depth(path)
            record = self._record(path[:depth]) if depth is not None else None
            records[path[:depth]] = record.digest if record is not None else None
            if record is not None:
                read[path[:depth]] = record.provenance
                stale |= {one for one in record.stale if _concerns(one, path)}
                _place_known(out, path, depth or 0, record.fresh)
        return Slice(out, [list(path) for path in sorted(stale)], records, dict(sorted(read.items())))

    def unchanged(self, records: Mapping[Path, str | None]) -> bool:
        """Whether the records of a slice still have the values they had then."""
        return all(
            (found.digest if (found := self._record(path)) is not None else None) == expected
            for path, expected in records.items()
        )

    def touched_by(self, writes: Set[int], records: Iterable[Path]) -> bool:
        """Whether one of these writes changes a field of one of these records."""
        marks = [mark for write in writes for mark in self._marks_of(write)]
        return any(is_prefix(mark.pattern[: len(path)], path) for mark in marks for path in records)

    def _expanded(self, template: PathTemplate, scope: Scope) -> Iterator[Path]:
        for pattern in template.fill(scope):
            yield from self._keys_at_hand(pattern)

    def _keys_at_hand(self, pattern: Pattern) -> Iterator[Path]:
        """The pattern with every `*` replaced by the keys that are there."""
        where = next((at for at, key in enumerate(pattern) if key is ANY), None)
        if where is None:
            yield tuple(str(key) for key in pattern)
            return
        above = tuple(str(key) for key in pattern[:where])
        keys = sorted(self._keys_below(above))
        if not keys and above and self.domain.schema.record_depth(above) is not None:
            yield above  # nothing there, which is knowledge if its record was read
        for key in keys:
            yield from self._keys_at_hand((*above, key, *pattern[where + 1 :]))

    def _keys_below(self, path: Path) -> list[str]:
        depth = self.domain.schema.depths.get(path[0]) if path else None
        if depth is None:
            return []
        if len(path) < depth:
            node: Any = self._tables
            for key in path:
                node = node.get(key, {})
            return list(node)
        record = self._record(path[:depth])
        inner = _below(record.value, path[depth:]) if record is not None else NOTHING
        return list(inner) if isinstance(inner, Mapping) else []

    # Absorbing --------------------------------------------------------------------------------------------------

    def absorb(
        self,
        tool: ReadTool | WriteTool,
        arguments: Mapping[str, Any],
        content: Any,
        provenance: Provenance,
        *,
        proves: bool = True,
        principal: str | None = None,
        read: Any = None,
    ) -> Absorbed:
        """Turn a successful return of a read into facts.

        Args:
            tool: the declared read (a write where the domain takes what writes return for a read).
            arguments: the arguments it was called with.
            content: the returned text, or the value a host has already parsed.
            provenance: where it comes from.
            proves: False when the identifying arguments were the agent's own knowledge; rules with `unless_seen`
                then give no fact.
            principal: the principal's id, for templates.
            read: the value of a content that is JSON text, where the caller has parsed it already; else anything.

        Returns:
            What became a fact and what did not. Whatever does not fit is kept out as a whole rule.
        """
        paths: list[Path] = []
        problems: list[NotAFact] = []
        # A text that did not parse is its own `read`; a rule that wants JSON of it says what is wrong with it.
        parsed: dict[str, Any] = {}
        if isinstance(content, str) and isinstance(read, dict | list):
            parsed = {"json": read, "list": read} if isinstance(read, list) else {"json": read}
        for rule in tool.facts:
            if rule.unless_seen is not None and not proves:
                names = ", ".join(rule.unless_seen)
                why = f"proves nothing: {names} had already been seen in a tool return"
                problems.append(NotAFact(_place_name(rule, arguments), why))
                continue
            try:
                paths += self._store_all(
                    self._facts(rule, arguments, content, principal, parsed), rule.mode, provenance
                )
            except (BadInput, LedgerError) as problem:
                problems.append(NotAFact(_place_name(rule, arguments), str(problem)))
        return Absorbed(tuple(paths), tuple(problems))

    def _facts(
        self,
        rule: FactRule,
        arguments: Mapping[str, Any],
        content: Any,
        principal: str | None,
        parsed: dict[str, Any],
    ) -> list[tuple[Path, Any]]:
        """The facts of one rule; `parsed` keeps what the return reads as for the rules after it."""
        if rule.parse not in parsed:
            parsed[rule.parse] = _parsed(rule.parse, content)
        result = parsed[rule.parse]
        values = {"arguments": arguments, "result": result}
        scopes = [Scope(values, principal)]
        if rule.each is not None:
            elements = [one for found in Template.parse(rule.each).fill(scopes[0]) for one in _elements(found)]
            scopes = [Scope({**values, "each": one}, principal) for one in elements]
        found: list[tuple[Path, Any]] = []
        for scope in scopes:
            if rule.when is None or _applies(rule, scope):
                found.extend(_one_fact(rule, scope))
        if rule.mode == "union":
            found = _united(found)
        for path, value in found:
            self._check(path, value)
        return list(_distinct(found).items())

    def _check(self, path: Path, value: Any) -> None:
        kind = self.domain.schema.record_type(path)
        if kind is None:
            raise LedgerError(f"{len(path)} keys below {self._table(path)} are not where the schema has a record")
        problem = kind.problem(value)
        if problem is not None:
            raise LedgerError(f"does not fit its schema: {problem}")
        if kind.id_field is not None and isinstance(value, Mapping):
            own = value.get(kind.id_field, path[-1])
            if own != path[-1]:
                raise LedgerError(f"the record's own {kind.id_field} is not the one it was read as")

    def _store_all(self, facts: Sequence[tuple[Path, Any]], mode: str, provenance: Provenance) -> list[Path]:
        """Store all facts of a rule, or none."""
        made = {path: one for path, value in facts if (one := self._made(path, value, mode, provenance)) is not None}
        self._make_room(made)
        for path, record in made.items():
            self._put(path, record)
        return list(made)

    def _made(self, path: Path, value: Any, mode: str, provenance: Provenance) -> _Record | None:
        held = self._record(path)
        if held is not None:
            if mode == "once":
                return None
            if held.provenance.issued > provenance.issued:
                raise LedgerError("the record was read again by a later call; the late return is not taken")
            if mode == "union":
                value = sorted({*held.value, *value})
        text = canonical(value)
        return _Record(copied(value), len(text), text_digest(text), provenance)

    def _make_room(self, made: Mapping[Path, _Record]) -> None:
        limits, count, total = self.limits, self._count, self._bytes
        for path, record in made.items():
            if record.size > limits.record_bytes:
                what = f"the record in {self._table(path)} is {record.size:,} bytes"
                raise LedgerError(f"{what}; a record has at most {limits.record_bytes:,}")
            held = self._record(path)
            count += held is None
            total += record.size - (held.size if held is not None else 0)
        if count > limits.records:
            raise LedgerError(f"the session would hold {count:,} records; its limit is {limits.records:,}")
        if total > limits.total_bytes:
            raise LedgerError(f"the session would hold {total:,} bytes of facts; its limit is {limits.total_bytes:,}")

    def _put(self, path: Path, record: _Record) -> None:
        node = self._tables
        for key in path[:-1]:
            node = node.setdefault(key, {})
        held = node.get(path[-1])
        self._count += held is None
        self._bytes += record.size - (held.size if held is not None else 0)
        node[path[-1]] = record
        self._refresh(path, record)

    # Staleness --------------------------------------------------------------------------------------------------

    def mark(self, write: int, templates: Sequence[PathTemplate], scope: Scope) -> None:
        """Make the fields that a write changes stale, from now on.

        Args:
            write: the session's number of the write.
            templates: the tool's `changes`.
            scope: the call's arguments and the principal; what cannot be filled in counts as every key.
        """
        looking = Scope(scope.values, scope.principal, self.lookup)
        waiting: list[Pattern] = []
        for template in templates:
            if template.looks:  # what is stale by now must not be found
                self._refresh_matching(waiting)
                waiting = []
            for pattern in template.fill_widely(looking):
                self._set(_Mark(write, pattern))
                waiting.append(pattern)
        self._refresh_matching(waiting)

    def settle(self, write: int, event: int) -> None:
        """The outcome of a write is known: reads issued after this event give fresh facts again."""
        for mark in self._marks_of(write):
            mark.known = event

    def unmark(self, write: int) -> None:
        """A write did not happen: what it made stale is as it was."""
        undone = self._marks_by_write.pop(write, [])
        for mark in undone:
            marks = self._marks_like(mark)
            marks[:] = [one for one in marks if one.write != write]
        self._refresh_matching([mark.pattern for mark in undone])

    def _marks_of(self, write: int) -> list[_Mark]:
        return self._marks_by_write.get(write, [])

    def _add_mark(self, mark: _Mark) -> None:
        self._set(mark)
        self._refresh_matching([mark.pattern])

    def _set(self, mark: _Mark) -> None:
        self._marks_by_write.setdefault(mark.write, []).append(mark)
        self._marks_like(mark).append(mark)

    def _marks_like(self, mark: _Mark) -> list[_Mark]:
        """The marks of the same record, or of the same table where a mark concerns several records."""
        record = mark.pattern[: self.domain.schema.depths[str(mark.pattern[0])]]
        if ANY in record:
            return self._wide_marks.setdefault(str(mark.pattern[0]), [])
        return self._marks.setdefault(record, [])

    def _refresh_matching(self, patterns: Iterable[Pattern]) -> None:
        """Every record that one of the patterns concerns, once."""
        depths = self.domain.schema.depths
        of_records = dict.fromkeys(pattern[: depths[str(pattern[0])]] for pattern in patterns)
        for path in dict.fromkeys(path for one in of_records for path in self._keys_at_hand(one)):
            record = self._record(path)
            if record is not None:
                self._refresh(path, record)

    def _refresh(self, path: Path, record: _Record) -> None:
        """Work out anew what is stale in a record, and its part of the digest."""
        own = self._marks.get(path, [])
        for over in [mark for mark in own if not mark.holds_for(record)]:
            own.remove(over)
            self._forget(over)
        if not own:
            self._marks.pop(path, None)
        wide = [
            mark
            for mark in self._wide_marks.get(path[0], ())
            if mark.holds_for(record) and is_prefix(mark.pattern[: len(path)], path)
        ]
        stale = {one for mark in (*own, *wide) for one in _within(path, record.value, mark.pattern)}
        record.stale = tuple(sorted(one for one in stale if not any(one[:n] in stale for n in range(1, len(one)))))
        record.fresh = record.value
        for one in record.stale:
            record.fresh = _without(record.fresh, one[len(path) :])
        self._change += 1
        self._changed.pop(path, None)  # the newest change stands last
        self._changed[path] = self._change
        self._rehash(path, record)

    def _forget(self, mark: _Mark) -> None:
        of_write = self._marks_by_write[mark.write]
        of_write.remove(mark)
        if not of_write:
            del self._marks_by_write[mark.write]

    def _rehash(self, path: Path, record: _Record) -> None:
        leaf = digest([list(path), record.digest, [list(one) for one in record.stale]])
        at = hashlib.sha256("\0".join(path).encode("utf-8")).digest()[0] % _BUCKETS
        bucket = self._buckets[at]
        bucket[path] = f"{canonical(list(path))}{leaf}"
        whole = "".join(bucket[key] for key in sorted(bucket))
        self._bucket_digests[at] = hashlib.sha256(whole.encode("ascii")).digest()

    # JSON -------------------------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """Everything the ledger holds, as a JSON value that `from_json` reads."""
        marks = [mark for marks in (*self._marks.values(), *self._wide_marks.values()) for mark in marks]
        return {
            "contract": LEDGER,
            "domain": self.domain.name,
            "digest": self.digest,
            "records": [
                {"path": list(path), "value": value, "provenance": vars(provenance)}
                for path, value, provenance, _ in self.records()
            ],
            "marks": [
                {
                    "write": mark.write,
                    "pattern": [None if key is ANY else key for key in mark.pattern],
                    "known": mark.known,
                }
                for mark in marks
            ],
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any], domain: Domain, limits: Limits | None = None) -> Ledger:
        """Read a ledger back.

        Raises:
            LedgerError: when it is of another domain or contract, a record does not fit, or its digest differs.
        """
        if document.get("contract") != LEDGER or document.get("domain") != domain.name:
            raise LedgerError(f"not a ledger of domain {domain.name!r} under contract {LEDGER!r}")
        ledger = cls(domain, limits or Limits())
        try:
            for mark in document["marks"]:
                pattern = tuple(ANY if key is None else key for key in mark["pattern"])
                ledger._add_mark(_Mark(mark["write"], pattern, mark["known"]))
            for number, row in enumerate(document["records"]):
                ledger._read_back(row, f"record {number}")
        except (KeyError, IndexError, TypeError, AttributeError, BadInput) as error:
            raise LedgerError(f"the ledger's text is damaged: {type(error).__name__}") from None
        if ledger.digest != document.get("digest"):
            raise LedgerError("the ledger's text is damaged: its digest does not fit its records")
        return ledger

    def _read_back(self, row: Mapping[str, Any], place: str) -> None:
        path = tuple(row["path"])
        check(row["value"], what=place)
        if self._record(path) is not None:
            raise LedgerError(f"the ledger's text is damaged: {place} is in it twice")
        self._check(path, row["value"])
        self._store_all([(path, row["value"])], "replace", _provenance(row["provenance"]))

    @classmethod
    def of(cls, domain: Domain, facts: Mapping[str, Any], stale: Iterable[Path] = ()) -> Ledger:
        """A ledger that holds these facts, as if each had just been read: for writing vectors, never for a session.

        Args:
            domain: the domain.
            facts: nested objects under canonical keys, whole records.
            stale: paths that a write has changed since.

        Raises:
            LedgerError: when a record does not fit its schema, or something stands where there is no record.
            BadInput: for a value that is not I-JSON.
        """
        check(facts, what="the facts")
        ledger = cls(domain)
        records = list(_records_in(facts, domain.schema.depths))
        for path, value in records:
            ledger._check(path, value)
        ledger._store_all(records, "replace", Provenance("", "", 0, "", 0))
        for path in stale:
            ledger._add_mark(_Mark(0, path))
        return ledger

    # Inside -----------------------------------------------------------------------------------------------------

    def _table(self, path: Path) -> str:
        """A path for messages, which may be logged: keys below the table are ids, and those can be anything."""
        return path[0] if path and path[0] in self.domain.schema.depths else "no table of the schema"

    def _record(self, path: Path) -> _Record | None:
        node: Any = self._tables
        for key in path:
            node = node.get(key)
            if node is None:
                return None
        return node if isinstance(node, _Record) else None

    def _all(self) -> Iterator[tuple[Path, _Record]]:
        def walk(above: Path, node: Any) -> Iterator[tuple[Path, _Record]]:
            for key, below in node.items():
                if isinstance(below, _Record):
                    yield (*above, key), below
                else:
                    yield from walk((*above, key), below)

        return walk((), self._tables)


def _provenance(row: Mapping[str, Any]) -> Provenance:
    texts = ("tool", "call_id", "at")
    if not all(isinstance(value, str if key in texts else int) for key, value in row.items()):
        raise LedgerError("the ledger's text is damaged: a provenance has a field of another type")
    return Provenance(**row)


def _united(found: Sequence[tuple[Path, Any]]) -> list[tuple[Path, Any]]:
    sets: dict[Path, set[str]] = {}
    for path, values in found:
        sets.setdefault(path, set()).update(values)
    return [(path, sorted(values)) for path, values in sets.items()]


def _records_in(facts: Mapping[str, Any], depths: Mapping[str, int]) -> Iterator[tuple[Path, Any]]:
    for table, below in facts.items():
        if table not in depths:
            raise LedgerError(f"{table!r} is no table of the ledger schema")
        yield from _at_depth((table,), below, depths[table])


def _at_depth(path: Path, node: Any, depth: int) -> Iterator[tuple[Path, Any]]:
    if len(path) == depth or not isinstance(node, Mapping):
        yield path, node
        return
    for key, below in node.items():
        yield from _at_depth((*path, key), below, depth)


def _by_length(path: Path) -> tuple[int, Path]:
    return len(path), path


def _place_name(rule: FactRule, arguments: Mapping[str, Any]) -> str:
    """The rule's path for people: filled in as far as the call's arguments go."""
    filled = PathTemplate.parse(rule.path).fill(Scope({"arguments": arguments}))
    return dotted(filled[0] if len(filled) == 1 else rule.path)[:200]


def _distinct(found: Sequence[tuple[Path, Any]]) -> dict[Path, Any]:
    """Each record once: a list may repeat a record (a flight in two connections), but not contradict itself."""
    kept: dict[Path, Any] = {}
    for path, value in found:
        if canonical(kept.setdefault(path, value)) != canonical(value):
            raise LedgerError("the return has two records for one path")
    return kept


def _parsed(how: str, content: Any) -> Any:
    if how in ("json", "list"):
        value = parse(content, what="the return") if isinstance(content, str) else content
        check(value, what="the return")
        if how == "list" and not isinstance(value, list):
            raise LedgerError("the return is no list")
        return value
    if not isinstance(content, str):
        raise LedgerError(f"the return is a {type(content).__name__}, text was expected")
    if len(content) > MAX_TEXT:
        raise LedgerError(f"the return is {len(content):,} characters long; at most {MAX_TEXT:,} are taken")
    if how == "text":
        check(content, what="the return")
        return content
    try:
        value = load_parser(how)(content)
    except ValueError as error:
        raise LedgerError(f"the return could not be understood: {error}") from error
    check(value, what="the return")
    return value


def _concerns(stale: Path, path: Path) -> bool:
    """Whether a stale path lies on, above or below a path; one that ends in `?` concerns all its neighbours."""
    above = stale[:-1] if stale[-1] == "?" else stale
    return is_prefix(path, stale) or is_prefix(above, path)


def _elements(found: Any) -> list[Any]:
    if isinstance(found, Mapping):
        return list(found.values())
    return list(found) if isinstance(found, list) else []


def _applies(rule: FactRule, scope: Scope) -> bool:
    assert rule.when is not None
    values = Template.parse(rule.when.value).fill(scope)
    pattern = whole_pattern(rule.when.pattern)
    return any(isinstance(value, str) and pattern.search(value) for value in values)


def _one_fact(rule: FactRule, scope: Scope) -> Iterator[tuple[Path, Any]]:
    patterns = PathTemplate.parse(rule.path).fill(scope)
    values = Template.parse(rule.value).fill(scope)
    if not patterns:
        raise LedgerError("the path names something that is in neither the call nor its return")
    if rule.mode == "union":
        values = [sorted({value for value in values if isinstance(value, str)})]
    if len(values) != 1:
        raise LedgerError(f"{rule.value} stands for {len(values)} values in the return, one was expected")
    for pattern in patterns:
        yield tuple(str(key) for key in pattern), values[0]


def _below(value: Any, path: Path) -> Any:
    for key in path:
        if not isinstance(value, Mapping) or key not in value:
            return NOTHING
        value = value[key]
    return value


def _within(record: Path, value: Any, pattern: Pattern) -> Iterator[Path]:
    """The stale paths that a mark gives for one record: `*` below the record stands for the keys it has."""

    def walk(path: Path, inner: Any, rest: Pattern) -> Iterator[Path]:
        if not rest:
            yield path
        elif rest[0] is ANY:
            for key in inner if isinstance(inner, Mapping) else ():
                yield from walk((*path, key), inner[key], rest[1:])
        else:
            key = str(rest[0])
            yield from walk((*path, key), inner.get(key) if isinstance(inner, Mapping) else None, rest[1:])

    return walk(record, value, pattern[len(record) :])


def _without(value: Any, path: Path) -> Any:
    """A value without what stands under a path; containers along the path are copied, the rest is shared."""
    if not path:
        return NOTHING
    if not isinstance(value, Mapping) or path[0] not in value:
        return value
    rest = _without(value[path[0]], path[1:])
    copy = dict(value)
    if rest is NOTHING:
        del copy[path[0]]
    else:
        copy[path[0]] = rest
    return copy


def _place(tree: dict[str, Any], path: Path, value: Any) -> None:
    for key in path[:-1]:
        tree = tree.setdefault(key, {})
    tree[path[-1]] = value


def _place_known(tree: dict[str, Any], path: Path, depth: int, record: Any) -> None:
    """Put what a record has under a path into the tree; where the record lacks it, the containers above it."""
    if record is NOTHING:
        return
    reach = depth
    value = record
    while reach < len(path) and isinstance(value, Mapping) and path[reach] in value:
        value = value[path[reach]]
        reach += 1
    if reach == len(path) or not isinstance(value, Mapping):
        _place(tree, path[:reach], copied(value))
        return
    for key in path[:reach]:
        tree = tree.setdefault(key, {})
