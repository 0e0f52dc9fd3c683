# METADATA
# title: A refund goes to the original payment method or to a gift card
# description: |
#   The payment method that receives the refund of a return paid for this order, or is a gift card on the customer's
#   profile. Nothing else may receive it, even if it is on the profile.
# custom:
#   id: retail.refund_payment_in_order_history
#   remedy: Offer the customer the original payment method or a gift card on their profile, and let them choose.
#   severity: high
#   policy: Return delivered order
#   evidence:
#     - "orders.{arguments.order_id}.payment_history?"
#     - "auth.user_id?"
#     - "users.{principal}.payment_methods?"
package ledgeragent.retail.refund_payment_in_order_history

import data.ledgeragent.gate.text
import data.ledgeragent.retail.facts

guards := {"return_delivered_order_items"}

evidence contains facts.order_path("payment_history") if not _is_gift_card

evidence contains path if {
	not _is_original
	some path in facts.customer_paths
}

evidence contains facts.payment_methods_path if not _is_original

holds if _is_original

holds if _is_gift_card

_is_original if facts.payment_method_id in facts.original_methods

_is_gift_card if facts.payment_method_id in facts.gift_cards

verdict := "revise"

message := text.join([
	"The refund cannot go to ",
	text.show(facts.payment_method_id),
	". A refund goes back to a payment method that paid for order ",
	text.show(facts.order_id),
	" (",
	text.list(facts.original_methods),
	") or to a gift card on the customer's profile (",
	text.list(facts.gift_cards),
	"). Ask the customer which of these they choose.",
])
