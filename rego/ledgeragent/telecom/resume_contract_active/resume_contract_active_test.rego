package ledgeragent.telecom.resume_contract_active_test

import data.ledgeragent.telecom.fixtures_test as given

id := "telecom.resume_contract_active"

ends := ["lines", "L2", "contract_end_date"]

ended(date) := given.claim(given.resume, ends, date)

test_holds_until_the_day_the_contract_ends if {
	every date in ["2026-03-02", "2026-03-03", "2026-12-31", "2100-01-01"] { given.of(id, ended(date)) == "holds" }
}

test_holds_without_an_end_date if given.of(id, ended(null)) == "holds"

test_silent_elsewhere if {
	every write in [given.suspend, given.refuel, given.roam] { given.of(id, write) == "silent" }
}

test_violated_from_the_day_after if {
	every date in ["2026-03-01", "2026-02-28", "2025-12-31", "0001-01-01"] {
		given.of(id, ended(date)) == given.violated(
			id,
			"block",
			concat("", [
				"The contract of line L2 ended on ",
				date,
				" and today is 2026-03-02. The line cannot be resumed, even if everything is paid.",
			]),
			[ends],
		)
	}
}

test_today_is_the_day_of_the_sessions_clock if {
	late := given.put(ended("2026-03-02"), ["session", "now"], "2026-03-02T23:59:59-05:00")
	given.of(id, late) == "holds"
	next := given.put(ended("2026-03-02"), ["session", "now"], "2026-03-03T00:00:00-05:00")
	given.of(id, next).verdict == "block"
}

test_unknown_without_evidence if {
	given.missing(given.of(id, given.forget(given.resume, ends))) == {"lines.L2.contract_end_date": "missing"}
	given.missing(given.of(id, given.outdate(given.resume, ends))) == {"lines.L2.contract_end_date": "stale"}
	given.missing(given.of(id, given.forget(given.resume, ["lines", "L2"]))) == {
		"lines.L2.contract_end_date": "missing",
	}
}

test_violated_by_what_is_no_date if {
	odd := ["2026-12", "12/31/2026", "2026-12-31T00:00:00", "9999", "never", " 2026-12-31"]
	every value in array.concat(given.odd_values, odd) {
		given.of(id, ended(value)) == given.violated(
			id,
			"block",
			"When the contract of line L2 ends is not on record as a date. The line cannot be resumed.",
			[ends],
		)
	}
}
