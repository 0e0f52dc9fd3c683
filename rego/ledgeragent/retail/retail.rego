# METADATA
# title: What is enforced in retail
# description: |
#   The one page that lists every retail predicate. A predicate that is not listed here guards nothing.
# schemas:
#   - input: schema["gate_input.schema"]
package ledgeragent.retail

import data.ledgeragent.common
import data.ledgeragent.gate
import data.ledgeragent.gate.overrides

default decision := {
	"contract": "ledgeragent.decision/1",
	"request": "",
	"verdict": "block",
	"findings": [{
		"predicate": "gate.input",
		"status": "violated",
		"verdict": "block",
		"mode": "enforce",
		"message": "The gate cannot judge: its generated data (data.json) is not loaded.",
		"paths": [],
		"missing": [],
	}],
	"predicates": [],
	"overrides": [],
	"obligations": [],
	"policy": {"revision": "none"},
}

# METADATA
# title: The decision on the proposed call
# entrypoint: true
decision := gate.decide("retail", data.ledgeragent.retail.declared, predicates)

# METADATA
# title: The same decision without the deployment's overrides, for proving a revision before it is used
# entrypoint: true
proof := undiluted if {
	undiluted := decision with data.ledgeragent_overrides as {}
}

# METADATA
# title: The reasons, thresholds and tables in force
settings[key] := overrides.setting("retail", key, own) if some key, own in data.ledgeragent.retail.defaults

predicates["common.no_repeat_write"] := common.no_repeat_write if {
	data.ledgeragent.retail.declared.tools[input.action.tool].effect == "write"
}

predicates["retail.cancel_reason"] := data.ledgeragent.retail.cancel_reason if {
	input.action.tool in data.ledgeragent.retail.cancel_reason.guards
}

predicates["retail.gift_card_covers"] := data.ledgeragent.retail.gift_card_covers if {
	input.action.tool in data.ledgeragent.retail.gift_card_covers.guards
}

predicates["retail.items_in_order"] := data.ledgeragent.retail.items_in_order if {
	input.action.tool in data.ledgeragent.retail.items_in_order.guards
}

predicates["retail.once_per_order"] := data.ledgeragent.retail.once_per_order if {
	input.action.tool in data.ledgeragent.retail.once_per_order.guards
}

predicates["retail.order_delivered"] := data.ledgeragent.retail.order_delivered if {
	input.action.tool in data.ledgeragent.retail.order_delivered.guards
}

predicates["retail.order_owner"] := data.ledgeragent.retail.order_owner if {
	input.action.tool in data.ledgeragent.retail.order_owner.guards
}

predicates["retail.order_pending"] := data.ledgeragent.retail.order_pending if {
	input.action.tool in data.ledgeragent.retail.order_pending.guards
}

predicates["retail.payment_change_single"] := data.ledgeragent.retail.payment_change_single if {
	input.action.tool in data.ledgeragent.retail.payment_change_single.guards
}

predicates["retail.payment_on_profile"] := data.ledgeragent.retail.payment_on_profile if {
	input.action.tool in data.ledgeragent.retail.payment_on_profile.guards
}

predicates["retail.refund_payment_in_order_history"] := data.ledgeragent.retail.refund_payment_in_order_history if {
	input.action.tool in data.ledgeragent.retail.refund_payment_in_order_history.guards
}

predicates["retail.replacement_grounded"] := data.ledgeragent.retail.replacement_grounded if {
	input.action.tool in data.ledgeragent.retail.replacement_grounded.guards
}

predicates["retail.user_authenticated"] := data.ledgeragent.retail.user_authenticated if {
	input.action.tool in data.ledgeragent.retail.user_authenticated.guards
}
