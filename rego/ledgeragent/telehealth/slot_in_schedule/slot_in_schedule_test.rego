package ledgeragent.telehealth.slot_in_schedule_test

import data.ledgeragent.telehealth.fixtures_test as given

id := "telehealth.slot_in_schedule"

booked := ["providers", "dr_lind_cardiology", "schedule"]

mondays := array.concat(booked, ["Monday"])

moved := ["providers", "dr_moe_primary", "schedule"]

own_provider := ["appointments", "APPT2", "provider_id"]

at(date, time) := given.argue(given.argue(given.schedule, "date", date), "time", time)

move_to(date, time) := given.argue(given.argue(given.reschedule, "new_date", date), "new_time", time)

test_holds_for_a_time_in_the_schedule if {
	given.of(id, given.schedule) == "holds"
	given.of(id, at("2026-03-09", "09:00")) == "holds"
	given.of(id, at("2026-03-11", "14:00")) == "holds"
	given.of(id, given.reschedule) == "holds"
	given.of(id, move_to("2026-03-17", "08:00")) == "holds"
}

test_silent_elsewhere if {
	every write in [given.cancel, given.note, given.supplier] { given.of(id, write) == "silent" }
}

test_violated_by_a_time_that_is_not_in_the_schedule if {
	given.of(id, at("2026-03-11", "10:30")) == given.violated(
		id,
		"revise",
		concat(" ", [
			"2026-03-11 is a Wednesday, and 10:30 is not a time at which dr_lind_cardiology sees patients on that weekday.",
			"In the schedule: Monday 09:00 and 10:30; Wednesday 14:00; Friday none.",
		]),
		[array.concat(booked, ["Wednesday"])],
	)
	given.of(id, move_to("2026-03-10", "10:00")) == given.violated(
		id,
		"revise",
		concat(" ", [
			"2026-03-10 is a Tuesday, and 10:00 is not a time at which dr_moe_primary sees patients on that weekday.",
			"In the schedule: Tuesday 08:00; Saturday 10:00.",
		]),
		[own_provider, array.concat(moved, ["Tuesday"])],
	)
}

test_violated_on_a_day_without_patients if {
	given.of(id, at("2026-03-13", "09:00")).status == "violated"
	given.of(id, at("2026-03-10", "09:00")).status == "violated"
	given.of(id, given.claim(given.schedule, booked, {})).message == concat(" ", [
		"2026-03-09 is a Monday, and 10:30 is not a time at which dr_lind_cardiology sees patients on that weekday.",
		"In the schedule: nothing.",
	])
}

test_a_time_is_compared_as_it_is_written if {
	every time in ["9:00", "09:00 ", "09:00 AM", "0900", "09:30", ""] {
		given.of(id, at("2026-03-09", time)).status == "violated"
	}
}

# Whatever the schedule: what is no date is in none, and nothing is asked for.
test_violated_by_what_is_no_date if {
	every date in ["2026-02-30", "2026-3-9", "next Monday", ""] {
		given.of(id, given.forget(at(date, "10:30"), ["providers"])) == given.violated(
			id,
			"revise",
			concat("", [`"`, date, `" is not a date. Write the day as YYYY-MM-DD.`]),
			[],
		)
		given.of(id, given.put(move_to(date, "10:00"), ["ledger"], {})).status == "violated"
	}
}

test_a_moved_appointment_stays_with_its_own_provider if {
	given.of(id, move_to("2026-03-09", "10:30")).status == "violated"
	other := given.claim(move_to("2026-03-09", "10:30"), own_provider, "dr_lind_cardiology")
	given.of(id, other) == "holds"
}

why_unknown(request) := given.missing(given.of(id, request))

test_unknown_without_the_schedule_of_the_provider if {
	every path in [["providers"], booked] {
		why_unknown(given.forget(given.schedule, path)) == {"providers.dr_lind_cardiology.schedule.Monday": "missing"}
	}
	every path in [booked, mondays] {
		why_unknown(given.outdate(given.schedule, path)) == {"providers.dr_lind_cardiology.schedule.Monday": "stale"}
	}
	why_unknown(given.forget(given.reschedule, moved)) == {"providers.dr_moe_primary.schedule.Saturday": "missing"}
	why_unknown(given.outdate(given.reschedule, moved)) == {"providers.dr_moe_primary.schedule.Saturday": "stale"}
}

# A weekday that the schedule does not list is known to be one without patients.
test_a_weekday_that_is_not_listed_is_no_missing_fact if {
	given.of(id, given.forget(given.schedule, mondays)).status == "violated"
}

test_unknown_without_the_provider_of_the_appointment if {
	why_unknown(given.forget(given.reschedule, own_provider)) == {"appointments.APPT2.provider_id": "missing"}
	why_unknown(given.outdate(given.reschedule, own_provider)) == {"appointments.APPT2.provider_id": "stale"}
}

test_violated_by_odd_schedules if {
	every value in given.odd_values {
		given.of(id, given.claim(given.schedule, booked, value)) != "holds"
		given.of(id, given.claim(given.schedule, mondays, value)).status == "violated"
	}
}

test_violated_by_odd_times if {
	every value in given.odd_values {
		given.of(id, given.claim(given.schedule, mondays, [value])).status == "violated"
	}
}

test_an_odd_provider_has_no_schedule if {
	every value in given.odd_values { given.of(id, given.claim(given.reschedule, own_provider, value)) != "holds" }
	every value in [null, 7, ["dr_moe_primary"]] {
		finding := given.of(id, given.claim(given.reschedule, own_provider, value))
		finding.status == "violated"
		finding.paths == [own_provider]
	}
}

test_a_schedule_of_one_weekday_is_shown if {
	given.of(id, given.claim(given.schedule, booked, {"Friday": ["09:00"]})).message == concat(" ", [
		"2026-03-09 is a Monday, and 10:30 is not a time at which dr_lind_cardiology sees patients on that weekday.",
		"In the schedule: Friday 09:00.",
	])
}

test_times_that_do_not_stand_in_a_list_are_no_times if {
	given.of(id, given.claim(given.schedule, mondays, "10:30")).message == concat(" ", [
		"2026-03-09 is a Monday, and 10:30 is not a time at which dr_lind_cardiology sees patients on that weekday.",
		"In the schedule: Wednesday 14:00; Friday none.",
	])
	given.of(id, given.claim(given.schedule, mondays, {"0": "10:30"})).status == "violated"
}
