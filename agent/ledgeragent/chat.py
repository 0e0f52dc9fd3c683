"""A conversation with an agent, shown as it goes: what it reads, what it wants to change, what the gate says to that.

The agent is a `LedgerAgent` like anybody's. Where the customer's words come from is left to `cli_chat`, how things look
to `terminal` and `chatscreen`.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any, Final

from rich.console import RenderableType
from rich.text import Text

from ledgeragent.agent import LedgerAgent, Options, Reply
from ledgeragent.chatapproval import Desk, shown
from ledgeragent.chatscreen import WIDE, Screen, side_panel
from ledgeragent.contracts import ApprovalRequest, ReadTool, SignedGrant
from ledgeragent.gate import Gate, ShadowGate
from ledgeragent.jsonio import readable
from ledgeragent.loop import Admitted, Rejected, Step
from ledgeragent.model import Definition, Generation, Message, Model
from ledgeragent.paths import NOTHING, Path, dotted
from ledgeragent.records import Recorder
from ledgeragent.replay import Tally, findings
from ledgeragent.session import Review, ToolRefused
from ledgeragent.shops import Shop
from ledgeragent.terminal import STYLES, Line, below, call_text, called, judged, learned, print_tally, said, went_stale

_ENDINGS: Final = {
    "revisions": "the turn ends here: the model proposed only what the gate rejects",
    "generations": "the turn ends here: the model has been asked as often as a turn may ask it",
}
COMMANDS: Final = {
    "/ledger": "the ledger as it stands, with what is stale",
    "/verdicts": "what the gate said to every write so far",
    "/customers": "who you can be",
    "/help": "this",
    "/quit": "end (so does Ctrl-D)",
}


@dataclass
class Counts:
    turns: int = 0
    generations: int = 0
    uncounted: int = 0
    prompt: int = 0
    cached: int = 0
    completion: int = 0
    view_tokens: int = 0
    view_bytes: int = 0

    def add(self, step: Step) -> None:
        self.generations += 1
        self.view_bytes += step.view_bytes
        used = step.generation.usage
        if used is None:
            self.uncounted += 1
            return
        self.prompt += used.prompt
        self.cached += used.cached
        self.completion += used.completion
        self.view_tokens += step.view_tokens or 0


class Talk:
    """One conversation, shown as it goes. It stands between the agent and its model, and between it and its tools."""

    def __init__(
        self,
        shop: Shop,
        gate: Gate | ShadowGate,
        model: Model,
        screen: Screen,
        *,
        options: Options,
        recorder: Recorder | None,
        desk: Desk | None = None,
    ) -> None:
        self.screen = screen
        self._desk = desk
        self.counts = Counts()
        self.reviews: list[Review] = []
        self._shop = shop
        self._model = model
        self._interrupts = _Interrupts()
        self._waiting: dict[str, Admitted] = {}
        self._ran: Admitted | None = None
        self._issued: dict[Path, int] = {}
        self._stale: set[Path] = set()
        self.agent = LedgerAgent(
            self,
            shop.tools,
            gate,
            now=shop.now,
            options=options,
            recorder=recorder,
            executor=self._run,
            on_step=self._stepped,
            approvals=desk.approvals if desk is not None else None,
            approve=self._asked if desk is not None else None,
        )

    def take(self, text: str) -> None:
        """A command of the chat, or a message of the customer with all that follows from it."""
        if text.startswith("/"):
            self.screen.show(self._commanded(text))
            return
        self.counts.turns += 1
        with self._interrupts.held(), self.screen.turn(self._side):
            reply = self.agent.send(text)
            self._flush()
            self.screen.show(_answered(reply))

    def give_up(self, why: str) -> None:
        """The turn at hand broke off."""
        self.agent.loop.give_up()
        self._flush()
        self.screen.show([Line(Text(f"this turn is given up: {why}", style="red"))])

    # Between the agent and its model, and its tools

    def generate(self, messages: Sequence[Message], tools: Sequence[Definition]) -> Generation:
        """As `Model.generate`; an interruption comes here, where the conversation is whole."""
        self._flush()
        with self._interrupts.let_through(), self.screen.working():
            return self._model.generate(messages, tools)

    def _asked(self, request: ApprovalRequest) -> list[SignedGrant]:
        """An interruption is no consent; the turn is then given up where the conversation is whole."""
        assert self._desk is not None
        self._flush()
        self.screen.show(shown(request))
        try:
            with self._interrupts.let_through(), self.screen.asking():
                return self._desk(request)
        except KeyboardInterrupt:
            return []

    def _stepped(self, step: Step) -> None:
        self.counts.add(step)
        self.reviews += step.reviews
        self._waiting = {one.call_id: one for one in step.admitted}
        if step.generation.calls and step.generation.content:
            self.screen.show([said("agent", step.generation.content)])
        for one in step.rejected:
            self.screen.show(self._dropped(one))

    def _dropped(self, one: Rejected) -> Iterator[Line]:
        tool, review = one.call.tool, one.review
        if review is None:
            yield called(self._kind(tool), tool, one.call.arguments)
            yield Line(Text(one.message, style="yellow"), 4)
            return
        yield called(self._kind(tool), tool, _proposed(review))
        yield from judged(review)

    def _run(self, call: Admitted, arguments: dict[str, Any]) -> Any:
        self._flush(withheld=False)
        del self._waiting[call.call_id]
        self.screen.show([called(self._kind(call.tool), call.tool, arguments)])
        self._ran = call
        if call.ticket is not None:
            self.screen.show(judged(next(one for one in self.reviews if one.ticket == call.ticket)))
        try:
            returned = self._shop.tools[call.tool].run(call.tool, arguments)
        except ToolRefused as refusal:
            self._ran = None
            self.screen.show([Line(Text(f"refused by the tool: {refusal}", style="yellow"), 4)])
            raise
        if not self._is_read(call.tool):
            self.screen.show([Line(Text.assemble(("returned ", "dim"), str(returned)), 4)])
        return returned

    def _flush(self, *, withheld: bool = True) -> None:
        """Show what came of the call that ran last, and calls that will not run any more."""
        if self._ran is not None:
            read, self._ran = self._is_read(self._ran.tool), None
            fresh, stale = self._news()
            if read:
                self.screen.show(learned(fresh, (), self.agent.session.ledger))
            self.screen.show(went_stale(stale))
        if withheld:
            for call in self._waiting.values():
                self.screen.show([called(self._kind(call.tool), call.tool, call.arguments)])
                self.screen.show([Line(Text("not run: what admitted it has changed since", style="yellow"), 4)])
            self._waiting = {}

    def _news(self) -> tuple[list[Path], list[Path]]:
        """(records read since this was last asked, paths that went stale)."""
        ledger = self.agent.session.ledger
        before, self._issued = self._issued, {path: one.issued for path, _, one, _ in ledger.records()}
        stale_before, self._stale = self._stale, set(ledger.stale_paths())
        fresh = [path for path, issued in self._issued.items() if before.get(path) != issued]
        return fresh, sorted(self._stale - stale_before)

    def _kind(self, tool: str) -> str:
        if self._is_read(tool):
            return "read"
        return "write" if self.agent.session.domain.is_write(tool) else "call"

    def _is_read(self, tool: str) -> bool:
        return isinstance(self.agent.session.domain.tools.get(tool), ReadTool)

    # What else there is to show

    def introduce(self, model: str, *, typed: bool) -> None:
        """Say what this is.

        Args:
            model: what plays the agent, in words.
            typed: whether there is somebody at the keyboard to be told what to do.
        """
        engine = self.agent.session.gate.engine
        view = "on" if self.agent.options.view else "off"
        told = f"{self._shop.name} shop; gate: {engine.name}, OPA {engine.version}; ledger view: {view}; model: {model}"
        self.screen.show([Line(Text(told, style="dim"))])
        if not self.agent.session.enforced:
            self.screen.show([Line(Text("SHADOW: the gate only watches, nothing is held back", style="bold yellow"))])
        if self.screen.lacks_room:
            hint = f"the panel needs {WIDE} columns; /ledger and /verdicts show what it would"
            self.screen.show([Line(Text(hint, style="dim"))])
        if typed:
            hint = "You are a customer; /customers says which you can be, /help what else there is. Ctrl-D ends."
            self.screen.show([Line(Text(hint, style="dim"))])

    def _side(self) -> RenderableType:
        return side_panel(self.agent.session.ledger, self.reviews)

    def sum_up(self) -> None:
        """Verdicts and tokens of the whole conversation."""
        tally = Tally()
        for review in self.reviews:
            tally.count(review)
        self.screen.console.print()
        print_tally(tally, self.screen.console)
        self.screen.show([Line(Text(_cost(self.counts, view=self.agent.options.view)))])

    def _commanded(self, text: str) -> list[Line]:
        commands: Mapping[str, Callable[[], list[Line]]] = {
            "/ledger": self._ledger,
            "/verdicts": self._verdicts,
            "/customers": self._customers,
            "/help": _help,
        }
        name = text.split()[0]
        if name not in commands:
            return [Line(Text(f"there is no {name}; the commands are {', '.join(COMMANDS)}", style="yellow"), 2)]
        return commands[name]()

    def _ledger(self) -> list[Line]:
        lines = []
        ledger = self.agent.session.ledger
        for path, _, provenance, stale in ledger.records():
            fresh = ledger.lookup(path)
            value = f" = {readable(fresh)}" if fresh is not NOTHING else ""
            lines.append(Line(Text.assemble((dotted(path), "bold"), value, (f"  read by {provenance.tool}", "dim")), 2))
            if stale:
                lines.append(Line(Text(f"stale: {below(path, stale)}", style="yellow"), 4))
        return lines or [Line(Text("the ledger is empty: nothing has been read yet", style="dim"), 2)]

    def _verdicts(self) -> list[Line]:
        lines = []
        for review in self.reviews:
            call = call_text(review.call.tool, _proposed(review))
            lines.append(Line(Text.assemble((f"{review.would.upper():7}", STYLES[review.would]), call), 2))
            if names := ", ".join(one.predicate for one in findings(review)):
                lines.append(Line(Text(names, style="dim"), 9))
        return lines or [Line(Text("the gate has judged nothing yet: no write was proposed", style="dim"), 2)]

    def _customers(self) -> list[Line]:
        data = self._shop.data
        orders = data.get("orders", data.get("reservations", {}))
        lines = []
        for user_id, user in data["users"].items():
            name = f"{user['name']['first_name']} {user['name']['last_name']}"
            own = ", ".join(
                f"{key} {order['status'] or ''}".strip() for key, order in orders.items() if order["user_id"] == user_id
            )
            who = user["email"] if self._shop.name == "retail" else user_id
            lines.append(Line(Text.assemble((name, "bold"), f"  {who}  ", (own, "dim")), 2))
        return lines


class _Interrupts:
    """Ctrl-C gives up a turn only where the conversation is whole: while the model is asked, or before it is."""

    def __init__(self) -> None:
        self._wanted = False
        self._through = False

    @contextmanager
    def held(self) -> Iterator[None]:
        """For the time of a turn."""
        self._wanted = False
        before = signal.signal(signal.SIGINT, self._interrupted)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    @contextmanager
    def let_through(self) -> Iterator[None]:
        """For the time of a generation.

        Raises:
            KeyboardInterrupt: also when one had come before.
        """
        self._through = True
        try:
            if self._wanted:
                raise KeyboardInterrupt
            yield
        finally:
            self._through = False

    def _interrupted(self, _number: int, _frame: FrameType | None) -> None:
        self._wanted = True
        if self._through:
            raise KeyboardInterrupt


def _proposed(review: Review) -> Any:
    """The arguments as they were understood."""
    return review.gate_input["action"]["arguments"]


def _answered(reply: Reply) -> Iterator[Line]:
    if reply.text:
        yield said("agent", reply.text)
    else:
        yield Line(Text("the agent said nothing", style="dim"))
    if reply.ended in _ENDINGS:
        yield Line(Text(_ENDINGS[reply.ended], style="dim"))


def _help() -> list[Line]:
    return [Line(Text.assemble((f"{name:11}", "bold"), what), 2) for name, what in COMMANDS.items()]


def _cost(counts: Counts, *, view: bool) -> str:
    """Tokens in words, as far as the provider counted them."""
    told = f"{_many(counts.turns, 'turn')}, {_many(counts.generations, 'generation')}"
    shown = f"the ledger view took {counts.view_bytes:,} bytes of the requests" if view else "no ledger view"
    if counts.uncounted == counts.generations:
        return f"{told}; {shown}; no tokens were counted"
    told += f"; {counts.prompt:,} prompt tokens ({counts.cached:,} cached), {counts.completion:,} completion tokens"
    if view:
        share = 100 * counts.view_tokens / counts.prompt if counts.prompt else 0
        told += f"; of the prompt, the ledger view took about {counts.view_tokens:,} ({share:.1f} %)"
    else:
        told += "; no ledger view"
    return told + (f"; {_many(counts.uncounted, 'generation')} came without counts" if counts.uncounted else "")


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
