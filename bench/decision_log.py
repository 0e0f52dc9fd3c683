"""What OPA's masked decision log costs a decision: the vectors of every domain, asked with and without it.

python bench/decision_log.py
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from ledgeragent import policies
from ledgeragent.engine import LocalOpa

ROUNDS = 5


def main() -> None:
    """Print a table: domain, median request in bytes, p50 and p95 in milliseconds without and with the log."""
    inputs = {name: _inputs(name) for name in policies.domains()}
    with tempfile.TemporaryDirectory() as folder:
        without = _timed(inputs, None)
        logged = _timed(inputs, Path(folder) / "decisions.jsonl")
    print("| domain | request, bytes | without: p50 / p95 ms | with: p50 / p95 ms |")
    print("| --- | --- | --- | --- |")
    for name, asked in inputs.items():
        size = statistics.median(len(json.dumps(one)) for one in asked)
        print(f"| {name} | {size:,.0f} | {_shown(without[name])} | {_shown(logged[name])} |")


def _inputs(name: str) -> list[Any]:
    document = json.loads((policies.SCHEMAS / "vectors" / f"{name}.json").read_text(encoding="utf-8"))
    return [vector["input"] for vector in document["vectors"]]


def _timed(inputs: dict[str, list[Any]], decision_log: Path | None) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {}
    with LocalOpa(policies.REGO, decision_log=decision_log) as engine:
        for name, asked in inputs.items():
            engine.evaluate(name, "decision", asked[0])
            times[name] = [_once(engine, name, one) for _ in range(ROUNDS) for one in asked]
    return times


def _once(engine: LocalOpa, name: str, gate_input: Any) -> float:
    started = time.perf_counter()
    engine.evaluate(name, "decision", gate_input)
    return (time.perf_counter() - started) * 1000


def _shown(times: list[float]) -> str:
    return f"{statistics.median(times):.1f} / {statistics.quantiles(times, n=20)[18]:.1f}"


if __name__ == "__main__":
    main()
