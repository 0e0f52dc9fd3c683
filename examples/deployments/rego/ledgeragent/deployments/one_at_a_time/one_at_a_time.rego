# METADATA
# title: A service that is being deployed is left alone
# description: |
#   The state of the service, as last read, must be "idle". After a deployment of our own the state is out of date until the
#   service is read again.
# custom:
#   id: deployments.one_at_a_time
#   remedy: Wait until the deployment has ended and read the service again.
#   severity: high
#   policy: Rule 5
#   evidence: ["services.{arguments.service}.state"]
# schemas:
#   - input: schema["gate_input.schema"]
#   - input.ledger: schema.deployments["ledger.schema"]
package ledgeragent.deployments.one_at_a_time

import data.ledgeragent.deployments.facts
import data.ledgeragent.gate.text

guards := {"deploy", "rollback"}

evidence contains facts.service_path("state")

holds if facts.service.state == "idle"

verdict := "revise"

message := text.join([
	"The state of ",
	text.show(facts.service_name),
	" is ",
	text.quote(facts.service.state),
	`. Wait until it is "idle" and read the service again.`,
])
