# METADATA
# title: What is enforced in deployments
# description: |
#   The one page that lists the predicates of every write. A predicate that is not listed here guards nothing. This file
#   is written from the predicates' `guards` (`make compile`, or `ledgeragent domain compile`); edit those.
# schemas:
#   - input: schema["gate_input.schema"]
package ledgeragent.deployments

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
decision := gate.decide("deployments", _declared, predicates)

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
	"optional": data.ledgeragent.deployments.declared.optional,
	"protected": data.ledgeragent.deployments.declared.protected,
	"revision": data.ledgeragent.deployments.declared.revision,
	"sequence": data.ledgeragent.deployments.declared.sequence,
	"tools": {tool: declared |
		tool := input.action.tool
		declared := data.ledgeragent.deployments.declared.tools[tool]
	},
}

# METADATA
# title: The thresholds, reasons and tables in force
settings[key] := overrides.setting("deployments", key, own) if some key, own in data.ledgeragent.deployments.defaults

default predicates := {}

# Of each predicate that guards the proposed call: nothing if it holds, else all there is to say.
predicates := guarding[input.action.tool]

guarding["deploy"] := {
	"common.no_repeat_write": failing["common.no_repeat_write"],
	"deployments.build_tested": failing["deployments.build_tested"],
	"deployments.newer_build": failing["deployments.newer_build"],
	"deployments.no_freeze": failing["deployments.no_freeze"],
	"deployments.one_at_a_time": failing["deployments.one_at_a_time"],
	"deployments.owners": failing["deployments.owners"],
	"deployments.signed_in": failing["deployments.signed_in"],
}

guarding["rollback"] := {
	"common.no_repeat_write": failing["common.no_repeat_write"],
	"deployments.build_tested": failing["deployments.build_tested"],
	"deployments.one_at_a_time": failing["deployments.one_at_a_time"],
	"deployments.owners": failing["deployments.owners"],
	"deployments.ran_before": failing["deployments.ran_before"],
	"deployments.signed_in": failing["deployments.signed_in"],
}

guarding["scale"] := {
	"common.no_repeat_write": failing["common.no_repeat_write"],
	"common.user_confirmed": failing["common.user_confirmed"],
	"deployments.owners": failing["deployments.owners"],
	"deployments.signed_in": failing["deployments.signed_in"],
	"deployments.within_capacity": failing["deployments.within_capacity"],
}

failing["common.no_repeat_write"] := [all |
	not data.ledgeragent.common.no_repeat_write.holds == true
	all := [predicate | predicate := data.ledgeragent.common.no_repeat_write]
]

failing["common.user_confirmed"] := [all |
	not data.ledgeragent.common.user_confirmed.holds == true
	all := [predicate | predicate := data.ledgeragent.common.user_confirmed]
]

failing["deployments.build_tested"] := [all |
	not data.ledgeragent.deployments.build_tested.holds == true
	all := [predicate | predicate := data.ledgeragent.deployments.build_tested]
]

failing["deployments.newer_build"] := [all |
	not data.ledgeragent.deployments.newer_build.holds == true
	all := [predicate | predicate := data.ledgeragent.deployments.newer_build]
]

failing["deployments.no_freeze"] := [all |
	not data.ledgeragent.deployments.no_freeze.holds == true
	all := [predicate | predicate := data.ledgeragent.deployments.no_freeze]
]

failing["deployments.one_at_a_time"] := [all |
	not data.ledgeragent.deployments.one_at_a_time.holds == true
	all := [predicate | predicate := data.ledgeragent.deployments.one_at_a_time]
]

failing["deployments.owners"] := [all |
	not data.ledgeragent.deployments.owners.holds == true
	all := [predicate | predicate := data.ledgeragent.deployments.owners]
]

failing["deployments.ran_before"] := [all |
	not data.ledgeragent.deployments.ran_before.holds == true
	all := [predicate | predicate := data.ledgeragent.deployments.ran_before]
]

failing["deployments.signed_in"] := [all |
	not data.ledgeragent.deployments.signed_in.holds == true
	all := [predicate | predicate := data.ledgeragent.deployments.signed_in]
]

failing["deployments.within_capacity"] := [all |
	not data.ledgeragent.deployments.within_capacity.holds == true
	all := [predicate | predicate := data.ledgeragent.deployments.within_capacity]
]
