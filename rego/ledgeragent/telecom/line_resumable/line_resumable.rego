# METADATA
# title: Only a line that is suspended or not yet activated is resumed
# description: |
#   The line's status, as last read, is "Suspended" or "Pending Activation".
# custom:
#   id: telecom.line_resumable
#   remedy: Read the line; if it is active, look for another cause of the problem.
#   severity: medium
#   policy: Line Suspension
#   evidence: ["lines.{arguments.line_id}.status"]
# schemas:
#   - input: schema["gate_input.schema"]
#   - input.ledger: schema.telecom["ledger.schema"]
package ledgeragent.telecom.line_resumable

import data.ledgeragent.gate.text
import data.ledgeragent.telecom.facts

guards := {"resume_line"}

evidence contains facts.line_path("status")

holds if facts.line.status in {"Pending Activation", "Suspended"}

verdict := "revise"

message := text.join([
	"The status of line ",
	text.show(facts.line_id),
	" is ",
	text.quote(facts.line.status),
	`. Only a line that is "Suspended" or "Pending Activation" can be resumed.`,
])
