# METADATA
# title: The same write is not sent twice in a row
# description: |
#   The proposed call must differ, in tool or in arguments, from the last write of this session that ran, may have run,
#   or was admitted in the same message. Models repeat a call when they lose track of its answer; the second refund or
#   booking is then real. Calls that were rejected or refused do not count.
# custom:
#   id: common.no_repeat_write
#   remedy: Do not send it again. If a second, identical change is really wanted, read first and ask the customer.
#   severity: medium
#   policy: general
#   evidence: []
#   reads: [history, siblings]
# schemas:
#   - input: schema["gate_input.schema"]
package ledgeragent.common.no_repeat_write

import data.ledgeragent.gate.history
import data.ledgeragent.gate.text

evidence := set()

verdict := "revise"

holds if not _repeats

_repeats if {
	history.executed != []
	last := history.executed[count(history.executed) - 1]
	last.tool == input.action.tool
	last.arguments == input.action.arguments
}

message := text.join([
	"The last write of this conversation was already ",
	input.action.tool,
	" with exactly these arguments. It must not be sent a second time.",
])
