package ledgeragent.telecom.line_of_the_phone_test

import data.ledgeragent.telecom.fixtures_test as given

id := "telecom.line_of_the_phone"

phones := ["looked_up_phones"]

lines := ["customers", "C71", "line_ids"]

first := ["lines", "L1", "phone_number"]

second := ["lines", "L2", "phone_number"]

wrong_line(write) := given.argue(write, "line_id", "L1")

# A contact number that no line carries.
contact_number(write) := given.claim(write, phones, ["555-010-0900"])

test_holds_for_the_line_with_the_number if {
	every write in given.line_writes { given.of(id, write) == "holds" }
}

test_silent_elsewhere if given.of(id, given.ask_to_pay) == "silent"

test_the_line_with_the_number_needs_nothing_else if {
	every write in given.line_writes {
		bare := given.forget(given.forget(given.forget(write, ["customers"]), ["auth"]), ["lines", "L1"])
		given.of(id, bare) == "holds"
	}
}

test_holds_where_nobody_was_looked_up_by_phone if {
	every write in given.line_writes { given.of(id, wrong_line(given.forget(write, phones))) == "holds" }
	given.of(id, given.forget(given.forget(given.roam, phones), ["lines"])) == "holds"
}

test_every_number_that_was_looked_up_counts if {
	request := given.claim(given.roam, array.concat(phones, ["-"]), "555-010-0001")
	given.of(id, request) == "holds"
	given.of(id, wrong_line(request)) == "holds"
}

test_violated_by_another_line if {
	every write in given.line_writes {
		given.of(id, wrong_line(write)) == given.violated(
			id,
			"revise",
			concat(" ", [
				"Line L1 does not carry the phone number that the customer was found by. The line that does: L2.",
				"Name that one, or ask the customer for the number of the line they mean and look it up.",
			]),
			[["auth", "customer_id"], lines, first, second, phones],
		)
	}
}

test_a_line_that_carries_the_number_decides_without_the_others if {
	more := given.claim(wrong_line(given.roam), lines, ["L1", "L2", "L3"])
	given.of(id, more) == given.of(id, wrong_line(given.roam))
}

test_holds_for_any_line_when_none_carries_the_number if {
	every write in given.line_writes {
		given.of(id, contact_number(write)) == "holds"
		given.of(id, contact_number(wrong_line(write))) == "holds"
	}
}

test_unknown_while_the_line_that_is_named_was_not_read if {
	given.missing(given.of(id, given.forget(given.roam, second))) == {"lines.L2.phone_number": "missing"}
	given.missing(given.of(id, given.outdate(given.roam, second))) == {"lines.L2.phone_number": "stale"}
	given.missing(given.of(id, given.forget(given.roam, ["lines"]))) == {"lines.L2.phone_number": "missing"}
	every other in ["auth", "customers"] {
		given.missing(given.of(id, given.forget(given.forget(given.roam, ["lines"]), [other]))) == {
			"lines.L2.phone_number": "missing",
		}
	}
}

evidence(request) := found if found := data.ledgeragent.telecom.line_of_the_phone.evidence with input as request

test_asks_for_nothing_that_does_not_decide if {
	evidence(given.roam) == {second}
	evidence(wrong_line(given.forget(given.roam, phones))) == set()
	evidence(contact_number(given.roam)) == {["auth", "customer_id"], lines, first, second}
	evidence(given.signed_in(contact_number(given.roam), "C71")) == {lines, first, second}
	evidence(given.forget(wrong_line(given.roam), ["lines", "L1"])) == {first, phones}
}

test_unknown_while_another_line_could_carry_the_number if {
	given.missing(given.of(id, given.forget(wrong_line(given.roam), second))) == {"lines.L2.phone_number": "missing"}
	given.missing(given.of(id, given.outdate(wrong_line(given.roam), second))) == {"lines.L2.phone_number": "stale"}
	three := given.claim(contact_number(given.roam), lines, ["L1", "L2", "L3", "L4"])
	given.missing(given.of(id, three)) == {"lines.L3.phone_number": "missing", "lines.L4.phone_number": "missing"}
}

test_unknown_without_the_customers_lines if {
	request := contact_number(given.roam)
	given.missing(given.of(id, given.forget(request, lines))) == {"customers.C71.line_ids": "missing"}
	given.missing(given.of(id, given.outdate(request, lines))) == {"customers.C71.line_ids": "stale"}
	given.missing(given.of(id, given.forget(request, ["auth"]))) == {"auth.customer_id": "missing"}
	given.of(id, given.signed_in(given.forget(request, ["auth"]), "C71")) == "holds"
}

test_unknown_when_the_numbers_are_stale if {
	given.missing(given.of(id, given.outdate(given.roam, phones))) == {"looked_up_phones": "stale"}
}

not_on_record := "The phone numbers of this customer's lines are not on record as texts. Read the lines again."

test_violated_by_odd_values if {
	every value in array.concat(given.odd_values, [null]) {
		given.of(id, given.claim(contact_number(given.roam), ["auth", "customer_id"], value)) != "holds"
	}
	every value in [null, true, 0, "555-010-0002", {}, {"0": "555-010-0002"}, []] {
		given.of(id, given.claim(given.roam, phones, value)) == given.violated(
			id,
			"revise",
			not_on_record,
			[second, phones],
		)
	}
	every value in [null, true, 0, [], {}, ["555-010-0002"]] {
		given.of(id, given.claim(given.roam, second, value)).message == not_on_record
		given.of(id, given.claim(contact_number(given.roam), first, value)).message == not_on_record
	}
	every value in [null, true, 0, "L1", {}, {"0": "L1"}, ["L2", 7]] {
		given.of(id, given.claim(contact_number(given.roam), lines, value)).status == "violated"
	}
}
