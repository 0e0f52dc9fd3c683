package ledgeragent.retail.once_per_order_test

import data.ledgeragent.retail.fixtures_test as given

id := "retail.once_per_order"

status := ["orders", "#W2", "status"]

ran := given.violated(
	id,
	"block",
	concat(" ", [
		"The items of order #W2 were already modified, exchanged or returned in this conversation.",
		"This can be done once per order.",
	]),
	[],
)

test_holds_the_first_time if {
	every write in [given.return_items, given.exchange, given.change_items] { given.of(id, write) == "holds" }
}

test_silent_elsewhere if given.of(id, given.cancel) == "silent"

test_violated_by_an_earlier_one_whatever_its_outcome if {
	every tool in data.ledgeragent.retail.once_per_order.guards {
		every outcome in ["executed", "uncertain", "pending"] {
			earlier := given.after(given.exchange, tool, {"order_id": "#W2"})
			given.of(id, given.put(earlier, ["history", "0", "outcome"], outcome)) == ran
		}
	}
}

test_violated_by_one_admitted_in_the_same_message if {
	sibling := {"tool": "return_delivered_order_items", "arguments": {"order_id": "#W2"}}
	given.of(id, given.put(given.exchange, ["siblings", "-"], sibling)) == ran
}

test_an_earlier_one_decides_even_when_the_status_is_not_known if {
	earlier := given.after(given.exchange, "exchange_delivered_order_items", {"order_id": "#W2"})
	given.of(id, given.outdate(earlier, status)) == ran
	given.of(id, given.forget(earlier, status)) == ran
}

test_other_orders_and_other_writes_do_not_count if {
	other_order := given.after(given.exchange, "exchange_delivered_order_items", {"order_id": "#W3"})
	other_write := given.after(other_order, "modify_pending_order_address", {"order_id": "#W2"})
	given.of(id, other_write) == "holds"
}

test_violated_by_a_status_that_shows_one if {
	every value in ["pending (item modified)", "exchange requested", "return requested"] {
		given.of(id, given.claim(given.exchange, status, value)) == given.violated(
			id,
			"block",
			concat("", [
				`The items of order #W2 were already modified, exchanged or returned (its status is "`,
				value,
				`"). This can be done once per order.`,
			]),
			[status],
		)
	}
}

test_unknown_without_evidence if {
	given.missing(given.of(id, given.forget(given.exchange, status))) == {"orders.#W2.status": "missing"}
	given.missing(given.of(id, given.outdate(given.exchange, status))) == {"orders.#W2.status": "stale"}
}

test_violated_by_a_status_that_is_no_text if {
	every value in [null, 1, true, false, [], {}] {
		given.of(id, given.claim(given.exchange, status, value)).verdict == "block"
	}
}
