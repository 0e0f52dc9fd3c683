"""What a large domain costs: loading it, and one call, against the same call in a small domain.

`python bench/large_domain.py` generates a domain of 200 tools and 300 predicates and one of 8 tools and 10 predicates,
compiles both with an `opa`, and prints load times and the ratio of the same call's latency. Calls of the two domains
alternate, so that a busy machine slows both. Exit status 1 when a bound is broken.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from large_domain import NAME, call, write_domain
from ledgeragent.compile import Sources
from ledgeragent.domain import Domain
from ledgeragent.engine import Embedded, Engine, LocalOpa, compiled_module, find_opa
from ledgeragent.kitcheck import compile_folder

CALLS = 400
MOST_LOAD_S = 2.0
MOST_RATIO = 1.5


def load(sources: Sources) -> tuple[Engine, float, float]:
    """The embedded engine, with the wall-clock and the processor time that domain and module took, in seconds."""
    wall, processor = time.perf_counter(), time.process_time()
    Domain.load(NAME, schemas=sources.schemas, rego=sources.rego)
    engine = Embedded(compiled_module(sources.rego, sources.schemas, sources.compiled))
    return engine, time.perf_counter() - wall, time.process_time() - processor


def alternate(first: Engine, second: Engine, clock: Callable[[], float], calls: int = CALLS) -> tuple[float, float]:
    """The median time of the same call in two engines, in milliseconds."""
    given = call()
    times: tuple[list[float], list[float]] = ([], [])
    for number in range(calls + 20):
        for engine, own in zip((first, second), times, strict=True):
            started = clock()
            decision = engine.evaluate(NAME, "decision", given)
            taken = (clock() - started) * 1000
            if number >= 20:
                own.append(taken)
            if decision["verdict"] != "allow" or len(decision["predicates"]) != 5:
                raise SystemExit(f"the call should be allowed by five predicates: {decision}")
    return statistics.median(times[0]), statistics.median(times[1])


def main() -> int:
    """Generate, compile, measure, print."""
    opa = find_opa()
    if opa is None:
        print("NOT measured: the generated domains are compiled with a real OPA (run `make opa`)")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        small = write_domain(Path(folder) / "small", tools=8, predicates=10)
        large = write_domain(Path(folder) / "large", tools=200, predicates=300)
        for sources in (small, large):
            compile_folder(sources, opa)
        small_engine, *_ = load(small)
        large_engine, wall, processor = load(large)
        print(
            f"200 tools, 300 predicates: domain and module load in {wall:.2f} s ({processor:.2f} s of processor time)"
        )
        ratios = []
        with small_engine, large_engine, LocalOpa(small.rego, opa) as small_opa, LocalOpa(large.rego, opa) as large_opa:
            for what, first, second, clock in (
                ("embedded", small_engine, large_engine, time.thread_time),
                ("opa", small_opa, large_opa, time.perf_counter),
            ):
                few, many = alternate(first, second, clock)
                ratios.append(many / few)
                print(f"{what}: 10 predicates {few:.3f} ms, 300 predicates {many:.3f} ms, ratio {many / few:.2f}")
    return 0 if processor < MOST_LOAD_S and max(ratios) < MOST_RATIO else 1


if __name__ == "__main__":
    sys.exit(main())
