# METADATA
# title: A line is resumed only when no bill is open
# description: |
#   No bill on the customer's profile is "Overdue" or "Awaiting Payment", as last read. Each bill needs one read. A
#   payment request makes its bill stale, since the customer pays on their own device: it has to be read again after
#   that. Where a list of bills shows more than the profile, the profile is out of date and has to be read again.
# custom:
#   id: telecom.resume_bills_settled
#   remedy: Read every bill of the customer; have overdue ones paid, and read those again until they are "Paid".
#   severity: high
#   policy: Line Suspension
#   evidence:
#     - "auth.customer_id"
#     - "customers.{principal}.bill_ids?"
#     - "bills.{ledger: customers.{principal}.bill_ids[*]}.status?"
#     - "customer_bills.{principal}?"
package ledgeragent.telecom.resume_bills_settled

import data.ledgeragent.gate.text
import data.ledgeragent.telecom.facts

guards := {"resume_line"}

evidence contains path if some path in facts.customer_paths

# A bill that is known to be open decides: then no other bill is asked for.
evidence contains facts.bill_status_path(id) if some id in _open

evidence contains facts.customer_path("bill_ids") if count(_open) == 0

evidence contains facts.bill_status_path(id) if {
	count(_open) == 0
	some id in facts.bills
}

# A list of bills can only count against a call: without it, the profile decides.
evidence contains facts.listed_bills_path if count(facts.bills_not_on_profile) > 0

holds if {
	is_array(facts.bill_ids)
	count(facts.bills_not_on_profile) == 0
	count(_open) == 0
	every id in facts.bills { is_string(facts.bill_status(id)) }
}

_open contains id if {
	some id in facts.bills
	facts.bill_status(id) in {"Awaiting Payment", "Overdue"}
}

verdict := "revise"

message := text.join([
	"A line is resumed only after every bill is paid. Open: ",
	text.list({text.join([id, " (", facts.bill_status(id), ")"]) | some id in _open}),
	". Once the customer has paid on their device, read these bills again.",
]) if {
	count(_open) > 0
} else := text.join([
	"The profile as last read lacks bills that a list of bills showed: ",
	text.list(facts.bills_not_on_profile),
	". Read the customer again.",
]) if {
	count(facts.bills_not_on_profile) > 0
} else := "The customer's bills are not on record as the operator lists them. Read the customer and the bills again."
