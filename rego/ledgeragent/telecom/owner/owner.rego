# METADATA
# title: Customers change only their own lines and bills
# description: |
#   The call names the identified customer, and the line or the bill it names is on that customer's own profile. Where
#   the host signed the customer in and a look-up in the conversation proves somebody else, nothing may be changed for
#   either.
# custom:
#   id: telecom.owner
#   remedy: Identify the customer by phone number, customer id, or name and date of birth; change only what is theirs.
#   severity: critical
#   policy: Customer Lookup; Technical Support (identify the customer first)
#   evidence:
#     - "auth.customer_id"
#     - "customers.{principal}.line_ids?"
#     - "customers.{principal}.bill_ids?"
# schemas:
#   - input: schema["gate_input.schema"]
#   - input.ledger: schema.telecom["ledger.schema"]
package ledgeragent.telecom.owner

import data.ledgeragent.gate.text
import data.ledgeragent.telecom.facts

guards := {
	"disable_roaming",
	"enable_roaming",
	"refuel_data",
	"resume_line",
	"send_payment_request",
	"suspend_line",
}

evidence contains path if some path in facts.customer_paths

evidence contains ["auth", "customer_id"] if _proves_somebody_else

evidence contains facts.customer_path("bill_ids") if {
	_about_a_bill
	not _proves_somebody_else
	not _names_somebody_else
}

evidence contains facts.customer_path("line_ids") if {
	not _about_a_bill
	not _proves_somebody_else
	not _names_somebody_else
}

holds if {
	not _proves_somebody_else
	input.action.arguments.customer_id == facts.customer_id
	_thing in _own
}

_proves_somebody_else if {
	facts.from_host
	input.ledger.auth.customer_id != facts.customer_id
}

_names_somebody_else if input.action.arguments.customer_id != facts.customer_id

_about_a_bill if input.action.tool == "send_payment_request"

_own := facts.bill_ids if _about_a_bill

_own := facts.line_ids if not _about_a_bill

_thing := facts.bill_id if _about_a_bill

_thing := facts.line_id if not _about_a_bill

verdict := "block"

message := text.join([
	"The host signed in ",
	text.show(facts.customer_id),
	", but a look-up in this conversation identified ",
	text.show(input.ledger.auth.customer_id),
	". Nothing can be changed for either of them.",
]) if {
	_proves_somebody_else
} else := text.join([
	"The call names customer ",
	text.show(input.action.arguments.customer_id),
	", but the customer identified in this conversation is ",
	text.show(facts.customer_id),
	". Only their own lines and bills can be changed.",
]) if {
	_names_somebody_else
} else := "What is on record as the customer's id is no customer id. Identify the customer." if {
	not facts.customer_id
} else := text.join([
	_kind,
	text.show(_thing),
	" is not on the profile of customer ",
	text.show(input.action.arguments.customer_id),
	". On it: ",
	text.list(_shown),
	". Only their own lines and bills can be changed.",
])

_kind := "Bill " if {
	_about_a_bill
} else := "Line "

_shown contains id if some id in _own
