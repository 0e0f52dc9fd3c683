# METADATA
# title: The retail facts that predicates share
# description: |
#   Names for what the proposed call is about. Each is undefined when it was not observed or has another type, and a
#   table by position lacks it; predicates list the paths they rely on as evidence, so that a fact that is not there
#   ends as unknown and not as a pass.
# schemas:
#   - input: schema["gate_input.schema"]
#   - input.ledger: schema.retail["ledger.schema"]
package ledgeragent.retail.facts

# METADATA
# title: The order that the call names, as observed
order := input.ledger.orders[order_id]

order_id := input.action.arguments.order_id if is_string(input.action.arguments.order_id)

# METADATA
# title: The path of a field of that order
order_path(field) := ["orders", order_id, field]

# METADATA
# title: The customer of this conversation - whom the host authenticated, else whom the ledger proves
customer_id := input.session.principal.id if {
	from_host
} else := input.ledger.auth.user_id if {
	is_string(input.ledger.auth.user_id)
	input.ledger.auth.user_id != ""
}

from_host if input.session.principal.source == "host"

# METADATA
# title: The paths that say who the customer is
customer_paths contains ["auth", "user_id"] if not from_host

# METADATA
# title: The payment methods on the customer's profile, by id
payment_methods := input.ledger.users[customer_id].payment_methods if {
	is_object(input.ledger.users[customer_id].payment_methods)
}

# METADATA
# title: The path of those methods
payment_methods_path := ["users", customer_id, "payment_methods"]

# METADATA
# title: The payment method that the call chooses, as the profile has it
payment_method := payment_methods[payment_method_id]

payment_method_id := input.action.arguments.payment_method_id if is_string(input.action.arguments.payment_method_id)

# METADATA
# title: The path of the chosen method on the profile
payment_method_path := ["users", customer_id, "payment_methods", payment_method_id]

# METADATA
# title: The path of a field of the chosen method
payment_method_field_path(field) := ["users", customer_id, "payment_methods", payment_method_id, field]

# METADATA
# title: The ids of the gift cards on the profile
gift_cards contains id if {
	some id, method in payment_methods
	method.source == "gift_card"
}

# METADATA
# title: The order's payments and refunds
payment_history := order.payment_history if is_array(order.payment_history)

# METADATA
# title: The ids of the methods that paid for the order
original_methods contains entry.payment_method_id if {
	some entry in payment_history
	entry.transaction_type == "payment"
	is_string(entry.payment_method_id)
}

# METADATA
# title: The order's items
items := order.items if is_array(order.items)

# METADATA
# title: The items of the order with this item id; an order can hold the same item more than once
items_with(item_id) := [item |
	some item in items
	item.item_id == item_id
]

# METADATA
# title: The item ids that the call names, as a list; what else than texts is in it, gate.arguments refuses
item_ids := input.action.arguments.item_ids if is_array(input.action.arguments.item_ids)

# METADATA
# title: The item ids that the call wants in their place
new_item_ids := input.action.arguments.new_item_ids if is_array(input.action.arguments.new_item_ids)

# METADATA
# title: Whether every item has a replacement at its position
same_length if count(item_ids) == count(new_item_ids)

# METADATA
# title: The order's items that the call names, by position; the first of equal ones, as the shop itself picks it
old_items := {index: same[0] |
	some index, item_id in item_ids
	same := [item |
		some item in items
		item.item_id == item_id
	]
}

# METADATA
# title: The positions in the call whose item is in the order
positions := object.keys(old_items)

product_id(index) := old_items[index].product_id if is_string(old_items[index].product_id)

# METADATA
# title: The path of the variants of the product at a position
variants_path(index) := ["products", product_id(index), "variants"]

# METADATA
# title: The variants of the product at a position, by item id, as observed
variants := {index: those |
	some index, item in old_items
	is_string(item.product_id)
	those := input.ledger.products[item.product_id].variants
}

# METADATA
# title: The variants that the call wants, by position; one that its product does not have is not among them
new_variants := {index: variant |
	some index, item in old_items
	is_string(item.product_id)
	variant := input.ledger.products[item.product_id].variants[new_item_ids[index]]
}

# METADATA
# title: The path of the variant that the call wants at a position
new_variant_path(index) := ["products", product_id(index), "variants", new_item_ids[index]]
