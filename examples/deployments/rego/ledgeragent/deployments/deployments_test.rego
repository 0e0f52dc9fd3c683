package ledgeragent.deployments_test

import data.ledgeragent.deployments
import data.ledgeragent.deployments.fixtures_test as given

writes := {tool |
	some tool, declared in data.ledgeragent.deployments.declared.tools
	declared.effect == "write"
	not declared.unguarded
}

stranger(tool) := given.put(given.put(given.request(tool, {}), ["session", "principal"], null), ["ledger"], {})

test_no_guarded_write_is_allowed_without_a_principal_and_without_facts if {
	every tool in writes {
		decision := deployments.decision with input as stranger(tool)
		decision.verdict in {"revise", "block"}
	}
}

test_a_tool_that_is_not_declared_is_blocked if {
	decision := deployments.decision with input as stranger("no such tool")
	[finding.predicate | some finding in decision.findings] == ["gate.tool"]
}

test_the_page_and_the_tools_file_name_the_same_predicates if {
	every tool in writes {
		object.keys(deployments.guarding[tool]) == {id | some id in data.ledgeragent.deployments.declared.tools[tool].guarded_by}
	}
}

test_generated_data_that_is_not_there_blocks if {
	decision := deployments.decision with input as given.request("any", {})
		with data.ledgeragent.deployments.declared as {}
	decision.verdict == "block"
	[finding.predicate | some finding in decision.findings] == ["gate.input"]
}

test_the_proof_is_the_decision_where_nothing_is_overridden if {
	every tool in writes {
		proof := deployments.proof with input as stranger(tool)
		decision := deployments.decision with input as stranger(tool)
		proof == decision
	}
}
