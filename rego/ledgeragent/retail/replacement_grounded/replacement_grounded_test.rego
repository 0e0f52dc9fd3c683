package ledgeragent.retail.replacement_grounded_test

import data.ledgeragent.retail.fixtures_test as given

id := "retail.replacement_grounded"

items := ["orders", "#W1", "items"]

lamps := ["products", "lamps", "variants"]

chairs := ["products", "chairs", "variants"]

# Two positions: a lamp and a chair.
replacing(new) := given.argue(given.change_items, "new_item_ids", new)

test_holds_for_available_variants_of_the_same_product if {
	given.of(id, given.change_items) == "holds"
	given.of(id, given.exchange) == "holds"
}

test_silent_elsewhere if given.of(id, given.return_items) == "silent"

test_violated_by_lists_of_different_lengths_whatever_was_read if {
	every new in [["lamp-b"], ["lamp-b", "chair-b", "chair-b"]] {
		given.of(id, given.forget(replacing(new), ["orders"])) == given.violated(
			id,
			"revise",
			concat("", [
				"The call names items and replacements in different numbers (2 and ",
				format_int(count(new), 10),
				"). Each item needs exactly one replacement, at the same position.",
			]),
			[],
		)
	}
}

test_lists_of_different_lengths_are_violated_when_everything_was_read_too if {
	every new in [["lamp-b"], ["lamp-b", "chair-b", "chair-b"]] {
		given.of(id, replacing(new)) == given.of(id, given.forget(replacing(new), ["orders"]))
		given.of(id, given.forget(replacing(new), ["products"])) == given.of(id, replacing(new))
	}
	first := given.argue(replacing(["lamp-b", "chair-b"]), "item_ids", ["lamp-a"])
	given.of(id, first).status == "violated"
}

test_violated_by_a_variant_that_is_not_available if {
	given.of(id, replacing(["lamp-d", "chair-b"])) == given.violated(
		id,
		"revise",
		concat(" ", [
			`Item lamp-d cannot replace item lamp-a: it is not an available variant of "Lamp".`,
			"Available: lamp-b and lamp-c.",
		]),
		[items, chairs, lamps],
	)
}

test_violated_by_variants_at_each_others_position if {
	given.of(id, replacing(["chair-b", "lamp-b"])) == given.violated(
		id,
		"revise",
		concat(" ", [
			`Item chair-b cannot replace item lamp-a: it is not an available variant of "Lamp".`,
			"Available: lamp-b and lamp-c.",
			`Item lamp-b cannot replace item chair-a: it is not an available variant of "Chair".`,
			"Available: chair-b.",
		]),
		[items, chairs, lamps],
	)
}

test_violated_by_the_item_itself_even_in_an_exchange if {
	given.of(id, given.argue(given.exchange, "new_item_ids", ["lamp-a"])) == given.violated(
		id,
		"revise",
		`Item lamp-a would be replaced by itself. Choose another variant of "Lamp".`,
		[["orders", "#W2", "items"]],
	)
}

test_the_item_itself_is_wrong_whatever_the_product_offers if {
	itself := given.argue(given.exchange, "new_item_ids", ["lamp-a"])
	given.of(id, given.forget(itself, ["products"])).status == "violated"
}

test_an_item_without_a_name_is_still_spoken_of if {
	unnamed := given.forget(replacing(["lamp-a", "chair-b"]), array.concat(items, ["0", "name"]))
	given.of(id, unnamed).message == "Item lamp-a would be replaced by itself. Choose another variant of the same product."
}

test_positions_of_items_that_are_not_in_the_order_are_left_to_items_in_order if {
	request := given.argue(replacing(["sofa-b", "chair-b"]), "item_ids", ["sofa-a", "chair-a"])
	given.of(id, request) == "holds"
	given.of("retail.items_in_order", request).status == "violated"
}

test_unknown_while_a_product_was_not_read if {
	given.missing(given.of(id, given.forget(given.change_items, ["products"]))) == {
		"products.lamps.variants": "missing",
		"products.chairs.variants": "missing",
	}
	given.missing(given.of(id, given.forget(given.change_items, chairs))) == {"products.chairs.variants": "missing"}
	given.missing(given.of(id, given.outdate(given.change_items, lamps))) == {"products.lamps.variants": "stale"}
}

test_one_wrong_position_decides_without_the_other_product if {
	request := replacing(["lamp-d", "chair-b"])
	given.of(id, given.forget(request, ["products", "chairs"])) == given.violated(
		id,
		"revise",
		given.of(id, request).message,
		[items, lamps],
	)
	itself := replacing(["lamp-a", "chair-b"])
	given.of(id, given.forget(itself, ["products", "chairs"])).paths == [items]
}

test_unknown_without_the_order if {
	given.missing(given.of(id, given.forget(given.change_items, items))) == {"orders.#W1.items": "missing"}
	given.missing(given.of(id, given.outdate(given.change_items, items))) == {"orders.#W1.items": "stale"}
}

test_a_variant_gone_stale_is_unknown_only_when_it_is_named if {
	named := given.outdate(given.change_items, array.concat(lamps, ["lamp-b"]))
	given.of(id, named) != "holds"
	other := given.outdate(given.change_items, array.concat(lamps, ["lamp-c"]))
	given.of(id, other) == "holds"
}

test_violated_by_odd_products if {
	every value in given.odd_values {
		given.of(id, given.claim(given.change_items, lamps, value)).status == "violated"
		given.of(id, given.claim(given.change_items, array.concat(lamps, ["lamp-b"]), value)).status == "violated"
		given.of(id, given.claim(given.change_items, array.concat(items, ["0", "product_id"]), value)) != "holds"
	}
}

test_violated_by_odd_items_and_availability if {
	every value in [null, true, false, 0, "x", {}, {"0": {"item_id": "lamp-a"}}] {
		given.of(id, given.claim(given.change_items, items, value)).status == "violated"
	}
	every value in [null, false, 1, "true", "false", [true], {"available": true}] {
		available := array.concat(lamps, ["lamp-b", "available"])
		given.of(id, given.claim(given.change_items, available, value)).status == "violated"
	}
}

test_products_that_are_no_text_are_read_again if {
	request := given.claim(given.exchange, ["orders", "#W2", "items", "0", "product_id"], 7)
	given.of(id, request) == given.violated(
		id,
		"revise",
		"The products of these items are not on record as the shop lists them. Read them again.",
		[["orders", "#W2", "items"]],
	)
}

test_products_that_are_a_list_are_not_found_by_their_number if {
	numbered := given.claim(given.exchange, ["orders", "#W2", "items", "0", "product_id"], 0)
	listed := given.claim(numbered, ["products"], [numbered.ledger.products.lamps])
	given.of(id, listed) != "holds"
	given.of("retail.gift_card_covers", given.argue(listed, "payment_method_id", "gift_card_1")) != "holds"
}
