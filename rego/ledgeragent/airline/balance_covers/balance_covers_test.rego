package ledgeragent.airline.balance_covers_test

import data.ledgeragent.airline.balance_covers
import data.ledgeragent.airline.fixtures_test as given

id := "airline.balance_covers"

methods := ["users", "ada_quist_1001", "payment_methods"]

balance := array.concat(methods, ["gift_card_1", "amount"])

source := array.concat(methods, ["gift_card_1", "source"])

reserved(field) := ["reservations", "RES001", field]

# 480 more for the two.
dearer := given.argue(given.change_cabin, "payment_id", "gift_card_1")

# One flight stays, at its price of 100; the other is new, for 130 instead of 80: 100 more for the two.
partly_new := object.union(
	given.argue(given.change_flights, "flights", [given.first, {"flight_number": "LA102", "date": "2026-03-11"}]),
	{"ledger": {"flights": {"LA102": {"2026-03-11": given.offer("ORD", "DEN", 4, 130)}}}},
)

paying(entries) := given.argue(given.book, "payment_methods", [{"payment_id": pair[0], "amount": pair[1]} |
	some pair in entries
])

test_holds_when_the_balance_is_exactly_what_is_taken if {
	given.of(id, given.book) == "holds"
	given.of(id, paying([["certificate_1", 250]])) == "holds"
	given.of(id, given.claim(given.change_bags, balance, 50)) == "holds"
	given.of(id, given.claim(dearer, balance, 480)) == "holds"
	given.of(id, given.claim(partly_new, balance, 100)) == "holds"
}

test_rests_on_every_method_that_is_charged if {
	evidence := balance_covers.evidence with input as given.book
	evidence == {["auth", "user_id"], balance, source, array.concat(methods, ["credit_card_1", "source"])}
}

test_silent_elsewhere if {
	every write in [given.cancel, given.change_passengers, given.certificate] { given.of(id, write) == "silent" }
}

short(holds, due, paths) := given.violated(
	id,
	"revise",
	concat("", [
		"gift_card_1 holds ",
		holds,
		", which does not cover the ",
		due,
		" that the call takes from it. Let the customer choose another payment method.",
	]),
	paths,
)

test_violated_by_one_cent_too_little if {
	always := [["auth", "user_id"], balance, source]
	given.of(id, given.claim(given.book, balance, 159.99)) == short("$159.99", "$160.00", always)
	given.of(id, given.claim(given.change_bags, balance, 49.99)) == short(
		"$49.99",
		"$50.00",
		sort(array.concat(always, [reserved("nonfree_baggages")])),
	)
	trip := array.concat(always, [reserved("cabin"), reserved("flights"), reserved("passengers")])
	given.of(id, given.claim(dearer, balance, 479.99)) == short("$479.99", "$480.00", sort(array.concat(trip, [
		["flights", "LA101", "2026-03-10", "prices", "business"],
		["flights", "LA102", "2026-03-10", "prices", "business"],
	])))
	given.of(id, given.claim(partly_new, balance, 99.99)) == short(
		"$99.99",
		"$100.00",
		sort(array.concat(trip, [["flights", "LA102", "2026-03-11", "prices", "economy"]])),
	)
}

test_amounts_of_one_method_are_taken_together if {
	given.of(id, paying([["gift_card_1", 80], ["gift_card_1", 80]])) == "holds"
	given.of(id, paying([["gift_card_1", 80], ["gift_card_1", 81]])).status == "violated"
}

test_a_certificate_has_a_balance_as_well if {
	given.of(id, paying([["certificate_1", 250.01]])).status == "violated"
}

test_nothing_to_pay_needs_no_balance_and_no_profile if {
	every write in [given.change_flights, given.argue(given.change_bags, "nonfree_baggages", 0)] {
		given.of(id, given.outdate(write, balance)) == "holds"
		given.of(id, given.forget(write, ["users"])) == "holds"
	}
	fewer := given.reserve(given.change_bags, "nonfree_baggages", 3)
	given.of(id, given.forget(fewer, ["users"])) == "holds"
}

test_a_credit_card_covers_everything if {
	given.of(id, given.change_cabin) == "holds"
	given.of(id, paying([["credit_card_1", 100000]])) == "holds"
}

test_a_method_that_is_not_on_the_profile_is_left_to_payment_valid if {
	request := given.argue(dearer, "payment_id", "gift_card_9")
	given.of(id, request) == "holds"
	given.of("airline.payment_valid", request).status == "violated"
	given.missing(given.of(id, given.put(request, ["stale"], [array.concat(methods, ["?"])]))) == {
		concat(".", array.concat(methods, ["gift_card_9", "source"])): "stale",
	}
}

test_a_price_that_was_not_observed_leaves_it_silent if {
	poor := given.claim(dearer, balance, 0)
	given.of(id, given.forget(poor, ["flights", "LA101"])) == "holds"
	given.of(id, given.outdate(poor, ["flights", "LA101", "2026-03-10", "prices", "business"])) == "holds"
	every field in ["cabin", "flights", "passengers"] {
		given.of(id, given.outdate(poor, reserved(field))) == "holds"
		given.of(id, given.forget(poor, reserved(field))) == "holds"
	}
	no_money := given.claim(given.change_bags, balance, 0)
	given.of(id, given.outdate(no_money, reserved("nonfree_baggages"))) == "holds"
}

test_one_balance_that_is_too_small_decides if {
	request := given.outdate(
		paying([["gift_card_1", 500], ["certificate_1", 1]]),
		array.concat(methods, ["certificate_1", "amount"]),
	)
	given.of(id, request) == short("$160.00", "$500.00", [["auth", "user_id"], balance, source])
}

test_unknown_without_evidence if {
	every write in [given.book, given.change_bags, dearer] {
		given.missing(given.of(id, given.outdate(write, balance))) == {concat(".", balance): "stale"}
		given.missing(given.of(id, given.forget(write, ["auth"]))) == {"auth.user_id": "missing"}
	}
	given.missing(given.of(id, given.forget(given.change_bags, ["users"]))) == {concat(".", source): "missing"}
	given.missing(given.of(id, given.outdate(dearer, source))) == {concat(".", source): "stale"}
	given.missing(given.of(id, given.outdate(given.change_bags, methods))) == {concat(".", source): "stale"}
}

test_the_fee_is_policy_data if {
	dear := given.settings("bag_fee", 160.01)
	given.under(dear, id, given.change_bags).status == "violated"
	every value in [null, "50", [50]] {
		given.under(given.settings("bag_fee", value), id, given.change_bags).status == "violated"
	}
}

cannot_be_told := concat(" ", [
	"Whether gift_card_1 covers what is to be paid cannot be told from what is on record.",
	"Let the customer choose another payment method.",
])

test_violated_by_a_balance_that_is_no_number if {
	every value in [null, true, "1000000", [1000000], {"cents": 1000000}] {
		given.of(id, given.claim(given.change_bags, balance, value)).message == cannot_be_told
	}
	given.of(id, given.forget(given.change_bags, balance)).message == cannot_be_told
}

test_violated_by_prices_that_are_no_numbers if {
	every value in [null, true, "1", [1], {}] {
		price := ["flights", "LA101", "2026-03-10", "prices", "business"]
		given.of(id, given.claim(dearer, price, value)).message == cannot_be_told
		given.of(id, given.claim(dearer, array.concat(reserved("flights"), ["0", "price"]), value)).status == "violated"
		given.of(id, given.reserve(given.change_bags, "nonfree_baggages", value)).status == "violated"
		every request in [dearer, partly_new] {
			rich := given.claim(request, balance, 100000)
			given.of(id, rich) == "holds"
			booked := array.concat(reserved("flights"), ["0", "price"])
			given.of(id, given.claim(rich, booked, value)).message == cannot_be_told
		}
	}
	given.of(id, given.forget(dearer, ["flights", "LA101", "2026-03-10", "prices", "business"])).status == "violated"
}

test_violated_by_odd_values if {
	every value in given.odd_values { given.of(id, given.claim(dearer, source, value)).status == "violated" }
	every value in given.odd_values {
		given.of(id, given.claim(given.claim(dearer, balance, 480), reserved("flights"), value)).status == "violated"
	}
}

test_the_balance_of_a_certificate_is_asked_for_and_that_of_an_unknown_kind_is_not if {
	paid := paying([["certificate_1", 250]])
	certificate := array.concat(methods, ["certificate_1", "amount"])
	given.missing(given.of(id, given.outdate(paid, certificate))) == {concat(".", certificate): "stale"}
	every kind in ["voucher", "claimed"] {
		unknown_kind := given.claim(paid, array.concat(methods, ["certificate_1", "source"]), kind)
		every request in [given.forget(unknown_kind, certificate), given.claim(unknown_kind, certificate, 1)] {
			odd := given.of(id, request)
			odd.status == "violated"
			every path in odd.paths { path != certificate }
		}
	}
}
