# METADATA
# title: The writes that count as executed
# description: |
#   In order: writes that ran, may have run, or are under way, then the ones admitted earlier in the same message.
#   Refused and rejected calls are in neither list.
# schemas:
#   - input: schema["gate_input.schema"]
package ledgeragent.gate.history

executed := array.concat(input.history, input.siblings) if {
	is_array(input.history)
	is_array(input.siblings)
}
