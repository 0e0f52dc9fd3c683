"""A campaign of generated and mutated gate inputs and answers: no allow that the oracle does not grant, no foreign error.

Every test run takes a share; `make campaign` runs 100,000 and prints what came of them. Inputs go through `Gate.judge` on
the embedded engine, answers through an engine that meddles with them: changed in one place, exchanged for the answer to
another question, replaced by any JSON, or damaged as bytes before they are parsed as an OPA server's are. What is *not*
among them is an answer that was made up whole, with verdict, findings, predicates, request and revision of its own: that
would be OPA's word.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from ledgeragent.domain import Domain
from ledgeragent.engine import Engine
from ledgeragent.engine.base import Rule, decode_answer, result_of
from ledgeragent.errors import DECISION_CODES, ENGINE_CODES
from ledgeragent.gate import Gate, Judged
from ledgeragent.policies import SCHEMAS, domains
from oracle import retail, worlds
from support.engines import Meddled
from test_jsonio import values

pytest_plugins = ["support.fixtures"]

JSON = Any
TOTAL: Final = int(os.environ.get("LEDGERAGENT_CAMPAIGN", "0"))
SHARES: Final = {"worlds": 0.2, "inputs": 0.25, "vectors": 0.05, "answers": 0.5}
IN_EVERY_RUN: Final = 1_000
WORDS: Final = (
    *("allow", "revise", "block", "enforce", "shadow", "violated", "unknown"),
    *(
        "gate.input",
        "gate.tool",
        "gate.arguments",
        "gate.unguarded",
        "gate.loop",
        "gate.floor",
        "gate.frozen",
        "retail.order_owner",
    ),
)
"""What an answer is made of: the values that could turn it into another."""


def share(name: str) -> Callable[[Any], Any]:
    """How often a property is tried: a little in every test run, its part of the total in a campaign."""
    examples = max(1, int((TOTAL or IN_EVERY_RUN) * SHARES[name]))
    if not TOTAL:
        return settings(max_examples=examples)
    quiet = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    return settings(
        max_examples=examples,
        derandomize=False,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=quiet,
    )


def picking(draw: st.DrawFn) -> worlds.Pick:
    return lambda choices: draw(st.sampled_from(choices))


worlds_drawn = st.composite(lambda draw: worlds.world(picking(draw)))()


@cache
def vectors(domain: str) -> Sequence[JSON]:
    document = json.loads((SCHEMAS / "vectors" / f"{domain}.json").read_text(encoding="utf-8"))
    return [vector["input"] for vector in document["vectors"]]


@st.composite
def mutated_inputs(draw: st.DrawFn) -> JSON:
    """A made-up world or a vector, changed in one to three places."""
    sound = draw(worlds_drawn | st.sampled_from(vectors("retail")))
    return worlds.mutated(sound, picking(draw))


@st.composite
def mutated_vectors(draw: st.DrawFn) -> tuple[str, JSON]:
    """A domain, and a vector of it changed in one to three places."""
    domain = draw(st.sampled_from(domains()))
    return domain, worlds.mutated(draw(st.sampled_from(vectors(domain))), picking(draw))


Meddling = Callable[[JSON], JSON]


@st.composite
def changed_in_one_place(draw: st.DrawFn) -> Meddling:
    """One part of the answer is deleted, replaced, wrapped or renamed; another answer's words are among what replaces."""
    place = draw(st.integers(0, 10_000))
    change = draw(st.sampled_from(("delete", "replace", "replace", "replace", "wrap", "rename")))
    value = draw(st.sampled_from((*WORDS, *worlds.ODD)))

    def meddle(answer: JSON) -> JSON:
        changed = json.loads(json.dumps(answer))
        places = list(worlds.places(changed))
        worlds.change(*places[place % len(places)], change, json.loads(json.dumps(value)))
        return changed

    return meddle


@st.composite
def damaged_as_bytes(draw: st.DrawFn) -> Meddling:
    """The body of OPA's HTTP answer is cut, overwritten, or repeated in part."""
    at, length = draw(st.integers(0, 5_000)), draw(st.integers(1, 40))
    damage = draw(st.sampled_from(("cut", "overwrite", "repeat", "remove")))
    noise = draw(st.binary(min_size=1, max_size=8) | st.sampled_from([b'"', b"{", b"}", b"[]", b"null", b'"allow"']))

    def meddle(answer: JSON) -> JSON:
        raw = json.dumps({"result": answer}).encode()
        begin = at % len(raw)
        changed = {
            "cut": raw[:begin],
            "overwrite": raw[:begin] + noise + raw[begin + len(noise) :],
            "repeat": raw[: begin + length] + raw[begin:],
            "remove": raw[:begin] + raw[begin + length :],
        }[damage]
        return result_of(decode_answer(changed, "OPA"), "ledgeragent/retail/decision", "OPA")

    return meddle


def replaced_by(anything: JSON) -> Meddling:
    return lambda answer: anything


meddlings = changed_in_one_place() | damaged_as_bytes() | values.map(replaced_by)


@pytest.fixture
def tally(capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest) -> Iterator[Counter[str]]:
    """Counts what came of the examples; a campaign prints it."""
    counts: Counter[str] = Counter()
    yield counts
    if TOTAL:
        with capsys.disabled():
            sys.stdout.write(f"\n{request.node.name}: {counts.total()} examples: {dict(counts.most_common())}\n")


def counted(judged: Judged, tally: Counter[str]) -> Judged:
    """What was judged; a failure is of the closed lists, and never one of the host itself."""
    if judged.failure is not None:
        assert (judged.verdict, judged.decision) == ("block", None)
        assert judged.failure.code in (*ENGINE_CODES, *DECISION_CODES)
        assert judged.failure.code != "host.internal", judged.failure
    tally[judged.failure.code if judged.failure is not None else judged.verdict] += 1
    return judged


def test_worlds_are_decided_as_the_oracle_says(gate: Gate, tally: Counter[str]) -> None:
    @share("worlds")
    @given(worlds_drawn)
    def decided(document: JSON) -> None:
        assert counted(gate.judge(document), tally).verdict == retail.expected(document).verdict

    decided()


def test_a_mutated_input_is_allowed_only_where_the_oracle_allows_it(gate: Gate, tally: Counter[str]) -> None:
    @share("inputs")
    @given(mutated_inputs())
    def decided(document: JSON) -> None:
        assume(isinstance(document, dict))
        verdict = counted(gate.judge(document), tally).verdict
        assert verdict != "allow" or retail.expected(document).verdict == "allow"

    decided()


def test_a_mutated_vector_of_any_domain_gets_a_decision_or_an_error_of_the_lists(
    embedded: Engine, tally: Counter[str]
) -> None:
    gates = {name: Gate(Domain.load(name), embedded) for name in domains()}

    @share("vectors")
    @given(mutated_vectors())
    def decided(given_: tuple[str, JSON]) -> None:
        domain, document = given_
        assume(isinstance(document, dict))
        counted(gates[domain].judge(document), tally)

    decided()


def test_a_meddled_answer_is_never_another_verdict_than_opas(
    retail_domain: Domain, embedded: Engine, tally: Counter[str]
) -> None:
    engine = Meddled(embedded, lambda rule, answer: answer)
    gate = Gate(retail_domain, engine)
    gate.prove()

    @share("answers")
    @given(worlds_drawn | st.sampled_from(vectors("retail")), meddlings | worlds_drawn)
    def decided(document: JSON, meddling: Meddling | JSON) -> None:
        told: list[JSON] = []

        def change(rule: Rule, answer: JSON) -> JSON:
            if rule == "proof":
                return answer
            told.append(answer)
            if callable(meddling):
                return meddling(answer)
            other = {**meddling, "request": "another request"}
            return embedded.evaluate("retail", "decision", other)

        engine.change = change
        judged = counted(gate.judge(document), tally)
        assert judged.failure is not None or judged.verdict == told[0]["verdict"]
        assert judged.verdict != "allow" or retail.expected(document).verdict == "allow"

    decided()
