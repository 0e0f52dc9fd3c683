# Our own rules, asked with whole facts: the decision of rego/ledgeragent for a gate input made of what a peer was handed.
# Nothing is ever stale in it, as no peer says what is. A peer's policy is made of it as of plain.rego.
package rules

import rego.v1

permitted if judged.verdict == "allow"

objections contains concat(" ", [finding.predicate, finding.status]) if some finding in judged.findings

judged := answer if {
	answer := data.ledgeragent.retail.decision with input as {
		"contract": "ledgeragent.gate-input/1",
		"request": "0123456789abcdef0123456789abcdef",
		"domain": "retail",
		"session": state.session,
		"action": {"call_id": "c1", "tool": "modify_pending_order_items", "arguments": arguments},
		"ledger": state.ledger,
		"stale": [],
		"history": state.history,
		"siblings": [],
		"grants": [],
	}
}
