package adk

import rego.v1

arguments := input.tool.args

state := input.state

default agent.allow := true

default tool.allow := false

tool.allow if {
	input.tool.name == "modify_pending_order_items"
	permitted
}

tool.deny.reasons contains reason if some reason in objections
