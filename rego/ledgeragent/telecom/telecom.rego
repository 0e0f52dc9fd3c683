# METADATA
# title: What is enforced in telecom
# description: |
#   The one page that lists the predicates of every write. A predicate that is not listed here guards nothing. This file
#   is written from the predicates' `guards` (`make compile`, or `ledgeragent domain compile`); edit those.
# schemas:
#   - input: schema["gate_input.schema"]
package ledgeragent.telecom

import data.ledgeragent.gate
import data.ledgeragent.gate.overrides

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
	"policy": {
		"revision": "none",
		"gate": "none",
		"sequence": {"domain": 0, "gate": 0, "overrides": 0, "floor": 0, "freeze": 0},
	},
}

# METADATA
# title: The decision on the proposed call
# entrypoint: true
decision := gate.decide("telecom", _declared, predicates)

# METADATA
# title: The policies' own decision, for proving them before they are used
# description: Without what a deployment overrides, what is frozen, and what an organisation demands on top.
# entrypoint: true
proof := undiluted if {
	undiluted := decision with data.ledgeragent_overrides as {}
		with data.ledgeragent_floor as {}
		with data.ledgeragent_freeze as {}
}

# Of the generated data no more than this call needs: whatever is handed to a function is copied.
_declared := {
	"optional": data.ledgeragent.telecom.declared.optional,
	"protected": data.ledgeragent.telecom.declared.protected,
	"revision": data.ledgeragent.telecom.declared.revision,
	"sequence": data.ledgeragent.telecom.declared.sequence,
	"tools": {tool: declared |
		tool := input.action.tool
		declared := data.ledgeragent.telecom.declared.tools[tool]
	},
}

# METADATA
# title: The thresholds, reasons and tables in force
settings[key] := overrides.setting("telecom", key, own) if some key, own in data.ledgeragent.telecom.defaults

default predicates := {}

# Of each predicate that guards the proposed call: nothing if it holds, else all there is to say.
predicates := guarding[input.action.tool]

guarding["disable_roaming"] := {
	"common.no_repeat_write": failing["common.no_repeat_write"],
	"telecom.line_of_the_phone": failing["telecom.line_of_the_phone"],
	"telecom.owner": failing["telecom.owner"],
}

guarding["enable_roaming"] := {
	"common.no_repeat_write": failing["common.no_repeat_write"],
	"telecom.line_of_the_phone": failing["telecom.line_of_the_phone"],
	"telecom.owner": failing["telecom.owner"],
}

guarding["refuel_data"] := {
	"common.no_repeat_write": failing["common.no_repeat_write"],
	"telecom.line_of_the_phone": failing["telecom.line_of_the_phone"],
	"telecom.owner": failing["telecom.owner"],
	"telecom.refuel_limit": failing["telecom.refuel_limit"],
}

guarding["resume_line"] := {
	"common.no_repeat_write": failing["common.no_repeat_write"],
	"telecom.line_of_the_phone": failing["telecom.line_of_the_phone"],
	"telecom.line_resumable": failing["telecom.line_resumable"],
	"telecom.owner": failing["telecom.owner"],
	"telecom.resume_bills_settled": failing["telecom.resume_bills_settled"],
	"telecom.resume_contract_active": failing["telecom.resume_contract_active"],
}

guarding["send_payment_request"] := {
	"common.no_repeat_write": failing["common.no_repeat_write"],
	"telecom.bill_overdue": failing["telecom.bill_overdue"],
	"telecom.owner": failing["telecom.owner"],
	"telecom.single_pending_request": failing["telecom.single_pending_request"],
}

guarding["suspend_line"] := {
	"common.no_repeat_write": failing["common.no_repeat_write"],
	"telecom.line_of_the_phone": failing["telecom.line_of_the_phone"],
	"telecom.owner": failing["telecom.owner"],
}

failing["common.no_repeat_write"] := [all |
	not data.ledgeragent.common.no_repeat_write.holds == true
	all := [predicate | predicate := data.ledgeragent.common.no_repeat_write]
]

failing["telecom.bill_overdue"] := [all |
	not data.ledgeragent.telecom.bill_overdue.holds == true
	all := [predicate | predicate := data.ledgeragent.telecom.bill_overdue]
]

failing["telecom.line_of_the_phone"] := [all |
	not data.ledgeragent.telecom.line_of_the_phone.holds == true
	all := [predicate | predicate := data.ledgeragent.telecom.line_of_the_phone]
]

failing["telecom.line_resumable"] := [all |
	not data.ledgeragent.telecom.line_resumable.holds == true
	all := [predicate | predicate := data.ledgeragent.telecom.line_resumable]
]

failing["telecom.owner"] := [all |
	not data.ledgeragent.telecom.owner.holds == true
	all := [predicate | predicate := data.ledgeragent.telecom.owner]
]

failing["telecom.refuel_limit"] := [all |
	not data.ledgeragent.telecom.refuel_limit.holds == true
	all := [predicate | predicate := data.ledgeragent.telecom.refuel_limit]
]

failing["telecom.resume_bills_settled"] := [all |
	not data.ledgeragent.telecom.resume_bills_settled.holds == true
	all := [predicate | predicate := data.ledgeragent.telecom.resume_bills_settled]
]

failing["telecom.resume_contract_active"] := [all |
	not data.ledgeragent.telecom.resume_contract_active.holds == true
	all := [predicate | predicate := data.ledgeragent.telecom.resume_contract_active]
]

failing["telecom.single_pending_request"] := [all |
	not data.ledgeragent.telecom.single_pending_request.holds == true
	all := [predicate | predicate := data.ledgeragent.telecom.single_pending_request]
]
