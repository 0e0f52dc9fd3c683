# METADATA
# title: A cancelled reservation is not changed any more
# description: |
#   The reservation's status, as last read, is not "cancelled", and no cancellation of it ran, may have run, or was
#   admitted earlier in this message.
# custom:
#   id: airline.reservation_active
#   remedy: Tell the customer that the reservation is cancelled; a new one can be booked.
#   severity: high
#   policy: Modify flight; Cancel flight
#   evidence: ["reservations.{arguments.reservation_id}.status?"]
#   reads: [history, siblings]
# schemas:
#   - input: schema["gate_input.schema"]
#   - input.ledger: schema.airline["ledger.schema"]
package ledgeragent.airline.reservation_active

import data.ledgeragent.airline.facts
import data.ledgeragent.gate.facts as observed
import data.ledgeragent.gate.history
import data.ledgeragent.gate.text

guards := {
	"cancel_reservation",
	"update_reservation_baggages",
	"update_reservation_flights",
	"update_reservation_passengers",
}

# A status that is absent is as good as one that was read.
evidence contains facts.reservation_path("status") if {
	not _cancelled_here
	not _status_allows
}

holds if {
	not _cancelled_here
	_status_allows
}

_cancelled_here if {
	some write in history.executed
	write.tool == "cancel_reservation"
	write.arguments.reservation_id == facts.reservation_id
}

_status_allows if observed.known_absent(facts.reservation_path("status"))

_status_allows if facts.reservation.status == null

_status_allows if {
	is_string(facts.reservation.status)
	facts.reservation.status != "cancelled"
}

verdict := "block"

message := text.join([
	"Reservation ",
	text.show(facts.reservation_id),
	" is cancelled",
	_how_known,
	". It can neither be changed nor cancelled again.",
])

_how_known := " (in this conversation)" if {
	_cancelled_here
} else := ""
