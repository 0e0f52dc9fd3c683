package ledgeragent.airline.certificate_basis_test

import data.ledgeragent.airline.certificate_basis
import data.ledgeragent.airline.fixtures_test as given

id := "airline.certificate_basis"

membership := ["users", "ada_quist_1001", "membership"]

listed := ["users", "ada_quist_1001", "reservations"]

seen := ["seen_flights", "RES001"]

status := ["flight_status", "LA101", "2026-03-10"]

later_status := ["flight_status", "LA102", "2026-03-10"]

reserved(field) := ["reservations", "RES001", field]

# 100 dollars for each of the two passengers: a flight was cancelled.
certificate := given.certificate

regular := given.claim(certificate, membership, "regular")

delayed := given.argue(given.claim(certificate, status, "delayed"), "amount", 100)

changed(request) := given.after(request, "update_reservation_flights", {"reservation_id": "RES001"})

asking(request, amount) := given.argue(request, "amount", amount)

# A second reservation of the customer, on other flights, for one passenger.
second := object.union(certificate, {"ledger": {
	"reservations": {"RES002": object.union(given.reservation, {"passengers": [given.passengers[0]]})},
	"seen_flights": {"RES002": ["LA201 2026-03-11"]},
	"flight_status": {"LA201": {"2026-03-11": "on time"}},
	"users": {"ada_quist_1001": {"reservations": ["RES001", "RES002"]}},
}})

test_rests_on_what_justifies_the_amount if {
	evidence := certificate_basis.evidence with input as certificate
	evidence == {["auth", "user_id"], membership, status, reserved("passengers"), reserved("user_id"), seen}
}

test_holds_for_a_cancelled_flight if {
	given.of(id, certificate) == "holds"
	given.of(id, given.forget(certificate, later_status)) == "holds"
	given.of(id, given.forget(certificate, listed)) == "holds"
}

test_holds_for_a_delayed_flight_once_the_reservation_was_changed_or_cancelled if {
	given.of(id, changed(delayed)) == "holds"
	given.of(id, given.after(delayed, "cancel_reservation", {"reservation_id": "RES001"})) == "holds"
	sibling := {"tool": "cancel_reservation", "arguments": {"reservation_id": "RES001"}}
	given.of(id, given.put(delayed, ["siblings", "-"], sibling)) == "holds"
}

test_silent_elsewhere if {
	every write in [given.book, given.cancel, given.change_flights] { given.of(id, write) == "silent" }
}

test_every_customer_but_a_plain_regular_one_is_compensated if {
	given.of(id, given.claim(certificate, membership, "gold")) == "holds"
	given.of(id, given.reserve(regular, "insurance", "yes")) == "holds"
	given.of(id, given.reserve(regular, "cabin", "business")) == "holds"
}

test_a_regular_member_in_economy_without_insurance_is_not_compensated if {
	every cabin in ["economy", "basic_economy"] {
		given.of(id, given.reserve(regular, "cabin", cabin)) == given.violated(
			id,
			"block",
			"This customer cannot be compensated: regular member, and no reservation is insured or in business.",
			[["auth", "user_id"], membership, listed],
		)
	}
}

amounts(amount, record) := concat(" ", [
	concat("", ["A certificate of ", amount, " is not what the policy allows."]),
	"Per passenger it is $100.00 for a reservation with a cancelled flight and $50.00 for one with a delayed flight,",
	"once it was changed or cancelled. On record:",
	record,
])

test_violated_by_another_amount if {
	given.of(id, asking(certificate, 100)) == given.violated(
		id,
		"revise",
		amounts("$100.00", "RES001 (2 passengers, cancelled)."),
		[["auth", "user_id"], membership, listed],
	)
	every amount in [199.99, 200.01, 0, 300] { given.of(id, asking(certificate, amount)).verdict == "revise" }
}

test_violated_by_a_delay_before_anything_was_changed if {
	given.of(id, delayed) == given.violated(
		id,
		"revise",
		amounts("$100.00", "RES001 (2 passengers, delayed)."),
		[["auth", "user_id"], membership, listed],
	)
	other := given.after(delayed, "update_reservation_flights", {"reservation_id": "RES002"})
	given.of(id, other).status == "violated"
	other_write := given.after(delayed, "update_reservation_baggages", {"reservation_id": "RES001"})
	given.of(id, other_write).status == "violated"
}

uneventful := given.claim(certificate, status, "on time")

nothing_happened := concat(" ", [
	"Nothing to compensate: no flight of the reservations that could be compensated was read as",
	"cancelled or delayed.",
])

test_violated_when_nothing_happened if {
	every value in ["available", "on time", "flying", "landed"] {
		found := given.of(id, given.claim(certificate, status, value))
		found.verdict == "block"
		found.message == nothing_happened
	}
}

test_flights_that_were_seen_before_a_change_still_count if {
	moved := given.claim(certificate, seen, ["LA201 2026-03-11", "LA101 2026-03-10"])
	given.of(id, moved) == "holds"
	given.of(id, given.claim(moved, seen, ["LA201 2026-03-11"])).status == "unknown"
}

test_each_reservation_justifies_one_certificate if {
	once := given.after(certificate, "send_certificate", certificate.action.arguments)
	given.of(id, once) == given.violated(
		id,
		"block",
		concat(" ", [
			"The reservations of this customer justify no further certificate of $200.00:",
			"1 of this amount were already sent in this conversation.",
		]),
		[["auth", "user_id"], membership, listed],
	)
	other := given.after(certificate, "send_certificate", {"user_id": "bo_lind_2002", "amount": 200})
	given.of(id, given.after(other, "send_certificate", {"user_id": "ada_quist_1001", "amount": 100})) == "holds"
	given.of(id, given.after(certificate, "cancel_reservation", certificate.action.arguments)) == "holds"
	twins := given.claim(second, ["reservations", "RES002", "passengers"], given.passengers)
	both := given.claim(twins, ["seen_flights", "RES002"], ["LA101 2026-03-10"])
	given.of(id, given.after(both, "send_certificate", certificate.action.arguments)) == "holds"
	thrice := given.after(both, "send_certificate", certificate.action.arguments)
	given.of(id, given.after(thrice, "send_certificate", certificate.action.arguments)).verdict == "block"
}

test_unknown_while_a_status_could_still_justify_the_amount if {
	given.missing(given.of(id, given.forget(certificate, ["flight_status"]))) == {
		concat(".", status): "missing",
		concat(".", later_status): "missing",
	}
	given.missing(given.of(id, given.outdate(certificate, status))) == {concat(".", status): "stale"}
	given.missing(given.of(id, changed(given.forget(delayed, status)))) == {concat(".", status): "missing"}
}

test_a_status_that_would_not_help_is_not_asked_for if {
	given.of(id, asking(given.forget(certificate, ["flight_status"]), 70)).verdict == "revise"
	given.of(id, asking(given.forget(certificate, ["flight_status"]), 70)).status == "violated"
	given.of(id, given.forget(delayed, status)).status == "violated"
}

test_reservations_that_were_not_read_are_asked_for_when_nothing_else_can_help if {
	unread := given.claim(certificate, listed, ["RES001", "RES009", "RES010"])
	asked := {"reservations.RES009.user_id": "missing", "reservations.RES010.user_id": "missing"}
	given.of(id, unread) == "holds"
	given.missing(given.of(id, asking(unread, 300))) == asked
	given.missing(given.of(id, given.claim(unread, status, "landed"))) == asked
	given.missing(given.of(id, given.claim(unread, membership, "regular"))) == asked
	given.missing(given.of(id, given.forget(unread, status))) == {concat(".", status): "missing"}
}

test_any_reservation_of_the_customer_can_justify_it if {
	given.of(id, second) == "holds"
	cancelled := given.claim(second, ["flight_status", "LA201", "2026-03-11"], "cancelled")
	given.of(id, asking(cancelled, 100)) == "holds"
	given.of(id, asking(second, 100)).verdict == "revise"
}

test_the_reservation_of_somebody_else_justifies_nothing if {
	other := given.claim(certificate, reserved("user_id"), "bo_lind_2002")
	given.of(id, given.claim(other, listed, [])).verdict == "block"
}

test_eligibility_is_unknown_only_where_it_decides if {
	given.missing(given.of(id, given.forget(certificate, membership))) == {concat(".", membership): "missing"}
	given.missing(given.of(id, given.outdate(certificate, membership))) == {concat(".", membership): "stale"}
	given.of(id, given.forget(given.reserve(certificate, "insurance", "yes"), membership)) == "holds"
	every field in ["cabin", "insurance"] {
		given.missing(given.of(id, given.outdate(regular, reserved(field)))) == {concat(".", reserved(field)): "stale"}
		given.of(id, given.outdate(certificate, reserved(field))) == "holds"
		given.of(id, given.forget(uneventful, reserved(field))).verdict == "block"
	}
	given.missing(given.of(id, given.outdate(given.forget(certificate, ["flight_status"]), membership))) == {
		concat(".", membership): "stale",
		concat(".", status): "missing",
		concat(".", later_status): "missing",
	}
}

test_nothing_more_is_asked_of_a_reservation_that_cannot_be_compensated if {
	given.of(id, given.forget(regular, reserved("passengers"))).verdict == "block"
}

test_a_membership_that_says_nothing_compensates_nobody if {
	every request in [certificate, uneventful] {
		given.of(id, given.claim(request, membership, null)) == given.violated(
			id,
			"block",
			nothing_happened,
			[["auth", "user_id"], membership, listed],
		)
	}
}

test_flights_that_cannot_be_told_are_not_final if {
	every value in [null, true, "x", {"x": "x"}] {
		given.of(id, given.claim(uneventful, seen, value)).verdict == "revise"
	}
}

test_unknown_without_evidence if {
	given.missing(given.of(id, given.forget(certificate, ["auth"]))) == {"auth.user_id": "missing"}
	given.missing(given.of(id, given.outdate(certificate, reserved("passengers")))) == {
		concat(".", reserved("passengers")): "stale",
	}
	given.missing(given.of(id, given.forget(certificate, reserved("passengers")))) == {
		concat(".", reserved("passengers")): "missing",
	}
	given.missing(given.of(id, given.forget(certificate, seen))) == {concat(".", seen): "missing"}
	given.missing(given.of(id, given.outdate(certificate, seen))) == {concat(".", seen): "stale"}
	given.missing(given.of(id, given.forget(certificate, ["reservations"]))) == {
		concat(".", reserved("user_id")): "missing",
	}
	given.missing(given.of(id, given.outdate(uneventful, listed))) == {concat(".", listed): "stale"}
	given.missing(given.of(id, given.forget(uneventful, listed))) == {concat(".", listed): "missing"}
}

test_amounts_and_conditions_are_policy_data if {
	settings := given.settings("certificates", {
		"memberships": ["gold"],
		"cabins": ["economy"],
		"per_passenger": {"cancelled": 80, "delayed": 30},
	})
	given.under(settings, id, asking(certificate, 160)) == "holds"
	given.under(settings, id, asking(changed(delayed), 60)) == "holds"
	given.under(settings, id, certificate).verdict == "revise"
	no_amount := {"memberships": ["silver"], "per_passenger": {"cancelled": "100"}}
	every value in [null, {}, {"memberships": "silver"}, no_amount] {
		given.under(given.settings("certificates", value), id, certificate) != "holds"
	}
}

test_violated_by_odd_values if {
	every value in given.odd_values {
		given.of(id, given.claim(certificate, membership, value)) != "holds"
		given.of(id, given.claim(certificate, seen, value)) != "holds"
		given.of(id, given.claim(certificate, status, value)) != "holds"
		given.of(id, given.reserve(certificate, "passengers", value)) != "holds"
		given.of(id, asking(given.reserve(certificate, "passengers", value), 0)) != "holds"
		given.of(id, given.reserve(regular, "insurance", value)).verdict == "block"
		given.of(id, given.reserve(regular, "cabin", value)).verdict == "block"
	}
}
