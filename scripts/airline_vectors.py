"""Write `schemas/vectors/airline.json`, or with `--check` say whether it is what it should be.

All people, reservations and flights are made up.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vector_file import (
    Case,
    Json,
    after,
    argued,
    asked,
    beside,
    blocked,
    changed,
    forgotten,
    main,
    outdated,
    revised,
    signed_in,
    unknown,
    violated,
)

CUSTOMER = "mira_holt_2041"
OTHER = "jonas_weil_3307"
TRIP = "MH7K2Q"
RETURN_TRIP = "MH8R4T"
OTHER_TRIP = "JW1A9B"
CREDIT_CARD, GIFT_CARD, CERTIFICATE = "credit_card_7002", "gift_card_7001", "certificate_7004"
THERE, ON, DIRECT, BACK, FULL = "NV101", "NV102", "NV201", "NV301", "NV401"
DAY, NEXT_DAY, LATER = "2026-03-20", "2026-03-21", "2026-03-24"
PASSENGERS = [
    {"first_name": "Mira", "last_name": "Holt", "dob": "1984-01-02"},
    {"first_name": "Tom", "last_name": "Holt", "dob": "1986-03-04"},
]

# The fields of the reservation that the gate is given, whether the profile and what searches offered, for each tool.
SLICES: Mapping[str, tuple[tuple[str, ...], tuple[str, ...], bool]] = {
    "book_reservation": ((), ("membership", "payment_methods"), True),
    "cancel_reservation": (("user_id", "cabin", "created_at", "insurance", "flights", "status"), (), False),
    "update_reservation_flights": (
        ("user_id", "origin", "destination", "flight_type", "cabin", "flights", "passengers", "status"),
        ("payment_methods",),
        True,
    ),
    "update_reservation_baggages": (
        ("user_id", "cabin", "flights", "passengers", "total_baggages", "nonfree_baggages", "status"),
        ("membership", "payment_methods"),
        False,
    ),
    "update_reservation_passengers": (("user_id", "passengers", "status"), (), False),
    "send_certificate": (("user_id", "cabin", "insurance", "passengers"), ("membership", "reservations"), False),
}


def leg(number: str, date: str, origin: str, destination: str, price: int) -> Json:
    return {"flight_number": number, "date": date, "origin": origin, "destination": destination, "price": price}


def reservation(flights: list[Json], flight_type: str) -> Json:
    return {
        "user_id": CUSTOMER,
        "origin": "BOS",
        "destination": "DEN",
        "flight_type": flight_type,
        "cabin": "economy",
        "flights": flights,
        "passengers": PASSENGERS,
        "created_at": "2026-02-20T08:30:00",
        "total_baggages": 2,
        "nonfree_baggages": 0,
        "insurance": "no",
        "status": None,
    }


def offer(number: str, origin: str, destination: str, seats: int, fare: int) -> Json:
    return {
        "flight_number": number,
        "origin": origin,
        "destination": destination,
        "available_seats": {"basic_economy": 0, "economy": seats, "business": 2},
        "prices": {"basic_economy": 60, "economy": fare, "business": fare + 100},
    }


def ledger() -> Json:
    out = [leg(THERE, DAY, "BOS", "ORD", 100), leg(ON, DAY, "ORD", "DEN", 80)]
    return {
        "auth": {"user_id": CUSTOMER},
        "users": {
            CUSTOMER: {
                "membership": "silver",
                "payment_methods": {
                    CREDIT_CARD: {"source": "credit_card", "id": CREDIT_CARD, "brand": "visa", "last_four": "4242"},
                    GIFT_CARD: {"source": "gift_card", "id": GIFT_CARD, "amount": 160.0},
                    CERTIFICATE: {"source": "certificate", "id": CERTIFICATE, "amount": 250.0},
                },
                "reservations": [TRIP, RETURN_TRIP],
            }
        },
        "reservations": {
            TRIP: reservation(out, "one_way"),
            RETURN_TRIP: reservation([*out, leg(BACK, LATER, "DEN", "BOS", 120)], "round_trip"),
        },
        "flights": {
            THERE: {DAY: offer(THERE, "BOS", "ORD", 4, 90)},
            ON: {DAY: offer(ON, "ORD", "DEN", 4, 130)},
            DIRECT: {NEXT_DAY: offer(DIRECT, "BOS", "DEN", 2, 150)},
            BACK: {LATER: offer(BACK, "DEN", "BOS", 5, 120)},
            FULL: {NEXT_DAY: offer(FULL, "BOS", "DEN", 1, 90)},
        },
        "searched": {DAY: ["BOS-DEN"], NEXT_DAY: ["BOS-DEN"], LATER: ["DEN-BOS"]},
        "flight_status": {THERE: {DAY: "cancelled"}, ON: {DAY: "on time"}},
        "seen_flights": {TRIP: [f"{THERE} {DAY}", f"{ON} {DAY}"]},
    }


def sliced(tool: str, arguments: Json) -> Json:
    fields, of_profile, searches = SLICES.get(tool, ((), (), False))
    whole = ledger()
    found: Json = {"auth": whole["auth"]}
    named = [arguments.get("reservation_id", TRIP)] if tool != "send_certificate" else [TRIP, RETURN_TRIP]
    if fields:
        found["reservations"] = {one: {name: whole["reservations"][one][name] for name in fields} for one in named}
    if of_profile:
        found["users"] = {CUSTOMER: {name: whole["users"][CUSTOMER][name] for name in of_profile}}
    if searches:
        found["flights"] = {
            one["flight_number"]: whole["flights"][one["flight_number"]] for one in arguments["flights"]
        }
        found["searched"] = {one["date"]: whole["searched"][one["date"]] for one in arguments["flights"]}
    if tool in ("cancel_reservation", "update_reservation_flights", "send_certificate"):
        found["flight_status"] = whole["flight_status"]
    if tool == "send_certificate":
        found["seen_flights"] = {**whole["seen_flights"], RETURN_TRIP: [f"{ON} {DAY}"]}
    return found


def call(tool: str, **arguments: Any) -> Json:
    """A gate input for this call by the customer, with everything read and nothing stale."""
    return asked("airline", {"id": CUSTOMER, "source": "claimed"}, (tool, arguments), sliced(tool, arguments))


def flights(*named: tuple[str, str]) -> list[Json]:
    return [{"flight_number": number, "date": date} for number, date in named]


def paying(**amounts: float) -> list[Json]:
    return [{"payment_id": name, "amount": amount} for name, amount in amounts.items()]


def reserved(base: Json, field: str, value: Any) -> Json:
    """`base` with another value for a field of the trip."""
    return changed(base, "ledger", "reservations", TRIP, field, value=value)


def on(base: Json, day: str) -> Json:
    """`base` at noon of another day."""
    return changed(base, "session", "now", value=f"{day}T12:00:00-05:00")


# Two fares of 150 and two insurances of 30 make 360; a silver member has two free bags each in economy.
BOOK = call(
    "book_reservation",
    user_id=CUSTOMER,
    origin="BOS",
    destination="DEN",
    flight_type="one_way",
    cabin="economy",
    flights=flights((DIRECT, NEXT_DAY)),
    passengers=PASSENGERS,
    payment_methods=paying(credit_card_7002=200, gift_card_7001=160),
    total_baggages=4,
    nonfree_baggages=0,
    insurance="yes",
)
CANCEL = call("cancel_reservation", reservation_id=TRIP)
CHANGE_FLIGHTS = call(
    "update_reservation_flights",
    reservation_id=TRIP,
    cabin="economy",
    flights=flights((DIRECT, NEXT_DAY)),
    payment_id=GIFT_CARD,
)
CHANGE_RETURN = call(
    "update_reservation_flights",
    reservation_id=RETURN_TRIP,
    cabin="economy",
    flights=flights((DIRECT, NEXT_DAY), (BACK, LATER)),
    payment_id=CREDIT_CARD,
)
# 840 for the two instead of 360.
CHANGE_CABIN = call(
    "update_reservation_flights",
    reservation_id=TRIP,
    cabin="business",
    flights=flights((THERE, DAY), (ON, DAY)),
    payment_id=CREDIT_CARD,
)
ADD_BAGS = call(
    "update_reservation_baggages",
    reservation_id=TRIP,
    total_baggages=5,
    nonfree_baggages=1,
    payment_id=GIFT_CARD,
)
CHANGE_PASSENGERS = call("update_reservation_passengers", reservation_id=TRIP, passengers=PASSENGERS)
COMPENSATE = call("send_certificate", user_id=CUSTOMER, amount=200)

STATUS = ("ledger", "flight_status", THERE, DAY)
BALANCE = ("users", CUSTOMER, "payment_methods", GIFT_CARD, "amount")
GROUNDLESS = changed(CANCEL, *STATUS, value="available")
DELAYED = after(
    argued(changed(COMPENSATE, *STATUS, value="delayed"), amount=100),
    "update_reservation_flights",
    CHANGE_FLIGHTS["action"]["arguments"],
)
PARTY = [PASSENGERS[0]] * 6

ALLOWED = [
    Case("book a direct flight", BOOK),
    Case(
        "book for the largest party, all paid by one card",
        argued(
            changed(BOOK, "ledger", "flights", DIRECT, NEXT_DAY, "available_seats", "economy", value=5),
            passengers=PARTY[:5],
            payment_methods=paying(credit_card_7002=950),
            total_baggages=11,
            nonfree_baggages=1,
        ),
    ),
    Case(
        "book with a certificate that just covers it",
        argued(
            BOOK,
            insurance="no",
            payment_methods=[
                *paying(certificate_7004=250, gift_card_7001=50),
            ],
        ),
    ),
    Case("cancel because the airline cancelled a flight", CANCEL),
    Case("cancel business", reserved(GROUNDLESS, "cabin", "business")),
    Case("cancel what is insured", reserved(GROUNDLESS, "insurance", "yes")),
    Case("cancel to the second 24 hours after booking", reserved(GROUNDLESS, "created_at", "2026-03-01T10:00:00")),
    Case(
        "cancel on the day of the flight, which is late",
        on(
            reserved(
                changed(
                    changed(CANCEL, *STATUS, value="delayed"), "ledger", "flight_status", ON, DAY, value="available"
                ),
                "insurance",
                "yes",
            ),
            DAY,
        ),
    ),
    Case("cancel for a customer whom the host signed in", signed_in(forgotten(CANCEL, "auth"), CUSTOMER)),
    Case("change to a cheaper flight, whatever the gift card holds", outdated(CHANGE_FLIGHTS, *BALANCE)),
    Case("change the way out of a round trip", CHANGE_RETURN),
    Case("change the cabin, keeping the flights", CHANGE_CABIN),
    Case("change the cabin of basic economy", reserved(CHANGE_CABIN, "cabin", "basic_economy")),
    Case(
        "change the cabin, paid by a gift card that just covers it",
        changed(argued(CHANGE_CABIN, payment_id=GIFT_CARD), "ledger", *BALANCE, value=480),
    ),
    Case("add a bag beyond the free ones", ADD_BAGS),
    Case("add free bags", argued(ADD_BAGS, total_baggages=4, nonfree_baggages=0)),
    Case("change a passenger", CHANGE_PASSENGERS),
    Case("compensate for a cancelled flight", COMPENSATE),
    Case(
        "compensate an insured regular member",
        reserved(changed(COMPENSATE, "ledger", "users", CUSTOMER, "membership", value="regular"), "insurance", "yes"),
    ),
    Case("compensate for a delay after a change", DELAYED),
    Case(
        "the same change of passengers, with another write in between",
        after(
            after(CHANGE_PASSENGERS, "update_reservation_passengers", CHANGE_PASSENGERS["action"]["arguments"]),
            "update_reservation_baggages",
            ADD_BAGS["action"]["arguments"],
        ),
    ),
]

REJECTED = [
    revised("nobody's profile was read", forgotten(CANCEL, "auth"), *unknown("airline.owner")),
    blocked(
        "the reservation of somebody else",
        reserved(CANCEL, "user_id", OTHER),
        *violated("airline.owner"),
    ),
    blocked("a booking for somebody else", argued(BOOK, user_id=OTHER), *violated("airline.owner")),
    blocked("the host signed somebody else in", signed_in(CANCEL, OTHER), *violated("airline.owner")),
    revised(
        "the reservation was not read",
        forgotten(CANCEL, "reservations"),
        *unknown("airline.cancel_requires_basis", "airline.no_flown_segment", "airline.owner"),
        *unknown("airline.reservation_active"),
    ),
    revised(
        "only the status of the flights could save the cancellation",
        forgotten(CANCEL, "flight_status"),
        *unknown("airline.cancel_requires_basis"),
    ),
    revised(
        "one flight's status was read and does not save the cancellation",
        forgotten(GROUNDLESS, "flight_status", ON),
        *unknown("airline.cancel_requires_basis"),
    ),
    blocked("no ground to cancel", GROUNDLESS, *violated("airline.cancel_requires_basis")),
    blocked(
        "one second more than 24 hours after booking",
        reserved(GROUNDLESS, "created_at", "2026-03-01T09:59:59"),
        *violated("airline.cancel_requires_basis"),
    ),
    blocked(
        "a flight of today has taken off",
        on(reserved(changed(CANCEL, *STATUS, value="flying"), "cabin", "business"), DAY),
        *violated("airline.no_flown_segment"),
    ),
    revised(
        "nobody knows whether today's flight has taken off",
        on(forgotten(reserved(CANCEL, "cabin", "business"), "flight_status"), DAY),
        *unknown("airline.no_flown_segment"),
    ),
    blocked(
        "a flight in the past whose status was not read",
        on(forgotten(reserved(CANCEL, "cabin", "business"), "flight_status"), NEXT_DAY),
        *violated("airline.no_flown_segment"),
    ),
    blocked(
        "the cabin changes after a flight",
        changed(CHANGE_CABIN, *STATUS, value="landed"),
        *violated("airline.no_flown_segment"),
    ),
    blocked(
        "other flights in basic economy",
        reserved(CHANGE_FLIGHTS, "cabin", "basic_economy"),
        *violated("airline.basic_economy_flights_fixed"),
    ),
    revised(
        "the cabin is stale after a change",
        after(
            outdated(CHANGE_FLIGHTS, "reservations", TRIP, "cabin"),
            "update_reservation_flights",
            CHANGE_CABIN["action"]["arguments"],
        ),
        *unknown("airline.basic_economy_flights_fixed"),
    ),
    revised(
        "another destination",
        argued(CHANGE_CABIN, cabin="economy", flights=flights((THERE, DAY))),
        *violated("airline.itinerary_shape_fixed"),
    ),
    revised(
        "the way back of a round trip is left out",
        argued(CHANGE_RETURN, flights=flights((DIRECT, NEXT_DAY))),
        *violated("airline.itinerary_shape_fixed"),
    ),
    revised(
        "a flight that was not searched for",
        forgotten(forgotten(BOOK, "flights", DIRECT), "searched", NEXT_DAY),
        *unknown("airline.flight_from_observed_search"),
    ),
    revised(
        "a flight that no search of its date offered",
        forgotten(BOOK, "flights", DIRECT),
        *violated("airline.flight_from_observed_search"),
    ),
    revised(
        "new flights that were not searched for",
        forgotten(forgotten(CHANGE_FLIGHTS, "flights", DIRECT), "searched", NEXT_DAY),
        *unknown("airline.flight_from_observed_search", "airline.itinerary_shape_fixed"),
    ),
    revised(
        "a payment method that is not on the profile",
        argued(ADD_BAGS, payment_id="credit_card_9999"),
        *violated("airline.payment_valid"),
    ),
    revised(
        "a change that is paid with a certificate",
        argued(ADD_BAGS, payment_id=CERTIFICATE),
        *violated("airline.payment_valid"),
    ),
    revised(
        "the same credit card twice",
        argued(BOOK, payment_methods=[*paying(credit_card_7002=180), *paying(credit_card_7002=180)]),
        *violated("airline.payment_valid"),
    ),
    revised(
        "a method that may have been sent since the profile was read",
        changed(
            argued(BOOK, payment_methods=paying(certificate_9999=360)),
            "stale",
            value=[["users", CUSTOMER, "payment_methods", "?"]],
        ),
        *unknown("airline.balance_covers", "airline.payment_valid"),
    ),
    revised(
        "a party of six",
        argued(
            changed(BOOK, "ledger", "flights", DIRECT, NEXT_DAY, "available_seats", "economy", value=6),
            passengers=PARTY,
            payment_methods=paying(credit_card_7002=1080),
        ),
        *violated("airline.passenger_count"),
    ),
    blocked(
        "another number of passengers",
        argued(CHANGE_PASSENGERS, passengers=PASSENGERS[:1]),
        *violated("airline.passenger_count"),
    ),
    revised(
        "the passengers are stale",
        outdated(CHANGE_PASSENGERS, "reservations", TRIP, "passengers"),
        *unknown("airline.passenger_count"),
    ),
    blocked(
        "fewer bags",
        argued(ADD_BAGS, total_baggages=1, nonfree_baggages=0),
        *violated("airline.baggage_rules"),
    ),
    revised("a bag too few is paid for", argued(ADD_BAGS, nonfree_baggages=0), *violated("airline.baggage_rules")),
    revised(
        "the membership was not read",
        forgotten(BOOK, "users", CUSTOMER, "membership"),
        *unknown("airline.baggage_rules"),
    ),
    revised(
        "one seat too few",
        changed(CHANGE_FLIGHTS, "ledger", "flights", DIRECT, NEXT_DAY, "available_seats", "economy", value=1),
        *violated("airline.seats_available"),
    ),
    revised(
        "no seat for everybody in the other cabin",
        changed(CHANGE_CABIN, "ledger", "flights", THERE, DAY, "available_seats", "business", value=1),
        *violated("airline.seats_available"),
    ),
    revised(
        "the passengers are stale, so are the seats they need",
        outdated(CHANGE_FLIGHTS, "reservations", TRIP, "passengers"),
        *unknown("airline.seats_available"),
    ),
    revised(
        "the payments are one cent short of the price",
        argued(BOOK, payment_methods=paying(credit_card_7002=199.99, gift_card_7001=160)),
        *violated("airline.amounts_add_up"),
    ),
    revised(
        "the price is stale",
        outdated(BOOK, "flights", DIRECT, NEXT_DAY, "prices", "economy"),
        *unknown("airline.amounts_add_up"),
    ),
    revised(
        "the gift card is one cent short",
        changed(argued(CHANGE_CABIN, payment_id=GIFT_CARD), "ledger", *BALANCE, value=479.99),
        *violated("airline.balance_covers"),
    ),
    revised(
        "the balance of the gift card is stale",
        outdated(ADD_BAGS, *BALANCE),
        *unknown("airline.balance_covers"),
    ),
    blocked(
        "a cancelled reservation",
        reserved(ADD_BAGS, "status", "cancelled"),
        *violated("airline.reservation_active"),
    ),
    blocked(
        "a reservation that may have been cancelled in this conversation",
        after(
            outdated(ADD_BAGS, "reservations", TRIP, "status"),
            "cancel_reservation",
            {"reservation_id": TRIP},
            "uncertain",
        ),
        *violated("airline.reservation_active"),
    ),
    blocked(
        "a reservation that is cancelled in the same message",
        beside(CHANGE_PASSENGERS, "cancel_reservation", {"reservation_id": TRIP}),
        *violated("airline.reservation_active"),
    ),
    blocked(
        "a plain regular member is not compensated",
        changed(COMPENSATE, "ledger", "users", CUSTOMER, "membership", value="regular"),
        *violated("airline.certificate_basis"),
    ),
    revised("another amount", argued(COMPENSATE, amount=150), *violated("airline.certificate_basis")),
    revised(
        "a delay, before anything was changed",
        changed(DELAYED, "history", value=[]),
        *violated("airline.certificate_basis"),
    ),
    blocked(
        "nothing happened to the flights",
        changed(COMPENSATE, *STATUS, value="landed"),
        *violated("airline.certificate_basis"),
    ),
    blocked(
        "a second certificate for one reservation",
        after(
            after(COMPENSATE, "send_certificate", COMPENSATE["action"]["arguments"]),
            "update_reservation_baggages",
            ADD_BAGS["action"]["arguments"],
        ),
        *violated("airline.certificate_basis"),
    ),
    revised(
        "the status of the flights was not read",
        forgotten(COMPENSATE, "flight_status"),
        *unknown("airline.certificate_basis"),
    ),
    revised(
        "a reservation of the customer was not read",
        forgotten(changed(COMPENSATE, *STATUS, value="landed"), "reservations", RETURN_TRIP),
        *unknown("airline.certificate_basis"),
    ),
    revised(
        "the same write again",
        after(CHANGE_PASSENGERS, "update_reservation_passengers", CHANGE_PASSENGERS["action"]["arguments"]),
        *violated("common.no_repeat_write"),
    ),
    blocked("a request of another domain", changed(CANCEL, "domain", value="retail"), *violated("gate.input")),
    blocked("a tool that is not declared", call("delete_customer", user_id=CUSTOMER), *violated("gate.tool")),
    revised("an undeclared argument", argued(CANCEL, force=True), *violated("gate.arguments")),
    revised(
        "a flight that carries its route",
        argued(CHANGE_FLIGHTS, flights=[{**flights((DIRECT, NEXT_DAY))[0], "origin": "BOS"}]),
        *violated("gate.arguments"),
    ),
    blocked(
        "the same rejected call for the fourth time",
        changed(argued(COMPENSATE, amount=150), "session", "rejections", value=3),
        *violated("gate.loop", "airline.certificate_basis"),
    ),
]

if __name__ == "__main__":
    main("airline", [*ALLOWED, *REJECTED], __doc__)
