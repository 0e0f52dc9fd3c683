# METADATA
# title: Nothing is cancelled, and no cabin changed, once a flight was flown
# description: |
#   No flight of the reservation has been flown. One has been flown when its status was read as landed or flying, or
#   when it is dated before today and its status was not read as cancelled. A flight of today needs its status. A change
#   of flights that leaves the cabin as it is does not ask for this.
# custom:
#   id: airline.no_flown_segment
#   remedy: Decline, or hand over - what was flown cannot be undone.
#   severity: critical
#   policy: Cancel flight; Change cabin
#   evidence:
#     - "reservations.{arguments.reservation_id}.flights"
#     - "reservations.{arguments.reservation_id}.cabin?"
#     - "flight_status.{number}.{date}?"
# schemas:
#   - input: schema["gate_input.schema"]
#   - input.ledger: schema.airline["ledger.schema"]
package ledgeragent.airline.no_flown_segment

import data.ledgeragent.airline.facts
import data.ledgeragent.gate.text

guards := {"cancel_reservation", "update_reservation_flights"}

evidence contains facts.reservation_path("flights") if not _cabin_stays

evidence contains facts.reservation_path("cabin") if {
	_changes_flights
	not _nothing_was_flown
}

evidence contains facts.status_path(flight) if {
	not _cabin_stays
	count(_flown) == 0
	some flight in facts.booked
	flight.date == facts.today
}

# Before today only a status that went stale can still save the flight: one that was never read counts as flown.
evidence contains facts.status_path(flight) if {
	not _cabin_stays
	count(_flown) == 0
	some flight in facts.booked
	flight.date < facts.today
	not _is_unread(flight)
}

evidence contains facts.status_path(flight) if {
	not _cabin_stays
	some flight in _flown
	not _is_unread(flight)
}

holds if _cabin_stays

holds if _nothing_was_flown

_nothing_was_flown if {
	is_array(facts.booked)
	every flight in facts.booked { _not_flown(flight) }
}

_changes_flights if input.action.tool == "update_reservation_flights"

_cabin_stays if {
	_changes_flights
	facts.reservation.cabin == input.action.arguments.cabin
}

_not_flown(flight) if {
	flight.date > facts.today
	not _took_off(flight)
}

_not_flown(flight) if {
	flight.date == facts.today
	facts.status(flight) in {"available", "on time", "delayed", "cancelled"}
}

_not_flown(flight) if {
	flight.date < facts.today
	facts.status(flight) == "cancelled"
}

_took_off(flight) if facts.status(flight) in {"flying", "landed"}

_flown contains flight if {
	some flight in facts.booked
	_took_off(flight)
}

_flown contains flight if {
	some flight in facts.booked
	flight.date < facts.today
	not _not_flown(flight)
	not _is_stale(flight)
}

_is_unread(flight) if facts.cause(facts.status_path(flight)) == "missing"

_is_stale(flight) if facts.cause(facts.status_path(flight)) == "stale"

verdict := "block"

message := text.join([
	"Flights of reservation ",
	text.show(facts.reservation_id),
	" have already been flown: ",
	text.list({_described(flight) | some flight in _flown}),
	". Today is ",
	facts.today,
	". The reservation can no longer be cancelled, nor its cabin changed.",
])

_described(flight) := text.join([facts.name(flight), " (", text.show(facts.status(flight)), ")"]) if {
	facts.status(flight)
} else := text.join([facts.name(flight), " (in the past)"])
