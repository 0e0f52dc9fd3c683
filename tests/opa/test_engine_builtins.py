"""The host's built-ins give what a real OPA gives, for arguments that policies can meet and for odd ones."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgeragent.engine.builtins import HOST_BUILTINS, BuiltinFailed

NS = st.integers(-(2**63), 2**63 - 1)
INT32 = st.integers(-(2**31), 2**31)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-1000, 1000),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=["Cs"])),
)
PLAIN = ["%s", "%d", "%v", "%%", "a", " ", "ä", "100"]
TEMPLATES = st.lists(st.sampled_from(PLAIN), max_size=6).map("".join)
PADDED = st.lists(st.sampled_from([*PLAIN, "%02d", "%04d"]), max_size=6).map("".join)
TIMES = st.builds(
    "{:04d}-{:02d}-{:02d}T{:02d}:{:02d}:{:02d}{}{}".format,
    st.integers(1600, 2300) | st.integers(0, 9999),
    st.integers(0, 13),
    st.integers(0, 32),
    st.integers(0, 24),
    st.integers(0, 60),
    st.integers(0, 60),
    st.sampled_from(["", ".5", ",25", ".123456789", ".1234567891", "."]),
    st.sampled_from(["Z", "z", "", "+00:00", "-05:00", "+14:30", "+24:60", "-25:00", "+00:61", "+0100"]),
)
ODD_TIMES = st.sampled_from(
    [
        "2024-05-15T15:00:00-05:00",
        "2024-5-15T15:00:00Z",
        "2024-05-15T1:00:00Z",
        "2024-05-15t15:00:00Z",
        "2024-05-15 15:00:00Z",
        "2024-05-15T15:00Z",
        "2024-02-30T00:00:00Z",
        "2023-02-29T00:00:00Z",
        "1677-09-21T00:12:43.145224192Z",
        "2262-04-11T23:47:16.854775807Z",
        "2262-04-11T23:47:16.854775808Z",
        "٢٠٢٤-05-15T15:00:00Z",
        "2024-05-15T15:00:00Z\n",
        "",
    ]
)

CASES = {
    "sprintf": st.tuples(TEMPLATES, st.lists(SCALARS, max_size=5))
    | st.tuples(PADDED, st.lists(st.integers(), max_size=5)),
    "time.parse_rfc3339_ns": st.tuples(TIMES | ODD_TIMES | SCALARS),
    "time.clock": st.tuples(NS | SCALARS),
    "time.date": st.tuples(NS | SCALARS),
    "time.weekday": st.tuples(NS | SCALARS),
    "time.add_date": st.tuples(NS, INT32 | st.integers(-50, 50), st.integers(-50, 50), st.integers(-99, 99)),
}


def opa_values(opa: Path, folder: Path, name: str, cases: list[tuple[Any, ...]]) -> list[Any]:
    """OPA's value for each case, in a list of one; an empty list where its function fails."""
    arguments = ", ".join(f"case[{index}]" for index in range(len(cases[0])))
    (folder / "input.json").write_text(json.dumps({"cases": cases}))
    query = f"[value | some case in input.cases; value := [x | x := {name}({arguments})]]"
    run = subprocess.run(
        [str(opa), "eval", "--input", str(folder / "input.json"), "--format", "raw", query],
        capture_output=True,
        text=True,
        check=True,
    )
    values: list[Any] = json.loads(run.stdout)
    assert len(values) == len(cases)
    return values


def own_value(name: str, case: tuple[Any, ...]) -> list[Any]:
    try:
        return [HOST_BUILTINS[name](*json.loads(json.dumps(case)))]
    except BuiltinFailed:
        return []


def test_every_host_builtin_is_held_against_opa() -> None:
    assert set(CASES) == set(HOST_BUILTINS)


@pytest.mark.parametrize("name", sorted(CASES))
def test_a_host_builtin_gives_what_opa_gives(name: str, opa_binary: Path, tmp_path: Path) -> None:
    @settings(max_examples=60)
    @given(st.lists(CASES[name], min_size=1, max_size=60))
    def check(cases: list[tuple[Any, ...]]) -> None:
        expected = opa_values(opa_binary, tmp_path, name, cases)
        different = [
            (case, own, theirs)
            for case, theirs in zip(cases, expected, strict=True)
            if (own := own_value(name, case)) != theirs
        ]
        assert different[:5] == []

    check()


@pytest.mark.parametrize("template", ["%f", "%5d", "%q", "%x", "%-s", "% d", "%", "%.2f", "%[1]d"])
def test_a_format_that_is_not_reproduced_is_an_error_not_a_guess(template: str) -> None:
    with pytest.raises(BuiltinFailed, match="not supported"):
        HOST_BUILTINS["sprintf"](template, [1])


@pytest.mark.parametrize("value", [[1], {"a": 1}, []])
def test_a_compound_value_is_not_formatted(value: object) -> None:
    with pytest.raises(BuiltinFailed, match="array, set or object"):
        HOST_BUILTINS["sprintf"]("%v", [value])
