# METADATA
# title: There are enough seats in the cabin
# description: |
#   Every flight of the call that an observed search offered has at least as many free seats in the cabin as there are
#   passengers. A flight that stays in the reservation, in the same cabin, needs none. A flight that no search offered
#   is left to airline.flight_from_observed_search.
# custom:
#   id: airline.seats_available
#   remedy: Choose another flight, or another cabin, with enough free seats.
#   severity: medium
#   policy: Domain basic (flight); Book flight
#   evidence:
#     - "flights.{number}.{date}?"
#     - "reservations.{arguments.reservation_id}.passengers?"
#     - "reservations.{arguments.reservation_id}.flights?"
#     - "reservations.{arguments.reservation_id}.cabin?"
# schemas:
#   - input: schema["gate_input.schema"]
#   - input.ledger: schema.airline["ledger.schema"]
package ledgeragent.airline.seats_available

import data.ledgeragent.airline.facts
import data.ledgeragent.gate.text

guards := {"book_reservation", "update_reservation_flights"}

evidence contains facts.offer_field_path(flight, "available_seats") if some flight in _claimed

evidence contains facts.reservation_path("passengers") if {
	not facts.is_booking
	count(_claimed) > 0
}

# Whether a flight stays decides only where there are too few seats.
evidence contains facts.reservation_path("flights") if {
	not facts.is_booking
	count(_scarce) > 0
}

evidence contains facts.reservation_path("cabin") if {
	some flight in _scarce
	facts.is_booked(flight)
}

holds if {
	is_array(facts.chosen)
	count(_unseated) == 0
}

# The flights on which the call takes seats that a search has shown.
_claimed contains flight if {
	some flight in facts.chosen
	facts.is_offered(flight)
	not facts.is_kept(flight)
}

_scarce contains flight if {
	some flight in facts.chosen
	facts.is_offered(flight)
	not _has_seats(flight)
}

_unseated := _claimed & _scarce

_has_seats(flight) if {
	is_number(_seats(flight))
	_seats(flight) >= facts.passenger_count
}

_seats(flight) := facts.offer(flight).available_seats[input.action.arguments.cabin]

verdict := "revise"

message := text.join([
	"There are not enough free seats in ",
	text.show(input.action.arguments.cabin),
	" for ",
	text.number(facts.passenger_count),
	" passengers on ",
	text.list({_described(flight) | some flight in _unseated}),
	". Choose another flight or cabin.",
])

_described(flight) := text.join([facts.name(flight), " (free: ", text.number(_seats(flight)), ")"]) if {
	is_number(_seats(flight))
} else := text.join([facts.name(flight), " (none offered)"])
