package ledgeragent.retail_test

import data.ledgeragent.gate.policy
import data.ledgeragent.retail
import data.ledgeragent.retail.fixtures_test as given

allowed(predicates) := {
	"contract": "ledgeragent.decision/1",
	"request": "request-1",
	"verdict": "allow",
	"findings": [],
	"predicates": predicates,
	"overrides": [],
	"obligations": [],
	"policy": policy.shown("retail", given.declared),
}

test_every_write_is_allowed_when_its_facts_are_there if {
	every write in given.writes { given.decide(write) == allowed(given.guarded_by[write.action.tool]) }
}

test_without_a_ledger_every_write_is_revised if {
	every write in given.writes {
		decision := given.decide(given.put(write, ["ledger"], {}))
		decision.verdict == "revise"
		decision.predicates == given.guarded_by[write.action.tool]
		every finding in decision.findings { finding.status == "unknown" }
	}
}

# A refund asked for by the wrong method is corrected, and nothing else is said.
test_a_corrected_refund if {
	wrong := given.decide(given.argue(given.return_items, "payment_method_id", "credit_card_1"))
	wrong.verdict == "revise"
	[finding.predicate | some finding in wrong.findings] == ["retail.refund_payment_in_order_history"]

	right := given.decide(given.argue(given.return_items, "payment_method_id", "gift_card_1"))
	right == allowed(given.guarded_by.return_delivered_order_items)
}

test_the_worst_finding_comes_first if {
	request := given.argue(given.claim(given.cancel, ["orders", "#W1", "status"], "delivered"), "reason", "bored")
	decision := given.decide(given.forget(request, ["auth"]))
	decision.verdict == "block"
	[[finding.predicate, finding.verdict, finding.status] | some finding in decision.findings] == [
		["retail.order_pending", "block", "violated"],
		["retail.cancel_reason", "revise", "violated"],
		["retail.order_owner", "revise", "unknown"],
		["retail.user_authenticated", "revise", "unknown"],
	]
}

test_tools_that_change_nothing_are_allowed if {
	declared := object.union(
		object.remove(given.declared, ["tools"]),
		{"tools": {"calculate": {"effect": "none", "parameters": {"type": "object"}}}},
	)
	decision := retail.decision with input as given.request("calculate", {"expression": "2 + 2"})
		with retail.declared as declared
	decision == allowed([])
}

overrides := {"retail": {"predicates": {"retail.cancel_reason": {
	"mode": "off",
	"owner": "Retail team",
	"reason": "Trial of free-text reasons",
	"expires": "2026-12-31",
}}}}

test_overrides_change_the_decision_and_not_the_proof if {
	request := given.argue(given.cancel, "reason", "bored")
	decision := retail.decision with input as request
		with retail.declared as given.declared
		with data.ledgeragent_overrides as overrides
	decision.verdict == "allow"
	[row.target | some row in decision.overrides] == ["retail.cancel_reason"]

	proof := retail.proof with input as request
		with retail.declared as given.declared
		with data.ledgeragent_overrides as overrides
	proof.verdict == "revise"
	proof.overrides == []
}

test_settings_of_a_deployment_change_the_decision_and_not_the_proof if {
	request := given.argue(given.cancel, "reason", "bored")
	accepted := {"retail": {"settings": {"cancel_reasons": {
		"value": ["bored"],
		"owner": "Retail team",
		"reason": "Trial of another list",
		"expires": "2026-12-31",
	}}}}
	decision := retail.decision with input as request
		with retail.declared as given.declared
		with data.ledgeragent_overrides as accepted
	decision.verdict == "allow"
	[row.target | some row in decision.overrides] == ["settings.cancel_reasons"]

	proof := retail.proof with input as request
		with retail.declared as given.declared
		with data.ledgeragent_overrides as accepted
	proof.verdict == "revise"
	proof.overrides == []
}

test_freeze_and_floor_change_the_decision_and_not_the_proof if {
	frozen := {"retail": {"tools": {"*": {"owner": "Security", "reason": "Incident 7.", "since": "2026-05-01"}}}}
	demand := {"owner": "Security", "reason": "Always.", "predicates": ["common.four_eyes"]}
	decision := retail.decision with input as given.cancel
		with retail.declared as given.declared
		with data.ledgeragent_freeze as frozen
		with data.ledgeragent_floor as {"retail": {"tools": {"cancel_pending_order": demand}}}
	decision.verdict == "block"
	decision.predicates == given.guarded_by.cancel_pending_order
	[row.predicate | some row in decision.findings] == ["gate.floor", "gate.frozen"]

	proof := retail.proof with input as given.cancel
		with retail.declared as given.declared
		with data.ledgeragent_freeze as null
		with data.ledgeragent_floor as null
	proof == allowed(given.guarded_by.cancel_pending_order)
}

test_a_setting_of_the_floor_is_not_a_deployments_to_replace if {
	request := given.argue(given.cancel, "reason", "bored")
	accepted := {"retail": {"settings": {"cancel_reasons": {
		"value": ["bored"],
		"owner": "Retail team",
		"reason": "Trial of another list",
		"expires": "2026-12-31",
	}}}}
	kept := {"retail": {"settings": {"cancel_reasons": {"owner": "Security", "reason": "Audited."}}}}
	decision := retail.decision with input as request
		with retail.declared as given.declared
		with data.ledgeragent_overrides as accepted
		with data.ledgeragent_floor as kept
	decision.verdict == "revise"
	[[row.target, row.applied] | some row in decision.overrides] == [["settings.cancel_reasons", false]]
}

test_generated_data_that_is_not_there_blocks if {
	decision := retail.decision with input as given.cancel with retail.declared as {}
	decision.verdict == "block"
	decision.request == ""
	[finding.predicate | some finding in decision.findings] == ["gate.input"]
}

test_every_write_is_judged_by_the_predicates_that_guard_it if {
	every write in given.writes {
		judged := retail.predicates with input as write with retail.declared as given.declared
		sort(object.keys(judged)) == given.guarded_by[write.action.tool]
	}
}
