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

failing["common.no_repeat_write"] := found if {
	found := [predicate |
		not data.ledgeragent.common.no_repeat_write.holds == true
		predicate := data.ledgeragent.common.no_repeat_write
	]
	count(found) + count([1 | data.ledgeragent.common.no_repeat_write.holds == true]) == 1
}

failing["common.user_confirmed"] := found if {
	found := [predicate |
		not data.ledgeragent.common.user_confirmed.holds == true
		predicate := data.ledgeragent.common.user_confirmed
	]
	count(found) + count([1 | data.ledgeragent.common.user_confirmed.holds == true]) == 1
}

failing["deployments.build_tested"] := found if {
	found := [predicate |
		not data.ledgeragent.deployments.build_tested.holds == true
		predicate := data.ledgeragent.deployments.build_tested
	]
	count(found) + count([1 | data.ledgeragent.deployments.build_tested.holds == true]) == 1
}

failing["deployments.newer_build"] := found if {
	found := [predicate |
		not data.ledgeragent.deployments.newer_build.holds == true
		predicate := data.ledgeragent.deployments.newer_build
	]
	count(found) + count([1 | data.ledgeragent.deployments.newer_build.holds == true]) == 1
}

failing["deployments.no_freeze"] := found if {
	found := [predicate |
		not data.ledgeragent.deployments.no_freeze.holds == true
		predicate := data.ledgeragent.deployments.no_freeze
	]
	count(found) + count([1 | data.ledgeragent.deployments.no_freeze.holds == true]) == 1
}

failing["deployments.one_at_a_time"] := found if {
	found := [predicate |
		not data.ledgeragent.deployments.one_at_a_time.holds == true
		predicate := data.ledgeragent.deployments.one_at_a_time
	]
	count(found) + count([1 | data.ledgeragent.deployments.one_at_a_time.holds == true]) == 1
}

failing["deployments.owners"] := found if {
	found := [predicate |
		not data.ledgeragent.deployments.owners.holds == true
		predicate := data.ledgeragent.deployments.owners
	]
	count(found) + count([1 | data.ledgeragent.deployments.owners.holds == true]) == 1
}

failing["deployments.ran_before"] := found if {
	found := [predicate |
		not data.ledgeragent.deployments.ran_before.holds == true
		predicate := data.ledgeragent.deployments.ran_before
	]
	count(found) + count([1 | data.ledgeragent.deployments.ran_before.holds == true]) == 1
}

failing["deployments.signed_in"] := found if {
	found := [predicate |
		not data.ledgeragent.deployments.signed_in.holds == true
		predicate := data.ledgeragent.deployments.signed_in
	]
	count(found) + count([1 | data.ledgeragent.deployments.signed_in.holds == true]) == 1
}

failing["deployments.within_capacity"] := found if {
	found := [predicate |
		not data.ledgeragent.deployments.within_capacity.holds == true
		predicate := data.ledgeragent.deployments.within_capacity
	]
	count(found) + count([1 | data.ledgeragent.deployments.within_capacity.holds == true]) == 1
}
