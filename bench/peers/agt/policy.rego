package agentos

import rego.v1

arguments := input.arguments

state := input.state

default allow := false

allow if {
	input.tool_name == "modify_pending_order_items"
	permitted
}
