"""What may be logged: a domain's allow-list, made of the `x-log` marks in its two schema files.

The list is a tree in the shape of what it judges, as plain JSON: OPA's masks (`masks/`, from the generated policy data)
and the records (`masking`) read the very same tree. A node may have

    value    checks of the scalars that may be shown here; one of them must hold
    fields   the declared fields of an object; others are left out, names and all
    each     what stands under the keys of a map
    keys     checks of the keys that may be shown; without them the map is masked as a whole
    items    the elements of a list
    path     this is a path of the ledger: its keys are shown where the ledger shows them
    call     this object has a `tool` and its `arguments`: these are shown as the tool's parameters are marked

and what a node does not say is masked. This module only says what may be shown; showing it is the others' part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from ledgeragent.contracts import DECISION, GATE_INPUT, INSTANT, RECORD, Parameters, ToolsFile
from ledgeragent.errors import DECISION_CODES, ENGINE_CODES

Marks = Mapping[str, Any]
Schema = Mapping[str, Any]

MASKED: Final = "(masked)"
"""Stands where something was masked."""

MAX_LEVELS: Final = 10
"""Deepest level below a gate input that OPA's masks look at; what lies deeper is masked."""

_LEDGER_LEVELS: Final = MAX_LEVELS - 1
_SCALARS: Final = frozenset({"string", "number", "integer", "boolean", "null"})
_MARK: Final = "x-log"


def _text(*patterns: str) -> Marks:
    return {"value": [{"types": ["string"], "patterns": list(patterns)}]}


def _one_of(*values: str) -> Marks:
    return {"value": [{"enum": list(values)}]}


def _of_type(*types: str) -> Marks:
    return {"value": [{"types": list(types)}]}


def _object(**fields: Marks) -> Marks:
    return {"fields": fields}


def _call(**fields: Marks) -> Marks:
    return {"fields": fields, "call": True}


def _or_null(marks: Marks) -> Marks:
    return {**marks, "value": [*marks.get("value", ()), {"types": ["null"]}]}


_NOTHING: Final[Marks] = {}
# An object of which only that it is one is shown.
_CLOSED: Final[Marks] = {"each": {}, "keys": []}
# A random id says nothing; a chosen one (a phone number, an e-mail address) does, so that only the former is shown.
_RANDOM: Final[Marks] = {
    "value": [
        {"types": ["string"], "patterns": ["^[0-9a-f]{16,64}$", "[a-f]"]},
        {"types": ["string"], "patterns": ["^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"]},
    ]
}
_RULE_ID: Final = _text("^[a-z][a-z0-9_]*([.][a-z][a-z0-9_]*)+$", "^.{1,120}$")
_WORD: Final = _text("^[a-z]{0,20}$")
_REVISION: Final = _text("^sha256:[0-9a-f]{64}$")
_NUMBERED: Final = ("domain", "gate", "overrides", "floor", "freeze")
_PATHS: Final[Marks] = {"items": {"path": True}}


def allow_list(file: ToolsFile, ledger: Schema, resolved: Callable[[Schema], Schema]) -> dict[str, Marks]:
    """What a domain's gate inputs and decisions may show.

    Args:
        file: the tools file.
        ledger: the document of the ledger schema.
        resolved: gives a schema node with its `$ref` filled in.

    Returns:
        `input` and `decision`, the trees of both, and `tools`, the tree of each tool's arguments.
    """
    facts = _of_schema(ledger, resolved)
    return {
        "input": _input_marks(file, facts),
        "decision": _decision_marks(_at(facts, file.principal_path)),
        "tools": {tool.name: _of_parameters(tool.parameters) for tool in file.tools},
    }


def record_marks(log: Mapping[str, Marks]) -> Marks:
    """What a record of a domain may show, given the domain's allow-list."""
    return _object(
        contract=_one_of(RECORD),
        kind=_one_of("decision", "outcome"),
        at=_text(INSTANT),
        session=_RANDOM,
        call_id=_RANDOM,
        request=_RANDOM,
        input=log["input"],
        decision=_or_null(log["decision"]),
        error=_or_null(_one_of(*ENGINE_CODES, *DECISION_CODES)),
        verdict=_one_of("allow", "revise", "block"),
        outcome=_one_of("executed", "refused", "uncertain", "withheld"),
        enforced=_of_type("boolean"),
        revision={"value": [*_REVISION["value"], {"enum": [""]}]},
        engine=_object(
            name=_text("^[a-z-]{1,20}$"),
            version=_text("^[0-9A-Za-z.+-]{1,40}$"),
            decision_id=_or_null(_RANDOM),
        ),
        ledger_digest=_NOTHING,  # whoever guesses the facts could confirm them by it
        facts={
            "items": _object(
                path={"path": True},
                tool=_one_of(*log["tools"]),
                call_id=_RANDOM,
                turn=_of_type("integer"),
                at=_text(INSTANT),
            )
        },
        latency_ms=_of_type("number"),
        previous=_or_null(_REVISION),
        redacted=_of_type("null"),
    )


def _input_marks(file: ToolsFile, facts: Marks) -> Marks:
    tool = _one_of(*sorted(tool.name for tool in file.tools))
    call: dict[str, Marks] = {"tool": tool, "arguments": _NOTHING}
    return _object(
        contract=_one_of(GATE_INPUT),
        request=_RANDOM,
        domain=_one_of(file.domain),
        session=_object(
            id=_RANDOM,
            now=_text(INSTANT),
            turn=_of_type("integer"),
            rejections=_of_type("integer"),
            principal=_or_null(
                _object(
                    id=_at(facts, file.principal_path),
                    source=_one_of("host", "proof", "claimed"),
                    claims=_CLOSED,
                )
            ),
        ),
        action=_call(**call, call_id=_RANDOM),
        ledger=facts,
        stale=_PATHS,
        history={"items": _call(**call, outcome=_one_of("executed", "uncertain", "pending"))},
        siblings={"items": _call(**call)},
        grants={"items": _grant_marks(call, file, facts)},
    )


def _grant_marks(call: Mapping[str, Marks], file: ToolsFile, facts: Marks) -> Marks:
    return _call(
        **call,
        id=_RANDOM,
        kind=_one_of("approval", "user_confirmation"),
        predicates={"items": _RULE_ID},
        domain=_one_of(file.domain),
        session=_RANDOM,
        facts=_NOTHING,  # whoever guesses the facts could confirm them by it
        approver=_at(facts, file.principal_path),  # a person, as the principal is
        issued=_text(INSTANT),
        expires=_object(session=_text(INSTANT), host=_text(INSTANT)),
    )


def _decision_marks(approver: Marks) -> Marks:
    return _object(
        contract=_one_of(DECISION),
        request=_RANDOM,
        verdict=_one_of("allow", "revise", "block"),
        findings={
            "items": _object(
                predicate=_RULE_ID,
                status=_one_of("violated", "unknown"),
                verdict=_one_of("revise", "block"),
                mode=_one_of("enforce", "shadow", "lifted"),
                message=_NOTHING,  # it quotes values
                paths=_PATHS,
                missing={"items": _object(path={"path": True}, cause=_one_of("missing", "stale"))},
            )
        },
        predicates={"items": _RULE_ID},
        overrides={
            "items": _object(
                target=_RULE_ID,
                mode=_WORD,
                verdict=_WORD,
                owner=_NOTHING,
                reason=_NOTHING,
                expires=_text("^[0-9]{4}-[0-9]{2}-[0-9]{2}$"),
                applied=_of_type("boolean"),
            )
        },
        obligations={
            "items": _object(
                kind=_one_of("approval", "user_confirmation"),
                predicate=_RULE_ID,
                approvers=_or_null({"items": approver}),
                grant=_or_null(_RANDOM),
            )
        },
        policy=_object(
            revision=_REVISION,
            gate=_REVISION,
            sequence={"each": _of_type("integer"), "keys": [{"enum": list(_NUMBERED)}]},
        ),
    )


def _at(marks: Marks, path: list[str]) -> Marks:
    for key in path:
        marks = marks.get("fields", {}).get(key, marks.get("each", _NOTHING))
    return {"value": marks["value"]} if "value" in marks else _NOTHING


def _of_schema(raw: Schema, resolved: Callable[[Schema], Schema]) -> dict[str, Any]:
    node = resolved(raw)
    marks: dict[str, Any] = {}
    checks = _checks(node, resolved)
    if checks:
        marks["value"] = checks
    if "properties" in node:
        marks["fields"] = {name: _of_schema(below, resolved) for name, below in node["properties"].items()}
    if isinstance(node.get("additionalProperties"), Mapping):
        marks["each"] = _of_schema(node["additionalProperties"], resolved)
        keys = _key_checks(node, resolved)
        if keys:
            marks["keys"] = keys
    if isinstance(node.get("items"), Mapping):
        marks["items"] = _of_schema(node["items"], resolved)
    return marks


def _key_checks(node: Schema, resolved: Callable[[Schema], Schema]) -> list[Marks]:
    """A map's keys may be shown when `propertyNames` is marked, or the id that its records carry themselves."""
    names = resolved(node.get("propertyNames", {}))
    if _mark(names):
        return _checks({"type": "string", **names}, resolved)
    below = resolved(node["additionalProperties"])
    own = below.get("properties", {}).get(below.get("x-id"))
    return _checks(resolved(own), resolved) if own is not None else []


def _checks(node: Schema, resolved: Callable[[Schema], Schema]) -> list[Marks]:
    """What a marked node's own value must be to be shown: one check for each shape it may have."""
    mark = _mark(node)
    if not mark:
        return []
    shapes = [resolved(shape) for shape in node.get("anyOf", [node])]
    return [check for shape in shapes if (check := _check(shape, mark)) is not None]


def _check(shape: Schema, mark: bool | str) -> dict[str, Any] | None:
    check: dict[str, Any] = {}
    types = [name for name in _types(shape) if name in _SCALARS]
    values = shape.get("enum", [shape["const"]] if "const" in shape else None)
    if not types and values is None:
        return None
    if types:
        check["types"] = types
    if values is not None:
        check["enum"] = list(values)
    patterns = [pattern for pattern in (shape.get("pattern"), mark) if isinstance(pattern, str)]
    if patterns:
        check["patterns"] = patterns
    return check


def _types(shape: Schema) -> list[str]:
    types = shape.get("type", [])
    return [types] if isinstance(types, str) else list(types)


def _mark(node: Schema) -> bool | str:
    mark = node.get(_MARK, False)
    return mark if isinstance(mark, str | bool) else False


def _of_parameters(node: Parameters) -> dict[str, Any]:
    marks: dict[str, Any] = {}
    check = _check(_shape(node), node.log) if node.log is not None else None
    if check is not None:
        marks["value"] = [check]
    if node.properties is not None:
        marks["fields"] = {name: _of_parameters(below) for name, below in node.properties.items()}
    if node.items is not None:
        marks["items"] = _of_parameters(node.items)
    return marks


def _shape(node: Parameters) -> Schema:
    return node.model_dump(include={"type", "enum", "pattern"}, exclude_none=True)


def schema_problems(
    raw: Schema, resolved: Callable[[Schema], Schema], plain: Callable[[str], bool], place: str = ""
) -> Iterator[str]:
    """What is wrong with the marks of a ledger schema.

    Args:
        raw: its document.
        resolved: gives a schema node with its `$ref` filled in.
        plain: whether Python and OPA read a pattern alike.
        place: where the node is.
    """
    node = resolved(raw)
    if _MARK in node:
        yield from (f"{place or 'the ledger'}: {problem}" for problem in _mark_problems(node, resolved, plain))
        if place.count(".") >= _LEDGER_LEVELS:
            yield f"{place} lies more than {_LEDGER_LEVELS} levels deep, where nothing is logged; take its x-log out"
    for name, below in _below(node):
        yield from schema_problems(below, resolved, plain, f"{place}.{name}" if place else name)


def _below(node: Schema) -> Iterator[tuple[str, Schema]]:
    yield from node.get("properties", {}).items()
    for keyword, name in (("additionalProperties", "*"), ("items", "[*]")):
        if isinstance(node.get(keyword), Mapping):
            yield name, node[keyword]
    if isinstance(node.get("propertyNames"), Mapping):
        yield "propertyNames", {"type": "string", **node["propertyNames"]}


def _mark_problems(node: Schema, resolved: Callable[[Schema], Schema], plain: Callable[[str], bool]) -> Iterator[str]:
    mark = node[_MARK]
    if not isinstance(mark, bool | str):
        yield f"{_MARK} is true, false, or a pattern that what is logged must fit"
        return
    checks = _checks(node, resolved)
    if mark and not checks:
        yield f"{_MARK} marks a value, and no text, number, boolean or null can stand here; mark what stands below"
    for pattern in (one for check in checks for one in check.get("patterns", ())):
        if not plain(pattern):
            yield f"OPA may read {pattern!r} differently; begin with ^, end with $ and use plain syntax only"


def parameter_problems(node: Parameters, place: str, plain: Callable[[str], bool]) -> Iterator[str]:
    """What is wrong with the marks of a tool's parameters; arguments and returns as `schema_problems`."""
    if node.log is not None:
        yield from (f"{place}: {problem}" for problem in _parameter_mark_problems(node, plain))
    for name, below in (node.properties or {}).items():
        yield from parameter_problems(below, f"{place}.{name}", plain)
    if node.items is not None:
        yield from parameter_problems(node.items, f"{place}[]", plain)


def _parameter_mark_problems(node: Parameters, plain: Callable[[str], bool]) -> Iterator[str]:
    check = _check(_shape(node), node.log or False)
    if check is None:
        yield f"{_MARK} marks a value, and this is none; mark what stands below"
    elif "string" in check.get("types", ()) and not {"enum", "patterns"} & check.keys():
        # A model can put into an argument whatever the customer said.
        yield f"{_MARK} is true, so that any text would be logged; give it the pattern of what may be"
    if isinstance(node.log, str) and not plain(node.log):
        yield f"{_MARK} {node.log!r} must begin with ^, end with $ and use plain syntax only"
