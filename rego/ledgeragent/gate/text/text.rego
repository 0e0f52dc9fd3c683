# METADATA
# title: Words for messages
# description: |
#   Text only, whatever the value is. A message must never fail, and engines print other types differently.
package ledgeragent.gate.text

# A list longer than this is cut: a message is read by people and paid for by the token.
_longest_list := 20

# METADATA
# title: Texts one after the other
join(parts) := concat("", parts)

# METADATA
# title: A value in quotes, cut to a length a person reads
quote(value) := concat("", [`"`, show(value), `"`])

# METADATA
# title: A text as it is, cut to 80 characters; another value by its type
show(value) := substring(value, 0, 80) if {
	is_string(value)
} else := concat("", ["(", type_name(value), ")"])

# WebAssembly writes whole numbers of 32 bits only.
_largest_number := 2147483647

# METADATA
# title: A whole number as it is; another value by its type
number(value) := format_int(value, 10) if {
	is_number(value)
	abs(value) <= _largest_number
	value == floor(value)
} else := concat("", ["(", type_name(value), ")"])

# METADATA
# title: A path as people see it
dotted(path) := concat(".", [show(key) | some key in path])

# METADATA
# title: Values as "a, b and c", sorted, without repetition
list(values) := _listed(sort({show(value) | some value in values}))

_listed(words) := "none" if {
	count(words) == 0
} else := words[0] if {
	count(words) == 1
} else := concat(" and ", [concat(", ", array.slice(words, 0, count(words) - 1)), words[count(words) - 1]]) if {
	count(words) <= _longest_list
} else := concat("", [
	concat(", ", array.slice(words, 0, _longest_list)),
	" and ",
	format_int(count(words) - _longest_list, 10),
	" more",
])
