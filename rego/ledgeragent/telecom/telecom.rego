# METADATA
# title: What is enforced in telecom
# description: |
#   The one page that lists every telecom predicate. A predicate that is not listed here guards nothing.
# schemas:
#   - input: schema["gate_input.schema"]
package ledgeragent.telecom

import data.ledgeragent.common
import data.ledgeragent.gate

default decision := {
	"contract": "ledgeragent.decision/1",
	"request": "",
	"verdict": "block",
	"findings": [{
		"predicate": "gate.input",
		"status": "violated",
		"verdict": "block",
		"mode": "enforce",
		"message": "The gate cannot judge: its generated data (data.json) is not loaded.",
		"paths": [],
		"missing": [],
	}],
	"predicates": [],
	"overrides": [],
	"obligations": [],
	"policy": {"revision": "none"},
}

# METADATA
# title: The decision on the proposed call
# entrypoint: true
decision := gate.decide("telecom", data.ledgeragent.telecom.declared, predicates)

# METADATA
# title: The same decision without the deployment's overrides, for proving a revision before it is used
# entrypoint: true
proof := undiluted if {
	undiluted := decision with data.ledgeragent_overrides as {}
}

predicates["common.no_repeat_write"] := common.no_repeat_write if {
	data.ledgeragent.telecom.declared.tools[input.action.tool].effect == "write"
}

predicates["telecom.bill_overdue"] := data.ledgeragent.telecom.bill_overdue if {
	input.action.tool in data.ledgeragent.telecom.bill_overdue.guards
}

predicates["telecom.line_of_the_phone"] := data.ledgeragent.telecom.line_of_the_phone if {
	input.action.tool in data.ledgeragent.telecom.line_of_the_phone.guards
}

predicates["telecom.line_resumable"] := data.ledgeragent.telecom.line_resumable if {
	input.action.tool in data.ledgeragent.telecom.line_resumable.guards
}

predicates["telecom.owner"] := data.ledgeragent.telecom.owner if {
	input.action.tool in data.ledgeragent.telecom.owner.guards
}

predicates["telecom.refuel_limit"] := data.ledgeragent.telecom.refuel_limit if {
	input.action.tool in data.ledgeragent.telecom.refuel_limit.guards
}

predicates["telecom.resume_bills_settled"] := data.ledgeragent.telecom.resume_bills_settled if {
	input.action.tool in data.ledgeragent.telecom.resume_bills_settled.guards
}

predicates["telecom.resume_contract_active"] := data.ledgeragent.telecom.resume_contract_active if {
	input.action.tool in data.ledgeragent.telecom.resume_contract_active.guards
}

predicates["telecom.single_pending_request"] := data.ledgeragent.telecom.single_pending_request if {
	input.action.tool in data.ledgeragent.telecom.single_pending_request.guards
}
