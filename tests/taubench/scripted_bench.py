"""The benchmark with everything real but the two who talk: scripts stand in for the agent's model and for the user."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from tau2.agent import llm_agent
from tau2.data_model.message import AssistantMessage, MultiToolMessage, ToolCall, UserMessage
from tau2.data_model.simulation import SimulationRun
from tau2.registry import registry
from tau2.run import get_tasks, run_task
from tau2.user.base import STOP, UserState
from tau2.user.user_simulator import UserSimulator
from tau2.utils.llm_utils import to_litellm_messages

from ledgeragent.adapters.tau2.run import Job, Plan
from ledgeragent.model import Definition, Generation, Message, ProposedCall, Usage
from support.gold_player import CLOSING, GO_ON, Arguments, Line, Script, asked_for, next_line

USER = "scripted_user"
PROMPT_TOKENS, COMPLETION_TOKENS = 100, 10
JSON = Any


class _Playing(threading.local):
    """The task that this thread plays: the benchmark does not tell its user, and scenarios are not unique."""

    task_id = ""


playing = _Playing()


@contextmanager
def plays(task_id: str) -> Iterator[None]:
    """Have the scripted user of this thread come with a task."""
    playing.task_id = task_id
    yield
    playing.task_id = ""


class ScriptedPlan(Plan):
    """A run whose scripted user knows the task."""

    def simulate(self, job: Job) -> JSON:
        """As `Plan.simulate`."""
        with plays(job.task.id):
            return super().simulate(job)


class ScriptedUser(UserSimulator):  # type: ignore[misc]
    """Names their task as the first thing, does what they are asked to, and stops at the agent's closing words."""

    def get_init_state(self, message_history: list[Any] | None = None) -> UserState:
        return UserState(system_messages=[], messages=list(message_history or ()))

    def generate_next_message(self, message: Any, state: UserState) -> tuple[UserMessage, UserState]:
        said = UserMessage(role="user", content=None, cost=0.0)
        asked = asked_for(message.content or "") if isinstance(message, AssistantMessage) else None
        if asked is not None:
            name, arguments = asked
            said.tool_calls = [ToolCall(id=f"u{len(state.messages)}", name=name, arguments=arguments, requestor="user")]
        elif not state.messages:
            said.content = playing.task_id
        else:
            ended = isinstance(message, AssistantMessage) and CLOSING in (message.content or "")
            said.content = STOP if ended else GO_ON
        state.messages += [message, said] if not isinstance(message, MultiToolMessage) else [said]
        return said, state

    @classmethod
    def is_stop(cls, message: UserMessage) -> bool:
        return STOP in (message.content or "")


class Bench:
    """One domain of the benchmark, with scripts of the right actions for all its tasks.

    Args:
        domain: its name.
    """

    def __init__(self, domain: str) -> None:
        self.domain = domain
        self.tasks = {task.id: task for task in get_tasks(domain, "base")}
        self.scripts = {task_id: self._script(task_id) for task_id in self.tasks}
        if USER not in registry.get_users():
            registry.register_user(ScriptedUser, USER)

    def actions(self, task_id: str) -> list[JSON]:
        """The right actions, as the benchmark has them."""
        criteria = self.tasks[task_id].evaluation_criteria
        return [
            {"name": one.name, "arguments": one.arguments, "requestor": one.requestor} for one in criteria.actions or ()
        ]

    def line(self, messages: Sequence[Mapping[str, Any]]) -> Line:
        """What the model of the conversation says next."""
        spoken = [message for message in messages if message["role"] != "system"]
        first = next(message["content"] for message in spoken if message["role"] == "user")
        return next_line(self.scripts[first], spoken)

    def bare(self, task_id: str, **about: Any) -> SimulationRun:
        """The task with the benchmark's own agent."""
        named = {"llm_agent": "scripted", "llm_user": "scripted", **about}
        with plays(task_id):
            return run_task(self.domain, self.tasks[task_id], agent="llm_agent", user=USER, **named)

    def generate(self, model: str, messages: list[Any], tools: Any = None, **_: Any) -> AssistantMessage:
        """Stands in for the benchmark's `generate`."""
        line = self.line(to_litellm_messages(messages))
        number = sum(isinstance(message, AssistantMessage) for message in messages)
        calls = None
        if line.call is not None:
            calls = [ToolCall(id=f"b{number}", name=line.call[0], arguments=line.call[1])]
        usage = {"prompt_tokens": PROMPT_TOKENS, "completion_tokens": COMPLETION_TOKENS}
        return AssistantMessage(role="assistant", content=line.text or None, tool_calls=calls, cost=0.0, usage=usage)

    def database(self, simulation: JSON) -> tuple[str | None, str | None]:
        """Digests of the databases that a simulation's calls lead to, the agent's and the user's."""
        run = SimulationRun.model_validate(simulation)
        state = self.tasks[run.task_id].initial_state
        environment = registry.get_env_constructor(self.domain)()
        environment.set_state(
            initialization_data=state.initialization_data if state is not None else None,
            initialization_actions=state.initialization_actions if state is not None else None,
            message_history=run.messages,
        )
        return environment.get_db_hash(), environment.get_user_db_hash()

    @cached_property
    def environment(self) -> Any:
        """An environment to look things up in."""
        return registry.get_env_constructor(self.domain)()

    def _script(self, task_id: str) -> Script:
        actions = self.actions(task_id)
        told = self.tasks[task_id].evaluation_criteria.communicate_info or []
        knowledge = _KNOWLEDGE[self.domain](self.environment.tools.db, actions, self._phone(task_id))
        return Script(actions, " ".join(told), knowledge)

    def _phone(self, task_id: str) -> str | None:
        state = self.tasks[task_id].initial_state
        steps = (state.initialization_actions or ()) if state is not None else ()
        numbers = [step.arguments["phone_number"] for step in steps if "phone_number" in step.arguments]
        return numbers[0] if numbers else None


class ScriptedModel:
    """An agent's model that plays a bench's scripts."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    def generate(self, messages: Sequence[Message], tools: Sequence[Definition]) -> Generation:
        """As `Model.generate`."""
        line = self._bench.line(messages)
        usage = Usage(PROMPT_TOKENS, COMPLETION_TOKENS)
        if line.call is None:
            return Generation(line.text, usage=usage, cost=0.0)
        name, arguments = line.call
        return Generation("", (ProposedCall("", name, json.dumps(arguments)),), usage, "tool_calls", 0.0)


class _Retail:
    """Knows the customer's e-mail address."""

    def __init__(self, database: Any, actions: list[JSON], _: str | None) -> None:
        named = [action["arguments"]["user_id"] for action in actions if "user_id" in action["arguments"]]
        orders = [action["arguments"]["order_id"] for action in actions if "order_id" in action["arguments"]]
        known = [order for order in orders if order in database.orders]
        customer = named[0] if named else database.orders[known[0]].user_id if known else None
        self._email = database.users[customer].email if customer else None

    def __call__(self, tool: str, given: Arguments, write: Arguments) -> list[Arguments] | None:
        return [{"email": self._email}] if tool == "find_user_id_by_email" else [given]


class _Airline:
    """Knows the customer's id and where the flights they want go."""

    def __init__(self, database: Any, actions: list[JSON], _: str | None) -> None:
        self._database = database
        named = [action["arguments"]["user_id"] for action in actions if "user_id" in action["arguments"]]
        trips = [action["arguments"]["reservation_id"] for action in actions if "reservation_id" in action["arguments"]]
        known = [trip for trip in trips if trip in database.reservations]
        self._customer = named[0] if named else database.reservations[known[0]].user_id if known else None

    def __call__(self, tool: str, given: Arguments, write: Arguments) -> list[Arguments] | None:
        if tool == "get_user_details":
            return [{"user_id": self._customer, **given}]
        if tool != "search_direct_flight":
            return [given]
        wanted = [flight["flight_number"] for flight in write["flights"] if flight["date"] == given["date"]]
        flights = [self._database.flights[number] for number in wanted]
        return [{"origin": one.origin, "destination": one.destination, **given} for one in flights]


class _Telecom:
    """Knows the number of the phone in the customer's hands."""

    def __init__(self, database: Any, actions: list[JSON], phone: str | None) -> None:
        self._phone = phone

    def __call__(self, tool: str, given: Arguments, write: Arguments) -> list[Arguments] | None:
        return [{"phone_number": self._phone}] if tool == "get_customer_by_phone" else [given]


_KNOWLEDGE = {"retail": _Retail, "airline": _Airline, "telecom": _Telecom}


def scripted_agent(bench: Bench, patch: Any) -> None:
    """Let the benchmark's own agent play the bench's scripts."""
    patch.setattr(llm_agent, "generate", bench.generate)


def tool_calls(simulation: JSON) -> list[tuple[str, JSON]]:
    """Every call of the agent that is in a simulation's trajectory."""
    return [
        (call["name"], call["arguments"])
        for message in simulation["messages"]
        if message["role"] == "assistant"
        for call in message["tool_calls"] or ()
    ]


def counted(simulation: JSON, name: str) -> Any:
    """The sum (or the list) of what our agent noted under a name, over a simulation's messages."""
    noted = [(message.get("raw_data") or {}).get("ledgeragent") for message in simulation["messages"]]
    values = [one[name] for one in noted if one is not None]
    return [item for value in values for item in value] if name == "rejected" else sum(values)


__all__ = [
    "PROMPT_TOKENS",
    "USER",
    "Bench",
    "Script",
    "ScriptedModel",
    "ScriptedPlan",
    "counted",
    "scripted_agent",
    "tool_calls",
]
