package ledgeragent.telecom.refuel_limit_test

import data.ledgeragent.telecom.fixtures_test as given

id := "telecom.refuel_limit"

amount(gigabytes) := given.argue(given.refuel, "gb_amount", gigabytes)

earlier(request, gigabytes) := given.after(request, "refuel_data", {
	"customer_id": "C71",
	"line_id": "L2",
	"gb_amount": gigabytes,
})

refused(before) := given.violated(
	id,
	"revise",
	concat("", [
		"A refuelling adds more than 0 GB, and all of them together at most 2 GB to one line. ",
		"Already refuelled on line L2 in this conversation: ",
		before,
		" GB.",
	]),
	[],
)

test_holds_up_to_the_limit if {
	every gigabytes in [0.000001, 0.1, 1, 1.999999, 2, 2.0] { given.of(id, amount(gigabytes)) == "holds" }
}

test_silent_elsewhere if given.of(id, given.roam) == "silent"

test_violated_by_more_than_the_limit_and_by_nothing if {
	every gigabytes in [2.000001, 2.1, 3, 1000, 999999, 1000000, 1e300, 0, 0.0, -0.5, -2] {
		given.of(id, amount(gigabytes)) == refused("0")
	}
}

test_what_was_refuelled_before_counts if {
	given.of(id, earlier(amount(1), 1)) == "holds"
	given.of(id, earlier(amount(1.000001), 1)) == refused("1")
	given.of(id, earlier(amount(0.5), 1.5)) == "holds"
	given.of(id, earlier(amount(0.5), 1.500001)) == refused("1.500001")
	given.of(id, earlier(earlier(amount(0.5), 1.25), 0.5)) == refused("1.75")
	given.of(id, earlier(amount(1), 2)) == refused("2")
}

test_sums_of_decimals_are_exact if {
	given.of(id, earlier(earlier(amount(1.7), 0.1), 0.2)) == "holds"
	given.of(id, earlier(amount(1.9), 0.1)) == "holds"
	given.of(id, earlier(earlier(amount(1.7), 0.1), 0.200001)) == refused("0.300001")
}

test_an_earlier_one_counts_whatever_its_outcome if {
	every outcome in ["executed", "uncertain", "pending"] {
		given.of(id, given.put(earlier(amount(1), 1.5), ["history", "0", "outcome"], outcome)) == refused("1.5")
	}
	sibling := {"customer_id": "C71", "line_id": "L2", "gb_amount": 1.5}
	given.of(id, given.beside(amount(1), "refuel_data", sibling)) == refused("1.5")
}

test_other_lines_and_other_writes_do_not_count if {
	other_line := given.after(amount(2), "refuel_data", {"customer_id": "C71", "line_id": "L1", "gb_amount": 2})
	given.of(id, given.after(other_line, "enable_roaming", {"line_id": "L2", "gb_amount": 2})) == "holds"
}

cannot_be_told := given.violated(
	id,
	"revise",
	"How much can still be refuelled on this line cannot be told, so nothing can be refuelled.",
	[],
)

test_an_earlier_amount_that_is_none_leaves_nothing if {
	every value in [null, true, "1", [1], {}, 0, -1, 1e9] {
		given.of(id, earlier(amount(0.1), value)) == cannot_be_told
	}
	nameless := given.after(amount(0.1), "refuel_data", {"line_id": "L2"})
	given.of(id, nameless) == cannot_be_told
}

test_the_policy_data_sets_the_limit if {
	settings := {"refuel_limit_gb": 5}
	given.of(id, amount(5)) == "holds" with data.ledgeragent.telecom.settings as settings
	given.of(id, amount(5.1)).status == "violated" with data.ledgeragent.telecom.settings as settings
}

test_violated_without_sound_policy_data if {
	every value in [null, true, "2", [2], {"gb": 2}, 0, -1, 1000000, 1e9] {
		settings := {"refuel_limit_gb": value}
		given.of(id, amount(0.1)) == cannot_be_told with data.ledgeragent.telecom.settings as settings
	}
	given.of(id, amount(0.1)) == cannot_be_told with data.ledgeragent.telecom.settings as {}
}

test_amounts_that_are_no_numbers_never_hold if {
	every value in [null, true, "1", [1], {}] {
		request := amount(value)
		not data.ledgeragent.telecom.refuel_limit.holds with input as request
	}
}
