package ledgeragent.airline.reservation_active_test

import data.ledgeragent.airline.fixtures_test as given

id := "airline.reservation_active"

status := ["reservations", "RES001", "status"]

guarded := [given.cancel, given.change_flights, given.change_cabin, given.change_bags, given.change_passengers]

test_holds_without_a_status if {
	every write in guarded {
		given.of(id, write) == "holds"
		given.of(id, given.claim(write, status, null)) == "holds"
		given.of(id, given.claim(write, status, "confirmed")) == "holds"
	}
}

test_silent_elsewhere if {
	every write in [given.book, given.certificate] { given.of(id, write) == "silent" }
}

test_violated_once_cancelled if {
	every write in guarded {
		given.of(id, given.claim(write, status, "cancelled")) == given.violated(
			id,
			"block",
			"Reservation RES001 is cancelled. It can neither be changed nor cancelled again.",
			[status],
		)
	}
}

here := given.violated(
	id,
	"block",
	"Reservation RES001 is cancelled (in this conversation). It can neither be changed nor cancelled again.",
	[],
)

test_violated_by_an_earlier_cancellation_whatever_is_on_record if {
	every outcome in ["executed", "uncertain", "pending"] {
		earlier := given.after(given.change_bags, "cancel_reservation", {"reservation_id": "RES001"})
		request := given.put(earlier, ["history", "0", "outcome"], outcome)
		given.of(id, request) == here
		given.of(id, given.put(request, ["stale"], [status])) == here
		given.of(id, given.forget(request, ["reservations"])) == here
	}
}

test_violated_by_a_cancellation_in_the_same_message if {
	sibling := {"tool": "cancel_reservation", "arguments": {"reservation_id": "RES001"}}
	given.of(id, given.put(given.change_bags, ["siblings", "-"], sibling)) == here
}

test_other_reservations_and_other_writes_do_not_count if {
	other := given.after(given.change_bags, "cancel_reservation", {"reservation_id": "RES002"})
	given.of(id, given.after(other, "update_reservation_flights", {"reservation_id": "RES001"})) == "holds"
}

test_unknown_without_evidence if {
	every write in guarded {
		given.missing(given.of(id, given.forget(write, ["reservations"]))) == {concat(".", status): "missing"}
		given.missing(given.of(id, given.put(write, ["stale"], [status]))) == {concat(".", status): "stale"}
	}
}

test_violated_by_odd_values if {
	every value in [true, false, 0, 7, [], {}, ["confirmed"]] {
		given.of(id, given.claim(given.cancel, status, value)).verdict == "block"
	}
}
