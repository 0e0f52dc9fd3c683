"""The embedded engine: OPA's answers in process, only from the very policies it was compiled from, and bounded."""

from __future__ import annotations

import hashlib
import json
import shutil
import tarfile
import threading
import time
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from ledgeragent import policies
from ledgeragent.engine import Embedded, LocalOpa, bundle_module, compiled_module
from ledgeragent.engine.embedded import folder_data
from ledgeragent.errors import BadInput, EngineClosed, EngineEvaluation, EnginePolicies, EngineUndefined
from opa.small import REGO, build, write_small

EXPECTED = {"echo": "hello", "limit": 3, "text": "hello is 5"}
SLOW = """package ledgeragent.small

decision := count([1 | some a in numbers.range(1, 3000); some b in numbers.range(1, 3000); a * b == -1])

proof := 1
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small(tmp_path_factory.mktemp("small"))


@pytest.fixture(scope="module")
def bundle(root: Path, opa_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(opa_binary, root, tmp_path_factory.mktemp("bundle") / "small.tar.gz")


@pytest.fixture(scope="module")
def engine(bundle: Path) -> Iterator[Embedded]:
    with Embedded(bundle_module(bundle)) as engine:
        yield engine


def small_from(rego: str, opa: Path, folder: Path) -> Path:
    return build(opa, write_small(folder / "root", rego), folder / "small.tar.gz")


@pytest.fixture
def copies(root: Path, bundle: Path, tmp_path: Path) -> dict[str, Path]:
    """A policy folder, schemas and compiled folder as `make compile` leaves them, to spoil."""
    rego, schemas, compiled = tmp_path / "rego", tmp_path / "schemas", tmp_path / "compiled"
    shutil.copytree(root, rego)
    schemas.mkdir()
    compiled.mkdir()
    wasm = bundle_module(bundle).wasm
    (compiled / "policy.wasm").write_bytes(wasm)
    data = (rego / "ledgeragent/small/data.json").read_bytes()
    manifest = {
        "sources": policies.sources_digest(rego, schemas),
        "opa": "1.22.3",
        "wasm": "sha256:" + hashlib.sha256(wasm).hexdigest(),
        "data": {"ledgeragent/small/data.json": "sha256:" + hashlib.sha256(data).hexdigest()},
    }
    (compiled / "manifest.json").write_text(json.dumps(manifest))
    return {"policies": rego, "schemas": schemas, "compiled": compiled}


def test_it_answers_like_a_server_over_the_same_folder(engine: Embedded, root: Path, opa_binary: Path) -> None:
    with LocalOpa(root, opa_binary) as server:
        for say in ("hello", "", 'Ä\u2028"\\', "#W1/../..", "x" * 100_000):
            gate_input = {"say": say}
            assert engine.evaluate("small", "decision", gate_input) == server.evaluate("small", "decision", gate_input)


def test_an_undefined_rule_and_an_unknown_domain_are_undefined(engine: Embedded) -> None:
    for domain, gate_input in (("small", {"say": False}), ("small", {}), ("other", {"say": "hello"})):
        with pytest.raises(EngineUndefined):
            engine.evaluate(domain, "decision", gate_input)


def test_overrides_are_data_of_their_own_root(bundle: Path, engine: Embedded) -> None:
    with Embedded(bundle_module(bundle), deployed={"ledgeragent_overrides": {"small": {"x": 1}}}) as overridden:
        assert overridden.evaluate("small", "proof", {}) == {"small": {"x": 1}}
    with pytest.raises(EngineUndefined):
        engine.evaluate("small", "proof", {})


@pytest.mark.parametrize("gate_input", [{"say": float("nan")}, {"say": "\ud800"}, {"say": {1, 2}}])
def test_an_input_that_is_not_json_is_bad_input(engine: Embedded, gate_input: Any) -> None:
    with pytest.raises(BadInput, match="gate input"):
        engine.evaluate("small", "decision", gate_input)


def test_an_input_of_megabytes_is_judged(engine: Embedded) -> None:
    assert engine.evaluate("small", "decision", {"say": "hello", "more": ["x" * 100] * 150_000}) == EXPECTED


def test_a_module_with_many_texts_gets_the_memory_it_asks_for(opa_binary: Path, tmp_path: Path) -> None:
    texts = [f"{number:06} " + "x" * 1000 for number in range(1000)]
    many = f"package ledgeragent.small\n\ndecision := {json.dumps(texts)}[input.at]\n\nproof := 1\n"
    with Embedded(bundle_module(small_from(many, opa_binary, tmp_path))) as engine:
        assert engine.evaluate("small", "decision", {"at": 999}) == texts[999]


def test_a_failed_evaluation_leaves_the_engine_usable(engine: Embedded, opa_binary: Path, tmp_path: Path) -> None:
    fails = REGO.replace('"%s is %d"', "input.format")
    with Embedded(bundle_module(small_from(fails, opa_binary, tmp_path))) as failing:
        for _ in range(10):
            with pytest.raises(EngineEvaluation, match="not supported"):
                failing.evaluate("small", "decision", {"say": "x", "format": "%q"})
        assert failing.evaluate("small", "decision", {"say": "x", "format": "%s"})["echo"] == "x"


def test_an_evaluation_that_takes_too_long_is_ended(opa_binary: Path, tmp_path: Path) -> None:
    with Embedded(bundle_module(small_from(SLOW, opa_binary, tmp_path)), timeout=0.2) as slow:
        started = time.monotonic()
        with pytest.raises(EngineEvaluation, match="time limit"):
            slow.evaluate("small", "decision", {})
        assert time.monotonic() - started < 2
        assert slow.evaluate("small", "proof", {}) == 1


def test_an_evaluation_that_takes_too_much_memory_is_ended(opa_binary: Path, tmp_path: Path) -> None:
    hungry = SLOW.replace("count([1 |", "count([[a, b, input] |").replace("a * b == -1", "a * b > -1")
    with Embedded(bundle_module(small_from(hungry, opa_binary, tmp_path)), timeout=60) as engine:
        with pytest.raises(EngineEvaluation):
            engine.evaluate("small", "decision", {"say": "x"})
        assert engine.evaluate("small", "proof", {}) == 1


def test_many_threads_share_it(engine: Embedded) -> None:
    wrong: list[Any] = []

    def ask(number: int) -> None:
        for _ in range(50):
            answer = engine.evaluate("small", "decision", {"say": "x" * number})
            if answer["text"] != f"{'x' * number} is {number}":
                wrong.append(answer)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_builtin_that_is_not_on_the_list_is_refused_by_name(opa_binary: Path, tmp_path: Path) -> None:
    rego = (
        REGO
        + '\nlater := [time.now_ns(), http.send({"method": "get", "url": input.url})]\n\nproof := later if input.x\n'
    )
    with pytest.raises(EnginePolicies, match=r"http\.send, time\.now_ns"):
        Embedded(bundle_module(small_from(rego, opa_binary, tmp_path)))


def test_a_closed_engine_says_so(bundle: Path) -> None:
    engine = Embedded(bundle_module(bundle))
    engine.close()
    engine.close()
    with pytest.raises(EngineClosed):
        engine.evaluate("small", "decision", {"say": "hello"})


def test_a_compiled_folder_is_used_when_it_is_in_step(copies: dict[str, Path]) -> None:
    with Embedded(compiled_module(**copies)) as engine:
        assert engine.evaluate("small", "decision", {"say": "hello"}) == EXPECTED
        assert engine.version == "1.22.3"


@pytest.mark.parametrize(
    ("folder", "file", "message"),
    [
        ("policies", "ledgeragent/small/small.rego", "run `make compile`"),
        ("policies", ".manifest", "run `make compile`"),
        ("policies", "ledgeragent/small/data.json", "is not the file that `make compile` wrote"),
        ("compiled", "policy.wasm", "is not the file that `make compile` wrote"),
        ("compiled", "manifest.json", "is not JSON"),
    ],
)
def test_an_edited_file_is_refused(copies: dict[str, Path], folder: str, file: str, message: str) -> None:
    path = copies[folder] / file
    path.write_bytes(path.read_bytes() + b"\n#")
    with pytest.raises(EnginePolicies, match=message):
        compiled_module(**copies)


@pytest.mark.parametrize("file", ["policy.wasm", "manifest.json"])
def test_a_missing_file_is_refused(copies: dict[str, Path], file: str) -> None:
    (copies["compiled"] / file).unlink()
    with pytest.raises(EnginePolicies, match=f"{file} cannot be read.*run `make compile`"):
        compiled_module(**copies)


def test_an_empty_policy_folder_is_refused(copies: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(EnginePolicies, match="bundle root"):
        compiled_module(tmp_path / "nowhere", copies["schemas"], copies["compiled"])


def test_an_edited_test_changes_nothing(copies: dict[str, Path]) -> None:
    (copies["policies"] / "ledgeragent/small/small_test.rego").write_text("package ledgeragent.small_test\n")
    assert compiled_module(**copies).version == "1.22.3"


def test_bytes_that_are_no_module_are_refused(bundle: Path, tmp_path: Path) -> None:
    for wasm in (b"", b"\0asm\1\0\0\0", b"not wasm"):
        with tarfile.open(tmp_path / "bundle.tar.gz", "w:gz") as archive:
            member = tarfile.TarInfo("/policy.wasm")
            member.size = len(wasm)
            archive.addfile(member, BytesIO(wasm))
        with pytest.raises(EnginePolicies, match="not a module compiled by OPA"):
            Embedded(bundle_module(tmp_path / "bundle.tar.gz"))


def test_a_bundle_without_a_module_or_that_is_none_is_refused(root: Path, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "plain.tar.gz", "w:gz") as archive:
        archive.add(root, "/")
    with pytest.raises(EnginePolicies, match="opa build -t wasm"):
        bundle_module(tmp_path / "plain.tar.gz")
    (tmp_path / "other.tar.gz").write_bytes(b"\x1f\x8b cut off")
    for file in ("other.tar.gz", "missing.tar.gz"):
        with pytest.raises(EnginePolicies, match="cannot be read"):
            bundle_module(tmp_path / file)


def test_folder_data_lies_where_opa_puts_it(root: Path, opa_binary: Path, bundle: Path) -> None:
    (settings := root / "ledgeragent" / "small" / "settings").mkdir()
    (settings / "data.json").write_text('{"a": 1}')
    try:
        assert folder_data(root) == {"ledgeragent": {"small": {"declared": {"limit": 3}, "settings": {"a": 1}}}}
        build(opa_binary, root, bundle.with_name("more.tar.gz"))
        assert bundle_module(bundle.with_name("more.tar.gz")).data == folder_data(root)
    finally:
        shutil.rmtree(settings)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("data.json", '{"small": {"declared": 1}}', "defined in another"),
        ("data.json", "[1]", "not a JSON object"),
        ("data.json", "{", "not JSON"),
        ("data.yaml", "a: 1", "data.json only"),
    ],
)
def test_data_that_opa_would_refuse_or_read_otherwise_is_refused(
    tmp_path: Path, name: str, content: str, message: str
) -> None:
    root = write_small(tmp_path)
    (root / "ledgeragent" / name).write_text(content)
    with pytest.raises(EnginePolicies, match=message):
        folder_data(root)
