# METADATA
# title: Only a build of the service that passed its tests runs
# description: |
#   The build must belong to the service that the call names, and its tests must have passed, as last read. Tests that
#   still run have not passed.
# custom:
#   id: deployments.build_tested
#   remedy: Read the build; choose one whose tests passed, or wait for the tests and read it again.
#   severity: high
#   policy: Rule 2
#   evidence: ["builds.{arguments.build_id}.service", "builds.{arguments.build_id}.tests"]
# schemas:
#   - input: schema["gate_input.schema"]
#   - input.ledger: schema.deployments["ledger.schema"]
package ledgeragent.deployments.build_tested

import data.ledgeragent.deployments.facts
import data.ledgeragent.gate.text

guards := {"deploy", "rollback"}

evidence contains facts.build_path("service")

evidence contains facts.build_path("tests")

holds if {
	facts.build.service == facts.service_name
	facts.build.tests == "passed"
}

verdict := "revise"

message := text.join([
	"Build ",
	text.show(facts.build_id),
	" is of the service ",
	text.quote(facts.build.service),
	" and its tests are ",
	text.quote(facts.build.tests),
	". Only a build of ",
	text.show(facts.service_name),
	` whose tests have "passed" may run.`,
])
