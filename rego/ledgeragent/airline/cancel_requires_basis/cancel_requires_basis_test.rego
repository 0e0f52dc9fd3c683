package ledgeragent.airline.cancel_requires_basis_test

import data.ledgeragent.airline.fixtures_test as given

id := "airline.cancel_requires_basis"

cabin := ["reservations", "RES001", "cabin"]

created := ["reservations", "RES001", "created_at"]

flights := ["reservations", "RES001", "flights"]

insurance := ["reservations", "RES001", "insurance"]

status := ["flight_status", "LA101", "2026-03-10"]

other_status := ["flight_status", "LA102", "2026-03-10"]

# None of the four grounds.
groundless := given.claim(given.cancel, status, "available")

test_holds_for_a_flight_that_the_airline_cancelled if {
	given.of(id, given.cancel) == "holds"
	given.of(id, given.claim(groundless, other_status, "cancelled")) == "holds"
}

test_holds_for_business_and_for_insurance_whatever_else_is_known if {
	every ground in [{"cabin": "business"}, {"insurance": "yes"}] {
		given.of(id, given.claim(given.cancel, ["reservations", "RES001"], ground)) == "holds"
		unread := given.forget(given.cancel, ["flight_status"])
		given.of(id, given.claim(unread, ["reservations", "RES001"], ground)) == "holds"
	}
}

test_silent_elsewhere if given.of(id, given.change_flights) == "silent"

test_holds_for_a_booking_of_at_most_24_hours_ago if {
	every time in [
		"2026-03-01T10:00:00",
		"2026-03-01T10:00:00.999",
		"2026-03-02T10:00:00",
		"2026-03-02T10:00:01",
		"2026-03-01T15:00:00Z",
		"2026-03-02T00:00:00+09:00",
	] {
		given.of(id, given.claim(groundless, created, time)) == "holds"
	}
}

test_violated_by_one_second_more if {
	every time in ["2026-03-01T09:59:59", "2026-03-01T14:59:59Z", "2026-03-01T23:59:59+09:00", "2025-03-02T10:00:00"] {
		given.of(id, given.claim(groundless, created, time)).verdict == "block"
	}
}

test_violated_without_any_ground if {
	given.of(id, groundless) == given.violated(
		id,
		"block",
		concat(" ", [
			"Reservation RES001 cannot be cancelled. Its cabin is economy (refundable: business),",
			"it was booked at 2026-02-20T08:30:00, more than 24 hours ago, it has no travel insurance,",
			"and the airline cancelled none of its flights (LA101 2026-03-10: available and LA102 2026-03-10: on time).",
		]),
		[status, other_status, cabin, created, flights, insurance],
	)
}

test_unknown_while_a_ground_is_not_known if {
	every path in [cabin, created, insurance, status, other_status] {
		given.missing(given.of(id, given.forget(groundless, path))) == {concat(".", path): "missing"}
		given.missing(given.of(id, given.outdate(groundless, path))) == {concat(".", path): "stale"}
	}
	given.missing(given.of(id, given.forget(groundless, flights))) == {concat(".", flights): "missing"}
	given.missing(given.of(id, given.outdate(groundless, flights))) == {concat(".", flights): "stale"}
}

test_the_cabins_and_the_window_are_policy_data if {
	shorter := given.settings("cancel_window_hours", 2)
	given.under(shorter, id, given.claim(groundless, created, "2026-03-02T08:00:00")) == "holds"
	found := given.under(shorter, id, given.claim(groundless, created, "2026-03-02T07:59:59"))
	contains(found.message, "more than 2 hours ago")

	wider := given.settings("refundable_cabins", ["business", "economy"])
	given.under(wider, id, groundless) == "holds"
}

test_nobody_can_approve_one_without_a_ground_unless_policy_data_names_them if {
	obligations(data.ledgeragent.airline.settings) == []
	obligations(given.settings("cancellation_approvers", ["grace"])) == [{
		"kind": "approval",
		"predicate": id,
		"approvers": ["grace"],
		"grant": null,
	}]
	every value in [null, "grace", [5], {"grace"}, {"grace": true}] {
		obligations(given.settings("cancellation_approvers", value)) == []
	}
}

obligations(changed) := found.obligations if {
	found := data.ledgeragent.airline.decision with input as groundless with data.ledgeragent.airline.settings as changed
}

test_without_sound_policy_data_those_grounds_are_none if {
	recent := given.claim(groundless, created, "2026-03-02T09:00:00")
	every value in [null, true, "24", [24], {}] {
		given.under(given.settings("cancel_window_hours", value), id, recent).verdict == "block"
	}
	business := given.claim(groundless, cabin, "business")
	every value in [null, true, "business", {"any": "business"}] {
		given.under(given.settings("refundable_cabins", value), id, business).verdict == "block"
	}
}

test_violated_by_odd_values if {
	every path in [cabin, insurance, created, status, flights] {
		every value in given.odd_values { given.of(id, given.claim(groundless, path, value)).status == "violated" }
	}
	every value in given.odd_values {
		cancelled := given.cancel
		given.of(id, given.claim(cancelled, array.concat(flights, ["0", "flight_number"]), value)) != "holds"
		given.of(id, given.claim(cancelled, array.concat(flights, ["0", "date"]), value)) != "holds"
	}
}
