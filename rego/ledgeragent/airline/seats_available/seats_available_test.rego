package ledgeragent.airline.seats_available_test

import data.ledgeragent.airline.fixtures_test as given

id := "airline.seats_available"

seats := ["flights", "LA201", "2026-03-11", "available_seats", "economy"]

reserved(field) := ["reservations", "RES001", field]

guarded := [given.book, given.change_flights]

test_holds_when_there_are_just_enough_seats if {
	every write in [given.book, given.change_flights, given.change_cabin] { given.of(id, write) == "holds" }
}

test_silent_elsewhere if {
	every write in [given.cancel, given.change_bags, given.change_passengers] { given.of(id, write) == "silent" }
}

test_violated_by_one_seat_too_few if {
	message := concat(" ", [
		"There are not enough free seats in economy for 2 passengers on LA201 2026-03-11 (free: 1).",
		"Choose another flight or cabin.",
	])
	given.of(id, given.claim(given.book, seats, 1)) == given.violated(id, "revise", message, [seats])
	given.of(id, given.claim(given.change_flights, seats, 1)) == given.violated(
		id,
		"revise",
		message,
		[seats, reserved("flights"), reserved("passengers")],
	)
}

test_the_cabin_of_the_call_counts if {
	given.of(id, given.argue(given.book, "cabin", "basic_economy")).status == "violated"
	given.of(id, given.argue(given.book, "cabin", "business")) == "holds"
	none := given.forget(given.book, seats)
	given.of(id, none).message == none_offered
}

none_offered := concat(" ", [
	"There are not enough free seats in economy for 2 passengers on LA201 2026-03-11 (none offered).",
	"Choose another flight or cabin.",
])

full := ["flights", "LA101", "2026-03-10", "available_seats"]

test_a_flight_that_stays_in_its_cabin_needs_no_seats if {
	keeps := given.argue(given.change_cabin, "cabin", "economy")
	given.of(id, given.claim(keeps, full, {"economy": 0})) == "holds"
}

test_a_flight_that_stays_in_another_cabin_needs_the_seats_that_a_search_showed if {
	found := given.of(id, given.claim(given.change_cabin, full, {"business": 1}))
	found.status == "violated"
	found.paths == [
		array.concat(full, ["business"]),
		["flights", "LA102", "2026-03-10", "available_seats", "business"],
		reserved("cabin"),
		reserved("flights"),
		reserved("passengers"),
	]
	given.of(id, given.forget(given.change_cabin, ["flights", "LA101"])) == "holds"
}

test_flights_that_no_search_offered_are_left_to_the_search if {
	every write in guarded { given.of(id, given.forget(write, ["flights"])) == "holds" }
	unsearched := {"flight_number": "LA201", "date": "2026-04-01"}
	beside_a_full_one := given.claim(given.argue(given.book, "flights", [given.direct, unsearched]), seats, 1)
	given.of(id, beside_a_full_one).paths == [seats]
	given.of(id, beside_a_full_one).status == "violated"
}

test_unknown_while_it_could_still_hold if {
	every write in guarded {
		given.missing(given.of(id, given.outdate(write, seats))) == {concat(".", seats): "stale"}
	}
	every field in ["flights", "passengers"] {
		short := given.claim(given.change_flights, seats, 1)
		given.missing(given.of(id, given.forget(short, reserved(field)))) == {concat(".", reserved(field)): "missing"}
		given.missing(given.of(id, given.outdate(short, reserved(field)))) == {concat(".", reserved(field)): "stale"}
	}
	given.missing(given.of(id, given.forget(given.change_flights, reserved("passengers")))) == {
		concat(".", reserved("passengers")): "missing",
	}
	no_seats := given.claim(given.change_cabin, full, {"business": 0})
	given.missing(given.of(id, given.outdate(no_seats, reserved("cabin")))) == {concat(".", reserved("cabin")): "stale"}
}

test_violated_by_odd_values if {
	every value in [1, -1] { given.of(id, given.claim(given.book, seats, value)).status == "violated" }
	every value in [null, true, "9", [9], {"x": 9}] {
		given.of(id, given.claim(given.book, seats, value)).message == none_offered
	}
	every value in given.odd_values {
		given.of(id, given.claim(given.book, ["flights", "LA201", "2026-03-11"], value)) != "holds"
		given.of(id, given.claim(given.book, ["flights", "LA201", "2026-03-11", "available_seats"], value)) != "holds"
	}
	every value in [null, true, 2, "ab", {"a": 1}, []] {
		given.of(id, given.reserve(given.change_flights, "passengers", value)).status == "violated"
	}
}
