# METADATA
# title: The user saw and accepted exactly this call
# description: |
#   The host must have shown the call to the user and passes their confirmation on: a grant of the kind
#   `user_confirmation` for this session, tool and these arguments, still in force. What the model says that the user
#   said confirms nothing. Optional: unlike the other common predicates it guards only the tools that list it.
# custom:
#   id: common.user_confirmed
#   remedy: Tell the user exactly what would be done, and propose the very same call again once they have confirmed it.
#   severity: high
#   policy: general
#   evidence: []
# schemas:
#   - input: schema["gate_input.schema"]
package ledgeragent.common.user_confirmed

import data.ledgeragent.gate.text

evidence := set()

# Nothing that was read shows it: only a confirmation lifts the finding.
default holds := false

obligation := {"kind": "user_confirmation"}

verdict := "revise"

message := text.join(["The user has not yet confirmed ", input.action.tool, " with exactly these arguments."])
