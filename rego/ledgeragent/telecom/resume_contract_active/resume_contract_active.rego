# METADATA
# title: A line whose contract has ended is not resumed
# description: |
#   The line's contract ends today or later, or it has no end date. An end date in the past cannot be mended by paying.
# custom:
#   id: telecom.resume_contract_active
#   remedy: Tell the customer that the contract has ended, and hand over; the suspension cannot be lifted here.
#   severity: critical
#   policy: Line Suspension
#   evidence: ["lines.{arguments.line_id}.contract_end_date"]
# schemas:
#   - input: schema["gate_input.schema"]
#   - input.ledger: schema.telecom["ledger.schema"]
package ledgeragent.telecom.resume_contract_active

import data.ledgeragent.gate.text
import data.ledgeragent.telecom.facts

guards := {"resume_line"}

evidence contains facts.line_path("contract_end_date")

holds if facts.line.contract_end_date == null

holds if _end >= _today

# Dates of this form compare as texts.
_end := facts.line.contract_end_date if {
	is_string(facts.line.contract_end_date)
	regex.match(`^[0-9]{4}-[0-9]{2}-[0-9]{2}$`, facts.line.contract_end_date)
}

_today := substring(input.session.now, 0, 10) if is_string(input.session.now)

verdict := "block"

message := text.join([
	"The contract of line ",
	text.show(facts.line_id),
	" ended on ",
	_end,
	" and today is ",
	_today,
	". The line cannot be resumed, even if everything is paid.",
]) if {
	_end
} else := text.join([
	"When the contract of line ",
	text.show(facts.line_id),
	" ends is not on record as a date. The line cannot be resumed.",
])
