# METADATA
# title: The payment method is one of the customer's own
# description: |
#   The chosen payment method stands on the authenticated customer's profile. For a return it is enough that it paid for
#   this order.
# custom:
#   id: retail.payment_on_profile
#   remedy: Read the customer's profile and let them choose one of the payment methods on it.
#   severity: high
#   policy: Modify payment; Modify items; Return delivered order; Exchange delivered order
#   evidence:
#     - "auth.user_id?"
#     - "users.{principal}.payment_methods.{arguments.payment_method_id}?"
#     - "orders.{arguments.order_id}.payment_history?"
# schemas:
#   - input: schema["gate_input.schema"]
#   - input.ledger: schema.retail["ledger.schema"]
package ledgeragent.retail.payment_on_profile

import data.ledgeragent.gate.text
import data.ledgeragent.retail.facts

guards := {
	"exchange_delivered_order_items",
	"modify_pending_order_items",
	"modify_pending_order_payment",
	"return_delivered_order_items",
}

evidence contains path if {
	not _paid_for_what_returns
	some path in facts.customer_paths
}

evidence contains facts.payment_method_path if not _paid_for_what_returns

evidence contains facts.order_path("payment_history") if {
	_is_return
	not _on_profile
}

holds if _on_profile

holds if _paid_for_what_returns

_on_profile if is_object(facts.payment_method)

_is_return if input.action.tool == "return_delivered_order_items"

_paid_for_what_returns if {
	_is_return
	facts.payment_method_id in facts.original_methods
}

verdict := "revise"

message := text.join([
	"The payment method ",
	text.quote(facts.payment_method_id),
	" is not on the customer's profile. On the profile: ",
	text.list(_on_record),
	_or_paid,
	". Let the customer choose one of these.",
])

_on_record contains id if some id, _ in facts.payment_methods

_or_paid := text.join([". Paid for this order: ", text.list(facts.original_methods)]) if {
	_is_return
} else := ""
