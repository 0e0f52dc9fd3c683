# METADATA
# title: A gift card covers what it is to pay
# description: |
#   Where the chosen payment method is a gift card, its balance, as last read, covers the price difference between the
#   new and the old items, or the whole amount paid so far when the payment method of an order changes. Nothing to pay
#   needs no balance. A method that is not on the profile is left to retail.payment_on_profile; items that are not in
#   the order, unknown variants and lists of different lengths are left to retail.items_in_order and
#   retail.replacement_grounded. Variants that are not available are still priced.
# custom:
#   id: retail.gift_card_covers
#   remedy: Tell the customer what is to be paid and what the gift card holds, and let them choose another method.
#   severity: high
#   policy: Modify payment; Modify items; Exchange delivered order
#   evidence:
#     - "auth.user_id?"
#     - "users.{principal}.payment_methods.{arguments.payment_method_id}?"
#     - "users.{principal}.payment_methods.{arguments.payment_method_id}.balance?"
#     - "orders.{arguments.order_id}.items?"
#     - "orders.{arguments.order_id}.payment_history?"
#     - "products.{ledger: orders.{arguments.order_id}.items[*].product_id}.variants?"
# schemas:
#   - input: schema["gate_input.schema"]
#   - input.ledger: schema.retail["ledger.schema"]
package ledgeragent.retail.gift_card_covers

import data.ledgeragent.gate.facts as observed
import data.ledgeragent.gate.money
import data.ledgeragent.gate.text
import data.ledgeragent.retail.facts

guards := {
	"exchange_delivered_order_items",
	"modify_pending_order_items",
	"modify_pending_order_payment",
}

evidence contains path if {
	not _nothing_to_pay
	some path in facts.customer_paths
}

evidence contains facts.payment_method_field_path("source") if not _nothing_to_pay

evidence contains facts.payment_method_field_path("balance") if {
	not _nothing_to_pay
	_is_gift_card
}

evidence contains facts.order_path("payment_history") if {
	not _is_no_gift_card
	_changes_payment
}

evidence contains facts.order_path("items") if {
	not _is_no_gift_card
	not _changes_payment
	facts.same_length
}

evidence contains facts.variants_path(index) if {
	not _is_no_gift_card
	facts.same_length
	some index in facts.positions
}

holds if {
	_is_gift_card
	money.cents(facts.payment_method.balance) >= _amount
}

holds if _is_no_gift_card

holds if _nothing_to_pay

_is_gift_card if facts.payment_method.source == "gift_card"

_is_no_gift_card if {
	is_string(facts.payment_method.source)
	not _is_gift_card
}

_is_no_gift_card if observed.known_absent(facts.payment_method_path)

_changes_payment if input.action.tool == "modify_pending_order_payment"

_nothing_to_pay if _amount <= 0

_nothing_to_pay if _left_to_others

_left_to_others if {
	not _changes_payment
	not facts.same_length
}

_left_to_others if {
	is_array(facts.items)
	some item_id in facts.item_ids
	facts.items_with(item_id) == []
}

_left_to_others if {
	some index in facts.positions
	observed.known_absent(facts.new_variant_path(index))
}

# What the call would charge, in cents; undefined as long as one price or payment is not known as a number.
_amount := sum(_payments) if {
	_changes_payment
	is_array(facts.payment_history)
	every entry in facts.payment_history { entry.transaction_type in {"payment", "refund"} }
	count(_payments) == count([entry | some entry in facts.payment_history; entry.transaction_type == "payment"])
} else := sum(_differences) if {
	not _changes_payment
	count(_differences) == count(facts.item_ids)
}

_payments := [money.cents(entry.amount) |
	some entry in facts.payment_history
	entry.transaction_type == "payment"
]

_differences := [difference |
	some index, item in facts.old_items
	difference := money.cents(facts.new_variants[index].price) - money.cents(item.price)
]

verdict := "revise"

message := text.join([
	"Gift card ",
	text.show(facts.payment_method_id),
	" holds ",
	money.dollars(money.cents(facts.payment_method.balance)),
	", which does not cover the ",
	money.dollars(_amount),
	" to be paid. Let the customer choose another payment method",
	" on their profile: ",
	text.list(_others),
	".",
]) if {
	_is_gift_card
} else := text.join([
	"Whether ",
	text.show(facts.payment_method_id),
	" covers what is to be paid cannot be told from what the shop has on record. Let the customer choose another method.",
])

_others contains id if {
	some id, _ in facts.payment_methods
	id != facts.payment_method_id
}
