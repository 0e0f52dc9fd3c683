package ledgeragent.retail.payment_on_profile_test

import data.ledgeragent.retail.fixtures_test as given

id := "retail.payment_on_profile"

methods := ["users", "ada_quist_1001", "payment_methods"]

history := ["orders", "#W2", "payment_history"]

guarded := [given.change_payment, given.change_items, given.return_items, given.exchange]

unknown_method := "credit_card_9"

test_holds_for_a_method_on_the_profile if {
	every write in guarded { given.of(id, write) == "holds" }
}

test_silent_elsewhere if given.of(id, given.cancel) == "silent"

test_a_stale_balance_leaves_the_method_fresh if {
	given.of(id, given.outdate(given.change_items, array.concat(methods, ["gift_card_1", "balance"]))) == "holds"
}

test_violated_by_a_method_that_is_not_on_the_profile if {
	given.of(id, given.argue(given.exchange, "payment_method_id", unknown_method)) == given.violated(
		id,
		"revise",
		concat(" ", [
			`The payment method "credit_card_9" is not on the customer's profile.`,
			"On the profile: credit_card_1, gift_card_1 and paypal_1. Let the customer choose one of these.",
		]),
		[["auth", "user_id"], array.concat(methods, [unknown_method])],
	)
}

test_for_other_writes_having_paid_is_not_enough if {
	paid := given.claim(given.exchange, array.concat(history, ["0", "payment_method_id"]), unknown_method)
	given.of(id, given.argue(paid, "payment_method_id", unknown_method)).status == "violated"
}

test_for_a_return_paying_this_order_is_enough if {
	paid := given.claim(given.return_items, array.concat(history, ["0", "payment_method_id"]), unknown_method)
	request := given.argue(paid, "payment_method_id", unknown_method)
	given.of(id, request) == "holds"
	given.of(id, given.forget(request, ["users"])) == "holds"
}

test_for_a_return_both_lists_are_named if {
	given.of(id, given.argue(given.return_items, "payment_method_id", unknown_method)) == given.violated(
		id,
		"revise",
		concat(" ", [
			`The payment method "credit_card_9" is not on the customer's profile.`,
			"On the profile: credit_card_1, gift_card_1 and paypal_1. Paid for this order: paypal_1.",
			"Let the customer choose one of these.",
		]),
		[["auth", "user_id"], history, array.concat(methods, [unknown_method])],
	)
}

test_for_a_return_either_evidence_decides if {
	given.of(id, given.forget(given.return_items, ["users"])) == "holds"
	given.of(id, given.forget(given.return_items, history)) == "holds"
	given.missing(given.of(id, given.forget(given.forget(given.return_items, ["users"]), history))) == {
		"users.ada_quist_1001.payment_methods.paypal_1": "missing",
		"orders.#W2.payment_history": "missing",
	}
}

test_unknown_without_evidence if {
	path := array.concat(methods, ["credit_card_1"])
	name := concat(".", path)
	given.missing(given.of(id, given.forget(given.exchange, ["users"]))) == {name: "missing"}
	given.missing(given.of(id, given.forget(given.exchange, methods))) == {name: "missing"}
	given.missing(given.of(id, given.outdate(given.exchange, methods))) == {name: "stale"}
	given.missing(given.of(id, given.outdate(given.exchange, path))) == {name: "stale"}
	given.missing(given.of(id, given.forget(given.exchange, ["auth"]))) == {"auth.user_id": "missing"}
}

test_an_absence_gone_stale_is_unknown if {
	request := given.argue(given.exchange, "payment_method_id", unknown_method)
	given.missing(given.of(id, given.put(request, ["stale"], [array.concat(methods, ["?"])]))) == {
		concat(".", array.concat(methods, [unknown_method])): "stale",
	}
	given.of(id, given.put(given.exchange, ["stale"], [array.concat(methods, ["?"])])) == "holds"
}

test_violated_by_odd_values if {
	every value in [null, true, false, 7, "credit_card", ["credit_card"]] {
		given.of(id, given.claim(given.exchange, array.concat(methods, ["credit_card_1"]), value)).status == "violated"
	}
	every value in [null, true, false, 7, "credit_card_1", ["credit_card_1"]] {
		given.of(id, given.claim(given.exchange, methods, value)) != "holds"
	}
}
