package ledgeragent.airline.payment_valid_test

import data.ledgeragent.airline.fixtures_test as given

id := "airline.payment_valid"

methods := ["users", "ada_quist_1001", "payment_methods"]

source(method) := array.concat(methods, [method, "source"])

paying(ids) := given.argue(given.book, "payment_methods", [{"payment_id": one, "amount": 10} | some one in ids])

rich := object.union(given.book, {"ledger": {"users": {"ada_quist_1001": {"payment_methods": {
	"certificate_2": {"source": "certificate", "id": "certificate_2", "amount": 100},
	"credit_card_2": {"source": "credit_card", "id": "credit_card_2"},
	"gift_card_2": {"source": "gift_card", "id": "gift_card_2", "amount": 10},
	"gift_card_3": {"source": "gift_card", "id": "gift_card_3", "amount": 10},
	"gift_card_4": {"source": "gift_card", "id": "gift_card_4", "amount": 10},
}}}}})

rich_paying(ids) := given.put(rich, ["action", "arguments"], paying(ids).action.arguments)

test_holds_for_methods_on_the_profile_within_the_limits if {
	every write in [given.book, given.change_flights, given.change_cabin, given.change_bags] {
		given.of(id, write) == "holds"
	}
	most := ["certificate_1", "credit_card_1", "gift_card_1", "gift_card_2", "gift_card_3"]
	given.of(id, rich_paying(most)) == "holds"
}

test_silent_elsewhere if {
	every write in [given.cancel, given.change_passengers, given.certificate] { given.of(id, write) == "silent" }
}

test_violated_by_a_method_that_is_not_on_the_profile if {
	every write in [given.change_bags, given.change_flights] {
		given.of(id, given.argue(write, "payment_id", "gift_card_9")) == given.violated(
			id,
			"revise",
			concat(" ", [
				"This cannot be paid with gift_card_9 (not on the profile).",
				"Allowed here: at most 1 credit_card and 1 gift_card, all on the customer's profile:",
				"certificate_1, credit_card_1 and gift_card_1.",
			]),
			[["auth", "user_id"], source("gift_card_9")],
		)
	}
}

test_violated_by_too_many_of_a_kind if {
	given.of(id, rich_paying(["certificate_1", "certificate_2", "credit_card_1"])) == given.violated(
		id,
		"revise",
		concat("", [
			"This cannot be paid with certificate_1 (certificate) and certificate_2 (certificate). ",
			"Allowed here: at most 1 certificate, 1 credit_card and 3 gift_card, all on the customer's profile: ",
			"certificate_1, certificate_2, credit_card_1, credit_card_2, ",
			"gift_card_1, gift_card_2, gift_card_3 and gift_card_4.",
		]),
		[["auth", "user_id"], source("certificate_1"), source("certificate_2")],
	)
	given.of(id, rich_paying(["credit_card_1", "credit_card_2"])).status == "violated"
	given.of(id, rich_paying(["gift_card_1", "gift_card_2", "gift_card_3", "gift_card_4"])).status == "violated"
	given.of(id, rich_paying(["credit_card_1", "credit_card_1"])).status == "violated"
}

test_a_change_takes_no_certificate if {
	every write in [given.change_flights, given.change_bags] {
		given.of(id, given.argue(write, "payment_id", "certificate_1")).status == "violated"
	}
}

test_violated_by_no_method if given.of(id, paying([])).status == "violated"

test_one_wrong_method_decides if {
	request := paying(["credit_card_9", "gift_card_1"])
	given.of(id, given.outdate(request, source("gift_card_1"))).status == "violated"
}

test_a_stale_balance_leaves_the_method_fresh if {
	given.of(id, given.outdate(given.change_bags, array.concat(methods, ["gift_card_1", "amount"]))) == "holds"
}

test_unknown_without_evidence if {
	given.missing(given.of(id, given.forget(given.change_bags, ["auth"]))) == {"auth.user_id": "missing"}
	name := concat(".", source("gift_card_1"))
	given.missing(given.of(id, given.forget(given.change_bags, ["users"]))) == {name: "missing"}
	given.missing(given.of(id, given.forget(given.change_bags, methods))) == {name: "missing"}
	given.missing(given.of(id, given.outdate(given.change_bags, methods))) == {name: "stale"}
	given.missing(given.of(id, given.outdate(given.change_bags, source("gift_card_1")))) == {name: "stale"}
}

# A certificate that was just sent may have any id.
test_an_absence_gone_stale_is_unknown if {
	request := given.argue(given.change_bags, "payment_id", "gift_card_9")
	given.missing(given.of(id, given.put(request, ["stale"], [array.concat(methods, ["?"])]))) == {
		concat(".", source("gift_card_9")): "stale",
	}
	given.of(id, given.put(given.change_bags, ["stale"], [array.concat(methods, ["?"])])) == "holds"
}

test_the_limits_are_policy_data if {
	stricter := given.settings("payment_limits", {"book_reservation": {"credit_card": 1, "gift_card": 0}})
	given.under(stricter, id, given.book).status == "violated"
	wider := given.settings("payment_limits", {"update_reservation_baggages": {"certificate": 1}})
	by_certificate := given.argue(given.change_bags, "payment_id", "certificate_1")
	given.under(wider, id, by_certificate) == "holds"
	every value in [null, "1", true, {}] {
		odd := given.settings("payment_limits", {"update_reservation_baggages": {"gift_card": value}})
		given.under(odd, id, given.change_bags).status == "violated"
	}
}

test_violated_by_odd_values if {
	every value in given.odd_values {
		given.of(id, given.claim(given.change_bags, source("gift_card_1"), value)).status == "violated"
		given.of(id, given.claim(given.change_bags, methods, value)) != "holds"
		given.of(id, given.claim(given.change_bags, array.concat(methods, ["gift_card_1"]), value)) != "holds"
	}
}
