package ledgeragent.retail.order_delivered_test

import data.ledgeragent.retail.fixtures_test as given

id := "retail.order_delivered"

status := ["orders", "#W2", "status"]

guarded := [given.return_items, given.exchange]

test_holds_for_a_delivered_order if {
	every write in guarded { given.of(id, write) == "holds" }
}

test_silent_elsewhere if given.of(id, given.cancel) == "silent"

test_violated_by_any_other_status if {
	every write in guarded {
		every value in ["pending", "processed", "cancelled", "return requested", "exchange requested", "Delivered"] {
			given.of(id, given.claim(write, status, value)) == given.violated(
				id,
				"block",
				concat("", [
					`The status of order #W2 is "`,
					value,
					`". Only an order whose status is exactly "delivered" can be returned or exchanged.`,
				]),
				[status],
			)
		}
	}
}

test_unknown_without_evidence if {
	every write in guarded {
		given.missing(given.of(id, given.forget(write, status))) == {"orders.#W2.status": "missing"}
		given.missing(given.of(id, given.outdate(write, status))) == {"orders.#W2.status": "stale"}
	}
}

test_violated_by_odd_values if {
	every value in given.odd_values { given.of(id, given.claim(given.exchange, status, value)).verdict == "block" }
}
