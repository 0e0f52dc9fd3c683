# METADATA
# title: Bags are only added, and exactly those beyond the free allowance are paid for
# description: |
#   A change of bags leaves at least as many as the reservation has. The bags that are paid for are those beyond the
#   free ones: the allowance per passenger for the customer's membership and the cabin (policy data
#   `settings.free_bags`) times the number of passengers.
# custom:
#   id: airline.baggage_rules
#   remedy: Work out how many bags are free for this membership, cabin and number of passengers, and correct the call.
#   severity: medium
#   policy: Book flight (checked bag allowance); Change baggage
#   evidence:
#     - "reservations.{arguments.reservation_id}.total_baggages"
#     - "reservations.{arguments.reservation_id}.cabin"
#     - "reservations.{arguments.reservation_id}.passengers"
#     - "auth.user_id"
#     - "users.{principal}.membership"
# schemas:
#   - input: schema["gate_input.schema"]
#   - input.ledger: schema.airline["ledger.schema"]
package ledgeragent.airline.baggage_rules

import data.ledgeragent.airline.facts
import data.ledgeragent.gate.text

guards := {"book_reservation", "update_reservation_baggages"}

# What is already wrong decides, whatever else is not known.
evidence contains facts.reservation_path("total_baggages") if {
	not facts.is_booking
	not _is_charged_wrongly
}

evidence contains facts.reservation_path("total_baggages") if _takes_bags_away

evidence contains path if {
	not _takes_bags_away
	some path in facts.customer_paths
}

evidence contains facts.profile_path("membership") if not _takes_bags_away

evidence contains facts.reservation_path("cabin") if {
	not facts.is_booking
	not _takes_bags_away
}

evidence contains facts.reservation_path("passengers") if {
	not facts.is_booking
	not _takes_bags_away
}

holds if {
	_leaves_bags
	input.action.arguments.nonfree_baggages == _to_pay_for
}

_leaves_bags if facts.is_booking

_leaves_bags if {
	is_number(facts.reservation.total_baggages)
	input.action.arguments.total_baggages >= facts.reservation.total_baggages
}

_takes_bags_away if {
	is_number(facts.reservation.total_baggages)
	input.action.arguments.total_baggages < facts.reservation.total_baggages
}

_is_charged_wrongly if input.action.arguments.nonfree_baggages != _to_pay_for

_to_pay_for := max([0, input.action.arguments.total_baggages - _free]) if {
	is_number(input.action.arguments.total_baggages)
}

_free := _allowance * facts.passenger_count

_allowance := allowance if {
	allowance := data.ledgeragent.airline.settings.free_bags[facts.profile.membership][_cabin]
	is_number(allowance)
}

_cabin := input.action.arguments.cabin if {
	facts.is_booking
} else := facts.reservation.cabin

verdict := "block" if {
	_takes_bags_away
} else := "revise"

message := text.join([
	"Reservation ",
	text.show(facts.reservation_id),
	" has ",
	text.number(facts.reservation.total_baggages),
	" checked bags; the call would leave ",
	text.number(input.action.arguments.total_baggages),
	". Bags can be added but not removed.",
]) if {
	_takes_bags_away
} else := text.join([
	"For a ",
	text.show(facts.profile.membership),
	" member in ",
	text.show(_cabin),
	" with ",
	text.number(facts.passenger_count),
	" passengers ",
	text.number(_free),
	" bags are free: of ",
	text.number(input.action.arguments.total_baggages),
	" bags ",
	text.number(_to_pay_for),
	" are to be paid for, the call says ",
	text.number(input.action.arguments.nonfree_baggages),
	".",
])
