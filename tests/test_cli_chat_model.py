"""`ledgeragent chat` with a model behind an endpoint, and with somebody at the keyboard."""

from __future__ import annotations

import importlib.util
import os
import pty
import re
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ledgeragent import Engine
from needs import need
from support.chat_command import Chat
from support.chat_server import Answer, ChatServer

need(importlib.util.find_spec("openai"), "the package openai; pip install 'ledgeragent[openai]'")

FIND = ("c1", "find_user_id_by_email", '{"email": "ines.marchetti@example.com"}')
WAIT = 60


@pytest.fixture
def chat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], embedded: Engine) -> Chat:
    return Chat(tmp_path, monkeypatch, capsys, embedded)


def command(url: str, *options: str) -> list[str]:
    start = [sys.executable, "-m", "ledgeragent", "chat", "--domain", "retail", "--engine", "embedded"]
    return [*start, "--model", "m", "--base-url", url, *options]


def plain() -> dict[str, str]:
    return {
        key: value
        for key, value in os.environ.items()
        if key not in ("FORCE_COLOR", "OPENAI_API_KEY", "OPENAI_BASE_URL", "LEDGERAGENT_OPA_URL")
    }


class Terminal:
    """Somebody at the keyboard of a terminal."""

    def __init__(self, arguments: list[str], columns: int) -> None:
        self.shown = ""
        own, theirs = pty.openpty()
        environment = plain() | {"COLUMNS": str(columns), "LINES": "40", "TERM": "xterm"}
        self._process = subprocess.Popen(
            arguments, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True
        )
        os.close(theirs)
        self._file = own

    def expect(self, text: str) -> str:
        """Wait for a text to be shown; what was shown up to it, without colours."""
        while text not in self.shown:
            ready, _, _ = select.select([self._file], [], [], WAIT)
            assert ready, f"{text!r} did not come; there is {self.shown!r}"
            self.shown += re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r", "", os.read(self._file, 65536).decode())
        before, _, self.shown = self.shown.partition(text)
        return before

    def types(self, text: str) -> None:
        os.write(self._file, text.encode())

    def interrupt(self) -> None:
        os.killpg(self._process.pid, signal.SIGINT)

    def interrupt_until(self, text: str) -> None:
        """Interrupt; again when nothing comes of it: between prompt and waiting the interpreter's `readline` loses it."""
        for _ in range(int(WAIT)):
            self.interrupt()
            if select.select([self._file], [], [], 1)[0]:
                break
        self.expect(text)

    def ended(self) -> int:
        """Wait for the end; its status."""
        return self._process.wait(WAIT)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._file)


@contextmanager
def terminal(arguments: list[str], columns: int = 80) -> Iterator[Terminal]:
    one = Terminal(arguments, columns)
    try:
        yield one
    finally:
        one.close()


def test_a_model_is_asked_with_the_policy_the_tools_and_the_ledger(chat: Chat) -> None:
    with ChatServer([Answer(calls=[FIND], usage=(1000, 20, 400)), Answer("Hello Ines.", usage=(1100, 10))]) as server:
        done = chat("--model", "m", "--base-url", server.url, stdin="Hi\n\n/verdicts\n")
    assert (done.status, done.err) == (0, "")
    assert done.out.splitlines()[1:6] == [
        "customer: Hi",
        '  read find_user_id_by_email(email="ines.marchetti@example.com")',
        '    ledger + auth.user_id = "ines_marchetti_4021"',
        "agent: Hello Ines.",
        "/verdicts",
    ]
    system, _, *_, view = server.requests[1]["messages"]
    assert system["content"].startswith("You are the customer service agent of a small online shop.")
    assert 'auth.user_id = "ines_marchetti_4021"' in view["content"]
    assert len(server.requests[0]["tools"]) == 16
    told = done.out.replace("\n", " ")
    assert "1 turn, 2 generations; 2,100 prompt tokens (400 cached), 30 completion tokens; of the prompt," in told
    assert re.search(r"the ledger view took about \d+ \(\d+\.\d %\)", told)


def test_without_the_view_the_ledger_is_not_sent_and_what_was_not_counted_is_said(chat: Chat) -> None:
    with ChatServer([Answer("Hello.", usage=(10, 2)), Answer("Bye.")]) as server:
        done = chat("--model", "m", "--base-url", server.url, "--no-view", stdin="Hi\nBye\n")
    assert [message["role"] for message in server.requests[1]["messages"]] == ["system", "user", "assistant", "user"]
    told = done.out.replace("\n", " ")
    assert "10 prompt tokens (0 cached), 2 completion tokens; no ledger view; 1 generation came without counts" in told


def test_with_a_model_a_script_gives_only_the_users_lines(chat: Chat) -> None:
    script = '{"user": "Hi"}\n{"assistant": "Not this."}\n{"user": "Bye"}\n'
    with ChatServer([Answer("Hello."), Answer("So long.")]) as server:
        done = chat("--model", "m", "--base-url", server.url, "--script", "-", stdin=script)
    assert done.out.splitlines()[1:5] == ["customer: Hi", "agent: Hello.", "customer: Bye", "agent: So long."]


def test_the_key_is_taken_from_the_variable_that_is_named(chat: Chat) -> None:
    chat.patch.setenv("SHOP_KEY", "sesame")
    with ChatServer([Answer("Hello.")]) as server:
        chat("--model", "m", "--base-url", server.url, "--api-key-env", "SHOP_KEY", stdin="Hi\n")
    assert server.headers[0]["authorization"] == "Bearer sesame"


@pytest.mark.parametrize("answer", [Answer("no such model", status=404), Answer("no such key", status=401)])
def test_an_endpoint_that_does_not_work_is_one_message_and_status_2(chat: Chat, answer: Answer) -> None:
    with ChatServer([answer]) as server:
        done = chat("--model", "m", "--base-url", server.url, stdin="Hi\nBye\n")
    assert done.status == 2
    assert re.fullmatch(r"ledgeragent: model 'm' at http://127.0.0.1:\d+/v1 .*\n", done.err)
    assert done.out.splitlines()[1:] == ["customer: Hi"]


def test_an_unreachable_endpoint_is_one_message_and_status_2_at_the_keyboard_too() -> None:
    with ChatServer([]) as server:
        url = server.url
    with terminal(command(url)) as keyboard:
        keyboard.expect("you: ")
        keyboard.types("Hi\n")
        keyboard.expect(f"ledgeragent: model 'm' at {url} cannot be reached")
        assert keyboard.ended() == 2


def test_an_interruption_gives_up_the_turn_and_the_conversation_goes_on() -> None:
    held = threading.Event()

    def script(body: dict[str, Any], number: int) -> Answer:
        return [Answer("Thinking aloud", hold=held, held_after=2), Answer("I am here."), Answer("busy", status=400)][
            number
        ]

    with ChatServer(script) as server, terminal(command(server.url)) as keyboard:
        keyboard.expect("you: ")
        keyboard.types("slow, please\n")
        keyboard.expect("Thinking aloud")
        keyboard.interrupt()
        keyboard.expect("this turn is given up: interrupted")
        keyboard.expect("you: ")
        keyboard.types("Still there?\n")
        keyboard.expect("agent: I am here.")
        keyboard.types("And now?\n")
        keyboard.expect("this turn is given up: model 'm' at")
        keyboard.expect("you: ")
        keyboard.types("/help\n")
        keyboard.expect("end (so does Ctrl-D)")
        keyboard.expect("you: ")
        keyboard.types("\x04")
        keyboard.expect("3 turns, 1 generation; ")
        assert keyboard.ended() == 0
        held.set()
    assert [message["content"] for message in server.requests[1]["messages"][1:-1]] == ["slow, please", "Still there?"]


def test_somebody_else_at_the_keyboard_approves_and_an_interruption_is_no_approval() -> None:
    reads = [
        ("r1", "get_user_details", '{"user_id": "wanda_kessler_3107"}'),
        ("r2", "get_reservation_details", '{"reservation_id": "KX4T2B"}'),
        ("r3", "get_flight_status", '{"flight_number": "NB172", "date": "2024-05-20"}'),
        ("r4", "get_flight_status", '{"flight_number": "NB171", "date": "2024-05-24"}'),
    ]
    cancel = ("c1", "cancel_reservation", '{"reservation_id": "KX4T2B"}')
    answers = [Answer(calls=reads), Answer(calls=[cancel]), Answer(calls=[cancel]), Answer("It is cancelled.")]
    options = ("--domain", "airline", "--approve", "grace", "--overrides", "examples/chat/overrides.json")
    with ChatServer(answers) as server, terminal(command(server.url, *options)) as keyboard:
        keyboard.expect("you: ")
        keyboard.types("I am wanda_kessler_3107, cancel KX4T2B.\n")
        keyboard.expect("asked for by wanda_kessler_3107")
        keyboard.expect("grace, do you approve it? [y/N] ")
        keyboard.interrupt_until("gate: BLOCK")
        keyboard.expect("this turn is given up: interrupted")
        keyboard.expect("you: ")
        keyboard.types("Please!\n")
        keyboard.expect("grace, do you approve it? [y/N] ")
        keyboard.types("y\n")
        keyboard.expect("grace approves")
        keyboard.expect("airline.cancel_requires_basis: approved by grace")
        keyboard.expect("agent: It is cancelled.")
        keyboard.expect("you: ")
        keyboard.types("\x04")
        assert keyboard.ended() == 0


def test_an_interruption_at_the_prompt_ends_the_conversation() -> None:
    with ChatServer([]) as server, terminal(command(server.url), columns=60) as keyboard:
        keyboard.expect("Ctrl-D ends.")
        keyboard.expect("you: ")
        keyboard.interrupt_until("0 judged calls: 0 allow, 0 revise, 0 block")
        assert keyboard.ended() == 0


def test_an_interrupted_script_ends_with_what_there_is_to_sum_up() -> None:
    asked, held = threading.Event(), threading.Event()

    def script(body: dict[str, Any], number: int) -> Answer:
        asked.set()
        return Answer("Hello.", hold=held)

    with ChatServer(script) as server:
        arguments = command(server.url, "--script", "-")
        with subprocess.Popen(
            arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=plain()
        ) as running:
            assert running.stdin is not None
            running.stdin.write('{"user": "Hi"}\n{"user": "Bye"}\n')
            running.stdin.close()
            running.stdin = None
            assert asked.wait(WAIT)
            running.send_signal(signal.SIGINT)
            out, err = running.communicate(timeout=WAIT)
        held.set()
    assert (running.returncode, err) == (130, "")
    assert out.splitlines()[1:3] == ["customer: Hi", "this turn is given up: interrupted"]
    assert "customer: Bye" not in out
    assert "1 turn, 0 generations" in out
