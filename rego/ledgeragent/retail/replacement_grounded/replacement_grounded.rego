# METADATA
# title: Each item is replaced by an available variant of the same product
# description: |
#   There is one new item for each old one, and each new item was seen among the variants of the product at the same
#   position, is available, and is not the old item itself. Positions whose old item is not in the order are left to
#   retail.items_in_order.
# custom:
#   id: retail.replacement_grounded
#   remedy: Read the product of each item and choose, position by position, an available variant of that product.
#   severity: high
#   policy: Modify items; Exchange delivered order
#   evidence:
#     - "orders.{arguments.order_id}.items"
#     - "products.{ledger: orders.{arguments.order_id}.items[*].product_id}.variants"
package ledgeragent.retail.replacement_grounded

import data.ledgeragent.gate.facts as observed
import data.ledgeragent.gate.text
import data.ledgeragent.retail.facts

guards := {
	"exchange_delivered_order_items",
	"modify_pending_order_items",
}

evidence contains facts.order_path("items") if facts.same_length

# One position that is wrong decides: then no product that was not read is asked for.
evidence contains facts.variants_path(index) if {
	facts.same_length
	some index in facts.positions
	not index in _unread
	not _by_itself(index)
}

evidence contains facts.variants_path(index) if {
	facts.same_length
	count(_wrong) == 0
	some index in _unread
}

holds if {
	facts.same_length
	is_array(facts.items)
	facts.positions == _grounded
}

_grounded := {index |
	some index, variant in facts.new_variants
	variant.available == true
	facts.item_ids[index] != facts.new_item_ids[index]
}

_unread contains index if {
	some index in facts.positions
	not _by_itself(index)
	not _is_known(index)
}

# A product that was read and lacks the variant is as good as read.
_is_known(index) if is_object(facts.new_variants[index])

_is_known(index) if observed.known_absent(facts.new_variant_path(index))

_by_itself(index) if facts.item_ids[index] == facts.new_item_ids[index]

_wrong := (facts.positions - _grounded) - _unread

verdict := "revise"

message := text.join([
	"The call names items and replacements in different numbers (",
	format_int(count(facts.item_ids), 10),
	" and ",
	format_int(count(facts.new_item_ids), 10),
	"). Each item needs exactly one replacement, at the same position.",
]) if {
	not facts.same_length
} else := concat(" ", [_objection(index) | some index in sort(_wrong)]) if {
	count(_wrong) > 0
} else := "The products of these items are not on record as the shop lists them. Read them again."

_objection(index) := text.join([
	"Item ",
	text.show(facts.item_ids[index]),
	" would be replaced by itself. Choose another variant of ",
	_product(index),
	".",
]) if {
	_by_itself(index)
} else := text.join([
	"Item ",
	text.show(facts.new_item_ids[index]),
	" cannot replace item ",
	text.show(facts.item_ids[index]),
	": it is not an available variant of ",
	_product(index),
	". Available: ",
	text.list(_available(index)),
	".",
])

_product(index) := text.quote(facts.old_items[index].name) if {
	is_string(facts.old_items[index].name)
} else := "the same product"

_available(index) := {item_id |
	some item_id, variant in facts.variants[index]
	variant.available == true
	item_id != facts.item_ids[index]
}
