package ledgeragent.retail.items_in_order_test

import data.ledgeragent.retail.fixtures_test as given

id := "retail.items_in_order"

items := ["orders", "#W2", "items"]

test_holds_for_items_of_the_order if {
	every write in [given.return_items, given.exchange, given.change_items] { given.of(id, write) == "holds" }
}

test_silent_elsewhere if given.of(id, given.cancel) == "silent"

test_violated_by_an_item_that_is_not_in_the_order if {
	given.of(id, given.argue(given.return_items, "item_ids", ["lamp-a", "sofa-a"])) == given.violated(
		id,
		"revise",
		"Order #W2 does not hold sofa-a, or not as often as the call names it. Its items: chair-a (2 times) and lamp-a.",
		[items],
	)
}

test_violated_by_an_item_named_more_often_than_it_was_ordered if {
	given.of(id, given.argue(given.return_items, "item_ids", ["chair-a", "chair-a", "chair-a"])) == given.violated(
		id,
		"revise",
		"Order #W2 does not hold chair-a, or not as often as the call names it. Its items: chair-a (2 times) and lamp-a.",
		[items],
	)
}

test_a_call_that_names_nothing_does_not_hold if {
	request := given.argue(given.return_items, "item_ids", [])
	not data.ledgeragent.retail.items_in_order.holds with input as request
}

test_unknown_without_evidence if {
	given.missing(given.of(id, given.forget(given.return_items, items))) == {"orders.#W2.items": "missing"}
	given.missing(given.of(id, given.outdate(given.exchange, items))) == {"orders.#W2.items": "stale"}
}

test_violated_by_odd_values if {
	every value in given.odd_values {
		given.of(id, given.claim(given.return_items, items, value)).verdict == "revise"
		given.of(id, given.claim(given.return_items, items, [value])).status == "violated"
	}
}

test_items_that_do_not_stand_in_a_list_are_no_items if {
	same := {"0": {"item_id": "lamp-a"}}
	given.of(id, given.claim(given.exchange, items, same)).status == "violated"
}
