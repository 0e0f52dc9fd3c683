# METADATA
# title: A certificate compensates a cancelled or delayed flight of a customer who may be compensated
# description: |
#   Some reservation of the customer justifies a certificate of exactly this amount: 100 dollars per passenger when a
#   flight ever seen in it was read as cancelled, 50 per passenger when one was read as delayed and the reservation was
#   changed or cancelled in this conversation. The customer is a silver or gold member, or the reservation is insured or
#   in business. Each reservation justifies one certificate of one amount. Amounts, memberships and cabins are policy
#   data (`settings.certificates`).
# custom:
#   id: airline.certificate_basis
#   remedy: Read the reservation complained about and its flights; offer what the policy allows, or decline.
#   severity: critical
#   policy: Refunds and compensation
#   evidence:
#     - "auth.user_id"
#     - "users.{principal}.membership"
#     - "users.{principal}.reservations"
#     - "reservations.{id}.user_id?"
#     - "reservations.{id}.cabin?"
#     - "reservations.{id}.insurance?"
#     - "reservations.{id}.passengers?"
#     - "seen_flights.{id}?"
#     - "flight_status.{number}.{date}?"
#   reads: [history, siblings]
# schemas:
#   - input: schema["gate_input.schema"]
#   - input.ledger: schema.airline["ledger.schema"]
package ledgeragent.airline.certificate_basis

import data.ledgeragent.airline.facts
import data.ledgeragent.gate.history
import data.ledgeragent.gate.money
import data.ledgeragent.gate.text

guards := {"send_certificate"}

evidence contains path if some path in facts.customer_paths

evidence contains path if {
	_is_justified
	some path in _decisive_paths
}

evidence contains facts.profile_path("membership") if not _is_justified

evidence contains facts.profile_path("reservations") if not _is_justified

evidence contains path if {
	not _is_justified
	some path in _open_paths
}

# Reservations that were not read are asked for once those that were read cannot save the call.
evidence contains ["reservations", id, "user_id"] if {
	not _is_justified
	count(_open_paths) == 0
	some id in _unread
}

holds if _is_justified

_is_justified if count(_justifying) > count(_sent)

# What the certificate stands on, where a single reservation justifies it.
_decisive_paths contains path if {
	count(_justifying) == 1
	some id in _justifying
	some path in {["reservations", id, "user_id"], ["reservations", id, "passengers"], ["seen_flights", id]}
}

_decisive_paths contains path if {
	count(_justifying) == 1
	some id in _justifying
	count(_eligibility(id)) == 1
	some path in _eligibility(id)
}

_decisive_paths contains facts.status_path(flight) if {
	count(_justifying) == 1
	some id in _justifying
	some flight in _flights(id)
	facts.status(flight) in _grounds
}

_justifying contains id if {
	some id in _own
	_is_eligible(id)
	some ground in _grounds
	_amount == _amount_for(id, ground)
	_is_grounded(id, ground)
}

_amount := money.cents(input.action.arguments.amount)

_sent := [write |
	some write in history.executed
	write.tool == "send_certificate"
	write.arguments.user_id == input.action.arguments.user_id
	write.arguments.amount == input.action.arguments.amount
]

_grounds := ["cancelled", "delayed"]

# The reservations at hand that are the customer's.
_own contains id if {
	some id, reservation in input.ledger.reservations
	reservation.user_id == facts.customer_id
}

_unread contains id if {
	some id in facts.profile.reservations
	facts.unknown(["reservations", id, "user_id"])
}

_is_eligible(id) if count(_eligibility(id)) > 0

# The facts that let this reservation be compensated; one is enough.
_eligibility(id) := (_by_membership | _by_insurance(id)) | _by_cabin(id)

_by_membership contains facts.profile_path("membership") if facts.profile.membership in _certificates.memberships

_by_insurance(id) := {["reservations", id, "insurance"] | input.ledger.reservations[id].insurance == "yes"}

_by_cabin(id) := {["reservations", id, "cabin"] | input.ledger.reservations[id].cabin in _certificates.cabins}

_certificates := data.ledgeragent.airline.settings.certificates

# In cents.
_amount_for(id, ground) := money.cents(_certificates.per_passenger[ground]) * count(_passengers(id))

_passengers(id) := input.ledger.reservations[id].passengers if {
	is_array(input.ledger.reservations[id].passengers)
	count(input.ledger.reservations[id].passengers) > 0
}

_is_grounded(id, "cancelled") if _was_seen(id, "cancelled")

_is_grounded(id, "delayed") if {
	_was_seen(id, "delayed")
	_was_changed(id)
}

_was_seen(id, status) if {
	some flight in _flights(id)
	facts.status(flight) == status
}

_flights(id) := [flight |
	some name in input.ledger.seen_flights[id]
	is_string(name)
	[flight_number, date] := split(name, " ")
	flight := {"flight_number": flight_number, "date": date}
]

_was_changed(id) if {
	some write in history.executed
	write.tool in {"cancel_reservation", "update_reservation_flights"}
	write.arguments.reservation_id == id
}

# What is not known of a reservation at hand and could still let it justify this amount.
_open_paths contains path if {
	some id in _own
	not id in _justifying
	_could_fit(id)
	_could_be_eligible(id)
	some path in _wanted(id)
	facts.unknown(path)
}

_could_fit(id) if facts.unknown(["reservations", id, "passengers"])

_could_fit(id) if _amount == _amount_for(id, "cancelled")

_could_fit(id) if {
	_was_changed(id)
	_amount == _amount_for(id, "delayed")
}

_could_be_eligible(id) if _is_eligible(id)

_could_be_eligible(_) if facts.unknown(facts.profile_path("membership"))

_could_be_eligible(id) if facts.unknown(["reservations", id, "cabin"])

_could_be_eligible(id) if facts.unknown(["reservations", id, "insurance"])

_wanted(id) := {["reservations", id, "passengers"], ["seen_flights", id]} | (_of_eligibility(id) | _of_status(id))

_of_eligibility(id) := {["reservations", id, "cabin"], ["reservations", id, "insurance"]} if {
	not _is_eligible(id)
} else := set()

# An incident that was seen decides: then no other status is asked for.
_of_status(id) := set() if {
	some ground in _grounds
	_amount == _amount_for(id, ground)
	_is_grounded(id, ground)
} else := {facts.status_path(flight) | some flight in _flights(id)}

verdict := "block" if {
	_is_final
} else := "revise"

# No other amount would do either.
_is_final if _is_used_up

_is_final if _nobody_is_eligible

_is_final if _nothing_happened

_is_used_up if count(_justifying) > 0

_nobody_is_eligible if {
	is_string(facts.profile.membership)
	every id in _own { _is_ineligible(id) }
}

_is_ineligible(id) if not _could_be_eligible(id)

_nothing_happened if {
	every id in _own { _was_uneventful(id) }
}

_was_uneventful(id) if _is_ineligible(id)

_was_uneventful(id) if {
	is_array(input.ledger.seen_flights[id])
	every flight in _flights(id) { facts.status(flight) in {"available", "flying", "landed", "on time"} }
}

message := text.join([
	"The reservations of this customer justify no further certificate of ",
	money.dollars(_amount),
	": ",
	text.number(count(_sent)),
	" of this amount were already sent in this conversation.",
]) if {
	_is_used_up
} else := text.join([
	"This customer cannot be compensated: ",
	text.show(facts.profile.membership),
	" member, and no reservation is insured or in ",
	text.list(_certificates.cabins),
	".",
]) if {
	_nobody_is_eligible
} else := text.join([
	"Nothing to compensate: no flight of the reservations that could be compensated was read as cancelled or delayed.",
]) if {
	_nothing_happened
} else := text.join([
	"A certificate of ",
	money.dollars(_amount),
	" is not what the policy allows. Per passenger it is ",
	money.dollars(money.cents(_certificates.per_passenger.cancelled)),
	" for a reservation with a cancelled flight and ",
	money.dollars(money.cents(_certificates.per_passenger.delayed)),
	" for one with a delayed flight, once it was changed or cancelled. On record: ",
	text.list(_incidents),
	".",
])

_incidents contains text.join([
	text.show(id),
	" (",
	text.number(count(_passengers(id))),
	" passengers, ",
	ground,
	")",
]) if {
	some id in _own
	_is_eligible(id)
	some ground in _grounds
	_was_seen(id, ground)
}
