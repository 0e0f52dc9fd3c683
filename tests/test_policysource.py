"""Policies by name: folders, bundles, commits, revisions."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledgeragent.errors import BadInput
from ledgeragent.policies import COMPILED, REGO, SCHEMAS
from ledgeragent.policysource import PolicySources

RULE = Path("rego/ledgeragent/retail/cancel_reason/cancel_reason.rego")


def git(folder: Path, *arguments: str) -> str:
    """Run git there, as nobody in particular."""
    own = ("-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false")
    return subprocess.run(["git", *own, *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A policy repository with two commits: the shipped policies in a folder, then one rule changed."""
    top = tmp_path_factory.mktemp("repository")
    own = top / "policies"
    for source, name in ((REGO, "rego"), (SCHEMAS, "schemas"), (COMPILED, "compiled")):
        shutil.copytree(source, own / name)
    git(top, "init", "-q", "-b", "main")
    git(top, "add", "-A")
    git(top, "commit", "-qm", "as shipped")
    (own / RULE).write_text((own / RULE).read_text(encoding="utf-8") + "\nanother := true\n", encoding="utf-8")
    data = own / "rego/ledgeragent/retail/data.json"
    with PolicySources() as sources:
        before, after = sources.shipped().revisions()["retail"], sources.find(str(own)).revisions()["retail"]
    data.write_text(data.read_text(encoding="utf-8").replace(before, after), encoding="utf-8")
    git(top, "commit", "-qam", "another rule")
    return top


@pytest.fixture
def sources(repository: Path) -> Iterator[PolicySources]:
    with PolicySources(repository=repository) as sources:
        yield sources


def test_a_bundle_root_and_the_folder_around_it_are_the_same_policies(sources: PolicySources, repository: Path) -> None:
    around = sources.find(str(repository / "policies"))
    root = sources.find(str(repository / "policies" / "rego"))
    assert (around.policies, around.schemas) == (root.policies, repository / "policies" / "schemas")


def test_a_commit_gives_the_policies_as_they_were_with_their_compiled_module(sources: PolicySources) -> None:
    old, new = sources.find("git:HEAD~1:policies"), sources.find("git:HEAD:policies")
    assert old.revisions() == sources.shipped().revisions()
    assert {part for part, own in new.revisions().items() if own != old.revisions()[part]} == {"retail"}
    assert (old.policies.parent / "compiled" / "policy.wasm").read_bytes() == (COMPILED / "policy.wasm").read_bytes()


def test_a_revision_is_found_where_it_is_in_force_in_git(sources: PolicySources, repository: Path) -> None:
    new = sources.find(str(repository / "policies")).revisions()
    found = sources.of_revision(new["retail"], new["gate"])
    assert found.revisions()["retail"] == new["retail"]
    assert found.name.startswith("git:")
    assert sources.find(new["retail"][:17]).revisions()["retail"] == new["retail"]


def test_what_is_given_and_what_is_shipped_comes_before_git(sources: PolicySources, repository: Path) -> None:
    given = sources.find(str(repository / "policies"))
    assert sources.of_revision(given.revisions()["retail"], among=(given,)) is given
    assert sources.of_revision(sources.shipped().revisions()["airline"]) == sources.shipped()


def test_schemas_that_are_given_are_used(repository: Path) -> None:
    with PolicySources(schemas=SCHEMAS, repository=repository) as sources:
        assert {sources.find(name).schemas for name in ("git:HEAD:policies", str(repository / "policies"))} == {SCHEMAS}


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("nowhere", "no policies at nowhere: name a bundle root"),
        ("git:nothing", "git rev-parse at .*: no such revision"),
        ("git:--output=x", "git rev-parse at .*: no such revision"),
        ("git:HEAD", "no rego/ledgeragent in '.' of that commit"),
        ("git:HEAD:elsewhere", "no rego/ledgeragent in 'elsewhere'"),
        ("sha256:0123456789", "no policies at hand have the revision sha256:0123456789…: .*no commit"),
    ],
)
def test_policies_that_are_not_there_are_named(sources: PolicySources, name: str, complaint: str) -> None:
    with pytest.raises(BadInput, match=complaint):
        sources.find(name)


def test_without_a_repository_only_what_is_given_and_shipped_is_known(tmp_path: Path) -> None:
    with PolicySources(repository=tmp_path) as sources, pytest.raises(BadInput, match="no policies at hand"):
        sources.of_revision("sha256:" + "0" * 64)


@pytest.mark.parametrize("revision", ["", "none", "sha256:", "--open-files-in-pager=touch x", "sha256:0123456G"])
def test_what_is_no_revision_is_looked_for_nowhere(sources: PolicySources, revision: str) -> None:
    with pytest.raises(BadInput, match="is no revision"):
        sources.of_revision(revision)


def test_a_gate_of_another_revision_is_not_taken(sources: PolicySources) -> None:
    shipped = sources.shipped().revisions()
    with pytest.raises(BadInput, match="together with the gate's"):
        sources.of_revision(shipped["retail"], "sha256:" + "0" * 64)


def test_nothing_is_left_of_what_was_written(repository: Path) -> None:
    with PolicySources(repository=repository) as sources:
        folder = sources.find("git:HEAD:policies").policies
        assert folder.is_dir()
    assert not folder.exists()
