"""Which ledger paths a Rego package can touch, read off its syntax tree.

A small abstract interpretation: every expression stands for the places in the ledger it may denote. References are
followed through aliases, `some … in`, comprehensions, functions and the domain's other packages; the shared gate is
opaque. It can be done for one tool: then `input.action.tool` is known, arguments the tool does not declare are
undefined, and what such a call can never reach is left out. What to make of the findings is the lint's business.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

Shape = tuple[str, ...]
"""Keys of a place in the ledger; "*" stands for a key that is only known at run time."""

Node = Mapping[str, Any]

_ANY: Final = "*"
_GUARDS: Final = frozenset({"is_array", "is_boolean", "is_null", "is_number", "is_object", "is_set", "is_string"})
_PASS_ON: Final = frozenset({"and", "array.reverse", "array.slice", "minus", "or", "sort", "union"})
_NODE_KINDS: Final = ("arraycomprehension", "setcomprehension", "objectcomprehension")


@dataclass(frozen=True, order=True)
class Place:
    """A line of a file."""

    file: str
    row: int

    def __str__(self) -> str:
        return f"{self.file}:{self.row}"


@dataclass(frozen=True)
class At:
    """What stands at a place in the ledger."""

    shape: Shape


@dataclass(frozen=True)
class PathOf:
    """An array that may name a place in the ledger, and where it is written."""

    shape: Shape
    place: Place


@dataclass(frozen=True)
class In:
    """A collection made by the policy, with such members."""

    member: At | PathOf | In


Item = At | PathOf | In


@dataclass(frozen=True)
class Value:
    """What is known of an expression.

    Attributes:
        items: what it may denote.
        holds: True when it is surely defined and not false, False when surely undefined or false, else None.
        empty: whether it is surely a collection without members.
        text: the text it surely is, or None.
        texts: the texts that are surely its members, or None.
    """

    items: frozenset[Item] = frozenset()
    holds: bool | None = None
    empty: bool = False
    text: str | None = None
    texts: frozenset[str] | None = None


UNKNOWN: Final = Value()
NEVER: Final = Value(holds=False)


@dataclass(frozen=True)
class Use:
    """A place in the ledger that the policy looks at; `shallow` when only at its type or at which keys it has."""

    shape: Shape
    place: Place
    shallow: bool = False


@dataclass(frozen=True)
class Touched:
    """What a package touches.

    Attributes:
        uses: the places it looks at.
        evidence: the paths that its `evidence` may hold.
        reads: names under `data.ledgeragent.gate` and `input` that it refers to.
    """

    uses: frozenset[Use]
    evidence: frozenset[PathOf]
    reads: frozenset[str]


@dataclass
class _Seen:
    uses: list[Use] = field(default_factory=list)
    reads: list[str] = field(default_factory=list)

    def add(self, other: _Seen) -> None:
        self.uses += other.uses
        self.reads += other.reads


Scope = dict[str, Value]


@dataclass(frozen=True)
class Package:
    """A parsed Rego package (one file; a folder of the bundle holds one)."""

    name: str
    tree: Node
    aliases: Mapping[str, str]
    rules: Mapping[str, Sequence[Node]]

    @classmethod
    def of(cls, tree: Node) -> Package:
        """Index a syntax tree as `opa parse -f json --json-include locations` gives it."""
        name = ".".join(str(part["value"]) for part in tree["package"]["path"])
        rules: dict[str, list[Node]] = {}
        for rule in tree.get("rules", ()):
            rules.setdefault(str(rule["head"]["ref"][0]["value"]), []).append(rule)
        return cls(name, tree, dict(_aliases(tree)), rules)


def _aliases(tree: Node) -> Iterator[tuple[str, str]]:
    for one in tree.get("imports", ()):
        parts = [str(part["value"]) for part in one["path"]["value"]]
        yield one.get("alias") or parts[-1], ".".join(parts)


class Flow:
    """Follows the packages of one domain; made anew for each tool."""

    def __init__(
        self, packages: Mapping[str, Package], schema: LedgerShapes, tool: str | None, parameters: Node | None
    ) -> None:
        """Prepare.

        Args:
            packages: the domain's packages by full name ("data.ledgeragent.retail.facts"); all others are opaque.
            schema: the domain's ledger schema.
            tool: the tool of the call, or None for any.
            parameters: the tool's parameter schema, or None.
        """
        self._packages = packages
        self._schema = schema
        self._tool = tool
        self._parameters = parameters
        self._seen = _Seen()
        self._memo: dict[Any, tuple[Value, _Seen]] = {}
        self._active: set[Any] = set()
        self.unknown_places: set[tuple[Place, Shape]] = set()
        """References to places that the ledger schema does not have."""

    def touched(self, package: Package) -> Touched:
        """What the package's rules touch; functions only where they are called."""
        self._seen = _Seen()
        evidence: set[PathOf] = set()
        for name, rules in package.rules.items():
            if any("args" in rule["head"] for rule in rules):
                continue
            value = self._rule(package, name)
            if name == "evidence":
                evidence |= set(_paths(value.items))
            elif name in ("holds", "message", "obligation", "verdict"):
                self._consume(value, _place(rules[0]))
        for path in evidence:
            self._must_exist(path.shape, path.place)
        return Touched(frozenset(self._seen.uses), frozenset(evidence), frozenset(self._seen.reads))

    def functions(self, package: Package) -> None:
        """Look at the functions as well, with nothing known of their arguments."""
        for rules in package.rules.values():
            for rule in rules:
                self._clause(package, rule, {})

    # Rules and functions

    def _rule(self, package: Package, name: str) -> Value:
        return self._remembered((package.name, name), lambda: self._join(package, package.rules[name], ()))

    def _function(self, package: Package, name: str, arguments: tuple[Value, ...]) -> Value:
        key = (package.name, name, arguments)
        return self._remembered(key, lambda: self._join(package, package.rules[name], arguments))

    def _remembered(self, key: Any, work: Any) -> Value:
        if key in self._active:
            return UNKNOWN
        if key not in self._memo:
            outer, self._seen = self._seen, _Seen()
            self._active.add(key)
            value: Value = work()
            self._active.discard(key)
            self._memo[key] = (value, self._seen)
            self._seen = outer
        value, seen = self._memo[key]
        self._seen.add(seen)
        return value

    def _join(self, package: Package, rules: Sequence[Node], arguments: tuple[Value, ...]) -> Value:
        found = [
            value
            for rule in rules
            for value in [self._clause(package, rule, _bound(rule["head"], arguments))]
            if value is not None and value.holds is not False
        ]
        if _is_partial(rules[0]["head"]):
            members: frozenset[Item] = frozenset(In(item) for value in found for item in value.items)
            return Value(members, holds=True, empty=not found)
        if not found:
            return NEVER
        items = frozenset(item for value in found for item in value.items)
        holds = True if any(value.holds for value in found) else None
        if len(found) == 1:
            return replace(found[0], items=items, holds=holds)
        return Value(items, holds=holds)

    def _clause(self, package: Package, rule: Node, scope: Scope | None) -> Value | None:
        """The value of one rule with its `else`s; None where its argument pattern cannot match."""
        if scope is None:
            return None
        holds, value = self._body_and_head(package, rule, dict(scope))
        rest = None
        if "else" in rule and not (holds and value.holds):
            rest = self._clause(package, rule["else"], scope)
        if holds is False or value.holds is False:
            return rest
        own = value if holds else replace(value, holds=None, text=None, texts=None)
        if rest is None or rest.holds is False:
            return own
        both = True if own.holds or rest.holds else None
        return Value(own.items | rest.items, holds=both)

    def _body_and_head(self, package: Package, rule: Node, scope: Scope) -> tuple[bool | None, Value]:
        outer, self._seen = self._seen, _Seen()
        holds = self._body(package, rule.get("body", ()), scope)
        head = rule["head"]
        value = NEVER
        if holds is not False:
            term = head["key"] if _is_set(head) else head.get("value")
            value = Value(holds=True) if term is None else self._term(package, term, scope)
        outer_now, self._seen = self._seen, outer
        if holds is not False:
            self._seen.add(outer_now)
        return holds, value

    # Bodies and expressions

    def _body(self, package: Package, body: Sequence[Node], scope: Scope) -> bool | None:
        """Whether a body holds; binds its variables in `scope`. Expressions may stand in any order: two rounds."""
        outer, self._seen = self._seen, _Seen()
        for one in body:
            self._expression(package, one, scope)
        self._seen = _Seen()
        known = [self._expression(package, one, scope) for one in body]
        if False not in known:
            outer.add(self._seen)
        self._seen = outer
        if False in known:
            return False
        return True if all(known) else None

    def _expression(self, package: Package, one: Node, scope: Scope) -> bool | None:
        terms = one["terms"]
        if isinstance(terms, list):
            holds = self._operation(package, terms, scope, _place(one))
        elif "symbols" in terms:
            holds = self._some(package, terms["symbols"], scope)
        elif "domain" in terms:
            holds = self._every(package, terms, scope)
        else:
            value = self._term(package, terms, scope)
            self._consume(value, _place(one))
            holds = value.holds
        if one.get("negated"):
            return None if holds is None else not holds
        return holds

    def _operation(self, package: Package, terms: Sequence[Node], scope: Scope, place: Place) -> bool | None:
        operator = _operator(terms[0])
        if (
            operator in ("assign", "eq")
            and terms[1]["type"] == "var"
            and (operator == "assign" or terms[1]["value"] not in package.rules)
        ):
            value = self._term(package, terms[2], scope)
            if value.holds is False and terms[2]["type"] == "call":
                value = UNKNOWN  # a comparison that is false is still a value
            scope[str(terms[1]["value"])] = value
            return value.holds
        return self._call(package, terms, scope, place).holds

    def _some(self, package: Package, symbols: Sequence[Node], scope: Scope) -> bool | None:
        holds: bool | None = True
        for symbol in symbols:
            if symbol["type"] != "call":
                continue
            *names, domain = symbol["value"][1:]
            collection = self._term(package, domain, scope)
            self._consume(collection, _place(domain, symbol), shallow=True)
            for name, members in zip(reversed(names), (_members(collection.items), frozenset[Item]()), strict=False):
                if name["type"] == "var":
                    scope[str(name["value"])] = Value(members)
            if collection.holds is False or collection.empty:
                return False
            holds = None
        return holds

    def _every(self, package: Package, terms: Node, scope: Scope) -> bool | None:
        collection = self._term(package, terms["domain"], scope)
        self._consume(collection, _place(terms["domain"], terms), shallow=True)
        inner = {**scope, str(terms["value"]["value"]): Value(_members(collection.items))}
        if terms.get("key"):
            inner[str(terms["key"]["value"])] = UNKNOWN
        self._body(package, terms["body"], inner)
        return None

    # Terms

    def _term(self, package: Package, term: Node, scope: Scope) -> Value:
        kind = term["type"]
        if kind in ("string", "number", "boolean", "null"):
            return Value(
                holds=None if term.get("value") is False else True, text=term["value"] if kind == "string" else None
            )
        if kind == "var":
            return self._variable(package, str(term["value"]), scope)
        if kind == "ref":
            return self._reference(package, term, scope)
        if kind == "call":
            return self._call(package, term["value"], scope, _place(term))
        if kind in _NODE_KINDS:
            return self._comprehension(package, term["value"], scope)
        return self._literal(package, term, scope)

    def _variable(self, package: Package, name: str, scope: Scope) -> Value:
        if name in scope:
            return scope[name]
        return self._rule(package, name) if name in package.rules else UNKNOWN

    def _comprehension(self, package: Package, node: Node, scope: Scope) -> Value:
        inner = dict(scope)
        if self._body(package, node["body"], inner) is False:
            return Value(holds=True, empty=True)
        if "key" in node:
            self._consume(self._term(package, node["key"], inner), _place(node["key"]))
        value = self._term(package, node["value"] if "key" in node else node["term"], inner)
        if value.holds is False:
            return Value(holds=True, empty=True)
        return Value(frozenset(In(item) for item in value.items), holds=True)

    def _literal(self, package: Package, term: Node, scope: Scope) -> Value:
        """An array, set or object as it is written; an array of keys may be a path."""
        place = _place(term)
        values = []
        for element in term["value"]:
            parts = element if isinstance(element, list) else [element]
            for part in parts:
                value = self._term(package, part, scope)
                self._consume(value, place)
                values.append(value)
        if any(value.holds is False for value in values):
            return NEVER
        items: set[Item] = {In(item) for value in values for item in value.items if not isinstance(item, At)}
        if term["type"] == "array" and values and values[0].text is not None:
            items.add(PathOf(tuple(_ANY if value.text is None else value.text for value in values), place))
        texts = frozenset(value.text for value in values if value.text is not None)
        return Value(frozenset(items), True, not values, texts=texts if len(texts) == len(values) else None)

    def _reference(self, package: Package, term: Node, scope: Scope) -> Value:
        head, *steps = term["value"]
        place = _place(term, head)
        if head["type"] == "call":
            return self._steps(package, self._call(package, head["value"], scope, place), steps, scope, place)
        if head["type"] != "var":
            return self._steps(package, self._term(package, head, scope), steps, scope, place)
        name = str(head["value"])
        if name == "input":
            return self._input(package, steps, scope, place)
        if name not in scope and (name == "data" or name in package.aliases):
            return self._elsewhere(package, term["value"], scope, place)
        return self._steps(package, self._variable(package, name, scope), steps, scope, place)

    def _elsewhere(self, package: Package, parts: Sequence[Node], scope: Scope, place: Place) -> Value:
        """A reference through an import or from `data`."""
        target, name, steps = self._resolve(package, parts)
        if target is None:
            self._seen.reads.append(name)
            for step in steps:
                self._consume(self._term(package, step, scope), place)
            return UNKNOWN
        if name not in target.rules:
            return UNKNOWN
        return self._steps(package, self._rule(target, name), steps, scope, place)

    def _resolve(self, package: Package, parts: Sequence[Node]) -> tuple[Package | None, str, Sequence[Node]]:
        """The package a reference leads to, the name in it, and what follows; the full name if that is opaque."""
        keys = [str(part["value"]) if part["type"] in ("string", "var") else _ANY for part in parts]
        full = [*package.aliases.get(keys[0], keys[0]).split("."), *keys[1:]]
        offset = len(full) - len(keys)
        for length in range(len(full) - 1, 0, -1):
            target = self._packages.get(".".join(full[:length]))
            if target is not None and length >= offset + 1:
                return target, full[length], parts[length + 1 - offset :]
        return None, ".".join(full), [part for part in parts[1:] if part["type"] not in ("string", "var")]

    def _input(self, package: Package, steps: Sequence[Node], scope: Scope, place: Place) -> Value:
        keys = [step.get("value") if step["type"] == "string" else None for step in steps]
        if keys[:1] == ["ledger"]:
            return self._steps(package, Value(frozenset({At(())})), steps[1:], scope, place)
        self._seen.reads.append("input." + ".".join(str(key) for key in keys[:1]))
        for step in steps:
            self._consume(self._term(package, step, scope), place)
        if keys == ["action", "tool"] and self._tool is not None:
            return Value(holds=True, text=self._tool)
        if keys[:2] == ["action", "arguments"] and len(keys) > 2 and self._parameters is not None:
            return self._argument(keys[2], last=len(keys) == 3)
        return UNKNOWN

    def _argument(self, name: Any, *, last: bool) -> Value:
        assert self._parameters is not None
        if name is None:
            return UNKNOWN
        if name not in self._parameters.get("properties", {}):
            return NEVER
        return Value(holds=True if last and name in self._parameters.get("required", ()) else None)

    def _steps(self, package: Package, base: Value, steps: Sequence[Node], scope: Scope, place: Place) -> Value:
        if base.holds is False:
            return NEVER
        items = base.items
        for step in steps:
            key = self._term(package, step, scope)
            self._consume(key, place)
            if key.holds is False:
                return NEVER
            items = self._below(items, _ANY if key.text is None else key.text, place)
        return Value(items) if steps else base

    def _below(self, items: Iterable[Item], key: str, place: Place) -> frozenset[Item]:
        found: set[Item] = set()
        for item in items:
            if isinstance(item, In):
                found.add(item.member)
            elif isinstance(item, At):
                shape = (*item.shape, key)
                if self._must_exist(shape, place):
                    found.add(At(shape))
        return frozenset(found)

    def _must_exist(self, shape: Shape, place: Place) -> bool:
        if self._schema.has(shape):
            return True
        self.unknown_places.add((place, shape))
        return False

    # Calls

    def _call(self, package: Package, terms: Sequence[Node], scope: Scope, place: Place) -> Value:
        values = tuple(self._term(package, term, scope) for term in terms[1:])
        operator = terms[0]
        name = _operator(operator)
        if any(value.holds is False for value in values):
            return NEVER
        own = self._own_function(package, operator)
        if own is not None:
            return self._function(*own, values)
        if name.split(".")[0] in package.aliases or name.startswith("data."):
            return self._opaque(package, operator, values, place)
        return self._builtin(name, values, place)

    def _own_function(self, package: Package, operator: Node) -> tuple[Package, str] | None:
        parts = operator["value"]
        if len(parts) == 1:
            name = str(parts[0]["value"])
            return (package, name) if name in package.rules else None
        target, name, _ = self._resolve(package, parts)
        return (target, name) if target is not None and name in target.rules else None

    def _opaque(self, package: Package, operator: Node, values: Sequence[Value], place: Place) -> Value:
        self._seen.reads.append(self._resolve(package, operator["value"])[1])
        for value in values:
            self._consume(value, place)
            if self._is_about_facts(package, operator):
                self._uses_paths(value)
        return UNKNOWN

    def _is_about_facts(self, package: Package, operator: Node) -> bool:
        return self._resolve(package, operator["value"])[1].startswith("data.ledgeragent.gate.facts.")

    def _uses_paths(self, value: Value) -> None:
        for path in _paths(value.items):
            if self._must_exist(path.shape, path.place):
                self._seen.uses.append(Use(path.shape, path.place))

    def _builtin(self, name: str, values: Sequence[Value], place: Place) -> Value:
        if name == "object.get":
            return Value(self._got(values[0], values[1], place) | values[2].items)
        if name in _PASS_ON:
            items = frozenset(item for value in values for item in value.items)
            return Value(items, holds=True, empty=all(value.empty for value in values))
        if name == "array.concat":
            return Value(_concatenated(values[0], values[1]), holds=True)
        for value in values:
            self._consume(value, place, shallow=name in _GUARDS)
        return Value(holds=_truth(name, values))

    def _got(self, base: Value, key: Value, place: Place) -> frozenset[Item]:
        paths = [path.shape for path in key.items if isinstance(path, PathOf)] or [(key.text or _ANY,)]
        found: frozenset[Item] = frozenset()
        for path in paths:
            items = base.items
            for one in path:
                items = self._below(items, one, place)
            found |= items
        return found

    def _consume(self, value: Value, place: Place, *, shallow: bool = False) -> None:
        for item in value.items:
            if isinstance(item, At):
                self._seen.uses.append(Use(item.shape, place, shallow))


class LedgerShapes:
    """Which places a ledger schema has."""

    def __init__(self, document: Node) -> None:
        """Take a ledger schema (JSON Schema 2020-12 with `$ref`s into its own `$defs`)."""
        self._document = document

    def has(self, shape: Shape) -> bool:
        """Whether the schema names every key of the shape; "*" fits maps and lists."""
        node: Any = self._document
        for key in shape:
            node = self._below(self._resolved(node), key)
            if node is None:
                return False
        return True

    def _below(self, node: Any, key: str) -> Any:
        if node is True:
            return True
        if not isinstance(node, Mapping):
            return None
        if key in node.get("properties", {}):
            return node["properties"][key]
        if isinstance(node.get("additionalProperties"), Mapping):
            return node["additionalProperties"]
        if key == _ANY or key.isdecimal():
            return node.get("items", True if "array" in _types(node) else None)
        return None

    def _resolved(self, node: Any) -> Any:
        while isinstance(node, Mapping) and "$ref" in node:
            node = self._document.get("$defs", {}).get(str(node["$ref"]).removeprefix("#/$defs/"))
        return node


def covers(above: Shape, shape: Shape) -> bool:
    """Whether a place equals or lies below another."""
    return len(above) <= len(shape) and all(
        _ANY in (own, key) or own == key for own, key in zip(above, shape, strict=False)
    )


def _types(node: Node) -> Sequence[str]:
    found = node.get("type", ())
    return [found] if isinstance(found, str) else found


def _place(node: Node, fallback: Node | None = None) -> Place:
    location = node.get("location") or (fallback or {}).get("location") or {"file": "?", "row": 0}
    return Place(str(location["file"]), int(location["row"]))


def _operator(term: Node) -> str:
    return ".".join(str(part["value"]) for part in term["value"]) if term["type"] == "ref" else str(term["value"])


def _is_set(head: Node) -> bool:
    return "key" in head and "value" not in head


def _is_partial(head: Node) -> bool:
    return _is_set(head) or len(head["ref"]) > 1


def _bound(head: Node, arguments: Sequence[Value]) -> Scope | None:
    """The parameters of a function with what is passed; None where a literal parameter cannot match."""
    scope: Scope = {}
    for parameter, value in zip(head.get("args", ()), arguments, strict=False):
        if parameter["type"] == "var":
            scope[str(parameter["value"])] = value
        elif value.text is not None and parameter.get("value") != value.text:
            return None
    return scope


def _members(items: Iterable[Item]) -> frozenset[Item]:
    found: set[Item] = set()
    for item in items:
        if isinstance(item, In):
            found.add(item.member)
        elif isinstance(item, At):
            found.add(At((*item.shape, _ANY)))
    return frozenset(found)


def _paths(items: Iterable[Item]) -> Iterator[PathOf]:
    for item in items:
        if isinstance(item, PathOf):
            yield item
        elif isinstance(item, In):
            yield from _paths([item.member])


def _concatenated(first: Value, second: Value) -> frozenset[Item]:
    rest = [path.shape for path in second.items if isinstance(path, PathOf)] or [(_ANY,)]
    return frozenset(
        PathOf((*path.shape, *shape), path.place) for path in first.items if isinstance(path, PathOf) for shape in rest
    )


def _truth(name: str, values: Sequence[Value]) -> bool | None:
    if name == "internal.member_2" and values[0].text is not None and values[1].texts is not None:
        return values[0].text in values[1].texts
    if name in ("equal", "neq") and values[0].text is not None and values[1].text is not None:
        return (values[0].text == values[1].text) is (name == "equal")
    return None
