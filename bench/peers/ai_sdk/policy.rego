package agent.call

import rego.v1

arguments := input.args

state := input.runtimeContext

default decision := {"decision": "deny", "reason": "no rule covers this call"}

decision := {"decision": "allow"} if {
	input.tool.name == "modify_pending_order_items"
	permitted
} else := {"decision": "deny", "reason": concat(", ", sort(objections))} if {
	input.tool.name == "modify_pending_order_items"
}
