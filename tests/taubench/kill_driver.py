"""Run as a program: begins a run again and again, each time in a child that kills itself while it works.

Prints one JSON line per child: at which of its generations it is to kill itself.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ledgeragent.adapters.tau2.run import Endpoint, Run
from ledgeragent.domain import Domain
from ledgeragent.engine import open_engine
from ledgeragent.gate import Gate
from ledgeragent.model import Generation, Usage
from ledgeragent.results import ResultWriter
from support.gold_player import CLOSING
from taubench.scripted_bench import USER, Bench, ScriptedPlan


class Closing:
    """Says goodbye at once; kills its own process at a given generation."""

    left = -1

    def generate(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Any]) -> Generation:
        """As `Model.generate`."""
        Closing.left -= 1
        if Closing.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return Generation(CLOSING, usage=Usage(1, 1))


def main(path: Path, seed: int) -> None:
    """Kill children until one finishes the run."""
    tasks = tuple(Bench("telecom").tasks)[:6]
    scripted = Endpoint("scripted")
    run = Run("telecom", "fc", scripted, scripted, trials=4, tasks=tasks, user_agent=USER)
    with open_engine("embedded") as engine:
        plan = ScriptedPlan(run, Gate(Domain.load("telecom"), engine), model=lambda *_: Closing())
    chance = random.Random(seed)
    while True:
        Closing.left = chance.randrange(1, 10)
        print(json.dumps({"at": Closing.left}), flush=True)  # noqa: T201 - read by the test
        child = os.fork()
        if child == 0:
            with ResultWriter(path, plan.header) as file:
                failed = plan.finish(file, concurrency=3, advance=lambda: None)
            os._exit(1 if failed else 0)
        _, status = os.waitpid(child, 0)
        if os.WIFEXITED(status):
            sys.exit(os.WEXITSTATUS(status))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
