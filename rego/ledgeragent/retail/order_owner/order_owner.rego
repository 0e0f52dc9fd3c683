# METADATA
# title: Customers change only their own orders and their own profile
# description: |
#   The order, or for a change of the default address the profile, belongs to the authenticated customer. Where the host
#   signed the customer in and a look-up in the conversation proves somebody else, nothing may be changed for either.
# custom:
#   id: retail.order_owner
#   remedy: Decline. Only the authenticated customer's own orders and profile can be changed in this conversation.
#   severity: critical
#   policy: Retail agent policy (one user per conversation)
#   evidence: ["auth.user_id", "orders.{arguments.order_id}.user_id"]
# schemas:
#   - input: schema["gate_input.schema"]
#   - input.ledger: schema.retail["ledger.schema"]
package ledgeragent.retail.order_owner

import data.ledgeragent.gate.text
import data.ledgeragent.retail.facts

guards := {
	"cancel_pending_order",
	"exchange_delivered_order_items",
	"modify_pending_order_address",
	"modify_pending_order_items",
	"modify_pending_order_payment",
	"modify_user_address",
	"return_delivered_order_items",
}

evidence contains path if some path in facts.customer_paths

evidence contains ["auth", "user_id"] if _proves_somebody_else

evidence contains facts.order_path("user_id") if {
	not _about_a_profile
	not _proves_somebody_else
}

holds if {
	not _proves_somebody_else
	_owner == facts.customer_id
}

_about_a_profile if input.action.tool == "modify_user_address"

_proves_somebody_else if {
	facts.from_host
	input.ledger.auth.user_id != facts.customer_id
}

_owner := input.action.arguments.user_id if {
	_about_a_profile
} else := facts.order.user_id

verdict := "block"

message := text.join([
	"The host signed in ",
	text.show(facts.customer_id),
	", but a look-up in this conversation identified ",
	text.show(input.ledger.auth.user_id),
	". Nothing can be changed for either of them.",
]) if {
	_proves_somebody_else
} else := text.join([
	_thing,
	" belongs to ",
	text.show(_owner),
	", not to the authenticated customer, ",
	_customer,
	". Only their own orders and profile can be changed in this conversation.",
])

_customer := text.show(facts.customer_id) if {
	facts.customer_id
} else := "who is not known"

_thing := "This profile" if {
	_about_a_profile
} else := text.join(["Order ", text.show(facts.order_id)])
