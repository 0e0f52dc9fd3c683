"""The ledger: what becomes a fact, what goes stale, what a decision gets to see of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgeragent.contracts import ReadTool, WriteTool
from ledgeragent.domain import Domain
from ledgeragent.errors import LedgerError
from ledgeragent.ledger import Absorbed, Ledger, Limits, NotAFact, Provenance
from ledgeragent.paths import NOTHING, PathTemplate, Scope
from support import retail, toy
from support.toy import person

pytest_plugins = ["support.fixtures"]

NO_SCOPE = Scope({})


@pytest.fixture(scope="module")
def domain(tmp_path_factory: pytest.TempPathFactory) -> Domain:
    """The toy domain; nothing here changes it."""
    return toy.load(tmp_path_factory.mktemp("toy"))


@pytest.fixture
def ledger(domain: Domain) -> Ledger:
    """An empty ledger of the toy domain."""
    return Ledger(domain)


def absorb(
    ledger: Ledger, name: str, arguments: Mapping[str, Any], content: Any, *, issued: int = 1, proves: bool = True
) -> Absorbed:
    """Absorb a return; what is no text is written as JSON first."""
    tool = ledger.domain.tools[name]
    assert isinstance(tool, ReadTool | WriteTool)
    text = content if isinstance(content, str) else json.dumps(content)
    return ledger.absorb(tool, arguments, text, Provenance(name, f"c{issued}", 0, toy.NOW, issued), proves=proves)


def read(ledger: Ledger, *people: Mapping[str, Any], issued: int = 1) -> None:
    """Read people, all of whom fit."""
    for one in people:
        absorbed = absorb(ledger, "get_person", {"id": one["id"]}, one, issued=issued)
        assert absorbed == Absorbed((("people", one["id"]),), ())


def stock(*rows: tuple[str, str]) -> dict[str, Any]:
    return {"articles": [{"id": article, "state": state} for article, state in rows]}


def reasons(absorbed: Absorbed) -> list[str]:
    """Why a return, none of which became a fact, was kept out."""
    assert absorbed.paths == ()
    return [problem.reason for problem in absorbed.problems]


def cut(ledger: Ledger, *needs: list[str], scope: Scope = NO_SCOPE) -> tuple[dict[str, Any], list[list[str]]]:
    """Ledger and stale paths of a slice."""
    found = ledger.slice([PathTemplate.parse(path) for path in needs], scope)
    return found.ledger, found.stale


def mark(ledger: Ledger, *paths: list[str], write: int = 1, scope: Scope = NO_SCOPE) -> None:
    ledger.mark(write, [PathTemplate.parse(path) for path in paths], scope)


# Absorbing -------------------------------------------------------------------------------------------------------


def test_a_return_that_fits_becomes_a_record_with_its_provenance(ledger: Ledger) -> None:
    read(ledger, person("p1", visa=5), issued=7)
    assert list(ledger.records()) == [
        (("people", "p1"), person("p1", visa=5), Provenance("get_person", "c7", 0, toy.NOW, 7), ())
    ]
    assert ledger.provenance(("people", "p1", "cards", "visa")) == Provenance("get_person", "c7", 0, toy.NOW, 7)
    assert ledger.provenance(("people", "p2")) is None
    assert (len(ledger), ledger.size) == (1, len('{"cards":{"visa":{"balance":5}},"id":"p1"}'))


def test_fields_the_schema_does_not_know_are_kept(ledger: Ledger) -> None:
    read(ledger, {**person(), "__proto__": {"admin": True}})
    assert ledger.lookup(("people", "p1", "__proto__", "admin")) is True


@pytest.mark.parametrize(
    "key", ["a.b", "a/b", "../x", "__proto__", "*", "?", "{id}", "#W1", "", " ", "é\u2028", "a\0b"]
)
def test_an_id_is_stored_and_found_byte_for_byte(ledger: Ledger, key: str) -> None:
    read(ledger, person(key, c=1), person("other"))
    assert ledger.lookup(("people", key, "cards")) == {"c": {"balance": 1}}
    scope = Scope({"arguments": {"id": key}})
    assert cut(ledger, ["people", "{arguments.id}"], scope=scope) == ({"people": {key: person(key, c=1)}}, [])


def test_reading_again_replaces(ledger: Ledger) -> None:
    read(ledger, person("p1", visa=5))
    read(ledger, person("p1"), issued=2)
    assert (ledger.tree(), len(ledger)) == ({"people": {"p1": person("p1")}}, 1)
    assert ledger.size == len('{"cards":{},"id":"p1"}')


def test_a_return_overtaken_by_a_later_read_is_not_taken(ledger: Ledger) -> None:
    read(ledger, person("p1", visa=5), issued=2)
    late = absorb(ledger, "get_person", {"id": "p1"}, person("p1", visa=9), issued=1)
    assert reasons(late) == ["the record was read again by a later call; the late return is not taken"]
    assert ledger.lookup(("people", "p1", "cards", "visa", "balance")) == 5


def test_a_fact_that_is_set_once_stays(ledger: Ledger) -> None:
    assert absorb(ledger, "find_person", {"email": "a"}, "p1").paths == (("auth", "person"),)
    assert absorb(ledger, "find_person", {"email": "b"}, "p2", issued=2).paths == ()
    assert ledger.lookup(("auth", "person")) == "p1"


def test_a_list_is_spread_over_keyed_paths_where_its_condition_holds_and_ids_accumulate(ledger: Ledger) -> None:
    absorb(ledger, "list_stock", {"shop": "north"}, stock(("a", "listed"), ("b", "hidden"), ("c", "sold")))
    again = absorb(ledger, "list_stock", {"shop": "south"}, stock(("d", "listed"), ("a", "listed\n")), issued=2)
    assert again == Absorbed((("stock", "south", "d"), ("seen",)), ())
    assert ledger.tree() == {
        "stock": {
            "north": {"a": {"id": "a", "state": "listed"}, "c": {"id": "c", "state": "sold"}},
            "south": {"d": {"id": "d", "state": "listed"}},
        },
        "seen": ["a", "b", "c", "d"],
    }


def test_an_empty_list_is_a_success(ledger: Ledger) -> None:
    assert absorb(ledger, "list_stock", {"shop": "north"}, stock()) == Absorbed((("seen",),), ())
    assert ledger.tree() == {"seen": []}


def test_prose_becomes_a_fact_only_if_its_parser_understands_the_whole_of_it(ledger: Ledger) -> None:
    assert absorb(ledger, "describe_person", {"id": "p1"}, "Person p1 has no cards.").paths == (("people", "p1"),)
    for text in ("Person p1 has no cards. Really.", "503 Service Unavailable", ""):
        odd = absorb(ledger, "describe_person", {"id": "p1"}, text, issued=2)
        assert reasons(odd) == ["the return could not be understood: not a sentence about a person"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("503 Service Unavailable", "the return is not JSON: "),
        ('{"id": "p1", "car', "the return is not JSON: "),
        ('{"id": "p1", "cards": {}, "id": "p2"}', "the return has a key twice in one object of 3 keys"),
        ('{"id": "p1", "cards": {"c": {"balance": NaN}}}', "the return contains NaN, which is not JSON"),
        ('"' + "x" * 10_000_000 + '"', "the return is 10,000,002 characters long; at most 1,000,000 are taken"),
        ('{"id": "p1"}', "does not fit its schema: the record: 'cards' is a required property"),
        ('{"id": "p1", "cards": {"c": {"balance": "5"}}}', "does not fit its schema: cards.*.balance: breaks type"),
        ('{"id": "p1", "cards": {"c": {"balance": true}}}', "does not fit its schema: cards.*.balance: breaks type"),
        ("[]", "does not fit its schema: the record: "),
        ("null", "does not fit its schema: the record: "),
        ('{"id": "P1", "cards": {}}', "the record's own id is not the one it was read as"),
        ('{"id": "p1 ", "cards": {}}', "the record's own id is not the one it was read as"),
        ('{"id": "p\\u0301", "cards": {}}', "the record's own id is not the one it was read as"),
    ],
)
def test_what_does_not_fit_is_kept_out_and_reported(ledger: Ledger, content: str, reason: str) -> None:
    read(ledger, person("p1", visa=5))
    before = ledger.to_json()
    absorbed = absorb(ledger, "get_person", {"id": "p1"}, content, issued=2)
    [problem] = absorbed.problems
    assert problem.path == "people.p1"
    assert problem.reason.startswith(reason)
    assert absorbed.paths == ()
    assert ledger.to_json() == before


@pytest.mark.parametrize("text", ["503 Service Unavailable", "Error", "p1\n", "", '"p1"'])
def test_a_text_that_is_no_id_does_not_become_one(ledger: Ledger, text: str) -> None:
    assert "does not fit its schema" in reasons(absorb(ledger, "find_person", {"email": "a"}, text))[0]


def test_an_outage_does_not_become_a_retail_customer(retail_domain: Domain) -> None:
    ledger = Ledger(retail_domain)
    absorbed = absorb(ledger, "find_user_id_by_email", {"email": retail.EMAIL}, "503 Service Unavailable")
    assert [problem.path for problem in absorbed.problems] == ["auth.user_id"]
    assert ledger.tree() == {}


@pytest.mark.parametrize("content", [None, 5, ["p1"], {"person": "p1"}])
def test_where_text_belongs_a_parsed_value_is_not_taken(ledger: Ledger, content: Any) -> None:
    tool = ledger.domain.tools["find_person"]
    assert isinstance(tool, ReadTool)
    absorbed = ledger.absorb(tool, {"email": "a"}, content, Provenance("find_person", "c", 0, toy.NOW, 1))
    assert reasons(absorbed) == [f"the return is a {type(content).__name__}, text was expected"]


@pytest.mark.parametrize("name", ["find_person", "describe_person"])
def test_a_text_longer_than_any_json_that_is_taken_is_refused(ledger: Ledger, name: str) -> None:
    absorbed = absorb(ledger, name, {"email": "a", "id": "p1"}, "x" * 1_000_001)
    assert reasons(absorbed) == ["the return is 1,000,001 characters long; at most 1,000,000 are taken"]


@pytest.mark.parametrize("arguments", [{}, {"id": 5}, {"id": ["p1"]}, {"id": None}])
def test_a_path_that_finds_nothing_in_the_call_is_reported(ledger: Ledger, arguments: dict[str, Any]) -> None:
    absorbed = absorb(ledger, "get_person", arguments, person())
    assert reasons(absorbed) == ["the path names something that is in neither the call nor its return"]


def test_two_records_for_one_path_are_both_kept_out(ledger: Ledger) -> None:
    absorbed = absorb(ledger, "list_stock", {"shop": "north"}, stock(("a", "listed"), ("b", "sold"), ("a", "sold")))
    assert absorbed == Absorbed(
        (("seen",),),
        (NotAFact("stock.{arguments.shop}.{each.id}", "the return has two records for one path"),),
    )


def test_one_element_that_does_not_fit_keeps_out_its_whole_rule(ledger: Ledger) -> None:
    rows = {"articles": [{"id": "a", "state": "listed"}, {"state": "listed"}]}
    absorbed = absorb(ledger, "list_stock", {"shop": "north"}, rows)
    assert (absorbed.paths, ledger.tree()) == ((("seen",),), {"seen": ["a"]})


def test_without_proof_an_authentication_rule_gives_no_fact(ledger: Ledger) -> None:
    absorbed = absorb(ledger, "find_person", {"email": "a"}, "p1", proves=False)
    assert reasons(absorbed) == ["proves nothing: email had already been seen in a tool return"]
    assert ledger.tree() == {}


def test_what_the_host_does_to_a_value_afterwards_does_not_reach_the_ledger(ledger: Ledger) -> None:
    content = person("p1", visa=5)
    tool = ledger.domain.tools["get_person"]
    assert isinstance(tool, ReadTool)
    ledger.absorb(tool, {"id": "p1"}, content, Provenance("get_person", "c", 0, toy.NOW, 1))
    content["cards"]["visa"]["balance"] = 1_000_000
    assert ledger.lookup(("people", "p1", "cards", "visa", "balance")) == 5


# Caps ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (Limits(record_bytes=50), "the record in people is 59 bytes; a record has at most 50"),
        (Limits(records=1), "the session would hold 2 records; its limit is 1"),
        (Limits(total_bytes=60), "the session would hold 81 bytes of facts; its limit is 60"),
    ],
)
def test_caps_keep_out_what_is_too_much_and_say_which(domain: Domain, limits: Limits, reason: str) -> None:
    ledger = Ledger(domain, limits)
    read(ledger, person("p1"))
    assert reasons(absorb(ledger, "get_person", {"id": "p2"}, {**person("p2"), "nick": "n" * 27})) == [reason]
    assert ledger.tree() == {"people": {"p1": person("p1")}}


def test_at_a_cap_a_record_can_still_be_read_again(domain: Domain) -> None:
    ledger = Ledger(domain, Limits(records=1, total_bytes=22))
    read(ledger, person("p1"))
    read(ledger, person("p1"), issued=2)
    assert (len(ledger), ledger.size) == (1, 22)


def test_a_rule_that_reaches_a_cap_halfway_is_kept_out_whole(domain: Domain) -> None:
    ledger = Ledger(domain, Limits(records=2))
    absorbed = absorb(ledger, "list_stock", {"shop": "n"}, stock(("a", "sold"), ("b", "sold"), ("c", "sold")))
    assert (absorbed.paths, ledger.tree()) == ((("seen",),), {"seen": ["a", "b", "c"]})


# Staleness -------------------------------------------------------------------------------------------------------

BALANCE = ["people", "p1", "cards", "visa", "balance"]


def test_a_changed_field_is_stale_and_its_neighbours_are_not(ledger: Ledger) -> None:
    read(ledger, person("p1", visa=5, amex=7), person("p2", visa=9))
    mark(ledger, BALANCE)
    assert cut(ledger, ["people", "p1", "cards"], ["people", "p2", "cards"]) == (
        {"people": {"p1": {"cards": {"visa": {}, "amex": {"balance": 7}}}, "p2": {"cards": {"visa": {"balance": 9}}}}},
        [BALANCE],
    )
    assert (ledger.lookup(tuple(BALANCE)), ledger.lookup(("people", "p1", "cards", "visa"))) == (NOTHING, {})
    assert ledger.stale_paths() == [tuple(BALANCE)]


@pytest.mark.parametrize(
    ("asked", "seen"),
    [
        (["people", "p1"], {"people": {"p1": {"id": "p1"}}}),
        (["people", "p1", "id"], {"people": {"p1": {"id": "p1"}}}),
        (["people", "p1", "cards"], {"people": {"p1": {}}}),
        (BALANCE, {"people": {"p1": {}}}),
    ],
)
def test_what_lies_below_a_stale_path_is_stale_and_what_lies_beside_it_is_not_listed(
    ledger: Ledger, asked: list[str], seen: dict[str, Any]
) -> None:
    read(ledger, person("p1", visa=5))
    mark(ledger, ["people", "p1", "cards"])
    stale = [] if asked[-1] == "id" else [["people", "p1", "cards"]]
    assert cut(ledger, asked) == (seen, stale)


def test_a_whole_record_can_be_stale(ledger: Ledger) -> None:
    read(ledger, person("p1"), person("p2"))
    mark(ledger, ["people", "p1"])
    assert cut(ledger, ["people", "p1", "id"]) == ({}, [["people", "p1"]])
    assert ledger.tree() == {"people": {"p2": person("p2")}}


def test_a_field_that_was_absent_may_be_there_now_and_is_stale(ledger: Ledger) -> None:
    read(ledger, person("p1"))
    mark(ledger, ["people", "p1", "nick"])
    assert cut(ledger, ["people", "p1", "nick"]) == ({"people": {"p1": {}}}, [["people", "p1", "nick"]])


def test_a_principal_that_is_not_known_yet_makes_everybodys_field_stale(ledger: Ledger) -> None:
    read(ledger, person("p1", visa=5), person("p2", visa=9))
    mark(ledger, ["people", "{principal}", "cards", "*", "balance"])
    read(ledger, person("p3", amex=1))
    assert ledger.stale_paths() == [
        ("people", one, "cards", card, "balance") for one, card in (("p1", "visa"), ("p2", "visa"), ("p3", "amex"))
    ]


def test_an_id_that_reads_like_a_wildcard_makes_only_itself_stale(ledger: Ledger) -> None:
    read(ledger, person("*"), person("p1"))
    mark(ledger, ["people", "{arguments.id}", "nick"], scope=Scope({"arguments": {"id": "*"}}))
    assert ledger.stale_paths() == [("people", "*", "nick")]


def test_stale_absence_leaves_what_is_there_fresh(ledger: Ledger) -> None:
    read(ledger, person("p1", visa=5))
    mark(ledger, ["people", "p1", "cards", "?"])
    assert cut(ledger, ["people", "p1", "cards", "amex"], ["people", "p1", "cards", "visa"]) == (
        {"people": {"p1": {"cards": {"visa": {"balance": 5}}}}},
        [["people", "p1", "cards", "?"]],
    )


@pytest.mark.parametrize(
    ("issued", "known", "stale"),
    [(1, None, True), (9, None, True), (1, 5, True), (4, 5, True), (6, 5, False)],
)
def test_only_a_read_issued_after_the_outcome_was_known_is_fresh(
    ledger: Ledger, issued: int, known: int | None, stale: bool
) -> None:
    read(ledger, person("p1", visa=5), issued=0)
    mark(ledger, BALANCE, write=3)
    if known is not None:
        ledger.settle(3, known)
    read(ledger, person("p1", visa=4), issued=issued)
    assert ledger.stale_paths() == ([tuple(BALANCE)] if stale else [])


def test_a_record_first_read_while_a_write_was_under_way_is_stale_where_the_write_changes_it(ledger: Ledger) -> None:
    mark(ledger, BALANCE, write=3)
    read(ledger, person("p1", visa=5), issued=4)
    ledger.settle(3, 5)
    assert ledger.stale_paths() == [tuple(BALANCE)]


def test_a_write_that_did_not_happen_leaves_everything_as_it_was(ledger: Ledger) -> None:
    read(ledger, person("p1", visa=5, amex=7))
    before = ledger.to_json()
    mark(ledger, BALANCE, ["people", "{principal}", "nick"], write=3)
    assert ledger.digest != before["digest"]
    ledger.unmark(3)
    assert ledger.to_json() == before


def test_a_field_that_two_writes_changed_stays_stale_when_one_did_not_happen(ledger: Ledger) -> None:
    read(ledger, person("p1", visa=5))
    mark(ledger, BALANCE, write=3)
    mark(ledger, BALANCE, write=4)
    ledger.unmark(4)
    assert ledger.stale_paths() == [tuple(BALANCE)]
    ledger.settle(3, 5)
    read(ledger, person("p1", visa=4), issued=6)
    assert ledger.stale_paths() == []


# Slicing ---------------------------------------------------------------------------------------------------------


def test_a_slice_holds_what_was_asked_for_and_nothing_else(ledger: Ledger) -> None:
    read(ledger, person("p1", visa=5), person("p2"))
    absorb(ledger, "find_person", {"email": "a"}, "p1")
    found = ledger.slice(
        [PathTemplate.parse(path) for path in (["auth", "person"], ["people", "{principal}", "id"], ["people", "p9"])],
        Scope({}, "p1"),
    )
    assert (found.ledger, found.stale) == ({"auth": {"person": "p1"}, "people": {"p1": {"id": "p1"}}}, [])
    records = {path: held is not None for path, held in found.records.items()}
    assert records == {("auth", "person"): True, ("people", "p1"): True, ("people", "p9"): False}


def test_a_path_that_was_never_read_leaves_nothing_behind(ledger: Ledger) -> None:
    assert cut(ledger, ["people", "p1", "nick"], ["auth", "person"], ["seen"]) == ({}, [])


@pytest.mark.parametrize(
    ("asked", "seen"),
    [
        (["nick"], {}),
        (["nick", "below"], {}),
        (["cards", "amex", "balance"], {"cards": {}}),
        (["cards", "visa", "limit"], {"cards": {"visa": {}}}),
        (["cards", "*", "balance"], {"cards": {"visa": {"balance": 5}}}),
        (["cards", "*", "limit"], {"cards": {"visa": {}}}),
        (["cards", "?"], {"cards": {}}),
        (["id", "below"], {"id": "p1"}),
    ],
)
def test_what_an_observed_record_lacks_leaves_the_containers_above_it(
    ledger: Ledger, asked: list[str], seen: dict[str, Any]
) -> None:
    read(ledger, person("p1", visa=5))
    assert cut(ledger, ["people", "p1", *asked]) == ({"people": {"p1": seen}}, [])


def test_a_null_is_passed_on_as_the_knowledge_it_is(ledger: Ledger) -> None:
    read(ledger, {**person("p1"), "nick": None})
    assert cut(ledger, ["people", "p1", "nick"]) == ({"people": {"p1": {"nick": None}}}, [])


def test_every_key_of_an_observed_empty_container_still_shows_that_it_was_observed(ledger: Ledger) -> None:
    read(ledger, person("p1"))
    found = ledger.slice([PathTemplate.parse(["people", "p1", "cards", "*", "balance"])], NO_SCOPE)
    assert found.ledger == {"people": {"p1": {"cards": {}}}}
    assert list(found.records) == [("people", "p1")]


def test_a_wildcard_stands_for_the_keys_at_hand(ledger: Ledger) -> None:
    absorb(ledger, "list_stock", {"shop": "n"}, stock(("a", "sold"), ("b", "sold")))
    absorb(ledger, "list_stock", {"shop": "s"}, stock(("c", "sold")))
    assert cut(ledger, ["stock", "*", "*", "state"]) == (
        {"stock": {"n": {"a": {"state": "sold"}, "b": {"state": "sold"}}, "s": {"c": {"state": "sold"}}}},
        [],
    )


def test_a_need_can_be_looked_up_in_the_ledger_but_not_through_stale_facts(ledger: Ledger) -> None:
    absorb(ledger, "find_person", {"email": "a"}, "p1")
    read(ledger, person("p1", visa=5), person("p2"))
    need = ["people", "{ledger: auth.person}", "id"]
    assert cut(ledger, need) == ({"people": {"p1": {"id": "p1"}}}, [])
    mark(ledger, ["auth", "person"])
    assert cut(ledger, need) == ({}, [])


def test_a_nested_look_up_reaches_the_products_of_an_order(retail_domain: Domain) -> None:
    ledger = Ledger(retail_domain)
    absorb(ledger, "get_order_details", {"order_id": "#W1"}, retail.PENDING)
    for product in (retail.LAMPS, retail.CHAIRS, retail.product("rugs", rug_a=9)):
        absorb(ledger, "get_product_details", {"product_id": product["product_id"]}, product)
    needs = retail_domain.needs["modify_pending_order_items"]
    found = ledger.slice(needs, Scope({"arguments": {"order_id": "#W1"}}))
    assert found.ledger["products"] == {"lamps": retail.LAMPS, "chairs": retail.CHAIRS}


def test_a_slice_says_whether_its_records_have_changed_since(ledger: Ledger) -> None:
    read(ledger, person("p1", visa=5))
    found = ledger.slice([PathTemplate.parse(path) for path in (["people", "p1", "id"], ["people", "p2"])], NO_SCOPE)
    read(ledger, person("p1", visa=5), issued=2)
    assert ledger.unchanged(found.records)
    read(ledger, person("p2"))
    assert not ledger.unchanged(found.records)
    assert not Ledger(ledger.domain).unchanged(found.records)


def test_what_is_done_to_a_slice_or_a_tree_does_not_reach_the_ledger(ledger: Ledger) -> None:
    read(ledger, person("p1", visa=5))
    before = json.dumps(ledger.to_json())
    for tree in (cut(ledger, ["people", "p1"])[0], ledger.tree()):
        tree["people"]["p1"]["cards"]["visa"]["balance"] = 1_000_000
        tree["people"]["p1"]["id"] = "p2"
    assert json.dumps(ledger.to_json()) == before


# Properties ------------------------------------------------------------------------------------------------------

_cards = st.dictionaries(st.sampled_from("abc"), st.integers(0, 9), max_size=3)
_people = st.lists(st.builds(lambda one, cards: person(one, **cards), st.sampled_from(["p1", "p2", "*"]), _cards))
_paths = st.lists(
    st.sampled_from(
        [
            ["people", "p1"],
            ["people", "p2", "nick"],
            ["people", "*", "cards"],
            ["people", "*", "cards", "*", "balance"],
            ["people", "p1", "cards", "a"],
            ["people", "{arguments.id}", "cards", "b", "balance"],
            ["people", "{principal}", "cards", "?"],
        ]
    )
)


def part_of(part: Any, whole: Any) -> bool:
    """Whether a tree is another one with some of its branches cut off."""
    if not (isinstance(part, dict) and isinstance(whole, dict)):
        return bool(part == whole)
    return all(key in whole and part_of(part[key], whole[key]) for key in part)


@given(_people, _paths, _paths)
def test_a_slice_is_always_a_part_of_the_fresh_ledger_and_leaves_it_alone(
    domain: Domain, people: list[Any], marks: list[list[str]], needs: list[list[str]]
) -> None:
    ledger = Ledger(domain)
    for one in people:
        read(ledger, one)
    scope = Scope({"arguments": {"id": "*"}})
    mark(ledger, *marks, scope=scope)
    before = json.dumps([ledger.to_json(), ledger.tree()])
    seen, stale = cut(ledger, *needs, scope=scope)
    assert part_of(seen, ledger.tree())
    assert {tuple(path) for path in stale} <= set(ledger.stale_paths())
    assert json.dumps([ledger.to_json(), ledger.tree()]) == before


@given(_people, _paths)
def test_the_digest_depends_on_facts_and_staleness_and_not_on_order_or_provenance(
    domain: Domain, people: list[Any], marks: list[list[str]]
) -> None:
    last = {one["id"]: one for one in people}
    ledgers = [Ledger(domain), Ledger(domain)]
    mark(ledgers[0], *marks)
    for one in people:
        read(ledgers[0], one)
    for one in reversed(last.values()):
        read(ledgers[1], one, issued=9)
    mark(ledgers[1], *reversed(marks), write=2)
    assert ledgers[0].digest == ledgers[1].digest
    read(ledgers[1], person("p3"))
    assert ledgers[0].digest != ledgers[1].digest


@given(_people, _paths, st.booleans())
def test_a_ledger_written_as_json_is_read_back_the_same(
    domain: Domain, people: list[Any], marks: list[list[str]], known: bool
) -> None:
    ledger = Ledger(domain)
    mark(ledger, *marks)
    for one in people:
        read(ledger, one)
    if known:
        ledger.settle(1, 5)
    document = json.loads(json.dumps(ledger.to_json()))
    back = Ledger.from_json(document, domain)
    assert back.to_json() == document
    read(ledger, person("p1"), issued=7)
    read(back, person("p1"), issued=7)
    assert back.to_json() == ledger.to_json()


# JSON ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def document(ledger: Ledger) -> dict[str, Any]:
    """A ledger with a record and a stale field, as JSON."""
    read(ledger, person("p1", visa=5))
    mark(ledger, BALANCE)
    written: dict[str, Any] = json.loads(json.dumps(ledger.to_json()))
    return written


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("contract", "ledgeragent.ledger/2"),
        ("domain", "retail"),
        ("digest", "sha256:0"),
        ("digest", ...),
        ("records", ...),
        ("records", "text"),
        ("records", []),
        ("records/0/value", person("p1", visa=6)),
        ("records/0/value", person("p2")),
        ("records/0/value/cards", ...),
        ("records/0/value/cards/visa/balance", float("nan")),
        ("records/0/path", ["people", "p2"]),
        ("records/0/path", ["people"]),
        ("records/0/path", []),
        ("records/0/path", ["people", 1]),
        ("records/0/path", "people"),
        ("records/0/provenance", ...),
        ("records/0/provenance", []),
        ("records/0/provenance/issued", "1"),
        ("records/0/provenance/tool", None),
        ("records/0/provenance/stranger", 1),
        ("records/+", ...),
        ("marks", ...),
        ("marks", []),
        ("marks/0/pattern", []),
        ("marks/0/pattern", ["nowhere", "x"]),
        ("marks/0/pattern", [None]),
        ("marks/0/pattern/4", "limit"),
        ("marks/0/known", "5"),
        ("marks/0/known", 1),
        ("marks/0", 5),
    ],
)
def test_a_damaged_ledger_is_refused(domain: Domain, document: dict[str, Any], place: str, value: Any) -> None:
    damaged = toy.but(document, (place, document["records"][0] if place.endswith("+") else value))
    with pytest.raises(LedgerError, match=r"damaged|not a ledger|schema|record|proto|twice"):
        Ledger.from_json(damaged, domain)


def test_a_sound_ledger_of_an_older_schema_is_held_to_the_schema_of_today(domain: Domain, tmp_path: Path) -> None:
    older = Ledger(toy.load(tmp_path, schema=toy.but(toy.SCHEMA, ("$defs/person/required", ["id"]))))
    read(older, {"id": "p1"})
    with pytest.raises(LedgerError, match="does not fit its schema: the record: 'cards' is a required property"):
        Ledger.from_json(older.to_json(), domain)


def test_a_ledger_is_read_back_under_its_caps(domain: Domain, document: dict[str, Any]) -> None:
    with pytest.raises(LedgerError, match="at most 10"):
        Ledger.from_json(document, domain, Limits(record_bytes=10))


# Cost ------------------------------------------------------------------------------------------------------------


def calls_of(work: Callable[[], object]) -> int:
    """How many Python functions run: a measure of work that does not depend on the machine."""
    count = 0

    def seen(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def filled(domain: Domain, size: int) -> Ledger:
    ledger = Ledger(domain)
    for number in range(size):
        read(ledger, person(f"q{number}", visa=number))
    read(ledger, person("p1", visa=5))
    return ledger


WORK: dict[str, Callable[[Ledger], object]] = {
    "slice": lambda ledger: cut(ledger, ["people", "p1"], ["people", "{ledger: auth.person}", "cards", "*"]),
    "absorb": lambda ledger: absorb(ledger, "get_person", {"id": "p1"}, person("p1", visa=6), issued=2),
    "mark": lambda ledger: mark(ledger, BALANCE),
    "digest": lambda ledger: ledger.digest,
}


@pytest.mark.parametrize("kind", sorted(WORK))
def test_work_on_one_record_does_not_grow_with_the_ledger(domain: Domain, kind: str) -> None:
    warm, few, many = (filled(domain, size) for size in (1, 10, 1000))
    WORK[kind](warm)  # what is done once per process is done here
    # A digest is made of buckets, and a thousand records put some four into each: hence the hundred.
    assert calls_of(lambda: WORK[kind](many)) <= calls_of(lambda: WORK[kind](few)) + 100
