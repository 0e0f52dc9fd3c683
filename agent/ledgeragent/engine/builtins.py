"""The built-in functions that a compiled module leaves to its host, done as Open Policy Agent does them.

An allow-list: a module that asks for anything else is refused when it is loaded. Each function gives OPA's
value for every argument it accepts and raises `BuiltinFailed` where OPA's would fail; nothing here reads a
clock. Tests hold each of them against a real OPA. The rules followed are those of OPA's `topdown` package
and of Go's `fmt` and `time`.
"""

from __future__ import annotations

import calendar
import datetime as dt
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final

_NS: Final = 1_000_000_000
_MIN_NS: Final = -(2**63)
_MAX_NS: Final = 2**63 - 1
_DAY_NS: Final = 86_400 * _NS
_EPOCH_DAY: Final = dt.date(1970, 1, 1).toordinal()
_WEEKDAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

# Go's layout 2006-01-02T15:04:05Z07:00 takes one digit for the hour and any number of digits after the seconds.
_RFC3339 = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d{1,2}):(\d\d):(\d\d)(?:[.,](\d+))?(?:Z|([+-])(\d\d):(\d\d))", re.ASCII)
_VERB = re.compile(r"%(0\d+)?(.?)", re.DOTALL)


class BuiltinFailed(Exception):
    """The arguments are such that OPA's own function fails, or that this host does not reproduce."""


def sprintf(template: Any, values: Any) -> str:
    """Fill `template` as Go's `fmt` does, for the verbs %s, %d, %v, %% and zero-padded %0Nd.

    Raises:
        BuiltinFailed: another verb or flag, or a value that is an array or object.
    """
    if not isinstance(template, str) or not isinstance(values, list):
        raise BuiltinFailed("sprintf takes a string and an array")
    queue = list(values)
    used = 0

    def fill(match: re.Match[str]) -> str:
        nonlocal used
        padding, verb = match.groups()
        if verb == "%" and not padding:
            return "%"
        if verb not in ("s", "d", "v") or (padding and verb != "d"):
            raise BuiltinFailed(f"sprintf: {match.group()!r} is not supported here; use %s, %d, %v or %0Nd")
        if used == len(queue):
            return f"%!{verb}(MISSING)"
        used += 1
        return _format(verb, padding, queue[used - 1])

    text = _VERB.sub(fill, template)
    extra = queue[used:]
    return text + (f"%!(EXTRA {', '.join(_typed(value) for value in extra)})" if extra else "")


def parse_rfc3339_ns(text: Any) -> int:
    """Return the nanoseconds since 1970 of an RFC 3339 time.

    Raises:
        BuiltinFailed: the text is no such time, or lies outside what 64 bits of nanoseconds hold.
    """
    match = _RFC3339.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise BuiltinFailed("time.parse_rfc3339_ns: not an RFC 3339 time")
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    fraction, sign, zone_hours, zone_minutes = match.groups()[6:]
    if not (hour < 24 and minute < 60 and second < 60 and 1 <= month <= 12 and 1 <= day <= _days(year, month)):
        raise BuiltinFailed("time.parse_rfc3339_ns: a part is out of range")
    offset = 0
    if sign:
        if int(zone_hours) > 24 or int(zone_minutes) > 60:
            raise BuiltinFailed("time.parse_rfc3339_ns: the offset is out of range")
        offset = (int(zone_hours) * 3600 + int(zone_minutes) * 60) * (-1 if sign == "-" else 1)
    seconds = _day_number(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset
    return _in_range(seconds * _NS + int((fraction or "")[:9].ljust(9, "0")), "time.parse_rfc3339_ns")


def clock(ns: Any) -> list[int]:
    """Return [hour, minute, second] in UTC."""
    seconds = _instant(ns, "time.clock") % _DAY_NS // _NS
    return [seconds // 3600, seconds // 60 % 60, seconds % 60]


def date(ns: Any) -> list[int]:
    """Return [year, month, day] in UTC."""
    day = _date(_instant(ns, "time.date"))
    return [day.year, day.month, day.day]


def weekday(ns: Any) -> str:
    """Return the English name of the day of the week in UTC."""
    return _WEEKDAYS[_date(_instant(ns, "time.weekday")).weekday()]


def add_date(ns: Any, years: Any, months: Any, days: Any) -> int:
    """Return the time that many years, months and days later; a day past its month's end runs into the next.

    Raises:
        BuiltinFailed: an argument is no integer, or the result is out of range.
    """
    start = _instant(ns, "time.add_date")
    for part in (years, months, days):
        if not _is_int(part) or abs(part) > 2**31:
            raise BuiltinFailed("time.add_date: years, months and days are integers")
    day = _date(start)
    month_index = day.month - 1 + months
    year, month = day.year + years + month_index // 12, month_index % 12 + 1
    if not 1 <= year <= 9999:
        raise BuiltinFailed("time.add_date: the result is out of range")
    number = _day_number(year, month, 1) + day.day - 1 + days
    return _in_range(number * _DAY_NS + start % _DAY_NS, "time.add_date")


HOST_BUILTINS: Final[Mapping[str, Callable[..., Any]]] = {
    "sprintf": sprintf,
    "time.add_date": add_date,
    "time.clock": clock,
    "time.date": date,
    "time.parse_rfc3339_ns": parse_rfc3339_ns,
    "time.weekday": weekday,
}


def _format(verb: str, padding: str | None, value: Any) -> str:
    if _is_int(value):
        if verb == "s" and _MIN_NS <= value <= _MAX_NS:  # larger ones print themselves for any verb
            return f"%!s({_typed(value)})"
        return f"{value:0{int(padding)}d}" if padding else str(value)
    if verb == "d":
        return f"%!d({_padded_type(value, padding)})"
    if isinstance(value, float):
        return _go_float(value) if verb == "v" else f"%!s({_typed(value)})"
    return _text(value)


def _padded_type(value: Any, padding: str | None) -> str:
    if padding:
        raise BuiltinFailed("sprintf: %0Nd takes an integer")
    return _typed(value)


def _typed(value: Any) -> str:
    if _is_int(value):
        kind = "int64" if _MIN_NS <= value <= _MAX_NS else "*big.Int"
        return f"{kind}={value}"
    if isinstance(value, float):
        return f"float64={_go_float(value)}"
    return f"string={_text(value)}"


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    raise BuiltinFailed("sprintf: an array, set or object as a value; its order is not the same everywhere")


def _go_float(value: float) -> str:
    """Write a float as Go's %v: the shortest digits, with an exponent where it is below -4 or above 5."""
    if value == 0 or 1e-4 <= abs(value) < 1e6:
        return repr(value).removesuffix(".0")
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    text = "".join(map(str, digits))
    power = int(exponent) + len(text) - 1
    mantissa = f"{text[0]}.{text[1:]}".removesuffix(".")
    return f"{'-' if sign else ''}{mantissa}e{'-' if power < 0 else '+'}{abs(power):02d}"


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _instant(ns: Any, name: str) -> int:
    if isinstance(ns, float) and ns.is_integer():
        ns = int(Decimal(repr(ns)))  # OPA reads the digits, not the nearest double
    if not _is_int(ns):
        raise BuiltinFailed(f"{name}: nanoseconds since 1970 as an integer; time zones are not supported here")
    return _in_range(ns, name)


def _in_range(ns: int, name: str) -> int:
    if not _MIN_NS <= ns <= _MAX_NS:
        raise BuiltinFailed(f"{name}: the time is outside the years 1678 to 2262")
    return ns


def _date(ns: int) -> dt.date:
    return dt.date.fromordinal(_EPOCH_DAY + ns // _DAY_NS)


def _days(year: int, month: int) -> int:
    # calendar refuses the year 0, which is a leap year in Go's calendar, as 2000 is.
    return calendar.monthrange(year or 2000, month)[1]


def _day_number(year: int, month: int, day: int) -> int:
    if year == 0:
        return _day_number(400, month, day) - 146_097
    return dt.date(year, month, 1).toordinal() - _EPOCH_DAY + day - 1
