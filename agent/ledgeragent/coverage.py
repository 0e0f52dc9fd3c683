"""Coverage of facts: what the policies look at, what they never look at, and what never happened.

Two halves. Read off the policies themselves: the ledger paths that predicates read, those that none reads, the reads
whose facts none needs, the writes that only common rules guard. Counted in a corpus of judged calls: how often each
predicate was judged and did not hold, and which allowed calls no fact decided. Opening files is the command's part.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ledgeragent.catalogue import read_catalogue
from ledgeragent.contracts import Decision, ReadTool, WriteTool
from ledgeragent.domain import Domain, LedgerSchema
from ledgeragent.flow import Flow, LedgerShapes, Package, Shape, covers
from ledgeragent.lint import evidence_shape
from ledgeragent.opacli import evaluate, syntax_tree
from ledgeragent.page import COMMON
from ledgeragent.paths import PathTemplate, dotted
from ledgeragent.policies import read_rego

_BATCH: Final = 100


@dataclass(frozen=True)
class Looks:
    """What a domain's policies look at.

    Attributes:
        domain: the domain.
        exact: whether the paths were read off the rules; else off the evidence that predicates state.
        read: ledger path → the predicates that read it, both dotted, sorted.
        unread: paths of the ledger schema that no predicate reads; ids, which the host checks, left out.
        needless: (read tool, path of a fact) of which no predicate reads anything.
        common_only: writes that no predicate of the domain guards.
        unguarded: of these, the ones that somebody answers for.
    """

    domain: str
    exact: bool
    read: Mapping[str, tuple[str, ...]]
    unread: tuple[str, ...]
    needless: tuple[tuple[str, str], ...]
    common_only: tuple[str, ...]
    unguarded: tuple[str, ...]


@dataclass
class Fired:
    """How one predicate did in a corpus."""

    judged: int = 0
    violated: int = 0
    unknown: int = 0


@dataclass
class Corpus:
    """Counts over judged calls of one domain.

    Attributes:
        calls: judged calls by tool.
        verdicts: by verdict.
        predicates: by id; those of the page from the beginning, so that what was never judged shows.
        factless: allowed calls, by tool, of which no predicate asked for a fact; None when that was not looked at.
        no_decision: calls without a decision.
    """

    calls: Counter[str] = field(default_factory=Counter)
    verdicts: Counter[str] = field(default_factory=Counter)
    predicates: dict[str, Fired] = field(default_factory=dict)
    factless: Counter[str] | None = None
    no_decision: int = 0

    @property
    def silent(self) -> list[str]:
        """Predicates that held whenever they were judged, or never were."""
        return sorted(name for name, one in self.predicates.items() if one.violated + one.unknown == 0)


def looks(domain: Domain, rego: Path, schemas: Path, opa: Path | None) -> Looks:
    """What a domain's policies look at.

    Args:
        domain: the domain.
        rego: the bundle root.
        schemas: the folder with one folder per domain.
        opa: parses the rules; None takes the evidence that the predicates state, which the lint holds to be all.
    """
    read = _by_rules(domain, rego, opa) if opa is not None else _by_evidence(domain, rego, schemas)
    leaves = list(_leaves(domain.schema))
    unread = [leaf for leaf in leaves if not any(covers(one, leaf) for one in read)]
    writes = [tool for tool in domain.tools.values() if isinstance(tool, WriteTool)]
    common = [tool for tool in writes if all(one.startswith(COMMON) for one in tool.guarded_by)]
    return Looks(
        domain=domain.name,
        exact=opa is not None,
        read={dotted(shape): tuple(sorted(users)) for shape, users in sorted(read.items())},
        unread=tuple(dotted(one) for one in sorted(_joined(unread, leaves))),
        needless=tuple(sorted(set(_needless(domain, read)))),
        common_only=tuple(sorted(tool.name for tool in common)),
        unguarded=tuple(sorted(tool.name for tool in common if tool.unguarded is not None)),
    )


def _by_rules(domain: Domain, rego: Path, opa: Path) -> dict[Shape, set[str]]:
    root = rego / "ledgeragent"
    files = [file for name in (domain.name, "common") for file in sorted((root / name).rglob("*.rego"))]
    parsed = [Package.of(syntax_tree(opa, file)) for file in files if not file.name.endswith("_test.rego")]
    packages = {package.name: package for package in parsed}
    shapes = LedgerShapes(domain.schema.document)
    found: dict[Shape, set[str]] = {}
    for tool in domain.file.tools:
        if not isinstance(tool, WriteTool):
            continue
        parameters = tool.parameters.model_dump(exclude_none=True)
        for name in tool.guarded_by:
            touched = Flow(packages, shapes, tool.name, parameters).touched(packages[f"data.ledgeragent.{name}"])
            for use in touched.uses:
                if not use.shallow and use.shape:
                    found.setdefault(use.shape, set()).add(name)
            for path in touched.evidence:
                # What is only asked whether it is there is evidence all the same.
                if not any(covers(path.shape, use.shape) for use in touched.uses):
                    found.setdefault(path.shape, set()).add(name)
    return found


def _by_evidence(domain: Domain, rego: Path, schemas: Path) -> dict[Shape, set[str]]:
    found: dict[Shape, set[str]] = {}
    for entry in read_catalogue(domain.name, rego=rego, schemas=schemas):
        for text in entry.evidence:
            found.setdefault(evidence_shape(text), set()).add(entry.id)
    return found


def _leaves(schema: LedgerSchema) -> Iterator[Shape]:
    """Every place of the schema below which there is none."""
    yield from _leaves_below(schema, schema.document, ())


def _leaves_below(schema: LedgerSchema, raw: Mapping[str, Any], above: Shape) -> Iterator[Shape]:
    node = schema.resolved(raw)
    below = [
        *((key, one) for key, one in node.get("properties", {}).items() if key != node.get("x-id")),
        *(("*", node[word]) for word in ("additionalProperties", "items") if isinstance(node.get(word), Mapping)),
    ]
    if not below:
        yield above
    for key, one in below:
        yield from _leaves_below(schema, one, (*above, key))


def _joined(unread: Sequence[Shape], leaves: Sequence[Shape]) -> set[Shape]:
    """The unread leaves, those of a part of which nothing is read as that part."""
    left = set(unread)
    read = [leaf for leaf in leaves if leaf not in left]
    return {
        next(leaf[:depth] for depth in range(1, len(leaf) + 1) if not any(one[:depth] == leaf[:depth] for one in read))
        for leaf in left
    }


def _needless(domain: Domain, read: Mapping[Shape, set[str]]) -> Iterator[tuple[str, str]]:
    for tool in domain.file.tools:
        if not isinstance(tool, ReadTool):
            continue
        for fact in tool.facts:
            shape = PathTemplate.parse(fact.path).shape()
            is_principal = list(fact.path) == domain.file.principal_path
            if not is_principal and not any(covers(shape, one) or covers(one, shape) for one in read):
                yield tool.name, dotted(shape)


class Counting:
    """Counts judged calls of one domain, a batch at a time where OPA is asked."""

    def __init__(self, domain: Domain, rego: Path, opa: Path | None) -> None:
        """Begin with nothing counted.

        Args:
            domain: the domain.
            rego: the bundle root.
            opa: says which facts predicates ask for; None leaves that out.
        """
        self._domain = domain
        self._ask: Callable[[Sequence[Any]], list[Any]] | None = None
        if opa is not None and rego.is_dir():
            asked = _asking(domain.name, read_rego(rego, domain.name).listed)
            self._ask = lambda inputs: evaluate(opa, rego, asked, inputs)
        self._waiting: list[Mapping[str, Any]] = []
        self.corpus = Corpus(factless=None if self._ask is None else Counter())
        for name in read_rego(rego, domain.name).listed if rego.is_dir() else ():
            self.corpus.predicates[name] = Fired()

    def add(self, gate_input: Mapping[str, Any], decision: Decision | None, *, whole: bool = True) -> None:
        """Count one judged call; `whole`: whether its input is as it was."""
        corpus = self.corpus
        corpus.calls[str(gate_input["action"]["tool"])] += 1
        if decision is None:
            corpus.no_decision += 1
            return
        corpus.verdicts[decision.verdict] += 1
        for name in decision.predicates:
            corpus.predicates.setdefault(name, Fired()).judged += 1
        for finding in decision.findings:
            if finding.predicate in decision.predicates:
                fired = corpus.predicates[finding.predicate]
                fired.violated += finding.status == "violated"
                fired.unknown += finding.status == "unknown"
        if whole and decision.verdict == "allow" and decision.predicates and self._ask is not None:
            self._waiting.append(gate_input)
            if len(self._waiting) >= _BATCH:
                self.finish()

    def finish(self) -> None:
        """Ask for what waits."""
        if self._ask is None or not self._waiting or self.corpus.factless is None:
            return
        for given, asking in zip(self._waiting, self._ask(self._waiting), strict=True):
            if not asking:
                self.corpus.factless[str(given["action"]["tool"])] += 1
        self._waiting = []


def _asking(domain: str, ids: Sequence[str]) -> str:
    """A query: how many of the predicates that guard the call ask for a fact, whether they hold or not."""
    asking = (
        f'count([1 | data.ledgeragent.{domain}.predicates["{one}"]; count(data.ledgeragent.{one}.evidence) > 0])'
        for one in ids
    )
    return f"sum([{', '.join(asking)}])"
