"""The report's page in a real Chromium: it opens, filters, drills down, and runs nothing of what it shows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ledgeragent.cli import app
from ledgeragent.domain import Domain
from ledgeragent.gate import Gate
from ledgeragent.policies import EXAMPLES
from ledgeragent.records import JsonlRecorder
from ledgeragent.redact import Redacted
from ledgeragent.report import Entry, JudgedRow, Page, packed
from support.browser import Browser, browsing
from support.report_page import HOSTILE, Unpacked, record, unpacked

pytest_plugins = ["support.fixtures"]

FILES = sorted((EXAMPLES / "conversations").glob("*.jsonl"))
RETAIL = EXAMPLES / "conversations" / "retail.jsonl"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser for all tests of this file."""
    with browsing() as browser:
        yield browser


def written(path: Path, *files: Path) -> Path:
    given = ["--engine", "embedded", *map(str, files), "-o", str(path)]
    done = CliRunner().invoke(app, ["report", *given])
    assert done.exit_code == 0, done.output
    return path


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of all example conversations."""
    return written(tmp_path_factory.mktemp("examples") / "report.html", *FILES)


@pytest.fixture(scope="module")
def data(examples: Path) -> Unpacked:
    """What stands in that page."""
    return unpacked(examples.read_text(encoding="utf-8"))


@pytest.fixture
def page(browser: Browser, examples: Path) -> Iterator[Browser]:
    """The page of the examples, freshly opened on a desk's screen; at the end it must have had no trouble."""
    browser.screen(1440, 900)
    browser.open(examples.as_uri())
    yield browser
    assert (browser.troubles, browser.asked) == ([], [])


def text(browser: Browser, selector: str) -> str:
    found: str = browser.value(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''")
    return found


def texts(browser: Browser, selector: str) -> list[str]:
    found: list[str] = browser.value(
        f"[...document.querySelectorAll({json.dumps(selector)})].map((one) => one.innerText)"
    )
    return found


def opened(browser: Browser) -> None:
    browser.until("document.querySelector('#detail:not([hidden]) #ledger h3') !== null")


def count_of(data: Unpacked, **wanted: str) -> str:
    """What the page must say of calls that fit."""
    fits = [
        call
        for call in data.calls
        if wanted.get("verdict", call["verdict"]) == call["verdict"]
        and wanted.get("tool", call["tool"]) == call["tool"]
        and ("predicate" not in wanted or wanted["predicate"] in [one for one, _, _ in call["findings"]])
    ]
    entries = len({call["entry"] for call in fits})
    return f"{entries} of {len(data.entries)} conversations, {len(fits)} judged call{'' if len(fits) == 1 else 's'}"


def test_the_refused_cancellation_is_three_clicks_away(page: Browser) -> None:
    page.click(".bar-row", "airline.cancel_requires_basis")
    page.click("#verdicts button", "block")
    page.click(".row")
    opened(page)
    assert text(page, ".step.selected .call") == 'cancel_reservation(reservation_id="SI5UKW")'
    said = text(page, ".step.selected .finding")
    assert [word for word in ("basic_economy", "24 hours", "insurance", "airline cancelled") if word not in said] == []
    assert text(page, "#ledger h3") == "What the gate saw at step 7"


def test_filters_narrow_list_counts_and_charts_together(page: Browser, data: Unpacked) -> None:
    assert text(page, "#count") == f"{len(data.entries)} conversations, {len(data.calls)} judged calls"
    page.click("#verdicts button", "block")
    assert text(page, "#count") == count_of(data, verdict="block")
    page.click(".bar-row", "cancel_pending_order")
    assert text(page, "#count") == count_of(data, verdict="block", tool="cancel_pending_order")
    assert page.value("document.querySelector('#tool').value") == "cancel_pending_order"
    page.click("#clear")
    page.value("""(() => { const one = document.querySelector("#predicate"); one.value = "retail.order_owner";
        one.dispatchEvent(new Event("change")); })()""")
    assert text(page, "#count") == count_of(data, predicate="retail.order_owner")
    tiles = [tile.split("\n")[0] for tile in texts(page, ".tile")]
    assert int(tiles[1]) == sum(int(one) for one in tiles[2:])


def test_a_bar_of_the_chart_over_the_sequence_filters(page: Browser, data: Unpacked) -> None:
    heights = page.value("""[...document.querySelectorAll(".bucket")].map((one) => one.getAttribute("aria-label"))""")
    numbers = [[int(part.split()[0]) for part in label.split(": ")[1].split(", ")] for label in heights]
    assert [sum(column) for column in zip(*numbers, strict=True)] == [
        sum(call["verdict"] == verdict for call in data.calls) for verdict in ("block", "revise", "allow")
    ]
    page.click(".bucket")
    assert text(page, "#count").endswith(f", {sum(numbers[0])} judged calls")
    page.click("#span")
    assert text(page, "#count") == f"{len(data.entries)} conversations, {len(data.calls)} judged calls"


def test_the_facts_say_their_value_where_they_were_read_and_since_when_they_are_stale(page: Browser) -> None:
    page.click(".row", "After an item change")
    opened(page)
    page.click(".jump", "11 revise")
    assert "orders.#W3000207.status is stale since step 8 (modify_pending_order_items)" in text(
        page, ".step.selected .missing"
    )
    page.click(".step.selected .missing .fact")
    fact = text(page, "#ledger .record[open]")
    assert "orders.#W3000207" in fact
    assert "read by get_order_details at step" in fact
    assert "stale since step 8 (modify_pending_order_items)" in fact
    status = """[...document.querySelectorAll("#ledger dt")]
        .find((one) => one.innerText === "status").nextSibling.innerText"""
    assert "stale since step 8 (modify_pending_order_items) pending" in " ".join(page.value(status).split())
    page.click(".jump", "13 block")
    assert "pending (item modified)" in page.value(status)


def test_the_ledger_is_shown_as_it_stood_at_the_step_that_is_looked_at(page: Browser, data: Unpacked) -> None:
    [entry] = [number for number, one in enumerate(data.entries) if one["id"] == "stale-order"]
    page.click(".row", "After an item change")
    opened(page)
    stale: dict[str, bool] = {}
    for number, step in enumerate(data.documents[entry]["steps"]):
        page.click(f"#step-{number} .step-head")
        before = dict(stale)
        stale |= {".".join(one["path"]): bool(one.get("stale")) for one in step.get("changes", ())}
        shown = page.value("""Object.fromEntries([...document.querySelectorAll("#ledger .record > summary")].map((one) =>
            [one.querySelector(".path").innerText, one.querySelector(".tag.stale") !== null]))""")
        assert shown == (before if step["kind"] == "write" else stale)
    assert stale["orders.#W3000207"]


def test_everything_can_be_reached_from_the_keyboard(page: Browser) -> None:
    page.key("/")
    assert page.value("document.activeElement.id") == "search"
    page.write("si5ukw")
    page.until("document.querySelector('#count').innerText.startsWith('1 of')")
    page.key("Enter")
    assert page.value("document.activeElement.id") == "list"
    page.key("Escape")
    page.until("!document.querySelector('#count').innerText.includes(' of ')")
    page.key("ArrowDown")
    page.key("ArrowDown")
    assert page.value("document.querySelector('#list').getAttribute('aria-activedescendant')") == "row-2"
    page.key("ArrowUp")
    page.key("Enter")
    opened(page)
    assert text(page, "#detail h2").startswith("A cancelled flight")
    page.value("document.querySelector('.step.selected .step-head').focus()")
    at = page.value("document.activeElement.parentElement.id")
    page.key("ArrowUp")
    assert page.value("document.activeElement.parentElement.id") == f"step-{int(at.split('-')[1]) - 1}"
    assert page.value("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.key("Escape")
    assert page.value("[document.querySelector('#detail').hidden, document.activeElement.id]") == [True, "list"]


def test_what_a_tool_returned_never_runs(browser: Browser, tmp_path: Path) -> None:
    line = json.loads(RETAIL.read_text(encoding="utf-8").splitlines()[2])
    line |= {"id": HOSTILE, "title": HOSTILE}
    for message in line["messages"]:
        if isinstance(message.get("content"), str):
            message["content"] = message["content"].replace("Running Shoes", HOSTILE.replace('"', '\\"'))
        if message["role"] in ("user", "assistant") and message.get("content"):
            message["content"] = HOSTILE
        for call in message.get("tool_calls") or ():
            call["arguments"]["__proto__"] = HOSTILE
    (tmp_path / "talk.jsonl").write_text(json.dumps(line), encoding="utf-8")
    browser.screen(1440, 900)
    browser.open(written(tmp_path / "report.html", tmp_path / "talk.jsonl").as_uri())
    browser.click(".row")
    opened(browser)
    for number in range(browser.value("document.querySelectorAll('.step').length")):
        browser.click(f"#step-{number} .step-head")
        browser.value("for (const one of document.querySelectorAll('details')) one.open = true")
    assert HOSTILE.replace("\u202e", "\\u202e") in text(browser, "#timeline")
    assert (
        browser.value("document.querySelectorAll('#detail script, #detail img, #list script, #list img').length") == 0
    )
    assert browser.value("window.owned === undefined && ({}).owned === undefined")
    assert (browser.troubles, browser.asked) == ([], [])
    # And what got around all of that would still not run.
    assert (
        browser.value("""(() => { try { document.body.innerHTML = "<img src=x onerror='window.owned=1'>"; }
        catch (error) { return error.name; } })()""")
        == "TypeError"
    )
    browser.value("""(() => { const one = document.createElement("img");
        one.setAttribute("src", "x"); document.body.append(one); })()""")
    assert any("Content Security Policy" in trouble for trouble in browser.troubles)


def test_five_thousand_conversations_open_within_three_seconds_and_few_are_drawn(
    browser: Browser, tmp_path: Path
) -> None:
    steps = [{"kind": "said", "who": "customer", "text": f"word {number}"} for number in range(30)]
    call = JudgedRow(3, "cancel", "block", (("a.rule", "block", "violated"),))
    entries = [
        Entry(
            "conversation", f"talk-{number}", "", "retail", "f line 1", (call,) * 2, (f"#W{number}",), {"steps": steps}
        )
        for number in range(5000)
    ]
    blocks = ((some, packed(some)) for some in (entries[at : at + 8] for at in range(0, 5000, 8)))
    about = {"version": "0", "made": "2026-01-01T00:00:00Z", "files": [], "masked": False}
    path = tmp_path / "report.html"
    path.write_text("".join(Page(about, {}).text(blocks)), encoding="utf-8")
    browser.screen(1440, 900)
    browser.open(path.as_uri())
    assert browser.value("Number(document.documentElement.dataset.ready)") < 3000
    assert text(browser, "#count") == "5,000 conversations, 10,000 judged calls"
    browser.value("document.querySelector('#list').focus()")
    browser.key("End")
    browser.until("document.querySelector('#row-4999') !== null")
    assert browser.value("document.querySelectorAll('.row').length") < 60
    browser.key("Enter")
    opened(browser)
    assert text(browser, "#detail h2") == "talk-4999"
    assert browser.troubles == []


@pytest.mark.parametrize("dark", [False, True])
def test_it_fits_a_phone_and_follows_the_colours_the_user_likes(page: Browser, dark: bool) -> None:
    page.screen(400, 800, dark=dark)
    widths = [page.value("document.documentElement.scrollWidth")]
    page.click(".row", "A refund is sent")
    opened(page)
    widths.append(page.value("document.documentElement.scrollWidth"))
    assert max(widths) <= 400
    assert page.value("document.querySelector('#ledger').closest('.step.selected') !== null")
    brightness = page.value(r"Number(/\d+/.exec(getComputedStyle(document.body).backgroundColor)[0])")
    assert (brightness < 60) is dark
    page.click(".back")
    assert text(page, "#overview h2").startswith("Verdicts")


def test_the_print_has_the_whole_list(page: Browser, data: Unpacked) -> None:
    page.screen(1440, 300)
    assert page.value("document.querySelectorAll('.row').length") < len(data.entries)
    page.value(
        "window.seen = 0; addEventListener('beforeprint', () => { seen = document.querySelectorAll('.row').length; })"
    )
    page.send("Page.printToPDF")
    assert page.value("seen") == len(data.entries)


def test_records_are_drawn_over_time_and_a_redacted_one_says_what_it_hides(
    browser: Browser, tmp_path: Path, gate: Gate, retail_domain: Domain
) -> None:
    recorder = JsonlRecorder(tmp_path / "records.jsonl", Redacted(retail_domain))
    record(RETAIL, gate, recorder)
    recorder.close()
    browser.screen(1440, 900)
    browser.open(written(tmp_path / "report.html", tmp_path / "records.jsonl").as_uri())
    assert text(browser, "#overview h2") == "Verdicts over time"
    browser.click(".row")
    opened(browser)
    note: Any = text(browser, ".note summary")
    assert note == "Redacted records: What may not be logged is masked. It cannot be judged again."
    assert "(masked)" in texts(browser, "#timeline .masked")
    assert (browser.troubles, browser.asked) == ([], [])


def test_of_a_lifted_finding_it_says_who_consented(browser: Browser, tmp_path: Path) -> None:
    records, chat = tmp_path / "records.jsonl", EXAMPLES / "chat"
    script, overrides = str(chat / "approval.jsonl"), str(chat / "overrides.json")
    options = ["--domain", "airline", "--script", script, "--overrides", overrides, "--record", str(records)]
    assert CliRunner().invoke(app, ["chat", *options]).exit_code == 0
    browser.screen(1440, 900)
    browser.open(written(tmp_path / "report.html", records).as_uri())
    browser.click(".row")
    opened(browser)
    tags = texts(browser, "#timeline .finding .tag")
    assert tags == ["an approval by grace would lift it", "an approval by grace would lift it", "approved by grace"]
    assert browser.troubles == []
