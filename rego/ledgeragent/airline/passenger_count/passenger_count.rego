# METADATA
# title: The number of passengers is allowed and stays the same
# description: |
#   A booking is for at least one and at most five passengers (policy data `settings.max_passengers`); a change of
#   passengers names as many as the reservation has.
# custom:
#   id: airline.passenger_count
#   remedy: For a booking, split the party. The number of passengers of a reservation cannot be changed by anybody.
#   severity: high
#   policy: Book flight (passengers); Change passengers
#   evidence: ["reservations.{arguments.reservation_id}.passengers"]
# schemas:
#   - input: schema["gate_input.schema"]
#   - input.ledger: schema.airline["ledger.schema"]
package ledgeragent.airline.passenger_count

import data.ledgeragent.airline.facts
import data.ledgeragent.gate.text

guards := {"book_reservation", "update_reservation_passengers"}

evidence contains facts.reservation_path("passengers") if not facts.is_booking

holds if {
	facts.is_booking
	_named >= 1
	_named <= _most
}

holds if {
	not facts.is_booking
	_named == facts.passenger_count
}

_named := count(input.action.arguments.passengers) if is_array(input.action.arguments.passengers)

_most := data.ledgeragent.airline.settings.max_passengers if {
	is_number(data.ledgeragent.airline.settings.max_passengers)
}

verdict := "revise" if {
	facts.is_booking
} else := "block"

message := text.join([
	"A reservation is for 1 to ",
	text.number(_most),
	" passengers; the call names ",
	text.number(_named),
	". Ask the customer whether to make several reservations.",
]) if {
	facts.is_booking
} else := text.join([
	"Reservation ",
	text.show(facts.reservation_id),
	" is for ",
	text.number(facts.passenger_count),
	" passengers; the call names ",
	text.number(_named),
	". The number of passengers cannot be changed.",
])
