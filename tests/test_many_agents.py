"""One gate serves many conversations at once, on one event loop and on many threads, and their facts do not mix."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ledgeragent import AsyncLedgerAgent, Gate, JsonlRecorder, LedgerAgent, Toolset
from support import retail
from support.scripted_model import AsyncScriptedModel, ScriptedModel, calls, says

pytest_plugins = ["support.fixtures"]

AGENTS = 40
MARK = re.compile(r"#W(\d{4})|holder_(\d{4})|agent-(\d{4})")


class Backend:
    """A shop of one customer and one order, under a number of its own."""

    def __init__(self, number: int) -> None:
        self.mark = f"{number + 1000}"
        self.ran: list[Mapping[str, Any]] = []

    @property
    def tools(self) -> Toolset:
        names = ("find_user_id_by_email", "get_order_details", "cancel_pending_order")
        return Toolset.from_openai([{"name": name} for name in names], self._run)

    def _run(self, name: str, arguments: Mapping[str, Any]) -> Any:
        if name == "find_user_id_by_email":
            return f"mark_holder_{self.mark}"
        if name == "get_order_details":
            return retail.order(f"#W{self.mark}", "pending", user_id=f"mark_holder_{self.mark}")
        self.ran.append(arguments)
        return "done"

    def script(self) -> list[Any]:
        """What the model says: it cancels before it reads, is told to read, reads, and cancels."""
        cancel = ("cancel_pending_order", {"order_id": f"#W{self.mark}", "reason": "no longer needed"})
        return [
            calls(cancel),
            calls(("find_user_id_by_email", {"email": f"{self.mark}@example.com"})),
            calls(("get_order_details", {"order_id": f"#W{self.mark}"})),
            calls(cancel),
            says("Done."),
        ]


def check(backends: list[Backend], asked: list[Any], file: Path) -> None:
    """Each did its own write, and saw and left behind its own facts only."""
    assert [one.ran for one in backends] == [
        [{"order_id": f"#W{one.mark}", "reason": "no longer needed"}] for one in backends
    ]
    assert [marks(one) for one in asked] == [{one.mark} for one in backends]
    records = [json.loads(line) for line in file.read_text(encoding="ascii").splitlines()]
    assert [marks(record) for record in records] == [{record["session"].removeprefix("agent-")} for record in records]
    assert len(records) == 3 * AGENTS


def marks(shown: Any) -> set[str]:
    return {next(filter(None, found)) for found in MARK.findall(json.dumps(shown))}


def test_on_one_event_loop(gate: Gate, tmp_path: Path) -> None:
    recorder = JsonlRecorder(tmp_path / "records.jsonl")
    backends = [Backend(number) for number in range(AGENTS)]
    models = [AsyncScriptedModel(*one.script()) for one in backends]

    async def talk(backend: Backend, model: AsyncScriptedModel) -> str:
        about = {"now": retail.NOW, "session_id": f"agent-{backend.mark}", "recorder": recorder}
        return (await AsyncLedgerAgent(model, backend.tools, gate, **about).send("Cancel my order.")).text

    async def all_at_once() -> list[str]:
        return await asyncio.gather(*(talk(*one) for one in zip(backends, models, strict=True)))

    assert asyncio.run(all_at_once()) == ["Done."] * AGENTS
    recorder.close()
    check(backends, [one.asked for one in models], recorder.path)


def test_on_many_threads(gate: Gate, tmp_path: Path) -> None:
    recorder = JsonlRecorder(tmp_path / "records.jsonl")
    backends = [Backend(number) for number in range(AGENTS)]
    models = [ScriptedModel(*one.script()) for one in backends]

    def talk(backend: Backend, model: ScriptedModel) -> None:
        about = {"now": retail.NOW, "session_id": f"agent-{backend.mark}", "recorder": recorder}
        LedgerAgent(model, backend.tools, gate, **about).send("Cancel my order.")

    threads = [threading.Thread(target=talk, args=one) for one in zip(backends, models, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    recorder.close()
    check(backends, [one.asked for one in models], recorder.path)
