# METADATA
# title: A changed reservation stays the same trip
# description: |
#   The flights of the call, in order and taken together, still lead from the reservation's origin to its destination,
#   and for a round trip back to the origin; so all of them are listed, the ones that stay included. Where a flight
#   leads is known from the reservation or from an observed search. Flights that a search of their date did not offer
#   are left to airline.flight_from_observed_search. Two airports of one city are two airports.
# custom:
#   id: airline.itinerary_shape_fixed
#   remedy: List every flight of the whole trip in order, with the origin, destination and trip type unchanged.
#   severity: high
#   policy: Modify flight (change flights)
#   evidence:
#     - "reservations.{arguments.reservation_id}.flights"
#     - "reservations.{arguments.reservation_id}.origin?"
#     - "reservations.{arguments.reservation_id}.destination?"
#     - "reservations.{arguments.reservation_id}.flight_type?"
#     - "flights.{number}.{date}?"
#     - "searched.{date}?"
# schemas:
#   - input: schema["gate_input.schema"]
#   - input.ledger: schema.airline["ledger.schema"]
package ledgeragent.airline.itinerary_shape_fixed

import data.ledgeragent.airline.facts
import data.ledgeragent.gate.text

guards := {"update_reservation_flights"}

evidence contains facts.reservation_path("destination") if not facts.same_flights

evidence contains facts.reservation_path("flight_type") if not facts.same_flights

evidence contains facts.reservation_path("origin") if not facts.same_flights

evidence contains facts.reservation_path("flights") if facts.same_flights

evidence contains facts.reservation_path("flights") if {
	some flight in facts.chosen
	not facts.is_offered(flight)
}

evidence contains facts.offer_path(flight) if {
	not facts.same_flights
	some flight in facts.chosen
	facts.is_offered(flight)
	not _flies_reserved_route(flight)
}

# A leg that is wrong decides: then no search for another one is asked for.
evidence contains facts.searched_path(_flight(index)) if {
	count(_breaks) == 0
	some index in _unknown_legs
}

evidence contains facts.offer_path(_flight(index)) if {
	count(_breaks) == 0
	some index in _unknown_legs
	facts.cause(facts.offer_path(_flight(index))) == "stale"
}

holds if facts.same_flights

holds if {
	some index in _unknown_legs
	_is_left_to_the_search(_flight(index))
}

holds if {
	count(_unknown_legs) == 0
	_leg(0).origin == facts.reservation.origin
	every index, _ in facts.chosen { _connects(index) }
	_leg(_last).destination == _end
	_reaches_destination
}

_flight(index) := facts.chosen[index]

_last := count(facts.chosen) - 1

_connects(0)

_connects(index) if _leg(index - 1).destination == _leg(index).origin

# A flight number flies one route, whatever the date.
_flies_reserved_route(flight) if {
	some leg in facts.booked
	leg.flight_number == flight.flight_number
}

_leg(index) := facts.offer(_flight(index)) if {
	facts.is_offered(_flight(index))
} else := [leg |
	some leg in facts.booked
	leg.flight_number == _flight(index).flight_number
][0]

_unknown_legs contains index if {
	some index, _ in facts.chosen
	not _is_known(index)
}

_is_known(index) if {
	is_string(_leg(index).origin)
	is_string(_leg(index).destination)
}

_is_left_to_the_search(flight) if {
	is_array(facts.booked)
	facts.is_searched(flight)
	facts.cause(facts.offer_path(flight)) == "missing"
}

_end := facts.reservation.destination if facts.reservation.flight_type == "one_way"

_end := facts.reservation.origin if facts.reservation.flight_type == "round_trip"

_reaches_destination if {
	some index, _ in facts.chosen
	_leg(index).destination == facts.reservation.destination
}

# What is certainly wrong, whatever the legs are that nothing is known of yet.
_breaks contains text.join(["it begins in ", _leg(0).origin]) if {
	_is_known(0)
	_leg(0).origin != facts.reservation.origin
}

_breaks contains text.join([
	facts.name(_flight(index)),
	" begins in ",
	_leg(index).origin,
	", the flight before ends in ",
	_leg(index - 1).destination,
]) if {
	some index, _ in facts.chosen
	index > 0
	_is_known(index)
	_is_known(index - 1)
	_leg(index).origin != _leg(index - 1).destination
}

_breaks contains text.join(["it ends in ", _leg(_last).destination]) if {
	_is_known(_last)
	_leg(_last).destination != _end
}

_breaks contains text.join(["it never reaches ", text.show(facts.reservation.destination)]) if {
	count(_unknown_legs) == 0
	facts.reservation.flight_type == "round_trip"
	not _reaches_destination
}

verdict := "revise"

message := text.join([
	"Reservation ",
	text.show(facts.reservation_id),
	" is a ",
	_type,
	" from ",
	text.show(facts.reservation.origin),
	" to ",
	text.show(facts.reservation.destination),
	" and must stay that. The flights of the call are another trip: ",
	text.list(_breaks),
	". List all flights of the trip in order, those that stay included.",
])

_type := {"one_way": "one-way trip", "round_trip": "round trip"}[facts.reservation.flight_type]
