package ledgeragent.telehealth.appointment_open_test

import data.ledgeragent.telehealth.fixtures_test as given

id := "telehealth.appointment_open"

status := ["appointments", "APPT1", "status"]

move := given.argue(given.reschedule, "appointment_id", "APPT1")

test_holds_for_a_scheduled_appointment_and_one_that_waits_for_approval if {
	every value in ["scheduled", "pending_approval"] {
		given.of(id, given.claim(given.cancel, status, value)) == "holds"
		given.of(id, given.claim(move, status, value)) == "holds"
	}
}

test_silent_elsewhere if {
	every write in [given.schedule, given.note, given.supplier] { given.of(id, write) == "silent" }
}

test_violated_by_any_other_status if {
	every write in [given.cancel, move] {
		every value in ["completed", "cancelled", "Scheduled", "scheduled ", "pending approval", ""] {
			given.of(id, given.claim(write, status, value)) == given.violated(
				id,
				"block",
				concat("", [
					`The status of appointment APPT1 is "`,
					value,
					`". Only an appointment with one of these can be rescheduled or cancelled: `,
					"pending_approval and scheduled.",
				]),
				[status],
			)
		}
	}
}

verdict_under(settings, request) := verdict if {
	decision := given.decide(request) with data.ledgeragent.telehealth.settings as settings
	verdict := decision.verdict
}

test_the_open_statuses_are_policy_data if {
	waiting := given.claim(given.cancel, status, "waiting_list")
	verdict_under({"open_statuses": ["waiting_list"]}, waiting) == "allow"
	verdict_under({"open_statuses": ["waiting_list"]}, given.cancel) == "block"
	verdict_under({"open_statuses": []}, given.cancel) == "block"
	verdict_under({"open_statuses": "scheduled"}, given.cancel) == "block"
	verdict_under({"open_statuses": {"state": "scheduled"}}, given.cancel) == "block"
	verdict_under({}, given.cancel) == "block"
}

test_unknown_without_evidence if {
	given.missing(given.of(id, given.forget(given.cancel, status))) == {"appointments.APPT1.status": "missing"}
	given.missing(given.of(id, given.outdate(given.cancel, status))) == {"appointments.APPT1.status": "stale"}
	given.missing(given.of(id, given.outdate(move, ["appointments", "APPT1"]))) == {"appointments.APPT1.status": "stale"}
}

test_a_date_gone_stale_leaves_the_status_fresh if {
	request := given.put(given.cancel, ["stale"], [["appointments", "APPT1", "date"]])
	given.of(id, request) == "holds"
}

test_violated_by_odd_values if {
	every value in given.odd_values { given.of(id, given.claim(given.cancel, status, value)).verdict == "block" }
}

test_a_status_is_a_text_whatever_the_policy_data_says if {
	every value in [null, true, false, 0, [], {}] {
		verdict_under({"open_statuses": [value]}, given.claim(given.cancel, status, value)) == "block"
	}
}
