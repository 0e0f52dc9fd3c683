"""What docs/policy-ci.md gives to teams: each step of the action, the page's commands and each hook, run as they stand on
a policy repository made by `domain new`; a fault of each kind is seen by the step that is there for it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from ledgeragent import kit
from ledgeragent.compile import Sources
from ledgeragent.engine.versions import PINNED
from ledgeragent.kitcheck import PARTS, check_folder, compile_folder
from ledgeragent.policies import EXAMPLES, REGO
from ledgeragent.toolsource import read_tools
from needs import need

ROOT: Final = REGO.parent
ACTION: Final = ROOT / ".github" / "actions" / "policy-check" / "action.yml"
WORKFLOW: Final = ROOT / "examples" / "ci" / "policy.yml"
HOOKS: Final = ROOT / ".pre-commit-hooks.yaml"
PAGE: Final = ROOT / "docs" / "policy-ci.md"
OWN: Final = "rego/ledgeragent/deployments"
AUTHORED: Final = (OWN, "schemas/deployments", "schemas/vectors/deployments.cases.json")
STEPS: Final = ["Format", "Types", "Tests", "Coverage", "Lint", "Vectors", "Files"]


def parsed(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, opa_binary: Path) -> Path:
    """A policy repository: begun with `domain new`, then written by its authors, as examples/deployments was."""
    folder = tmp_path_factory.mktemp("policies")
    kit.new("deployments", read_tools(str(EXAMPLES / "deployments" / "tools.openai.json")), folder)
    shutil.rmtree(folder / OWN / "undecided")
    for name in AUTHORED:
        source, target = EXAMPLES / "deployments" / name, folder / name
        if source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True)
        else:
            shutil.copy(source, target)
    compile_folder(Sources.under(folder), opa_binary)
    return folder


@pytest.fixture
def repository(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "repository"))


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory, opa_binary: Path) -> dict[str, str]:
    """What a runner has: `ledgeragent` and `opa` on PATH, and no settings of ours."""
    folder = tmp_path_factory.mktemp("bin")
    script = folder / "ledgeragent"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ledgeragent "$@"\n', encoding="utf-8")
    script.chmod(0o755)
    (folder / "opa").symlink_to(opa_binary.resolve())
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("LEDGERAGENT_", "GIT_", "FORCE_"))
    }
    return {**kept, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", "LEDGERAGENT_OPA_BIN": str(folder / "opa")}


def run(command: list[str], folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )


def first_failing(repository: Path, environment: dict[str, str], *only: str) -> tuple[str | None, str]:
    """Run the action's steps (or `only` these) in order, as a runner does, to the first that fails; what it said."""
    for step in parsed(ACTION)["runs"]["steps"]:
        if only and step["name"] not in only:
            continue
        folder = repository / step["working-directory"].replace("${{ inputs.folder }}", ".")
        # https://docs.github.com: what `shell: bash` stands for.
        done = run(["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]], folder, environment)
        if done.returncode:
            return step["name"], done.stdout + done.stderr
    return None, ""


def plant(repository: Path, name: str, before: str, after: str) -> None:
    file = repository / name
    text = file.read_text(encoding="utf-8")
    assert before in text, f"{name} no longer holds {before!r}"
    file.write_text(text.replace(before, after, 1), encoding="utf-8")


TESTED = f"{OWN}/build_tested/build_tested"
FAULTS: Final = {
    "Format": (f"{OWN}/owners/owners.rego", "holds if {", "holds  if {", "owners.rego"),
    "Types": (f"{TESTED}.rego", '== "passed"', '== startswith("passed")', "startswith"),
    "Tests": (f"{TESTED}_test.rego", '"Passed"]', '"passed"]', "FAIL"),
    "Coverage": (
        f"{OWN}/no_freeze/no_freeze_test.rego",
        "test_policy_data_can",
        "todo_policy_data_can",
        "no test reaches this",
    ),
    "Lint": (
        f"{TESTED}.rego",
        'evidence: ["builds.{arguments.build_id}.service", ',
        "evidence: [",
        "METADATA evidence",
    ),
    "Vectors": ("schemas/vectors/deployments.json", '"verdict": "allow"', '"verdict": "block"', "deployments.json"),
    "Files": ("schemas/decision.schema.json", "What one predicate", "What a predicate", "is not this version's"),
}


def test_a_sound_repository_passes_every_step(repository: Path, environment: dict[str, str]) -> None:
    assert [step["name"] for step in parsed(ACTION)["runs"]["steps"]] == STEPS
    assert first_failing(repository, environment) == (None, "")


@pytest.mark.parametrize("step", STEPS)
def test_a_planted_fault_is_seen_by_the_step_that_is_there_for_it(
    step: str, repository: Path, environment: dict[str, str]
) -> None:
    file, before, after, words = FAULTS[step]
    plant(repository, file, before, after)
    failed, said = first_failing(repository, environment)
    assert failed == step, said
    assert words in said


def test_what_nobody_has_decided_does_not_pass(tmp_path: Path, environment: dict[str, str], opa_binary: Path) -> None:
    kit.new("deployments", read_tools(str(EXAMPLES / "deployments" / "tools.openai.json")), tmp_path)
    compile_folder(Sources.under(tmp_path), opa_binary)
    failed, said = first_failing(tmp_path, environment, "Vectors")
    assert (failed, "no allowed vector" in said or "at least one allow" in said) == ("Vectors", True)


def test_the_pages_commands_do_the_same(repository: Path, environment: dict[str, str]) -> None:
    [commands] = re.findall(r"```sh\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert run(["sh", "-e", "-c", commands], repository, environment).returncode == 0
    plant(repository, *FAULTS["Format"][:3])
    assert run(["sh", "-e", "-c", commands], repository, environment).returncode == 1


def test_the_page_explains_every_step_and_shows_every_hook() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert re.findall(r"^\| (\w+) \| `", page, flags=re.MULTILINE) == STEPS
    [shown] = re.findall(r"```yaml\n(.*?)```", page, flags=re.DOTALL)
    assert [one["id"] for one in yaml.safe_load(shown)["repos"][0]["hooks"]] == [one["id"] for one in parsed(HOOKS)]


def test_the_workflow_is_one_and_installs_the_pinned_opa_and_uses_the_action() -> None:
    workflow = parsed(WORKFLOW)
    assert workflow["permissions"] == {"contents": "read"}
    assert list(workflow["jobs"]) == ["check", "backtest"]
    steps = [one for job in workflow["jobs"].values() for one in job["steps"]]
    opas = [one for one in steps if one.get("uses", "").startswith("open-policy-agent/setup-opa@")]
    assert [one["with"]["version"] for one in opas] == [PINNED] * 2
    [action] = [one for one in steps if ACTION.parent.relative_to(ROOT).as_posix() in one.get("uses", "")]
    assert set(action["with"]) <= set(parsed(ACTION)["inputs"])
    # Nothing of a pull request's text is put into a command.
    assert "${{" not in "".join(one.get("run", "") for one in [*steps, *parsed(ACTION)["runs"]["steps"]])


# Hooks ------------------------------------------------------------------------------------------------------------


def git(folder: Path, environment: dict[str, str], *words: str) -> str:
    own = ("-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false")
    done = run(["git", *own, *words], folder, environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def hooked(repository: Path, environment: dict[str, str], tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """The policy repository under git, with the hooks of this one, and where pre-commit may write."""
    need(shutil.which("git"), "git")
    source = tmp_path / "hooks"
    source.mkdir()
    shutil.copy(HOOKS, source)
    for folder in (source, repository):
        git(folder, environment, "init", "--quiet")
        git(folder, environment, "add", "--all")
        git(folder, environment, "commit", "--quiet", "--no-verify", "--message", "begin")
    config = {
        "repos": [
            {
                "repo": str(source),
                "rev": git(source, environment, "rev-parse", "HEAD"),
                "hooks": [{"id": one["id"]} for one in parsed(HOOKS)],
            }
        ]
    }
    (repository / ".pre-commit-config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    git(repository, environment, "add", ".pre-commit-config.yaml")
    return repository, {**environment, "PRE_COMMIT_HOME": str(tmp_path / "pre-commit")}


def hooks_failing(hooked: tuple[Path, dict[str, str]]) -> tuple[list[str], list[str]]:
    """(hooks that passed, hooks that failed), by id."""
    repository, environment = hooked
    done = run([sys.executable, "-m", "pre_commit", "run", "--all-files", "--color", "never"], repository, environment)
    names = {one["name"]: one["id"] for one in parsed(HOOKS)}
    results = re.findall(r"^(.*?)\.{3,}(?:\(.*\))?(Passed|Failed|Skipped)$", done.stdout, flags=re.MULTILINE)
    assert len(results) == len(names), done.stdout + done.stderr
    return (
        [names[name] for name, result in results if result == "Passed"],
        [names[name] for name, result in results if result == "Failed"],
    )


def test_a_sound_repository_passes_every_hook_of_the_real_pre_commit(hooked: tuple[Path, dict[str, str]]) -> None:
    assert hooks_failing(hooked) == (
        [f"policy-{part}" for part in ("format", "types", "tests", "lint", "vectors", "files")],
        [],
    )


def test_planted_faults_are_seen_by_their_hooks_and_by_no_others(hooked: tuple[Path, dict[str, str]]) -> None:
    # Whatever was changed was not compiled again, which the vectors' hook sees.
    for step in ("Format", "Coverage", "Files"):
        plant(hooked[0], *FAULTS[step][:3])
    git(hooked[0], hooked[1], "add", "--all")
    assert hooks_failing(hooked) == (
        ["policy-types", "policy-lint"],
        ["policy-format", "policy-tests", "policy-vectors", "policy-files"],
    )


def test_policies_that_decide_otherwise_are_seen_by_their_hooks(hooked: tuple[Path, dict[str, str]]) -> None:
    for step in ("Lint", "Vectors"):
        plant(hooked[0], *FAULTS[step][:3])
    git(hooked[0], hooked[1], "add", "--all")
    assert hooks_failing(hooked)[1] == ["policy-lint", "policy-vectors", "policy-files"]


def test_every_part_can_be_looked_at_alone_and_has_a_hook(made: Path, opa_binary: Path) -> None:
    assert {one["id"] for one in parsed(HOOKS)} == {f"policy-{part}" for part in PARTS}
    for part in PARTS:
        found = check_folder(Sources.under(made), opa_binary, [part])
        assert (found.problems, found.skipped) == ([], []), part
        assert found.done
