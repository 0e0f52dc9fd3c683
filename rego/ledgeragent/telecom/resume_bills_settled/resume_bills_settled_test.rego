package ledgeragent.telecom.resume_bills_settled_test

import data.ledgeragent.telecom.fixtures_test as given

id := "telecom.resume_bills_settled"

bills := ["customers", "C71", "bill_ids"]

first := ["bills", "B1", "status"]

second := ["bills", "B2", "status"]

not_on_record := concat(" ", [
	"The customer's bills are not on record as the operator lists them.",
	"Read the customer and the bills again.",
])

test_holds_when_no_bill_is_open if {
	every status in ["Draft", "Issued", "Paid", "Disputed"] {
		given.of(id, given.claim(given.resume, second, status)) == "holds"
	}
}

test_silent_elsewhere if {
	every write in [given.ask_to_pay, given.suspend, given.refuel] { given.of(id, write) == "silent" }
}

test_holds_for_a_customer_without_bills if {
	request := given.forget(given.forget(given.resume, ["customer_bills"]), ["bills"])
	given.of(id, given.claim(request, bills, [])) == "holds"
}

test_holds_for_whom_the_host_signed_in if {
	given.of(id, given.signed_in(given.forget(given.resume, ["auth"]), "C71")) == "holds"
}

test_violated_by_a_bill_that_is_open if {
	every status in ["Overdue", "Awaiting Payment"] {
		given.of(id, given.claim(given.resume, second, status)) == given.violated(
			id,
			"revise",
			concat("", [
				"A line is resumed only after every bill is paid. Open: B2 (",
				status,
				"). Once the customer has paid on their device, read these bills again.",
			]),
			[["auth", "customer_id"], second],
		)
	}
}

test_every_open_bill_is_named if {
	request := given.claim(given.claim(given.resume, second, "Overdue"), first, "Awaiting Payment")
	given.of(id, request) == given.violated(
		id,
		"revise",
		concat(" ", [
			"A line is resumed only after every bill is paid. Open: B1 (Awaiting Payment) and B2 (Overdue).",
			"Once the customer has paid on their device, read these bills again.",
		]),
		[["auth", "customer_id"], first, second],
	)
}

test_one_open_bill_decides_without_the_others if {
	open := given.claim(given.resume, second, "Overdue")
	given.of(id, given.forget(open, ["bills", "B1"])) == given.of(id, open)
}

test_a_bill_that_only_a_list_showed_makes_the_profile_out_of_date if {
	shown := given.claim(given.resume, ["customer_bills", "C71", "-"], "B3")
	given.of(id, shown) == given.violated(
		id,
		"revise",
		"The profile as last read lacks bills that a list of bills showed: B3. Read the customer again.",
		[["auth", "customer_id"], first, second, ["customer_bills", "C71"], bills],
	)
	given.missing(given.of(id, given.outdate(shown, bills))) == {"customers.C71.bill_ids": "stale"}
	given.of(id, given.forget(shown, ["customer_bills"])) == "holds"
	given.of(id, given.outdate(shown, ["customer_bills"])) == "holds"
}

test_bills_of_other_customers_do_not_count if {
	given.of(id, given.claim(given.resume, ["bills", "B9"], {"status": "Overdue"})) == "holds"
	given.of(id, given.claim(given.resume, ["customer_bills", "C72"], ["B9"])) == "holds"
}

test_unknown_without_evidence if {
	given.missing(given.of(id, given.forget(given.resume, ["auth"]))) == {"auth.customer_id": "missing"}
	given.missing(given.of(id, given.outdate(given.resume, ["auth"]))) == {"auth.customer_id": "stale"}
	given.missing(given.of(id, given.forget(given.resume, bills))) == {"customers.C71.bill_ids": "missing"}
	given.missing(given.of(id, given.outdate(given.resume, bills))) == {"customers.C71.bill_ids": "stale"}
	given.missing(given.of(id, given.forget(given.resume, first))) == {"bills.B1.status": "missing"}
	given.missing(given.of(id, given.outdate(given.resume, second))) == {"bills.B2.status": "stale"}
	given.missing(given.of(id, given.forget(given.resume, ["bills"]))) == {
		"bills.B1.status": "missing",
		"bills.B2.status": "missing",
	}
}

test_violated_by_odd_values if {
	every value in array.concat(given.odd_values, [null]) {
		given.of(id, given.claim(given.resume, ["auth", "customer_id"], value)) != "holds"
	}
	every value in [null, true, 0, "B1", {}, {"0": "B1"}, [null], ["B1", 7]] {
		given.of(id, given.claim(given.resume, bills, value)) == given.violated(
			id,
			"revise",
			not_on_record,
			[["auth", "customer_id"], bills],
		)
	}
	every value in [null, true, 0, [], {}, ["Paid"]] {
		given.of(id, given.claim(given.resume, first, value)).message == not_on_record
	}
}
