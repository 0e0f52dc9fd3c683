package ledgeragent.gate.clock_test

import data.ledgeragent.gate.clock

now := "2024-05-15T15:00:00-05:00"

# Each taken from another implementation.
instants := {
	"1970-01-01T00:00:00Z": 0,
	"1969-12-31T23:59:59Z": -1,
	"1970-01-01T05:30:00+05:30": 0,
	"1999-12-31T23:59:59-00:00": 946684799,
	"2000-02-29T12:00:00Z": 951825600,
	"2000-03-01T00:00:00Z": 951868800,
	"2024-02-29T23:59:59.999999999Z": 1709251199,
	"2024-12-31T00:00:00+14:00": 1735552800,
	"2100-03-01T00:00:00Z": 4107542400,
	"0001-01-01T00:00:00Z": -62135596800,
	"9999-12-31T23:59:59Z": 253402300799,
	"2024-05-15T15:00:00-05:00": 1715803200,
}

test_the_seconds_of_an_instant if {
	every instant, seconds in instants { clock.seconds(instant, now) == seconds }
}

test_a_text_without_an_offset_takes_that_of_now if {
	clock.seconds("2024-05-15T15:00:00", now) == clock.seconds(now, now)
	clock.seconds("2024-05-15T15:00:00.25", now) == clock.seconds(now, now)
	clock.seconds("2024-05-15T15:00:00", "2024-01-01T00:00:00.5Z") == clock.seconds("2024-05-15T15:00:00Z", now)
	clock.seconds("1970-01-01T05:30:00", "2024-01-01T00:00:00+05:30") == 0
	not clock.seconds("2024-05-15T15:00:00", "2024-05-15T15:00:00")
}

odd := [
	null,
	true,
	1715803200,
	[],
	{},
	"",
	"2024-05-15",
	"2024-05-15 15:00:00Z",
	"2024-05-15T15:00Z",
	"2024-05-15t15:00:00z",
	"2024-00-15T15:00:00Z",
	"2024-13-15T15:00:00Z",
	"2024-05-00T15:00:00Z",
	"2024-05-32T15:00:00Z",
	"2024-04-31T15:00:00Z",
	"2023-02-29T15:00:00Z",
	"2100-02-29T15:00:00Z",
	"2024-05-15T24:00:00Z",
	"2024-05-15T15:60:00Z",
	"2024-05-15T15:00:60Z",
	"2024-05-15T15:00:00.Z",
	"2024-05-15T15:00:00+24:00",
	"2024-05-15T15:00:00+05:60",
	"2024-05-15T15:00:00+0500",
	"2024-05-15T15:00:00Z\n",
	"+2024-05-15T15:00:00Z",
	"２０２４-05-15T15:00:00Z",
]

test_what_is_no_instant_has_no_seconds if {
	every value in odd { not clock.seconds(value, now) }
}

test_a_now_that_is_no_instant_gives_no_offset if {
	every value in [null, 7, "", "2024-05-15", "2024-05-15T15:00:00+24:00"] {
		not clock.seconds("2024-05-15T15:00:00", value)
	}
}
