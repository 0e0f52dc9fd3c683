# METADATA
# title: A gift card or certificate covers what it is to pay
# description: |
#   Each gift card or certificate of the call holds, as last read, at least what the call takes from it: the amount
#   named in a booking, the fee of the bags that are added and paid for, or what the changed flights cost more than the
#   old ones. Nothing to pay needs no balance. A method that is not on the profile is left to airline.payment_valid. A
#   price that was not observed, or is stale, leaves this predicate silent.
# custom:
#   id: airline.balance_covers
#   remedy: Read the profile, tell the customer what is to be paid and what the method holds, and let them choose.
#   severity: high
#   policy: Book flight (payment); Modify flight (payment)
#   evidence:
#     - "auth.user_id?"
#     - "users.{principal}.payment_methods.{id}?"
#     - "flights.{number}.{date}.prices.{arguments.cabin}?"
#     - "reservations.{arguments.reservation_id}.cabin?"
#     - "reservations.{arguments.reservation_id}.flights?"
#     - "reservations.{arguments.reservation_id}.nonfree_baggages?"
#     - "reservations.{arguments.reservation_id}.passengers?"
# schemas:
#   - input: schema["gate_input.schema"]
#   - input.ledger: schema.airline["ledger.schema"]
package ledgeragent.airline.balance_covers

import data.ledgeragent.airline.facts
import data.ledgeragent.gate.facts as observed
import data.ledgeragent.gate.money
import data.ledgeragent.gate.text

guards := {
	"book_reservation",
	"update_reservation_baggages",
	"update_reservation_flights",
}

evidence contains path if {
	count(_decisive) > 0
	some path in facts.customer_paths
}

# One balance that is too small decides: then nothing is asked about another method.
evidence contains facts.method_field_path(id, "source") if some id in _decisive

evidence contains facts.method_field_path(id, "amount") if {
	some id in _decisive
	_has_balance(id)
}

# All of these are known here: without one of them the predicate is silent.
evidence contains path if {
	count(_uncovered) > 0
	some path in _price_paths
}

holds if count(_uncovered) == 0

holds if _unpriced

_ids contains input.action.arguments.payment_id if not facts.is_booking

_ids contains entry.payment_id if some entry in input.action.arguments.payment_methods

_uncovered contains id if {
	some id in _ids
	not _is_covered(id)
}

_is_covered(id) if _due(id) <= 0

_is_covered(id) if facts.method(id).source == "credit_card"

_is_covered(id) if observed.known_absent(facts.method_path(id))

_is_covered(id) if money.cents(facts.method(id).amount) >= _due(id)

_has_balance(id) if facts.method(id).source in {"certificate", "gift_card"}

_too_small contains id if {
	some id in _uncovered
	money.cents(facts.method(id).amount) < _due(id)
}

_decisive := _too_small if {
	count(_too_small) > 0
} else := _uncovered if {
	count(_uncovered) > 0
} else := {id |
	some id in _ids
	_due(id) > 0
	facts.method(id)
}

# What the call takes from a method, in cents.
_due(id) := sum([money.cents(entry.amount) |
	some entry in input.action.arguments.payment_methods
	entry.payment_id == id
]) if {
	facts.is_booking
} else := _fee if {
	_is_about_bags
} else := _difference

_is_about_bags if input.action.tool == "update_reservation_baggages"

_fee := money.cents(data.ledgeragent.airline.settings.bag_fee) * max([0, added]) if {
	is_number(facts.reservation.nonfree_baggages)
	is_number(input.action.arguments.nonfree_baggages)
	added := input.action.arguments.nonfree_baggages - facts.reservation.nonfree_baggages
}

_difference := (sum(_new) - sum(_old)) * facts.passenger_count if {
	count(_new) == count(facts.chosen)
	count(_old) == count(facts.booked)
}

_new := [money.cents(_price(flight)) | some flight in facts.chosen]

_old := [money.cents(flight.price) | some flight in facts.booked]

_price(flight) := _booked_price(flight) if {
	facts.is_kept(flight)
} else := facts.offer(flight).prices[input.action.arguments.cabin]

_booked_price(flight) := prices[0] if {
	prices := [booked.price |
		some booked in facts.booked
		facts.name(booked) == facts.name(flight)
	]
}

_unpriced if {
	some path in _price_paths
	facts.unknown(path)
}

_price_paths contains facts.reservation_path("nonfree_baggages") if _is_about_bags

_price_paths contains facts.reservation_path("cabin") if _changes_flights

_price_paths contains facts.reservation_path("flights") if _changes_flights

_price_paths contains facts.reservation_path("passengers") if _changes_flights

_price_paths contains facts.offer_field_path(flight, "prices") if {
	_changes_flights
	some flight in facts.chosen
	not facts.is_kept(flight)
}

_changes_flights if input.action.tool == "update_reservation_flights"

verdict := "revise"

message := concat(" ", [sentence |
	some id in sort(_decisive)
	sentence := text.join([
		text.show(id),
		" holds ",
		money.dollars(money.cents(facts.method(id).amount)),
		", which does not cover the ",
		money.dollars(_due(id)),
		" that the call takes from it. Let the customer choose another payment method.",
	])
]) if {
	count(_too_small) > 0
} else := text.join([
	"Whether ",
	text.list(_decisive),
	" covers what is to be paid cannot be told from what is on record. Let the customer choose another payment method.",
])
