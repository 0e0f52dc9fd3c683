# METADATA
# title: Deploying never goes back to an older build
# description: |
#   The number of the build must be greater than that of the build that runs. Going back is what `rollback` is for.
# custom:
#   id: deployments.newer_build
#   remedy: Choose a newer build, or use rollback when going back is really wanted.
#   severity: medium
#   policy: Rule 3
#   evidence: ["services.{arguments.service}.build_id", "builds.{arguments.build_id}.number", "builds.{ledger: services.{arguments.service}.build_id}.number"]
# schemas:
#   - input: schema["gate_input.schema"]
#   - input.ledger: schema.deployments["ledger.schema"]
package ledgeragent.deployments.newer_build

import data.ledgeragent.deployments.facts
import data.ledgeragent.gate.text

guards := {"deploy"}

evidence contains facts.service_path("build_id")

evidence contains facts.build_path("number")

evidence contains ["builds", _running_id, "number"]

holds if {
	is_number(facts.build.number)
	is_number(_running.number)
	facts.build.number > _running.number
}

_running_id := facts.service.build_id if is_string(facts.service.build_id)

_running := input.ledger.builds[_running_id]

verdict := "revise"

message := text.join([
	"Build ",
	text.show(facts.build_id),
	" is not newer than ",
	text.show(_running_id),
	", which runs. Deploy a newer one, or use rollback.",
])
