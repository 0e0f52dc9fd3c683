# METADATA
# title: Only a pending order can be cancelled or modified
# description: |
#   The order's status, as last read, must be exactly "pending". After its items were modified nothing more may be done;
#   the policy data `settings.address_change_after_item_modification` can exempt a change of the shipping address.
# custom:
#   id: retail.order_pending
#   remedy: Read the order; if it is not pending, tell the customer that it can no longer be cancelled or modified.
#   severity: high
#   policy: Cancel pending order; Modify pending order
#   evidence: ["orders.{arguments.order_id}.status"]
# schemas:
#   - input: schema["gate_input.schema"]
#   - input.ledger: schema.retail["ledger.schema"]
package ledgeragent.retail.order_pending

import data.ledgeragent.gate.text
import data.ledgeragent.retail.facts

guards := {
	"cancel_pending_order",
	"modify_pending_order_address",
	"modify_pending_order_items",
	"modify_pending_order_payment",
}

evidence contains facts.order_path("status")

holds if facts.order.status == "pending"

holds if {
	input.action.tool == "modify_pending_order_address"
	facts.order.status == "pending (item modified)"
	data.ledgeragent.retail.settings.address_change_after_item_modification == true
}

verdict := "block"

message := text.join([
	"The status of order ",
	text.show(facts.order_id),
	" is ",
	text.quote(facts.order.status),
	`. Only an order whose status is exactly "pending" can be cancelled or modified.`,
])
