"""The catalogue read from the files says what `opa inspect` says, and more."""

from __future__ import annotations

import json
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

from ledgeragent.catalogue import as_html, as_json, as_markdown, package_metadata, read_catalogue
from ledgeragent.errors import BadInput
from ledgeragent.policies import REGO, SCHEMAS, domains


@pytest.mark.parametrize("domain", domains(SCHEMAS))
def test_every_entry_is_what_opa_reads(domain: str, opa_binary: Path, tmp_path: Path) -> None:
    copy = tmp_path / "rego"
    shutil.copytree(REGO, copy, ignore=shutil.ignore_patterns("*_test.rego"))
    said = subprocess.run([opa_binary, "inspect", "-a", "-f", "json", copy], capture_output=True, check=True).stdout
    inspected = {
        row["annotations"]["custom"]["id"]: row["annotations"]
        for row in json.loads(said)["annotations"]
        if "id" in row["annotations"].get("custom", {})
    }
    for entry in read_catalogue(domain):
        annotations = inspected[entry.id]
        custom = annotations["custom"]
        assert (entry.title, entry.description) == (annotations["title"], annotations["description"].strip())
        assert list(entry.evidence) == custom["evidence"]
        assert (entry.remedy, entry.severity, entry.policy) == (custom["remedy"], custom["severity"], custom["policy"])
        assert entry.tests, f"{entry.id} has no test beside it"


def test_the_pages_name_every_predicate_with_its_tools() -> None:
    entries = read_catalogue("retail")
    for page in (as_markdown(entries, "Retail"), as_html(entries, "Retail"), as_json(entries)):
        assert all(entry.id in page and all(tool in page for tool in entry.tools) for entry in entries)


def test_the_html_page_escapes_what_a_policy_says_and_needs_no_network() -> None:
    first, *rest = read_catalogue("retail")
    hostile = as_html([type(first)(**{**vars(first), "title": "<script>alert(1)</script>"}), *rest], "Retail")
    tags: list[str] = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, _: tags.append(tag)  # type: ignore[method-assign]
    parser.feed(hostile)
    assert "script" not in tags
    assert "link" not in tags
    assert "http" not in hostile


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("package a\n", "has no METADATA"),
        ("# METADATA\n# title: [\npackage a\n", "METADATA is no YAML"),
        ("# METADATA\n# just words\npackage a\n", "has no METADATA"),
    ],
)
def test_metadata_that_cannot_be_read_names_the_file(text: str, complaint: str, tmp_path: Path) -> None:
    file = tmp_path / "rule.rego"
    file.write_text(text)
    with pytest.raises(BadInput, match=complaint) as refused:
        package_metadata(file)
    assert str(file) in str(refused.value)
