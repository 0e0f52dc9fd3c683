"""Every claim of the threat model names a test, and each of them is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "threat-model.md").read_text(encoding="utf-8")
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def test_every_named_test_is_there() -> None:
    named = NAMED.findall(PAGE)
    assert len(named) > 20
    missing = [
        f"{file}::{test}"
        for file, test in named
        if not re.search(rf"^(async )?def {test}\(", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert missing == []


def test_every_claim_of_what_holds_names_a_test() -> None:
    holds = PAGE.split("## What holds")[1].split("## What does not")[0]
    claims = [claim for claim in holds.split("\n\n") if claim.startswith("**")]
    assert len(claims) >= 7
    assert [claim.split("**")[1] for claim in claims if not NAMED.search(claim)] == []
