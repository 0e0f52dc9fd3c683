package ledgeragent.airline.owner_test

import data.ledgeragent.airline.fixtures_test as given

id := "airline.owner"

owner := ["reservations", "RES001", "user_id"]

test_holds_for_the_customers_own_reservation_and_profile if {
	every write in given.writes { given.of(id, write) == "holds" }
}

test_holds_for_whom_the_host_signed_in_whichever_profile_was_read_first if {
	every write in given.writes {
		given.of(id, given.signed_in(given.forget(write, ["auth"]), "ada_quist_1001")) == "holds"
		other := given.claim(write, ["auth", "user_id"], "bo_lind_2002")
		given.of(id, given.signed_in(other, "ada_quist_1001")) == "holds"
	}
}

test_violated_by_another_customers_reservation if {
	given.of(id, given.claim(given.cancel, owner, "bo_lind_2002")) == given.violated(
		id,
		"block",
		concat(" ", [
			"Reservation RES001 belongs to bo_lind_2002, not to the customer of this conversation, ada_quist_1001.",
			"Only their own reservations and profile can be changed.",
		]),
		[["auth", "user_id"], owner],
	)
}

test_violated_by_another_customers_profile if {
	every write in [given.book, given.certificate] {
		given.of(id, given.argue(write, "user_id", "bo_lind_2002")) == given.violated(
			id,
			"block",
			concat(" ", [
				"This profile belongs to bo_lind_2002, not to the customer of this conversation, ada_quist_1001.",
				"Only their own reservations and profile can be changed.",
			]),
			[["auth", "user_id"]],
		)
	}
}

test_violated_for_somebody_else_whom_the_host_signed_in if {
	given.of(id, given.signed_in(given.cancel, "bo_lind_2002")).verdict == "block"
}

test_a_principal_in_the_session_that_is_only_claimed_settles_nothing if {
	given.missing(given.of(id, given.forget(given.cancel, ["auth"]))) == {"auth.user_id": "missing"}
}

test_unknown_without_evidence if {
	given.missing(given.of(id, given.forget(given.book, ["auth"]))) == {"auth.user_id": "missing"}
	given.missing(given.of(id, given.outdate(given.cancel, ["auth", "user_id"]))) == {"auth.user_id": "stale"}
	given.missing(given.of(id, given.forget(given.cancel, ["reservations"]))) == {concat(".", owner): "missing"}
	given.missing(given.of(id, given.outdate(given.cancel, owner))) == {concat(".", owner): "stale"}
}

test_violated_by_odd_values if {
	nobody := given.of(id, given.claim(given.cancel, ["auth", "user_id"], 7))
	nobody.message == concat(" ", [
		"Reservation RES001 belongs to ada_quist_1001, not to the customer of this conversation, who is not known.",
		"Only their own reservations and profile can be changed.",
	])
	every value in given.odd_values {
		given.of(id, given.claim(given.cancel, owner, value)).verdict == "block"
		given.of(id, given.claim(given.cancel, ["auth", "user_id"], value)).status == "violated"
	}
}

test_whom_the_host_signed_in_needs_no_look_up if {
	request := given.signed_in(given.forget(given.cancel, ["reservations"]), "ada_quist_1001")
	names := [path[0] | some path in given.of(id, given.forget(request, ["auth"])).paths]
	count(names) > 0
	every name in names { name != "auth" }
}
