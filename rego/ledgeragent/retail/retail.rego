# METADATA
# title: What is enforced in retail
# description: |
#   The one page that lists the predicates of every write. A predicate that is not listed here guards nothing. This file
#   is written from the predicates' `guards` (`make compile`, or `ledgeragent domain compile`); edit those.
# schemas:
#   - input: schema["gate_input.schema"]
package ledgeragent.retail

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
	"policy": {
		"revision": "none",
		"gate": "none",
		"sequence": {"domain": 0, "gate": 0, "overrides": 0, "floor": 0, "freeze": 0},
	},
}

# METADATA
# title: The decision on the proposed call
# entrypoint: true
decision := gate.decide("retail", _declared, predicates)

# METADATA
# title: The policies' own decision, for proving them before they are used
# description: Without what a deployment overrides, what is frozen, and what an organisation demands on top.
# entrypoint: true
proof := undiluted if {
	undiluted := decision with data.ledgeragent_overrides as {}
		with data.ledgeragent_floor as {}
		with data.ledgeragent_freeze as {}
}

# Of the generated data no more than this call needs: whatever is handed to a function is copied.
_declared := {
	"optional": data.ledgeragent.retail.declared.optional,
	"protected": data.ledgeragent.retail.declared.protected,
	"revision": data.ledgeragent.retail.declared.revision,
	"sequence": data.ledgeragent.retail.declared.sequence,
	"tools": {tool: declared |
		tool := input.action.tool
		declared := data.ledgeragent.retail.declared.tools[tool]
	},
}

# METADATA
# title: The thresholds, reasons and tables in force
settings[key] := overrides.setting("retail", key, own) if some key, own in data.ledgeragent.retail.defaults

default predicates := {}

# Of each predicate that guards the proposed call: nothing if it holds, else all there is to say.
predicates := guarding[input.action.tool]

guarding["cancel_pending_order"] := {
	"common.no_repeat_write": failing["common.no_repeat_write"],
	"retail.cancel_reason": failing["retail.cancel_reason"],
	"retail.order_owner": failing["retail.order_owner"],
	"retail.order_pending": failing["retail.order_pending"],
	"retail.user_authenticated": failing["retail.user_authenticated"],
}

guarding["exchange_delivered_order_items"] := {
	"common.no_repeat_write": failing["common.no_repeat_write"],
	"retail.gift_card_covers": failing["retail.gift_card_covers"],
	"retail.items_in_order": failing["retail.items_in_order"],
	"retail.once_per_order": failing["retail.once_per_order"],
	"retail.order_delivered": failing["retail.order_delivered"],
	"retail.order_owner": failing["retail.order_owner"],
	"retail.payment_on_profile": failing["retail.payment_on_profile"],
	"retail.replacement_grounded": failing["retail.replacement_grounded"],
	"retail.user_authenticated": failing["retail.user_authenticated"],
}

guarding["modify_pending_order_address"] := {
	"common.no_repeat_write": failing["common.no_repeat_write"],
	"retail.order_owner": failing["retail.order_owner"],
	"retail.order_pending": failing["retail.order_pending"],
	"retail.user_authenticated": failing["retail.user_authenticated"],
}

guarding["modify_pending_order_items"] := {
	"common.no_repeat_write": failing["common.no_repeat_write"],
	"retail.gift_card_covers": failing["retail.gift_card_covers"],
	"retail.items_in_order": failing["retail.items_in_order"],
	"retail.once_per_order": failing["retail.once_per_order"],
	"retail.order_owner": failing["retail.order_owner"],
	"retail.order_pending": failing["retail.order_pending"],
	"retail.payment_on_profile": failing["retail.payment_on_profile"],
	"retail.replacement_grounded": failing["retail.replacement_grounded"],
	"retail.user_authenticated": failing["retail.user_authenticated"],
}

guarding["modify_pending_order_payment"] := {
	"common.no_repeat_write": failing["common.no_repeat_write"],
	"retail.gift_card_covers": failing["retail.gift_card_covers"],
	"retail.order_owner": failing["retail.order_owner"],
	"retail.order_pending": failing["retail.order_pending"],
	"retail.payment_change_single": failing["retail.payment_change_single"],
	"retail.payment_on_profile": failing["retail.payment_on_profile"],
	"retail.user_authenticated": failing["retail.user_authenticated"],
}

guarding["modify_user_address"] := {
	"common.no_repeat_write": failing["common.no_repeat_write"],
	"retail.order_owner": failing["retail.order_owner"],
	"retail.user_authenticated": failing["retail.user_authenticated"],
}

guarding["return_delivered_order_items"] := {
	"common.no_repeat_write": failing["common.no_repeat_write"],
	"retail.items_in_order": failing["retail.items_in_order"],
	"retail.once_per_order": failing["retail.once_per_order"],
	"retail.order_delivered": failing["retail.order_delivered"],
	"retail.order_owner": failing["retail.order_owner"],
	"retail.payment_on_profile": failing["retail.payment_on_profile"],
	"retail.refund_payment_in_order_history": failing["retail.refund_payment_in_order_history"],
	"retail.user_authenticated": failing["retail.user_authenticated"],
}

failing["common.no_repeat_write"] := [all |
	not data.ledgeragent.common.no_repeat_write.holds == true
	all := [predicate | predicate := data.ledgeragent.common.no_repeat_write]
]

failing["retail.cancel_reason"] := [all |
	not data.ledgeragent.retail.cancel_reason.holds == true
	all := [predicate | predicate := data.ledgeragent.retail.cancel_reason]
]

failing["retail.gift_card_covers"] := [all |
	not data.ledgeragent.retail.gift_card_covers.holds == true
	all := [predicate | predicate := data.ledgeragent.retail.gift_card_covers]
]

failing["retail.items_in_order"] := [all |
	not data.ledgeragent.retail.items_in_order.holds == true
	all := [predicate | predicate := data.ledgeragent.retail.items_in_order]
]

failing["retail.once_per_order"] := [all |
	not data.ledgeragent.retail.once_per_order.holds == true
	all := [predicate | predicate := data.ledgeragent.retail.once_per_order]
]

failing["retail.order_delivered"] := [all |
	not data.ledgeragent.retail.order_delivered.holds == true
	all := [predicate | predicate := data.ledgeragent.retail.order_delivered]
]

failing["retail.order_owner"] := [all |
	not data.ledgeragent.retail.order_owner.holds == true
	all := [predicate | predicate := data.ledgeragent.retail.order_owner]
]

failing["retail.order_pending"] := [all |
	not data.ledgeragent.retail.order_pending.holds == true
	all := [predicate | predicate := data.ledgeragent.retail.order_pending]
]

failing["retail.payment_change_single"] := [all |
	not data.ledgeragent.retail.payment_change_single.holds == true
	all := [predicate | predicate := data.ledgeragent.retail.payment_change_single]
]

failing["retail.payment_on_profile"] := [all |
	not data.ledgeragent.retail.payment_on_profile.holds == true
	all := [predicate | predicate := data.ledgeragent.retail.payment_on_profile]
]

failing["retail.refund_payment_in_order_history"] := [all |
	not data.ledgeragent.retail.refund_payment_in_order_history.holds == true
	all := [predicate | predicate := data.ledgeragent.retail.refund_payment_in_order_history]
]

failing["retail.replacement_grounded"] := [all |
	not data.ledgeragent.retail.replacement_grounded.holds == true
	all := [predicate | predicate := data.ledgeragent.retail.replacement_grounded]
]

failing["retail.user_authenticated"] := [all |
	not data.ledgeragent.retail.user_authenticated.holds == true
	all := [predicate | predicate := data.ledgeragent.retail.user_authenticated]
]
