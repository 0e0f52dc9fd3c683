# METADATA
# title: Money in integer cents
# description: |
#   Amounts arrive as decimal numbers and are compared as integer cents. A value that is not a number, or is larger
#   than any price, has no cents: whatever depends on it is undefined and counts against the call.
package ledgeragent.gate.money

# METADATA
# title: An amount in cents, rounded half away from zero
cents(amount) := round(amount * 100) if {
	is_number(amount)
	amount < 1000000000
	amount > -1000000000
}

# More dollars than that cannot be written: compiled to WebAssembly, `format_int` has 32 bits.
_most_dollars := 2147483647

# METADATA
# title: Cents as a customer reads them; undefined for sums that no customer pays
dollars(amount) := concat("", [
	_sign(amount),
	"$",
	format_int(floor(abs(amount) / 100), 10),
	".",
	_two(abs(amount) % 100),
]) if {
	abs(amount) < _most_dollars * 100
}

_sign(amount) := "-" if {
	amount < 0
} else := ""

_two(amount) := concat("", ["0", format_int(amount, 10)]) if {
	amount < 10
} else := format_int(amount, 10)
