"""Whatever JSON goes in: a valid decision comes out, and `allow` only where the rules, said again in Python, allow.

The rules are said again for retail only; of the other domains, changed vectors have to get valid decisions.
"""

from __future__ import annotations

import json
import random
from functools import cache
from typing import Any, TypeVar

import jsonschema
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgeragent.engine import Engine, LocalOpa
from ledgeragent.policies import SCHEMAS, domains
from oracle import retail, worlds

T = TypeVar("T")
NEVER_UNKNOWN = {"common.no_repeat_write", "retail.cancel_reason"}  # they need no fact
NEVER_VIOLATED = {"retail.user_authenticated"}  # a user id that fits the ledger schema is one
VERDICTS = ("allow", "revise", "block")
EXAMPLES = settings(max_examples=250)

worlds_drawn = st.composite(lambda draw: worlds.world(lambda values: draw(st.sampled_from(values))))()


@st.composite
def mutated(draw: st.DrawFn) -> Any:
    """A vector or a made-up world with parts deleted, replaced or mistyped anywhere."""
    sound = draw(worlds_drawn | st.sampled_from(vectors("retail")))
    return worlds.mutated(sound, lambda values: draw(st.sampled_from(values)))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda below: st.lists(below, max_size=4) | st.dictionaries(st.text(max_size=12), below, max_size=4),
    max_leaves=20,
)


@cache
def vectors(domain: str) -> list[Any]:
    """The inputs of the domain's vectors."""
    document = json.loads((SCHEMAS / "vectors" / f"{domain}.json").read_text(encoding="utf-8"))
    return [vector["input"] for vector in document["vectors"]]


@cache
def decision_schema() -> jsonschema.Draft202012Validator:
    """The contract of decisions."""
    return jsonschema.Draft202012Validator(json.loads((SCHEMAS / "decision.schema.json").read_text(encoding="utf-8")))


@st.composite
def changed_vector(draw: st.DrawFn) -> tuple[str, Any]:
    """A domain, and a vector of it with parts deleted, replaced or mistyped anywhere."""
    domain = draw(st.sampled_from(domains()))
    sound = draw(st.sampled_from(vectors(domain)))
    return domain, worlds.mutated(sound, lambda values: draw(st.sampled_from(values)))


def decided(opa: LocalOpa, document: Any, domain: str = "retail") -> Any:
    """The strict server's decision, held against its contract; an HTTP 500 would be raised here."""
    decision = opa.evaluate(domain, "decision", document)
    decision_schema().validate(decision)
    return decision


def causes(decision: Any) -> list[tuple[list[str], str]]:
    """(path, cause) of everything that the findings miss."""
    return [(row["path"], row["cause"]) for one in decision["findings"] for row in one["missing"]]


def found(decision: Any) -> frozenset[tuple[str, str, str]]:
    """(predicate, status, verdict) of every finding."""
    return frozenset((one["predicate"], one["status"], one["verdict"]) for one in decision["findings"])


@EXAMPLES
@given(document=worlds_drawn)
def test_a_well_formed_input_gets_the_verdict_and_findings_of_the_rules(local_opa: LocalOpa, document: Any) -> None:
    decision = decided(local_opa, document)

    assert retail.Expected(decision["verdict"], found(decision)) == retail.expected(document)
    assert decision["request"] == document["request"]
    assert causes(decision) == [(path, retail.cause(document, path)) for path, _ in causes(decision)]


@EXAMPLES
@given(document=mutated())
def test_a_changed_input_is_allowed_only_where_the_rules_allow_it(local_opa: LocalOpa, document: Any) -> None:
    decision = decided(local_opa, document)

    assert decision["verdict"] != "allow" or retail.expected(document).verdict == "allow"
    assert retail.well_formed(document) == ("gate.input" not in {one["predicate"] for one in decision["findings"]})


@EXAMPLES
@given(changed=changed_vector())
def test_a_changed_vector_of_any_domain_gets_the_worst_verdict_of_its_findings(
    local_opa: LocalOpa, changed: tuple[str, Any]
) -> None:
    domain, document = changed
    decision = decided(local_opa, document, domain)

    verdicts = [one["verdict"] for one in decision["findings"] if one["mode"] == "enforce"]
    assert decision["verdict"] == max(verdicts, key=VERDICTS.index, default="allow")


@EXAMPLES
@given(document=json_values)
def test_any_other_json_is_blocked_as_malformed(local_opa: LocalOpa, document: Any) -> None:
    decision = decided(local_opa, document)

    assert decision["verdict"] == "block"
    assert [one["predicate"] for one in decision["findings"]] == ["gate.input"]


def test_the_vectors_are_decided_as_the_rules_say(local_opa: LocalOpa) -> None:
    for document in vectors("retail"):
        decision = decided(local_opa, document)
        assert retail.Expected(decision["verdict"], found(decision)) == retail.expected(document)


def test_thousands_of_made_up_inputs_reach_every_verdict_and_finding(embedded: Engine) -> None:
    """More cases than the first property has time for; together they reach whatever the rules can say."""
    pick = random.Random(2).choice
    reached: set[tuple[str, str]] = set()
    for _ in range(6000):
        document = worlds.world(pick)
        decision, expected = embedded.evaluate("retail", "decision", document), retail.expected(document)
        assert (document, retail.Expected(decision["verdict"], found(decision))) == (document, expected)
        assert all(cause == retail.cause(document, path) for path, cause in causes(decision))
        reached |= {(document["action"]["tool"], expected.verdict)}
        reached |= {(predicate, status) for predicate, status, _ in expected.findings}

    assert reached == {
        *((tool, verdict) for tool in retail.WRITES for verdict in ("allow", "revise", "block")),
        *((predicate, "violated") for predicate in retail.PREDICATES if predicate not in NEVER_VIOLATED),
        *((predicate, "unknown") for predicate in retail.PREDICATES if predicate not in NEVER_UNKNOWN),
        ("gate.arguments", "violated"),
        ("gate.loop", "violated"),
    }
