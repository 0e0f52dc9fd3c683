package system.authz_test

import data.system.authz

_token := "a-token-of-this-test"

_decision := ["v1", "data", "ledgeragent", "retail", "decision"]

_request := {"method": "POST", "path": _decision, "identity": _token}

_runtime(token) := {"env": {"LEDGERAGENT_OPA_TOKEN": token}}

test_health_is_open if {
	authz.allow with input as {"method": "GET", "path": ["health"]}
		with opa.runtime as _runtime(_token)
}

test_both_entry_points_are_open_with_the_token if {
	every rule in ["decision", "proof"] {
		request := object.union(_request, {"path": array.concat(array.slice(_decision, 0, 4), [rule])})
		authz.allow with input as request with opa.runtime as _runtime(_token)
	}
}

test_everything_else_is_closed_even_with_the_token if {
	others := [
		{"method": "GET"},
		{"method": "PUT"},
		{"path": []},
		{"path": ["health"]},
		{"path": ["v1", "data"]},
		{"path": ["v1", "data", "ledgeragent", "retail"]},
		{"path": ["v1", "data", "ledgeragent", "retail", "declared"]},
		{"path": ["v1", "data", "ledgeragent", "retail", "decision", "verdict"]},
		{"path": ["v1", "data", "ledgeragent", "re-tail", "decision"]},
		{"path": ["v1", "data", "other", "retail", "decision"]},
		{"path": ["v0", "data", "ledgeragent", "retail", "decision"]},
		{"path": ["v1", "policies"]},
	]
	every other in others {
		not authz.allow with input as object.union(_request, other)
			with opa.runtime as _runtime(_token)
	}
}

test_another_token_or_none_is_refused if {
	every other in [{"identity": "x"}, {"identity": ""}, {"identity": null}] {
		not authz.allow with input as object.union(_request, other)
			with opa.runtime as _runtime(_token)
	}
	not authz.allow with input as object.remove(_request, ["identity"])
		with opa.runtime as _runtime(_token)
}

test_no_token_or_a_short_one_opens_nothing if {
	every runtime in [{}, {"env": {}}, _runtime(""), _runtime("short")] {
		not authz.allow with input as object.union(_request, {"identity": "short"})
			with opa.runtime as runtime
	}
	not authz.allow with input as object.union(_request, {"identity": ""})
		with opa.runtime as _runtime("")
}
