"""Fixtures made of records: they pass on the policies of their records, and fail when what decided is taken away.

`bench/fixtures.py` does the same with 200 records of the reference data.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ledgeragent import policies
from ledgeragent.contracts import DecisionRecord
from ledgeragent.conversation import open_lines, read_conversation
from ledgeragent.domain import Domain
from ledgeragent.engine import Engine
from ledgeragent.errors import BadInput
from ledgeragent.fixture import Fixture, make_fixture, short_id, write_fixture
from ledgeragent.gate import Gate, load_vectors
from ledgeragent.jsonio import canonical
from ledgeragent.policies import EXAMPLES, REGO
from ledgeragent.policysource import PolicySources
from ledgeragent.records import JsonlRecorder, read_records
from ledgeragent.redact import Pseudonyms, Redacted
from ledgeragent.reopen import Deployed, Reopener
from support.fixture_check import sampled, survivors, test_results
from support.recorded import write_records

COUNT = 14


@dataclass(frozen=True)
class Made:
    """Fixtures of one sample.

    Attributes:
        records: the sample.
        fixtures: one for each.
        folder: where they are written.
    """

    records: list[DecisionRecord]
    fixtures: list[Fixture]
    folder: Path


@pytest.fixture(scope="module")
def reopener() -> Iterator[Reopener]:
    with PolicySources() as sources, Reopener(sources) as reopener:
        yield reopener


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, embedded: Engine) -> list[Path]:
    """Records of the example conversations, one file a domain."""
    folder = tmp_path_factory.mktemp("records")
    found = []
    for name in policies.domains():
        lines = open_lines(str(EXAMPLES / "conversations" / f"{name}.jsonl"))
        talks = (read_conversation(line, place=place) for place, line in lines)
        found.append(write_records(folder / f"{name}.jsonl", talks, Gate(Domain.load(name), embedded)))
    return found


@pytest.fixture(scope="module")
def made(files: list[Path], reopener: Reopener, tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("fixtures")
    records = sampled(files, COUNT, seed=6)
    fixtures = [make_fixture(record, reopener.of(record)) for record in records]
    for fixture in fixtures:
        write_fixture(fixture, folder)
    return Made(records, fixtures, folder)


def test_the_sample_holds_every_domain_verdict_and_status(made: Made) -> None:
    assert {one.domain for one in made.fixtures} == set(policies.domains())
    assert {one.decision.verdict for one in made.fixtures} == {"allow", "revise", "block"}
    assert {found.status for one in made.fixtures for found in one.decision.findings} == {"violated", "unknown"}


def test_every_fixture_passes_on_the_policies_of_its_record(made: Made, opa_binary: Path) -> None:
    assert test_results(opa_binary, REGO, made.folder) == {one.stem: True for one in made.fixtures}


def test_every_fixture_fails_when_a_predicate_that_decided_is_taken_away(
    made: Made, opa_binary: Path, tmp_path: Path
) -> None:
    assert survivors(opa_binary, REGO, made.fixtures, made.folder, tmp_path) == {}


def test_fixtures_are_formatted_and_pass_the_strict_check(made: Made, opa_binary: Path) -> None:
    listed = subprocess.run(
        [str(opa_binary), "fmt", "--list", str(made.folder)], capture_output=True, text=True, check=True
    )
    assert listed.stdout == ""
    subprocess.run([str(opa_binary), "check", "--strict", str(REGO), str(made.folder)], check=True)
    assert max(len(line) for one in made.fixtures for line in one.rego.splitlines()) <= 120


def test_a_fixture_shows_what_its_record_showed_with_less(made: Made) -> None:
    for record, fixture in zip(made.records, made.fixtures, strict=True):
        assert record.decision is not None
        assert fixture.decision.verdict == record.verdict
        assert [(one.predicate, one.status) for one in fixture.decision.findings] == [
            (one.predicate, one.status) for one in record.decision.findings
        ]
        assert fixture.facts[0] <= fixture.facts[1]
        assert fixture.notes == ()
    assert sum(one.facts[0] for one in made.fixtures) < sum(one.facts[1] for one in made.fixtures)


def test_vectors_are_entries_of_the_domains_vectors(made: Made, tmp_path: Path) -> None:
    for name in policies.domains():
        own = json.loads((made.folder / "vectors" / name / "vectors.json").read_text(encoding="utf-8"))
        assert (own["contract"], own["domain"]) == ("ledgeragent.vectors/1", name)
        shipped = json.loads((policies.SCHEMAS / "vectors" / f"{name}.json").read_text(encoding="utf-8"))
        both = tmp_path / f"{name}.json"
        both.write_text(json.dumps({**shipped, "vectors": shipped["vectors"] + own["vectors"]}), encoding="utf-8")
        assert len(load_vectors(both, Domain.load(name))) == len(shipped["vectors"]) + len(own["vectors"])


def test_policies_with_vectors_of_fixtures_prove_themselves(made: Made, embedded: Engine, tmp_path: Path) -> None:
    shipped = json.loads((policies.SCHEMAS / "vectors" / "retail.json").read_text(encoding="utf-8"))
    shipped["vectors"] += [one.vector for one in made.fixtures if one.domain == "retail"]
    both = tmp_path / "retail.json"
    both.write_text(json.dumps(shipped), encoding="utf-8")
    Gate(Domain.load("retail"), embedded, vectors=both).prove()


def test_a_fixture_made_again_is_the_same_and_its_vector_stands_once(
    made: Made, reopener: Reopener, tmp_path: Path
) -> None:
    [record, *_] = made.records
    again = make_fixture(record, reopener.of(record))
    assert again.rego == made.fixtures[0].rego
    for _ in range(2):
        write_fixture(again, tmp_path)
    written = json.loads((tmp_path / "vectors" / again.domain / "vectors.json").read_text(encoding="utf-8"))
    assert written["vectors"] == [again.vector]
    assert again.stem.endswith(short_id(record))


def test_no_text_of_the_record_that_may_not_be_logged_is_left(made: Made) -> None:
    for record, fixture in zip(made.records, made.fixtures, strict=True):
        principal = record.input.session.principal
        assert principal is None or principal.id not in fixture.rego + json.dumps(fixture.vector)


def test_a_record_that_is_masked_is_refused_and_one_with_pseudonyms_is_taken(
    made: Made, reopener: Reopener, opa_binary: Path, tmp_path: Path
) -> None:
    domains = [Domain.load(name) for name in policies.domains()]
    record = next(one for one in made.records if one.input.domain == "retail" and one.verdict == "block")
    forms = {"masked": Redacted(*domains), "pseudonyms": Pseudonyms(*domains, key=b"k" * 32)}
    found = {}
    for name, form in forms.items():
        recorder = JsonlRecorder(tmp_path / name, form)
        recorder.write(record)
        recorder.close()
        [found[name]] = read_records(tmp_path / name)
    masked, pseudonyms = found["masked"], found["pseudonyms"]
    assert isinstance(masked, DecisionRecord)
    assert isinstance(pseudonyms, DecisionRecord)
    with pytest.raises(BadInput, match=r"the record is kept as redacted: .* cannot be judged again"):
        make_fixture(masked, reopener.of(masked))
    assert pseudonyms.redacted is not None
    assert pseudonyms.redacted.judged_again == "by_equality"
    fixture = make_fixture(pseudonyms, reopener.of(pseudonyms))
    write_fixture(fixture, tmp_path / "made")
    assert test_results(opa_binary, REGO, tmp_path / "made") == {fixture.stem: True}


def test_a_record_that_the_policies_decide_otherwise_is_refused(made: Made, reopener: Reopener) -> None:
    record = next(one for one in made.records if one.verdict == "block")
    assert record.decision is not None
    other = record.model_copy(
        update={"verdict": "allow", "decision": record.decision.model_copy(update={"verdict": "allow", "findings": []})}
    )
    with pytest.raises(BadInput, match="the policies at hand decide otherwise than recorded: block"):
        make_fixture(other, reopener.of(record))


def test_a_decision_under_overrides_is_tested_under_them_and_gives_no_vector(
    files: list[Path], embedded: Engine, opa_binary: Path, tmp_path: Path
) -> None:
    entry = {"mode": "shadow", "owner": "ops", "reason": "a trial", "expires": "2099-01-01"}
    (tmp_path / "overrides.json").write_text(
        json.dumps({"retail": {"predicates": {"retail.order_pending": entry}}}), encoding="utf-8"
    )
    record = next(
        one
        for one in read_records(next(file for file in files if file.stem == "retail"))
        if isinstance(one, DecisionRecord)
        and one.decision is not None
        and [(found.predicate, found.status) for found in one.decision.findings]
        == [("retail.order_pending", "violated")]
    )
    deployed = Deployed.read({"overrides": tmp_path / "overrides.json"})
    with PolicySources() as sources, Reopener(sources, deployed=deployed) as reopener:
        opened = reopener.of(record)
        decision = opened.decide(json.loads(canonical(record.input.model_dump(mode="json"))))
        assert decision is not None
        allowed = record.model_copy(update={"decision": decision, "verdict": decision.verdict})
        fixture = make_fixture(allowed, opened, deployed)
    assert (fixture.decision.verdict, fixture.decision.findings[0].mode, fixture.vector) == ("allow", "shadow", None)
    assert fixture.notes == (
        "no vector: vectors are judged without overrides, floor and freeze, and these decided here",
    )
    write_fixture(fixture, tmp_path / "made")
    assert test_results(opa_binary, REGO, tmp_path / "made") == {fixture.stem: True}
    listed = subprocess.run(
        [str(opa_binary), "fmt", "--list", str(tmp_path / "made")], capture_output=True, text=True, check=True
    )
    assert listed.stdout == ""


def test_policies_without_a_compiled_module_are_asked_with_a_local_opa(
    made: Made, opa_binary: Path, tmp_path: Path
) -> None:
    record = next(one for one in made.records if (one.input.domain, one.verdict) == ("retail", "block"))
    own = tmp_path / "own"
    shutil.copytree(REGO, own / "rego")
    shutil.copytree(policies.SCHEMAS, own / "schemas")
    rule = own / "rego/ledgeragent/retail/cancel_reason/cancel_reason.rego"
    rule.write_text(rule.read_text(encoding="utf-8") + "\nanother := true\n", encoding="utf-8")
    data = own / "rego/ledgeragent/retail/data.json"
    with PolicySources() as sources:
        before, after = record.revision, sources.find(str(own)).revisions()["retail"]
        data.write_text(data.read_text(encoding="utf-8").replace(before, after), encoding="utf-8")
        changed = record.model_copy(update={"revision": after})
        with Reopener(sources, str(own)) as reopener:
            opened = reopener.of(changed)
            assert (opened.source.policies, opened.engine.name) == (own / "rego", "opa-local")
            fixture = make_fixture(changed, opened)
    assert f"the policies {after[:19]}" in " ".join(fixture.rego.replace("# ", "").split())
    write_fixture(fixture, tmp_path / "made")
    assert test_results(opa_binary, own / "rego", tmp_path / "made") == {fixture.stem: True}
