# METADATA
# title: An order is cancelled only for a reason the shop accepts
# description: |
#   The reason given with the cancellation is one of the policy data `settings.cancel_reasons`, word for word.
# custom:
#   id: retail.cancel_reason
#   remedy: Ask the customer which of the accepted reasons applies; if none does, the order is not cancelled.
#   severity: medium
#   policy: Cancel pending order
#   evidence: []
# schemas:
#   - input: schema["gate_input.schema"]
#   - input.ledger: schema.retail["ledger.schema"]
package ledgeragent.retail.cancel_reason

import data.ledgeragent.gate.text

guards := {"cancel_pending_order"}

evidence := set()

holds if input.action.arguments.reason in _accepted

_accepted := data.ledgeragent.retail.settings.cancel_reasons if {
	is_array(data.ledgeragent.retail.settings.cancel_reasons)
} else := []

verdict := "revise"

message := text.join([
	"An order cannot be cancelled for the reason ",
	text.quote(input.action.arguments.reason),
	". Accepted reasons: ",
	text.list({text.quote(reason) | some reason in _accepted}),
	". Ask the customer which of them applies.",
])
