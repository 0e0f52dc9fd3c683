# METADATA
# title: Only flights that a search offered are booked
# description: |
#   Every flight and date of the call was in an observed search result, or is already in the reservation. Without a
#   search of that date this is unknown; with one that does not offer the flight it is violated.
# custom:
#   id: airline.flight_from_observed_search
#   remedy: Search the route on that date and choose among the flights that the search offers.
#   severity: high
#   policy: Book flight; Change flights
#   evidence:
#     - "flights.{number}.{date}?"
#     - "searched.{date}?"
#     - "reservations.{arguments.reservation_id}.flights?"
# schemas:
#   - input: schema["gate_input.schema"]
#   - input.ledger: schema.airline["ledger.schema"]
package ledgeragent.airline.flight_from_observed_search

import data.ledgeragent.airline.facts
import data.ledgeragent.gate.text

guards := {"book_reservation", "update_reservation_flights"}

evidence contains facts.reservation_path("flights") if {
	not facts.is_booking
	some flight in facts.chosen
	not facts.is_offered(flight)
}

evidence contains facts.offer_path(flight) if {
	some flight in facts.chosen
	facts.is_offered(flight)
	not facts.is_booked(flight)
}

# One flight that is wrong decides: then no search for another one is asked for.
evidence contains facts.searched_path(flight) if {
	count(_wrong) == 0
	some flight in _ungrounded
}

evidence contains facts.searched_path(flight) if some flight in _wrong

evidence contains facts.offer_path(flight) if {
	count(_wrong) == 0
	some flight in _ungrounded
	facts.cause(facts.offer_path(flight)) == "stale"
}

holds if {
	is_array(facts.chosen)
	count(_ungrounded) == 0
}

_ungrounded contains flight if {
	some flight in facts.chosen
	not _is_grounded(flight)
}

_is_grounded(flight) if is_object(facts.offer(flight))

_is_grounded(flight) if facts.is_booked(flight)

_wrong contains flight if {
	some flight in _ungrounded
	facts.is_searched(flight)
	not _is_stale(flight)
}

_is_stale(flight) if facts.cause(facts.offer_path(flight)) == "stale"

verdict := "revise"

message := text.join([
	"No search in this conversation offered ",
	text.list({facts.name(flight) | some flight in _wrong}),
	", although that date was searched. Search the route on that date, and use a flight number and date that the search",
	" offers",
	_or_keep,
	".",
])

_or_keep := "" if {
	facts.is_booking
} else := text.join([", or keep flights of the reservation: ", text.list(facts.booked_names)])
