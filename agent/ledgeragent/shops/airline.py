"""The airline's back end: its tools over users, reservations and flights. What it is for is said in `shops`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ledgeragent.shops.backend import Data, Function, calculate, cents, hand_over, known, payment_method

_ADDRESS: Final = ("address1", "address2", "city", "state", "zip")
_TODAY: Final = "2024-05-15"
_NOW: Final = "15:00:00"
_BAG_FEE: Final = 50
_INSURANCE_FEE: Final = 30
_CONNECTING: Final = 45  # minutes


# The database ---------------------------------------------------------------------------------------------------


def stocked(seed: Mapping[str, Any]) -> Data:
    """The database made of what `airline.json` says in short: each flight flies daily, exceptions apart."""
    data: Data = {"airports": seed["airports"], "flights": {}, "users": {}, "reservations": {}}
    for key, one in seed["flights"].items():
        data["flights"][key] = _flight(key, one, seed)
    for key, one in seed["users"].items():
        booked = [number for number, reservation in seed["reservations"].items() if reservation["user"] == key]
        data["users"][key] = _user(key, one, booked)
    for key, one in seed["reservations"].items():
        data["reservations"][key] = _reservation(data, key, one)
    return data


def _flight(number: str, seed: Mapping[str, Any], about: Mapping[str, Any]) -> dict[str, Any]:
    days = {}
    for day in about["days"]:
        of_day = {"seats": seed["seats"], "prices": seed["prices"], "status": _status(day, *seed["times"])}
        of_day.update(about["exceptions"].get(f"{number} {day}", {}))
        days[day] = {
            "status": of_day["status"],
            "available_seats": dict(zip(about["cabins"], of_day["seats"], strict=True)),
            "prices": dict(zip(about["cabins"], of_day["prices"], strict=True)),
        }
    origin, destination = seed["route"].split("-")
    return {
        "flight_number": number,
        "origin": origin,
        "destination": destination,
        "scheduled_departure_time_est": seed["times"][0],
        "scheduled_arrival_time_est": seed["times"][1],
        "days": days,
    }


def _status(day: str, departure: str, arrival: str) -> str:
    if day != _TODAY:
        return "landed" if day < _TODAY else "available"
    if departure > _NOW:
        return "on time"
    return "landed" if arrival <= _NOW else "flying"


def _user(user_id: str, seed: Mapping[str, Any], reservations: list[str]) -> dict[str, Any]:
    first_name, last_name = seed["name"].split()
    return {
        "user_id": user_id,
        "name": {"first_name": first_name, "last_name": last_name},
        "address": {**dict(zip(_ADDRESS, seed["address"], strict=True)), "country": "USA"},
        "email": seed["email"],
        "dob": seed["dob"],
        "payment_methods": {
            key: {"source": key.rpartition("_")[0], "id": key, **one} for key, one in seed["pays_with"].items()
        },
        "saved_passengers": [_person(text) for text in seed["travels_with"]],
        "membership": seed["membership"],
        "reservations": reservations,
    }


def _person(text: str) -> dict[str, str]:
    return dict(zip(("first_name", "last_name", "dob"), text.split(), strict=True))


def _reservation(data: Data, reservation_id: str, seed: Mapping[str, Any]) -> dict[str, Any]:
    named = [dict(zip(("flight_number", "date"), text.split(), strict=True)) for text in seed["flights"]]
    origin, destination = seed["route"].split("-")
    reservation = {
        "reservation_id": reservation_id,
        "user_id": seed["user"],
        "origin": origin,
        "destination": destination,
        "flights": [_leg(data, one, seed["cabin"]) for one in named],
        "cabin": seed["cabin"],
        "passengers": [_person(text) for text in seed["passengers"]],
        "payment_history": [],
        "created_at": seed["created"],
        "total_baggages": seed["bags"][0],
        "nonfree_baggages": seed["bags"][1],
        "insurance": seed["insurance"],
        "status": None,
    }
    returns = reservation["flights"][-1]["destination"] == origin
    reservation["flight_type"] = "round_trip" if returns else "one_way"
    reservation["payment_history"] = [{"payment_id": seed["paid_with"], "amount": _price(reservation)}]
    return reservation


def _leg(data: Data, named: Mapping[str, str], cabin: str) -> dict[str, Any]:
    """A flight of a day as it stands in a reservation, at its price now."""
    flight, day = _flown(data, named)
    return {
        "flight_number": named["flight_number"],
        "date": named["date"],
        "origin": flight["origin"],
        "destination": flight["destination"],
        "price": day["prices"][cabin],
    }


def _flown(data: Data, named: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """(flight, its day)."""
    flight = known(data["flights"], named["flight_number"], "flight")
    return flight, known(flight["days"], named["date"], f"a day of flight {named['flight_number']},")


def _price(reservation: Mapping[str, Any]) -> float:
    each = sum(flight["price"] for flight in reservation["flights"])
    each += _INSURANCE_FEE if reservation["insurance"] == "yes" else 0
    return cents(each * len(reservation["passengers"]) + _BAG_FEE * reservation["nonfree_baggages"])


# Reads ----------------------------------------------------------------------------------------------------------


def _user_details(data: Data, user_id: str) -> Any:
    return known(data["users"], user_id, "user")


def _reservation_details(data: Data, reservation_id: str) -> Any:
    return known(data["reservations"], reservation_id, "reservation")


def _search_direct(data: Data, origin: str, destination: str, date: str) -> list[dict[str, Any]]:
    return [one for one in _offers(data, date) if (one["origin"], one["destination"]) == (origin, destination)]


def _search_onestop(data: Data, origin: str, destination: str, date: str) -> list[list[dict[str, Any]]]:
    offers = list(_offers(data, date))
    return [
        [first, second]
        for first in offers
        for second in offers
        if (first["origin"], second["destination"]) == (origin, destination) and _connects(first, second)
    ]


def _offers(data: Data, date: str) -> Iterator[dict[str, Any]]:
    for flight in data["flights"].values():
        day = flight["days"].get(date)
        if day is not None and day["status"] == "available":
            yield {**{key: one for key, one in flight.items() if key != "days"}, "date": date, **day}


def _connects(first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    arrival, departure = first["scheduled_arrival_time_est"], second["scheduled_departure_time_est"]
    return bool(first["destination"] == second["origin"] and _minutes(departure) - _minutes(arrival) >= _CONNECTING)


def _minutes(time: str) -> int:
    hours, minutes, _ = time.split(":")
    return 60 * int(hours) + int(minutes)


def _flight_status(data: Data, flight_number: str, date: str) -> str:
    return str(_flown(data, {"flight_number": flight_number, "date": date})[1]["status"])


def _airports(data: Data) -> Any:
    return data["airports"]


def _think(_: Data, thought: str) -> str:  # noqa: ARG001 - the tool's argument; it is kept nowhere
    return "Noted."


# Writes ---------------------------------------------------------------------------------------------------------


def _book(
    data: Data,
    *,
    user_id: str,
    flights: list[dict[str, str]],
    payment_methods: list[dict[str, Any]],
    **about: Any,
) -> str:
    user = known(data["users"], user_id, "user")
    for airport in (about["origin"], about["destination"]):
        known(data["airports"], airport, "airport")
    for payment in payment_methods:
        payment_method(data, payment["payment_id"])
    legs = [_leg(data, one, about["cabin"]) for one in flights]
    reservation_id = f"NEW{len(data['reservations']):03d}"
    reservation = {
        "reservation_id": reservation_id,
        "user_id": user_id,
        "flights": legs,
        "payment_history": [],
        "created_at": f"{_TODAY}T{_NOW}",
        "status": None,
        **about,
    }
    for payment in payment_methods:
        _pay(data, reservation, payment["amount"], payment["payment_id"])
    _seat(data, reservation, -1)
    data["reservations"][reservation_id] = reservation
    user["reservations"].append(reservation_id)
    return f"Booked: reservation {reservation_id}."


def _cancel(data: Data, reservation_id: str) -> str:
    reservation = known(data["reservations"], reservation_id, "reservation")
    paid: dict[str, float] = {}
    for entry in reservation["payment_history"]:
        paid[entry["payment_id"]] = paid.get(entry["payment_id"], 0) + entry["amount"]
    for method_id, amount in paid.items():
        _pay(data, reservation, -cents(amount), method_id)
    _seat(data, reservation, +1)
    reservation["status"] = "cancelled"
    return f"Reservation {reservation_id} is cancelled and refunded to {', '.join(paid)}."


def _change_flights(data: Data, reservation_id: str, cabin: str, flights: list[dict[str, str]], payment_id: str) -> str:
    reservation = known(data["reservations"], reservation_id, "reservation")
    payment_method(data, payment_id)
    kept = {(one["flight_number"], one["date"]): one for one in reservation["flights"] if reservation["cabin"] == cabin}
    legs = [kept.get((one["flight_number"], one["date"])) or _leg(data, one, cabin) for one in flights]
    before = _price(reservation)
    _seat(data, reservation, +1)
    reservation.update(cabin=cabin, flights=legs)
    _seat(data, reservation, -1)
    difference = cents(_price(reservation) - before)
    _pay(data, reservation, difference, payment_id)
    return f"Reservation {reservation_id} is changed; {_settled(difference, payment_id)}."


def _change_bags(data: Data, reservation_id: str, total_baggages: int, nonfree_baggages: int, payment_id: str) -> str:
    reservation = known(data["reservations"], reservation_id, "reservation")
    payment_method(data, payment_id)
    fee = _BAG_FEE * max(0, nonfree_baggages - reservation["nonfree_baggages"])
    reservation.update(total_baggages=total_baggages, nonfree_baggages=nonfree_baggages)
    _pay(data, reservation, fee, payment_id)
    return f"Reservation {reservation_id} has {total_baggages} bags; {_settled(fee, payment_id)}."


def _change_passengers(data: Data, reservation_id: str, passengers: list[dict[str, str]]) -> str:
    known(data["reservations"], reservation_id, "reservation")["passengers"] = passengers
    return f"The passengers of reservation {reservation_id} are changed."


def _send_certificate(data: Data, user_id: str, amount: float) -> str:
    methods = known(data["users"], user_id, "user")["payment_methods"]
    issued = sum(
        key.startswith("certificate_new_") for user in data["users"].values() for key in user["payment_methods"]
    )
    certificate = f"certificate_new_{issued + 1}"
    methods[certificate] = {"source": "certificate", "id": certificate, "amount": amount}
    return f"Certificate {certificate} over ${amount:.2f} is on the profile of {user_id}."


# Money and seats ------------------------------------------------------------------------------------------------


def _pay(data: Data, reservation: dict[str, Any], amount: float, method_id: str) -> None:
    """Charge a reservation to a method, or with a negative amount refund it."""
    if not amount:
        return
    reservation["payment_history"].append({"payment_id": method_id, "amount": amount})
    method = payment_method(data, method_id)
    if "amount" in method:
        method["amount"] = cents(method["amount"] - amount)


def _seat(data: Data, reservation: Mapping[str, Any], sign: int) -> None:
    """Give the seats of a reservation back (+1), or take them (-1); a cancelled one has none."""
    if reservation["status"] == "cancelled":
        return
    legs: Sequence[Mapping[str, str]] = reservation["flights"]
    for leg in legs:
        seats = _flown(data, leg)[1]["available_seats"]
        seats[reservation["cabin"]] += sign * len(reservation["passengers"])


def _settled(difference: float, method_id: str) -> str:
    if not difference:
        return "nothing to pay"
    return f"${abs(difference):.2f} {'charged' if difference > 0 else 'refunded'} to {method_id}"


FUNCTIONS: Final[Mapping[str, Function]] = {
    "get_user_details": _user_details,
    "get_reservation_details": _reservation_details,
    "search_direct_flight": _search_direct,
    "search_onestop_flight": _search_onestop,
    "get_flight_status": _flight_status,
    "list_all_airports": _airports,
    "book_reservation": _book,
    "cancel_reservation": _cancel,
    "update_reservation_flights": _change_flights,
    "update_reservation_baggages": _change_bags,
    "update_reservation_passengers": _change_passengers,
    "send_certificate": _send_certificate,
    "calculate": calculate,
    "think": _think,
    "transfer_to_human_agents": hand_over,
}
