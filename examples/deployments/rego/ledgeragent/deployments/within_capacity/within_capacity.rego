# METADATA
# title: A service keeps between its smallest and largest size
# description: |
#   At least as many replicas as the policy data `settings.min_replicas` says, and no more than the service may have, as
#   last read.
# custom:
#   id: deployments.within_capacity
#   remedy: Choose a number of replicas within the limits that the message names.
#   severity: medium
#   policy: Rule 7
#   evidence: ["services.{arguments.service}.max_replicas"]
# schemas:
#   - input: schema["gate_input.schema"]
#   - input.ledger: schema.deployments["ledger.schema"]
package ledgeragent.deployments.within_capacity

import data.ledgeragent.deployments.facts
import data.ledgeragent.gate.text

guards := {"scale"}

evidence contains facts.service_path("max_replicas")

holds if {
	input.action.arguments.replicas >= _least
	input.action.arguments.replicas <= _most
}

_least := least if {
	least := data.ledgeragent.deployments.settings.min_replicas
	is_number(least)
}

# Only a number: `format_int` in the message would fail on anything else.
_most := facts.service.max_replicas if is_number(facts.service.max_replicas)

verdict := "revise"

message := text.join([
	text.show(facts.service_name),
	" keeps between ",
	format_int(_least, 10),
	" and ",
	format_int(_most, 10),
	" replicas.",
])
