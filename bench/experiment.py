"""Four arms of one agent on a small real model: with and without the ledger's view, with and without the gate.

    python bench/experiment.py run --base-url http://127.0.0.1:8080/v1 [--out FILE] [--task ID]... [--trials N]
    python bench/experiment.py report [FILE]

`run` plays every task (bench/experiment_tasks.py) with its scripted customer, trial by trial, in all four arms, and
appends one line per finished conversation; what the file already has is skipped, so an interrupted run goes on. The
arms take turns task by task: wherever it stops, each has had the same share, and the server keeps the prompt's common
beginning. `report` prints the tables of docs/benchmark.md.

A write that ran is judged twice. The session's own gate says what it would have said, from what the conversation has
read. `Truth` says whether the write broke a rule, from everything in the database: the same question in every arm.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from experiment_tasks import POLICY, TASKS, TOOLS, Customer, Task
from ledgeragent import (
    Admitted,
    Call,
    Domain,
    Gate,
    Generation,
    LedgerAgent,
    Model,
    Options,
    Principal,
    Reply,
    Session,
    ShadowGate,
    ToolRefused,
    Toolset,
    open_engine,
)
from ledgeragent.errors import ModelError
from ledgeragent.passk import KS, estimate
from ledgeragent.shops import Shop, open_shop

Row = Mapping[str, Any]
ARMS: Final = ("fc", "ledger", "gate", "both")
PLAYED: Final = ("fc", "gate", "ledger", "both")
"""The order to play them in: those that begin alike one after the other."""
TRIALS: Final = 4
TEMPERATURE: Final = 0.7
MAX_TOKENS: Final = 120
MAX_GENERATIONS: Final = 6
SEEDS: Final = (11, 23, 37, 53)
"""One per trial, the same in every arm: until a gate or a view makes a difference, arms see the same conversation."""
RESULTS: Final = Path(__file__).resolve().parent / "results" / "local-model.jsonl"


class Truth:
    """Judges writes with everything known: reads what a rule may look at from the database right before."""

    def __init__(self, gate: Gate, shop: Shop, principal: Principal) -> None:
        self._shop = shop
        self._principal = principal
        self._session = Session(ShadowGate(gate), now=shop.now, principal=principal)

    def run(self, tool: str, arguments: dict[str, Any]) -> tuple[Any, list[str]]:
        """Run a write on the shop.

        Returns:
            What the tool returned, and the rules the write broke.

        Raises:
            ToolRefused: when the tool did; nothing was changed.
        """
        self._read_all(arguments)
        review = self._session.review([Call(tool, arguments)])[0]
        assert review.ticket is not None, "a shadow admits every call with arguments"
        content = self._session.execute(review.ticket, self._shop.tools[tool].run)
        found = review.decision.findings if review.decision is not None else []
        return content, [one.predicate for one in found if one.status == "violated"]

    def _read_all(self, arguments: Mapping[str, Any]) -> None:
        self._read("get_user_details", user_id=self._principal.id)
        order = self._read("get_order_details", order_id=arguments.get("order_id"))
        for item in order.get("items", ()):
            self._read("get_product_details", product_id=item["product_id"])

    def _read(self, tool: str, **arguments: Any) -> Any:
        issued = self._session.issue(tool, arguments)
        try:
            content = self._shop.tools[tool].run(tool, arguments)
        except ToolRefused as error:
            self._session.observe(issued.call_id, str(error), error=True)
            return {}
        self._session.observe(issued.call_id, content)
        return json.loads(content) if isinstance(content, str) else content


class Remembering:
    """A model that is asked the same thing only once in a trial: with one seed it would say the same again.

    Two arms go the same way until a gate or a view makes a difference. What they share takes its time once on the
    clock, and counts in both.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._said: dict[str, tuple[Generation, float]] = {}

    def timed(self, messages: Sequence[Any], tools: Sequence[Any]) -> tuple[Generation, float]:
        """The answer, and the seconds it took."""
        asked = json.dumps([_without_ids(message) for message in messages])
        if asked not in self._said:
            began = time.perf_counter()
            self._said[asked] = self._model.generate(messages, tools), time.perf_counter() - began
        return self._said[asked]


def _without_ids(message: Mapping[str, Any]) -> dict[str, Any]:
    """Call ids are random, and the local model does not see them."""
    seen = {key: value for key, value in message.items() if key != "tool_call_id"}
    if "tool_calls" in seen:
        seen["tool_calls"] = [call["function"] for call in seen["tool_calls"]]
    return seen


@dataclass
class Metered:
    """A model that notes the seconds it takes and the views it is shown."""

    model: Remembering
    seconds: float = 0.0
    views: list[str] = field(default_factory=list)

    def generate(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> Generation:
        """As the model."""
        last = messages[-1]
        if last["role"] == "user" and last["content"].startswith("<ledger>"):
            self.views.append(last["content"])
        said, seconds = self.model.timed(messages, tools)
        self.seconds += seconds
        return said


@dataclass
class Write:
    """A write that an arm let run."""

    tool: str
    arguments: Mapping[str, Any]
    outcome: str
    broken: list[str]


class Conversation:
    """One task in one arm: agent, shop, customer."""

    def __init__(self, task: Task, arm: str, model: Remembering, gate: Gate) -> None:
        self.task = task
        self.shop = open_shop("retail")
        self.metered = Metered(model)
        self.writes: dict[str, Write] = {}
        self.steps: list[Any] = []
        principal = Principal(id=task.customer, source="host")
        self._truth = Truth(gate, self.shop, principal)
        self.agent = LedgerAgent(
            self.metered,
            Toolset(self.shop.tools[name] for name in TOOLS),
            gate if arm in ("gate", "both") else ShadowGate(gate),
            now=self.shop.now,
            principal=principal,
            executor=self._execute,
            options=Options(system=POLICY, view=arm in ("ledger", "both"), max_generations=MAX_GENERATIONS),
        )

    def play(self) -> int:
        """Talk until the customer is done; how often the customer spoke."""
        customer, turns = Customer(self.task), 0
        said: str | None = self.task.opening
        while said is not None:
            turns += 1
            reply: Reply = self.agent.send(said)
            self.steps += reply.steps
            said = customer.answer(reply.text)
        return turns

    def _execute(self, call: Admitted, arguments: dict[str, Any]) -> Any:
        if call.ticket is None:
            return self.shop.tools[call.tool].run(call.tool, arguments)
        try:
            content, broken = self._truth.run(call.tool, arguments)
        except ToolRefused:
            self.writes[call.call_id] = Write(call.tool, arguments, "refused", [])
            raise
        self.writes[call.call_id] = Write(call.tool, arguments, "executed", broken)
        return content


def played(
    task: Task, arm: str, trial: int, model: Remembering, gate: Gate, count: Callable[[str], int]
) -> dict[str, Any]:
    """Play a task once and say all that is measured.

    Args:
        task: the task.
        arm: one of `ARMS`.
        trial: its number, from 0.
        model: seeded for the trial.
        gate: of the retail domain.
        count: tokens of a text.
    """
    conversation = Conversation(task, arm, model, gate)
    turns = conversation.play()
    steps = conversation.steps
    usages = [step.generation.usage for step in steps if step.generation.usage is not None]
    reviews = {review.call.call_id: review for step in steps for review in step.reviews}
    return {
        "task": task.id,
        "arm": arm,
        "trial": trial,
        "success": conversation.shop.digest() == task.end_state(),
        "turns": turns,
        "generations": len(steps),
        "reads": sum(call.ticket is None for step in steps for call in step.admitted),
        "prompt_tokens": sum(usage.prompt for usage in usages),
        "completion_tokens": sum(usage.completion for usage in usages),
        "view_tokens": sum(count(f"\n\n{view}") for view in conversation.metered.views),
        "seconds": round(conversation.metered.seconds, 1),
        "writes": [
            {
                "tool": write.tool,
                "arguments": write.arguments,
                "outcome": write.outcome,
                "broken": write.broken,
                "gate": reviews[call_id].would,
            }
            for call_id, write in conversation.writes.items()
        ],
        "rejected": [_rejection(one) for step in steps for one in step.rejected],
        "messages": conversation.agent.history,
    }


def _rejection(one: Any) -> dict[str, Any]:
    found = one.review.decision.findings if one.review is not None and one.review.decision is not None else []
    return {
        "tool": one.call.tool,
        "verdict": one.review.verdict if one.review is not None else "unreadable",
        "predicates": [f"{finding.predicate} {finding.status}" for finding in found],
    }


# Run ----------------------------------------------------------------------------------------------------------------


def todo(
    tasks: Iterable[Task], trials: int, arms: Sequence[str], done: Iterable[Row]
) -> Iterator[tuple[int, Task, str]]:
    """(trial, task, arm) of what has not been played, all arms of a task one after the other."""
    have = {(row["trial"], row["task"], row["arm"]) for row in done}
    every = ((trial, task, arm) for trial in range(trials) for task in tasks for arm in arms)
    yield from (one for one in every if (one[0], one[1].id, one[2]) not in have)


def rows(file: Path) -> list[dict[str, Any]]:
    """The results so far; a last line that was cut off by a kill is left out, and is played again."""
    if not file.exists():
        return []
    lines = file.read_text(encoding="utf-8").split("\n")
    return [json.loads(line) for line in lines[:-1]]


def run(about: argparse.Namespace) -> int:
    """Play what is missing."""
    from ledgeragent.models.openai import OpenAIModel

    tasks = [task for task in TASKS if not about.task or task.id in about.task]
    gate = Gate(Domain.load("retail"), open_engine("embedded"))
    missing = list(todo(tasks, about.trials, about.arm or PLAYED, rows(about.out)))
    count = token_counter(about.base_url)
    about.out.parent.mkdir(parents=True, exist_ok=True)
    _drop_torn_line(about.out)
    began, at = time.perf_counter(), None
    for number, (trial, task, arm) in enumerate(missing, 1):
        if (trial, task) != at:
            options = {"temperature": TEMPERATURE, "max_tokens": MAX_TOKENS, "seed": SEEDS[trial]}
            asked = OpenAIModel("local", base_url=about.base_url, timeout=600.0, stream=False, options=options)
            at, model = (trial, task), Remembering(asked)
        row = played(task, arm, trial, model, gate, count)
        with about.out.open("a", encoding="utf-8") as out:
            out.write(json.dumps(row, ensure_ascii=False) + "\n")
        left = (time.perf_counter() - began) / number * (len(missing) - number) / 60
        print(f"{number}/{len(missing)} {_said(row)}; {left:.0f} min left", flush=True)
    return 0


def _said(row: Row) -> str:
    right = "right" if row["success"] else "wrong"
    counts = f"{row['generations']} generations, {row['seconds']} s"
    return f"trial {row['trial']} {row['task']} {row['arm']}: ends {right}, {counts}"


def _drop_torn_line(file: Path) -> None:
    if file.exists():
        whole = file.read_text(encoding="utf-8")
        file.write_text(whole[: whole.rfind("\n") + 1], encoding="utf-8")


def token_counter(base_url: str) -> Callable[[str], int]:
    """Counts tokens with the server's own tokenizer."""
    url = base_url.removesuffix("/").removesuffix("/v1") + "/extras/tokenize/count"

    def count(text: str) -> int:
        body = json.dumps({"input": text}).encode()
        request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return int(json.load(answer)["count"])

    return count


# Report -------------------------------------------------------------------------------------------------------------


def report(about: argparse.Namespace) -> int:
    """Print the tables as Markdown."""
    found = rows(about.out)
    if not found:
        print(f"{about.out} has no results; make some with `experiment.py run`", file=sys.stderr)
        return 1
    print("\n\n".join(["\n".join(table) for table in _tables(found)]))
    return 0


def _tables(found: Sequence[Row]) -> Iterator[list[str]]:
    even = _even(found)
    played = {row["task"] for row in even}
    broken = list(_by_rule(even, _broken))
    rejected = list(_by_rule(even, lambda row: [rule for call in row["rejected"] for rule in call["predicates"]]))
    yield [
        f"{len(found)} of {len(TASKS) * TRIALS * len(ARMS)} conversations; counted are the {len(even) // len(ARMS)} "
        f"trials of tasks that every arm has played. pass^k with 95 % intervals, over the tasks with k trials."
    ]
    yield _table(*((f"pass^{k}", *(_pass(even, arm, k) for arm in ARMS)) for k in KS), *_sums(even))
    yield ["Writes that broke a rule and ran, by rule."]
    yield _table(*(broken or [("none", *("0" for _ in ARMS))]))
    yield ["What the gate said to the calls it rejected, by rule."]
    yield _table(*(rejected or [("none", *("0" for _ in ARMS))]))
    yield ["Conversations that end right, by task."]
    yield _table(*((one.id, *(_of(even, one.id, arm) for arm in ARMS)) for one in TASKS if one.id in played))


def _table(*lines: Sequence[str]) -> list[str]:
    return [f"| {' | '.join(line)} |" for line in (("", *ARMS), ("---", *["---:"] * len(ARMS)), *lines)]


def _even(found: Sequence[Row]) -> list[Row]:
    """Rows of the task trials that every arm has played."""
    arms = Counter((row["task"], row["trial"]) for row in found)
    return [row for row in found if arms[row["task"], row["trial"]] == len(ARMS)]


def _pass(even: Sequence[Row], arm: str, k: int) -> str:
    outcomes: dict[str, list[bool]] = {}
    for row in even:
        if row["arm"] == arm:
            outcomes.setdefault(row["task"], []).append(row["success"])
    found = estimate(outcomes.values(), k)
    return f"{found.value:.3f} ({found.low:.2f} to {found.high:.2f})" if found is not None else "-"


def _broken(row: Row) -> list[str]:
    return [rule for write in row["writes"] for rule in write["broken"]]


def _ran(row: Row) -> list[Row]:
    return [write for write in row["writes"] if write["outcome"] == "executed"]


_SUMS: Final[Mapping[str, Callable[[Row], float]]] = {
    "conversations that end right": lambda row: row["success"],
    "writes that ran": lambda row: len(_ran(row)),
    "… of them broke a rule": lambda row: sum(bool(write["broken"]) for write in _ran(row)),
    "… of them broke none, but what they rest on was not read, or stale": lambda row: sum(
        not write["broken"] and write["gate"] != "allow" for write in _ran(row)
    ),
    "writes the shop refused": lambda row: sum(write["outcome"] == "refused" for write in row["writes"]),
    "calls the gate rejected": lambda row: len(row["rejected"]),
    "customer messages": lambda row: row["turns"],
    "generations": lambda row: row["generations"],
    "prompt tokens": lambda row: row["prompt_tokens"],
    "… of them the ledger's view": lambda row: row["view_tokens"],
    "completion tokens": lambda row: row["completion_tokens"],
    "seconds": lambda row: row["seconds"],
}


def _sums(even: Sequence[Row]) -> Iterator[Sequence[str]]:
    for name, measure in _SUMS.items():
        yield name, *(f"{sum(measure(row) for row in even if row['arm'] == arm):,.0f}" for arm in ARMS)


def _by_rule(even: Sequence[Row], rules_of: Callable[[Row], Sequence[str]]) -> Iterator[Sequence[str]]:
    counted = Counter((rule, row["arm"]) for row in even for rule in rules_of(row))
    for rule in sorted({rule for rule, _ in counted}):
        yield f"`{rule}`", *(str(counted[rule, arm]) for arm in ARMS)


def _of(even: Sequence[Row], task: str, arm: str) -> str:
    mine = [row["success"] for row in even if (row["task"], row["arm"]) == (task, arm)]
    return f"{sum(mine)}/{len(mine)}"


def main() -> int:
    """Run or report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(required=True)
    running = commands.add_parser("run", help="play what is missing")
    running.add_argument("--base-url", default="http://127.0.0.1:8080/v1")
    running.add_argument("--out", type=Path, default=RESULTS)
    running.add_argument("--task", action="append", choices=[task.id for task in TASKS])
    running.add_argument("--arm", action="append", choices=ARMS)
    running.add_argument("--trials", type=int, default=TRIALS, choices=range(1, TRIALS + 1))
    running.set_defaults(do=run)
    reporting = commands.add_parser("report", help="print the tables as Markdown")
    reporting.add_argument("out", type=Path, nargs="?", default=RESULTS)
    reporting.set_defaults(do=report)
    about = parser.parse_args()
    logging.getLogger("ledgeragent").setLevel(logging.ERROR)  # half of the arms run under a shadow, and it says so
    try:
        return int(about.do(about))
    except ModelError as error:
        print(f"no answer from the model: {error}; run again to go on", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
