# METADATA
# title: Is the gate input what its contract says?
# description: |
#   Every field of the gate input is required and checked element by element, so that the gate and the predicates may
#   rely on their types. What is inside the ledger is checked by the host when it is observed, not here.
# schemas:
#   - input: schema["gate_input.schema"]
package ledgeragent.gate.request

# METADATA
# title: The request id to echo, or an empty text
id := input.request if {
	is_string(input.request)
} else := ""

# METADATA
# title: The names of the parts that are malformed
# description: |
#   Whether there are any is asked of every call, so that is one pattern with a few tests; which ones they are is worked
#   out only then.
problems(domain) := set() if {
	{
		"action": {"arguments": _, "call_id": call_id, "tool": tool},
		"contract": "ledgeragent.gate-input/1",
		"domain": domain,
		"grants": grants,
		"history": history,
		"ledger": ledger,
		"request": request,
		"session": {"id": session, "now": now, "principal": principal, "rejections": rejections, "turn": turn},
		"siblings": siblings,
		"stale": stale,
	} = input
	is_string(request)
	request != ""
	is_string(session)
	session != ""
	_is_instant(now)
	is_count(turn)
	is_count(rejections)
	_is_principal(principal)
	is_string(call_id)
	is_string(tool)
	tool != ""
	is_object(ledger)
	_are_paths(stale)
	_are_not_in(stale, ledger)
	_are_past_writes(history)
	_are_writes(siblings)
	_are_grants(grants)
} else := (_parts - _sound) - {part | part := "domain"; input.domain == domain}

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

_sound contains "contract" if input.contract == "ledgeragent.gate-input/1"

_sound contains "request" if is_name(input.request)

_sound contains "fields" if {
	is_object(input)
	object.keys(input) == {
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
}

_sound contains "session" if _is_session(input.session)

_sound contains "principal" if _is_principal(input.session.principal)

_sound contains "action" if _is_action(input.action)

_sound contains "ledger" if is_object(input.ledger)

_sound contains "stale" if _are_paths(input.stale)

_sound contains "stale value in ledger" if {
	_are_paths(input.stale)
	is_object(input.ledger)
	_are_not_in(input.stale, input.ledger)
}

_sound contains "history" if _are_past_writes(input.history)

_sound contains "siblings" if _are_writes(input.siblings)

_sound contains "grants" if _are_grants(input.grants)

_is_session(session) if {
	{"id": name, "now": now, "principal": _, "rejections": rejections, "turn": turn} = session
	is_name(name)
	_is_instant(now)
	is_count(turn)
	is_count(rejections)
}

_is_principal(null)

_is_principal({"id": name, "source": source}) if {
	is_name(name)
	source in {"host", "proof", "claimed"}
}

_is_principal({"claims": claims, "id": name, "source": source}) if {
	is_object(claims)
	is_name(name)
	source in {"host", "proof", "claimed"}
}

_is_action(action) if {
	{"arguments": _, "call_id": call_id, "tool": tool} = action
	is_string(call_id)
	is_name(tool)
}

# An empty list, the most frequent one, is told by its own head.
_are_paths([])

_are_paths(paths) if {
	is_array(paths)
	every path in paths { is_path(path) }
}

# A stale value that is still there would be judged as if it were fresh.
_are_not_in([], _)

_are_not_in(paths, ledger) if {
	every path in paths { object.get(ledger, path, _nothing) == _nothing }
}

# Not JSON, so that no ledger can hold it.
_nothing := {"nothing here"}

_are_past_writes([])

_are_past_writes(writes) if {
	is_array(writes)
	every write in writes {
		{"arguments": arguments, "outcome": outcome, "tool": tool} = write
		_is_write(tool, arguments)
		outcome in {"executed", "uncertain", "pending"}
	}
}

_are_writes([])

_are_writes(writes) if {
	is_array(writes)
	every write in writes {
		{"arguments": arguments, "tool": tool} = write
		_is_write(tool, arguments)
	}
}

_is_write(tool, arguments) if {
	is_name(tool)
	is_object(arguments)
}

_are_grants([])

_are_grants(grants) if {
	is_array(grants)
	every grant in grants { _is_grant(grant) }
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

_instant := concat("", [
	`^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])`,
	`T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?`,
	`(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$`,
])

_is_instant(value) if {
	is_string(value)
	regex.match(_instant, value)
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
	floor(value) == value
}
