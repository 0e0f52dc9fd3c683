package ledgeragent.airline_test

import data.ledgeragent.airline
import data.ledgeragent.airline.fixtures_test as given
import data.ledgeragent.gate.policy

allowed(predicates) := {
	"contract": "ledgeragent.decision/1",
	"request": "request-1",
	"verdict": "allow",
	"findings": [],
	"predicates": predicates,
	"overrides": [],
	"obligations": [],
	"policy": policy.shown("airline", given.declared),
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

# A cancellation without a ground is first asked to read the flights, then refused.
test_a_refused_cancellation if {
	unread := given.forget(given.cancel, ["flight_status"])
	first := given.decide(unread)
	first.verdict == "revise"
	[[finding.predicate, given.missing(finding)] | some finding in first.findings] == [[
		"airline.cancel_requires_basis",
		{
			"flight_status.LA101.2026-03-10": "missing",
			"flight_status.LA102.2026-03-10": "missing",
		},
	]]

	second := given.decide(given.claim(given.cancel, ["flight_status", "LA101", "2026-03-10"], "available"))
	second.verdict == "block"
	[finding.predicate | some finding in second.findings] == ["airline.cancel_requires_basis"]
}

test_the_worst_finding_comes_first if {
	request := given.forget(given.reserve(given.cancel, "status", "cancelled"), ["auth"])
	decision := given.decide(given.claim(request, ["flight_status"], {}))
	decision.verdict == "block"
	[[finding.predicate, finding.verdict, finding.status] | some finding in decision.findings] == [
		["airline.reservation_active", "block", "violated"],
		["airline.cancel_requires_basis", "revise", "unknown"],
		["airline.owner", "revise", "unknown"],
	]
}

test_tools_that_change_nothing_are_allowed if {
	declared := object.union(
		object.remove(given.declared, ["tools"]),
		{"tools": {"calculate": {"effect": "none", "parameters": {"type": "object"}}}},
	)
	decision := airline.decision with input as given.request("calculate", {"expression": "2 + 2"})
		with airline.declared as declared
	decision == allowed([])
}

overrides := {"airline": {"predicates": {"airline.cancel_requires_basis": {
	"mode": "off",
	"owner": "Airline team",
	"reason": "Goodwill week",
	"expires": "2026-12-31",
}}}}

test_overrides_change_the_decision_and_not_the_proof if {
	request := given.forget(given.cancel, ["flight_status"])
	decision := airline.decision with input as request
		with airline.declared as given.declared
		with data.ledgeragent_overrides as overrides
	decision.verdict == "allow"
	[row.target | some row in decision.overrides] == ["airline.cancel_requires_basis"]

	proof := airline.proof with input as request
		with airline.declared as given.declared
		with data.ledgeragent_overrides as overrides
	proof.verdict == "revise"
	proof.overrides == []
}

test_generated_data_that_is_not_there_blocks if {
	decision := airline.decision with input as given.cancel with airline.declared as {}
	decision.verdict == "block"
	decision.request == ""
	[finding.predicate | some finding in decision.findings] == ["gate.input"]
}

test_every_predicate_listed_guards_what_it_says if {
	guarding := {predicate: tools |
		some predicate in {id | some ids in given.guarded_by; some id in ids}
		tools := {tool | some tool, ids in given.guarded_by; predicate in ids}
	}
	every predicate, tools in guarding {
		tools == {write.action.tool |
			some write in given.writes
			predicate in object.keys(airline.predicates) with input as write
				with airline.declared as given.declared
		}
	}
}
