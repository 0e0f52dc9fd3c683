# METADATA
# title: Payment is requested only for an overdue bill
# description: |
#   The bill's status, as last read, must be exactly "Overdue". The tool itself does not check this.
# custom:
#   id: telecom.bill_overdue
#   remedy: Read the bill; if it is not overdue, tell the customer that nothing is to be paid for it now.
#   severity: high
#   policy: Overdue Bill Payment
#   evidence: ["bills.{arguments.bill_id}.status"]
package ledgeragent.telecom.bill_overdue

import data.ledgeragent.gate.text
import data.ledgeragent.telecom.facts

guards := {"send_payment_request"}

evidence contains facts.bill_status_path(facts.bill_id)

holds if facts.bill_status(facts.bill_id) == "Overdue"

verdict := "revise"

message := text.join([
	"The status of bill ",
	text.show(facts.bill_id),
	" is ",
	_status,
	`. A payment request is sent only for a bill whose status is exactly "Overdue".`,
])

default _status := "not known"

_status := text.quote(facts.bill_status(facts.bill_id))
