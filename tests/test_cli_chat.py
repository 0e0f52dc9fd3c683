"""`ledgeragent chat` as a user meets it: scripts, pipes, narrow terminals, the keyboard, and what goes wrong."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledgeragent import Engine, cli_chat, cli_gates, open_engine
from ledgeragent.chatapproval import Desk
from ledgeragent.contracts import ApprovalRequest, Asked
from ledgeragent.policies import EXAMPLES
from support.chat_command import Chat, Done
from support.engines import Meddled

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = EXAMPLES / "chat"
RETAIL = str(SCRIPTS / "retail.jsonl")
INES = "ines.marchetti@example.com"
FIND = {"tool": "find_user_id_by_email", "arguments": {"email": INES}}
READ = {"tool": "get_order_details", "arguments": {"order_id": "#W4001"}}
CANCEL = {"tool": "cancel_pending_order", "arguments": {"order_id": "#W4001", "reason": "no longer needed"}}


@pytest.fixture
def chat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], embedded: Engine) -> Chat:
    return Chat(tmp_path, monkeypatch, capsys, embedded)


def verdicts(done: Done) -> list[str]:
    return re.findall(r"^    gate: (\w+)", done.out, re.MULTILINE)


# Scripts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("domain", "expected"),
    [
        ("retail", ["REVISE", "ALLOW", "REVISE", "BLOCK", "REVISE", "ALLOW"]),
        ("airline", ["REVISE", "ALLOW", "REVISE", "ALLOW", "REVISE", "BLOCK"]),
    ],
)
def test_the_example_scripts_show_every_verdict_and_a_stale_fact(chat: Chat, domain: str, expected: list[str]) -> None:
    done = chat("--script", str(SCRIPTS / f"{domain}.jsonl"), domain=domain)
    assert (done.status, done.err) == (0, "")
    assert verdicts(done) == expected
    assert "ledger ~ stale: " in done.out
    assert "Changed by a write since it was read" in done.out


@pytest.fixture
def approving(chat: Chat, monkeypatch: pytest.MonkeyPatch) -> Iterator[Chat]:
    """The chat where a deployment names who can approve a cancellation."""
    overrides = json.loads((SCRIPTS / "overrides.json").read_text(encoding="utf-8"))
    with open_engine("embedded", overrides=overrides) as engine:
        monkeypatch.setattr(cli_gates, "open_engine", lambda *_, **__: Meddled(engine, lambda _, answer: answer))
        yield chat


def test_a_script_says_who_approves_what_they_are_shown(approving: Chat) -> None:
    done = approving("--script", str(SCRIPTS / "approval.jsonl"), domain="airline")
    assert (done.status, done.err) == (0, "")
    assert verdicts(done) == ["BLOCK", "ALLOW"]
    assert (
        done.out.count('  consent wanted: cancel_reservation(reservation_id="KX4T2B")\n    asked for by wanda_kess')
        == 2
    )
    assert '      reservations.KX4T2B.insurance = "no"  read by get_reservation_details, turn 1\n' in done.out
    assert re.findall(r"^  (nobody consents|grace approves)$", done.out, re.M) == ["nobody consents", "grace approves"]
    assert "      airline.cancel_requires_basis: approved by grace\n" in done.out


def test_in_a_script_an_approver_whom_the_policy_does_not_name_approves_nothing(approving: Chat) -> None:
    script = (SCRIPTS / "approval.jsonl").read_text(encoding="utf-8").replace("grace", "mia")
    done = approving("--script", "-", domain="airline", stdin=script)
    assert (done.status, verdicts(done)) == (0, ["BLOCK", "BLOCK"])


def test_in_a_pipe_nobody_can_be_asked(approving: Chat) -> None:
    done = approving("--script", str(SCRIPTS / "approval.jsonl"), "--approve", "grace", domain="airline")
    assert (done.status, done.out) == (2, "")
    assert "--approve asks at a terminal" in done.err


@pytest.mark.parametrize(
    ("typed", "names"),
    [("y", ["wanda"]), (" YES ", ["wanda"]), ("", []), ("no", []), ("maybe", []), (EOFError, [])],
)
def test_only_a_plain_yes_at_the_terminal_is_a_consent(
    monkeypatch: pytest.MonkeyPatch, typed: str | type[Exception], names: list[str]
) -> None:
    asked: list[str] = []

    def answer(question: str) -> str:
        asked.append(question)
        if not isinstance(typed, str):
            raise typed
        return typed

    monkeypatch.setattr("builtins.input", answer)
    request = ApprovalRequest(
        contract="ledgeragent.approval-request/1",
        request="r",
        domain="deployments",
        session="s",
        now="2026-01-07T10:00:00Z",
        requester="wanda",
        tool="scale",
        arguments={"service": "shop"},
        obligations=[Asked(kind="user_confirmation", predicate="common.user_confirmed", approvers=None, message="-")],
        facts="sha256:0",
        evidence=[],
    )
    desk = Desk(["grace"], lambda request, kind: cli_chat._asked("grace", request, kind))
    assert [one.grant.approver for one in desk(request)] == names
    assert asked == ["wanda, do you want exactly this? [y/N] "]


def test_the_commands_of_the_documents_run(chat: Chat) -> None:
    pages = ((ROOT / "README.md").read_text(), (ROOT / "examples" / "chat" / "README.md").read_text())
    commands = [
        line for page in pages for line in re.findall(r"^\S*ledgeragent chat --domain (.*--script .*)$", page, re.M)
    ]
    assert len(commands) == 6
    for domain, *options in map(str.split, commands):
        done = chat(*options, domain=domain)  # in an empty folder: the examples are found all the same
        assert (done.status, done.err) == (0, "")
        assert "BLOCK" in done.out


def test_a_scripted_turn_is_told_line_by_line(chat: Chat) -> None:
    done = chat.play(
        {"user": "Cancel #W4001, please."},
        {"assistant": "One moment.", "calls": [FIND]},
        {"calls": [CANCEL]},
        {"calls": [READ, CANCEL]},
        {"calls": [CANCEL]},
        {"assistant": "It is cancelled."},
    )
    cancel = 'write cancel_pending_order(order_id="#W4001", reason="no longer needed")'
    order = 'order_id "#W4001"; user_id "ines_marchetti_4021"; status "pending"; 6 address; 2 items; 1 payment_history'
    unread = "Not read in this session: orders.#W4001.status, orders.#W4001.user_id."
    assert done.lines == [
        "customer: Cancel #W4001, please.",
        "agent: One moment.",
        f'  read find_user_id_by_email(email="{INES}")',
        '    ledger + auth.user_id = "ines_marchetti_4021"',
        f"  {cancel}",
        "    gate: REVISE",
        f"      retail.order_owner, retail.order_pending: {unread}",
        '      asks for get_order_details(order_id="#W4001")',
        # The write is judged with the message, before its read has returned.
        f"  {cancel}",
        "    gate: REVISE",
        f"      retail.order_owner, retail.order_pending: {unread}",
        '      asks for get_order_details(order_id="#W4001")',
        '  read get_order_details(order_id="#W4001")',
        f"    ledger + orders.#W4001 = {order}",
        f"  {cancel}",
        "    gate: ALLOW",
        "    returned Order #W4001 is cancelled, $100.00 refunded to credit_card_4021.",
        "    ledger ~ stale: orders.#W4001.cancel_reason, orders.#W4001.payment_history, orders.#W4001.status",
        "agent: It is cancelled.",
    ]
    assert "3 judged calls: 1 allow, 2 revise, 0 block" in done.out
    assert re.search(r"1 turn, 5 generations; the ledger view took [\d,]+ bytes of the requests; no tokens", done.out)


def test_a_refusal_of_the_tool_a_tool_without_effect_and_silence_are_told(chat: Chat) -> None:
    done = chat.play(
        {"user": "Hello"},
        {"calls": [{"tool": "get_order_details", "arguments": {"order_id": "W1"}}]},
        {"calls": [{"tool": "calculate", "arguments": {"expression": "2+3"}}]},
        {"assistant": ""},
    )
    assert done.lines == [
        "customer: Hello",
        '  read get_order_details(order_id="W1")',
        "    refused by the tool: order 'W1' not found",
        '  call calculate(expression="2+3")',
        "    returned 5.0",
        "the agent said nothing",
    ]


def test_a_write_whose_facts_changed_in_the_same_message_is_told_as_not_run(chat: Chat) -> None:
    profile = {"tool": "get_user_details", "arguments": {"user_id": "ines_marchetti_4021"}}
    order = {"tool": "get_order_details", "arguments": {"order_id": "#W4002"}}
    address = {"address1": "2 Elm", "address2": "", "city": "Salem", "state": "OR", "country": "USA", "zip": "97301"}
    move = {"tool": "modify_user_address", "arguments": {"user_id": "ines_marchetti_4021", **address}}
    goods = {"order_id": "#W4002", "item_ids": ["10212"], "payment_method_id": "credit_card_4021"}
    back = {"tool": "return_delivered_order_items", "arguments": goods}
    done = chat.play(
        {"user": "x"}, {"calls": [FIND]}, {"calls": [profile, order]}, {"calls": [move]}, {"calls": [profile, back]}, {}
    )
    assert verdicts(done) == ["ALLOW"]
    assert done.lines[-3:] == [
        '  write return_delivered_order_items(item_ids=["10212"], order_id="#W4002", payment_method_id="credit_card_4021")',
        "    not run: what admitted it has changed since",
        "the agent said nothing",
    ]


def test_commands_show_the_ledger_the_verdicts_the_customers_and_themselves(chat: Chat) -> None:
    done = chat.play(
        {"user": "/ledger"},
        {"user": "/verdicts"},
        {"user": "Cancel #W4001."},
        {"calls": [FIND]},
        {"calls": [CANCEL]},
        {"calls": [READ]},
        {"calls": [CANCEL]},
        {"assistant": "Done."},
        {"user": "/verdicts"},
        {"user": "/ledger"},
        {"user": "/customers"},
        {"user": "/help"},
        {"user": "/nonsense now"},
        {"user": "/quit"},
        {"user": "/ledger"},
    )
    assert done.lines[:4] == [
        "/ledger",
        "  the ledger is empty: nothing has been read yet",
        "/verdicts",
        "  the gate has judged nothing yet: no write was proposed",
    ]
    after = done.lines[done.lines.index("agent: Done.") + 1 :]
    assert after[:6] == [
        "/verdicts",
        '  REVISE cancel_pending_order(order_id="#W4001", reason="no longer needed")',
        "         retail.order_owner, retail.order_pending",
        '  ALLOW  cancel_pending_order(order_id="#W4001", reason="no longer needed")',
        "/ledger",
        '  auth.user_id = "ines_marchetti_4021"  read by find_user_id_by_email',
    ]
    assert after[6].startswith('  orders.#W4001 = {"address":{"address1":"14 Alder Street",')
    assert "    stale: cancel_reason, payment_history, status" in after
    assert f"  Ines Marchetti  {INES}  #W4001 cancelled, #W4002 delivered" in after
    assert [line.split()[0] for line in after[after.index("/help") + 1 :]][:5] == [
        "/ledger",
        "/verdicts",
        "/customers",
        "/help",
        "/quit",
    ]
    assert after[-1] == "  there is no /nonsense; the commands are /ledger, /verdicts, /customers, /help, /quit"


def test_an_airline_customer_is_named_by_user_id(chat: Chat) -> None:
    done = chat("--script", "-", domain="airline", stdin='{"user": "/customers"}\n')
    assert "  Wanda Kessler  wanda_kessler_3107  KX4T2B, M7QF3A" in done.lines


def test_a_script_comes_from_stdin_too(chat: Chat) -> None:
    done = chat("--script", "-", stdin='{"user": "Hello"}\n\n{"assistant": "Hi."}\n')
    assert done.lines == ["customer: Hello", "agent: Hi."]


def test_a_shadow_says_so_and_holds_nothing_back(chat: Chat) -> None:
    done = chat.play({"user": "x"}, {"calls": [CANCEL]}, {"assistant": "Done."}, options=("--shadow",))
    assert done.lines[0] == "SHADOW: the gate only watches, nothing is held back"
    assert done.lines[3] == "    gate: REVISE  (in shadow: not held back)"
    assert "    returned Order #W4001 is cancelled, $100.00 refunded to credit_card_4021." in done.lines
    assert "1 judged call: 0 allow, 1 revise, 0 block" in done.out


def test_in_one_call_mode_a_rejected_message_ends_the_turn_and_the_script_goes_on_with_the_next(chat: Chat) -> None:
    done = chat.play(
        {"user": "Cancel it."},
        {"calls": [CANCEL]},
        {"assistant": "This is never said."},
        {"user": "Well?"},
        {"assistant": "I am looking."},
        options=("--mode", "one-call"),
    )
    assert done.lines[-4:] == [
        "agent: I need to look something up before I can do that.",
        "the turn ends here: the model proposed only what the gate rejects",
        "customer: Well?",
        "agent: I am looking.",
    ]
    assert "2 turns, 2 generations" in done.out


def test_decisions_and_outcomes_are_recorded_on_request(chat: Chat, tmp_path: Path) -> None:
    record = tmp_path / "record.jsonl"
    script = [{"user": "x"}, {"calls": [FIND]}, {"calls": [READ]}, {"calls": [CANCEL]}, {"assistant": "Done."}]
    chat.play(*script, options=("--record", str(record)))
    chat.play(*script, options=("--record", str(record), "--shadow"))
    rows = [json.loads(line) for line in record.read_text().splitlines()]
    told = [(row["kind"], row.get("verdict"), row.get("enforced"), row.get("outcome")) for row in rows]
    assert told == [
        ("decision", "allow", True, None),
        ("outcome", None, None, "executed"),
        ("decision", "allow", False, None),
        ("outcome", None, None, "executed"),
    ]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([], "has no lines"),
        (["{"], "line 1 is not JSON"),
        (["[]"], "line 1: a line of a script is a JSON object"),
        (['{"assistant": "Hi."}'], "line 1: a script begins with a line of the user"),
        (['{"user": ""}'], "line 1: user: String should have at least 1 character"),
        (['{"user": 5}'], "line 1: user: Input should be a valid string"),
        (['{"user": "Hi", "calls": []}'], "line 1: calls: Extra inputs are not permitted"),
        (['{"user": "Hi"}', '{"says": "Hi"}'], "line 2: says: Extra inputs are not permitted"),
        (['{"user": "Hi"}', '{"calls": [{"tool": ""}]}'], "line 2: calls.0.tool: String should have at least 1"),
        (['{"user": "Hi"}', '{"calls": [{"arguments": {}}]}'], "line 2: calls.0.tool: Field required"),
        (['{"user": "Hi"}', '{"calls": [{"tool": "x", "arguments": "{}"}]}'], "calls.0.arguments: Input should be"),
        (['{"user": "Hi"}'], "line 1: the turn has no end"),
        (['{"user": "Hi"}', '{"calls": [{"tool": "x"}]}'], "line 1: the turn has no end"),
        (['{"user": "Hi"}', '{"assistant": "a"}', '{"assistant": "b"}'], "ends the turn, but there are more after it"),
        (['{"user": "/ledger"}', '{"assistant": "a"}'], "line 1: nothing answers a command"),
    ],
)
def test_a_script_that_cannot_be_played_is_named_with_its_line(chat: Chat, lines: list[str], said: str) -> None:
    done = chat("--script", "-", stdin="".join(f"{line}\n" for line in lines))
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("ledgeragent: ")
    assert done.err.count("\n") == 1
    assert said in done.err


# What cannot start ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "no model: add --model NAME"),
        (("--script", "no/such/file"), "no/such/file cannot be read"),
        (("--model", "m", "--api-key-env", "NO_SUCH_KEY"), "--api-key-env names NO_SUCH_KEY, which is not set"),
        (("--model", "m"), "no API key: set OPENAI_API_KEY, name its variable with --api-key-env, or add --base-url"),
        (("--script", RETAIL, "--record", "no/such/folder/file"), "the record file no/such/folder/file cannot be"),
        (("--script", RETAIL, "--schemas", "no/such/folder"), "--domain: no domain 'retail' under no/such/folder"),
    ],
)
def test_what_cannot_start_is_one_message_and_status_2(chat: Chat, options: tuple[str, ...], said: str) -> None:
    done = chat(*options)
    assert (done.status, done.out, done.err.count("\n")) == (2, "", 1)
    assert done.err.startswith(f"ledgeragent: {said}")


def test_a_domain_without_a_shop_is_one_message_and_status_2(chat: Chat) -> None:
    done = chat("--script", RETAIL, domain="telecom")
    assert (done.status, done.out) == (2, "")
    assert done.err == "ledgeragent: no shop 'telecom'; there: airline, retail\n"


def test_without_the_extra_the_message_says_how_to_get_it(chat: Chat) -> None:
    chat.patch.delitem(sys.modules, "ledgeragent.models.openai", raising=False)
    chat.patch.setitem(sys.modules, "openai", None)
    done = chat("--model", "m", "--base-url", "http://127.0.0.1:9/v1")
    assert (done.status, done.out) == (2, "")
    assert "pip install 'ledgeragent[openai]'" in done.err


# What it looks like ---------------------------------------------------------------------------------------------


def test_in_a_pipe_it_is_plain_and_within_the_width(chat: Chat) -> None:
    done = chat("--script", RETAIL, columns=60)
    assert "\x1b" not in done.out
    assert max(len(line) for line in done.out.splitlines()) <= 60


def test_nothing_that_is_said_reaches_the_terminal_as_a_command(chat: Chat) -> None:
    done = chat.play({"user": "\x1b[2J\u202e hi"}, {"assistant": "\x1b]0;owned\x07 \x9b31m red"})
    assert done.lines == ["customer:  [2J  hi", "agent:  ]0;owned  31m red"]


def test_a_panel_stands_beside_each_turn_where_there_is_room(chat: Chat) -> None:
    lines = [{"user": "x"}, {"calls": [FIND]}, {"calls": [READ]}, {"calls": [CANCEL]}, {"assistant": "Done."}]
    done = chat.play(*lines, {"user": "y"}, {"assistant": "Bye."}, options=("--panel",), columns=120)
    first = next(line for line in done.lines if "read find_user_id_by_email" in line)
    assert re.fullmatch(r'  read find_user_id_by_email\(email="[^"]+"\) +╭─ Ledger ─+╮', first)
    shown = " ".join(re.findall(r"│ (.*?) *│", done.out))
    assert "orders.#W4001  6 address; 2 items   stale: cancel_reason, payment_history," in shown
    assert "ALLOW  cancel_pending_order" in shown
    assert "customer: y" in done.lines


def test_the_panel_names_what_it_leaves_out(chat: Chat) -> None:
    reads = [{"tool": "get_item_details", "arguments": {"item_id": str(10111 + 100 * number)}} for number in range(12)]
    done = chat.play(
        {"user": "x"}, {"calls": reads[:9]}, {"calls": reads[10:]}, {"assistant": "Bye."}, options=("--panel",)
    )
    assert "and 1 more: /ledger" in done.out


def test_without_room_there_is_no_panel_but_a_hint(chat: Chat) -> None:
    done = chat.play({"user": "x"}, {"assistant": "Bye."}, options=("--panel",), columns=99)
    assert done.lines == [
        "the panel needs 100 columns; /ledger and /verdicts show what it would",
        "customer: x",
        "agent: Bye.",
    ]
