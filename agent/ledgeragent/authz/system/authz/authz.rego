# METADATA
# title: Who may ask this OPA what
# description: >-
#   OPA's own API authorisation. Only two things are open: the health check, and, with the token of
#   LEDGERAGENT_OPA_TOKEN, the two entry points of a domain. Nobody can read or replace policies or data.
package system.authz

default allow := false

allow if {
	input.method == "GET"
	input.path == ["health"]
}

allow if {
	input.method == "POST"
	_entry_point(input.path)
	_token_is_right
}

_entry_point(path) if {
	count(path) == 5
	array.slice(path, 0, 3) == ["v1", "data", "ledgeragent"]
	regex.match(`^[a-z][a-z0-9_]*$`, path[3])
	path[4] in {"decision", "proof"}
}

_token_is_right if {
	token := opa.runtime().env.LEDGERAGENT_OPA_TOKEN
	count(token) >= 16
	input.identity == token
}
