"""Generated files: JSON that people read."""

from __future__ import annotations

import json

from hypothesis import given

from ledgeragent.compile import fitted
from test_jsonio import values


@given(values)
def test_fitted_json_is_the_value_it_was_made_of(value: object) -> None:
    assert json.loads(fitted(value)) == value


def test_what_fits_into_a_line_is_on_one() -> None:
    long = [f"word-{number:03}" for number in range(20)]
    assert fitted({"short": [1, {"a": None}], "long": {"words": long}}) == "\n".join(
        [
            "{",
            '  "short": [1, {"a": null}],',
            '  "long": {',
            '    "words": [',
            *[f'      "{word}",' for word in long[:-1]],
            f'      "{long[-1]}"',
            "    ]",
            "  }",
            "}",
        ]
    )
    assert max(map(len, fitted({"a": ["x" * 52, "y" * 53]}).split("\n"))) <= 120
