# METADATA
# title: The payment method of an order changes once, to a different one
# description: |
#   The order has exactly one entry in its payment history, that entry is a payment, and the new method differs from the
#   one that made it.
# custom:
#   id: retail.payment_change_single
#   remedy: Choose a method that differs from the original one; after one change or a refund there is no second change.
#   severity: medium
#   policy: Modify payment
#   evidence: ["orders.{arguments.order_id}.payment_history"]
package ledgeragent.retail.payment_change_single

import data.ledgeragent.gate.text
import data.ledgeragent.retail.facts

guards := {"modify_pending_order_payment"}

evidence contains facts.order_path("payment_history")

holds if {
	_single_payment
	is_string(_original)
	_original != facts.payment_method_id
}

_single_payment if {
	count(facts.payment_history) == 1
	facts.payment_history[0].transaction_type == "payment"
}

_original := facts.payment_history[0].payment_method_id

verdict := "revise"

message := text.join([
	"Order ",
	text.show(facts.order_id),
	" is already paid with ",
	text.show(_original),
	". The new payment method has to be a different one.",
]) if {
	_single_payment
} else := text.join([
	"The payment method of order ",
	text.show(facts.order_id),
	" can be changed only while its history is a single payment. It is not, so the method stays as it is.",
])
