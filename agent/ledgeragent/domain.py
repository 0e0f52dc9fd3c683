"""A domain: its tools and the types of its facts, loaded from two files and held against its Rego.

A domain loads only when all its parts agree; otherwise it refuses and says everything that is wrong at once. What is
done with returns and calls is the business of the ledger and the gate.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import jsonschema
from jsonschema.validators import extend
from pydantic import ValidationError

from ledgeragent import marks
from ledgeragent.accepts import acceptor
from ledgeragent.contracts import EffectlessTool, Parameters, ReadTool, ToolsFile, WriteTool
from ledgeragent.errors import BadInput, DomainError
from ledgeragent.jsonio import parse
from ledgeragent.parsers import load_parser
from ledgeragent.paths import PathTemplate, Template
from ledgeragent.policies import BY_CHOICE, REGO, SCHEMAS, RegoFacts, check_name, read_rego

Tool = ReadTool | WriteTool | EffectlessTool
Schema = Mapping[str, Any]

MAX_ARGUMENT_DEPTH: Final = 4
"""Levels below the arguments object that the gate can check."""

_PLAIN_PATTERN: Final = re.compile(r"\^(?:\\[.\-/+*?()\[\]{}|$^\\]|[^\\$^]|\[\^)*\$\Z")
_ANNOTATIONS: Final = ("description", "log")


def _match_pattern(_validator: Any, pattern: str, value: Any, _schema: Schema) -> Iterator[jsonschema.ValidationError]:
    if isinstance(value, str) and not whole_pattern(pattern).search(value):
        yield jsonschema.ValidationError(f"does not match {pattern!r}")


def whole_pattern(pattern: str) -> re.Pattern[str]:
    """Compile a pattern so that `$` means the end, as in OPA (Python's also matches before a last newline)."""
    return re.compile(pattern[:-1] + r"\Z" if pattern.endswith("$") else pattern)


Validator: Final[Any] = extend(jsonschema.Draft202012Validator, {"pattern": _match_pattern})  # type: ignore[no-untyped-call]
"""JSON Schema 2020-12 with patterns as OPA reads them."""


@dataclass(frozen=True)
class RecordType:
    """A type of record in the ledger.

    Attributes:
        pattern: the path of its records; `*` stands for ids.
        id_field: the field that must equal the last key, or None for a bare value.
        schema: its JSON Schema, `$defs` included.
        problem: says what is wrong with a value, or None.
    """

    pattern: tuple[str, ...]
    id_field: str | None
    schema: Schema
    problem: Callable[[Any], str | None]


class LedgerSchema:
    """The ledger's JSON Schema: finds the type of a record and the schema under a path."""

    def __init__(self, document: Schema) -> None:
        Validator.check_schema(dict(document))
        self.document = document
        self._check_no_cycle(document, ())
        self._records: dict[tuple[str, ...], RecordType] = {}
        for pattern, node in self._walk_to_records((), document):
            _check_record(pattern, node)
            self._records[pattern] = RecordType(pattern, node["x-id"], node, self._checker(node))
        if not self._records:
            raise BadInput("the ledger schema marks no record type with x-id")
        for first in {pattern[0] for pattern in self._records}:
            if len({len(pattern) for pattern in self._records if pattern[0] == first}) > 1:
                raise BadInput(f"the records under {first!r} lie at different depths; give them tables of their own")
        self.depths = {pattern[0]: len(pattern) for pattern in self._records}

    @property
    def records(self) -> list[RecordType]:
        """Every type of record, in the order of the schema."""
        return list(self._records.values())

    def record_type(self, path: tuple[str, ...]) -> RecordType | None:
        """The type whose pattern fits the whole path, ids being any key."""
        exact = self._records.get(path)
        if exact is not None:
            return exact
        return next(
            (
                found
                for pattern, found in self._records.items()
                if len(pattern) == len(path) and all(own in ("*", key) for own, key in zip(pattern, path, strict=True))
            ),
            None,
        )

    def record_depth(self, path: tuple[str, ...]) -> int | None:
        """How many keys of the path name its record; None when the path leads to none."""
        depth = self.depths.get(path[0])
        return depth if depth is not None and len(path) >= depth else None

    def at(self, shape: tuple[str, ...]) -> Schema | None:
        """The schema under a path of keys (`*` for any id, `[*]` for the elements of a list), or None."""
        node: Schema | None = self.document
        for key in shape:
            node = self.child(node, key) if node is not None else None
        return node

    def child(self, node: Schema, key: str) -> Schema | None:
        """The schema of one key below a node, `$ref` resolved; None when the schema has no such key."""
        if key == "[*]":
            found = node.get("items")
        else:
            found = node.get("properties", {}).get(key)
            if found is None:
                found = node.get("additionalProperties")
        return self.resolved(found) if isinstance(found, Mapping) else None

    def resolved(self, node: Schema) -> Schema:
        """A node with its `$ref` filled in; what stands beside the `$ref` counts."""
        if "$ref" not in node:
            return node
        rest = {key: value for key, value in node.items() if key != "$ref"}
        return self.resolved({**self._target(node), **rest})

    def optional(self) -> list[list[str]]:
        """Patterns of the fields that may be absent from an observed record: absence there is knowledge."""
        found: list[list[str]] = []
        for record in self.records:
            self._walk_optional(record.pattern, record.schema, found)
        return sorted(found)

    def _walk_optional(self, pattern: tuple[str, ...], node: Schema, found: list[list[str]]) -> None:
        for key, raw in node.get("properties", {}).items():
            if key not in node.get("required", ()):
                found.append([*pattern, key])
            self._walk_optional((*pattern, key), self.resolved(raw), found)
        if isinstance(node.get("additionalProperties"), Mapping):
            found.append([*pattern, "*"])
            self._walk_optional((*pattern, "*"), self.resolved(node["additionalProperties"]), found)

    def _walk_to_records(self, pattern: tuple[str, ...], node: Schema) -> Iterator[tuple[tuple[str, ...], Schema]]:
        if "x-id" in node:
            yield pattern, node
            return
        for key, raw in node.get("properties", {}).items():
            yield from self._walk_to_records((*pattern, key), self.resolved(raw))
        below = node.get("additionalProperties")
        if isinstance(below, Mapping):
            yield from self._walk_to_records((*pattern, "*"), self.resolved(below))

    def _target(self, node: Schema) -> Schema:
        name = str(node["$ref"]).removeprefix("#/$defs/")
        target: Schema | None = self.document.get("$defs", {}).get(name)
        if target is None:
            raise BadInput(f"the ledger schema refers to {node['$ref']!r}, which is not under $defs")
        return target

    def _check_no_cycle(self, node: Schema, above: tuple[str, ...]) -> None:
        """Facts have a fixed depth: paths into them are listed and checked when the domain loads."""
        if "$ref" in node:
            if node["$ref"] in above:
                raise BadInput(f"the ledger schema contains itself through {node['$ref']!r}; write the levels out")
            self._check_no_cycle(self._target(node), (*above, node["$ref"]))
        for below in (*node.get("properties", {}).values(), node.get("additionalProperties"), node.get("items")):
            if isinstance(below, Mapping):
                self._check_no_cycle(below, above)

    def _checker(self, node: Schema) -> Callable[[Any], str | None]:
        defs = self.document.get("$defs", {})
        validator = Validator({**node, "$defs": defs})
        accepts = acceptor(node, defs, whole_pattern)

        def problem(value: Any) -> str | None:
            if accepts(value):
                return None
            error = next(validator.iter_errors(value), None)
            return None if error is None else f"{_place(error) or 'the record'}: {_words(error)}"

        return problem


def _place(error: jsonschema.ValidationError) -> str:
    """Where in its schema a value does not fit. The value's own keys can be ids, which nobody should read in a log."""
    steps = iter(error.absolute_schema_path)
    shown = {"additionalProperties": "*", "items": "[*]"}
    return ".".join(
        str(next(steps, "")) if step == "properties" else shown[step]
        for step in steps
        if step == "properties" or step in shown
    )


def _words(error: jsonschema.ValidationError) -> str:
    """What a value does not fit, in words of the schema: those of the library quote the value."""
    if error.validator == "required":
        return error.message
    return f"breaks {error.validator} {json.dumps(error.validator_value, ensure_ascii=False)[:200]}"


def _check_record(pattern: tuple[str, ...], node: Schema) -> None:
    place, id_field = ".".join(pattern), node["x-id"]
    if id_field is not None and id_field not in node.get("properties", {}):
        raise BadInput(f"the record type {place} has no field {id_field!r}, which its x-id names")
    kinds = node.get("type", ())
    if "string" in ([kinds] if isinstance(kinds, str) else kinds) and not {"enum", "pattern", "const"} & node.keys():
        raise BadInput(f"the record type {place} is a bare text: give it an enum or a pattern, else any text is a fact")


@dataclass(frozen=True)
class Domain:
    """A loaded domain: everything the host needs to know about its tools and facts.

    Attributes:
        name: `[a-z][a-z0-9_]*`, part of the policy's path.
        file: the tools file as its contract reads it.
        schema: the types of the facts.
        tools: the declared tools by name.
        settings: JSON Schema of the thresholds, reasons and tables that a deployment may replace.
        log: what may be logged of its gate inputs and decisions, as `marks.allow_list` has it.
    """

    name: str
    file: ToolsFile
    schema: LedgerSchema
    tools: Mapping[str, Tool]
    needs: Mapping[str, tuple[PathTemplate, ...]] = field(repr=False)
    changes: Mapping[str, tuple[PathTemplate, ...]] = field(repr=False)
    failures: tuple[re.Pattern[str], ...] = field(repr=False)
    settings: Schema = field(repr=False)
    log: Mapping[str, marks.Marks] = field(repr=False)

    @classmethod
    def load(cls, name: str, *, schemas: Path = SCHEMAS, rego: Path | None = REGO) -> Domain:
        """Load a domain and check that its parts agree.

        Args:
            name: the domain's name.
            schemas: folder that holds `<name>/ledger.schema.json`, `<name>/tools.json` and, where there is something to
                tune, `<name>/settings.schema.json`.
            rego: bundle root to hold the tools against, or None when the policies are only to be had by asking them
                (a remote server): the proof before use then holds both together.

        Raises:
            BadInput: for a name that is none.
            DomainError: with everything that is wrong.
        """
        folder = schemas / check_name(name)
        problems: list[str] = []
        file = _read_tools(folder / "tools.json", problems)
        schema = _read_schema(folder / "ledger.schema.json", problems)
        if file is None or schema is None:
            raise DomainError(name, problems)
        if file.domain != name:
            problems.append(f"{folder / 'tools.json'}: domain is {file.domain!r}, its folder {name!r}")
        problems += _Check(file, schema).problems()
        settings = _read_settings(folder / "settings.schema.json", problems)
        if rego is not None:
            problems += _rego_problems(name, file, rego)
            problems += _defaults_problems(rego / "ledgeragent" / name / "defaults" / "data.json", settings)
        if problems:
            raise DomainError(name, problems)
        writes = [tool for tool in file.tools if isinstance(tool, WriteTool)]
        return cls(
            name=name,
            file=file,
            schema=schema,
            tools={tool.name: tool for tool in file.tools},
            needs={tool.name: tuple(PathTemplate.parse(path) for path in tool.needs) for tool in writes},
            changes={tool.name: tuple(PathTemplate.parse(path) for path in tool.changes) for tool in writes},
            failures=tuple(re.compile(pattern) for pattern in file.failures),
            settings=settings,
            log=marks.allow_list(file, schema.document, schema.resolved),
        )

    def is_write(self, tool: str) -> bool:
        """Whether a call must be judged: declared writes, and every tool that is not declared."""
        return isinstance(self.tools.get(tool), WriteTool) or tool not in self.tools

    def guarded_by(self, tool: str) -> tuple[str, ...]:
        """Ids of the predicates that must have judged a call of this tool, sorted."""
        declared = self.tools.get(tool)
        return tuple(sorted(declared.guarded_by)) if isinstance(declared, WriteTool) else ()

    def declared(self) -> dict[str, Any]:
        """What OPA alone needs to check tools and arguments: the domain's generated policy data, not yet stamped."""
        return {
            "log": dict(self.log),
            "optional": self.schema.optional(),
            "protected": sorted(self.file.protected),
            "tools": {name: _declared_tool(tool) for name, tool in sorted(self.tools.items())},
        }


def _declared_tool(tool: Tool) -> dict[str, Any]:
    guarded = sorted(tool.guarded_by) if isinstance(tool, WriteTool) else []
    return {
        "effect": tool.effect,
        "guarded_by": guarded,
        "parameters": bare_schema(tool.parameters),
        "unguarded": isinstance(tool, WriteTool) and tool.unguarded is not None,
    }


def bare_schema(parameters: Parameters) -> dict[str, Any]:
    """A parameter schema as JSON, without its annotations; objects say that they are closed."""
    bare = parameters.model_dump(exclude_none=True, exclude=set(_ANNOTATIONS))
    if parameters.properties is not None:
        bare["properties"] = {name: bare_schema(below) for name, below in parameters.properties.items()}
    if parameters.items is not None:
        bare["items"] = bare_schema(parameters.items)
    return bare


def load_tools(name: str, schemas: Path) -> ToolsFile:
    """Read only a domain's tools file, by its contract.

    Raises:
        DomainError: with everything that is wrong in it.
    """
    problems: list[str] = []
    file = _read_tools(schemas / check_name(name) / "tools.json", problems)
    if file is None:
        raise DomainError(name, problems)
    return file


def _read_tools(path: Path, problems: list[str]) -> ToolsFile | None:
    document = _read_json(path, problems)
    if document is None:
        return None
    try:
        return ToolsFile.model_validate_json(json.dumps(document))
    except ValidationError as error:
        for found in error.errors():
            problems.append(f"{path}: {'.'.join(str(part) for part in found['loc'])}: {found['msg']}")
        return None


def _read_schema(path: Path, problems: list[str]) -> LedgerSchema | None:
    document = _read_json(path, problems)
    if document is None:
        return None
    try:
        return LedgerSchema(document)
    except (BadInput, jsonschema.SchemaError) as error:
        problems.append(f"{path}: {getattr(error, 'message', error)}")
        return None


def _read_json(path: Path, problems: list[str]) -> dict[str, Any] | None:
    try:
        document = parse(path.read_text(encoding="utf-8"), what=str(path))
        if isinstance(document, dict):
            return document
        problems.append(f"{path}: a JSON object is expected, not {type(document).__name__}")
    except (OSError, UnicodeError) as error:
        problems.append(f"{path}: cannot be read: {error}")
    except BadInput as error:
        problems.append(str(error))
    return None


def _read_settings(path: Path, problems: list[str]) -> Schema:
    document = _read_json(path, problems) if path.is_file() else {"type": "object", "additionalProperties": False}
    if document is None:
        return {}
    try:
        Validator.check_schema(document)
    except jsonschema.SchemaError as error:
        problems.append(f"{path}: {error.message}")
    if document.get("additionalProperties") is not False:
        problems.append(f"{path}: settings must be closed: additionalProperties false")
    return document


def _defaults_problems(path: Path, settings: Schema) -> list[str]:
    """The domain's own values must be exactly what its settings schema describes."""
    problems: list[str] = []
    document = _read_json(path, problems) if path.is_file() else {}
    if document is not None:
        for error in Validator(settings).iter_errors(document):
            place = ".".join(str(part) for part in error.absolute_path) or "the settings"
            problems.append(f"{path}: {place}: {error.message[:200]}")
        for key in sorted(settings.get("properties", {}).keys() - document.keys()):
            problems.append(f"{path}: {key!r} has no value")
    return problems


def _rego_problems(name: str, file: ToolsFile, rego: Path) -> Iterator[str]:
    found = read_rego(rego, name)
    writes = {tool.name: tool for tool in file.tools if isinstance(tool, WriteTool)}
    for predicate, tools in sorted(found.guards.items()):
        for stranger in sorted(tools - set(writes)):
            yield f"rego: {predicate} guards {stranger}, which tools.json does not declare as a write"
    named = [*found.listed, *(one for tool in writes.values() for one in tool.guarded_by)]
    everywhere = {one for one in named if one.startswith("common.")} - BY_CHOICE
    for tool_name, tool in writes.items():
        enforced = {one for one, tools in found.guards.items() if tool_name in tools} | everywhere
        enforced |= BY_CHOICE & {*tool.guarded_by}
        for predicate in sorted(set(tool.guarded_by) - enforced):
            yield f"tools.json: {tool_name} says it is guarded by {predicate}, which the Rego does not enforce for it"
        for predicate in sorted(enforced - set(tool.guarded_by)):
            yield f"tools.json: {tool_name} leaves out {predicate}, which the Rego enforces for it"
    yield from _page_problems(rego / "ledgeragent" / name / f"{name}.rego", found, writes)


def _page_problems(page: Path, found: RegoFacts, writes: Mapping[str, WriteTool]) -> Iterator[str]:
    """The page is written from `guards` and tools.json: what it says must be what they say."""
    if found.page is None:
        yield f"{page}: no page that lists what is enforced; compile (`ledgeragent domain compile`) to write it"
        return
    for tool in sorted(set(found.page) ^ set(writes)):
        yield f"{page}: {tool} is a write of tools.json or is on the page, and must be both; compile again"
    for tool in sorted(set(found.page) & set(writes)):
        for predicate in sorted(found.page[tool] ^ set(writes[tool].guarded_by)):
            yield f"{page}: {predicate} guards {tool} on the page or in tools.json, and must in both; compile again"


class _Check:
    """Everything that can be wrong between tools.json and the ledger schema."""

    def __init__(self, file: ToolsFile, schema: LedgerSchema) -> None:
        self.file = file
        self.schema = schema

    def problems(self) -> Iterator[str]:
        names = [tool.name for tool in self.file.tools]
        for twice in sorted({name for name in names if names.count(name) > 1}):
            yield f"tools.json: {twice} is declared twice"
        if self.schema.record_type(tuple(self.file.principal_path)) is None:
            yield f"tools.json: principal_path {self.file.principal_path} is not a record of the ledger schema"
        known = {one for tool in self.file.tools if isinstance(tool, WriteTool) for one in tool.guarded_by}
        for predicate in sorted(set(self.file.protected) - known):
            yield f"tools.json: protected {predicate} guards no tool"
        for pattern in self.file.failures:
            yield from _pattern_problems(pattern, "tools.json: failures")
        for problem in marks.schema_problems(self.schema.document, self.schema.resolved, is_plain_pattern):
            yield f"ledger.schema.json: {problem}"
        for tool in self.file.tools:
            yield from (f"tools.json: {tool.name}: {problem}" for problem in self._tool_problems(tool))

    def _tool_problems(self, tool: Tool) -> Iterator[str]:
        yield from parameter_problems(tool.parameters, "parameters", MAX_ARGUMENT_DEPTH)
        yield from marks.parameter_problems(tool.parameters, "parameters", is_plain_pattern)
        if tool.parameters.type != "object":
            yield "parameters must be an object"
        if isinstance(tool, ReadTool):
            yield from self._fact_problems(tool)
            yield from self._settles_problems(tool)
        elif isinstance(tool, WriteTool):
            yield from self._write_problems(tool)
            yield from self._fact_problems(tool)

    def _fact_problems(self, tool: ReadTool | WriteTool) -> Iterator[str]:
        for number, fact in enumerate(tool.facts):
            place = f"facts[{number}]"
            roots = ("arguments", "result", *(("each",) if fact.each is not None else ()))
            yield from self._path_problems(tool, fact.path, f"{place}.path", (*roots, "principal"))
            shape = tuple("*" if "{" in key else key for key in fact.path)
            if self.schema.at(shape) is not None and self.schema.record_type(shape) is None:
                yield f"{place}.path {'.'.join(fact.path)} is not where the ledger schema has a record (x-id)"
            yield from self._template_problems(tool, fact.value, f"{place}.value", roots)
            if fact.each is not None:
                yield from self._template_problems(tool, fact.each, f"{place}.each", ("arguments", "result"))
            if fact.when is not None:
                yield from self._template_problems(tool, fact.when.value, f"{place}.when", roots)
                yield from _pattern_problems(fact.when.pattern, f"{place}.when.pattern")
            for argument in fact.unless_seen or ():
                if argument not in (tool.parameters.properties or {}):
                    yield f"{place}.unless_seen names {argument!r}, which is no parameter"
            if fact.parse not in ("json", "list", "text"):
                try:
                    load_parser(fact.parse)
                except BadInput as error:
                    yield f"{place}.parse: {error}"

    def _settles_problems(self, tool: ReadTool) -> Iterator[str]:
        for number, settled in enumerate(tool.settles):
            shape = tuple("*" if key.startswith("{") else key for key in settled.path)
            if self.schema.at(shape) is None:
                yield f"settles[{number}].path {'.'.join(settled.path)} is not in the ledger schema"
            named = {key for key in settled.path if key.startswith("{")}
            for argument, text in settled.arguments.items():
                if argument not in (tool.parameters.properties or {}):
                    yield f"settles[{number}].arguments names {argument!r}, which is no parameter"
                for stranger in sorted(set(re.findall(r"\{[^{}]*\}", text)) - named):
                    yield f"settles[{number}].arguments.{argument}: {stranger} is no key of its path"

    def _write_problems(self, tool: WriteTool) -> Iterator[str]:
        for kind, paths in (("needs", tool.needs), ("changes", tool.changes)):
            for number, path in enumerate(paths):
                yield from self._path_problems(tool, path, f"{kind}[{number}]", ("arguments", "principal", "ledger"))
        own = [one for one in tool.guarded_by if not one.startswith("common.")]
        if not own and tool.unguarded is None:
            yield "is a write that no predicate of its domain guards; guard it or declare it unguarded (owner, reason)"
        if own and tool.unguarded is not None:
            yield "says it is unguarded and names predicates that guard it"
        for twice in sorted({one for one in tool.guarded_by if tool.guarded_by.count(one) > 1}):
            yield f"guarded_by names {twice} twice"

    def _path_problems(self, tool: Tool, path: list[str], place: str, roots: tuple[str, ...]) -> Iterator[str]:
        try:
            template = PathTemplate.parse(path)
        except BadInput as error:
            yield f"{place}: {error}"
            return
        shape = template.shape()
        if self.schema.at(shape[:-1] if template.absent else shape) is None:
            yield f"{place} {template} is not in the ledger schema"
        elif self.schema.record_depth(shape) is None:
            yield f"{place} {template} stops above the records; name a record or a field of one"
        for key in path:
            yield from self._template_problems(tool, key, place, roots)

    def _template_problems(self, tool: Tool, text: str, place: str, roots: tuple[str, ...]) -> Iterator[str]:
        if text in ("*", "?"):
            return
        try:
            found = Template.parse(text).placeholders()
        except BadInput as error:
            yield f"{place}: {error}"
            return
        for root, names in found:
            if root not in roots:
                yield f"{place}: {{{root}}} stands for nothing here; use {', '.join(roots)}"
            elif root == "arguments" and names and names[0] not in (tool.parameters.properties or {}):
                yield f"{place}: {{arguments.{names[0]}}} is no parameter of the tool"
            elif root == "ledger" and self.schema.at(names) is None:
                yield f"{place}: {{ledger: {'.'.join(names)}}} is not in the ledger schema"


def _pattern_problems(pattern: str, place: str) -> Iterator[str]:
    try:
        re.compile(pattern)
    except re.error as error:
        yield f"{place}: {pattern!r} is no pattern: {error}"


def parameter_problems(node: Parameters, place: str, depth: int) -> Iterator[str]:
    """What keeps a parameter schema from being one that the gate can check; `depth` levels may stand below it."""
    if depth < 0:
        yield f"{place} is nested more than {MAX_ARGUMENT_DEPTH} levels deep"
        return
    kinds = [node.type] if isinstance(node.type, str) else (node.type or [])
    if not kinds and node.enum is None:
        yield f"{place} needs a type or an enum"
    if "object" in kinds:
        if node.properties is None or node.additionalProperties is not False:
            yield f"{place} is an object and must declare its properties with additionalProperties false"
        for name in set(node.required or ()) - set(node.properties or ()):
            yield f"{place} requires {name!r}, which it does not declare"
    if "array" in kinds and node.items is None:
        yield f"{place} is an array and must declare its items"
    if node.pattern is not None and not is_plain_pattern(node.pattern):
        yield f"{place}.pattern {node.pattern!r} must begin with ^, end with $ and use plain syntax only"
    for name, below in (node.properties or {}).items():
        yield from parameter_problems(below, f"{place}.{name}", depth - 1)
    if node.items is not None:
        yield from parameter_problems(node.items, f"{place}[]", depth - 1)


def is_plain_pattern(pattern: str) -> bool:
    """Whether Python's and OPA's regular expressions read a pattern alike: anchored, no look-around, no classes
    whose meaning differs (\\d, \\w, \\s, \\b)."""
    if not _PLAIN_PATTERN.match(pattern) or "(?" in pattern or "[:" in pattern:
        return False
    try:
        re.compile(pattern)
    except re.error:
        return False
    return True
