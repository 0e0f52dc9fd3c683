package ledgeragent.airline.passenger_count_test

import data.ledgeragent.airline.fixtures_test as given

id := "airline.passenger_count"

passengers := ["reservations", "RES001", "passengers"]

party(request, size) := given.argue(request, "passengers", [given.passengers[0] | some _ in numbers.range(1, size)])

test_holds_for_one_to_five_passengers if {
	every size in [1, 2, 5] { given.of(id, party(given.book, size)) == "holds" }
}

test_holds_when_the_number_stays if {
	given.of(id, given.change_passengers) == "holds"
	given.of(id, party(given.claim(given.change_passengers, passengers, given.passengers), 2)) == "holds"
}

test_silent_elsewhere if given.of(id, given.change_bags) == "silent"

test_violated_by_a_larger_party if {
	given.of(id, party(given.book, 6)) == given.violated(
		id,
		"revise",
		concat(" ", [
			"A reservation is for 1 to 5 passengers; the call names 6.",
			"Ask the customer whether to make several reservations.",
		]),
		[],
	)
}

test_violated_by_nobody if given.of(id, given.argue(given.book, "passengers", [])).verdict == "revise"

test_violated_when_the_number_changes if {
	every size in [1, 3] {
		given.of(id, party(given.change_passengers, size)) == given.violated(
			id,
			"block",
			concat("", [
				"Reservation RES001 is for 2 passengers; the call names ",
				format_int(size, 10),
				". The number of passengers cannot be changed.",
			]),
			[passengers],
		)
	}
}

test_the_largest_party_is_policy_data if {
	larger := given.settings("max_passengers", 6)
	given.under(larger, id, party(given.book, 6)) == "holds"
	given.under(larger, id, party(given.book, 7)).verdict == "revise"
	every value in [null, "5", [5]] {
		given.under(given.settings("max_passengers", value), id, given.book).verdict == "revise"
	}
}

test_unknown_without_evidence if {
	given.missing(given.of(id, given.forget(given.change_passengers, passengers))) == {concat(".", passengers): "missing"}
	given.missing(given.of(id, given.outdate(given.change_passengers, passengers))) == {concat(".", passengers): "stale"}
}

test_violated_by_odd_values if {
	every value in [null, true, 2, "ab", {"a": 1, "b": 2}, []] {
		given.of(id, given.claim(given.change_passengers, passengers, value)).verdict == "block"
	}
}
