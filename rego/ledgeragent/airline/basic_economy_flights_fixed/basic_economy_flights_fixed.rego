# METADATA
# title: The flights of a basic economy reservation stay as they are
# description: |
#   Either the reservation's cabin is one whose flights may be changed (policy data `settings.changeable_cabins`), or
#   the call names exactly the flights and dates that the reservation has. The cabin may change.
# custom:
#   id: airline.basic_economy_flights_fixed
#   remedy: Tell the customer that basic economy flights cannot be changed; the cabin can, with the same flights.
#   severity: critical
#   policy: Modify flight (change flights)
#   evidence:
#     - "reservations.{arguments.reservation_id}.cabin?"
#     - "reservations.{arguments.reservation_id}.flights?"
# schemas:
#   - input: schema["gate_input.schema"]
#   - input.ledger: schema.airline["ledger.schema"]
package ledgeragent.airline.basic_economy_flights_fixed

import data.ledgeragent.airline.facts
import data.ledgeragent.gate.text

guards := {"update_reservation_flights"}

evidence contains facts.reservation_path("cabin") if not facts.same_flights

evidence contains facts.reservation_path("flights") if not _is_changeable

holds if facts.same_flights

holds if _is_changeable

_is_changeable if {
	is_array(data.ledgeragent.airline.settings.changeable_cabins)
	facts.reservation.cabin in data.ledgeragent.airline.settings.changeable_cabins
}

verdict := "block"

message := text.join([
	"The cabin of reservation ",
	text.show(facts.reservation_id),
	" is ",
	text.show(facts.reservation.cabin),
	", so its flights cannot be changed: ",
	text.list(facts.booked_names),
	". Only the cabin can be changed, with exactly these flights.",
])
