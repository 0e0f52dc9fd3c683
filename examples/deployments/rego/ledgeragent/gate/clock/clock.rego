# METADATA
# title: Instants as whole seconds
# description: |
#   Reads RFC 3339 texts by arithmetic alone, so that no text can make a built-in fail. Anything that is not a real
#   instant is undefined and counts against the call. Fractions of a second are left out.
package ledgeragent.gate.clock

# METADATA
# title: Seconds since 1970 of an instant; a text without an offset takes the offset of `now`
seconds(instant, now) := ((_days(instant) * 86400) + _time_of_day(instant)) - _offset(_suffix(instant, now)) if {
	_is_instant(instant)
	_is_instant(now)
}

_is_instant(value) if {
	is_string(value)
	regex.match(
		`^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})?$`,
		value,
	)
}

# Days since 1970-01-01 in the proleptic Gregorian calendar. Years begin in March here, so that the leap day is the
# last; a cycle of 400 years has 146097 days.
_days(instant) := ((cycle * 146097) + day_of_cycle) - 719468 if {
	month := _number(instant, 5, 2)
	day := _number(instant, 8, 2)
	_is_date(_number(instant, 0, 4), month, day)
	year := _number(instant, 0, 4) - _before_march(month)
	cycle := floor(year / 400)
	year_of_cycle := year - (cycle * 400)
	day_of_year := (floor(((153 * ((month + 9) % 12)) + 2) / 5) + day) - 1
	leap_days := floor(year_of_cycle / 4) - floor(year_of_cycle / 100)
	day_of_cycle := ((year_of_cycle * 365) + leap_days) + day_of_year
}

_before_march(month) := 1 if {
	month <= 2
} else := 0

# The year 0 is left out: its January belongs to a year -1 here, and engines floor -1/400 differently.
_is_date(year, month, day) if {
	year >= 1
	month >= 1
	month <= 12
	day >= 1
	day <= _days_in(year, month)
}

_days_in(_, month) := 31 if month in {1, 3, 5, 7, 8, 10, 12}

_days_in(_, month) := 30 if month in {4, 6, 9, 11}

_days_in(year, 2) := 29 if {
	_is_leap(year)
} else := 28

_is_leap(year) if {
	year % 4 == 0
	year % 100 != 0
}

_is_leap(year) if year % 400 == 0

_time_of_day(instant) := ((hours * 3600) + (minutes * 60)) + rest if {
	hours := _number(instant, 11, 2)
	minutes := _number(instant, 14, 2)
	rest := _number(instant, 17, 2)
	hours <= 23
	minutes <= 59
	rest <= 59
}

_suffix(instant, now) := trim_left(substring(instant, 19, -1), ".0123456789") if {
	trim_left(substring(instant, 19, -1), ".0123456789") != ""
} else := trim_left(substring(now, 19, -1), ".0123456789")

_offset("Z") := 0

_offset(suffix) := _sign[substring(suffix, 0, 1)] * ((hours * 3600) + (minutes * 60)) if {
	count(suffix) == 6
	hours := _number(suffix, 1, 2)
	minutes := _number(suffix, 4, 2)
	hours <= 23
	minutes <= 59
}

_sign := {"+": 1, "-": -1}

# The digits at a place as a number; what they are was checked by `_is_instant`.
_number(text, start, length) := sum([value |
	some index in numbers.range(0, length - 1)
	value := indexof("0123456789", substring(text, start + index, 1)) * _power[(length - 1) - index]
])

_power := [1, 10, 100, 1000]
