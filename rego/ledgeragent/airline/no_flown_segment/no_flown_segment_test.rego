package ledgeragent.airline.no_flown_segment_test

import data.ledgeragent.airline.fixtures_test as given

id := "airline.no_flown_segment"

cabin := ["reservations", "RES001", "cabin"]

flights := ["reservations", "RES001", "flights"]

status := ["flight_status", "LA101", "2026-03-10"]

later_status := ["flight_status", "LA102", "2026-03-10"]

guarded := [given.cancel, given.change_cabin]

# The session's clock, so that the flights of 10 March are today's, or in the past.
on(request, day) := given.put(request, ["session", "now"], concat("", [day, "T00:00:00-05:00"]))

test_holds_before_the_first_flight_without_any_status if {
	every write in guarded {
		given.of(id, write) == "holds"
		given.of(id, on(given.forget(write, ["flight_status"]), "2026-03-09")) == "holds"
	}
}

test_silent_elsewhere if {
	every write in [given.book, given.change_bags, given.change_passengers, given.certificate] {
		given.of(id, write) == "silent"
	}
}

test_a_change_that_leaves_the_cabin_does_not_ask if {
	same := given.argue(given.change_cabin, "cabin", "economy")
	given.of(id, on(same, "2026-03-11")) == "holds"
	given.of(id, given.forget(on(same, "2026-03-11"), flights)) == "holds"
}

test_flights_of_today_need_a_status_that_says_they_are_still_here if {
	every write in guarded {
		today := on(write, "2026-03-10")
		every value in ["available", "on time", "delayed", "cancelled"] {
			given.of(id, given.claim(today, status, value)) == "holds"
		}
		every value in ["landed", "flying"] { given.of(id, given.claim(today, status, value)).verdict == "block" }
	}
}

test_violated_by_a_flight_that_took_off_whatever_its_date if {
	given.of(id, given.claim(given.cancel, status, "flying")) == given.violated(
		id,
		"block",
		concat(" ", [
			"Flights of reservation RES001 have already been flown: LA101 2026-03-10 (flying). Today is 2026-03-02.",
			"The reservation can no longer be cancelled, nor its cabin changed.",
		]),
		[status, flights],
	)
}

test_one_flown_flight_decides_without_the_other_status if {
	request := on(given.claim(given.cancel, status, "landed"), "2026-03-10")
	given.of(id, given.forget(request, later_status)).status == "violated"
	given.of(id, given.outdate(request, later_status)).status == "violated"
}

test_a_past_flight_counts_as_flown_unless_it_was_read_as_cancelled if {
	given.of(id, on(given.cancel, "2026-03-11")) == given.violated(
		id,
		"block",
		concat(" ", [
			"Flights of reservation RES001 have already been flown: LA102 2026-03-10 (on time). Today is 2026-03-11.",
			"The reservation can no longer be cancelled, nor its cabin changed.",
		]),
		[later_status, flights],
	)
	given.of(id, on(given.claim(given.cancel, later_status, "cancelled"), "2026-03-11")) == "holds"
	given.of(id, on(given.forget(given.cancel, later_status), "2026-03-11")) == given.violated(
		id,
		"block",
		concat(" ", [
			"Flights of reservation RES001 have already been flown: LA102 2026-03-10 (in the past). Today is 2026-03-11.",
			"The reservation can no longer be cancelled, nor its cabin changed.",
		]),
		[flights],
	)
}

test_a_past_status_gone_stale_is_unknown if {
	request := on(given.claim(given.cancel, later_status, "cancelled"), "2026-03-11")
	given.missing(given.of(id, given.outdate(request, status))) == {concat(".", status): "stale"}
}

test_unknown_without_evidence if {
	every write in guarded {
		today := on(write, "2026-03-10")
		given.missing(given.of(id, given.forget(today, status))) == {concat(".", status): "missing"}
		given.missing(given.of(id, given.outdate(today, status))) == {concat(".", status): "stale"}
		given.missing(given.of(id, given.forget(write, flights))) == {concat(".", flights): "missing"}
		given.missing(given.of(id, given.outdate(write, flights))) == {concat(".", flights): "stale"}
	}
}

test_the_cabin_counts_only_where_it_decides if {
	given.of(id, given.outdate(given.change_cabin, cabin)) == "holds"
	flown := given.claim(given.change_cabin, status, "landed")
	given.missing(given.of(id, given.outdate(flown, cabin))) == {concat(".", cabin): "stale"}
	given.missing(given.of(id, given.forget(flown, cabin))) == {concat(".", cabin): "missing"}
	given.of(id, flown).verdict == "block"
}

test_violated_by_odd_values if {
	every value in given.odd_values {
		given.of(id, given.claim(given.cancel, flights, value)).verdict == "block"
		given.of(id, given.claim(given.cancel, array.concat(flights, ["0", "date"]), value)).verdict == "block"
		given.of(id, given.claim(on(given.cancel, "2026-03-10"), status, value)) != "holds"
	}
	every value in [null, true, 7, [], {}] {
		given.of(id, given.claim(given.cancel, array.concat(flights, ["0", "flight_number"]), value)).verdict == "block"
	}
}
