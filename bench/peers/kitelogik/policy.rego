package kitelogik.userpolicy

import rego.v1

arguments := object.remove(input.args, ["state"])

state := input.args.state

allow if {
	input.action == "modify_pending_order_items"
	permitted
}

deny contains reason if {
	input.action == "modify_pending_order_items"
	some reason in objections
}
