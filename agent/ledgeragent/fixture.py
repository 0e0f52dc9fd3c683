"""From incident to test: a recorded decision as a Rego test and a contract vector.

The record's input is judged again with the policies the record names, cut down to what its decision needs
(`minimise`), and freed of personal data (`standins`); after each step the decision must still be the recorded one. What
is written passes with these policies and fails when a predicate that decided is taken away. Finding records and
policies, and printing, are the others' part.
"""

from __future__ import annotations

import hashlib
import json
import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ledgeragent.contracts import Decision, DecisionRecord, Finding
from ledgeragent.errors import BadInput, EngineError
from ledgeragent.gate import VECTORS
from ledgeragent.jsonio import parse
from ledgeragent.minimise import minimised
from ledgeragent.reopen import Deployed, Reopened, must_be_whole
from ledgeragent.standins import stood_in

Json = dict[str, Any]
_SHORT: Final = 8
_RANDOM: Final = re.compile(r"[0-9a-f]{16,64}\Z")
_WIDTH: Final = 100
_VERBS: Final = {"allow": "allowed", "revise": "revised", "block": "blocked"}
_NO_RAW: Final = re.compile(r"[`\x00-\x1f\x7f]")
_MAX_VECTORS: Final = 10_000_000


@dataclass(frozen=True)
class Fixture:
    """A test made of a decision.

    Attributes:
        stem: name of its file, without `_test.rego`.
        domain: the domain.
        input: the gate input, minimal and with stand-ins.
        decision: what the policies decide on it.
        rego: the text of the test file, as `opa fmt` has it.
        vector: an entry for the domain's vectors, or None: see `notes`.
        facts: how many values of the ledger are left, and how many there were.
        replaced: how many texts have stand-ins.
        notes: what a person should know of it, as sentences.
    """

    stem: str
    domain: str
    input: Json
    decision: Decision
    rego: str
    vector: Json | None
    facts: tuple[int, int]
    replaced: int
    notes: tuple[str, ...]


def short_id(record: DecisionRecord) -> str:
    """A few digits that name a decision in files; an id that was not drawn at random is not told."""
    request = record.input.request
    if not _RANDOM.match(request):
        request = hashlib.sha256(request.encode()).hexdigest()
    return request[:_SHORT]


def make_fixture(record: DecisionRecord, policies: Reopened, deployed: Deployed | None = None) -> Fixture:
    """Make a test of a decision.

    Args:
        record: the decision; its input must be whole.
        policies: those that the record names.
        deployed: the policy data beside them that `policies` are asked with.

    Raises:
        BadInput: when the record is redacted or holds no decision, or when the policies decide otherwise than recorded.
    """
    must_be_whole(record)
    if record.decision is None:
        raise BadInput(f"the record holds no decision but the error {record.error}: there is no rule to test")
    whole = record.input.model_dump(mode="json")
    decided = _decided(policies, whole)
    if _outcome(decided) != _outcome(record.decision):
        raise BadInput(_differs(record.decision, decided))
    said = _said(decided)
    small = minimised(whole, lambda given: _or_none(policies, given, _said) == said)
    outcome = _outcome(decided)
    shown = stood_in(policies.domain, small, lambda given: _or_none(policies, given, _outcome) == outcome)
    return _made(record, policies, deployed or Deployed(), shown.input, (whole, shown.replaced, shown.kept))


def _made(
    record: DecisionRecord,
    policies: Reopened,
    deployed: Deployed,
    small: Json,
    about: tuple[Json, int, tuple[str, ...]],
) -> Fixture:
    whole, replaced, kept = about
    decision = _decided(policies, small)
    short = short_id(record)
    subject = decision.findings[0].predicate.partition(".")[2] if decision.findings else small["action"]["tool"]
    stem = f"{_word(subject)}_{short}"
    data = deployed.of(small["domain"])
    vector = _vector(policies, small, decision, short)
    notes = [f"{place} stays as it was: the decision depends on it" for place in kept]
    if vector is None:
        notes.append("no vector: vectors are judged without overrides, floor and freeze, and these decided here")
    return Fixture(
        stem=stem,
        domain=small["domain"],
        input=small,
        decision=decision,
        rego=_rego(record, stem, small, decision, data),
        vector=vector,
        facts=(_count(small["ledger"]), _count(whole["ledger"])),
        replaced=replaced,
        notes=tuple(notes),
    )


def write_fixture(fixture: Fixture, folder: Path) -> list[Path]:
    """Write the test, and add the vector to `vectors/<domain>/vectors.json` below the folder.

    OPA reads every JSON file beside tests as data under its folder's name; there it is in nobody's way.

    Returns:
        The files written.

    Raises:
        BadInput: when the folder's file of vectors is none.
        OSError: when something cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    test = folder / f"{fixture.stem}_test.rego"
    test.write_text(fixture.rego, encoding="utf-8")
    if fixture.vector is None:
        return [test]
    path = folder / "vectors" / fixture.domain / "vectors.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    others = [one for one in _vectors(path, fixture.domain) if one["name"] != fixture.vector["name"]]
    document = {"contract": VECTORS, "domain": fixture.domain, "vectors": [*others, fixture.vector]}
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return [test, path]


def _vectors(path: Path, domain: str) -> list[Json]:
    if not path.is_file():
        return []
    document = parse(path.read_text(encoding="utf-8"), what=str(path), limit=_MAX_VECTORS)
    if not isinstance(document, dict) or (document.get("contract"), document.get("domain")) != (VECTORS, domain):
        raise BadInput(f"{path} is there and holds no vectors of {domain}; name another folder")
    found: list[Json] = document["vectors"]
    return found


# Judging -------------------------------------------------------------------------------------------------------------


def _decided(policies: Reopened, given: Mapping[str, Any]) -> Decision:
    decision = policies.decide(given)
    if decision is None:
        raise BadInput(f"the policies of {policies.source.name} give no decision on the record's input")
    return decision


def _or_none(policies: Reopened, given: Mapping[str, Any], what: Any) -> Any:
    decision = policies.decide(given)
    return None if decision is None else what(decision)


def _said(decision: Decision) -> Any:
    """All that must stay while facts are taken away: the words of the findings hold the values that decided."""
    return decision.model_dump(exclude={"request": True, "policy": True, "findings": {"__all__": {"paths"}}})


def _outcome(decision: Decision) -> Any:
    """What must stay when texts are replaced: the words of the findings quote them."""
    findings = [
        (one.predicate, one.status, one.verdict, one.mode, sorted(fact.cause for fact in one.missing))
        for one in decision.findings
    ]
    return decision.verdict, findings, decision.predicates


def _differs(recorded: Decision, decided: Decision) -> str:
    return (
        f"the policies at hand decide otherwise than recorded: {_shown(decided)} instead of {_shown(recorded)}. If "
        "overrides, a floor or a freeze were in force, give them as they were then"
    )


def _shown(decision: Decision) -> str:
    found = ", ".join(f"{one.predicate} {one.status}" for one in decision.findings)
    return f"{decision.verdict} ({found or 'no finding'})"


def _vector(policies: Reopened, small: Json, decision: Decision, short: str) -> Json | None:
    try:
        proof = policies.engine.evaluate(small["domain"], "proof", small)
    except EngineError:
        return None
    if not isinstance(proof, dict):
        return None
    kept = {key: value for key, value in proof.items() if key not in ("request", "policy")}
    if kept != json.loads(decision.model_dump_json(exclude={"request", "policy"})):
        return None
    return {"name": f"{_summary(small, decision)} ({short})", "input": small, "decision": kept}


def _summary(small: Json, decision: Decision) -> str:
    why = ", ".join(f"{one.predicate} {_word_of(one)}" for one in decision.findings)
    return f"{small['action']['tool']} is {_VERBS[decision.verdict]}{f': {why}' if why else ''}"


def _word_of(finding: Finding) -> str:
    return f"{finding.status}, and lifted" if finding.mode == "lifted" else finding.status


def _count(value: Any) -> int:
    """How many values that are no objects or lists."""
    if isinstance(value, Mapping):
        return sum(_count(one) for one in value.values())
    if isinstance(value, list):
        return sum(_count(one) for one in value)
    return 1


def _word(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", text.casefold()).strip("_") or "call"


# Rego ----------------------------------------------------------------------------------------------------------------


def _rego(record: DecisionRecord, stem: str, small: Json, decision: Decision, data: Mapping[str, Any]) -> str:
    domain = small["domain"]
    header = _comment(
        f"{_summary(small, decision)}. Made by `ledgeragent fixture {short_id(record)}` of a decision recorded "
        f"{record.at[:10]} under the policies {record.revision[:19]}…: what did not decide is left out, what is "
        "personal has stand-ins."
    )
    tool = _word(small["action"]["tool"])
    withs = "".join(f"\n\t\twith data.{root} as {root.removeprefix('ledgeragent_')}" for root in data)
    rules = "".join(f"\n{root.removeprefix('ledgeragent_')} := {_term(one, 0)}\n" for root, one in data.items())
    findings = [f"[{_text(one.predicate)}, {_text(one.status)}]" for one in decision.findings]
    return f"""\
{header}
package ledgeragent.{domain}.{stem}_test

import data.ledgeragent.{domain}

request := {_term(small, 0)}
{rules}
test_{tool}_is_{_VERBS[decision.verdict]} if {{
	decision := {domain}.decision with input as request{withs}
	decision.verdict == "{decision.verdict}"
	found := [[finding.predicate, finding.status] | some finding in decision.findings]
	found == {_listed(findings, 1)}
}}
"""


def _comment(text: str) -> str:
    return "\n".join(textwrap.wrap(text, 116, initial_indent="# ", subsequent_indent="# ", break_long_words=False))


def _term(value: Any, level: int) -> str:
    """A JSON value as `opa fmt` writes it; short ones that hold no object stay on their line."""
    flat = _flat(value)
    if flat is not None and len(flat) + level * 4 <= _WIDTH:
        return flat
    if isinstance(value, Mapping):
        rows = [f"{_text(key)}: {_term(one, level + 1)}" for key, one in value.items()]
        return _rows("{", rows, "}", level)
    if isinstance(value, list):
        return _listed([_term(one, level + 1) for one in value], level)
    return _flat(value) or "null"


def _flat(value: Any) -> str | None:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping):
        inside = [(key, _flat(one)) for key, one in value.items()]
        if len(inside) > 1 and any(isinstance(one, Mapping) and one for one in value.values()):
            return None
        return _closed("{", [None if one is None else f"{_text(key)}: {one}" for key, one in inside], "}")
    if isinstance(value, list):
        if len(value) > 1 and any(isinstance(one, Mapping) for one in value):
            return None
        return _closed("[", [_flat(one) for one in value], "]")
    return json.dumps(value)


def _closed(left: str, parts: list[str | None], right: str) -> str | None:
    return None if None in parts else left + ", ".join(part or "" for part in parts) + right


def _listed(parts: list[str], level: int) -> str:
    flat = f"[{', '.join(parts)}]"
    if len(flat) + level * 4 <= _WIDTH and "\n" not in flat:
        return flat
    return _rows("[", parts, "]", level)


def _rows(left: str, rows: list[str], right: str, level: int) -> str:
    inside = "".join(f"{chr(9) * (level + 1)}{row},\n" for row in rows)
    return f"{left}\n{inside}{chr(9) * level}{right}"


def _text(text: str) -> str:
    """A text; raw where it would need escapes, as `opa fmt` and the linter like it."""
    quoted = json.dumps(text, ensure_ascii=False)
    if "\\" in quoted and not _NO_RAW.search(text):
        return f"`{text}`"
    return quoted
