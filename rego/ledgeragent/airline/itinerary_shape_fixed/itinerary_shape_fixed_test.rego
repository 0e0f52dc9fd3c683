package ledgeragent.airline.itinerary_shape_fixed_test

import data.ledgeragent.airline.fixtures_test as given
import data.ledgeragent.airline.itinerary_shape_fixed

id := "airline.itinerary_shape_fixed"

reserved(field) := ["reservations", "RES001", field]

paths := [reserved(field) | some field in ["destination", "flight_type", "flights", "origin"]]

# Where every flight was offered, the flights of the reservation do not matter.
without_flights := [reserved(field) | some field in ["destination", "flight_type", "origin"]]

back := {"flight_number": "LA301", "date": "2026-03-12"}

# There on the reserved flights, back on LA301.
round_trip := object.union(
	given.argue(given.change_flights, "flights", [given.first, given.second, back]),
	{"ledger": {
		"flights": {"LA301": {"2026-03-12": given.offer("DEN", "BOS", 3, 120)}},
		"reservations": {"RES001": {"flight_type": "round_trip"}},
		"searched": {"2026-03-12": ["DEN-BOS"]},
	}},
)

flying(request, flights) := given.argue(request, "flights", flights)

test_holds_for_the_same_trip_on_other_flights if {
	given.of(id, given.change_flights) == "holds"
	given.of(id, round_trip) == "holds"
	given.of(id, flying(round_trip, [given.direct, back])) == "holds"
}

test_holds_for_the_same_flights_whatever_they_are if {
	given.of(id, given.change_cabin) == "holds"
	given.of(id, given.reserve(given.change_cabin, "origin", "SEA")) == "holds"
	given.of(id, given.forget(given.change_cabin, ["flights"])) == "holds"
}

# The second flight on another date, which no search offered.
moved := given.forget(
	flying(given.change_flights, [given.first, {"flight_number": "LA102", "date": "2026-03-11"}]),
	["flights"],
)

test_a_reserved_flight_number_flies_its_route_on_another_date if given.of(id, moved) == "holds"

test_flights_that_a_search_offered_need_no_reserved_ones if {
	given.of(id, given.outdate(given.change_flights, reserved("flights"))) == "holds"
}

test_rests_on_the_reserved_flights_where_no_search_offered_one if {
	evidence := itinerary_shape_fixed.evidence with input as moved
	evidence == {path | some path in paths}
}

test_rests_on_the_reserved_flights_alone_where_they_are_kept if {
	evidence := itinerary_shape_fixed.evidence with input as given.change_cabin
	evidence == {reserved("flights")}
}

test_silent_elsewhere if {
	every write in [given.book, given.cancel, given.change_bags] { given.of(id, write) == "silent" }
}

another_trip(type, breaks) := concat("", [
	"Reservation RES001 is a ",
	type,
	" from BOS to DEN and must stay that. The flights of the call are another trip: ",
	breaks,
	". List all flights of the trip in order, those that stay included.",
])

test_violated_by_another_origin if {
	given.of(id, flying(given.change_flights, [given.second])) == given.violated(
		id,
		"revise",
		another_trip("one-way trip", "it begins in ORD"),
		without_flights,
	)
}

test_violated_by_another_destination if {
	given.of(id, flying(given.change_flights, [given.first])) == given.violated(
		id,
		"revise",
		another_trip("one-way trip", "it ends in ORD"),
		without_flights,
	)
}

test_violated_by_a_trip_back if {
	given.of(id, flying(given.change_flights, [given.direct, back])).status == "unknown"
	one_way := given.reserve(flying(round_trip, [given.direct, back]), "flight_type", "one_way")
	given.of(id, one_way).message == another_trip("one-way trip", "it ends in BOS")
}

test_violated_by_a_round_trip_without_its_way_back if {
	given.of(id, flying(round_trip, [given.first, given.second])) == "holds"
	given.of(id, flying(round_trip, [given.direct])).message == another_trip("round trip", "it ends in DEN")
}

test_violated_by_a_round_trip_to_somewhere_else if {
	turned := {"flight_number": "LA401", "date": "2026-03-11"}
	request := given.claim(round_trip, ["flights", "LA401"], {"2026-03-11": given.offer("ORD", "BOS", 4, 60)})
	given.of(id, flying(request, [given.first, turned])).message == another_trip("round trip", "it never reaches DEN")
}

test_violated_by_flights_that_do_not_connect if {
	given.of(id, flying(given.change_flights, [given.direct, given.second])) == given.violated(
		id,
		"revise",
		another_trip("one-way trip", "LA102 2026-03-10 begins in ORD, the flight before ends in DEN"),
		array.concat([["flights", "LA201", "2026-03-11"]], without_flights),
	)
}

test_a_break_names_where_the_flight_before_ends if {
	given.of(id, flying(given.change_flights, [given.first, given.direct])).message == another_trip(
		"one-way trip",
		"LA201 2026-03-11 begins in BOS, the flight before ends in ORD",
	)
}

test_a_round_trip_may_reach_its_destination_with_a_flight_nothing_is_known_of_yet if {
	unsearched := {"flight_number": "LA777", "date": "2026-04-01"}
	given.missing(given.of(id, flying(round_trip, [unsearched, back]))) == {"searched.2026-04-01": "missing"}
}

test_a_break_decides_without_another_search if {
	unsearched := {"flight_number": "LA777", "date": "2026-04-01"}
	given.of(id, flying(given.change_flights, [unsearched, given.first])).message == another_trip(
		"one-way trip",
		"it ends in ORD",
	)
	given.of(id, flying(given.change_flights, [given.second, unsearched])).message == another_trip(
		"one-way trip",
		"it begins in ORD",
	)
}

test_flights_that_a_search_did_not_offer_are_left_to_the_search if {
	request := given.forget(given.change_flights, ["flights"])
	given.of(id, request) == "holds"
	given.of("airline.flight_from_observed_search", request).status == "violated"
}

test_unknown_while_it_could_still_hold if {
	every path in paths {
		given.missing(given.of(id, given.forget(moved, path))) == {concat(".", path): "missing"}
		given.missing(given.of(id, given.outdate(moved, path))) == {concat(".", path): "stale"}
	}
	unread := given.forget(given.change_flights, ["flights"])
	given.missing(given.of(id, given.forget(unread, ["searched"]))) == {"searched.2026-03-11": "missing"}
	given.missing(given.of(id, given.outdate(unread, ["searched", "2026-03-11"]))) == {"searched.2026-03-11": "stale"}
	offer := ["flights", "LA201", "2026-03-11"]
	given.missing(given.of(id, given.outdate(given.change_flights, offer))) == {concat(".", offer): "stale"}
}

test_violated_by_odd_values if {
	every field in ["destination", "flight_type", "flights", "origin"] {
		every value in given.odd_values { given.of(id, given.reserve(moved, field, value)).status == "violated" }
	}
	every value in given.odd_values {
		given.of(id, given.claim(given.change_flights, ["flights", "LA201", "2026-03-11"], value)).status == "violated"
		origin := ["flights", "LA201", "2026-03-11", "origin"]
		given.of(id, given.claim(given.change_flights, origin, value)).status == "violated"
	}
}
