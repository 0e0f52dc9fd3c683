# METADATA
# title: One payment request at a time
# description: |
#   No other bill on the customer's profile is awaiting payment: each of them was read since the last request for it.
#   After a request for this bill, the bill has to be read again before a second one. Where a list of bills shows more
#   than the profile, the profile is out of date and has to be read again.
# custom:
#   id: telecom.single_pending_request
#   remedy: Let the customer pay the open request first, then read that bill again; its status has to be "Paid".
#   severity: high
#   policy: Overdue Bill Payment (one bill in the Awaiting Payment status at a time)
#   evidence:
#     - "auth.customer_id"
#     - "customers.{principal}.bill_ids?"
#     - "bills.{ledger: customers.{principal}.bill_ids[*]}.status?"
#     - "bills.{arguments.bill_id}.status?"
#     - "customer_bills.{principal}?"
#   reads: [history, siblings]
package ledgeragent.telecom.single_pending_request

import data.ledgeragent.gate.history
import data.ledgeragent.gate.text
import data.ledgeragent.telecom.facts

guards := {"send_payment_request"}

evidence contains path if some path in facts.customer_paths

# A bill that is known to wait decides: then no other bill is asked for.
evidence contains facts.bill_status_path(id) if some id in _waiting

evidence contains facts.customer_path("bill_ids") if count(_waiting) == 0

evidence contains facts.bill_status_path(id) if {
	count(_waiting) == 0
	some id in _others
}

evidence contains facts.bill_status_path(facts.bill_id) if {
	count(_waiting) == 0
	_requested
}

# A list of bills can only count against a call: without it, the profile decides.
evidence contains facts.listed_bills_path if count(facts.bills_not_on_profile) > 0

holds if {
	is_array(facts.bill_ids)
	count(facts.bills_not_on_profile) == 0
	count(_waiting) == 0
	every id in _others { is_string(facts.bill_status(id)) }
	_first_or_read_again
}

_others := facts.bills - {facts.bill_id}

_waiting contains id if {
	some id in _others
	facts.bill_status(id) == "Awaiting Payment"
}

_first_or_read_again if not _requested

_first_or_read_again if is_string(facts.bill_status(facts.bill_id))

_requested if {
	some write in history.executed
	write.tool in guards
	write.arguments.bill_id == facts.bill_id
}

verdict := "revise"

message := text.join([
	"A customer has one open payment request at a time. Awaiting payment: ",
	text.list(_waiting),
	". Once the customer has paid on their device, read that bill again; then the next request can be sent.",
]) if {
	count(_waiting) > 0
} else := text.join([
	"The profile as last read lacks bills that a list of bills showed: ",
	text.list(facts.bills_not_on_profile),
	". Read the customer again.",
]) if {
	count(facts.bills_not_on_profile) > 0
} else := "The customer's bills are not on record as the operator lists them. Read the customer and the bills again."
