package ledgeragent.retail.order_owner_test

import data.ledgeragent.retail.fixtures_test as given

id := "retail.order_owner"

test_holds_for_the_customers_own_orders_and_profile if {
	every write in given.writes { given.of(id, write) == "holds" }
}

test_holds_for_whom_the_host_signed_in if {
	request := given.signed_in(given.forget(given.cancel, ["auth"]), "ada_quist_1001")
	given.of(id, request) == "holds"
	given.of(id, given.signed_in(given.change_profile, "ada_quist_1001")) == "holds"
}

test_violated_by_another_customers_order if {
	request := given.claim(given.cancel, ["orders", "#W1", "user_id"], "bo_lind_2002")
	given.of(id, request) == given.violated(
		id,
		"block",
		concat(" ", [
			"Order #W1 belongs to bo_lind_2002, not to the authenticated customer, ada_quist_1001.",
			"Only their own orders and profile can be changed in this conversation.",
		]),
		[["auth", "user_id"], ["orders", "#W1", "user_id"]],
	)
}

test_violated_by_another_customers_profile if {
	given.of(id, given.argue(given.change_profile, "user_id", "bo_lind_2002")) == given.violated(
		id,
		"block",
		concat(" ", [
			"This profile belongs to bo_lind_2002, not to the authenticated customer, ada_quist_1001.",
			"Only their own orders and profile can be changed in this conversation.",
		]),
		[["auth", "user_id"]],
	)
}

test_violated_when_a_look_up_proves_somebody_else_than_the_host if {
	every write in given.writes {
		given.of(id, given.signed_in(given.forget(write, ["orders"]), "bo_lind_2002")) == given.violated(
			id,
			"block",
			concat(" ", [
				"The host signed in bo_lind_2002, but a look-up in this conversation identified ada_quist_1001.",
				"Nothing can be changed for either of them.",
			]),
			[["auth", "user_id"]],
		)
	}
}

test_unknown_without_evidence if {
	given.missing(given.of(id, given.forget(given.cancel, ["auth"]))) == {"auth.user_id": "missing"}
	given.missing(given.of(id, given.forget(given.change_profile, ["auth"]))) == {"auth.user_id": "missing"}
	given.missing(given.of(id, given.forget(given.cancel, ["orders"]))) == {"orders.#W1.user_id": "missing"}
	given.missing(given.of(id, given.forget(given.forget(given.cancel, ["orders"]), ["auth"]))) == {
		"auth.user_id": "missing",
		"orders.#W1.user_id": "missing",
	}
}

test_unknown_when_stale if {
	given.missing(given.of(id, given.outdate(given.cancel, ["auth"]))) == {"auth.user_id": "stale"}
	given.missing(given.of(id, given.outdate(given.cancel, ["orders", "#W1"]))) == {"orders.#W1.user_id": "stale"}
}

test_violated_by_odd_values if {
	unproved := given.of(id, given.claim(given.cancel, ["auth", "user_id"], 7))
	unproved.message == concat(" ", [
		"Order #W1 belongs to ada_quist_1001, not to the authenticated customer, who is not known.",
		"Only their own orders and profile can be changed in this conversation.",
	])
	every value in given.odd_values {
		given.of(id, given.claim(given.cancel, ["orders", "#W1", "user_id"], value)).verdict == "block"
		given.of(id, given.claim(given.cancel, ["auth", "user_id"], value)).status == "violated"
	}
}

test_whom_the_host_signed_in_needs_no_look_up if {
	request := given.signed_in(given.forget(given.cancel, ["orders"]), "ada_quist_1001")
	names := [path[0] | some path in given.of(id, given.forget(request, ["auth"])).paths]
	count(names) > 0
	every name in names { name != "auth" }
}
