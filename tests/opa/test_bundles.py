"""Bundles that OPA pulls: packed by part, signed, checked, activated without a restart, refused when they should be."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ledgeragent.bundle import MANIFEST, SIGNATURES, Signing, bundles_of, pack, read_archive
from ledgeragent.bundlecheck import Expected, Trust, check_bundles
from ledgeragent.compile import Sources, data_texts, encoded, page_texts, write
from ledgeragent.domain import Domain
from ledgeragent.engine import OpaServer
from ledgeragent.errors import BadInput
from ledgeragent.gate import Gate
from ledgeragent.kitcheck import Found
from ledgeragent.parts import domain_part, gate_part
from ledgeragent.policies import EXAMPLES, REGO, SCHEMAS
from needs import need
from support.pulling import TOKEN, BundleServer, PullingOpa, pulling, wait

JSON = Any
TEAM = EXAMPLES / "deployments"
CANCEL = "cancel_pending_order"
STOPPED = {"retail": {"tools": {CANCEL: {"owner": "Security", "reason": "Incident 7.", "since": "2026-05-01"}}}}
LIFTED: JSON = {"retail": {"tools": {}}}
DEMAND = {"owner": "Audit", "reason": "Always.", "predicates": ["common.four_eyes"]}


@dataclass(frozen=True)
class Keys:
    """Key pairs of those who sign."""

    org: Path
    stranger: Path

    @property
    def public(self) -> Path:
        """The key that is trusted."""
        return self.org.with_suffix(".pub")


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    need(shutil.which("openssl"), "openssl")
    folder = tmp_path_factory.mktemp("keys")
    for name in ("org", "stranger"):
        private, public = str(folder / f"{name}.pem"), str(folder / f"{name}.pub")
        subprocess.run(["openssl", "genrsa", "-out", private, "2048"], check=True, capture_output=True)
        subprocess.run(["openssl", "rsa", "-in", private, "-pubout", "-out", public], check=True, capture_output=True)
    return Keys(folder / "org.pem", folder / "stranger.pem")


def shop(folder: Path, change: Callable[[Path], None] | None = None) -> Sources:
    """The sources of the gate and retail, changed, with everything generated anew."""
    sources = Sources(folder / "rego", folder / "schemas", folder / "compiled")
    for package in ("gate", "common", "retail"):
        below = Path("ledgeragent") / package
        shutil.copytree(REGO / below, sources.rego / below, ignore=shutil.ignore_patterns("*_test.rego"))
    shutil.copytree(SCHEMAS / "retail", sources.schemas / "retail")
    (sources.schemas / "vectors").mkdir()
    shutil.copy(SCHEMAS / "vectors" / "retail.json", sources.schemas / "vectors")
    if change is not None:
        change(sources.rego / "ledgeragent")
    write(encoded(page_texts(sources)))
    write(encoded(data_texts(sources)))
    return sources


def edited(name: str, old: str, new: str) -> Callable[[Path], None]:
    """Changes one text in one file below `ledgeragent`."""

    def change(rego: Path) -> None:
        text = (rego / name).read_text(encoding="utf-8")
        assert old in text
        (rego / name).write_text(text.replace(old, new), encoding="utf-8")

    return change


def extended(name: str, more: str) -> Callable[[Path], None]:
    """Adds to one file below `ledgeragent`."""

    def change(rego: Path) -> None:
        with (rego / name).open("a", encoding="utf-8") as file:
            file.write(more)

    return change


remarked = edited("retail/facts/facts.rego", "package ledgeragent.retail.facts", "package ledgeragent.retail.facts\n")
"""Another revision that decides as before."""

lenient = edited("retail/cancel_reason/cancel_reason.rego", "holds if input", "holds if true\n\nholds if input")
"""A revision that lets every reason pass, which no vector allows."""


class Packer:
    """Packs bundles of the shop and of policy data, signed unless told otherwise, and keeps them by name."""

    def __init__(self, folder: Path, opa: Path, keys: Keys) -> None:
        self._folder = folder
        self._opa = opa
        self._keys = keys
        self._count = 0
        self._packed: dict[Any, dict[str, bytes]] = {}

    def __call__(
        self,
        *only: str,
        sequence: int = 0,
        change: Callable[[Path], None] | None = None,
        key: Path | None = None,
        **policy_data: JSON,
    ) -> dict[str, bytes]:
        """Name → bytes of the bundles (all there are, or only those named)."""
        asked = (sequence, change, key, json.dumps(policy_data))
        if asked not in self._packed:
            self._packed[asked] = self.afresh(sequence=sequence, change=change, key=key, **policy_data)
        return {name: content for name, content in self._packed[asked].items() if not only or name in only}

    def afresh(
        self,
        *,
        sequence: int,
        change: Callable[[Path], None] | None = None,
        key: Path | None = None,
        **policy_data: JSON,
    ) -> dict[str, bytes]:
        """All of them, built anew whatever was built before."""
        self._count += 1
        folder = self._folder / str(self._count)
        bundles = bundles_of(shop(folder, change), policy_data, sequence=sequence)
        packed = pack(bundles, folder / "out", self._opa, signing=Signing(key or self._keys.org))
        return {one.bundle.name: one.path.read_bytes() for one in packed}


@pytest.fixture(scope="module")
def packer(tmp_path_factory: pytest.TempPathFactory, opa_binary: Path, keys: Keys) -> Packer:
    return Packer(tmp_path_factory.mktemp("built"), opa_binary, keys)


@pytest.fixture
def server() -> Iterator[BundleServer]:
    serving = BundleServer()
    yield serving
    serving.close()


def manifest(bundle: bytes, tmp_path: Path) -> JSON:
    return json.loads(contents(bundle, tmp_path)[MANIFEST])


def contents(bundle: bytes, tmp_path: Path) -> dict[str, bytes]:
    file = tmp_path / "read.tar.gz"
    file.write_bytes(bundle)
    return read_archive(file)


# Building --------------------------------------------------------------------------------------------------------


def test_every_part_is_a_bundle_with_roots_of_its_own(packer: Packer, tmp_path: Path) -> None:
    override = {"retail": {"predicates": {}}}
    packed = packer(sequence=7, overrides=override, floor={"retail": {}}, freeze=STOPPED)
    assert {name: manifest(bundle, tmp_path)["roots"] for name, bundle in packed.items()} == {
        "gate": ["ledgeragent/common", "ledgeragent/gate"],
        "domain-retail": ["ledgeragent/retail"],
        "overrides-retail": ["ledgeragent_overrides/retail"],
        "floor": ["ledgeragent_floor"],
        "freeze": ["ledgeragent_freeze"],
    }
    assert manifest(packed["gate"], tmp_path) == {
        "roots": ["ledgeragent/common", "ledgeragent/gate"],
        "revision": gate_part(REGO).revision,
        "rego_version": 1,
    }
    assert manifest(packed["domain-retail"], tmp_path)["revision"] == domain_part(REGO, Domain.load("retail")).revision


def test_a_bundle_holds_rules_and_data_and_nothing_else(packer: Packer, tmp_path: Path) -> None:
    def add(rego: Path) -> None:
        (rego / "retail" / "about.rego").write_text("# METADATA\n# title: About\npackage ledgeragent.retail\n")
        (rego / "retail" / "about_test.rego").write_text("package ledgeragent.retail_test\n\ntest_x if true\n")
        (rego / "retail" / "notes.json").write_text("{}")

    files = contents(packer("domain-retail", sequence=7, change=add)["domain-retail"], tmp_path)
    rules = {path.relative_to(REGO).as_posix() for path in (REGO / "ledgeragent" / "retail").rglob("*.rego")}
    assert set(files) == {one for one in rules if "_test" not in one} | {MANIFEST, SIGNATURES, "data.json"}
    retail = json.loads(files["data.json"])["ledgeragent"]["retail"]
    assert sorted(retail) == ["declared", "defaults"]
    assert (retail["declared"]["sequence"], retail["declared"]["revision"]) == (
        7,
        domain_part(REGO, Domain.load("retail")).revision,
    )


def test_the_same_contents_give_the_same_bytes(packer: Packer) -> None:
    assert packer.afresh(sequence=7, freeze=STOPPED) == packer.afresh(sequence=7, freeze=STOPPED)


def test_a_number_is_no_part_of_the_revision_and_a_changed_rule_is(packer: Packer, tmp_path: Path) -> None:
    first, later = packer(sequence=1), packer(sequence=2)
    changed = packer(sequence=1, change=remarked)
    revisions = [
        [manifest(one[name], tmp_path)["revision"] for name in ("gate", "domain-retail")]
        for one in (first, later, changed)
    ]
    assert revisions[0] == revisions[1]
    assert revisions[0][0] == revisions[2][0]
    assert revisions[0][1] != revisions[2][1]


def test_the_gate_of_another_teams_folder_is_the_same_gate() -> None:
    assert gate_part(TEAM / "rego").revision == gate_part(REGO).revision


def test_policy_data_bears_the_number_of_its_build_or_its_own(packer: Packer, tmp_path: Path) -> None:
    own = {"retail": {**STOPPED["retail"], "sequence": 5}}
    for sequence, expected in ((0, 5), (7, 7)):
        data = json.loads(contents(packer("freeze", sequence=sequence, freeze=own)["freeze"], tmp_path)["data.json"])
        assert data["ledgeragent_freeze"]["retail"]["sequence"] == expected


def test_a_page_that_is_out_of_date_is_not_packed_but_a_freeze_is(tmp_path: Path) -> None:
    sources = shop(tmp_path)
    page = sources.rego / "ledgeragent" / "retail" / "retail.rego"
    page.write_text(page.read_text(encoding="utf-8") + "\n# by hand\n", encoding="utf-8")
    with pytest.raises(BadInput, match=r"retail\.rego is out of date"):
        bundles_of(sources, {"freeze": STOPPED})
    assert [one.name for one in bundles_of(sources, {"freeze": STOPPED}, only=["freeze"])] == ["freeze"]
    with pytest.raises(BadInput, match="there is no bundle 'floor' here; there are gate, domain-retail, freeze"):
        bundles_of(sources, {"freeze": STOPPED}, only=["floor"])


@pytest.mark.parametrize("reference", ["data.ledgeragent.airline.facts", "data.ledgeragent[input.domain]"])
def test_a_domain_that_leans_on_another_one_is_not_packed(tmp_path: Path, reference: str) -> None:
    sources = shop(tmp_path, extended("retail/facts/facts.rego", f"\nodd := {reference}\n"))
    with pytest.raises(BadInput, match=r"retail refers to (airline|\(all of ledgeragent\)), which is no part of it"):
        bundles_of(sources, {})


def test_what_does_not_compile_is_not_packed(tmp_path: Path, opa_binary: Path) -> None:
    sources = shop(tmp_path, extended("retail/facts/facts.rego", "\nodd := unknown_thing\n"))
    with pytest.raises(BadInput, match=r"opa build: .*unknown_thing"):
        pack(bundles_of(sources, {}), tmp_path / "out", opa_binary)
    assert not (tmp_path / "out").exists()


def test_only_a_key_pair_signs(tmp_path: Path, opa_binary: Path, keys: Keys) -> None:
    bundles = bundles_of(shop(tmp_path), {}, only=["gate"])
    for signing, complaint in (
        (Signing(keys.org, "HS256"), "use RS, PS or ES"),
        (Signing(Path("a secret")), "there is no such file"),
        (Signing(keys.public), "opa sign: "),
    ):
        with pytest.raises(BadInput, match=complaint):
            pack(bundles, tmp_path / "out", opa_binary, signing=signing)
    assert not (tmp_path / "out").exists()


# Verifying -------------------------------------------------------------------------------------------------------


def verified(
    bundles: Mapping[str, bytes],
    tmp_path: Path,
    opa: Path,
    *,
    keys: list[Path] | None = None,
    pin: list[str] | None = None,
    minimum: Mapping[str, int] | None = None,
) -> Found:
    files = []
    for name, content in bundles.items():
        (tmp_path / f"{name}.tar.gz").write_bytes(content)
        files.append(tmp_path / f"{name}.tar.gz")
    trust = None if keys is None else Trust(keys)
    return check_bundles(files, SCHEMAS, opa, Expected(pin, minimum or {}, "2026-06-01"), trust)


def repacked(bundle: bytes, tmp_path: Path, change: Callable[[dict[str, bytes]], None]) -> bytes:
    """The bundle with other files in it, without its signature."""
    files = contents(bundle, tmp_path)
    del files[SIGNATURES]
    change(files)
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return raw.getvalue()


def test_what_was_built_verifies(packer: Packer, tmp_path: Path, opa_binary: Path, keys: Keys) -> None:
    packed = packer(sequence=7, overrides={"retail": {}}, floor={"retail": {}}, freeze=STOPPED)
    pin = [gate_part(REGO).revision, domain_part(REGO, Domain.load("retail")).revision]
    minimum = {"gate": 7, "retail": 7, "floor": 7, "freeze": 7, "overrides": 7}
    found = verified(
        packed, tmp_path, opa_binary, keys=[keys.stranger.with_suffix(".pub"), keys.public], pin=pin, minimum=minimum
    )
    assert (found.problems, found.skipped) == ([], [])
    assert [one for one in found.done if not one.startswith(str(tmp_path))] == [
        "one OPA takes gate, domain retail, overrides retail, floor, freeze together",
        "domain retail: its vectors hold",
    ]


def test_who_signed_it_is_held_against_the_keys(packer: Packer, tmp_path: Path, opa_binary: Path, keys: Keys) -> None:
    packed = packer()
    forged = {**packer(key=keys.stranger), "gate": packed["gate"]}
    [problem] = verified(forged, tmp_path, opa_binary, keys=[keys.public]).problems
    assert "domain-retail.tar.gz: its signature does not hold: error: load error" in problem
    unsigned = {**packed, "domain-retail": repacked(packed["domain-retail"], tmp_path, lambda files: None)}
    [problem] = verified(unsigned, tmp_path, opa_binary, keys=[keys.public]).problems
    assert "missing .signatures.json" in problem
    assert verified(unsigned, tmp_path, opa_binary).skipped == ["the signatures: give the public key"]


def test_a_signature_over_other_contents_does_not_hold(
    packer: Packer, tmp_path: Path, opa_binary: Path, keys: Keys
) -> None:
    packed = packer()
    signature = contents(packed["domain-retail"], tmp_path)[SIGNATURES]

    def change(files: dict[str, bytes]) -> None:
        files[SIGNATURES] = signature
        files["ledgeragent/retail/facts/facts.rego"] += b"\n"

    changed = {**packed, "domain-retail": repacked(packed["domain-retail"], tmp_path, change)}
    problems = verified(changed, tmp_path, opa_binary, keys=[keys.public]).problems
    assert any("its signature does not hold" in problem for problem in problems)


def restated(**change: Any) -> Callable[[dict[str, bytes]], None]:
    """Says something else in the manifest."""

    def state(files: dict[str, bytes]) -> None:
        files[MANIFEST] = json.dumps({**json.loads(files[MANIFEST]), **change}).encode()

    return state


def added(name: str, content: bytes) -> Callable[[dict[str, bytes]], None]:
    return lambda files: files.update({name: content})


def appended(name: str, content: bytes) -> Callable[[dict[str, bytes]], None]:
    return lambda files: files.update({name: files[name] + content})


def renumbered(sequence: Any) -> Callable[[dict[str, bytes]], None]:
    def change(files: dict[str, bytes]) -> None:
        data = json.loads(files["data.json"])
        data["ledgeragent"]["retail"]["declared"]["sequence"] = sequence
        files["data.json"] = json.dumps(data).encode()

    return change


@pytest.mark.parametrize(
    ("change", "complaints"),
    [
        (restated(revision="sha256:0"), ["it says that its revision is sha256:0, but its contents are sha256:"]),
        (
            restated(roots=["ledgeragent"]),
            ["its roots ['ledgeragent'] are not those of one part"],
        ),
        (
            restated(roots=["ledgeragent/retail", "ledgeragent_freeze"]),
            ["are not those of one part"],
        ),
        (restated(roots=[""]), ["its roots [''] are not those of one part"]),
        (restated(rego_version=0), ["rego_version being 1"]),
        (restated(wasm=[]), ["rego_version being 1"]),
        (added("policy.wasm", b"\0asm"), ["policy.wasm does not belong into it"]),
        (added("ledgeragent/retail/data.yaml", b"x: 1"), ["data.yaml does not belong into it"]),
        (
            added("ledgeragent/retail/x_test.rego", b"package ledgeragent.retail.x_test\n"),
            ["x_test.rego holds no rule"],
        ),
        (added("ledgeragent/retail/x/x.rego", b"package ledgeragent.retail.x\n"), ["x.rego holds no rule"]),
        (
            appended("ledgeragent/retail/facts/facts.rego", b"\nodd := data.ledgeragent.airline\n"),
            ["it says that its revision is", "its rules refer to airline, which its revision does not cover"],
        ),
        (
            appended("ledgeragent/retail/retail.rego", b"\nextra := 1\n"),
            ["it says that its revision is", "its page is not the one that is generated from its predicates"],
        ),
        (
            appended("ledgeragent/retail/facts/facts.rego", b"\nodd := unknown_thing\n"),
            ["it says that its revision is", "together: OPA does not take these policies"],
        ),
        (renumbered(-1), ["its sequence number is -1"]),
        (renumbered("7"), ["its sequence number is '7'"]),
        (appended("data.json", b"{"), ["is not JSON", "together: OPA does not take these policies"]),
    ],
)
def test_everything_that_is_wrong_with_a_bundle_is_said(
    packer: Packer, tmp_path: Path, opa_binary: Path, change: Callable[[dict[str, bytes]], None], complaints: list[str]
) -> None:
    packed = packer()
    problems = verified(
        {**packed, "domain-retail": repacked(packed["domain-retail"], tmp_path, change)}, tmp_path, opa_binary
    ).problems
    for complaint in complaints:
        assert any(complaint in problem for problem in problems), problems


def test_pins_minimums_gaps_and_what_is_missing_are_said_of_each(
    packer: Packer, tmp_path: Path, opa_binary: Path
) -> None:
    floor = {"retail": {"tools": {CANCEL: DEMAND}}}
    packed = packer(sequence=3, floor=floor, freeze={"airport": {"tools": {}}})
    own = [gate_part(REGO).revision]
    problems = verified(packed, tmp_path, opa_binary, pin=own, minimum={"retail": 4, "floor": 5}).problems
    said = [problem.removeprefix(f"{tmp_path}/") for problem in problems]
    revision = domain_part(REGO, Domain.load("retail")).revision
    assert said == [
        f"domain-retail.tar.gz: its revision {revision} is not pinned",
        "domain-retail.tar.gz: its sequence number 3 is below 4, the minimum",
        "floor.tar.gz: retail: its sequence number 3 is below 5, the minimum",
        f"floor.tar.gz: retail: {CANCEL} is not guarded by common.four_eyes, which Audit demands",
        "freeze.tar.gz: airport: no such domain (there: airline, retail, telecom, telehealth)",
    ]
    alone = verified({"domain-retail": packed["domain-retail"]}, tmp_path, opa_binary).problems
    assert alone == ["the vectors of retail cannot be run without the bundle of the gate; give it too"]
    twice = verified({**packer(), "gate2": packed["gate"]}, tmp_path, opa_binary).problems
    assert twice == ["gate is there more than once"]


def test_policies_that_do_not_decide_the_vectors_do_not_verify(
    packer: Packer, tmp_path: Path, opa_binary: Path
) -> None:
    [problem] = verified(packer(change=lenient), tmp_path, opa_binary).problems
    assert problem.startswith("domain retail: decision.proof: the policies in use do not decide vector")


@pytest.mark.parametrize("content", [b"", b"no gzip", b"\x1f\x8b"])
def test_what_is_no_bundle_is_said(tmp_path: Path, opa_binary: Path, content: bytes) -> None:
    [problem] = verified({"odd": content}, tmp_path, opa_binary).problems
    assert "cannot be read as a bundle" in problem


def test_a_path_that_leads_out_of_a_bundle_is_refused(packer: Packer, tmp_path: Path, opa_binary: Path) -> None:
    escaping = repacked(packer()["gate"], tmp_path, added("../../outside.rego", b"package x\n"))
    [problem] = verified({"gate": escaping}, tmp_path, opa_binary).problems
    assert "is no plain file" in problem


# Pulling ---------------------------------------------------------------------------------------------------------


def allowed(domain: str, schemas: Path = SCHEMAS) -> JSON:
    """A gate input that the domain allows; in retail, a cancellation."""
    vectors = json.loads((schemas / "vectors" / f"{domain}.json").read_text(encoding="utf-8"))["vectors"]
    return next(
        one["input"]
        for one in vectors
        if one["decision"]["verdict"] == "allow" and (domain != "retail" or one["input"]["action"]["tool"] == CANCEL)
    )


def outcome(gate: Gate, gate_input: JSON) -> str:
    """The verdict, or the code of the failure; for a block of the gate itself, its id."""
    judged = gate.judge(gate_input)
    if judged.decision is None:
        assert judged.failure is not None
        return judged.failure.code
    own = [one.predicate for one in judged.decision.findings if one.predicate.startswith("gate.")]
    return own[0] if own else judged.verdict


def revision_of(gate: Gate) -> str:
    judged = gate.judge(allowed(gate.domain.name))
    return judged.decision.policy.revision if judged.decision is not None else ""


@pytest.fixture
def asked() -> JSON:
    return allowed("retail")


def retail(engine: OpaServer, **options: Any) -> Gate:
    return Gate(Domain.load("retail"), engine, **options)


def numbers(engine: OpaServer) -> tuple[int, int]:
    """The sequence numbers of domain and gate in use."""
    shown = retail(engine).in_use().sequence
    return shown.domain, shown.gate


@pytest.fixture
def opa_for(opa_binary: Path, tmp_path: Path, server: BundleServer, keys: Keys) -> Iterator[Callable[..., PullingOpa]]:
    """Starts an OPA that pulls these bundles, and waits until it has all of them."""
    running = []

    def start(*names: str) -> PullingOpa:
        context = pulling(opa_binary, tmp_path, server, dict.fromkeys(names, keys.public))
        running.append(context)
        return context.__enter__()

    yield start
    for context in running:
        context.__exit__(None, None, None)


def test_two_teams_bundles_live_in_one_opa(
    server: BundleServer,
    packer: Packer,
    opa_for: Callable[..., PullingOpa],
    opa_binary: Path,
    tmp_path: Path,
    keys: Keys,
) -> None:
    server.bundles |= packer(sequence=3)
    team = bundles_of(Sources.under(TEAM), {}, sequence=9, only=["domain-deployments"])
    beside = bundles_of(Sources.under(TEAM), {}, only=["gate"])
    [theirs] = pack(team, tmp_path / "team", opa_binary, beside=beside, signing=Signing(keys.org))
    server.bundles["domain-deployments"] = theirs.path.read_bytes()
    opa = opa_for("gate", "domain-retail", "domain-deployments")
    with opa.engine() as engine:
        deployments = Gate(
            Domain.load("deployments", schemas=TEAM / "schemas", rego=None),
            engine,
            vectors=TEAM / "schemas" / "vectors" / "deployments.json",
        )
        assert outcome(deployments, allowed("deployments", TEAM / "schemas")) == "allow"
        assert outcome(retail(engine), allowed("retail")) == "allow"
        shown = [gate.in_use() for gate in (retail(engine), deployments)]
    assert [one.revision for one in shown] == [
        domain_part(REGO, Domain.load("retail")).revision,
        theirs.bundle.revision,
    ]
    assert {one.gate for one in shown} == {gate_part(REGO).revision}
    assert [(one.sequence.domain, one.sequence.gate) for one in shown] == [(3, 3), (9, 3)]


def test_a_new_bundle_is_activated_without_a_restart_and_every_decision_names_its_revision(
    server: BundleServer, packer: Packer, opa_for: Callable[..., PullingOpa], tmp_path: Path, asked: JSON
) -> None:
    first, second = packer(sequence=1), packer(sequence=2, change=remarked)
    server.bundles |= first
    opa = opa_for("gate", "domain-retail")
    with opa.engine() as engine:
        gate = retail(engine)
        revisions = [manifest(one["domain-retail"], tmp_path)["revision"] for one in (first, second)]
        assert (outcome(gate, asked), revision_of(gate)) == ("allow", revisions[0])
        server.bundles |= second
        wait(lambda: revision_of(gate) == revisions[1], opa.said)
        assert (opa.running, gate.revisions) == (True, frozenset(revisions))
        wait(lambda: ("/gate.tar.gz", 304) in server.answered, opa.said)


def test_a_bad_signature_is_refused_and_the_old_bundle_stays(
    server: BundleServer, packer: Packer, opa_for: Callable[..., PullingOpa], tmp_path: Path, keys: Keys, asked: JSON
) -> None:
    first = packer(sequence=1)
    server.bundles |= first
    opa = opa_for("gate", "domain-retail")
    with opa.engine() as engine:
        gate = retail(engine)
        old = manifest(first["domain-retail"], tmp_path)["revision"]
        assert revision_of(gate) == old
        server.bundles |= packer("domain-retail", sequence=2, change=remarked, key=keys.stranger)
        wait(lambda: "failed to verify JWT signature" in opa.said(), opa.said)
        assert (outcome(gate, asked), revision_of(gate)) == ("allow", old)
        unsigned = repacked(packer(sequence=3, change=remarked)["domain-retail"], tmp_path, lambda files: None)
        server.bundles["domain-retail"] = unsigned
        wait(lambda: "bundle missing .signatures.json" in opa.said(), opa.said)
        assert (outcome(gate, asked), revision_of(gate)) == ("allow", old)
        server.bundles |= packer("domain-retail", sequence=4, change=remarked)
        wait(lambda: revision_of(gate) not in ("", old), opa.said)


def test_a_bundle_that_claims_anothers_root_is_refused(
    server: BundleServer,
    packer: Packer,
    opa_for: Callable[..., PullingOpa],
    opa_binary: Path,
    tmp_path: Path,
    keys: Keys,
    asked: JSON,
) -> None:
    server.bundles |= packer()
    server.bundles["domain-other"] = claiming(["ledgeragent/other"], tmp_path / "other", opa_binary, keys)
    opa = opa_for("gate", "domain-retail", "domain-other")
    with opa.engine() as engine:
        gate = retail(engine)
        before = revision_of(gate)
        assert before
        for roots in (["ledgeragent/other", "ledgeragent/retail"], ["ledgeragent"], [""]):
            server.bundles["domain-other"] = claiming(roots, tmp_path / "claiming", opa_binary, keys)
            heard = len(opa.said())
            wait(lambda heard=heard: "overlapping roots" in opa.said()[heard:], opa.said)  # type: ignore[misc]
            assert (outcome(gate, asked), revision_of(gate)) == ("allow", before)


def claiming(roots: list[str], folder: Path, opa: Path, keys: Keys) -> bytes:
    """A well-signed bundle with these roots that would let every cancellation pass."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / MANIFEST).write_text(json.dumps({"roots": roots, "revision": "x", "rego_version": 1}))
    package = "retail.cancel_reason" if "ledgeragent/other" not in roots or len(roots) > 1 else "other"
    (folder / "rule.rego").write_text(f"package ledgeragent.{package}\n\nholds := true\n")
    signing = ["--signing-key", str(keys.org)]
    subprocess.run([opa, "build", "--bundle", ".", *signing, "-o", "out.tar.gz"], cwd=folder, check=True)
    return (folder / "out.tar.gz").read_bytes()


def test_an_old_validly_signed_bundle_is_refused(
    server: BundleServer, packer: Packer, opa_for: Callable[..., PullingOpa], asked: JSON
) -> None:
    old, new = packer(sequence=1), packer(sequence=2, change=remarked)
    server.bundles |= new
    opa = opa_for("gate", "domain-retail")
    with opa.engine() as engine:
        gate = retail(engine)
        assert outcome(gate, asked) == "allow"
        server.bundles |= old
        wait(lambda: outcome(gate, asked) == "decision.pin", opa.said)
        # A process that starts now has seen nothing; its minimum says it.
        wait(lambda: numbers(engine) == (1, 1), opa.said)
        assert outcome(retail(engine), asked) == "allow"
        assert outcome(retail(engine, minimum={"domain": 2}), asked) == "decision.pin"
        assert outcome(retail(engine, pin=[*gate.revisions, gate_part(REGO).revision]), asked) == "decision.pin"
        server.bundles |= packer(sequence=3)
        wait(lambda: outcome(gate, asked) == "allow", opa.said)


def test_a_freeze_stops_and_a_later_one_lets_go_without_a_restart(
    server: BundleServer, packer: Packer, opa_for: Callable[..., PullingOpa], asked: JSON
) -> None:
    server.bundles |= packer(sequence=1, freeze=LIFTED, floor={"retail": {}})
    opa = opa_for("gate", "domain-retail", "freeze", "floor")
    with opa.engine() as engine:
        gate = retail(engine)
        assert outcome(gate, asked) == "allow"
        server.bundles |= packer("freeze", sequence=2, freeze=STOPPED)
        wait(lambda: outcome(gate, asked) == "gate.frozen", opa.said)
        server.bundles |= packer("freeze", sequence=1, freeze=LIFTED)
        wait(lambda: outcome(gate, asked) == "decision.pin", opa.said)
        server.bundles |= packer("freeze", sequence=3, freeze=LIFTED)
        wait(lambda: outcome(gate, asked) == "allow", opa.said)
        server.bundles |= packer("floor", sequence=2, floor={"retail": {"tools": {"*": DEMAND}}})
        wait(lambda: outcome(gate, asked) == "gate.floor", opa.said)
        assert gate.prove() == domain_part(REGO, gate.domain).revision


def ledgeragent(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ledgeragent", *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        env={**os.environ, "LEDGERAGENT_OPA_TOKEN": TOKEN, "COLUMNS": "1000"},
        check=False,
    )


def test_policies_that_fail_the_self_test_enforce_nothing_and_doctor_says_so(
    server: BundleServer, packer: Packer, opa_for: Callable[..., PullingOpa], asked: JSON
) -> None:
    server.bundles |= packer(sequence=1)
    opa = opa_for("gate", "domain-retail")
    doctor = ("doctor", "--engine", opa.url, "--domain", "retail")
    with opa.engine() as engine:
        gate = retail(engine)
        good = ledgeragent(*doctor, "--minimum", "retail=1", "--pin", gate_part(REGO).revision, "--pin", gate.prove())
        assert good.returncode == 0, good.stdout
        assert "; domain 1, gate 1" in good.stdout
        assert outcome(gate, asked) == "allow"

        server.bundles |= packer("domain-retail", sequence=2, change=lenient)
        wait(lambda: outcome(gate, asked) == "decision.proof", opa.said)
        bad = ledgeragent(*doctor)
        assert bad.returncode == 1
        assert "FAIL domain retail: decision.proof: the policies in use do not decide vector" in bad.stdout
        checked = ledgeragent("check", "--engine", opa.url, stdin=json.dumps(asked))
        assert (checked.returncode, checked.stdout) == (30, "")
        assert checked.stderr.startswith("decision.proof: ")

        server.bundles |= packer("domain-retail", sequence=3)
        wait(lambda: outcome(gate, asked) == "allow", opa.said)
        late = ledgeragent(*doctor, "--minimum", "retail=4", "--minimum", "floor=1")
        assert late.returncode == 1
        assert (
            "FAIL domain retail: decision.pin: the domain in use has sequence number 3, which is below 4" in late.stdout
        )
