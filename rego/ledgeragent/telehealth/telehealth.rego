# METADATA
# title: What is enforced in telehealth
# description: |
#   The one page that lists the predicates of every write. A predicate that is not listed here guards nothing. This file
#   is written from the predicates' `guards` (`make compile`, or `ledgeragent domain compile`); edit those.
# schemas:
#   - input: schema["gate_input.schema"]
package ledgeragent.telehealth

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
decision := gate.decide("telehealth", _declared, predicates)

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
	"optional": data.ledgeragent.telehealth.declared.optional,
	"protected": data.ledgeragent.telehealth.declared.protected,
	"revision": data.ledgeragent.telehealth.declared.revision,
	"sequence": data.ledgeragent.telehealth.declared.sequence,
	"tools": {tool: declared |
		tool := input.action.tool
		declared := data.ledgeragent.telehealth.declared.tools[tool]
	},
}

# METADATA
# title: The thresholds, reasons and tables in force
settings[key] := overrides.setting("telehealth", key, own) if some key, own in data.ledgeragent.telehealth.defaults

default predicates := {}

# Of each predicate that guards the proposed call: nothing if it holds, else all there is to say.
predicates := guarding[input.action.tool]

guarding["cancel_appointment"] := {
	"common.no_repeat_write": failing["common.no_repeat_write"],
	"telehealth.appointment_open": failing["telehealth.appointment_open"],
	"telehealth.authenticated": failing["telehealth.authenticated"],
	"telehealth.owner": failing["telehealth.owner"],
}

guarding["reschedule_appointment"] := {
	"common.no_repeat_write": failing["common.no_repeat_write"],
	"telehealth.appointment_open": failing["telehealth.appointment_open"],
	"telehealth.authenticated": failing["telehealth.authenticated"],
	"telehealth.owner": failing["telehealth.owner"],
	"telehealth.slot_in_schedule": failing["telehealth.slot_in_schedule"],
}

guarding["schedule_appointment"] := {
	"common.no_repeat_write": failing["common.no_repeat_write"],
	"telehealth.authenticated": failing["telehealth.authenticated"],
	"telehealth.owner": failing["telehealth.owner"],
	"telehealth.slot_in_schedule": failing["telehealth.slot_in_schedule"],
}

guarding["update_medical_record_note"] := {
	"common.no_repeat_write": failing["common.no_repeat_write"],
	"telehealth.authenticated": failing["telehealth.authenticated"],
	"telehealth.owner": failing["telehealth.owner"],
	"telehealth.record_observed": failing["telehealth.record_observed"],
}

guarding["update_prescription_supplier"] := {
	"common.no_repeat_write": failing["common.no_repeat_write"],
	"telehealth.authenticated": failing["telehealth.authenticated"],
	"telehealth.owner": failing["telehealth.owner"],
	"telehealth.record_observed": failing["telehealth.record_observed"],
	"telehealth.supplier_quote_observed": failing["telehealth.supplier_quote_observed"],
}

failing["common.no_repeat_write"] := [all |
	not data.ledgeragent.common.no_repeat_write.holds == true
	all := [predicate | predicate := data.ledgeragent.common.no_repeat_write]
]

failing["telehealth.appointment_open"] := [all |
	not data.ledgeragent.telehealth.appointment_open.holds == true
	all := [predicate | predicate := data.ledgeragent.telehealth.appointment_open]
]

failing["telehealth.authenticated"] := [all |
	not data.ledgeragent.telehealth.authenticated.holds == true
	all := [predicate | predicate := data.ledgeragent.telehealth.authenticated]
]

failing["telehealth.owner"] := [all |
	not data.ledgeragent.telehealth.owner.holds == true
	all := [predicate | predicate := data.ledgeragent.telehealth.owner]
]

failing["telehealth.record_observed"] := [all |
	not data.ledgeragent.telehealth.record_observed.holds == true
	all := [predicate | predicate := data.ledgeragent.telehealth.record_observed]
]

failing["telehealth.slot_in_schedule"] := [all |
	not data.ledgeragent.telehealth.slot_in_schedule.holds == true
	all := [predicate | predicate := data.ledgeragent.telehealth.slot_in_schedule]
]

failing["telehealth.supplier_quote_observed"] := [all |
	not data.ledgeragent.telehealth.supplier_quote_observed.holds == true
	all := [predicate | predicate := data.ledgeragent.telehealth.supplier_quote_observed]
]
