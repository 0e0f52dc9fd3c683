package ledgeragent.retail.payment_change_single_test

import data.ledgeragent.retail.fixtures_test as given

id := "retail.payment_change_single"

history := ["orders", "#W1", "payment_history"]

payment := {"transaction_type": "payment", "amount": 190, "payment_method_id": "credit_card_1"}

test_holds_for_one_payment_by_another_method if given.of(id, given.change_payment) == "holds"

test_silent_elsewhere if given.of(id, given.change_items) == "silent"

test_violated_by_the_same_method if {
	given.of(id, given.argue(given.change_payment, "payment_method_id", "credit_card_1")) == given.violated(
		id,
		"revise",
		"Order #W1 is already paid with credit_card_1. The new payment method has to be a different one.",
		[history],
	)
}

test_violated_unless_there_is_exactly_one_payment if {
	refund := object.union(payment, {"transaction_type": "refund"})
	every entries in [[], [refund], [payment, payment], [payment, refund], ["payment"], [{}]] {
		given.of(id, given.claim(given.change_payment, history, entries)) == given.violated(
			id,
			"revise",
			concat(" ", [
				"The payment method of order #W1 can be changed only while its history is a single payment.",
				"It is not, so the method stays as it is.",
			]),
			[history],
		)
	}
}

test_violated_by_a_payment_without_a_method if {
	every entry in [
		object.remove(payment, ["payment_method_id"]),
		object.union(payment, {"payment_method_id": null}),
	] {
		given.of(id, given.claim(given.change_payment, history, [entry])).status == "violated"
	}
}

test_unknown_without_evidence if {
	given.missing(given.of(id, given.forget(given.change_payment, history))) == {"orders.#W1.payment_history": "missing"}
	given.missing(given.of(id, given.outdate(given.change_payment, history))) == {"orders.#W1.payment_history": "stale"}
}

test_violated_by_odd_values if {
	every value in given.odd_values {
		given.of(id, given.claim(given.change_payment, history, value)).verdict == "revise"
		given.of(id, given.claim(given.change_payment, history, [value])).status == "violated"
	}
}
