"""Our own shops: what their back ends do, what they refuse, and that their records are facts of their domains."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from ledgeragent import BadInput, Call, Domain, Engine, Gate, Session, ToolRefused
from ledgeragent.shops import SHOPS, Shop, open_shop

INES = {"user_id": "ines_marchetti_4021"}
PORTLAND = {"address1": "2 Elm", "address2": "", "city": "Salem", "state": "OR", "country": "USA", "zip": "97301"}
NORA = {"first_name": "Nora", "last_name": "Vance", "dob": "1990-02-03"}


def run(shop: Shop, tool: str, **arguments: Any) -> Any:
    return shop.tools[tool].run(tool, arguments)


def order(shop: Shop, order_id: str) -> Any:
    return run(shop, "get_order_details", order_id=order_id)


def reservation(shop: Shop, reservation_id: str) -> Any:
    return run(shop, "get_reservation_details", reservation_id=reservation_id)


def method(shop: Shop, user_id: str, method_id: str) -> Any:
    return run(shop, "get_user_details", user_id=user_id)["payment_methods"][method_id]


def seats(shop: Shop, number: str, day: str, cabin: str) -> int:
    found: int = shop.data["flights"][number]["days"][day]["available_seats"][cabin]
    return found


# Both -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SHOPS)
def test_a_shop_has_exactly_the_tools_that_its_domain_declares(name: str) -> None:
    assert sorted(tool.name for tool in open_shop(name).tools) == sorted(Domain.load(name).tools)


@pytest.mark.parametrize("name", SHOPS)
def test_every_opening_gives_a_fresh_shop(name: str) -> None:
    one, other = open_shop(name), open_shop(name)
    assert (one.digest(), one.data) == (other.digest(), other.data)
    one.data["users"].clear()
    assert len(other.data["users"]) == 20
    assert one.digest() != other.digest()


def test_an_unknown_shop_is_named_with_those_there_are() -> None:
    with pytest.raises(BadInput, match=r"no shop 'bakery'; there: airline, retail"):
        open_shop("bakery")


def reads_of(shop: Shop) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every read there is to make of every record."""
    for user_id, user in shop.data["users"].items():
        yield "get_user_details", {"user_id": user_id}
        if shop.name == "retail":
            yield "find_user_id_by_email", {"email": user["email"]}
            yield "find_user_id_by_name_zip", {**user["name"], "zip": user["address"]["zip"]}
    for product_id, product in shop.data.get("products", {}).items():
        yield "get_product_details", {"product_id": product_id}
        yield from (("get_item_details", {"item_id": item_id}) for item_id in product["variants"])
    yield from (("get_order_details", {"order_id": key}) for key in shop.data.get("orders", {}))
    yield from (("get_reservation_details", {"reservation_id": key}) for key in shop.data.get("reservations", {}))
    for number, flight in shop.data.get("flights", {}).items():
        yield from (("get_flight_status", {"flight_number": number, "date": day}) for day in flight["days"])
    airports = shop.data.get("airports", {})
    for origin, destination in [(one, other) for one in airports for other in airports]:
        for search in ("search_direct_flight", "search_onestop_flight"):
            yield search, {"origin": origin, "destination": destination, "date": "2024-05-20"}
    yield ("list_all_product_types" if shop.name == "retail" else "list_all_airports"), {}


@pytest.mark.parametrize("name", SHOPS)
def test_every_read_of_every_record_is_a_fact(name: str, embedded: Engine) -> None:
    shop = open_shop(name)
    gate = Gate(Domain.load(name), embedded)
    for tool, arguments in reads_of(shop):
        session = Session(gate, now=shop.now)  # one each: who the customer is can be said once
        call = session.issue(tool, arguments)
        returned = shop.tools[tool].run(tool, arguments)
        seen = session.observe(call.call_id, returned if isinstance(returned, str) else json.dumps(returned))
        assert seen.problems == (), (tool, arguments)
        assert seen.paths, (tool, arguments)


@pytest.mark.parametrize("name", SHOPS)
def test_what_a_tool_returns_is_no_part_of_the_database(name: str) -> None:
    shop = open_shop(name)
    user_id = next(iter(shop.data["users"]))
    before = shop.digest()
    run(shop, "get_user_details", user_id=user_id)["payment_methods"].clear()
    assert shop.digest() == before


@pytest.mark.parametrize("name", SHOPS)
def test_a_payment_method_is_one_customers_and_holds_something(name: str) -> None:
    methods = [one for user in open_shop(name).data["users"].values() for one in user["payment_methods"].values()]
    assert len({one["id"] for one in methods}) == len(methods)
    assert all(one.get("balance", one.get("amount", 1)) > 0 for one in methods)


@pytest.mark.parametrize(
    ("expression", "value"),
    [("2 + 3 * 4", "14.0"), ("(46.90-31) * -2", "-31.8"), ("1234567.89*2", "2469135.78"), ("10/3", "3.33")],
)
def test_sums_are_worked_out_to_the_cent(expression: str, value: str) -> None:
    assert run(open_shop("retail"), "calculate", expression=expression) == value


@pytest.mark.parametrize("expression", ["", "2**9", "1/0", "1e999", "len('x')", "True+1", "(" * 150, "1+" * 200 + "1"])
def test_what_is_no_sum_is_refused(expression: str) -> None:
    with pytest.raises(ToolRefused, match="is no sum"):
        run(open_shop("retail"), "calculate", expression=expression)


# What the back end refuses --------------------------------------------------------------------------------------

ITEMS = {"order_id": "#W4002", "item_ids": ["10212"], "payment_method_id": "credit_card_4021"}
SWAP = {**ITEMS, "new_item_ids": ["10213"]}
TRIP = {"reservation_id": "KX4T2B", "cabin": "economy", "payment_id": "credit_card_3107"}
BOOKING: dict[str, Any] = {
    "user_id": "wanda_kessler_3107",
    "origin": "SEA",
    "destination": "DEN",
    "flight_type": "one_way",
    "cabin": "economy",
    "flights": [{"flight_number": "NB101", "date": "2024-05-19"}],
    "passengers": [NORA],
    "payment_methods": [
        {"payment_id": "gift_card_3108", "amount": 100},
        {"payment_id": "credit_card_3107", "amount": 62},
    ],
    "total_baggages": 2,
    "nonfree_baggages": 0,
    "insurance": "yes",
}
REFUSED = [
    ("retail", "find_user_id_by_email", {"email": "nobody@example.com"}, "no customer found"),
    ("retail", "find_user_id_by_name_zip", {"first_name": "Ines", "last_name": "Marchetti", "zip": "1"}, "no customer"),
    ("retail", "get_user_details", {"user_id": "no_one_1"}, "user 'no_one_1' not found"),
    ("retail", "get_order_details", {"order_id": "W4001"}, "order 'W4001' not found"),
    ("retail", "get_order_details", {"order_id": 4001}, r"does not take these arguments: \$.order_id"),
    ("retail", "get_order_details", {}, "does not take these arguments"),
    ("retail", "get_order_details", {"order_id": "#W4001", "verbose": True}, "does not take these arguments"),
    ("retail", "get_product_details", {"product_id": "10111"}, "product '10111' not found"),
    ("retail", "get_item_details", {"item_id": "P101"}, "item 'P101' not found"),
    ("retail", "cancel_pending_order", {"order_id": "#W1", "reason": "no longer needed"}, "order '#W1' not found"),
    ("retail", "modify_pending_order_address", {"order_id": "#W1", **PORTLAND}, "not found"),
    ("retail", "modify_pending_order_payment", {"order_id": "#W4001", "payment_method_id": "x"}, "'x' not found"),
    ("retail", "modify_user_address", {"user_id": "no_one_1", **PORTLAND}, "not found"),
    ("retail", "return_delivered_order_items", {**ITEMS, "item_ids": ["10213"]}, "does not hold 10213"),
    ("retail", "return_delivered_order_items", {**ITEMS, "item_ids": ["10212", "10212"]}, "does not hold 10212"),
    ("retail", "return_delivered_order_items", {**ITEMS, "payment_method_id": "x"}, "payment method 'x' not found"),
    ("retail", "modify_pending_order_items", {**SWAP, "new_item_ids": ["1"]}, "item '1' not found"),
    ("retail", "modify_pending_order_items", {**SWAP, "new_item_ids": ["10213", "10211"]}, "1 items for 2"),
    ("retail", "exchange_delivered_order_items", {**SWAP, "item_ids": ["10111"]}, "does not hold 10111"),
    ("retail", "exchange_delivered_order_items", {**SWAP, "new_item_ids": ["1"]}, "item '1' not found"),
    ("airline", "get_reservation_details", {"reservation_id": "kx4t2b"}, "reservation 'kx4t2b' not found"),
    ("airline", "get_flight_status", {"flight_number": "NB1", "date": "2024-05-20"}, "flight 'NB1' not found"),
    ("airline", "get_flight_status", {"flight_number": "NB101", "date": "2025-05-20"}, "'2025-05-20' not found"),
    ("airline", "get_flight_status", {"flight_number": "NB101", "date": "May 20"}, "does not take these arguments"),
    ("airline", "book_reservation", {**BOOKING, "user_id": "no_one_1"}, "user 'no_one_1' not found"),
    ("airline", "book_reservation", {**BOOKING, "origin": "XXX"}, "airport 'XXX' not found"),
    (
        "airline",
        "book_reservation",
        {**BOOKING, "flights": [{"flight_number": "NB1", "date": "2024-05-19"}]},
        "not found",
    ),
    ("airline", "book_reservation", {**BOOKING, "payment_methods": [{"payment_id": "x", "amount": 1}]}, "not found"),
    ("airline", "cancel_reservation", {"reservation_id": "ZZZZZZ"}, "not found"),
    ("airline", "update_reservation_flights", {**TRIP, "flights": []}, "does not take these arguments"),
    (
        "airline",
        "update_reservation_flights",
        {**TRIP, "flights": [{"flight_number": "NB172", "date": "2024-06-20"}]},
        "not found",
    ),
    (
        "airline",
        "update_reservation_baggages",
        {"reservation_id": "KX4T2B", "total_baggages": 5, "nonfree_baggages": 0, "payment_id": "x"},
        "payment method 'x' not found",
    ),
    ("airline", "update_reservation_passengers", {"reservation_id": "ZZZZZZ", "passengers": [NORA]}, "not found"),
    ("airline", "send_certificate", {"user_id": "no_one_1", "amount": 50}, "not found"),
]


@pytest.mark.parametrize(("name", "tool", "arguments", "said"), REFUSED)
def test_what_does_not_exist_or_does_not_fit_is_refused_and_changes_nothing(
    name: str, tool: str, arguments: dict[str, Any], said: str
) -> None:
    shop = open_shop(name)
    before = shop.digest()
    with pytest.raises(ToolRefused, match=said):
        shop.tools[tool].run(tool, arguments)
    assert shop.digest() == before


# Retail ---------------------------------------------------------------------------------------------------------


def test_a_customer_is_found_by_email_or_by_name_and_postal_code() -> None:
    shop = open_shop("retail")
    assert run(shop, "find_user_id_by_email", email=" Brandt.Lena@example.net") == "lena_brandt_8106"
    assert (
        run(shop, "find_user_id_by_name_zip", first_name="lena", last_name="BRANDT", zip="53703") == "lena_brandt_4470"
    )


def test_a_cancelled_order_is_refunded_to_the_gift_card_that_paid_it() -> None:
    shop = open_shop("retail")
    before = order(shop, "#W4035")
    assert run(shop, "cancel_pending_order", order_id="#W4035", reason="ordered by mistake") == (
        "Order #W4035 is cancelled, $29.00 refunded to gift_card_1765."
    )
    refund = {"transaction_type": "refund", "amount": 29.0, "payment_method_id": "gift_card_1765"}
    assert order(shop, "#W4035") == {
        **before,
        "status": "cancelled",
        "cancel_reason": "ordered by mistake",
        "payment_history": [*before["payment_history"], refund],
    }
    assert method(shop, "fatou_ndiaye_1764", "gift_card_1765")["balance"] == 94.0


def test_another_payment_method_pays_and_the_first_is_refunded() -> None:
    shop = open_shop("retail")
    run(shop, "modify_pending_order_payment", order_id="#W4025", payment_method_id="gift_card_3928")
    assert order(shop, "#W4025")["payment_history"] == [
        {"transaction_type": "payment", "amount": 144.6, "payment_method_id": "credit_card_3929"},
        {"transaction_type": "refund", "amount": 144.6, "payment_method_id": "credit_card_3929"},
        {"transaction_type": "payment", "amount": 144.6, "payment_method_id": "gift_card_3928"},
    ]
    assert method(shop, "hiro_matsuda_3928", "gift_card_3928")["balance"] == 115.4


def test_a_modified_item_takes_the_place_of_the_old_one_and_the_difference_is_charged() -> None:
    shop = open_shop("retail")
    before = order(shop, "#W4001")
    arguments = {"item_ids": ["10112"], "new_item_ids": ["10113"], "payment_method_id": "gift_card_4022"}
    assert run(shop, "modify_pending_order_items", order_id="#W4001", **arguments) == (
        "Order #W4001 is changed; $15.90 charged to gift_card_4022."
    )
    after = order(shop, "#W4001")
    pot = {"name": "Moka Pot", "product_id": "P101", "item_id": "10113", "price": 46.9}
    assert after["items"] == [{**pot, "options": {"size": "6 cups", "finish": "steel"}}, before["items"][1]]
    assert after["status"] == "pending (item modified)"
    assert after["payment_history"][1:] == [
        {"transaction_type": "payment", "amount": 15.9, "payment_method_id": "gift_card_4022"}
    ]
    assert method(shop, INES["user_id"], "gift_card_4022")["balance"] == 2.6


def test_a_cheaper_item_is_refunded_and_an_equal_one_moves_no_money() -> None:
    shop = open_shop("retail")
    cheaper = {"item_ids": ["10311"], "new_item_ids": ["10111"], "payment_method_id": "gift_card_4022"}
    assert "$44.50 refunded to gift_card_4022" in run(shop, "modify_pending_order_items", order_id="#W4001", **cheaper)
    assert method(shop, INES["user_id"], "gift_card_4022")["balance"] == 63.0
    equal = {"item_ids": ["10512"], "new_item_ids": ["10511"], "payment_method_id": "credit_card_3350"}
    assert "the price stays the same" in run(shop, "modify_pending_order_items", order_id="#W4005", **equal)
    assert len(order(shop, "#W4005")["payment_history"]) == 1


def test_a_return_is_requested() -> None:
    shop = open_shop("retail")
    before = order(shop, "#W4002")
    run(shop, "return_delivered_order_items", **{**ITEMS, "item_ids": ["10811", "10811"]})
    assert order(shop, "#W4002") == {
        **before,
        "status": "return requested",
        "return_items": ["10811", "10811"],
        "return_payment_method_id": "credit_card_4021",
    }


def test_an_exchange_is_requested_and_a_gift_card_pays_the_difference() -> None:
    shop = open_shop("retail")
    before = order(shop, "#W4002")
    run(shop, "exchange_delivered_order_items", **{**SWAP, "payment_method_id": "gift_card_4022"})
    assert order(shop, "#W4002") == {
        **before,
        "status": "exchange requested",
        "exchange_items": ["10212"],
        "exchange_new_items": ["10213"],
        "exchange_payment_method_id": "gift_card_4022",
        "exchange_price_difference": 4.75,
    }
    assert method(shop, INES["user_id"], "gift_card_4022")["balance"] == 13.75


def test_addresses_change_each_for_itself() -> None:
    shop = open_shop("retail")
    run(shop, "modify_pending_order_address", order_id="#W4001", **PORTLAND)
    assert order(shop, "#W4001")["address"] == PORTLAND
    assert run(shop, "get_user_details", **INES)["address"]["zip"] == "97205"
    run(shop, "modify_user_address", **INES, **PORTLAND)
    assert run(shop, "get_user_details", **INES)["address"] == PORTLAND
    assert order(shop, "#W4002")["address"]["zip"] == "97205"


VIOLATIONS = [
    ("retail", "cancel_pending_order", {"order_id": "#W4002", "reason": "no longer needed"}),
    ("retail", "cancel_pending_order", {"order_id": "#W4001", "reason": "found it cheaper"}),
    ("retail", "return_delivered_order_items", {**ITEMS, "payment_method_id": "credit_card_9012"}),
    ("retail", "modify_pending_order_payment", {"order_id": "#W4007", "payment_method_id": "gift_card_2746"}),
    ("retail", "modify_pending_order_items", {**SWAP, "new_item_ids": ["10214"]}),
    ("retail", "exchange_delivered_order_items", {**SWAP, "new_item_ids": ["11211"]}),
    ("retail", "modify_user_address", {"user_id": "petra_novotna_9012", **PORTLAND}),
    ("airline", "cancel_reservation", {"reservation_id": "G3FN7Y"}),
    ("airline", "book_reservation", {**BOOKING, "passengers": [NORA] * 20}),
    ("airline", "update_reservation_flights", {**TRIP, "flights": [{"flight_number": "NB151", "date": "2024-05-20"}]}),
    (
        "airline",
        "update_reservation_baggages",
        {"reservation_id": "KX4T2B", "total_baggages": 1, "nonfree_baggages": 0, "payment_id": "gift_card_1300"},
    ),
    ("airline", "update_reservation_passengers", {"reservation_id": "KX4T2B", "passengers": [NORA]}),
    ("airline", "send_certificate", {"user_id": "paloma_vega_1299", "amount": 5000}),
]


@pytest.mark.parametrize(("name", "tool", "arguments"), VIOLATIONS)
def test_what_only_breaks_a_rule_reaches_the_database(name: str, tool: str, arguments: dict[str, Any]) -> None:
    shop = open_shop(name)
    before = shop.digest()
    shop.tools[tool].run(tool, arguments)
    assert shop.digest() != before


def test_a_gift_card_can_be_overdrawn_and_a_cabin_overbooked() -> None:
    retail, airline = open_shop("retail"), open_shop("airline")
    run(retail, "modify_pending_order_payment", order_id="#W4007", payment_method_id="gift_card_2746")
    assert method(retail, "joon_seo_2746", "gift_card_2746")["balance"] == -69.75
    run(airline, "book_reservation", **{**BOOKING, "passengers": [NORA] * 20})
    assert seats(airline, "NB101", "2024-05-19", "economy") == -6


# Airline --------------------------------------------------------------------------------------------------------


def test_a_search_offers_what_can_still_be_booked() -> None:
    shop = open_shop("airline")
    search = {"origin": "SEA", "destination": "JFK"}
    [first, second] = run(shop, "search_direct_flight", **search, date="2024-05-20")
    assert first == {
        "flight_number": "NB172",
        "origin": "SEA",
        "destination": "JFK",
        "scheduled_departure_time_est": "11:00:00",
        "scheduled_arrival_time_est": "16:25:00",
        "date": "2024-05-20",
        "status": "available",
        "available_seats": {"basic_economy": 0, "economy": 2, "business": 1},
        "prices": {"basic_economy": 142, "economy": 214, "business": 548},
    }
    assert (second["flight_number"], second["prices"]["economy"]) == ("NB173", 279)
    for day in ("2024-05-14", "2024-05-15", "2025-01-01"):
        assert run(shop, "search_direct_flight", **search, date=day) == []


def test_a_connection_leaves_time_to_change() -> None:
    shop = open_shop("airline")
    search = {"origin": "SEA", "destination": "ATL", "date": "2024-05-20"}
    [[first, second]] = run(shop, "search_onestop_flight", **search)
    assert (first["flight_number"], second["flight_number"]) == ("NB101", "NB201")
    shop.data["flights"]["NB201"]["scheduled_departure_time_est"] = "11:29:00"
    assert run(shop, "search_onestop_flight", **search) == []


@pytest.mark.parametrize(
    ("number", "day", "status"),
    [
        ("NB101", "2024-05-14", "landed"),
        ("NB101", "2024-05-15", "landed"),
        ("NB172", "2024-05-15", "flying"),
        ("NB182", "2024-05-15", "on time"),
        ("NB102", "2024-05-15", "delayed"),
        ("NB131", "2024-05-15", "cancelled"),
        ("NB101", "2024-05-16", "available"),
    ],
)
def test_the_status_of_a_flight_is_that_of_the_shops_clock(number: str, day: str, status: str) -> None:
    assert run(open_shop("airline"), "get_flight_status", flight_number=number, date=day) == status


def test_a_booking_is_paid_seated_and_on_the_profile() -> None:
    shop = open_shop("airline")
    assert run(shop, "book_reservation", **BOOKING) == "Booked: reservation NEW027."
    told = {key: value for key, value in BOOKING.items() if key not in ("flights", "payment_methods")}
    assert reservation(shop, "NEW027") == {
        **told,
        "reservation_id": "NEW027",
        "flights": [
            {"flight_number": "NB101", "date": "2024-05-19", "origin": "SEA", "destination": "DEN", "price": 132}
        ],
        "payment_history": [
            {"payment_id": "gift_card_3108", "amount": 100},
            {"payment_id": "credit_card_3107", "amount": 62},
        ],
        "created_at": "2024-05-15T15:00:00",
        "status": None,
    }
    profile = run(shop, "get_user_details", user_id="wanda_kessler_3107")
    assert profile["reservations"] == ["KX4T2B", "M7QF3A", "NEW027"]
    assert profile["payment_methods"]["gift_card_3108"]["amount"] == 20
    assert seats(shop, "NB101", "2024-05-19", "economy") == 13


def test_a_cancelled_reservation_is_refunded_once_and_its_seats_are_free() -> None:
    shop = open_shop("airline")
    before = reservation(shop, "V6ZT5C")
    for _ in range(2):
        run(shop, "cancel_reservation", reservation_id="V6ZT5C")
        assert reservation(shop, "V6ZT5C") == {
            **before,
            "status": "cancelled",
            "payment_history": [*before["payment_history"], {"payment_id": "gift_card_9286", "amount": -79}],
        }
        assert method(shop, "mateo_quiroga_9285", "gift_card_9286")["amount"] == 139
        assert seats(shop, "NB111", "2024-05-23", "basic_economy") == 13


def test_changed_flights_keep_the_price_of_those_that_stay_and_move_the_seats() -> None:
    shop = open_shop("airline")
    before = reservation(shop, "KX4T2B")
    flights = [{"flight_number": "NB173", "date": "2024-05-20"}, {"flight_number": "NB171", "date": "2024-05-24"}]
    said = run(shop, "update_reservation_flights", **{**TRIP, "payment_id": "gift_card_3108"}, flights=flights)
    assert said == "Reservation KX4T2B is changed; $130.00 charged to gift_card_3108."
    leg = {"flight_number": "NB173", "date": "2024-05-20", "origin": "SEA", "destination": "JFK", "price": 279}
    assert reservation(shop, "KX4T2B") == {
        **before,
        "flights": [leg, before["flights"][1]],
        "payment_history": [*before["payment_history"], {"payment_id": "gift_card_3108", "amount": 130}],
    }
    assert method(shop, "wanda_kessler_3107", "gift_card_3108")["amount"] == -10
    assert [seats(shop, number, "2024-05-20", "economy") for number in ("NB172", "NB173")] == [4, 7]
    assert seats(shop, "NB171", "2024-05-24", "economy") == 20


def test_another_cabin_has_its_own_price_and_seats() -> None:
    shop = open_shop("airline")
    flights = [{"flight_number": "NB121", "date": "2024-05-19"}, {"flight_number": "NB122", "date": "2024-05-22"}]
    arguments = {"reservation_id": "D2RW8P", "cabin": "economy", "payment_id": "credit_card_5528"}
    assert "$78.00 charged" in run(shop, "update_reservation_flights", **arguments, flights=flights)
    assert seats(shop, "NB121", "2024-05-19", "basic_economy") == 11
    assert seats(shop, "NB121", "2024-05-19", "economy") == 11


def test_bags_that_are_paid_for_cost_fifty_dollars_each() -> None:
    shop = open_shop("airline")
    arguments = {"reservation_id": "W7HG3Q", "payment_id": "gift_card_5611"}
    said = run(shop, "update_reservation_baggages", **arguments, total_baggages=6, nonfree_baggages=2)
    assert said == "Reservation W7HG3Q has 6 bags; $100.00 charged to gift_card_5611."
    changed = reservation(shop, "W7HG3Q")
    assert (changed["total_baggages"], changed["nonfree_baggages"]) == (6, 2)
    assert method(shop, "gareth_pugh_5610", "gift_card_5611")["amount"] == 100
    free = run(shop, "update_reservation_baggages", **arguments, total_baggages=7, nonfree_baggages=2)
    assert free == "Reservation W7HG3Q has 7 bags; nothing to pay."


def test_passengers_are_replaced() -> None:
    shop = open_shop("airline")
    run(shop, "update_reservation_passengers", reservation_id="M7QF3A", passengers=[NORA])
    assert reservation(shop, "M7QF3A")["passengers"] == [NORA]


def test_each_certificate_is_a_payment_method_of_its_own() -> None:
    shop = open_shop("airline")
    for user_id in ("celia_ramos_2214", "edith_park_7740"):
        run(shop, "send_certificate", user_id=user_id, amount=50)
    assert method(shop, "celia_ramos_2214", "certificate_new_1")["amount"] == 50
    assert method(shop, "edith_park_7740", "certificate_new_2") == {
        "source": "certificate",
        "id": "certificate_new_2",
        "amount": 50,
    }


# Under the gate -------------------------------------------------------------------------------------------------


class Deal(NamedTuple):
    """Reads, and a write that they settle."""

    shop: str
    reads: list[tuple[str, dict[str, Any]]]
    tool: str
    arguments: dict[str, Any]


def bought(email: str, user_id: str, order_id: str, *product_ids: str) -> list[tuple[str, dict[str, Any]]]:
    return [
        ("find_user_id_by_email", {"email": email}),
        ("get_user_details", {"user_id": user_id}),
        ("get_order_details", {"order_id": order_id}),
        *(("get_product_details", {"product_id": product_id}) for product_id in product_ids),
    ]


def travels(user_id: str, reservation_id: str, *flights: str) -> list[tuple[str, dict[str, Any]]]:
    named = [dict(zip(("flight_number", "date"), flight.split(), strict=True)) for flight in flights]
    return [
        ("get_user_details", {"user_id": user_id}),
        ("get_reservation_details", {"reservation_id": reservation_id}),
        *(("get_flight_status", one) for one in named),
    ]


INES_1 = ("ines.marchetti@example.com", "ines_marchetti_4021", "#W4001")
INES_2 = ("ines.marchetti@example.com", "ines_marchetti_4021", "#W4002")
SEA_DEN = {"origin": "SEA", "destination": "DEN", "date": "2024-05-19"}
SEA_JFK = {"origin": "SEA", "destination": "JFK", "date": "2024-05-20"}
WANDAS_NEW = [{"flight_number": "NB173", "date": "2024-05-20"}, {"flight_number": "NB171", "date": "2024-05-24"}]
BAGS = {"total_baggages": 6, "nonfree_baggages": 0, "payment_id": "credit_card_3107"}
DEALS = [
    Deal("retail", bought(*INES_1), "cancel_pending_order", {"order_id": "#W4001", "reason": "no longer needed"}),
    Deal("retail", bought(*INES_1), "modify_pending_order_address", {"order_id": "#W4001", **PORTLAND}),
    Deal(
        "retail",
        bought("hiro.matsuda@example.com", "hiro_matsuda_3928", "#W4025"),
        "modify_pending_order_payment",
        {"order_id": "#W4025", "payment_method_id": "gift_card_3928"},
    ),
    Deal(
        "retail",
        bought(*INES_1, "P101"),
        "modify_pending_order_items",
        {
            "order_id": "#W4001",
            "item_ids": ["10112"],
            "new_item_ids": ["10113"],
            "payment_method_id": "gift_card_4022",
        },
    ),
    Deal("retail", bought(*INES_1), "modify_user_address", {**INES, **PORTLAND}),
    Deal("retail", bought(*INES_2), "return_delivered_order_items", ITEMS),
    Deal("retail", bought(*INES_2, "P102"), "exchange_delivered_order_items", SWAP),
    Deal(
        "airline",
        [*travels("wanda_kessler_3107", "KX4T2B"), ("search_direct_flight", SEA_DEN)],
        "book_reservation",
        BOOKING,
    ),
    Deal(
        "airline",
        travels("celia_ramos_2214", "T3VB6N", "NB152 2024-05-16"),
        "cancel_reservation",
        {"reservation_id": "T3VB6N"},
    ),
    Deal(
        "airline",
        [*travels("wanda_kessler_3107", "KX4T2B"), ("search_direct_flight", SEA_JFK)],
        "update_reservation_flights",
        {**TRIP, "flights": WANDAS_NEW},
    ),
    Deal(
        "airline",
        travels("wanda_kessler_3107", "KX4T2B"),
        "update_reservation_baggages",
        {"reservation_id": "KX4T2B", **BAGS},
    ),
    Deal(
        "airline",
        travels("wanda_kessler_3107", "M7QF3A"),
        "update_reservation_passengers",
        {"reservation_id": "M7QF3A", "passengers": [NORA]},
    ),
    Deal(
        "airline",
        travels("rashid_noor_1836", "C1HX9R", "NB131 2024-05-15"),
        "send_certificate",
        {"user_id": "rashid_noor_1836", "amount": 200},
    ),
]


def test_there_is_a_deal_for_every_write() -> None:
    writes = {(name, tool) for name in SHOPS for tool in Domain.load(name).tools if Domain.load(name).is_write(tool)}
    assert {(deal.shop, deal.tool) for deal in DEALS} == writes


@pytest.mark.parametrize("deal", DEALS, ids=lambda deal: deal.tool)
def test_every_write_can_be_done_within_the_policy(deal: Deal, embedded: Engine) -> None:
    shop = open_shop(deal.shop)
    session = Session(Gate(Domain.load(deal.shop), embedded), now=shop.now)
    for tool, arguments in deal.reads:
        call = session.issue(tool, arguments)
        session.observe(call.call_id, shop.tools[tool].run(tool, arguments))
    [review] = session.review([Call(deal.tool, deal.arguments)])
    assert review.verdict == "allow", review.message
    assert review.ticket is not None
    before = shop.digest()
    session.execute(review.ticket, shop.tools[deal.tool].run)
    assert shop.digest() != before
