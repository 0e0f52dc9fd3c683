package ledgeragent.telecom.owner_test

import data.ledgeragent.telecom.fixtures_test as given

id := "telecom.owner"

lines := ["customers", "C71", "line_ids"]

bills := ["customers", "C71", "bill_ids"]

test_holds_for_the_customers_own_lines_and_bills if {
	every write in given.writes { given.of(id, write) == "holds" }
}

test_holds_for_whom_the_host_signed_in if {
	every write in given.writes {
		given.of(id, given.signed_in(given.forget(write, ["auth"]), "C71")) == "holds"
		given.of(id, given.signed_in(write, "C71")) == "holds"
	}
}

test_a_principal_that_is_only_claimed_proves_nothing if {
	request := given.put(given.roam, ["session", "principal", "source"], "claimed")
	given.missing(given.of(id, given.forget(request, ["auth"])))["auth.customer_id"] == "missing"
}

test_violated_by_another_customer_whatever_was_read_of_them if {
	every write in given.writes {
		request := given.argue(write, "customer_id", "C72")
		given.of(id, request) == given.violated(
			id,
			"block",
			concat(" ", [
				"The call names customer C72, but the customer identified in this conversation is C71.",
				"Only their own lines and bills can be changed.",
			]),
			[["auth", "customer_id"]],
		)
		given.of(id, given.forget(request, ["customers"])) == given.of(id, request)
	}
}

test_violated_by_a_line_of_somebody_else if {
	every write in given.line_writes {
		given.of(id, given.argue(write, "line_id", "L9")) == given.violated(
			id,
			"block",
			concat(" ", [
				"Line L9 is not on the profile of customer C71. On it: L1 and L2.",
				"Only their own lines and bills can be changed.",
			]),
			[["auth", "customer_id"], lines],
		)
	}
}

test_violated_by_a_bill_of_somebody_else if {
	given.of(id, given.argue(given.ask_to_pay, "bill_id", "B9")) == given.violated(
		id,
		"block",
		concat(" ", [
			"Bill B9 is not on the profile of customer C71. On it: B1 and B2.",
			"Only their own lines and bills can be changed.",
		]),
		[["auth", "customer_id"], bills],
	)
}

test_a_list_of_bills_is_not_the_profile if {
	shown := given.claim(given.ask_to_pay, ["customer_bills", "C71", "-"], "B9")
	given.of(id, given.argue(shown, "bill_id", "B9")).verdict == "block"
}

test_lines_and_bills_are_not_taken_for_each_other if {
	given.of(id, given.argue(given.ask_to_pay, "bill_id", "L1")).verdict == "block"
	given.of(id, given.argue(given.roam, "line_id", "B1")).verdict == "block"
}

test_violated_when_a_look_up_proves_somebody_else_than_the_host if {
	every write in given.writes {
		given.of(id, given.signed_in(given.forget(write, ["customers"]), "C72")) == given.violated(
			id,
			"block",
			concat(" ", [
				"The host signed in C72, but a look-up in this conversation identified C71.",
				"Nothing can be changed for either of them.",
			]),
			[["auth", "customer_id"]],
		)
	}
}

test_violated_by_such_a_look_up_even_when_the_call_names_whom_the_host_signed_in if {
	every write in given.writes {
		request := given.claim(given.signed_in(write, "C71"), ["auth", "customer_id"], "C72")
		given.of(id, request) == given.violated(
			id,
			"block",
			concat(" ", [
				"The host signed in C71, but a look-up in this conversation identified C72.",
				"Nothing can be changed for either of them.",
			]),
			[["auth", "customer_id"]],
		)
		given.of(id, given.forget(request, ["customers"])) == given.of(id, request)
	}
}

test_whom_the_host_signed_in_needs_no_look_up if {
	request := given.argue(given.signed_in(given.roam, "C71"), "customer_id", "C72")
	given.of(id, given.outdate(request, ["auth", "customer_id"])).status == "violated"
	given.of(id, given.forget(request, ["auth"])).paths == []
}

test_violated_by_what_is_no_customer_id if {
	every value in [null, 7, true, "", ["C71"], {}] {
		given.of(id, given.claim(given.roam, ["auth", "customer_id"], value)) == given.violated(
			id,
			"block",
			"What is on record as the customer's id is no customer id. Identify the customer.",
			[["auth", "customer_id"]],
		)
	}
}

test_unknown_before_the_customer_is_identified if {
	every write in given.writes {
		given.missing(given.of(id, given.forget(write, ["auth"]))) == {"auth.customer_id": "missing"}
		given.missing(given.of(id, given.outdate(write, ["auth", "customer_id"]))) == {"auth.customer_id": "stale"}
	}
}

test_unknown_without_the_profile if {
	every write in given.line_writes {
		given.missing(given.of(id, given.forget(write, ["customers"]))) == {"customers.C71.line_ids": "missing"}
		given.missing(given.of(id, given.outdate(write, lines))) == {"customers.C71.line_ids": "stale"}
	}
	given.missing(given.of(id, given.forget(given.ask_to_pay, bills))) == {"customers.C71.bill_ids": "missing"}
	given.missing(given.of(id, given.outdate(given.ask_to_pay, bills))) == {"customers.C71.bill_ids": "stale"}
}

test_bills_gone_stale_leave_the_lines_fresh if given.of(id, given.outdate(given.roam, bills)) == "holds"

test_violated_by_odd_values if {
	every value in array.concat(given.odd_values, [null]) {
		given.of(id, given.claim(given.roam, ["auth", "customer_id"], value)) != "holds"
		given.of(id, given.claim(given.roam, lines, value)).verdict == "block"
		given.of(id, given.claim(given.ask_to_pay, bills, value)).verdict == "block"
	}
	every value in [null, 7, true, ["L2"], {}] {
		given.of(id, given.claim(given.roam, lines, ["L2", value])).status == "violated"
	}
}

test_a_profile_that_is_odd_is_still_spoken_of if {
	given.of(id, given.claim(given.roam, lines, {"0": "L2"})).message == concat(" ", [
		"Line L2 is not on the profile of customer C71. On it: none.",
		"Only their own lines and bills can be changed.",
	])
}
