package ledgeragent.retail.gift_card_covers_test

import data.ledgeragent.retail.fixtures_test as given

id := "retail.gift_card_covers"

methods := ["users", "ada_quist_1001", "payment_methods"]

source := array.concat(methods, ["gift_card_1", "source"])

balance := array.concat(methods, ["gift_card_1", "balance"])

items := ["orders", "#W1", "items"]

history := ["orders", "#W1", "payment_history"]

lamps := ["products", "lamps", "variants"]

chairs := ["products", "chairs", "variants"]

# 15.00 for the lamp and 20.10 for the chair, which is exactly what the gift card holds.
change_items := given.change_items

cheaper := given.argue(change_items, "new_item_ids", ["lamp-c", "chair-a"])

by_credit_card := given.argue(change_items, "payment_method_id", "credit_card_1")

# 190.00 in all.
change_payment := given.argue(given.change_payment, "payment_method_id", "gift_card_1")

test_holds_when_the_balance_is_exactly_the_difference if given.of(id, change_items) == "holds"

test_a_difference_of_nothing_needs_no_balance if {
	lamp := given.claim(change_items, array.concat(lamps, ["lamp-b", "price"]), 50)
	chair := given.claim(lamp, array.concat(chairs, ["chair-b", "price"]), 60)
	ordered := given.claim(chair, array.concat(items, ["0", "price"]), 50)
	same := given.claim(ordered, array.concat(items, ["1", "price"]), 60)
	given.of(id, given.outdate(same, balance)) == "holds"
	dearer := given.claim(same, array.concat(lamps, ["lamp-b", "price"]), 50.01)
	given.of(id, given.outdate(dearer, balance)).status == "unknown"
}

test_silent_elsewhere if given.of(id, given.return_items) == "silent"

test_violated_by_one_cent_too_little if {
	given.of(id, given.claim(change_items, balance, 35.09)) == given.violated(
		id,
		"revise",
		concat(" ", [
			"Gift card gift_card_1 holds $35.09, which does not cover the $35.10 to be paid.",
			"Let the customer choose another payment method on their profile: credit_card_1 and paypal_1.",
		]),
		[["auth", "user_id"], items, chairs, lamps, balance, source],
	)
}

test_the_same_item_twice_is_paid_twice if {
	request := object.union(change_items, {"action": {"arguments": {
		"item_ids": ["chair-a", "chair-a"],
		"new_item_ids": ["chair-b", "chair-b"],
	}}})
	given.of(id, request).status == "violated"
	given.of(id, given.claim(request, balance, 40.2)) == "holds"
}

test_nothing_to_pay_needs_no_balance_and_no_profile if {
	given.of(id, given.forget(cheaper, ["users"])) == "holds"
	given.of(id, given.outdate(cheaper, balance)) == "holds"
}

test_another_kind_of_method_needs_no_prices if {
	given.of(id, given.forget(given.forget(by_credit_card, ["products"]), items)) == "holds"
}

test_a_method_that_is_not_on_the_profile_is_left_to_payment_on_profile if {
	request := given.argue(change_items, "payment_method_id", "gift_card_9")
	given.of(id, request) == "holds"
	given.of("retail.payment_on_profile", request).status == "violated"
	given.missing(given.of(id, given.put(request, ["stale"], [array.concat(methods, ["gift_card_9"])]))) == {
		concat(".", array.concat(methods, ["gift_card_9", "source"])): "stale",
	}
}

test_what_cannot_be_priced_is_left_to_the_predicates_that_object if {
	poor := given.claim(change_items, balance, 0)
	shorter := given.argue(poor, "new_item_ids", ["lamp-b"])
	not_ordered := given.argue(poor, "item_ids", ["sofa-a", "chair-a"])
	no_variant := given.argue(poor, "new_item_ids", ["sofa-b", "chair-b"])
	every request in [shorter, not_ordered, no_variant] { given.of(id, request) == "holds" }
	given.of("retail.replacement_grounded", shorter).status == "violated"
	given.of("retail.items_in_order", not_ordered).status == "violated"
	given.of("retail.replacement_grounded", no_variant).status == "violated"
}

test_a_variant_that_is_not_available_is_still_priced if {
	request := given.claim(change_items, array.concat(chairs, ["chair-b", "available"]), false)
	given.of(id, request) == "holds"
	given.of(id, given.claim(request, balance, 0)).status == "violated"
}

test_the_whole_amount_is_paid_when_the_payment_method_changes if {
	given.of(id, change_payment) == given.violated(
		id,
		"revise",
		concat(" ", [
			"Gift card gift_card_1 holds $35.10, which does not cover the $190.00 to be paid.",
			"Let the customer choose another payment method on their profile: credit_card_1 and paypal_1.",
		]),
		[["auth", "user_id"], history, balance, source],
	)
	given.of(id, given.claim(change_payment, balance, 189.99)).status == "violated"
	given.of(id, given.claim(change_payment, balance, 190)) == "holds"
	given.of(id, given.claim(change_payment, array.concat(history, ["0", "amount"]), 35.1)) == "holds"
	given.of(id, given.claim(change_payment, array.concat(history, ["0", "amount"]), 0)) == "holds"
}

test_refunds_are_not_paid_again if {
	refund := {"transaction_type": "refund", "amount": 500, "payment_method_id": "credit_card_1"}
	given.of(id, given.claim(given.claim(change_payment, balance, 190), array.concat(history, ["-"]), refund)) == "holds"
}

test_unknown_while_something_could_still_decide if {
	path := concat(".", source)
	given.missing(given.of(id, given.forget(change_items, ["users"]))) == {path: "missing"}
	given.missing(given.of(id, given.outdate(change_items, methods))) == {path: "stale"}
	given.missing(given.of(id, given.outdate(change_items, balance))) == {concat(".", balance): "stale"}
	given.missing(given.of(id, given.outdate(change_payment, balance))) == {concat(".", balance): "stale"}
	given.missing(given.of(id, given.forget(change_items, ["auth"]))) == {"auth.user_id": "missing"}
	given.missing(given.of(id, given.forget(change_items, items))) == {"orders.#W1.items": "missing"}
	given.missing(given.of(id, given.outdate(change_items, chairs))) == {"products.chairs.variants": "stale"}
	given.missing(given.of(id, given.forget(change_payment, history))) == {"orders.#W1.payment_history": "missing"}
	given.missing(given.of(id, given.forget(given.forget(change_items, ["products"]), ["users"]))) == {
		path: "missing",
		"products.chairs.variants": "missing",
		"products.lamps.variants": "missing",
	}
}

cannot_be_told := concat(" ", [
	"Whether gift_card_1 covers what is to be paid cannot be told from what the shop has on record.",
	"Let the customer choose another method.",
])

test_violated_by_a_balance_that_is_no_number if {
	every value in [null, true, "1000000", [1000000], {"cents": 1000000}, 1e9] {
		given.of(id, given.claim(change_items, balance, value)).message == cannot_be_told
		given.of(id, given.claim(change_payment, balance, value)).status == "violated"
	}
	given.of(id, given.forget(change_items, balance)).message == cannot_be_told
}

test_violated_by_prices_and_amounts_that_are_no_numbers if {
	every value in [null, true, "1", [1], {}, -1e9] {
		given.of(id, given.claim(change_items, array.concat(items, ["0", "price"]), value)).message == cannot_be_told
		given.of(id, given.claim(change_items, array.concat(lamps, ["lamp-b", "price"]), value)).status == "violated"
		given.of(id, given.claim(change_payment, array.concat(history, ["0", "amount"]), value)).status == "violated"
	}
}

test_violated_by_odd_transactions if {
	every value in given.odd_values {
		entry_type := array.concat(history, ["0", "transaction_type"])
		given.of(id, given.claim(change_payment, entry_type, value)).status == "violated"
	}
	every value in [null, true, 0, "x", ["x"], [null], {}, [{"transaction_type": 7, "amount": 190}]] {
		given.of(id, given.claim(change_payment, history, value)).status == "violated"
	}
}

test_violated_by_odd_items_products_and_methods if {
	every value in [null, true, false, 0, "x", {}, {"0": {"item_id": "lamp-a"}}] {
		given.of(id, given.claim(change_items, items, value)).status == "violated"
	}
	every value in [null, true, false, 0, "x", [], [{"item_id": "lamp-b"}]] {
		given.of(id, given.claim(change_items, lamps, value)).status == "violated"
	}
	every value in [null, true, 0, [], {}] { given.of(id, given.claim(change_items, source, value)).status == "violated" }
}
