package ledgeragent.telecom.single_pending_request_test

import data.ledgeragent.telecom.fixtures_test as given

id := "telecom.single_pending_request"

bills := ["customers", "C71", "bill_ids"]

other := ["bills", "B1", "status"]

own := ["bills", "B2", "status"]

waiting := given.claim(given.ask_to_pay, other, "Awaiting Payment")

open_request := concat(" ", [
	"A customer has one open payment request at a time. Awaiting payment: B1.",
	"Once the customer has paid on their device, read that bill again; then the next request can be sent.",
])

not_on_record := concat(" ", [
	"The customer's bills are not on record as the operator lists them.",
	"Read the customer and the bills again.",
])

test_holds_while_no_other_bill_awaits_payment if {
	every status in ["Draft", "Issued", "Paid", "Overdue", "Disputed"] {
		given.of(id, given.claim(given.ask_to_pay, other, status)) == "holds"
	}
}

test_silent_elsewhere if given.of(id, given.resume) == "silent"

test_holds_for_the_only_bill if {
	request := given.claim(given.ask_to_pay, bills, ["B2"])
	given.of(id, given.forget(given.forget(request, ["customer_bills"]), ["bills", "B1"])) == "holds"
}

test_holds_for_whom_the_host_signed_in if {
	given.of(id, given.signed_in(given.forget(given.ask_to_pay, ["auth"]), "C71")) == "holds"
}

test_violated_by_another_bill_that_awaits_payment if {
	given.of(id, waiting) == given.violated(id, "revise", open_request, [["auth", "customer_id"], other])
}

test_an_open_request_decides_without_the_other_bills if {
	request := given.claim(waiting, bills, ["B1", "B2", "B3"])
	given.of(id, request).status == "violated"
	asked := given.after(request, "send_payment_request", given.ask_to_pay.action.arguments)
	given.of(id, given.outdate(asked, own)) == given.of(id, waiting)
}

test_a_bill_that_only_a_list_showed_makes_the_profile_out_of_date if {
	shown := given.claim(given.ask_to_pay, ["customer_bills", "C71", "-"], "B3")
	given.of(id, shown) == given.violated(
		id,
		"revise",
		"The profile as last read lacks bills that a list of bills showed: B3. Read the customer again.",
		[["auth", "customer_id"], other, ["customer_bills", "C71"], bills],
	)
	given.missing(given.of(id, given.outdate(shown, bills))) == {"customers.C71.bill_ids": "stale"}
	given.of(id, given.forget(shown, ["customer_bills"])) == "holds"
	given.of(id, given.outdate(shown, ["customer_bills"])) == "holds"
}

test_the_bill_itself_does_not_count_as_another if {
	given.of(id, given.claim(given.ask_to_pay, own, "Awaiting Payment")) == "holds"
	given.of(id, given.forget(given.ask_to_pay, own)) == "holds"
}

test_a_second_request_needs_another_read_of_the_bill if {
	every outcome in ["executed", "uncertain", "pending"] {
		asked := given.after(given.ask_to_pay, "send_payment_request", given.ask_to_pay.action.arguments)
		again := given.put(asked, ["history", "0", "outcome"], outcome)
		given.of(id, again) == "holds"
		given.missing(given.of(id, given.outdate(again, own))) == {"bills.B2.status": "stale"}
		given.missing(given.of(id, given.forget(again, own))) == {"bills.B2.status": "missing"}
		given.of(id, given.claim(again, own, 5)).message == not_on_record
	}
}

test_a_request_admitted_in_the_same_message_counts if {
	request := given.beside(given.ask_to_pay, "send_payment_request", given.ask_to_pay.action.arguments)
	given.missing(given.of(id, given.outdate(request, own))) == {"bills.B2.status": "stale"}
}

test_requests_for_other_bills_and_other_writes_leave_this_bill_alone if {
	elsewhere := given.after(given.ask_to_pay, "send_payment_request", {"customer_id": "C71", "bill_id": "B1"})
	request := given.after(elsewhere, "resume_line", {"customer_id": "C71", "bill_id": "B2"})
	given.of(id, given.forget(request, own)) == "holds"
	given.missing(given.of(id, given.outdate(request, other))) == {"bills.B1.status": "stale"}
}

test_unknown_without_evidence if {
	given.missing(given.of(id, given.forget(given.ask_to_pay, ["auth"])))["auth.customer_id"] == "missing"
	given.missing(given.of(id, given.outdate(given.ask_to_pay, ["auth"])))["auth.customer_id"] == "stale"
	given.missing(given.of(id, given.forget(given.ask_to_pay, bills))) == {"customers.C71.bill_ids": "missing"}
	given.missing(given.of(id, given.outdate(given.ask_to_pay, bills))) == {"customers.C71.bill_ids": "stale"}
	given.missing(given.of(id, given.forget(given.ask_to_pay, other))) == {"bills.B1.status": "missing"}
	given.missing(given.of(id, given.outdate(given.ask_to_pay, other))) == {"bills.B1.status": "stale"}
}

test_violated_by_odd_values if {
	every value in array.concat(given.odd_values, [null]) {
		given.of(id, given.claim(given.ask_to_pay, ["auth", "customer_id"], value)) != "holds"
	}
	every value in [null, true, 0, "B1", {}, {"0": "B1"}, [null], [7]] {
		given.of(id, given.claim(given.ask_to_pay, bills, value)) == given.violated(
			id,
			"revise",
			not_on_record,
			[["auth", "customer_id"], bills],
		)
	}
	every value in [null, true, 0, [], {}] {
		given.of(id, given.claim(given.ask_to_pay, other, value)).message == not_on_record
	}
}
