# METADATA
# title: Customers change only their own reservations
# description: |
#   The reservation, or the profile that is booked or compensated for, belongs to the customer of the conversation: whom
#   the host signed in, else whose profile was read first. An airline customer only says who they are; the decision
#   shows that such a principal is claimed.
# custom:
#   id: airline.owner
#   remedy: Decline. Only the customer's own reservations and profile can be changed in this conversation.
#   severity: critical
#   policy: Airline agent policy (user id); Domain basic (reservation)
#   evidence: ["auth.user_id", "reservations.{arguments.reservation_id}.user_id"]
# schemas:
#   - input: schema["gate_input.schema"]
#   - input.ledger: schema.airline["ledger.schema"]
package ledgeragent.airline.owner

import data.ledgeragent.airline.facts
import data.ledgeragent.gate.text

guards := {
	"book_reservation",
	"cancel_reservation",
	"send_certificate",
	"update_reservation_baggages",
	"update_reservation_flights",
	"update_reservation_passengers",
}

evidence contains path if some path in facts.customer_paths

evidence contains facts.reservation_path("user_id") if not _about_a_profile

holds if _owner == facts.customer_id

_about_a_profile if input.action.tool in {"book_reservation", "send_certificate"}

_owner := input.action.arguments.user_id if {
	_about_a_profile
} else := facts.reservation.user_id

verdict := "block"

message := text.join([
	_thing,
	" belongs to ",
	text.show(_owner),
	", not to the customer of this conversation, ",
	_customer,
	". Only their own reservations and profile can be changed.",
])

_customer := text.show(facts.customer_id) if {
	facts.customer_id
} else := "who is not known"

_thing := "This profile" if {
	_about_a_profile
} else := text.join(["Reservation ", text.show(facts.reservation_id)])
