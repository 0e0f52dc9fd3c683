# METADATA
# title: Is the gate input what its contract says?
# description: |
#   Every field of the gate input is required and checked element by element, so that the gate and the predicates may
#   rely on their types. What is inside the ledger is checked by the host when it is observed, not here.
# schemas:
#   - input: schema["gate_input.schema"]
package ledgeragent.gate.request

contract := "ledgeragent.gate-input/1"

# METADATA
# title: The request id to echo, or an empty text
id := input.request if {
	is_string(input.request)
} else := ""

# METADATA
# title: The names of the parts that are malformed
problems(domain) := (_parts - _sound) - {part | part := "domain"; input.domain == domain}

_parts := {
	"action",
	"contract",
	"domain",
	"fields",
	"grants",
	"history",
	"ledger",
	"principal",
	"request",
	"session",
	"siblings",
	"stale",
	"stale value in ledger",
}

_fields := {
	"action",
	"contract",
	"domain",
	"grants",
	"history",
	"ledger",
	"request",
	"session",
	"siblings",
	"stale",
}

_sound contains "contract" if input.contract == contract

_sound contains "request" if is_name(input.request)

_sound contains "fields" if {
	is_object(input)
	object.keys(input) == _fields
}

_instant := concat("", [
	`^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])`,
	`T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?`,
	`(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$`,
])

_sound contains "session" if {
	is_object(input.session)
	object.keys(input.session) == {"id", "now", "principal", "rejections", "turn"}
	is_name(input.session.id)
	_is_instant(input.session.now)
	is_count(input.session.turn)
	is_count(input.session.rejections)
}

_sound contains "principal" if input.session.principal == null

_sound contains "principal" if {
	is_object(input.session.principal)
	object.keys(input.session.principal) - {"claims"} == {"id", "source"}
	is_name(input.session.principal.id)
	input.session.principal.source in {"host", "proof", "claimed"}
	is_object(object.get(input.session.principal, "claims", {}))
}

_sound contains "action" if {
	is_object(input.action)
	object.keys(input.action) == {"arguments", "call_id", "tool"}
	is_string(input.action.call_id)
	is_name(input.action.tool)
}

_sound contains "ledger" if is_object(input.ledger)

_sound contains "stale" if _stale_are_paths

# A stale value that is still there would be judged as if it were fresh.
_sound contains "stale value in ledger" if {
	_stale_are_paths
	is_object(input.ledger)
	every path in input.stale { object.get(input.ledger, path, _nothing) == _nothing }
}

_stale_are_paths if {
	is_array(input.stale)
	every path in input.stale { is_path(path) }
}

# Not JSON, so that no ledger can hold it.
_nothing := {"nothing here"}

_sound contains "history" if {
	is_array(input.history)
	every write in input.history {
		_is_write(write, {"arguments", "outcome", "tool"})
		write.outcome in {"executed", "uncertain", "pending"}
	}
}

_sound contains "siblings" if {
	is_array(input.siblings)
	every write in input.siblings { _is_write(write, {"arguments", "tool"}) }
}

_sound contains "grants" if {
	is_array(input.grants)
	every grant in input.grants { _is_grant(grant) }
}

_is_grant(grant) if {
	is_object(grant)
	object.keys(grant) == _of_a_grant
	every field in _names_of_a_grant { is_name(grant[field]) }
	grant.kind in {"approval", "user_confirmation"}
	is_object(grant.arguments)
	is_array(grant.predicates)
	count(grant.predicates) > 0
	every id in grant.predicates { is_name(id) }
	is_object(grant.expires)
	object.keys(grant.expires) == {"host", "session"}
	every instant in [grant.issued, grant.expires.session, grant.expires.host] { _is_instant(instant) }
}

_names_of_a_grant := {"approver", "domain", "facts", "id", "session", "tool"}

_of_a_grant := _names_of_a_grant | {"arguments", "expires", "issued", "kind", "predicates"}

_is_instant(value) if {
	is_string(value)
	regex.match(_instant, value)
}

_is_write(write, keys) if {
	is_object(write)
	object.keys(write) == keys
	is_name(write.tool)
	is_object(write.arguments)
}

# METADATA
# title: A path is a non-empty array of keys
is_path(path) if {
	is_array(path)
	count(path) > 0
	every key in path { is_string(key) }
}

# METADATA
# title: A name is a text that is not empty
is_name(value) if {
	is_string(value)
	value != ""
}

# METADATA
# title: A date as overrides, floor and freeze have them
is_date(value) if {
	is_string(value)
	regex.match(`^[0-9]{4}-[0-9]{2}-[0-9]{2}$`, value)
}

# METADATA
# title: A count is a whole number of at most ten digits
# description: Larger ones are no counts, and engines do not agree on their arithmetic.
is_count(value) if {
	is_number(value)
	value >= 0
	value <= 1000000000
	value == floor(value)
}
