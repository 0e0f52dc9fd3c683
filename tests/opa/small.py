"""A domain of a few lines, for tests of engines that should not depend on any real policy."""

from __future__ import annotations

import subprocess
from pathlib import Path

REGO = """package ledgeragent.small

decision := {"echo": input.say, "limit": data.ledgeragent.small.declared.limit, "text": _text} if input.say

proof := data.ledgeragent_overrides

_text := sprintf("%s is %d", [input.say, count(input.say)])
"""

TEST_REGO = """package ledgeragent.small_test

test_that_would_not_compile if undefined_function(1)
"""


def write_small(root: Path, rego: str = REGO) -> Path:
    """Write the domain `small` as a bundle root, with a test that only a loader of tests would stumble over."""
    folder = root / "ledgeragent" / "small"
    folder.mkdir(parents=True)
    (root / ".manifest").write_text('{"roots": ["ledgeragent"]}')
    (folder / "small.rego").write_text(rego)
    (folder / "small_test.rego").write_text(TEST_REGO)
    (folder / "data.json").write_text('{"declared": {"limit": 3}}')
    return root


def build(opa: Path, root: Path, bundle: Path, target: str = "wasm") -> Path:
    """Make a bundle file of a bundle root, compiled to WebAssembly or (target "rego") not."""
    command = [str(opa), "build", "-t", target, "-b", "--ignore", "*_test.rego", "-o", str(bundle)]
    entries = ["-e", "ledgeragent/small/decision", "-e", "ledgeragent/small/proof"]
    subprocess.run([*command, *entries, str(root)], check=True, capture_output=True)
    return bundle
