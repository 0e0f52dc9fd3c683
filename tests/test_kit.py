"""What `domain new` makes of tool definitions, with no OPA at hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ledgeragent import kit
from ledgeragent.compile import Sources
from ledgeragent.contracts import WriteTool
from ledgeragent.domain import Domain
from ledgeragent.errors import BadInput
from ledgeragent.kitcheck import check_folder, compile_folder
from ledgeragent.toolsource import Definition

PARAMETERS: dict[str, Any] = {"type": "object", "properties": {"service": {"type": "string"}}}
GET = Definition("get_service", "Read a service.", PARAMETERS, ("readOnlyHint true",))
DEPLOY = Definition("deploy", "Deploy a service.", PARAMETERS, ())
ODD = Definition("odd", "Odd.", {"type": "object", "properties": {"a": {"oneOf": []}}}, ())


def load(folder: Path, name: str = "deployments") -> Domain:
    return Domain.load(name, schemas=folder / "schemas", rego=folder / "rego")


def texts(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_every_tool_starts_as_a_write_that_is_undecided_and_the_principal_as_the_hosts(tmp_path: Path) -> None:
    made = kit.new("deployments", [GET, DEPLOY], tmp_path)
    domain = load(tmp_path)
    assert made.tools == ("get_service", "deploy")
    assert all(isinstance(tool, WriteTool) for tool in domain.tools.values())
    assert {domain.guarded_by(tool) for tool in domain.tools} == {
        ("common.no_repeat_write", "deployments.signed_in", "deployments.undecided")
    }
    assert (domain.file.principal, domain.file.protected) == (
        "host",
        ["deployments.signed_in", "deployments.undecided"],
    )


def test_what_the_source_says_about_a_tool_is_a_comment_and_a_note(tmp_path: Path) -> None:
    made = kit.new("deployments", [GET, DEPLOY], tmp_path)
    rego = (tmp_path / "rego/ledgeragent/deployments/undecided/undecided.rego").read_text(encoding="utf-8")
    assert '\t# Its source says readOnlyHint true.\n\t"get_service",\n\t"deploy",\n' in rego
    assert "get_service: the source says readOnlyHint true; a person decides" in made.notes


def test_the_files_that_were_written_are_named_and_complete(tmp_path: Path) -> None:
    made = kit.new("deployments", [GET], tmp_path)
    assert set(made.files) == set(texts(tmp_path))
    names = {path.relative_to(tmp_path).as_posix() for path in made.files}
    assert {
        "rego/.manifest",
        "rego/ledgeragent/gate/gate.rego",
        "rego/ledgeragent/common/no_repeat_write/no_repeat_write.rego",
        "rego/ledgeragent/deployments/deployments.rego",
        "rego/ledgeragent/deployments/data.json",
        "rego/ledgeragent/deployments/signed_in/signed_in.rego",
        "rego/ledgeragent/deployments/signed_in/signed_in_test.rego",
        "schemas/gate_input.schema.json",
        "schemas/deployments/ledger.schema.json",
        "schemas/deployments/tools.json",
        "schemas/vectors/deployments.cases.json",
    } <= names


def test_a_tool_outside_the_subset_is_left_out_and_reported(tmp_path: Path) -> None:
    made = kit.new("deployments", [DEPLOY, ODD], tmp_path)
    assert set(load(tmp_path).tools) == {"deploy"}
    assert made.left_out == (
        "odd: parameters.a: `oneOf` is outside the closed subset; choose one shape, or declare one tool per shape",
    )


def test_nothing_is_written_when_no_tool_fits(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"no tool can be declared:\nodd: parameters.a"):
        kit.new("deployments", [ODD], tmp_path)
    assert texts(tmp_path) == {}


@pytest.mark.parametrize("name", ["gate", "common", "Deployments", "../x", ""])
def test_a_name_that_cannot_be_a_domains_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadInput, match=r"is the name of a folder|is not a domain name"):
        kit.new(name, [DEPLOY], tmp_path)
    assert texts(tmp_path) == {}


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    kit.new("deployments", [DEPLOY], tmp_path)
    (tmp_path / "schemas/deployments/tools.json").write_text("mine", encoding="utf-8")
    before = texts(tmp_path)
    with pytest.raises(BadInput, match=r"schemas/deployments/tools\.json"):
        kit.new("deployments", [DEPLOY], tmp_path)
    assert texts(tmp_path) == before


def test_an_edited_gate_is_not_overwritten_either(tmp_path: Path) -> None:
    kit.new("deployments", [DEPLOY], tmp_path)
    gate = tmp_path / "rego/ledgeragent/gate/gate.rego"
    gate.write_text("package ledgeragent.gate\n", encoding="utf-8")
    with pytest.raises(BadInput, match=r"gate/gate\.rego"):
        kit.new("payments", [DEPLOY], tmp_path)
    assert not (tmp_path / "schemas/payments").exists()


def test_a_second_domain_shares_the_gate(tmp_path: Path) -> None:
    kit.new("deployments", [DEPLOY], tmp_path)
    kit.new("payments", [DEPLOY], tmp_path)
    compile_folder(Sources.under(tmp_path), None)
    assert load(tmp_path).tools.keys() == load(tmp_path, "payments").tools.keys()


def test_without_an_opa_the_check_says_what_it_did_not_look_at(tmp_path: Path) -> None:
    kit.new("deployments", [DEPLOY], tmp_path)
    found = check_folder(Sources.under(tmp_path), None)
    assert found.skipped == [
        "opa fmt, check and test, lint, the stated cases and the knock-out: there is no `opa` here"
    ]
    place = tmp_path / "schemas" / "deployments" / "tools.json"
    assert found.problems[0] == (
        f"{place}: deploy: nobody has decided whether it reads, writes or has no effect; it is blocked"
    )
    assert "no vectors to prove the policies with" in found.problems[1]


def test_every_disagreement_is_named_at_once_with_its_file(tmp_path: Path) -> None:
    kit.new("deployments", [DEPLOY, GET], tmp_path)
    path = tmp_path / "schemas/deployments/tools.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    document["tools"][0]["needs"] = [["services", "{arguments.service}"]]
    document["tools"][1]["guarded_by"].remove("deployments.signed_in")
    path.write_text(json.dumps(document), encoding="utf-8")
    (tmp_path / "rego/ledgeragent/deployments/defaults/data.json").write_text("{", encoding="utf-8")
    problems = check_folder(Sources.under(tmp_path), None).problems
    assert f"{path}: deploy: needs[0] services.{{arguments.service}} is not in the ledger schema" in problems
    assert f"{path}: get_service leaves out deployments.signed_in, which the Rego enforces for it" in problems
    assert any(problem.endswith("double quotes: line 1 column 2 (char 1)") for problem in problems)


def test_a_folder_without_a_domain_is_said_to_be_one(tmp_path: Path) -> None:
    assert check_folder(Sources.under(tmp_path), None).problems == [
        f"{tmp_path / 'schemas'}: no domain (a folder with tools.json) is here; `ledgeragent domain new` makes one"
    ]
