package ledgeragent.telehealth.facts_test

import data.ledgeragent.telehealth.facts

# Each taken from another implementation.
weekdays := {
	"0001-01-01": "Monday",
	"1900-01-01": "Monday",
	"1969-12-31": "Wednesday",
	"1970-01-01": "Thursday",
	"1999-12-31": "Friday",
	"2000-02-29": "Tuesday",
	"2024-02-29": "Thursday",
	"2025-10-12": "Sunday",
	"2026-03-09": "Monday",
	"2026-03-14": "Saturday",
	"2100-03-03": "Wednesday",
}

test_the_weekday_of_a_date if {
	every date, weekday in weekdays { facts.weekday(date) == weekday }
}

odd := [
	null,
	true,
	20260309,
	[],
	{},
	"",
	"0000-01-01",
	"2026-3-9",
	"2026-02-29",
	"2026-13-01",
	"2026-00-10",
	"2026-04-31",
	"09/03/2026",
	"2026-03-09T10:30:00Z",
	" 2026-03-09",
	"2026-03-09\n",
	"Monday    ",
]

test_what_is_no_date_has_no_weekday if {
	every value in odd { not facts.weekday(value) }
}
