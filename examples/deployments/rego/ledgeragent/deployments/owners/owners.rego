# METADATA
# title: A service is changed only by its owners
# description: |
#   Whoever is signed in must be among the owners of the service, as last read.
# custom:
#   id: deployments.owners
#   remedy: Read the service; if the user is not among its owners, have them ask one of these.
#   severity: critical
#   policy: Rule 1
#   evidence: ["services.{arguments.service}.owners"]
# schemas:
#   - input: schema["gate_input.schema"]
#   - input.ledger: schema.deployments["ledger.schema"]
package ledgeragent.deployments.owners

import data.ledgeragent.deployments.facts
import data.ledgeragent.gate.text

guards := {"deploy", "rollback", "scale"}

evidence contains facts.service_path("owners")

holds if {
	is_array(facts.service.owners)
	input.session.principal.id in facts.service.owners
}

verdict := "block"

message := text.join([
	"Only the owners of ",
	text.show(facts.service_name),
	" may change it: ",
	text.list(facts.service.owners),
	". The user is not one of them.",
])
