package ledgeragent.telecom_test

import data.ledgeragent.gate.policy
import data.ledgeragent.telecom
import data.ledgeragent.telecom.fixtures_test as given

allowed(predicates) := {
	"contract": "ledgeragent.decision/1",
	"request": "request-1",
	"verdict": "allow",
	"findings": [],
	"predicates": predicates,
	"overrides": [],
	"obligations": [],
	"policy": policy.shown("telecom", given.declared),
}

test_every_write_is_allowed_when_its_facts_are_there if {
	every write in given.writes { given.decide(write) == allowed(given.guarded_by[write.action.tool]) }
}

test_of_a_predicate_only_true_holds if {
	every value in [false, null, "true", 1, [true], {}] {
		asked := telecom.predicates["telecom.owner"] with input as given.resume with telecom.owner.holds as value
		asked[0][0].holds == value
	}
	asked := telecom.predicates["telecom.owner"] with input as given.resume with telecom.owner.holds as true
	asked == []
}

test_without_a_ledger_every_write_is_revised if {
	every write in given.writes {
		decision := given.decide(given.put(write, ["ledger"], {}))
		decision.verdict == "revise"
		decision.predicates == given.guarded_by[write.action.tool]
		every finding in decision.findings { finding.status == "unknown" }
	}
}

# The customer pays on their own device, so the bill is read again before the line is resumed.
test_a_bill_is_paid_and_the_line_resumed if {
	open := given.claim(given.resume, ["bills", "B2", "status"], "Overdue")
	given.decide(open).verdict == "revise"

	asked := given.after(open, "send_payment_request", given.ask_to_pay.action.arguments)
	unread := given.decide(given.outdate(asked, ["bills", "B2", "status"]))
	[[finding.predicate, finding.status] | some finding in unread.findings] == [
		["telecom.resume_bills_settled", "unknown"],
	]

	given.decide(given.claim(asked, ["bills", "B2", "status"], "Awaiting Payment")).verdict == "revise"
	given.decide(given.claim(asked, ["bills", "B2", "status"], "Paid")) == allowed(given.guarded_by.resume_line)
}

test_the_worst_finding_comes_first if {
	ended := given.claim(given.resume, ["lines", "L2", "contract_end_date"], "2026-03-01")
	active := given.claim(ended, ["lines", "L2", "status"], "Active")
	decision := given.decide(given.forget(active, ["bills", "B1"]))
	decision.verdict == "block"
	[[finding.predicate, finding.verdict, finding.status] | some finding in decision.findings] == [
		["telecom.resume_contract_active", "block", "violated"],
		["telecom.line_resumable", "revise", "violated"],
		["telecom.resume_bills_settled", "revise", "unknown"],
	]
}

test_tools_that_change_nothing_are_allowed if {
	declared := object.union(
		object.remove(given.declared, ["tools"]),
		{"tools": {"run_speed_test": {"effect": "none", "parameters": {"type": "object"}}}},
	)
	decision := telecom.decision with input as given.request("run_speed_test", {})
		with telecom.declared as declared
	decision == allowed([])
}

overrides := {"telecom": {"predicates": {"telecom.refuel_limit": {
	"mode": "off",
	"owner": "Telecom team",
	"reason": "Trial of larger refuellings",
	"expires": "2026-12-31",
}}}}

test_overrides_change_the_decision_and_not_the_proof if {
	request := given.argue(given.refuel, "gb_amount", 3)
	decision := telecom.decision with input as request
		with telecom.declared as given.declared
		with data.ledgeragent_overrides as overrides
	decision.verdict == "allow"
	[row.target | some row in decision.overrides] == ["telecom.refuel_limit"]

	proof := telecom.proof with input as request
		with telecom.declared as given.declared
		with data.ledgeragent_overrides as overrides
	proof.verdict == "revise"
	proof.overrides == []
}

test_generated_data_that_is_not_there_blocks if {
	decision := telecom.decision with input as given.roam with telecom.declared as {}
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
			predicate in object.keys(telecom.predicates) with input as write
				with telecom.declared as given.declared
		}
	}
}
