# METADATA
# title: A rollback puts back a build that ran before
# description: |
#   The build must be among the previous builds of the service, as last read.
# custom:
#   id: deployments.ran_before
#   remedy: Choose one of the previous builds of the service.
#   severity: medium
#   policy: Rule 6
#   evidence: ["services.{arguments.service}.previous_builds"]
# schemas:
#   - input: schema["gate_input.schema"]
#   - input.ledger: schema.deployments["ledger.schema"]
package ledgeragent.deployments.ran_before

import data.ledgeragent.deployments.facts
import data.ledgeragent.gate.text

guards := {"rollback"}

evidence contains facts.service_path("previous_builds")

holds if {
	is_array(facts.service.previous_builds)
	facts.build_id in facts.service.previous_builds
}

verdict := "revise"

message := text.join([
	"Build ",
	text.show(facts.build_id),
	" never ran as ",
	text.show(facts.service_name),
	". It can go back to: ",
	text.list(facts.service.previous_builds),
	".",
])
