# METADATA
# title: Only items that are in the order are returned, exchanged or modified
# description: |
#   The call names at least one item, and the order holds each of them at least as often as the call names it.
# custom:
#   id: retail.items_in_order
#   remedy: Read the order and use the item ids that it lists, each at most as often as it is listed.
#   severity: high
#   policy: Return delivered order; Exchange delivered order; Modify items
#   evidence: ["orders.{arguments.order_id}.items"]
package ledgeragent.retail.items_in_order

import data.ledgeragent.gate.text
import data.ledgeragent.retail.facts

guards := {
	"exchange_delivered_order_items",
	"modify_pending_order_items",
	"return_delivered_order_items",
}

evidence contains facts.order_path("items")

holds if {
	facts.item_ids != []
	is_array(facts.items)
	_too_many == set()
}

# Mostly each item is there and named once, and need not be counted by itself.
_too_many := set() if {
	count({item_id | some item_id in facts.item_ids}) == count(facts.item_ids)
	count(facts.old_items) == count(facts.item_ids)
} else := {item_id |
	some item_id in facts.item_ids
	named := [same | some same in facts.item_ids; same == item_id]
	count(named) > count(facts.items_with(item_id))
}

verdict := "revise"

message := text.join([
	"Order ",
	text.show(facts.order_id),
	" does not hold ",
	text.list(_too_many),
	", or not as often as the call names it. Its items: ",
	text.list(_ordered),
	".",
])

_ordered contains text.join([text.show(item.item_id), _times(item.item_id)]) if some item in facts.items

_times(item_id) := text.join([" (", format_int(times, 10), " times)"]) if {
	times := count(facts.items_with(item_id))
	times > 1
} else := ""
