# The nine rules of retail's modify_pending_order_items, as plainly as they can be written over whole facts.
# A peer's policy is its own policy.rego, which says where `arguments` and `state` come from and what is answered,
# and this file without its head.
package rules

import rego.v1

permitted if count(objections) == 0

objections := unread | violated

unread contains "find_user_id_by_email" if not customer

unread contains "get_user_details" if {
	customer
	not profile
}

unread contains "get_order_details" if not order

unread contains "get_product_details" if {
	some item in order.items
	not state.ledger.products[item.product_id]
}

violated contains "common.no_repeat_write" if {
	count(state.history) > 0
	last := state.history[count(state.history) - 1]
	last.tool == "modify_pending_order_items"
	last.arguments == arguments
}

violated contains "retail.gift_card_covers" if {
	method.source == "gift_card"
	to_pay > method.balance
}

violated contains "retail.items_in_order" if {
	order
	some item_id in arguments.item_ids
	count([1 | some named in arguments.item_ids; named == item_id]) > count(items_with(item_id))
}

violated contains "retail.items_in_order" if count(arguments.item_ids) == 0

violated contains "retail.once_per_order" if {
	some write in state.history
	write.tool in once_per_order
	write.arguments.order_id == arguments.order_id
}

violated contains "retail.once_per_order" if order.status in changed_before

violated contains "retail.order_owner" if order.user_id != customer

violated contains "retail.order_pending" if order.status != "pending"

violated contains "retail.payment_on_profile" if {
	profile
	not method
}

violated contains "retail.replacement_grounded" if count(arguments.item_ids) != count(arguments.new_item_ids)

violated contains "retail.replacement_grounded" if {
	some index, item_id in arguments.item_ids
	variants := state.ledger.products[items_with(item_id)[0].product_id].variants
	not can_replace(variants, item_id, arguments.new_item_ids[index])
}

customer := state.ledger.auth.user_id

profile := state.ledger.users[customer]

method := profile.payment_methods[arguments.payment_method_id]

order := state.ledger.orders[arguments.order_id]

once_per_order := {"exchange_delivered_order_items", "modify_pending_order_items", "return_delivered_order_items"}

changed_before := {"exchange requested", "pending (item modified)", "return requested"}

items_with(item_id) := [item | some item in order.items; item.item_id == item_id]

can_replace(variants, old, new) if {
	old != new
	variants[new].available == true
}

to_pay := sum([difference |
	some index, item_id in arguments.item_ids
	old := items_with(item_id)[0]
	new := state.ledger.products[old.product_id].variants[arguments.new_item_ids[index]]
	difference := new.price - old.price
])
