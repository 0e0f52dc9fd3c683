# METADATA
# title: The change is made to the line whose number the customer gave
# description: |
#   Where the customer was found by a phone number, the line that the call names carries a number that was looked up. It
#   counts as any line of theirs when none of their lines carries one (a contact number is not a line). Where nobody was
#   looked up by phone, this rule says nothing.
# custom:
#   id: telecom.line_of_the_phone
#   remedy: Read the customer's lines and name the one with the number that the customer gave.
#   severity: high
#   policy: Data Refueling; Change Plan (the line associated with the phone number the user provided)
#   evidence:
#     - "looked_up_phones?"
#     - "lines.{arguments.line_id}.phone_number?"
#     - "auth.customer_id?"
#     - "customers.{principal}.line_ids?"
#     - "lines.{ledger: customers.{principal}.line_ids[*]}.phone_number?"
# schemas:
#   - input: schema["gate_input.schema"]
#   - input.ledger: schema.telecom["ledger.schema"]
package ledgeragent.telecom.line_of_the_phone

import data.ledgeragent.gate.facts as observed
import data.ledgeragent.gate.text
import data.ledgeragent.telecom.facts

guards := {
	"disable_roaming",
	"enable_roaming",
	"refuel_data",
	"resume_line",
	"suspend_line",
}

# What was looked up can only count against a call: without it, this rule says nothing.
evidence contains ["looked_up_phones"] if not holds

evidence contains facts.phone_number_path(facts.line_id) if not _nobody_by_phone

evidence contains path if {
	_another_number
	some path in facts.customer_paths
}

evidence contains facts.customer_path("line_ids") if _another_number

# A line that carries the number decides: then no other line is asked for.
evidence contains facts.phone_number_path(id) if {
	_another_number
	some id in _carriers
}

evidence contains facts.phone_number_path(id) if {
	_another_number
	count(_carriers) == 0
	some id in facts.line_ids
}

holds if _nobody_by_phone

holds if _carries_a_number

holds if {
	_another_number
	count(_carriers) == 0
	every id in facts.line_ids { is_string(facts.phone_number(id)) }
}

_nobody_by_phone if observed.known_absent(["looked_up_phones"])

_phones := phones if {
	phones := input.ledger.looked_up_phones
	is_array(phones)
	count(phones) > 0
}

# The line was read, and its number is none of those.
_another_number if {
	is_array(_phones)
	is_string(facts.phone_number(facts.line_id))
	not _carries_a_number
}

_carries_a_number if facts.phone_number(facts.line_id) in _phones

_carriers contains id if {
	some id in facts.line_ids
	facts.phone_number(id) in _phones
}

verdict := "revise"

message := text.join([
	"Line ",
	text.show(facts.line_id),
	" does not carry the phone number that the customer was found by. The line that does: ",
	text.list(_carriers),
	". Name that one, or ask the customer for the number of the line they mean and look it up.",
]) if {
	count(_carriers) > 0
} else := "The phone numbers of this customer's lines are not on record as texts. Read the lines again."
