# METADATA
# title: Nobody acts without being signed in
# description: |
#   The host must have authenticated whoever this session acts for. An id that only stands in the conversation is a
#   claim, not a principal.
# custom:
#   id: deployments.signed_in
#   remedy: Have the host authenticate the user and pass the principal to the session.
#   severity: critical
#   policy: Rule 1
#   evidence: []
# schemas:
#   - input: schema["gate_input.schema"]
package ledgeragent.deployments.signed_in

guards := {"deploy", "rollback", "scale"}

evidence := set()

holds if input.session.principal.source == "host"

verdict := "block"

message := "Nobody is signed in to this session, so nothing can be changed on anybody's behalf."
