# METADATA
# title: Only a delivered order can be returned or exchanged
# description: |
#   The order's status, as last read, must be exactly "delivered".
# custom:
#   id: retail.order_delivered
#   remedy: Read the order; if it is not delivered, tell the customer that it cannot be returned or exchanged.
#   severity: high
#   policy: Return delivered order; Exchange delivered order
#   evidence: ["orders.{arguments.order_id}.status"]
package ledgeragent.retail.order_delivered

import data.ledgeragent.gate.text
import data.ledgeragent.retail.facts

guards := {
	"exchange_delivered_order_items",
	"return_delivered_order_items",
}

evidence contains facts.order_path("status")

holds if facts.order.status == "delivered"

verdict := "block"

message := text.join([
	"The status of order ",
	text.show(facts.order_id),
	" is ",
	text.quote(facts.order.status),
	`. Only an order whose status is exactly "delivered" can be returned or exchanged.`,
])
