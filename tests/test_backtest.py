"""What a backtest is made of: allowed changes, pieces of files, the journal, the comparison of two decisions."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ledgeragent.backtest.allowed import AllowedChange, allowing
from ledgeragent.backtest.compare import UNJUDGED, Answer, compared, deciding_facts
from ledgeragent.backtest.journal import Journal
from ledgeragent.backtest.lines import Place, identity, is_same, pieces, total_size
from ledgeragent.backtest.render import Backtest, headline, markdown, notes
from ledgeragent.backtest.summary import Summary
from ledgeragent.backtest.words import Told
from ledgeragent.contracts import Decision
from ledgeragent.domain import Domain
from ledgeragent.errors import BadInput
from ledgeragent.recordfiles import closed_name

pytest_plugins = ["support.fixtures"]
JSON = dict[str, Any]
PENDING = "retail.order_pending"
STATUS = ["orders", "#W1", "status"]


# Allowed changes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("retail.order_pending", True),
        ("retail.order_pending:block->allow", True),
        ("retail.order_pending:block->revise", False),
        ("retail.order_pending:*->allow", True),
        ("retail.*", True),
        ("airline.*", False),
        ("@cancel_*", True),
        ("@return_*", False),
        ("retail.*@cancel_pending_order:block->*", True),
        (":block->allow", True),
        ("retail.order", False),
    ],
)
def test_an_allowed_change_names_predicate_tool_and_verdicts(text: str, fits: bool) -> None:
    assert AllowedChange.parse(text).fits(PENDING, "cancel_pending_order", "block", "allow") is fits


@pytest.mark.parametrize("text", ["", "retail.order_pending:block", "a b", "x:block->allowed", "x->y", "@", ":->"])
def test_what_is_no_allowed_change_is_refused_with_the_form_it_should_have(text: str) -> None:
    with pytest.raises(BadInput, match="--allow-change"):
        AllowedChange.parse(text)


def test_a_call_may_change_only_if_all_that_changed_it_may() -> None:
    own, every = AllowedChange.parse(PENDING), AllowedChange.parse("retail.*")
    asked = ("cancel_pending_order", "block", "allow")
    assert allowing([own], [PENDING], *asked) == [own]
    assert allowing([own], [PENDING, "retail.cancel_reason"], *asked) is None
    assert allowing([own, every], [PENDING, "retail.cancel_reason"], *asked) == [own, every]
    assert allowing([every], [], *asked) is None


# Files -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_lines_come_in_pieces_and_from_any_place_on(tmp_path: Path, name: str) -> None:
    text = "".join(f'{{"n": {n}}}\n' + ("\n" if n % 7 == 0 else "") for n in range(150)) + "cut off"
    path = tmp_path / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    (tmp_path / "b.jsonl").write_text("last\n", encoding="utf-8")
    files = [str(path), str(tmp_path / "b.jsonl")]

    found = list(pieces(files, Place()))
    numbered = [(number, line) for number, line in enumerate(text.splitlines(keepends=True), 1) if line.strip()]
    assert [line for piece in found[:-1] for line in piece.lines] == numbered
    assert (found[-1].lines, found[-1].end) == ([(1, "last\n")], Place(1, 5, 1))
    assert found[-1].taken == sum(Path(one).stat().st_size for one in files)
    for at, piece in enumerate(found):
        assert list(pieces(files, piece.end)) == found[at + 1 :]


def test_a_line_of_any_length_is_read_over_and_the_next_one_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ledgeragent.backtest.lines._LONGEST", 10)
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"x" * 35 + b"\nshort\n" + b"123456789\n" + b"y" * 10)
    (found,) = pieces([str(path)], Place())
    assert found.lines == [(1, None), (2, "short\n"), (3, "123456789\n"), (4, None)]
    assert found.end == Place(0, path.stat().st_size, 4)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"nothing\.jsonl cannot be read"):
        list(pieces([str(tmp_path / "nothing.jsonl")], Place()))
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"{}\n" * 9)[:-9])
    with pytest.raises(BadInput, match=r"a\.gz cannot be read"):
        list(pieces([str(tmp_path / "a.gz")], Place()))


def test_a_set_is_read_in_order_and_gone_on_with_whatever_was_closed_or_compressed_since(tmp_path: Path) -> None:
    file = tmp_path / "records.jsonl"
    texts = [[f'{{"file": {number}, "n": {n}}}\n' for n in range(100)] for number in range(4)]
    for number, lines in enumerate(texts[:2], 1):
        closed_name(file, number).write_text("".join(lines), encoding="utf-8")
    file.write_text("".join(texts[2]), encoding="utf-8")
    before = identity(str(file))
    found = list(pieces([str(file)], Place()))
    assert [line for piece in found for _, line in piece.lines] == [line for lines in texts[:3] for line in lines]
    assert [piece.end.member for piece in found] == [1, 1, 2, 2, 3, 3]
    assert found[-1].taken == total_size([str(file)])

    file.rename(closed_name(file, 3))
    file.write_text("".join(texts[3]), encoding="utf-8")
    for number in (1, 2):
        one = closed_name(file, number)
        one.with_name(one.name + ".gz").write_bytes(gzip.compress(one.read_bytes()))
        one.unlink()
    assert is_same(str(file), before)
    for at, piece in enumerate(found):
        rest = [line for one in pieces([str(file)], piece.end) for _, line in one.lines]
        assert rest == [line for one in found[at + 1 :] for _, line in one.lines] + texts[3]

    closed_name(file, 1).with_name("records.000001.jsonl.gz").unlink()
    assert not is_same(str(file), before)
    with pytest.raises(
        BadInput, match=r"records\.jsonl: the file that was being read \(number 1 of its set\) was removed"
    ):
        list(pieces([str(file)], found[0].end))


# The journal -------------------------------------------------------------------------------------------------------


@pytest.fixture
def about(tmp_path: Path) -> JSON:
    (tmp_path / "a.jsonl").write_text("one\ntwo\n", encoding="utf-8")
    return {"files": [identity(str(tmp_path / "a.jsonl"))], "new": "sha256:1"}


def _begun(path: Path, about: JSON) -> None:
    with Journal(path, about) as journal:
        journal.add(Place(0, 4, 1), Counter(compared=1), [{"call": 1}])
        journal.add(Place(0, 8, 2), Counter(compared=2), [{"call": 2}])


def test_a_journal_is_gone_on_with_where_it_ended(tmp_path: Path, about: JSON) -> None:
    _begun(tmp_path / "state", about)
    with Journal(tmp_path / "state", about) as journal:
        assert (journal.resumed, journal.place, journal.counts()) == (True, Place(0, 8, 2), Counter(compared=3))
        assert list(journal.rows()) == [{"call": 1}, {"call": 2}]


def test_what_was_cut_off_anywhere_is_judged_again_and_nothing_is_twice(tmp_path: Path, about: JSON) -> None:
    state = tmp_path / "state"
    _begun(state, about)
    whole = state.read_bytes()
    head, first, _ = whole.splitlines(keepends=True)
    for size in range(len(whole)):
        state.write_bytes(whole[:size])
        with Journal(state, about) as journal:
            at = {Place(): 0, Place(0, 4, 1): 1}[journal.place]
            assert at == (1 if size >= len(head + first) else 0)
            for number, place in list(enumerate((Place(0, 4, 1), Place(0, 8, 2)), 1))[at:]:
                journal.add(place, Counter(compared=number), [{"call": number}])
        assert state.read_bytes() == whole


def test_a_journal_of_another_run_is_left_alone(tmp_path: Path, about: JSON) -> None:
    state = tmp_path / "state"
    _begun(state, about)
    before = state.read_bytes()
    with pytest.raises(BadInput, match="begun with other new"):
        Journal(state, {**about, "new": "sha256:2"})
    (tmp_path / "a.jsonl").write_text("one\nsix\n", encoding="utf-8")
    with pytest.raises(BadInput, match="begun with other files"):
        Journal(state, about)
    (tmp_path / "a.jsonl").write_text("one\ntwo\nthree\n", encoding="utf-8")
    with Journal(state, {**about, "files": [identity(str(tmp_path / "a.jsonl"))]}) as journal:
        assert journal.place == Place(0, 8, 2)
    assert state.read_bytes() == before


@pytest.mark.parametrize("content", ["my notes", "my notes\n", "{}\n", "[]\n"])
def test_a_file_that_is_no_journal_is_left_alone(tmp_path: Path, about: JSON, content: str) -> None:
    (tmp_path / "state").write_text(content, encoding="utf-8")
    with pytest.raises(BadInput, match="this is not the state of a backtest; it is left alone"):
        Journal(tmp_path / "state", about)
    assert (tmp_path / "state").read_text(encoding="utf-8") == content


def test_stdin_cannot_be_resumed() -> None:
    with pytest.raises(BadInput, match="stdin cannot be resumed"):
        identity("-")


# Two decisions -----------------------------------------------------------------------------------------------------


def finding(predicate: str = PENDING, verdict: str = "block", *, missing: str | None = None, **other: Any) -> JSON:
    """A finding on the order's status."""
    return {
        "predicate": predicate,
        "status": "unknown" if missing else "violated",
        "verdict": "revise" if missing else verdict,
        "mode": "enforce",
        "message": "no",
        "paths": [STATUS],
        "missing": [{"path": STATUS, "cause": missing}] if missing else [],
        **other,
    }


def answer(*findings: Mapping[str, Any], ledger: Mapping[str, Any] | None = None) -> Answer:
    """An answer with these findings."""
    verdicts = [one["verdict"] for one in findings if one["mode"] == "enforce"]
    verdict = next((one for one in ("block", "revise") if one in verdicts), "allow")
    decision = Decision.model_validate(
        {
            "contract": "ledgeragent.decision/1",
            "request": "r",
            "verdict": verdict,
            "findings": list(findings),
            "predicates": sorted(one["predicate"] for one in findings),
            "overrides": [],
            "obligations": [],
            "policy": {
                "revision": "sha256:1",
                "gate": "sha256:2",
                "sequence": dict.fromkeys(("domain", "gate", "overrides", "floor", "freeze"), 0),
            },
        }
    )
    return Answer(verdict, decision, None, {"ledger": ledger or {}, "stale": []})


@pytest.mark.parametrize(
    ("old", "new", "kind", "changes"),
    [
        (answer(), answer(), None, []),
        (answer(finding()), answer(finding()), None, []),
        (answer(finding()), answer(), "verdict", [(PENDING, "vanished")]),
        (answer(), answer(finding()), "verdict", [(PENDING, "appeared")]),
        (answer(finding()), answer(finding(verdict="revise")), "verdict", [(PENDING, "changed")]),
        (answer(finding()), answer(finding(missing="stale")), "verdict", [(PENDING, "changed")]),
        (answer(finding()), answer(finding(mode="shadow")), "verdict", [(PENDING, "changed")]),
        (answer(finding("a.b"), finding()), answer(finding("a.b")), "findings", [(PENDING, "vanished")]),
        (answer(finding()), answer(finding(paths=[])), "findings", [(PENDING, "evidence")]),
        (answer(), answer(finding(mode="shadow")), "findings", [(PENDING, "appeared")]),
        (answer(finding()), answer(finding(message="never")), "messages", [(PENDING, "words")]),
        (
            answer(finding()),
            Answer("block", None, "engine.timeout", {}),
            "findings",
            [(PENDING, "vanished"), ("engine.timeout", "appeared")],
        ),
        (answer(), Answer(UNJUDGED, None, None, {}), "verdict", [("gate.effect", "changed")]),
    ],
)
def test_every_difference_has_its_kind(
    old: Answer, new: Answer, kind: str | None, changes: list[tuple[str, str]]
) -> None:
    row = compared(old, new)
    assert (row["kind"] if row else None) == kind
    assert [(one["predicate"], one["change"]) for one in (row or {"changes": []})["changes"]] == changes


def test_words_of_redacted_records_are_not_compared() -> None:
    assert compared(answer(finding()), answer(finding(message="(masked)")), words=False) is None


def test_a_fact_that_no_record_could_hold_leaves_the_verdict_untold() -> None:
    new = answer(finding(missing="missing"))
    row = compared(answer(), new, told=lambda fact: fact.path != STATUS)
    assert row is not None
    assert row["kind"] == "untold"
    assert compared(new, new, told=lambda fact: False) is None
    known = compared(answer(), new, told=lambda fact: True)
    assert known is not None
    assert known["kind"] == "verdict"


def test_the_facts_are_those_of_the_predicates_that_changed(retail_domain: Domain) -> None:
    other = finding("a.b", paths=[["users", "ada", "email"]])
    old = answer(finding(), other, ledger={"orders": {"#W1": {"status": "delivered", "items": []}}})
    row = compared(old, answer(other))
    assert row is not None
    facts = deciding_facts(row, old, answer(other), retail_domain.log)
    assert [(one["path"], one["value"]) for one in facts] == [(STATUS, "delivered")]


@pytest.mark.parametrize(("stale", "cause"), [([["orders", "#W1"]], "stale"), ([], "absent")])
def test_a_fact_without_a_value_says_why(retail_domain: Domain, stale: list[list[str]], cause: str) -> None:
    old = Answer("block", answer(finding()).decision, None, {"ledger": {}, "stale": stale})
    row = compared(old, answer())
    assert row is not None
    (fact,) = deciding_facts(row, old, answer(), retail_domain.log)
    assert (fact["path"], fact["cause"]) == (STATUS, cause)


def test_what_may_not_be_logged_is_not_shown_in_a_comment(retail_domain: Domain) -> None:
    email, status = ["users", "ada_quist_1001", "email"], ["orders", "#W1234567", "status"]
    ledger = {
        "users": {"ada_quist_1001": {"email": "ada@example.com"}},
        "orders": {"#W1234567": {"status": "delivered"}},
    }
    old = answer(finding(paths=[email, status]), ledger=ledger)
    row = compared(old, answer())
    assert row is not None
    shown = [fact["shown"] for fact in deciding_facts(row, old, answer(), retail_domain.log)]
    assert shown == [
        {"path": status, "value": "delivered"},
        {"path": ["users", "(masked)", "(masked)"], "value": "(masked)"},
    ]


# The comment -------------------------------------------------------------------------------------------------------


def row(number: int, predicate: str = PENDING, tool: str = "cancel_pending_order") -> JSON:
    """A call that is no longer blocked."""
    found = compared(answer(finding(predicate)), answer())
    assert found is not None
    place = {"conversation": f"c{number}", "index": 1, "position": 0, "call_id": "x", "tool": tool}
    facts = [{"path": STATUS, "value": "a|b", "shown": {"path": STATUS, "value": "`a|b`\n<b>@team</b>"}}]
    shown = {"arguments": {"reason": "x" * 500}}
    return {**place, "arguments": {}, **found, "facts": facts, "loop": False, "shown": shown}


def found(rows: list[JSON], *allowed: str, **counts: int) -> Backtest:
    """A backtest of 1,000 calls that found these rows."""
    total = Counter({"compared": 1000, **counts})
    summary = Summary.of(total, rows, [AllowedChange.parse(text) for text in allowed])
    return Backtest(summary, Told("the old ones"), Told("new"))


def test_changes_are_counted_by_predicate_and_the_allowed_ones_apart() -> None:
    rows = [row(1), row(2, tool="modify_pending_order_items"), row(3, "retail.cancel_reason")]
    summary = found(rows, "retail.order_*@cancel_*", "airline.*").summary
    assert (summary.changed, summary.allowed, summary.unexpected, summary.failed) == (3, 1, 2, True)
    assert [(one.predicate, one.calls, one.allowed) for one in summary.groups] == [
        (PENDING, 2, 1),
        ("retail.cancel_reason", 1, 0),
    ]
    assert summary.unused == ["airline.*"]


def test_only_what_is_meant_changes_is_no_failure() -> None:
    whole = found([row(1)], ":block->allow")
    assert (whole.summary.failed, headline(whole)) == (
        False,
        "1 of 1,000 calls changes its verdict; 1 of them allowed.",
    )
    assert not found([]).summary.failed
    assert found([], skipped=1).summary.failed
    assert found([], compared=0).summary.failed


def test_an_allowed_change_that_fits_nothing_is_told() -> None:
    assert list(notes(found([row(1)], "airline.*"))) == ["--allow-change 'airline.*' fits no change."]


def test_a_comment_shows_values_as_text_and_nothing_else() -> None:
    text = markdown(found([row(1)]))
    assert "&#124;" in text
    for harm in ("@team", "<b>", "a|b", "`"):
        assert harm not in text.replace("\\n", "")
    assert "x" * 121 not in text


def test_a_comment_is_cut_to_its_limit_and_says_so() -> None:
    rows = [row(number, f"retail.rule_{number % 40}") for number in range(4000)]
    whole = markdown(found(rows), limit=10**7)
    for limit in (1000, 5000, 20_000, 65_000):
        text = markdown(found(rows), limit=limit)
        assert len(text) <= limit
        assert "Cut to fit a comment" in text
        assert text.startswith(whole.splitlines()[0])
    assert "Cut to fit" not in whole


def test_a_summary_keeps_few_examples_whatever_the_number_of_calls() -> None:
    (group,) = found([row(number) for number in range(500)]).summary.groups
    assert (group.calls, len(group.examples)) == (500, 20)
    assert json.dumps(group.as_json())
