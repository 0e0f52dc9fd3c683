# METADATA
# title: A reservation is cancelled only on one of four grounds
# description: |
#   The cabin is refundable (business), the booking was made at most 24 hours ago, the airline cancelled one of its
#   flights, or it is insured. Whether the customer's reason is one that the insurance covers is said in the dialogue
#   and not in the ledger. A booking time after `now` counts as just made: a session's clock may lag. The cabins and the
#   window are policy data (`settings.refundable_cabins`, `settings.cancel_window_hours`). A deployment may name who can
#   approve other cancellations (`settings.cancellation_approvers`); by default nobody can.
# custom:
#   id: airline.cancel_requires_basis
#   remedy: Read the status of the flights; if none was cancelled by the airline, decline, or hand over.
#   severity: critical
#   policy: Cancel flight
#   evidence:
#     - "reservations.{arguments.reservation_id}.cabin"
#     - "reservations.{arguments.reservation_id}.created_at"
#     - "reservations.{arguments.reservation_id}.insurance"
#     - "reservations.{arguments.reservation_id}.flights"
#     - "flight_status.{number}.{date}?"
# schemas:
#   - input: schema["gate_input.schema"]
#   - input.ledger: schema.airline["ledger.schema"]
package ledgeragent.airline.cancel_requires_basis

import data.ledgeragent.airline.facts
import data.ledgeragent.gate.clock
import data.ledgeragent.gate.text

guards := {"cancel_reservation"}

# What another ground settles is not asked for.
evidence contains facts.reservation_path("cabin") if count(_grounds - {"cabin"}) == 0

evidence contains facts.reservation_path("created_at") if count(_grounds - {"created_at"}) == 0

evidence contains facts.reservation_path("insurance") if count(_grounds - {"insurance"}) == 0

evidence contains facts.reservation_path("flights") if count(_grounds - {"flights"}) == 0

evidence contains facts.status_path(flight) if {
	count(_grounds - {"flights"}) == 0
	some flight in facts.booked
	count(_cancelled - {facts.name(flight)}) == 0
}

holds if count(_grounds) > 0

_grounds contains "cabin" if facts.reservation.cabin in _refundable

_grounds contains "created_at" if _age <= _window

_grounds contains "insurance" if facts.reservation.insurance == "yes"

_grounds contains "flights" if count(_cancelled) > 0

_cancelled contains facts.name(flight) if {
	some flight in facts.booked
	facts.status(flight) == "cancelled"
}

_refundable := data.ledgeragent.airline.settings.refundable_cabins if {
	is_array(data.ledgeragent.airline.settings.refundable_cabins)
}

_age := clock.seconds(input.session.now, input.session.now) - clock.seconds(
	facts.reservation.created_at,
	input.session.now,
)

_window := data.ledgeragent.airline.settings.cancel_window_hours * 3600 if {
	is_number(data.ledgeragent.airline.settings.cancel_window_hours)
}

verdict := "block"

obligation := {"kind": "approval", "approvers": _approvers} if count(_approvers) > 0

_approvers := data.ledgeragent.airline.settings.cancellation_approvers if {
	is_array(data.ledgeragent.airline.settings.cancellation_approvers)
}

message := text.join([
	"Reservation ",
	text.show(facts.reservation_id),
	" cannot be cancelled. Its cabin is ",
	text.show(facts.reservation.cabin),
	" (refundable: ",
	text.list(_refundable),
	"), it was booked at ",
	text.show(facts.reservation.created_at),
	", more than ",
	text.number(_window / 3600),
	" hours ago, it has no travel insurance, and the airline cancelled none of its flights (",
	text.list(_statuses),
	").",
])

_statuses contains text.join([facts.name(flight), ": ", text.show(facts.status(flight))]) if {
	some flight in facts.booked
}
