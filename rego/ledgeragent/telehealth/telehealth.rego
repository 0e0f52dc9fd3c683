# METADATA
# title: What is enforced in telehealth
# description: |
#   The one page that lists every telehealth predicate. A predicate that is not listed here guards nothing.
# schemas:
#   - input: schema["gate_input.schema"]
package ledgeragent.telehealth

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
decision := gate.decide("telehealth", data.ledgeragent.telehealth.declared, predicates)

# METADATA
# title: The same decision without the deployment's overrides, for proving a revision before it is used
# entrypoint: true
proof := undiluted if {
	undiluted := decision with data.ledgeragent_overrides as {}
}

predicates["common.no_repeat_write"] := common.no_repeat_write if {
	data.ledgeragent.telehealth.declared.tools[input.action.tool].effect == "write"
}

predicates["telehealth.appointment_open"] := data.ledgeragent.telehealth.appointment_open if {
	input.action.tool in data.ledgeragent.telehealth.appointment_open.guards
}

predicates["telehealth.authenticated"] := data.ledgeragent.telehealth.authenticated if {
	input.action.tool in data.ledgeragent.telehealth.authenticated.guards
}

predicates["telehealth.owner"] := data.ledgeragent.telehealth.owner if {
	input.action.tool in data.ledgeragent.telehealth.owner.guards
}

predicates["telehealth.record_observed"] := data.ledgeragent.telehealth.record_observed if {
	input.action.tool in data.ledgeragent.telehealth.record_observed.guards
}

predicates["telehealth.slot_in_schedule"] := data.ledgeragent.telehealth.slot_in_schedule if {
	input.action.tool in data.ledgeragent.telehealth.slot_in_schedule.guards
}

predicates["telehealth.supplier_quote_observed"] := data.ledgeragent.telehealth.supplier_quote_observed if {
	input.action.tool in data.ledgeragent.telehealth.supplier_quote_observed.guards
}
