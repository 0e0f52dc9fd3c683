# METADATA
# title: Nothing is deployed during a freeze
# description: |
#   Today (the first ten characters of the session's clock) must lie in no freeze, first and last day included. Services
#   listed in the policy data `settings.exempt_from_freezes` may be deployed all the same, and so may what one of the
#   people on call (`settings.on_call`) approves.
# custom:
#   id: deployments.no_freeze
#   remedy: Wait until the freeze has ended, or ask the person on call.
#   severity: high
#   policy: Rule 4
#   evidence: ["freezes"]
# schemas:
#   - input: schema["gate_input.schema"]
#   - input.ledger: schema.deployments["ledger.schema"]
package ledgeragent.deployments.no_freeze

import data.ledgeragent.deployments.facts
import data.ledgeragent.gate.text

guards := {"deploy"}

evidence contains ["freezes"] if not _exempt

holds if _exempt

holds if {
	is_array(_freezes)
	every freeze in _freezes { _is_over_or_ahead(freeze) }
}

_exempt if facts.service_name in data.ledgeragent.deployments.settings.exempt_from_freezes

_freezes := input.ledger.freezes

_is_over_or_ahead(freeze) if {
	_is_day(freeze.until)
	freeze.until < facts.today
}

_is_over_or_ahead(freeze) if {
	_is_day(freeze.from)
	freeze.from > facts.today
}

_is_day(value) if {
	is_string(value)
	regex.match(`^[0-9]{4}-[0-9]{2}-[0-9]{2}$`, value)
}

verdict := "block"

obligation := {"kind": "approval", "approvers": data.ledgeragent.deployments.settings.on_call}

message := text.join([
	"Deployments are frozen today: ",
	text.list({freeze.reason |
		some freeze in _freezes
		not _is_over_or_ahead(freeze)
	}),
	". Nothing can be deployed until that has ended.",
])
