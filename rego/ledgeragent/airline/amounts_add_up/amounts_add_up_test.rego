package ledgeragent.airline.amounts_add_up_test

import data.ledgeragent.airline.fixtures_test as given

id := "airline.amounts_add_up"

price := ["flights", "LA201", "2026-03-11", "prices", "economy"]

paying(request, amount) := given.argue(request, "payment_methods", [{"payment_id": "credit_card_1", "amount": amount}])

uninsured := given.argue(given.book, "insurance", "no")

test_holds_when_the_payments_are_the_price if {
	given.of(id, given.book) == "holds"
	given.of(id, paying(given.book, 360)) == "holds"
	given.of(id, paying(uninsured, 300)) == "holds"
	given.of(id, paying(given.argue(uninsured, "nonfree_baggages", 2), 400)) == "holds"
	given.of(id, paying(given.argue(uninsured, "cabin", "business"), 500)) == "holds"
	given.of(id, paying(given.argue(uninsured, "flights", [given.first, given.second]), 440)) == "holds"
	given.of(id, paying(given.argue(uninsured, "passengers", [given.passengers[0]]), 150)) == "holds"
	given.of(id, paying(given.claim(uninsured, price, 149.95), 299.9)) == "holds"
}

test_silent_elsewhere if {
	every write in [given.cancel, given.change_flights, given.change_bags] { given.of(id, write) == "silent" }
}

test_violated_by_one_cent if {
	every amount in [359.99, 360.01] { given.of(id, paying(given.book, amount)).status == "violated" }
	given.of(id, paying(given.argue(given.book, "nonfree_baggages", 1), 359.99)) == given.violated(
		id,
		"revise",
		concat(" ", [
			"The payments of the call add up to $359.99, but the price is $410.00:",
			"fares $300.00, insurance $60.00, bags $50.00.",
		]),
		[price],
	)
}

test_violated_by_no_payment if given.of(id, given.argue(given.book, "payment_methods", [])).status == "violated"

test_a_flight_that_no_search_offered_is_left_to_the_search if {
	request := given.forget(paying(given.book, 1), ["flights"])
	given.of(id, request) == "holds"
	given.of("airline.flight_from_observed_search", request).status == "violated"
}

test_unknown_when_a_price_is_stale if {
	given.missing(given.of(id, given.outdate(given.book, price))) == {concat(".", price): "stale"}
}

# 60.00 is the insurance alone: a fare that is not known is not a fare of nothing.
test_violated_by_a_cabin_without_a_price if {
	every amount in [60, 360] {
		given.of(id, paying(given.forget(given.book, price), amount)).status == "violated"
	}
}

test_the_fees_are_policy_data if {
	dearer := object.union(data.ledgeragent.airline.settings, {"insurance_fee": 40, "bag_fee": 60})
	request := given.argue(given.book, "nonfree_baggages", 1)
	given.under(dearer, id, paying(request, 440)) == "holds"
	every name in ["insurance_fee", "bag_fee"] {
		every value in [null, "30", [30]] {
			odd := given.settings(name, value)
			given.under(odd, id, given.book).status == "violated"
		}
	}
}

test_violated_by_odd_values if {
	every value in given.odd_values {
		given.of(id, given.claim(given.book, price, value)).status == "violated"
		given.of(id, given.claim(given.book, ["flights", "LA201", "2026-03-11", "prices"], value)) != "holds"
		given.of(id, given.claim(given.book, ["flights", "LA201", "2026-03-11"], value)) != "holds"
	}
}
