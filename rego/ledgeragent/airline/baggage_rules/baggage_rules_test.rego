package ledgeragent.airline.baggage_rules_test

import data.ledgeragent.airline.fixtures_test as given

id := "airline.baggage_rules"

reserved(field) := ["reservations", "RES001", field]

membership := ["users", "ada_quist_1001", "membership"]

bags(request, total, paid) := given.argue(given.argue(request, "total_baggages", total), "nonfree_baggages", paid)

test_holds_when_the_bags_beyond_the_free_ones_are_paid_for if {
	given.of(id, given.book) == "holds"
	given.of(id, bags(given.book, 0, 0)) == "holds"
	given.of(id, bags(given.book, 6, 2)) == "holds"
	given.of(id, given.change_bags) == "holds"
	given.of(id, bags(given.change_bags, 2, 0)) == "holds"
	given.of(id, bags(given.change_bags, 4, 0)) == "holds"
}

test_silent_elsewhere if {
	every write in [given.cancel, given.change_flights, given.change_passengers] { given.of(id, write) == "silent" }
}

# For two passengers, by the allowances of the policy.
allowances := {
	"regular": {"basic_economy": 0, "economy": 2, "business": 4},
	"silver": {"basic_economy": 2, "economy": 4, "business": 6},
	"gold": {"basic_economy": 4, "economy": 6, "business": 8},
}

test_the_allowance_goes_by_membership_and_cabin if {
	every level, cabins in allowances {
		every cabin, free in cabins {
			member := given.claim(given.book, membership, level)
			request := given.argue(member, "cabin", cabin)
			given.of(id, bags(request, free, 0)) == "holds"
			given.of(id, bags(request, free + 1, 1)) == "holds"
			given.of(id, bags(request, free + 1, 0)).verdict == "revise"
		}
	}
}

test_a_change_goes_by_the_reservation if {
	request := given.reserve(given.change_bags, "cabin", "business")
	given.of(id, bags(request, 6, 0)) == "holds"
	fewer_people := given.reserve(given.change_bags, "passengers", [given.passengers[0]])
	given.of(id, bags(fewer_people, 5, 3)) == "holds"
}

test_violated_when_too_few_or_too_many_are_paid_for if {
	every paid in [0, 2] {
		given.of(id, bags(given.change_bags, 5, paid)) == given.violated(
			id,
			"revise",
			concat("", [
				"For a silver member in economy with 2 passengers 4 bags are free: ",
				"of 5 bags 1 are to be paid for, the call says ",
				format_int(paid, 10),
				".",
			]),
			[["auth", "user_id"], reserved("cabin"), reserved("passengers"), membership],
		)
	}
}

test_violated_when_bags_are_taken_away if {
	given.of(id, bags(given.change_bags, 1, 0)) == given.violated(
		id,
		"block",
		"Reservation RES001 has 2 checked bags; the call would leave 1. Bags can be added but not removed.",
		[reserved("total_baggages")],
	)
}

test_as_many_bags_as_before_are_not_taken_away if {
	finding := given.of(id, bags(given.change_bags, 2, 1))
	finding.status == "violated"
	finding.verdict == "revise"
}

test_what_is_already_wrong_decides if {
	fewer := bags(given.change_bags, 1, 0)
	given.of(id, given.forget(given.outdate(fewer, reserved("cabin")), ["users"])).verdict == "block"
	unpaid := bags(given.change_bags, 5, 0)
	given.of(id, given.outdate(unpaid, reserved("total_baggages"))).status == "violated"
	both := bags(given.change_bags, 1, 1)
	given.of(id, both).verdict == "block"
	given.of(id, both).paths == [reserved("total_baggages")]
}

test_unknown_without_evidence if {
	every path in [reserved("total_baggages"), reserved("cabin"), reserved("passengers"), membership] {
		given.missing(given.of(id, given.forget(given.change_bags, path))) == {concat(".", path): "missing"}
		given.missing(given.of(id, given.outdate(given.change_bags, path))) == {concat(".", path): "stale"}
	}
	given.missing(given.of(id, given.forget(given.book, membership))) == {concat(".", membership): "missing"}
	given.missing(given.of(id, given.outdate(given.book, ["auth", "user_id"]))) == {"auth.user_id": "stale"}
}

test_the_allowances_are_policy_data if {
	none := given.settings("free_bags", {"silver": {"economy": 0}})
	given.under(none, id, bags(given.book, 4, 4)) == "holds"
	given.under(none, id, given.book).verdict == "revise"
	every value in [null, "2", [2], {}] {
		odd := given.settings("free_bags", {"silver": {"economy": value}})
		given.under(odd, id, given.book).verdict == "revise"
	}
}

test_violated_by_odd_values if {
	every value in given.odd_values {
		given.of(id, given.claim(given.book, membership, value)).verdict == "revise"
		given.of(id, given.reserve(given.change_bags, "cabin", value)).verdict == "revise"
	}
	every value in [null, true, false, "2", [2], {}] {
		given.of(id, given.reserve(given.change_bags, "total_baggages", value)).verdict == "revise"
		given.of(id, given.reserve(given.change_bags, "passengers", value)).verdict == "revise"
	}
}
