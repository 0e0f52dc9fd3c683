"""The core of the adapters: judged before, run only with a ticket, one write after the other, proved at start."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from ledgeragent.adapters.core import Admitted, Call, Guard, Rejected, Returned, apart
from ledgeragent.errors import LedgerError, TicketError, WiringError
from ledgeragent.gate import Gate
from ledgeragent.paths import NOTHING
from ledgeragent.records import JsonlRecorder, read_records
from ledgeragent.session import Session, ToolRefused
from support import retail

pytest_plugins = ["support.fixtures"]

CANCEL, MOVE = retail.cancel(call_id="one"), retail.move(call_id="two")
BLOCKED = retail.cancel("#W2", call_id="three")
READ = Call("get_order_details", {"order_id": "#W1"}, "read")


@pytest.fixture
def guard(session: Session) -> Guard:
    return Guard(session)


def done(arguments: dict[str, Any]) -> str:
    return "done"


def stops(error: BaseException) -> Any:
    def run(arguments: dict[str, Any]) -> None:
        raise error

    return run


def admitted(guard: Guard, call: Call, *message: Call) -> Admitted:
    answer = guard.judge(call, message)
    assert isinstance(answer, Admitted), answer
    return answer


# Before a tool ------------------------------------------------------------------------------------------------------


def test_a_read_is_admitted_and_its_return_becomes_fact(gate: Gate) -> None:
    guard = Guard(Session(gate, now=retail.NOW))
    assert guard.judge(READ) == Admitted("read", READ.tool, READ.arguments, None)
    returned = guard.execute(READ.tool, "read", lambda arguments: retail.PENDING)
    assert returned == Returned(retail.PENDING, "executed")
    assert "orders.#W1" in guard.ledger_text()


def test_a_write_runs_with_the_judged_arguments(guard: Guard, session: Session) -> None:
    call = Call(CANCEL.tool, '{"reason": "no longer needed",\n "order_id": "#W1"}', "one")
    admitted(guard, call)
    assert guard.execute(CANCEL.tool, "one", lambda arguments: arguments).content == CANCEL.arguments
    assert retail.history(session) == [(CANCEL.tool, "executed")]


def test_a_rejected_write_is_answered_in_words_and_has_no_right_to_run(guard: Guard, session: Session) -> None:
    answer = guard.judge(BLOCKED)
    assert isinstance(answer, Rejected)
    assert answer.message.startswith("cancel_pending_order was refused.")
    with pytest.raises(TicketError, match="without having been judged"):
        guard.execute(BLOCKED.tool, "three", done)
    assert retail.history(session) == []


@pytest.mark.parametrize("arguments", ["{", "[]", float("nan"), {"order_id": float("inf")}])
@pytest.mark.parametrize("tool", ["get_order_details", "cancel_pending_order", "not_declared"])
def test_what_is_no_json_object_is_rejected(guard: Guard, tool: str, arguments: Any) -> None:
    assert isinstance(guard.judge(Call(tool, arguments, "one")), Rejected)


def test_calls_of_one_message_are_judged_together_and_each_once(guard: Guard, session: Session) -> None:
    before = session.turn
    answers = [guard.judge(call, (MOVE, READ, CANCEL)) for call in (MOVE, READ, CANCEL)]
    assert [type(answer) for answer in answers] == [Admitted, Admitted, Admitted]
    assert session.turn == before + 1
    assert retail.history(session) == [(MOVE.tool, "pending"), (CANCEL.tool, "pending")]
    assert [guard.execute(call.tool, call.call_id, done).outcome for call in (MOVE, CANCEL)] == ["executed"] * 2


def test_calls_without_a_message_are_messages_of_their_own(guard: Guard, session: Session) -> None:
    before = session.turn
    admitted(guard, CANCEL)
    answer = guard.judge(MOVE)  # the order's status is stale: the cancellation may change it
    assert isinstance(answer, Rejected)
    assert "Changed by a write" in answer.message
    assert session.turn == before + 2


def test_a_call_that_was_edited_after_its_message_was_judged_is_judged_again(guard: Guard, session: Session) -> None:
    edited = Call(CANCEL.tool, {**CANCEL.arguments, "reason": "changed my mind"}, "one")
    admitted(guard, MOVE, MOVE, CANCEL)
    assert isinstance(guard.judge(edited, (MOVE, CANCEL)), Rejected)
    guard.give_up()
    assert retail.history(session) == []


def test_admitted_calls_that_never_ran_are_withheld_with_the_next_message_and_come_too_late(
    guard: Guard, session: Session
) -> None:
    for call in (MOVE, CANCEL):
        admitted(guard, call, MOVE, CANCEL)
    guard.judge(READ, (READ,))
    assert retail.history(session) == []
    late = guard.execute(MOVE.tool, MOVE.call_id, done)
    assert (late.outcome, "went on without it" in late.text) == ("withheld", True)
    with pytest.raises(TicketError):
        guard.execute(MOVE.tool, MOVE.call_id, done)


def test_a_call_that_is_asked_about_again_before_it_ran_does_not_stand_in_its_own_way(
    guard: Guard, session: Session
) -> None:
    for _ in range(2):
        admitted(guard, CANCEL, CANCEL)
    assert guard.execute(CANCEL.tool, "one", done).outcome == "executed"
    assert retail.history(session) == [(CANCEL.tool, "executed")]


def test_ids_that_come_twice_in_a_message_do_not_mix_its_calls_up(guard: Guard, session: Session) -> None:
    same = retail.give_back(call_id="one")
    admitted(guard, CANCEL, CANCEL, same)
    admitted(guard, same, CANCEL, same)
    with pytest.raises(TicketError):
        guard.execute(CANCEL.tool, "one", done)
    assert guard.execute(same.tool, "one", done).outcome == "executed"
    assert retail.history(session) == [(same.tool, "executed")]


# The tool -----------------------------------------------------------------------------------------------------------


def test_a_ticket_runs_one_call_once_and_only_its_tool(guard: Guard) -> None:
    admitted(guard, CANCEL)
    with pytest.raises(TicketError):
        guard.execute("modify_user_address", "one", done)
    guard.execute(CANCEL.tool, "one", done)
    with pytest.raises(TicketError):
        guard.execute(CANCEL.tool, "one", done)


@pytest.mark.parametrize(
    ("error", "outcome", "said", "history"),
    [
        (ToolRefused("no such order"), "refused", "Error: no such order", []),
        (OSError("gone"), "uncertain", "may have been carried out: OSError: gone", [(CANCEL.tool, "uncertain")]),
    ],
)
def test_what_a_write_raises_is_its_outcome(
    guard: Guard, session: Session, error: Exception, outcome: str, said: str, history: Any
) -> None:
    admitted(guard, CANCEL)
    returned = guard.execute(CANCEL.tool, "one", stops(error))
    assert (returned.outcome, said in returned.text) == (outcome, True)
    assert retail.history(session) == history


def test_a_read_that_fails_is_no_fact(gate: Gate) -> None:
    guard = Guard(Session(gate, now=retail.NOW))
    find = Call("find_user_id_by_email", {"email": retail.EMAIL}, "find")
    admitted(guard, find)
    assert guard.execute(find.tool, "find", stops(OSError("gone"))) == Returned("Error: gone", "refused")
    assert "Nothing has been read yet." in guard.ledger_text()


class Steers(Exception):
    """Stands for an exception that a framework steers by."""


@pytest.mark.parametrize("error", [Steers(), KeyboardInterrupt()])
def test_what_steers_the_framework_is_raised_on_after_it_counted(
    guard: Guard, session: Session, error: BaseException
) -> None:
    admitted(guard, CANCEL)
    with pytest.raises(type(error)):
        guard.execute(CANCEL.tool, "one", stops(error), passes=(Steers,))
    assert retail.history(session) == [(CANCEL.tool, "uncertain")]


def test_a_write_within_a_write_is_withheld_and_does_not_wait_for_itself(guard: Guard, session: Session) -> None:
    back = retail.give_back(call_id="back")
    for call in (CANCEL, back):
        admitted(guard, call, CANCEL, back)
    inner: list[Returned] = []
    guard.execute(CANCEL.tool, "one", lambda _: inner.append(guard.execute(back.tool, "back", done)))
    assert [(one.outcome, "must wait" in one.text) for one in inner] == [("withheld", True)]
    assert retail.history(session) == [(CANCEL.tool, "executed")]


def test_writes_from_many_threads_run_one_after_the_other(guard: Guard, session: Session) -> None:
    calls = [retail.give_back(call_id="back"), CANCEL]
    for call in calls:
        admitted(guard, call, *calls)
    running = threading.Lock()
    overlaps: list[bool] = []

    def run(arguments: dict[str, Any]) -> None:
        overlaps.append(not running.acquire(blocking=False))
        threading.Event().wait(0.02)
        running.release()

    threads = [threading.Thread(target=guard.execute, args=(call.tool, call.call_id, run)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert overlaps == [False, False]
    assert {outcome for _, outcome in retail.history(session)} == {"executed"}


def test_calls_of_one_message_run_in_its_order_on_an_event_loop(guard: Guard, session: Session) -> None:
    calls = [MOVE, retail.give_back(call_id="back"), CANCEL]
    ran: list[str] = []

    async def one(call: Call) -> str:
        assert isinstance(await guard.ajudge(call, calls), Admitted)

        async def run(arguments: dict[str, Any]) -> None:
            ran.append(f"{call.call_id} begins")
            await asyncio.sleep(0)
            ran.append(f"{call.call_id} ends")

        return (await guard.aexecute(call.tool, call.call_id, run)).outcome

    async def all_at_once() -> list[str]:
        return await asyncio.gather(*(one(call) for call in calls))

    assert asyncio.run(all_at_once()) == ["executed"] * 3
    assert ran == [f"{call.call_id} {what}" for call in calls for what in ("begins", "ends")]


class Unreadable:
    """What some client libraries return: an object whose text fails once its connection is closed."""

    def __str__(self) -> str:
        raise RuntimeError("the connection is closed")


def test_a_write_whose_return_cannot_be_read_was_carried_out_all_the_same(guard: Guard, session: Session) -> None:
    async def run(arguments: dict[str, Any]) -> Unreadable:
        return Unreadable()

    admitted(guard, MOVE, MOVE, CANCEL)
    admitted(guard, CANCEL, MOVE, CANCEL)
    said = ("(this cannot be read: RuntimeError)", "executed")
    for returned in (
        guard.execute(MOVE.tool, "two", lambda arguments: Unreadable()),
        asyncio.run(guard.aexecute(CANCEL.tool, "one", run)),
    ):
        assert (returned.text, returned.outcome) == said
    assert retail.history(session) == [(MOVE.tool, "executed"), (CANCEL.tool, "executed")]


def test_a_read_whose_return_cannot_be_read_gives_no_fact(gate: Gate) -> None:
    guard = Guard(Session(gate, now=retail.NOW))
    admitted(guard, READ)
    assert guard.execute(READ.tool, "read", lambda arguments: Unreadable()).text.startswith("(this cannot be read")
    assert guard.session.ledger.lookup(("orders", "#W1")) is NOTHING


def test_whatever_breaks_once_a_tool_was_called_leaves_its_write_uncertain(
    guard: Guard, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise MemoryError

    admitted(guard, CANCEL)
    monkeypatch.setattr(guard, "_ended", broken)
    with pytest.raises(MemoryError):
        guard.execute(CANCEL.tool, "one", done)
    assert retail.history(session) == [(CANCEL.tool, "uncertain")]


def test_a_call_that_would_block_the_loop_it_waits_for_is_an_error_and_not_a_wait_for_ever(
    guard: Guard, session: Session
) -> None:
    async def work() -> None:
        admitted(guard, MOVE, MOVE, CANCEL)
        admitted(guard, CANCEL, MOVE, CANCEL)
        release = asyncio.Event()

        async def slow(arguments: dict[str, Any]) -> str:
            await release.wait()
            return "done"

        first = asyncio.create_task(guard.aexecute(MOVE.tool, "two", slow))
        while retail.history(session)[0][1] == "pending" and not any(run for _, run in session.open_tickets()):
            await asyncio.sleep(0)
        with pytest.raises(LedgerError, match="await this call too"):
            guard.execute(CANCEL.tool, "one", done)
        release.set()
        assert await first == Returned("done", "executed")

    asyncio.run(work())
    assert retail.history(session) == [(MOVE.tool, "executed")]


def test_nor_does_judging_wait_for_a_task_of_its_own_loop(guard: Guard, monkeypatch: pytest.MonkeyPatch) -> None:
    entered, release, judge = threading.Event(), threading.Event(), guard._judge

    def slow(*about: Any) -> Any:
        entered.set()
        release.wait()
        return judge(*about)

    async def work() -> Any:
        monkeypatch.setattr(guard, "_judge", slow)
        first = asyncio.create_task(guard.ajudge(READ))
        await asyncio.to_thread(entered.wait)
        with pytest.raises(LedgerError, match="await this call too"):
            guard.judge(CANCEL)
        release.set()
        return await first

    assert isinstance(asyncio.run(work()), Admitted)


def test_a_write_cancelled_while_it_waits_is_withheld_and_lets_the_next_one_in(guard: Guard, session: Session) -> None:
    calls = [CANCEL, retail.give_back(call_id="back")]
    for call in calls:
        admitted(guard, call, *calls)

    async def play() -> list[str]:
        enough = asyncio.Event()
        ran: list[str] = []

        async def waits(arguments: dict[str, Any]) -> str:
            ran.append("first")
            await enough.wait()
            return "done"

        async def follows(arguments: dict[str, Any]) -> str:
            ran.append("third")
            return "done"

        first = asyncio.create_task(guard.aexecute(CANCEL.tool, "one", waits))
        second = asyncio.create_task(guard.aexecute("return_delivered_order_items", "back", follows))
        await asyncio.sleep(0)
        second.cancel()
        await asyncio.wait([second])
        await guard.ajudge(retail.give_back(call_id="again"))
        third = asyncio.create_task(guard.aexecute("return_delivered_order_items", "again", follows))
        await asyncio.wait([third], timeout=0.1)
        assert ran == ["first"]
        enough.set()
        assert ((await first).outcome, (await third).outcome) == ("executed", "executed")
        return ran

    assert asyncio.run(play()) == ["first", "third"]
    assert retail.history(session) == [(CANCEL.tool, "executed"), ("return_delivered_order_items", "executed")]


def test_a_write_cancelled_while_it_runs_is_uncertain(guard: Guard, session: Session) -> None:
    admitted(guard, CANCEL)

    async def play() -> None:
        began = asyncio.Event()

        async def waits(arguments: dict[str, Any]) -> None:
            began.set()
            await asyncio.Event().wait()

        task = asyncio.create_task(guard.aexecute(CANCEL.tool, "one", waits))
        await began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(play())
    assert retail.history(session) == [(CANCEL.tool, "uncertain")]


# The start ----------------------------------------------------------------------------------------------------------


def test_tools_that_the_domain_does_not_declare_or_that_come_twice_are_named(guard: Guard) -> None:
    guard.check([READ.tool, CANCEL.tool])
    with pytest.raises(WiringError, match="does not declare drop_table, web_search"):
        guard.check([READ.tool, "drop_table", "web_search"])
    with pytest.raises(WiringError, match=f"given twice: {READ.tool}"):
        guard.check([READ.tool, READ.tool])


def test_a_canary_is_refused_by_the_guard_and_leaves_no_trace(gate: Gate, tmp_path: Path) -> None:
    record = tmp_path / "record.jsonl"
    session = retail.desk(gate, recorder=JsonlRecorder(record))
    guard, before = Guard(session), session.to_json()
    with guard.canary() as canary:
        answer = guard.judge(CANCEL)
        assert isinstance(answer, Rejected)
        canary.check({CANCEL.tool: f"Error: {answer.message}"})
        assert isinstance(asyncio.run(guard.ajudge(READ)), Rejected)
    assert session.to_json() == before
    assert list(read_records(record)) == []
    admitted(guard, CANCEL)


def test_a_canary_that_reaches_an_executor_or_is_answered_by_another_is_an_error(guard: Guard) -> None:
    with guard.canary() as canary, pytest.raises(TicketError):
        guard.execute(CANCEL.tool, "one", done)
    with pytest.raises(WiringError, match="reached the executor of cancel_pending_order"):
        canary.check({CANCEL.tool: canary.word})
    with guard.canary() as canary:
        pass
    with pytest.raises(WiringError, match="cancel_pending_order was not answered by the guard"):
        canary.check({CANCEL.tool: "Order #W1 is cancelled.", MOVE.tool: canary.word})
    with pytest.raises(WiringError, match="any tool"):
        canary.check({})


def test_what_is_raised_meanwhile_is_a_wiring_that_is_not_proved(guard: Guard) -> None:
    with pytest.raises(WiringError, match="canary calls were not carried out: ZeroDivisionError"), guard.canary():
        asyncio.run(_divides())
    with pytest.raises(WiringError, match="reached the executor of cancel_pending_order"), guard.canary():
        guard.execute(CANCEL.tool, "one", done)
    admitted(guard, CANCEL)


def test_no_canary_flies_while_calls_are_under_way(guard: Guard) -> None:
    admitted(guard, CANCEL)
    with pytest.raises(LedgerError, match="at start"), guard.canary():
        pass


def test_a_coroutine_runs_apart_from_a_loop_that_is_running() -> None:
    async def answer() -> int:
        return 42

    async def ask() -> int:
        return apart(answer())

    assert asyncio.run(ask()) == apart(answer()) == 42
    with pytest.raises(ZeroDivisionError):
        apart(_divides())


async def _divides() -> float:
    return 1 / 0
