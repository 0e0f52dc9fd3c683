package ledgeragent.retail.order_pending_test

import data.ledgeragent.retail.fixtures_test as given

id := "retail.order_pending"

status := ["orders", "#W1", "status"]

guarded := [given.cancel, given.change_address, given.change_payment, given.change_items]

test_holds_for_a_pending_order if {
	every write in guarded { given.of(id, write) == "holds" }
}

test_silent_elsewhere if {
	every write in [given.return_items, given.exchange, given.change_profile] { given.of(id, write) == "silent" }
}

test_violated_by_any_other_status if {
	every write in guarded {
		every value in ["processed", "delivered", "cancelled", "pending (item modified)", "Pending", "pending "] {
			given.of(id, given.claim(write, status, value)) == given.violated(
				id,
				"block",
				concat("", [
					`The status of order #W1 is "`,
					value,
					`". Only an order whose status is exactly "pending" can be cancelled or modified.`,
				]),
				[status],
			)
		}
	}
}

verdict_under(settings, request) := verdict if {
	decision := given.decide(request) with data.ledgeragent.retail.settings as settings
	verdict := decision.verdict
}

test_policy_data_can_exempt_the_address if {
	change := given.claim(given.change_address, status, "pending (item modified)")
	exempt := {"address_change_after_item_modification": true}

	verdict_under(exempt, change) == "allow"
	verdict_under(exempt, given.claim(given.cancel, status, "pending (item modified)")) == "block"
	verdict_under(exempt, given.claim(change, status, "processed")) == "block"
	verdict_under({}, change) == "block"
	verdict_under({"address_change_after_item_modification": "yes"}, change) == "block"
}

test_unknown_without_evidence if {
	every write in guarded {
		given.missing(given.of(id, given.forget(write, status))) == {"orders.#W1.status": "missing"}
		given.missing(given.of(id, given.outdate(write, status))) == {"orders.#W1.status": "stale"}
	}
}

test_an_address_gone_stale_leaves_the_status_fresh if {
	request := given.put(given.cancel, ["stale"], [["orders", "#W1", "address"]])
	given.of(id, request) == "holds"
}

test_violated_by_odd_values if {
	every value in given.odd_values { given.of(id, given.claim(given.cancel, status, value)).verdict == "block" }
}
