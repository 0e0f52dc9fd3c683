"""The lint for policies: what `opa check` cannot see.

It holds a domain's three parts together: every place in the ledger that the Rego looks at exists in the ledger schema,
is among the evidence its predicate states, and is in `needs` of every tool it guards. And it is the policy about
policies: predicates are complete, named after their folder, listed on the domain's page, guard writes that exist, and
negate nothing that can be undefined. It runs the `opa` it is given to parse, and evaluates nothing.

`python -m ledgeragent.lint` checks the shipped policies, or those under `--rego` and `--schemas`.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, get_args

from ledgeragent import policies
from ledgeragent.contracts import Consent
from ledgeragent.engine import find_opa
from ledgeragent.errors import LedgerAgentError
from ledgeragent.flow import Flow, LedgerShapes, Node, Package, Place, Shape, Touched, Use, covers
from ledgeragent.opacli import syntax_tree
from ledgeragent.page import failing

SEVERITIES: Final = ("critical", "high", "medium", "low")

_TEXTS: Final = ("id", "remedy", "severity", "policy")
_RULES: Final = ("evidence", "holds", "message", "verdict")
_READS: Final = {
    "history": ("data.ledgeragent.gate.history", "input.history"),
    "siblings": ("data.ledgeragent.gate.history", "input.siblings"),
}
_ARGUMENT: Final = re.compile(r"\{arguments\.([A-Za-z0-9_]+)")


def lint(rego: Path, schemas: Path, domain: str, opa: Path) -> list[str]:
    """Check one domain.

    Args:
        rego: the bundle root.
        schemas: the folder with one folder per domain.
        domain: the domain's name.
        opa: the `opa` to parse with.

    Returns:
        Every problem as "file:line: what is wrong", sorted; empty when there is none.

    Raises:
        BadInput: the domain's name is none.
        EnginePolicies: a file does not parse, in OPA's own words.
        OSError: a file cannot be read.
    """
    return _Lint(rego, schemas, policies.check_name(domain), opa).run()


class _Lint:
    def __init__(self, rego: Path, schemas: Path, domain: str, opa: Path) -> None:
        self.domain = domain
        self.root = f"data.ledgeragent.{domain}"
        self.tools_file = schemas / domain / "tools.json"
        file = json.loads(self.tools_file.read_text(encoding="utf-8"))
        self.tools: Mapping[str, Node] = {tool["name"]: tool for tool in file["tools"]}
        self.protected: Sequence[str] = file.get("protected", ())
        self.schema = LedgerShapes(json.loads((schemas / domain / "ledger.schema.json").read_text(encoding="utf-8")))
        self.above = rego.parent
        root = rego / "ledgeragent"
        self.files = _parsed([root / domain, root / "common"], opa)
        self.gate = list(_parsed([root / "gate"], opa).values())
        self.packages = {package.name: package for package in self.files.values()}
        self.problems: set[tuple[Place, str]] = set()

    def run(self) -> list[str]:
        self._check_folders()
        page = self.packages.get(self.root)
        if page is None:
            self._say(Place(str(self.tools_file), 1), f"no package {self.root}: the page that lists what is enforced")
            return self._sorted()
        predicates = [package for package in self.packages.values() if "holds" in package.rules]
        found = self._check_page(page)
        self._check_listing(page, {name for names in found.values() for name in names}, predicates)
        for package in (*self.packages.values(), *self.gate):
            # How the page asks predicates is held to the letter, by `_check_asking`.
            self._check_negations(package, without="failing" if package is page else "")
        for package in predicates:
            self._check_predicate(package)
        self._check_helpers(page)
        self._check_guards_agree(found)
        return self._sorted()

    def _say(self, place: Place, problem: str) -> None:
        self.problems.add((place, problem))

    def _sorted(self) -> list[str]:
        found = sorted(self.problems)
        return [f"{str(place).removeprefix(f'{self.above}/')}: {problem}" for place, problem in found]

    # The page and the folders

    def _check_folders(self) -> None:
        for file, package in self.files.items():
            folder = "data.ledgeragent." + ".".join(file.parent.parts[file.parent.parts.index("ledgeragent") + 1 :])
            if package.name != folder:
                self._say(Place(str(file), 1), f"package {package.name} in the folder of {folder}")
            # A second file could add a way to hold that nothing here looks at.
            if self.packages[package.name] is not package:
                self._say(Place(str(file), 1), f"{package.name} is in other files too; one file holds all of it")

    def _check_page(self, page: Package) -> dict[str, set[str]]:
        """The tools on the page with the ids that it lists for each."""
        found: dict[str, set[str]] = {}
        for rule in page.rules.get("guarding", ()):
            place = _place(rule["head"])
            reference = rule["head"]["ref"]
            tool = str(reference[1]["value"]) if len(reference) == 2 else ""
            rows = _literal_object(rule)
            if rows is None:
                self._say(place, f"guarding of {tool} must be one literal object; a condition could fall silent")
                continue
            found[tool] = set()
            for key, value in rows:
                name, stands_for = str(key.get("value", "")), _full_name(page, value)
                found[tool].add(name)
                if stands_for != f"failing.{name}":
                    self._say(place, f"{name} is listed with {stands_for or 'something else than its own failing'}")
        self._check_asking(page, {name for names in found.values() for name in names})
        return found

    def _check_asking(self, page: Package, listed: set[str]) -> None:
        """Every predicate is asked in the one form that counts whatever is undefined against the call."""
        rules = page.rules.get("failing", ())
        lines = Path(_first_place(page).file).read_text(encoding="utf-8").splitlines(keepends=True)
        # Only where the parser saw a rule begin: the same text can stand in a string.
        asked = ["".join(lines[_place(rule["head"]).row - 1 :]) for rule in rules]
        for name in sorted(listed):
            if not any(one.startswith(failing(name)) for one in asked):
                self._say(_first_place(page), f"{name} is not asked as the compiled page asks it")
        if len(rules) != len(listed):
            self._say(_first_place(page), f"{len(rules)} rules of failing for {len(listed)} predicates")

    def _check_listing(self, page: Package, listed: Iterable[str], predicates: Sequence[Package]) -> None:
        names = {package.name for package in predicates}
        stands_for = {f"data.ledgeragent.{name}" for name in listed}
        for package in predicates:
            if package.name.startswith(self.root) and package.name not in stands_for:
                self._say(
                    _first_place(package), f"{package.name} is not listed on the domain's page: it guards nothing"
                )
        for name in sorted(stands_for - names):
            self._say(_first_place(page), f"{name} is listed, but it is no predicate (it has no `holds`)")

    def _check_guards_agree(self, found: Mapping[str, set[str]]) -> None:
        """For every write the page, the predicates' `guards` and tools.json name the same predicates."""
        common = {name for names in found.values() for name in names if name.startswith("common.")}
        common -= policies.BY_CHOICE
        for name, tool in self.tools.items():
            if tool["effect"] != "write":
                continue
            guarding = {one for one in self._predicates if self._is_guarded(f"data.ledgeragent.{one}", name)}
            enforced = guarding | common | (policies.BY_CHOICE & {*tool.get("guarded_by", ())})
            place = Place(str(self.tools_file), _line_of(self.tools_file, f'"{name}"'))
            for what, names in (("guarded_by", set(tool.get("guarded_by", ()))), ("the page", found.get(name, set()))):
                if names != enforced:
                    difference = ", ".join(sorted(enforced ^ names))
                    self._say(place, f"{what} of {name} is not what the predicates guard; they differ in {difference}")

    @property
    def _predicates(self) -> list[str]:
        """Ids of the domain's own predicates."""
        names = [name for name, package in self.packages.items() if "holds" in package.rules]
        return [name.removeprefix("data.ledgeragent.") for name in names if name.startswith(f"{self.root}.")]

    def _is_guarded(self, name: str, tool: str) -> bool:
        package = self.packages.get(name)
        if package is None:
            return False
        if name.removeprefix("data.ledgeragent.") in policies.BY_CHOICE:
            return name.removeprefix("data.ledgeragent.") in self.tools[tool].get("guarded_by", ())
        return name.startswith("data.ledgeragent.common.") or tool in _guards(package)

    # One predicate

    def _check_predicate(self, package: Package) -> None:
        metadata = self._check_metadata(package)
        self._check_rules(package)
        evidence = {text: evidence_shape(text) for text in metadata.get("evidence", ())}
        guarded = sorted(name for name, tool in self.tools.items() if tool["effect"] == "write")
        guarded = [name for name in guarded if self._is_guarded(package.name, name)]
        self._check_templates(package, evidence, guarded)
        found: set[Shape] = set()
        reads: set[str] = set()
        for tool in guarded:
            flow = Flow(self.packages, self.schema, tool, self.tools[tool]["parameters"])
            touched = flow.touched(package)
            self._check_places(flow)
            self._check_touched(package, touched, set(evidence.values()), tool)
            found |= {path.shape for path in touched.evidence}
            reads |= touched.reads
        for text, shape in evidence.items():
            if guarded and not any(covers(shape, path) for path in found):
                self._say(_first_place(package), f"METADATA states the evidence {text}, which the rules never ask for")
        self._check_reads(package, metadata, reads)

    def _check_metadata(self, package: Package) -> Mapping[str, Any]:
        annotation = _annotation(package)
        place = _first_place(package)
        custom: Mapping[str, Any] = annotation.get("custom", {})
        wanting = [name for name in ("title", "description") if not _is_text(annotation.get(name))]
        wanting += [f"custom.{name}" for name in _TEXTS if not _is_text(custom.get(name))]
        evidence = custom.get("evidence")
        if not isinstance(evidence, list) or not all(_is_text(text) for text in evidence):
            wanting.append("custom.evidence")
            custom = {**custom, "evidence": []}
        if wanting:
            self._say(place, f"METADATA of {package.name} lacks {', '.join(wanting)}")
        if _is_text(custom.get("severity")) and custom["severity"] not in SEVERITIES:
            self._say(place, f"severity {custom['severity']!r} is none of {', '.join(SEVERITIES)}")
        if _is_text(custom.get("id")) and package.name != f"data.ledgeragent.{custom['id']}":
            self._say(place, f"METADATA calls {package.name} by the id {custom['id']!r}")
        return custom

    def _check_rules(self, package: Package) -> None:
        place = _first_place(package)
        for name in _RULES:
            if name not in package.rules:
                self._say(place, f"{package.name} has no rule `{name}`")
        for rule in _clauses(package, "holds"):
            # A default of false is a predicate that only a grant lifts.
            if rule["head"].get("value", {}).get("value") is not (not rule.get("default")):
                self._say(_place(rule["head"]), "`holds` must be plainly true where its body holds")
        for rule in _clauses(package, "verdict"):
            if rule["head"].get("value", {}).get("value") not in ("revise", "block"):
                self._say(_place(rule["head"]), '`verdict` must be written as "revise" or "block"')
        self._check_obligation(package)
        if not package.name.startswith("data.ledgeragent.common."):
            self._check_guards(package)

    def _check_obligation(self, package: Package) -> None:
        """Readers must see what lifts it; of what the domain protects no deployment may tune that."""
        for rule in _clauses(package, "obligation"):
            if _kind(rule) not in get_args(Consent):
                kinds = " or ".join(f'"{kind}"' for kind in get_args(Consent))
                self._say(_place(rule["head"]), f"`obligation` must be an object whose `kind` is written as {kinds}")
            if package.name.removeprefix("data.ledgeragent.") in self.protected and not _is_constant(rule):
                self._say(
                    _place(rule["head"]),
                    "the `obligation` of a protected predicate must be one object of constants, without a condition",
                )

    def _check_guards(self, package: Package) -> None:
        rules = package.rules.get("guards", ())
        if len(rules) != 1 or not _is_literal_set(rules[0]):
            self._say(_first_place(package), f"`guards` of {package.name} must be one literal set of tools")
        for tool in sorted(_guards(package)):
            if self.tools.get(tool, {}).get("effect") != "write":
                self._say(_place(rules[0]["head"]), f"{tool} is not a write of {self.domain}")

    def _check_templates(self, package: Package, evidence: Mapping[str, Shape], guarded: Sequence[str]) -> None:
        place = _first_place(package)
        declared = {name for tool in guarded for name in self.tools[tool]["parameters"].get("properties", {})}
        for text, shape in evidence.items():
            if not self.schema.has(shape):
                self._say(place, f"METADATA states the evidence {text}, which is not in the ledger schema")
            for argument in _ARGUMENT.findall(text):
                if argument not in declared:
                    self._say(place, f"METADATA states the evidence {text}; no guarded tool has an argument {argument}")

    def _check_touched(self, package: Package, touched: Touched, evidence: Iterable[Shape], tool: str) -> None:
        needs = [_keys_shape(path) for path in self.tools[tool].get("needs", ())]
        for path in touched.evidence:
            self._check_covered(Use(path.shape, path.place), evidence, f"METADATA evidence of {package.name}")
            self._check_covered(Use(path.shape, path.place), needs, f"needs of {tool}")
        for use in touched.uses:
            self._check_covered(use, evidence, f"METADATA evidence of {package.name}")
            self._check_covered(use, needs, f"needs of {tool}")

    def _check_covered(self, use: Use, shapes: Iterable[Shape], of: str) -> None:
        if not self.schema.has(use.shape):
            return
        if not any(covers(one, use.shape) or (use.shallow and covers(use.shape, one)) for one in shapes):
            self._say(use.place, f"{_dotted(use.shape)} is not in {of}")

    def _check_places(self, flow: Flow) -> None:
        for place, shape in flow.unknown_places:
            self._say(place, f"{_dotted(shape)} is not in the ledger schema")

    def _check_reads(self, package: Package, metadata: Mapping[str, Any], found: Iterable[str]) -> None:
        names = list(found)
        actual = [
            name for name, roots in _READS.items() if any(one.startswith(root) for one in names for root in roots)
        ]
        if list(metadata.get("reads", [])) != actual:
            self._say(_first_place(package), f"METADATA must state custom.reads: [{', '.join(actual)}]")

    def _check_helpers(self, page: Package) -> None:
        """Names that no predicate uses yet can be misspelt as well."""
        for package in self.packages.values():
            if package is page:
                continue
            flow = Flow(self.packages, self.schema, None, None)
            flow.touched(package)
            flow.functions(package)
            self._check_places(flow)

    # Negation

    def _check_negations(self, package: Package, *, without: str = "") -> None:
        rules = [one for name, found in package.rules.items() if name != without for one in found]
        for expression in _negated(rules):
            if not _is_safe_to_negate(package, expression["terms"]):
                self._say(
                    _place(expression),
                    "`not` over something that can be undefined; give it a name as a rule of your own and negate that",
                )


def _parsed(folders: Iterable[Path], opa: Path) -> dict[Path, Package]:
    found = {}
    for folder in folders:
        for file in sorted(folder.rglob("*.rego")):
            if not file.name.endswith("_test.rego"):
                found[file] = Package.of(syntax_tree(opa, file))
    return found


def _annotation(package: Package) -> Mapping[str, Any]:
    for annotation in package.tree.get("annotations", ()):
        if annotation.get("scope") == "package":
            found: Mapping[str, Any] = annotation
            return found
    return {}


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _place(node: Node) -> Place:
    return Place(str(node["location"]["file"]), int(node["location"]["row"]))


def _first_place(package: Package) -> Place:
    return _place(package.tree["package"])


def _clauses(package: Package, name: str) -> Iterator[Node]:
    for rule in package.rules.get(name, ()):
        clause: Node | None = rule
        while clause is not None:
            yield clause
            clause = clause.get("else")


def _guards(package: Package) -> set[str]:
    rules = package.rules.get("guards", ())
    if not rules or rules[0]["head"].get("value", {}).get("type") != "set":
        return set()
    return {str(term["value"]) for term in rules[0]["head"]["value"]["value"]}


def _is_literal_set(rule: Node) -> bool:
    value = rule["head"].get("value", {})
    body = rule.get("body", [])
    return (
        value.get("type") == "set"
        and all(term["type"] == "string" for term in value["value"])
        and len(body) == 1
        and body[0].get("generated") is True
        and "else" not in rule
        and not rule.get("default")
    )


def _full_name(package: Package, term: Node) -> str:
    """The full dotted name a reference of constants stands for, or an empty text."""
    if term.get("type") != "ref":
        return ""
    head, *rest = term["value"]
    if head["type"] != "var" or any(part["type"] != "string" for part in rest):
        return ""
    first = package.aliases.get(str(head["value"]), str(head["value"]))
    return ".".join([first, *(str(part["value"]) for part in rest)])


def _literal_object(rule: Node) -> list[tuple[Node, Node]] | None:
    """The entries of a rule that is one object of constants, without a condition."""
    value = rule["head"].get("value", {})
    body = rule.get("body", [])
    if value.get("type") != "object" or len(body) != 1 or body[0].get("generated") is not True or "else" in rule:
        return None
    return [(key, one) for key, one in value["value"]]


def _kind(rule: Node) -> str:
    """The `kind` in an obligation's object, where it is written as a text."""
    value = rule["head"].get("value", {})
    rows = value["value"] if value.get("type") == "object" else []
    return next((str(one.get("value")) for key, one in rows if key.get("value") == "kind"), "")


def _is_constant(rule: Node) -> bool:
    """Whether a rule is one object of texts, or of lists of texts."""
    values = [value for _, value in _literal_object(rule) or ()]
    texts = [text for value in values for text in (value["value"] if value["type"] in ("array", "set") else [value])]
    return bool(values) and all(text["type"] == "string" for text in texts)


def _negated(node: Any) -> Iterator[Node]:
    if isinstance(node, list):
        for one in node:
            yield from _negated(one)
    elif isinstance(node, dict):
        if node.get("negated"):
            yield node
        for key, value in node.items():
            if key != "location":
                yield from _negated(value)


def _is_safe_to_negate(package: Package, terms: Any) -> bool:
    """Whether the negation of these terms is true whenever they do not hold, undefined included."""
    if isinstance(terms, dict):
        return _is_safe_term(package, terms)
    return all(_is_safe_operand(package, term) for term in terms[1:])


def _is_safe_term(package: Package, term: Node) -> bool:
    if term["type"] == "call":
        return all(_is_safe_operand(package, part) for part in term["value"][1:])
    if term["type"] == "ref":
        return _is_imported_rule(package, term)
    return _is_own_rule(package, term)


def _is_own_rule(package: Package, term: Node) -> bool:
    return term["type"] == "var" and term["value"] in package.rules


def _is_imported_rule(package: Package, term: Node) -> bool:
    """A rule of an imported package, itself and not something below it."""
    head, *rest = term["value"]
    return head.get("value") in package.aliases and len(rest) == 1 and rest[0]["type"] == "string"


def _is_safe_operand(package: Package, term: Node) -> bool:
    """A variable of the body, a constant, a set that is always defined, or an array or set of such."""
    if term["type"] == "var":
        rules = package.rules.get(str(term["value"]))
        return rules is None or ("key" in rules[0]["head"] and "value" not in rules[0]["head"])
    if term["type"] in ("array", "set"):
        return all(_is_safe_operand(package, part) for part in term["value"])
    return term["type"] in ("string", "number", "boolean", "null")


def evidence_shape(text: str) -> Shape:
    """The shape of a dotted template as METADATA states it: placeholders become "*", a last "?" is dropped."""
    keys = [""]
    depth = 0
    for letter in text.removesuffix("?"):
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if letter == "." and depth == 0:
            keys.append("")
        else:
            keys[-1] += letter
    return _keys_shape(keys)


def _keys_shape(keys: Iterable[str]) -> Shape:
    return tuple("*" if "{" in key else key for key in keys if key != "?")


def _dotted(shape: Shape) -> str:
    return ".".join(shape) or "the whole ledger"


def _line_of(file: Path, text: str) -> int:
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        if text in line:
            return number
    return 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the lint from the command line; the exit status is 1 when there is a problem, 2 when it cannot run."""
    parser = argparse.ArgumentParser(prog="python -m ledgeragent.lint", description="Check a domain's policies.")
    parser.add_argument("--rego", type=Path, default=policies.REGO, help="the bundle root")
    parser.add_argument("--schemas", type=Path, default=policies.SCHEMAS, help="the folder with one folder per domain")
    parser.add_argument("--opa", type=Path, default=None, help="the opa to parse with")
    parser.add_argument("domains", nargs="*", help="domains to check (default: all)")
    chosen = parser.parse_args(arguments)
    opa = chosen.opa or find_opa()
    if opa is None:
        sys.stderr.write("the lint parses with a real OPA: run `make opa`, or give one with --opa\n")
        return 2
    try:
        found = [
            problem
            for domain in chosen.domains or policies.domains(chosen.schemas)
            for problem in lint(chosen.rego, chosen.schemas, domain, opa)
        ]
    except (LedgerAgentError, OSError, ValueError) as error:
        sys.stderr.write(f"the lint cannot run: {error}\n")
        return 2
    for problem in found:
        sys.stdout.write(f"{problem}\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
