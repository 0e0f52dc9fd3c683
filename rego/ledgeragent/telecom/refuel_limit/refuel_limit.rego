# METADATA
# title: Data is refuelled up to a limit
# description: |
#   The amount is more than nothing, and together with what this conversation already refuelled on the line it is at
#   most the policy data `settings.refuel_limit_gb`, compared to the millionth of a gigabyte. Calls that were rejected
#   or refused do not count.
# custom:
#   id: telecom.refuel_limit
#   remedy: Tell the customer how much can still be refuelled on the line, and ask how much of it they want.
#   severity: medium
#   policy: Data Refueling
#   evidence: []
#   reads: [history, siblings]
# schemas:
#   - input: schema["gate_input.schema"]
#   - input.ledger: schema.telecom["ledger.schema"]
package ledgeragent.telecom.refuel_limit

import data.ledgeragent.gate.history
import data.ledgeragent.gate.text
import data.ledgeragent.telecom.facts

guards := {"refuel_data"}

evidence := set()

holds if _millionths(input.action.arguments.gb_amount) + _before <= _limit

_limit := _millionths(data.ledgeragent.telecom.settings.refuel_limit_gb)

# Undefined, and so a refusal, when one earlier amount is not an amount.
_before := sum(amounts) if {
	amounts := [_millionths(write.arguments.gb_amount) | some write in _earlier]
	count(amounts) == count(_earlier)
}

_earlier := [write |
	some write in history.executed
	write.tool in guards
	write.arguments.line_id == facts.line_id
]

# Integers, because sums of decimals differ in their last digits from engine to engine.
_millionths(gigabytes) := round(gigabytes * 1000000) if {
	is_number(gigabytes)
	gigabytes > 0
	gigabytes < 1000000
}

verdict := "revise"

message := text.join([
	"A refuelling adds more than 0 GB, and all of them together at most ",
	_shown(_limit),
	" GB to one line. Already refuelled on line ",
	text.show(facts.line_id),
	" in this conversation: ",
	_shown(_before),
	" GB.",
]) if {
	is_number(_limit)
	is_number(_before)
} else := "How much can still be refuelled on this line cannot be told, so nothing can be refuelled."

_shown(millionths) := concat(".", [whole, trim_right(_six_digits(millionths % 1000000), "0")]) if {
	millionths % 1000000 > 0
	whole := format_int(floor(millionths / 1000000), 10)
} else := format_int(floor(millionths / 1000000), 10)

_six_digits(number) := substring(format_int(number + 1000000, 10), 1, 6)
