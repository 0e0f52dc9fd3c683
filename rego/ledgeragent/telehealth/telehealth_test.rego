package ledgeragent.telehealth_test

import data.ledgeragent.gate.policy
import data.ledgeragent.telehealth
import data.ledgeragent.telehealth.fixtures_test as given

allowed(predicates) := {
	"contract": "ledgeragent.decision/1",
	"request": "request-1",
	"verdict": "allow",
	"findings": [],
	"predicates": predicates,
	"overrides": [],
	"obligations": [],
	"policy": policy.shown("telehealth", given.declared),
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

# An appointment moved to a time that is not in the schedule is corrected, and nothing else is said.
test_a_corrected_slot if {
	wrong := given.decide(given.argue(given.reschedule, "new_time", "10:30"))
	wrong.verdict == "revise"
	[finding.predicate | some finding in wrong.findings] == ["telehealth.slot_in_schedule"]

	right := given.decide(given.argue(given.argue(given.reschedule, "new_date", "2026-03-10"), "new_time", "08:00"))
	right == allowed(given.guarded_by.reschedule_appointment)
}

test_the_worst_finding_comes_first if {
	completed := given.claim(given.reschedule, ["appointments", "APPT2", "status"], "completed")
	decision := given.decide(given.forget(given.argue(completed, "new_time", "11:00"), ["auth"]))
	decision.verdict == "block"
	[[finding.predicate, finding.verdict, finding.status] | some finding in decision.findings] == [
		["telehealth.appointment_open", "block", "violated"],
		["telehealth.slot_in_schedule", "revise", "violated"],
		["telehealth.authenticated", "revise", "unknown"],
		["telehealth.owner", "revise", "unknown"],
	]
}

test_tools_that_change_nothing_are_allowed if {
	declared := object.union(
		object.remove(given.declared, ["tools"]),
		{"tools": {"calculate": {"effect": "none", "parameters": {"type": "object"}}}},
	)
	decision := telehealth.decision with input as given.request("calculate", {"expression": "2 + 2"})
		with telehealth.declared as declared
	decision == allowed([])
}

overrides := {"telehealth": {"predicates": {"telehealth.slot_in_schedule": {
	"mode": "off",
	"owner": "Scheduling team",
	"reason": "Provider directory is down",
	"expires": "2026-12-31",
}}}}

test_overrides_change_the_decision_and_not_the_proof if {
	request := given.argue(given.schedule, "time", "11:00")
	decision := telehealth.decision with input as request
		with telehealth.declared as given.declared
		with data.ledgeragent_overrides as overrides
	decision.verdict == "allow"
	[row.target | some row in decision.overrides] == ["telehealth.slot_in_schedule"]

	proof := telehealth.proof with input as request
		with telehealth.declared as given.declared
		with data.ledgeragent_overrides as overrides
	proof.verdict == "revise"
	proof.overrides == []
}

test_generated_data_that_is_not_there_blocks if {
	decision := telehealth.decision with input as given.cancel with telehealth.declared as {}
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
			predicate in object.keys(telehealth.predicates) with input as write
				with telehealth.declared as given.declared
		}
	}
}
