package ledgeragent.gate.facts_test

import data.ledgeragent.gate.facts

declared := {"optional": [["people", "*", "phone"], ["people", "*", "cards", "*"]]}

request := {
	"ledger": {"people": {"a": {"name": "Ada", "phone": null, "cards": {"c1": {"limit": 5}}}, "b": null}},
	"stale": [],
}

cause(path, stale) := why if {
	why := facts.cause(declared, path) with input as object.union(request, {"stale": stale})
} else := "known"

test_what_is_there_is_known if {
	cause(["people", "a", "name"], []) == "known"
	cause(["people", "a", "phone"], []) == "known"
	cause(["people"], []) == "known"
	cause(["people", "b"], []) == "known"
}

test_what_was_never_observed_is_missing if {
	cause(["people", "z"], []) == "missing"
	cause(["people", "z", "phone"], []) == "missing"
	cause(["people", "a", "age"], []) == "missing"
	cause(["people", "b", "phone"], []) == "missing"
	cause(["places"], []) == "missing"
	cause(["people", "a", "name", "first"], []) == "missing"
}

test_an_optional_part_of_an_observed_record_is_known_to_be_absent if {
	cause(["people", "a", "cards", "c9"], []) == "known"
	cause(["people", "a", "cards", "c9", "limit"], []) == "known"
	cause(["people", "a", "phone", "prefix"], []) == "known"
}

test_a_required_part_of_an_optional_record_that_is_there_is_missing if {
	cause(["people", "a", "cards", "c1", "owner"], []) == "missing"
}

test_a_path_is_stale_at_and_below_a_stale_path if {
	cause(["people", "a", "name"], [["people", "a", "name"]]) == "stale"
	cause(["people", "a", "name"], [["people", "a"]]) == "stale"
	cause(["people", "z"], [["people"]]) == "stale"
	cause(["people", "a"], [["people", "a", "name"]]) == "known"
	cause(["people", "a", "name"], [["people", "a", "phone"], ["people", "b"]]) == "known"
}

test_a_stale_absence_leaves_what_is_there_fresh if {
	every path in [["people", "a", "cards", "c1"], ["people", "a", "cards", "c1", "limit"]] {
		cause(path, [["people", "a", "cards", "?"]]) == "known"
	}
	cause(["people", "a", "cards", "c9"], [["people", "a", "cards", "?"]]) == "stale"
	cause(["people", "a", "cards", "c9", "limit"], [["people", "a", "cards", "?"]]) == "stale"
	cause(["people", "a", "cards"], [["people", "a", "cards", "?"]]) == "known"
}

absent(path, stale) if facts.known_absent(path) with input as object.union(request, {"stale": stale})

test_known_absent_is_what_an_observed_record_does_not_hold if {
	absent(["people", "a", "cards", "c9"], [])
	not absent(["people", "a", "cards", "c1"], [])
	not absent(["people", "a", "phone"], [])
	not absent(["people", "b", "cards"], [])
	not absent(["people", "z", "cards"], [])
}

test_what_is_stale_is_not_known_to_be_absent if {
	every stale in [["people", "a", "cards", "c9"], ["people", "a"], ["people", "a", "cards", "?"]] {
		not absent(["people", "a", "cards", "c9"], [stale])
	}
}

test_a_request_of_another_shape_proves_nothing if {
	every given in [{"ledger": "text", "stale": []}, {"ledger": {"a": {}}, "stale": [5, "a", ["a"]]}, {}] {
		not facts.known_absent(["a", "b"]) with input as given
	}
}
