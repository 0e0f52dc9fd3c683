"""The example domain outside customer service: its conversations get the verdicts that its rules ask for."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from ledgeragent.cli import _Job
from ledgeragent.compile import Sources
from ledgeragent.conversation import open_lines
from ledgeragent.kitcheck import compile_folder
from ledgeragent.policies import EXAMPLES

EXPECTED = [
    ("read-then-deploy", 9, "deploy", "allow", {}),
    (
        "read-then-deploy",
        14,
        "rollback",
        "revise",
        {"deployments.one_at_a_time": "stale", "deployments.ran_before": "stale"},
    ),
    ("read-then-deploy", 18, "rollback", "revise", {"deployments.one_at_a_time": "violated"}),
    ("read-then-deploy", 22, "rollback", "allow", {}),
    (
        "from-memory",
        1,
        "deploy",
        "revise",
        dict.fromkeys(
            (
                "deployments.build_tested",
                "deployments.newer_build",
                "deployments.no_freeze",
                "deployments.one_at_a_time",
                "deployments.owners",
            ),
            "missing",
        ),
    ),
    ("frozen", 9, "deploy", "block", {"deployments.no_freeze": "violated"}),
    (
        "not-the-owner",
        3,
        "scale",
        "block",
        {
            "common.user_confirmed": "violated",
            "deployments.owners": "violated",
            "deployments.within_capacity": "violated",
        },
    ),
    ("untested", 9, "deploy", "revise", {"deployments.build_tested": "violated"}),
    ("untested", 13, "deploy", "allow", {}),
]


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory, opa_binary: Path) -> Sources:
    """A compiled copy."""
    copy = tmp_path_factory.mktemp("deployments")
    shutil.copytree(EXAMPLES / "deployments", copy, dirs_exist_ok=True, ignore=shutil.ignore_patterns("compiled"))
    compile_folder(Sources.under(copy), opa_binary)
    return Sources.under(copy)


@pytest.mark.parametrize("engine", ["embedded", "opa"])
def test_its_conversations_get_the_verdicts_that_its_rules_ask_for(sources: Sources, engine: str) -> None:
    job = _Job(None, engine, sources.rego, sources.schemas, None)
    rows = []
    try:
        for place, line in open_lines(str(EXAMPLES / "deployments" / "conversations.jsonl")):
            problem, judged = job.judge(place, line)
            assert problem is None
            rows += judged
    finally:
        job.close()
    found = [
        (
            row["conversation"],
            row["index"],
            row["tool"],
            row["verdict"],
            {f["predicate"]: f["cause"] for f in row["findings"]},
        )
        for row in rows
    ]
    assert found == EXPECTED


def test_without_the_principal_that_the_recording_names_nothing_is_allowed(sources: Sources) -> None:
    job = _Job(None, "embedded", sources.rego, sources.schemas, None)
    try:
        for place, line in open_lines(str(EXAMPLES / "deployments" / "conversations.jsonl")):
            document = json.loads(line)
            del document["principal"]
            _, rows = job.judge(place, json.dumps(document))
            assert {row["verdict"] for row in rows} == {"block"}
            assert all("deployments.signed_in" in [f["predicate"] for f in row["findings"]] for row in rows)
    finally:
        job.close()
