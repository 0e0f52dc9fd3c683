# METADATA
# title: The customer is authenticated before anything is changed
# description: |
#   The customer was located by e-mail, or by name and zip code, in this conversation, even if they typed a user id.
#   Where the host application signed the customer in itself, that settles it.
# custom:
#   id: retail.user_authenticated
#   remedy: Ask for the e-mail address, or for first name, last name and zip code, and look the customer up.
#   severity: critical
#   policy: Retail agent policy (authentication at the beginning of the conversation)
#   evidence: ["auth.user_id"]
package ledgeragent.retail.user_authenticated

import data.ledgeragent.retail.facts

guards := {
	"cancel_pending_order",
	"exchange_delivered_order_items",
	"modify_pending_order_address",
	"modify_pending_order_items",
	"modify_pending_order_payment",
	"modify_user_address",
	"return_delivered_order_items",
}

evidence := facts.customer_paths

holds if is_string(facts.customer_id)

verdict := "revise"

message := concat(" ", [
	"The customer is not authenticated: what is on record as their user id is not a user id.",
	"Look them up by e-mail, or by name and zip code, before anything is changed.",
])
