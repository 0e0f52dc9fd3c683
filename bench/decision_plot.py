"""The figures of `decisions` as a picture: p50 to p99 of a review, by engine and size of the ledger."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

WIDTH: Final = 760
HEIGHT: Final = 420
LEFT, RIGHT, TOP, BOTTOM = 60, 230, 40, 50
COLOURS: Final = ("#1b6ca8", "#2a9d8f", "#e9a23b", "#b23a48", "#6c757d", "#343a40", "#8d5a97")


def plot(document: Mapping[str, Any]) -> str:
    """An SVG: both axes logarithmic, a line for each engine's median, a bar up to its p99."""
    lines = _lines(document["cells"])
    sizes = sorted({size for points in lines.values() for size in points})
    times = [one[key] for points in lines.values() for one in points.values() for key in ("p50", "p99")]
    low, high = min(times) * 0.8, max(times) * 1.25

    def x(size: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * math.log(size / sizes[0]) / math.log(sizes[-1] / sizes[0])

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * math.log(value / low) / math.log(high / low)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        'font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        _text(LEFT, 20, "Review of one write, ms: p50 (line) to p99 (bar), by records in the ledger", "start"),
    ]
    parts += [_text(x(size), HEIGHT - BOTTOM + 20, f"{size:,}") for size in sizes]
    for tick in _ticks(low, high):
        parts.append(f'<path d="M{LEFT} {y(tick):.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>')
        parts.append(_text(LEFT - 8, y(tick) + 4, f"{tick:g}", "end"))
    for number, (name, points) in enumerate(lines.items()):
        colour = COLOURS[number % len(COLOURS)]
        path = "L".join(f"{x(size):.1f} {y(one['p50']):.1f}" for size, one in sorted(points.items()))
        parts.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for size, one in points.items():
            at = x(size) + 4 * number
            parts.append(
                f'<path d="M{at:.1f} {y(one["p50"]):.1f}V{y(one["p99"]):.1f}" stroke="{colour}" opacity=".5"/>'
            )
        parts.append(f'<path d="M{WIDTH - RIGHT + 20} {TOP + 20 * number}h20" stroke="{colour}" stroke-width="3"/>')
        parts.append(_text(WIDTH - RIGHT + 46, TOP + 4 + 20 * number, name, "start"))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _lines(cells: Sequence[Mapping[str, Any]]) -> dict[str, dict[int, Mapping[str, Any]]]:
    """Engine → size of the ledger → figures; what has no size is a level line."""
    lines: dict[str, dict[int, Mapping[str, Any]]] = {}
    for cell in cells:
        named = re.fullmatch(r"review, (.+), ([0-9]+)", cell["timed"])
        if named is not None:
            lines.setdefault(named[1], {})[int(named[2])] = cell
    sizes = {size for points in lines.values() for size in points}
    for cell in cells:
        if cell["timed"].endswith("same bytes"):
            lines[cell["timed"]] = dict.fromkeys((min(sizes), max(sizes)), cell)
    return lines


def _ticks(low: float, high: float) -> list[float]:
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [tick for power in powers for step in (1, 2, 5) if low <= (tick := step * 10.0**power) <= high]


def _text(x: float, y: float, text: str, anchor: str = "middle") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{text}</text>'
