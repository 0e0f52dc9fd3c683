# METADATA
# title: Items of an order are modified, exchanged or returned at most once
# description: |
#   No item modification, exchange or return of this order ran, may have run, or was admitted earlier in this message,
#   and the order's status does not show one from before. Calls that were rejected or refused do not count.
# custom:
#   id: retail.once_per_order
#   remedy: Tell the customer that the items of this order can no longer be changed.
#   severity: critical
#   policy: Generic action rules; Modify items
#   evidence: ["orders.{arguments.order_id}.status"]
#   reads: [history, siblings]
package ledgeragent.retail.once_per_order

import data.ledgeragent.gate.history
import data.ledgeragent.gate.text
import data.ledgeragent.retail.facts

guards := {
	"exchange_delivered_order_items",
	"modify_pending_order_items",
	"return_delivered_order_items",
}

evidence contains facts.order_path("status") if not _ran

holds if {
	not _ran
	is_string(facts.order.status)
	not _shown_by_status
}

_ran if {
	some write in history.executed
	write.tool in guards
	write.arguments.order_id == facts.order_id
}

_shown_by_status if facts.order.status in {
	"exchange requested",
	"pending (item modified)",
	"return requested",
}

verdict := "block"

message := text.join([
	"The items of order ",
	text.show(facts.order_id),
	" were already modified, exchanged or returned",
	_how_known,
	". This can be done once per order.",
])

_how_known := " in this conversation" if {
	_ran
} else := text.join([" (its status is ", text.quote(facts.order.status), ")"])
