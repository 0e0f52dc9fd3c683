package ledgeragent.airline.flight_from_observed_search_test

import data.ledgeragent.airline.fixtures_test as given

id := "airline.flight_from_observed_search"

offered := ["flights", "LA201", "2026-03-11"]

searched := ["searched", "2026-03-11"]

flights := ["reservations", "RES001", "flights"]

guarded := [given.book, given.change_flights]

test_holds_for_flights_that_a_search_offered if {
	every write in guarded {
		given.of(id, write) == "holds"
		given.of(id, given.forget(write, searched)) == "holds"
	}
	given.of(id, given.forget(given.change_flights, flights)) == "holds"
}

test_holds_for_flights_that_stay if {
	given.of(id, given.forget(given.change_cabin, ["flights"])) == "holds"
	given.of(id, given.forget(given.forget(given.change_cabin, ["flights"]), ["searched"])) == "holds"
}

test_silent_elsewhere if {
	every write in [given.cancel, given.change_bags, given.certificate] { given.of(id, write) == "silent" }
}

test_violated_by_a_flight_that_a_search_of_its_date_did_not_offer if {
	given.of(id, given.forget(given.book, offered)) == given.violated(
		id,
		"revise",
		concat(" ", [
			"No search in this conversation offered LA201 2026-03-11, although that date was searched.",
			"Search the route on that date, and use a flight number and date that the search offers.",
		]),
		[searched],
	)
	given.of(id, given.forget(given.change_flights, offered)) == given.violated(
		id,
		"revise",
		concat(" ", [
			"No search in this conversation offered LA201 2026-03-11, although that date was searched.",
			"Search the route on that date, and use a flight number and date that the search offers,",
			"or keep flights of the reservation: LA101 2026-03-10 and LA102 2026-03-10.",
		]),
		[flights, searched],
	)
}

test_violated_by_a_flight_on_another_date if {
	other := {"flight_number": "LA201", "date": "2026-03-10"}
	given.of(id, given.argue(given.book, "flights", [other])).status == "violated"
	moved := {"flight_number": "LA101", "date": "2026-03-11"}
	given.of(id, given.argue(given.change_cabin, "flights", [moved, given.second])).status == "violated"
}

test_one_wrong_flight_decides_without_another_search if {
	unsearched := {"flight_number": "LA777", "date": "2026-04-01"}
	wrong := {"flight_number": "LA999", "date": "2026-03-11"}
	found := given.of(id, given.argue(given.book, "flights", [unsearched, wrong]))
	found.status == "violated"
	found.paths == [searched]
	beside_a_reserved_one := given.of(id, given.argue(given.change_cabin, "flights", [given.first, wrong]))
	beside_a_reserved_one.paths == [flights, searched]
	given.missing(given.of(id, given.argue(given.book, "flights", [unsearched, given.direct]))) == {
		"searched.2026-04-01": "missing",
	}
}

test_unknown_without_a_search_of_the_date if {
	every write in guarded {
		unread := given.forget(write, offered)
		given.missing(given.of(id, given.forget(unread, searched))) == {concat(".", searched): "missing"}
		given.missing(given.of(id, given.outdate(unread, searched))) == {concat(".", searched): "stale"}
		given.missing(given.of(id, given.outdate(write, offered))) == {concat(".", offered): "stale"}
	}
	given.missing(given.of(id, given.outdate(given.forget(given.change_flights, offered), flights))) == {
		concat(".", flights): "stale",
	}
}

test_violated_by_odd_values if {
	every value in [null, true, false, 0, "x", [], ["x"]] {
		given.of(id, given.claim(given.book, offered, value)).status == "violated"
	}
	unread := given.forget(given.book, offered)
	every value in given.odd_values { given.of(id, given.claim(unread, searched, value)).status == "violated" }
	every value in given.odd_values {
		given.of(id, given.claim(given.forget(given.change_cabin, ["flights"]), flights, value)).status == "violated"
	}
}
