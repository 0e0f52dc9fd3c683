package system.log_test

import data.system.log

_random := "0123456789abcdef0123456789abcdef"

_word := {"value": [{"types": ["string"], "patterns": ["^[a-z]+$"]}]}

_facts := {
	"fields": {
		"orders": {
			"each": {
				"fields": {
					"status": _word,
					"total": {"value": [{"types": ["integer", "null"]}]},
					"note": {},
					"tags": {"items": _word},
					"paid": {"value": [{"types": ["boolean"]}]},
					"kind": {"value": [{"enum": ["a", 1, null]}]},
					"share": {"value": [{"types": ["number"]}]},
				},
				"value": [],
			},
			"keys": [{"types": ["string"], "patterns": ["^#[0-9]+$"]}],
		},
		"people": {"each": {"fields": {"age": {"value": [{"types": ["number"]}]}}}},
		"deep": _deep,
	},
}

# Nested as deep as masks look, and one level deeper.
_deep := {"items": {"items": {"items": {"items": {"items": {"items": {"items": {"items": {
	"items": _word,
	"value": [{"types": ["string"]}],
}}}}}}}}}

_call := {"fields": {"tool": {"value": [{"enum": ["cancel"]}]}, "arguments": {}}, "call": true}

_log := {
	"input": {"fields": {
		"request": {"value": [{"types": ["string"], "patterns": ["^[0-9a-f]{32}$"]}]},
		"domain": {"value": [{"enum": ["shop"]}]},
		"action": _call,
		"history": {"items": _call},
		"grants": {"items": {"each": {}, "keys": []}},
		"ledger": _facts,
		"stale": {"items": {"path": true}},
	}},
	"decision": {"fields": {"verdict": {"value": [{"enum": ["allow", "block"]}]}, "message": {}}},
	"tools": {"cancel": {"fields": {
		"order_id": {"value": [{"types": ["string"], "patterns": ["^#[0-9]+$"]}]},
		"why": {},
	}}},
}

_event(input_, result) := {
	"path": "ledgeragent/shop/decision",
	"decision_id": "1",
	"labels": {},
	"timestamp": "t",
	"input": input_,
	"result": result,
}

_masks(event) := masks if {
	masks := log.mask with input as event with data.ledgeragent.shop.declared.log as _log
}

_shown(part, value) := shown if {
	event := object.union(_event({"domain": "shop"}, {}), {part: value})
	some mask in _masks(event)
	mask.op == "upsert"
	mask.path == concat("", ["/", part])
	shown := mask.value
}

_ledger(facts) := _shown("input", {"domain": "shop", "ledger": facts}).ledger

_gone := {"/input", "/result", "/nd_builtin_cache"}

test_only_what_the_list_names_is_left if {
	_masks(_event(
		{"request": _random, "domain": "shop", "ssn": "123"},
		{"verdict": "allow", "message": "to Ada", "more": 1},
	)) == {
		{"op": "upsert", "path": "/input", "value": {"request": _random, "domain": "shop"}},
		{"op": "upsert", "path": "/result", "value": {"verdict": "allow", "message": "(masked)"}},
		"/nd_builtin_cache",
	}
}

test_an_event_that_is_no_domains_is_erased if {
	every path in ["ledgeragent/shop", "ledgeragent/shop/other", "ledgeragent/other/decision", "other/shop/decision", ""] {
		_masks(object.union(_event({"domain": "shop"}, {"verdict": "allow"}), {"path": path})) == _gone
	}
	_masks(object.remove(_event({"domain": "shop"}, {}), ["path"])) == _gone
}

test_an_event_whose_input_is_none_of_the_domain_is_erased if {
	every odd in [null, 1, "shop", ["shop"], {}, {"domain": "other"}, {"domain": {"domain": "shop"}}] {
		_masks(_event(odd, {"verdict": "allow"})) == _gone
	}
	_masks(object.remove(_event(1, {"verdict": "allow"}), ["input"])) == _gone
}

test_a_proof_and_a_path_with_a_slash_are_masked_alike if {
	every path in ["ledgeragent/shop/proof", "/ledgeragent/shop/decision"] {
		"/input" in {mask.path |
			some mask in _masks(object.union(_event({"domain": "shop"}, {}), {"path": path}))
			is_object(mask)
		}
	}
}

test_without_a_result_none_is_made_up if {
	{"/result", "/nd_builtin_cache"} == {mask |
		some mask in _masks(object.remove(_event({"domain": "shop"}, {}), ["result"]))
		is_string(mask)
	}
}

test_a_result_that_is_no_object_is_masked if {
	every odd in [null, true, "allow", ["allow"]] { _shown("result", odd) == "(masked)" }
}

test_a_value_is_shown_if_it_is_what_its_list_says if {
	right := {"#1": {"status": "open", "total": 5, "paid": true, "kind": 1, "share": 0.5, "tags": ["a", "b"]}}
	_ledger({"orders": right}).orders == right
	nulls := {"#1": {"total": null, "kind": null}}
	_ledger({"orders": nulls}).orders == nulls
}

test_a_value_of_another_kind_is_masked if {
	every field, odd in {
		"status": ["Ada", 1, null, {}, ["a"], "two words"],
		"total": [1.5, "1", true, [], {"a": 1}],
		"paid": [null, "true", 1],
		"kind": ["b", true, [1], {"a": 1}],
		"share": ["1", true, null],
		"note": ["x", 1, null, {}, ["a"]],
		"tags": ["a", 1, {"a": "b"}],
	} {
		every value in odd { _ledger({"orders": {"#1": {field: value}}}).orders["#1"][field] == "(masked)" }
	}
}

test_elements_are_masked_one_by_one if {
	_ledger({"orders": {"#1": {"tags": ["a", "B", 1]}}}).orders["#1"].tags == ["a", "(masked)", "(masked)"]
}

test_keys_that_may_not_be_shown_are_left_out_and_unmarked_ones_take_the_map_along if {
	_ledger({"orders": {"#1": {}, "ada@example.com": {"status": "open"}, "#1/~x": {}}}).orders == {"#1": {}}
	_ledger({"people": {"ada": {"age": 3}}}).people == "(masked)"
	_ledger({"ada": 1, "orders": {}}) == {"orders": {}}
}

test_what_lies_deeper_than_masks_look_is_masked if {
	_ledger({"deep": [[[[[[[["x"]]]]]]]]}).deep == [[[[[[[["x"]]]]]]]]
	_ledger({"deep": [[[[[[[[["x"]]]]]]]]]}).deep == [[[[[[[["(masked)"]]]]]]]]
	_ledger({"deep": [[[[[[[[{"x": 1}]]]]]]]]}).deep == [[[[[[[["(masked)"]]]]]]]]
}

test_arguments_are_shown_as_the_tool_marks_them if {
	arguments := {"order_id": "#1", "why": "ill", "extra": "x"}
	calls := [
		{"tool": "cancel", "arguments": arguments},
		{"tool": "other", "arguments": arguments},
		{"arguments": arguments},
	]
	_shown("input", {"domain": "shop", "history": calls}).history == [
		{"tool": "cancel", "arguments": {"order_id": "#1", "why": "(masked)"}},
		{"tool": "(masked)", "arguments": {}},
		{"arguments": {}},
	]
	_shown("input", {"domain": "shop", "action": {"tool": "cancel", "arguments": "{ada"}}).action.arguments == "(masked)"
}

test_of_a_closed_object_only_that_it_is_one_is_shown if {
	_shown("input", {"domain": "shop", "grants": [{"a": 1}, 5]}).grants == [{}, "(masked)"]
}

test_the_keys_of_a_path_are_shown_as_far_as_the_ledger_shows_them if {
	_shown("input", {"domain": "shop", "stale": [
		["orders", "#1", "status"],
		["orders", "ada", "status"],
		["people", "ada", "age"],
		["ada", "#1"],
		["orders", "#1", "status", "x", "x", "x", "x", "x", "x"],
		["orders", 1, {"a": 1}],
		["people", "ada", "?"],
		"orders",
		5,
	]}).stale == [
		["orders", "#1", "status"],
		["orders", "(masked)", "(masked)"],
		["people", "(masked)", "(masked)"],
		["(masked)", "(masked)"],
		array.concat(["orders", "#1", "status"], ["(masked)" | some _ in numbers.range(1, 6)]),
		["orders", "(masked)", "(masked)"],
		["people", "(masked)", "?"],
		"(masked)",
		"(masked)",
	]
}

test_an_event_with_what_masks_do_not_reach_is_dropped if {
	every field in ["error", "query", "custom", "intermediate_results", "mapped_result", "something_new"] {
		log.drop with input as object.union(_event({"domain": "shop"}, {}), {field: "for Ada"})
	}
	not log.drop with input as _event({"domain": "shop"}, {})
}
