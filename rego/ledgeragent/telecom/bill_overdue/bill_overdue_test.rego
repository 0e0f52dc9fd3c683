package ledgeragent.telecom.bill_overdue_test

import data.ledgeragent.telecom.fixtures_test as given

id := "telecom.bill_overdue"

status := ["bills", "B2", "status"]

test_holds_for_an_overdue_bill if given.of(id, given.ask_to_pay) == "holds"

test_silent_elsewhere if given.of(id, given.resume) == "silent"

test_violated_by_any_other_status if {
	every value in ["Draft", "Issued", "Paid", "Awaiting Payment", "Disputed", "overdue", "Overdue ", ""] {
		given.of(id, given.claim(given.ask_to_pay, status, value)) == given.violated(
			id,
			"revise",
			concat("", [
				`The status of bill B2 is "`,
				value,
				`". A payment request is sent only for a bill whose status is exactly "Overdue".`,
			]),
			[status],
		)
	}
}

test_another_bill_does_not_count if {
	given.of(id, given.argue(given.ask_to_pay, "bill_id", "B1")).status == "violated"
	given.of(id, given.forget(given.ask_to_pay, ["bills", "B1"])) == "holds"
}

test_unknown_without_evidence if {
	given.missing(given.of(id, given.forget(given.ask_to_pay, status))) == {"bills.B2.status": "missing"}
	given.missing(given.of(id, given.forget(given.ask_to_pay, ["bills", "B2"]))) == {"bills.B2.status": "missing"}
	given.missing(given.of(id, given.outdate(given.ask_to_pay, status))) == {"bills.B2.status": "stale"}
}

test_violated_by_odd_values if {
	every value in given.odd_values { given.of(id, given.claim(given.ask_to_pay, status, value)).verdict == "revise" }
	given.of(id, given.claim(given.ask_to_pay, status, null)).message == concat(" ", [
		"The status of bill B2 is not known.",
		`A payment request is sent only for a bill whose status is exactly "Overdue".`,
	])
}
