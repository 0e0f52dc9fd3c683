package ledgeragent.retail.refund_payment_in_order_history_test

import data.ledgeragent.retail.fixtures_test as given

id := "retail.refund_payment_in_order_history"

methods := ["users", "ada_quist_1001", "payment_methods"]

history := ["orders", "#W2", "payment_history"]

to_gift_card := given.argue(given.return_items, "payment_method_id", "gift_card_1")

to_credit_card := given.argue(given.return_items, "payment_method_id", "credit_card_1")

test_holds_for_the_original_method if given.of(id, given.return_items) == "holds"

test_holds_for_a_gift_card_on_the_profile if given.of(id, to_gift_card) == "holds"

test_silent_elsewhere if given.of(id, given.exchange) == "silent"

test_violated_by_another_method_on_the_profile if {
	given.of(id, to_credit_card) == given.violated(
		id,
		"revise",
		concat(" ", [
			"The refund cannot go to credit_card_1.",
			"A refund goes back to a payment method that paid for order #W2 (paypal_1)",
			"or to a gift card on the customer's profile (gift_card_1). Ask the customer which of these they choose.",
		]),
		[["auth", "user_id"], history, methods],
	)
}

test_violated_by_a_gift_card_of_somebody_else if {
	given.of(id, given.argue(given.return_items, "payment_method_id", "gift_card_9")).status == "violated"
}

test_a_method_that_was_only_refunded_to_did_not_pay if {
	refund := {"transaction_type": "refund", "amount": 190, "payment_method_id": "credit_card_1"}
	given.of(id, given.claim(to_credit_card, array.concat(history, ["-"]), refund)).status == "violated"
}

test_every_payment_counts_as_original if {
	second := {"transaction_type": "payment", "amount": 5, "payment_method_id": "credit_card_1"}
	given.of(id, given.claim(to_credit_card, array.concat(history, ["-"]), second)) == "holds"
}

test_what_already_decides_needs_nothing_else if {
	given.of(id, given.forget(given.return_items, ["users"])) == "holds"
	given.of(id, given.forget(to_gift_card, history)) == "holds"
}

test_unknown_while_something_could_still_allow_it if {
	given.missing(given.of(id, given.forget(to_credit_card, history))) == {"orders.#W2.payment_history": "missing"}
	given.missing(given.of(id, given.outdate(to_credit_card, history))) == {"orders.#W2.payment_history": "stale"}
	given.missing(given.of(id, given.forget(to_gift_card, ["users"]))) == {concat(".", methods): "missing"}
	given.missing(given.of(id, given.outdate(to_gift_card, methods))) == {concat(".", methods): "stale"}
	given.missing(given.of(id, given.forget(to_gift_card, ["auth"]))) == {"auth.user_id": "missing"}
}

test_violated_by_odd_values if {
	every value in given.odd_values {
		given.of(id, given.claim(given.return_items, history, value)).status == "violated"
		given.of(id, given.claim(given.return_items, history, [value])).status == "violated"
		given.of(id, given.claim(to_gift_card, methods, value)).status == "violated"
		given.of(id, given.claim(to_gift_card, array.concat(methods, ["gift_card_1"]), value)).status == "violated"
	}
}

test_a_payment_without_a_method_is_no_choice if {
	paid_by_nobody := [{"transaction_type": "payment", "amount": 10, "payment_method_id": 5}]
	message := given.of(id, given.claim(given.return_items, history, paid_by_nobody)).message
	contains(message, "(none)")
}
