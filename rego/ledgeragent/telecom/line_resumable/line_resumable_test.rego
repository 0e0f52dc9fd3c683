package ledgeragent.telecom.line_resumable_test

import data.ledgeragent.telecom.fixtures_test as given

id := "telecom.line_resumable"

status := ["lines", "L2", "status"]

test_holds_for_a_line_that_waits if {
	every value in ["Suspended", "Pending Activation"] {
		given.of(id, given.claim(given.resume, status, value)) == "holds"
	}
}

test_silent_elsewhere if given.of(id, given.suspend) == "silent"

test_violated_by_any_other_status if {
	every value in ["Active", "Closed", "suspended", "Pending"] {
		given.of(id, given.claim(given.resume, status, value)) == given.violated(
			id,
			"revise",
			concat("", [
				`The status of line L2 is "`,
				value,
				`". Only a line that is "Suspended" or "Pending Activation" can be resumed.`,
			]),
			[status],
		)
	}
}

test_unknown_without_evidence if {
	given.missing(given.of(id, given.forget(given.resume, status))) == {"lines.L2.status": "missing"}
	given.missing(given.of(id, given.outdate(given.resume, status))) == {"lines.L2.status": "stale"}
}

test_violated_by_odd_values if {
	every value in array.concat(given.odd_values, [null]) {
		given.of(id, given.claim(given.resume, status, value)).verdict == "revise"
	}
}
