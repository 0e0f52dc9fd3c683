package ledgeragent.airline.basic_economy_flights_fixed_test

import data.ledgeragent.airline.fixtures_test as given

id := "airline.basic_economy_flights_fixed"

cabin := ["reservations", "RES001", "cabin"]

flights := ["reservations", "RES001", "flights"]

basic := given.claim(given.change_flights, cabin, "basic_economy")

keeps := given.claim(given.change_cabin, cabin, "basic_economy")

test_holds_for_other_cabins_whatever_the_flights if {
	given.of(id, given.change_flights) == "holds"
	given.of(id, given.claim(given.change_flights, cabin, "business")) == "holds"
	given.of(id, given.forget(given.change_flights, flights)) == "holds"
}

test_holds_when_only_the_cabin_changes_whatever_it_was if {
	given.of(id, keeps) == "holds"
	given.of(id, given.argue(keeps, "flights", [given.second, given.first])) == "holds"
	given.of(id, given.outdate(keeps, cabin)) == "holds"
}

test_silent_elsewhere if {
	every write in [given.book, given.cancel, given.change_bags] { given.of(id, write) == "silent" }
}

message := concat(" ", [
	"The cabin of reservation RES001 is basic_economy, so its flights cannot be changed:",
	"LA101 2026-03-10 and LA102 2026-03-10. Only the cabin can be changed, with exactly these flights.",
])

test_violated_by_other_flights_fewer_flights_and_other_dates if {
	every chosen in [
		[given.direct],
		[given.first],
		[given.first, given.second, given.direct],
		[{"flight_number": "LA101", "date": "2026-03-11"}, given.second],
	] {
		given.of(id, given.argue(basic, "flights", chosen)) == given.violated(id, "block", message, [cabin, flights])
	}
}

test_unknown_while_it_could_still_hold if {
	given.missing(given.of(id, given.forget(given.change_flights, cabin))) == {concat(".", cabin): "missing"}
	given.missing(given.of(id, given.outdate(given.change_flights, cabin))) == {concat(".", cabin): "stale"}
	given.missing(given.of(id, given.forget(keeps, flights))) == {concat(".", flights): "missing"}
	given.missing(given.of(id, given.outdate(basic, flights))) == {concat(".", flights): "stale"}
}

test_the_cabins_are_policy_data if {
	open := given.settings("changeable_cabins", ["basic_economy"])
	given.under(open, id, basic) == "holds"
	given.under(open, id, given.change_flights).verdict == "block"
	every value in [null, "economy", {"any": "economy"}] {
		given.under(given.settings("changeable_cabins", value), id, given.change_flights).verdict == "block"
	}
}

test_violated_by_odd_values if {
	every value in given.odd_values {
		given.of(id, given.claim(given.change_flights, cabin, value)).verdict == "block"
		given.of(id, given.claim(keeps, flights, value)).verdict == "block"
		given.of(id, given.claim(keeps, array.concat(flights, ["0", "date"]), value)).verdict == "block"
	}
}
