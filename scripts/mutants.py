"""Mutate the rules to prove their tests: every changed rule that decides some input otherwise must fail a Rego test.

Each predicate file, the `facts` of its domain and its default policy data are changed in one place at a time: a
comparison flipped, a number moved by one, a condition dropped or negated, a member taken out of a literal set or others
put in, a rule or an `else` dropped, the verdict swapped. The domain's Rego tests run on every changed copy. What they
do not notice is compared with the original on the domain's vectors and thousands of changed vectors: a mutant that
decides one of them otherwise has survived, and a test is missing; one that decides none otherwise is called equivalent.
The gate's own files are left to their tests and to the oracle in `tests/oracle`.
"""

from __future__ import annotations

import argparse
import base64
import copy
import json
import queue
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

from ledgeragent import policies
from ledgeragent.engine import find_opa
from ledgeragent.errors import EngineEvaluation
from ledgeragent.opacli import evaluate, syntax_tree
from ledgeragent.page import page_of

Json = Any
Fate = Literal["killed", "tripped", "equivalent", "survived", "broken"]
"""What became of a mutant. One that tripped raises a built-in's error, which `opa test` takes for undefined and the
strict evaluation of the knock-out and of the changed types does not; a broken one does not compile and is not counted.
"""

FLIPS: Final[dict[str, tuple[str, ...]]] = {
    "==": ("!=",),
    "!=": ("==",),
    "<": ("<=", ">="),
    "<=": ("<", ">"),
    ">": (">=", "<="),
    ">=": (">", "<"),
    "+": ("-",),
    "-": ("+",),
}
ODD: Final[tuple[Json, ...]] = (None, True, False, 0, -1, 1, 2.5, "", "x", [], {}, ["x"], [{}], {"x": "x"}, [None])
CHANGEABLE: Final = (("ledger",), ("action", "arguments"), ("session", "principal"), ("session", "now"), ("history",))
FRAME: Final = (("ledger",), ("action", "arguments"), ("history",))
"""Without these there is nothing to judge."""
BATCH: Final = 800
BATCHES: Final = 3
SHOWN: Final = 60
TOLD: Final = ("holds", "evidence", "verdict", "message")
"""What the gate asks of a predicate."""
COMMON: Final = "common"
HOST: Final = "retail"
"""The domain in which the common predicates are tested."""
_TESTS_FAILED: Final = 2


@dataclass(frozen=True)
class Mutant:
    """One changed copy of a file.

    Attributes:
        file: the file under the bundle root.
        row: the line of the change, from 1.
        what: the change in words.
        text: the whole changed file.
    """

    file: Path
    row: int
    what: str
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.row}: {self.what}"


# Changing a file


@dataclass(frozen=True)
class _Edit:
    row: int
    start: int
    end: int
    new: str
    what: str


class _Rego:
    """A parsed Rego file and the edits that make its mutants."""

    def __init__(self, opa: Path, file: Path, foreign: Sequence[str]) -> None:
        self.source = file.read_bytes()
        self.tree = syntax_tree(opa, file)
        self._foreign = foreign
        self._name = ""  # of the rule that is being changed
        self._starts = [0]
        for line in self.source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def mutants(self, file: Path) -> list[Mutant]:
        found: dict[str, Mutant] = {}
        for edit in self._edits():
            changed = self.source[: edit.start] + edit.new.encode() + self.source[edit.end :]
            text = changed.decode()
            found.setdefault(text, Mutant(file, edit.row, edit.what, text))
        found.pop(self.source.decode(), None)
        return list(found.values())

    def _edits(self) -> Iterator[_Edit]:
        rules = self.tree["rules"]
        counts = Counter(rule["head"]["name"] for rule in rules)
        for rule in rules:
            name = self._name = rule["head"]["name"]
            if counts[name] > 1 or name == "evidence":
                yield self._edit(rule, "", "drop the rule")
            if name == "verdict":
                swapped = '"block"' if _text(rule["head"]["value"]) == '"revise"' else '"revise"'
                yield self._edit(rule["head"]["value"], swapped, "swap the verdict")
            yield from self._below(rule)

    def _below(self, node: Json) -> Iterator[_Edit]:
        if isinstance(node, list):
            for one in node:
                yield from self._below(one)
        if isinstance(node, dict):
            yield from self._here(node)
            for key, below in node.items():
                if key not in ("location", "annotations"):
                    yield from self._below(below)

    def _here(self, node: Json) -> Iterator[_Edit]:
        if "terms" in node and not node.get("generated"):
            yield from self._expression(node)
        for new in FLIPS.get(_operator(node), ()):
            yield self._edit(_parts(node)[0], new, f"{_operator(node)} becomes {new}, in `{_line(node)}`")
        if node.get("type") == "number" and "location" in node:
            for step in (1, -1):
                yield self._edit(node, str(node["value"] + step), f"{_text(node)} becomes {node['value'] + step}")
        if "else" in node:
            yield self._edit(node["else"], "", f"drop `{_line(node['else'])}`")
        yield from self._members(node)

    def _expression(self, node: Json) -> Iterator[_Edit]:
        text = _text(node)
        yield self._edit(node, "true", f"drop the condition `{_line(node)}`")
        if node.get("negated"):
            yield self._edit(node, text.removeprefix("not").lstrip(), f"no longer negated: `{_line(node)}`")
        elif _operator(node) not in (":=", *FLIPS) and not {"symbols", "domain"} & set(_named(node["terms"])):
            yield self._edit(node, f"not {text}", f"negate `{_line(node)}`")

    def _members(self, node: Json) -> Iterator[_Edit]:
        members = _literal_set(node)
        if members is None and _operator(node) == "in" and len(_parts(node)) > 1:
            node = _parts(node)[-1]
            members = _literal_set(node, kind="array")
        if not members:
            return
        for gone in members:
            kept = [_text(one) for one in members if one is not gone]
            yield self._edit(node, self._literal(node, kept), f"without the member {_text(gone)}")
        if self._name == "guards":
            return  # see _guard_mutants
        texts = [_text(one) for one in members]
        more = sorted({json.dumps(one) for one in self._foreign} - set(texts))
        yield self._edit(node, self._literal(node, [*texts, *more]), f"`{_line(node)}` with every other text")

    def _literal(self, node: Json, members: Sequence[str]) -> str:
        if node["type"] == "array":
            return f"[{', '.join(members)}]"
        return f"{{{', '.join(members)}}}" if members else "set()"

    def _edit(self, node: Json, new: str, what: str) -> _Edit:
        place = node["location"]
        start = self._starts[place["row"] - 1] + place["col"] - 1
        old = base64.b64decode(place["text"])
        if self.source[start : start + len(old)] != old:
            raise ValueError(f"{place['file']}:{place['row']}: the syntax tree does not fit the file")
        return _Edit(place["row"], start, start + len(old), new, what)


def _text(node: Json) -> str:
    return base64.b64decode(node["location"]["text"]).decode() if "text" in node.get("location", {}) else ""


def _line(node: Json) -> str:
    return " ".join(_text(node).split())[:90]


def _parts(node: Json) -> list[Json]:
    """Operator and operands of a call, whether it is an expression or a term."""
    parts = node.get("terms") if "terms" in node else node.get("value") if node.get("type") == "call" else None
    return parts if isinstance(parts, list) else []


def _operator(node: Json) -> str:
    parts = _parts(node)
    return _text(parts[0]) if parts else ""


def _named(terms: Json) -> Iterable[str]:
    return terms if isinstance(terms, dict) else ()


def _literal_set(node: Json, kind: str = "set") -> list[Json] | None:
    if node.get("type") != kind or "location" not in node:
        return None
    members: list[Json] = node["value"]
    return members if all(one["type"] == "string" for one in members) else None


def data_mutants(file: Path, document: Json) -> Iterator[Mutant]:
    """Default policy data with one number moved, one switch turned, one text taken out of a list or put in."""
    for path, value in _places(document):
        changes: list[tuple[str, Json]] = []
        if isinstance(value, bool):
            changes = [(f"{value} becomes {not value}", not value)]
        elif isinstance(value, int | float):
            changes = [(f"{value} becomes {value + step}", value + step) for step in (1, -1)]
        elif isinstance(value, list) and value and all(isinstance(one, str) for one in value):
            changes = [(f"without the member {gone!r}", [one for one in value if one != gone]) for gone in value]
            changes.append(("with the member 'x'", [*value, "x"]))
        for what, new in changes:
            yield Mutant(file, 1, f"{'.'.join(map(str, path))}: {what}", json.dumps(_put(document, path, new)))


def mutants_of(opa: Path, rego: Path, schemas: Path, domain: str) -> dict[Path, list[Mutant]]:
    """The mutants of a domain's predicates, facts and default policy data, by file under the bundle root."""
    root = rego / "ledgeragent" / domain
    tools = _foreign_tools(schemas, domain)
    texts = _foreign_texts(schemas, domain)
    found: dict[Path, list[Mutant]] = {}
    for file in sorted(root.glob("*/*.rego")):
        name = file.relative_to(rego)
        if not file.name.endswith("_test.rego"):
            found[name] = _Rego(opa, file, texts).mutants(name) + _guard_mutants(opa, file, name, tools)
    for file in sorted(root.glob("*/data.json")):
        found[file.relative_to(rego)] = list(data_mutants(file.relative_to(rego), json.loads(file.read_bytes())))
    return {name: mutants for name, mutants in found.items() if mutants}


def _guard_mutants(opa: Path, file: Path, name: Path, tools: Sequence[str]) -> list[Mutant]:
    """`guards` with one more write of the domain; members of it are taken out like those of any set."""
    parsed = _Rego(opa, file, ())
    rules = [rule for rule in parsed.tree["rules"] if rule["head"]["name"] == "guards"]
    found = []
    for head in (rule["head"]["value"] for rule in rules):
        old = [one["value"] for one in _literal_set(head) or ()]
        for tool in tools if old else ():
            if tool not in old:
                text = parsed.source.decode().replace(_text(head), json.dumps([*old, tool]).translate(_BRACES), 1)
                found.append(Mutant(name, head["location"]["row"], f"guards {tool} as well", text))
    return found


_BRACES: Final = str.maketrans("[]", "{}")


def _foreign_tools(schemas: Path, domain: str) -> list[str]:
    file = schemas / domain / "tools.json"
    if not file.exists():
        return []
    tools = json.loads(file.read_bytes())["tools"]
    return sorted(tool["name"] for tool in tools if tool["effect"] == "write")


def _foreign_texts(schemas: Path, domain: str) -> list[str]:
    """Texts that a set could wrongly hold: every value that the domain's schemas or vectors name."""
    found = {"", "x"}
    for file in sorted(schemas.glob(f"{domain}/*.json")):
        for path, value in _places(json.loads(file.read_bytes())):
            if isinstance(value, str) and "enum" in path:
                found.add(value)
    for given in vector_inputs(schemas, domain):
        found |= {value for _, value in _places(given) if isinstance(value, str) and len(value) < 40}
    return sorted(found)


# Inputs


def vector_inputs(schemas: Path, domain: str) -> list[Json]:
    """The inputs of the domain's vectors."""
    file = schemas / "vectors" / f"{domain}.json"
    return [one["input"] for one in json.loads(file.read_bytes())["vectors"]] if file.exists() else []


def each_place_changed(given: Iterable[Json]) -> list[Json]:
    """Every place of each gate input gone, or of each odd value."""
    found = []
    for one in given:
        for path, _ in _changeable(one):
            found += [_put(one, path, value) for value in ODD]
            found.append(_without(one, path))
    return found


def changed_inputs(given: Sequence[Json], count: int, seed: int) -> list[Json]:
    """`count` changed copies of gate inputs.

    Values move between inputs under the same key, so that most changed inputs are still well formed; parts go missing
    or stale, get another type or a neighbouring number; writes come before or beside the call.
    """
    chance = random.Random(seed)
    pool: dict[Json, list[Json]] = {}
    for one in given:
        for path, value in _changeable(one):
            pool.setdefault(_kind(path), []).append(value)
    return [_changed(chance.choice(given), given, pool, chance) for _ in range(count)]


def _changed(one: Json, given: Sequence[Json], pool: dict[Json, list[Json]], chance: random.Random) -> Json:
    for _ in range(chance.choice((1, 1, 1, 2, 2, 3))):
        how = chance.choice(
            ("move", "move", "move", "near", "near", "lose", "stale", "absence", "odd", "write", "twin")
        )
        if how == "write":
            one = _with_write(one, chance.choice(given), chance)
            continue
        places = [place for place in _changeable(one) if how not in ("stale", "absence") or place[0][0] == "ledger"]
        if not places:
            continue
        path, value = chance.choice(places)
        if how == "move":
            one = _put(one, path, chance.choice(pool.get(_kind(path), [value])))
        elif how == "near":
            one = _put(one, path, _near(value, chance))
        elif how == "odd":
            one = _put(one, path, chance.choice(ODD))
        elif how == "twin" and isinstance(value, list) and value:
            one = _put(one, path, [*value, chance.choice(value)])
        elif how == "absence":
            one = {**one, "stale": [*one["stale"], [*map(str, path[1:-1]), "?"]]}
        elif how in ("lose", "stale") and len(path) > 1:
            one = _without(one, path)
            keys = [str(key) for key in path[1:]]
            one = {**one, "stale": [*one["stale"], keys]} if how == "stale" else one
    return one


def _kind(path: Sequence[Any]) -> Json:
    """What values at a path are called: their key, or that of the list they are in."""
    return path[-1] if isinstance(path[-1], str) else path[-2]


def _near(value: Json, chance: random.Random) -> Json:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return value
    if isinstance(value, str):
        digits = [at for at, letter in enumerate(value) if letter.isdigit()]
        if not digits:
            return value.swapcase()
        at = chance.choice(digits)
        return value[:at] + chance.choice("0123456789") + value[at + 1 :]
    return round(value + chance.choice((1, -1, 0.01, -0.01, -value, -2 * value)), 2)


def _with_write(one: Json, other: Json, chance: random.Random) -> Json:
    action = chance.choice((one["action"], one["action"], other["action"]))
    write = {"tool": action["tool"], "arguments": action.get("arguments")}
    if chance.random() < 0.5:
        return {**one, "siblings": [*one["siblings"], write]}
    outcome = chance.choice(("executed", "uncertain", "pending"))
    return {**one, "history": [*one["history"], {**write, "outcome": outcome}]}


def _changeable(one: Json) -> list[tuple[tuple[Any, ...], Json]]:
    return [
        (path, value)
        for path, value in _places(one)
        if any(path[: len(top)] == top for top in CHANGEABLE) and path not in FRAME
    ]


def _places(value: Json, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Json]]:
    if path:
        yield path, value
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in below:
        yield from _places(inner, (*path, key))


def _put(document: Json, path: Sequence[Any], value: Json) -> Json:
    copied = copy.deepcopy(document)
    _holder(copied, path)[path[-1]] = copy.deepcopy(value)
    return copied


def _without(document: Json, path: Sequence[Any]) -> Json:
    copied = copy.deepcopy(document)
    del _holder(copied, path)[path[-1]]
    return copied


def _holder(document: Json, path: Sequence[Any]) -> Json:
    for key in path[:-1]:
        document = document[key]
    return document


# Judging mutants


class Questions:
    """Inputs that concern one file, with the original's answers; both are made when they are first needed.

    Of a predicate only what it tells the gate is compared at first, which is much cheaper than whole decisions.

    Args:
        original: the unchanged policies.
        file: the file, under the bundle root.
        make: makes inputs for the tools that a predicate guards, or for all tools.
    """

    def __init__(self, original: Workspace, file: Path, make: Callable[[str | None], list[Json]]) -> None:
        package = ".".join(file.parent.parts)
        self.original = original
        self._make, self._make_all = partial(make, package.removeprefix("ledgeragent.")), partial(make, None)
        told = f"{{name: value | some name in {json.dumps(TOLD)}; value := data.{package}[name]}}"
        self.told = original.decision if file.parent.name in ("facts", "defaults") else told
        self._inputs: list[Json] = []
        self._answers: dict[int, list[Json]] = {}
        self._lock = threading.Lock()

    def whole(self) -> Questions:
        """Inputs for every tool, and whole decisions are compared."""
        copied = copy.copy(self)
        copied.told, copied._answers = self.original.decision, {}
        copied._inputs, copied._make = [], self._make_all
        return copied

    def batches(self) -> Iterator[tuple[list[Json], list[Json]]]:
        """Inputs and the original's answers, a batch at a time."""
        with self._lock:
            self._inputs = self._inputs or self._make()
        for start in range(0, len(self._inputs), BATCH):
            inputs = self._inputs[start : start + BATCH]
            with self._lock:
                if start not in self._answers:
                    self._answers[start] = self.original.ask(self.told, inputs)
            yield inputs, self._answers[start]


class Workspace:
    """A copy of one domain's policies and tests, in which one mutant at a time takes the place of its file."""

    def __init__(self, opa: Path, rego: Path, schemas: Path, domain: str, folder: Path) -> None:
        self._opa, self._domain, self.rego = opa, domain, folder / "rego"
        self._host = HOST if domain == COMMON else domain
        shutil.copytree(rego, self.rego, ignore=self._ignored(rego))
        for test in [*self._tests("gate"), *(() if domain == COMMON else self._tests(COMMON))]:
            test.unlink()
        self._test_files = {file.name for file in self.rego.rglob("*_test.rego")}
        done = self._test(self._all_tests)
        if done.returncode != 0:
            sys.exit(f"the tests of {domain} do not pass before anything is changed:\n{done.stdout[-900:]}")
        tools = schemas / self._host / "tools.json"
        writes = [tool for tool in json.loads(tools.read_bytes())["tools"] if tool["effect"] == "write"]
        self._writes = {tool["name"]: tool.get("guarded_by", []) for tool in writes}

    def _ignored(self, rego: Path) -> Callable[[str, list[str]], set[str]]:
        wanted = {"gate", COMMON, self._host}
        return lambda folder, names: set(names) - wanted if Path(folder) == rego / "ledgeragent" else set()

    def _tests(self, package: str) -> Iterator[Path]:
        """Tests that do not belong to the domain, and lean on fixtures that may not be in this copy."""
        return (self.rego / "ledgeragent" / package).rglob("*_test.rego")

    @property
    def decision(self) -> str:
        """The rule that the host asks for."""
        return f"data.ledgeragent.{self._host}.decision"

    def ask(self, expression: str, inputs: Sequence[Json]) -> list[Json]:
        """What the policies, as they stand here, answer to each input."""
        return evaluate(self._opa, self.rego, expression, inputs)

    def judge(self, mutant: Mutant, questions: Questions) -> tuple[Fate, str]:
        """What becomes of a mutant, and for a survivor the input that shows it."""
        file = self.rego / mutant.file
        page = self.rego / "ledgeragent" / self._domain / f"{self._domain}.rego"
        kept = {one: one.read_bytes() for one in (file, page) if one.exists()}
        file.write_text(mutant.text, encoding="utf-8")
        try:
            if page in kept:
                page.write_text(page_of(self.rego, self._domain, self._writes), encoding="utf-8")
            guards_changed = page in kept and page.read_bytes() != kept[page]
            fate = self._tested(mutant.file)
            if fate != "survived":
                return fate, ""
            return self._compared(questions.whole() if guards_changed else questions)
        finally:
            for one, content in kept.items():
                one.write_bytes(content)

    def _tested(self, file: Path) -> Fate:
        """The tests beside the file come first: they are few, and most mutants die there."""
        package = ".".join(file.parent.parts)
        beside = {f"{file.parent.name}_test.rego", "fixtures_test.rego"}
        own = rf"^{re.escape(f'data.{package}_test.')}"
        for run, ignored in ((own, self._test_files - beside), (self._all_tests, ())):
            code = self._test(run, ignored).returncode
            if code != 0:
                return "killed" if code == _TESTS_FAILED else "broken"
        return "survived"

    @property
    def _all_tests(self) -> str:
        return rf"^data\.ledgeragent\.{self._domain}[._]"

    def _test(self, run: str, ignored: Iterable[str] = ()) -> subprocess.CompletedProcess[str]:
        command = [str(self._opa), "test", str(self.rego), "--run", run, "--timeout", "60s", "--parallel", "1"]
        command += [part for name in ignored for part in ("--ignore", name)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def _compared(self, questions: Questions) -> tuple[Fate, str]:
        try:
            for inputs, before in questions.batches():
                after = self.ask(questions.told, inputs)
                changed = [row[0] for row in zip(inputs, before, after, strict=True) if row[1] != row[2]]
                shown = self._decided_otherwise(questions, changed[:SHOWN])
                if shown:
                    return "survived", shown
        except EngineEvaluation:
            return "tripped", ""
        return "equivalent", ""

    def _decided_otherwise(self, questions: Questions, inputs: Sequence[Json]) -> str:
        """The first input that the mutant and the original decide differently, with both decisions, as JSON."""
        if not inputs:
            return ""
        before, after = (one.ask(self.decision, inputs) for one in (questions.original, self))
        rows = [row for row in zip(inputs, before, after, strict=True) if row[1] != row[2]]
        return json.dumps(dict(zip(("input", "before", "after"), rows[0], strict=True))) if rows else ""


def inputs_for(schemas: Path, domain: str, predicate: str | None) -> list[Json]:
    """The vectors, and changed vectors, of the tools that a predicate guards; of all tools if it guards none."""
    vectors = json.loads((schemas / "vectors" / f"{domain}.json").read_bytes())["vectors"]
    guarded = {one["input"]["action"]["tool"] for one in vectors if predicate in one["decision"]["predicates"]}
    inputs = [one["input"] for one in vectors if one["decision"]["predicates"]]
    inputs = [one for one in inputs if not guarded or one["action"]["tool"] in guarded]
    each = each_place_changed({one["action"]["tool"]: one for one in inputs}.values())
    each = random.Random(len(each)).sample(each, min(len(each), BATCH))
    return [*inputs, *each, *changed_inputs(inputs, BATCH * BATCHES - len(inputs) - len(each), seed=len(vectors))]


def run(opa: Path, domain: str, only: str | None, jobs: int) -> dict[Path, Counter[Fate]]:
    """Judge all mutants of a domain, report what the tests did not notice, and count by file."""
    rego, schemas = policies.REGO, policies.SCHEMAS
    host = HOST if domain == COMMON else domain
    found = mutants_of(opa, rego, schemas, domain)
    found = {file: mutants for file, mutants in found.items() if only in (None, file.parent.name)}
    counts: dict[Path, Counter[Fate]] = {file: Counter() for file in found}
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(jobs) as pool:
        free: queue.Queue[Workspace] = queue.Queue()
        for number in range(jobs):
            free.put(Workspace(opa, rego, schemas, domain, Path(folder) / str(number)))
        original = Workspace(opa, rego, schemas, domain, Path(folder) / "original")
        asked = {file: Questions(original, file, partial(inputs_for, schemas, host)) for file in found}

        def judged(mutant: Mutant) -> tuple[Mutant, Fate, str]:
            workspace = free.get()
            try:
                return (mutant, *workspace.judge(mutant, asked[mutant.file]))
            finally:
                free.put(workspace)

        for file, mutants in found.items():
            for mutant, fate, shown in pool.map(judged, mutants):
                counts[file][fate] += 1
                if fate in ("survived", "equivalent"):
                    print(f"{fate}: {mutant}" + (f"\n    {shown}" if shown else ""), flush=True)
            print(_row(_label(file), counts[file]), flush=True)
    return counts


def table(counts: dict[Path, Counter[Fate]]) -> str:
    """The counts in Markdown."""
    rows = ["| File | Mutants | Killed | Tripped | Equivalent | Survived |", "|---|--:|--:|--:|--:|--:|"]
    whole: Counter[Fate] = Counter()
    for file, count in counts.items():
        whole += count
        rows.append(_row(_label(file), count))
    return "\n".join([*rows, _row("**all**", whole)])


def _label(file: Path) -> str:
    return "/".join(file.parts[1:-1])


def _row(name: str, count: Counter[Fate]) -> str:
    numbers = [count["killed"], count["tripped"], count["equivalent"], count["survived"]]
    return f"| {name} | {sum(numbers)} | {' | '.join(map(str, numbers))} |"


def main() -> int:
    """Run from the command line; the exit status is 1 when a mutant survived."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--domain", action="append", help="a domain, or common (default: all, and common)")
    parser.add_argument("--predicate", help="only the folder of this name")
    parser.add_argument("--jobs", type=int, default=2, help="mutants at a time (default: 2)")
    chosen = parser.parse_args()
    opa = find_opa()
    if opa is None:
        sys.exit("mutants are tested with a real OPA: run `make opa`")
    counts: dict[Path, Counter[Fate]] = {}
    for domain in chosen.domain or [COMMON, *policies.domains()]:
        counts |= run(opa, domain, chosen.predicate, chosen.jobs)
    print(table(counts))
    return 1 if any(count["survived"] for count in counts.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
