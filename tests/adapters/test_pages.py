"""The adapters' pages: their code is the example's, and does what the page says it does."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from needs import need_framework

REPO = Path(__file__).resolve().parent.parent.parent
PAGES = REPO / "docs" / "adapters"
EXAMPLES = REPO / "examples" / "adapters"
NEEDS = {"plain": "ledgeragent", "openai-agents": "agents", "google-adk": "google.adk"}
FRAMEWORKS = sorted(page.stem for page in PAGES.glob("*.md") if page.stem != "README")


def blocks(name: str, kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", (PAGES / f"{name}.md").read_text(encoding="utf-8"), flags=re.DOTALL)


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_the_code_of_a_page_runs_from_an_empty_folder_and_prints_what_it_says(name: str, tmp_path: Path) -> None:
    module = NEEDS.get(name, name.replace("-", "_"))
    need_framework(module, name)
    [code], said = blocks(name, "python"), blocks(name, "text")
    assert run(code, tmp_path) == said[0]


def run(code: str, folder: Path) -> str:
    (folder / "agent.py").write_text(code, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(REPO / "agent")}
    done = subprocess.run(
        [sys.executable, "agent.py"], cwd=folder, env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_example_of_a_person_who_approves_prints_what_its_page_says(tmp_path: Path) -> None:
    need_framework("langchain", "langchain")
    code = (EXAMPLES / "approval_with_langchain.py").read_text(encoding="utf-8")
    assert run(code, tmp_path) == blocks("langchain", "text")[1]


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_page_shows_an_example_and_as_many_commands_as_it_says(name: str) -> None:
    text = (PAGES / f"{name}.md").read_text(encoding="utf-8")
    [example] = re.findall(r"\(\.\./\.\./examples/adapters/(with_\w+\.py)\)", text)
    assert blocks(name, "python") == [(EXAMPLES / example).read_text(encoding="utf-8")]
    [commands] = blocks(name, "sh")
    assert len(commands.splitlines()) == 3
    assert "Three commands from an empty folder" in text


def test_every_example_has_its_page_and_every_page_is_listed() -> None:
    assert len(FRAMEWORKS) == len(list(EXAMPLES.glob("with_*.py"))) == 5
    listed = re.findall(r"\]\(([\w-]+)\.md\)", (PAGES / "README.md").read_text(encoding="utf-8"))
    assert sorted(listed) == FRAMEWORKS
