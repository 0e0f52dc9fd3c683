package ledgeragent.gate_test

import data.ledgeragent.gate
import data.ledgeragent.gate.fixtures_test as given
import data.ledgeragent.gate.policy

sound := {"demo.limit": given.holds, "demo.owner": given.holds}

limited(predicate) := {"demo.limit": predicate, "demo.owner": given.holds}

decide(predicates, request) := decision if {
	decision := gate.decide("demo", given.declared, given.asked(predicates)) with input as request
}

findings(predicates, request) := decide(predicates, request).findings

finding(predicates, request) := found[0] if {
	found := findings(predicates, request)
	count(found) == 1
}

too_much := {
	"predicate": "demo.limit",
	"status": "violated",
	"verdict": "revise",
	"mode": "enforce",
	"message": "Too much.",
	"paths": [["limit"]],
	"missing": [],
}

test_a_call_that_every_predicate_holds_for_is_allowed if {
	decide(sound, given.request) == {
		"contract": "ledgeragent.decision/1",
		"request": "request-1",
		"verdict": "allow",
		"findings": [],
		"predicates": ["demo.limit", "demo.owner"],
		"overrides": [],
		"obligations": [],
		"policy": policy.shown("demo", given.declared),
	}
}

test_a_violated_predicate_gives_its_verdict_and_message if {
	decision := decide(limited(given.fails), given.request)
	decision.verdict == "revise"
	decision.findings == [too_much]

	blocking := object.union(given.fails, {"verdict": "block"})
	decide(limited(blocking), given.request).verdict == "block"
	findings(limited(blocking), given.request) == [object.union(too_much, {"verdict": "block"})]
}

test_what_a_page_says_in_another_form_counts_against_the_call if {
	every value in [{}, {"holds": true}, {[]}, "", true, 0, null] {
		asked := {"demo.limit": value, "demo.owner": []}
		decision := gate.decide("demo", given.declared, asked) with input as given.request
		[row.predicate | some row in decision.findings] == ["demo.limit"]
		decision.verdict == "block"
	}
}

test_only_true_holds if {
	every value in [false, null, "true", 1, [true], {}] {
		finding(limited(object.union(given.fails, {"holds": value})), given.request) == too_much
	}
}

test_missing_and_stale_evidence_is_unknown_and_never_blocks if {
	predicate := {"evidence": {["limit"], ["people", "a", "name"], ["spent", "today"]}, "verdict": "block", "message": "-"}
	request := object.union(given.put(["ledger"], {"spent": {}}), {"stale": [["limit"]]})
	decision := decide(limited(predicate), request)
	decision.verdict == "revise"
	decision.findings == [{
		"predicate": "demo.limit",
		"status": "unknown",
		"verdict": "revise",
		"mode": "enforce",
		"message": concat(" ", [
			"This cannot be decided yet. Not read in this session: people.a.name, spent.today.",
			"Changed by a write since it was read: limit.",
		]),
		"paths": [["limit"], ["people", "a", "name"], ["spent", "today"]],
		"missing": [
			{"cause": "missing", "path": ["people", "a", "name"]},
			{"cause": "missing", "path": ["spent", "today"]},
			{"cause": "stale", "path": ["limit"]},
		],
	}]
}

test_what_holds_is_not_asked_for_its_evidence if {
	findings(limited(object.union(given.holds, {"evidence": {["nowhere"]}})), given.request) == []
}

test_a_known_absence_is_violated_and_not_unknown if {
	predicate := object.union(given.fails, {"evidence": {["people", "a", "nickname"]}})
	finding(limited(predicate), given.put(["ledger", "people"], {"a": {}})).status == "violated"
	finding(limited(predicate), given.put(["ledger", "people"], {})).status == "unknown"
}

test_odd_evidence_is_violated_and_not_unknown if {
	every evidence in [null, "limit", ["nowhere"], {}, {"nowhere"}, {[]}, {[1]}, {["nowhere"], 5}] {
		predicate := object.union(given.fails, {"evidence": evidence})
		finding(limited(predicate), given.request) == object.union(too_much, {"paths": []})
	}
	finding(limited(object.remove(given.fails, ["evidence"])), given.request).status == "violated"
}

test_an_odd_verdict_blocks if {
	every verdict in ["allow", "", null, true, ["revise"], "Revise"] {
		finding(limited(object.union(given.fails, {"verdict": verdict})), given.request).verdict == "block"
	}
	finding(limited(object.remove(given.fails, ["verdict"])), given.request).verdict == "block"
}

test_an_odd_message_is_replaced if {
	every predicate in [
		object.union(given.fails, {"message": 5}),
		object.union(given.fails, {"message": null}),
		object.remove(given.fails, ["message"]),
	] {
		finding(limited(predicate), given.request).message == "The rule does not hold for the facts observed."
	}
}

test_a_predicate_that_is_nothing_blocks if {
	every predicate in [{}, null, 5, "holds", true, []] {
		finding(limited(predicate), given.request) == {
			"predicate": "demo.limit",
			"status": "violated",
			"verdict": "block",
			"mode": "enforce",
			"message": "The rule does not hold for the facts observed.",
			"paths": [],
			"missing": [],
		}
	}
}

test_findings_are_sorted_worst_first_then_by_status_and_name if {
	tools := {"pay": object.union(given.declared.tools.pay, {"guarded_by": ["demo.a", "demo.b", "demo.c", "demo.d"]})}
	decision := gate.decide("demo", object.union(given.declared, {"tools": tools}), given.asked({
		"demo.a": object.union(given.fails, {"evidence": {["nowhere"]}}),
		"demo.b": given.fails,
		"demo.c": object.union(given.fails, {"verdict": "block"}),
		"demo.d": given.fails,
	})) with input as given.request
	decision.verdict == "block"
	[row.predicate | some row in decision.findings] == ["demo.c", "demo.b", "demo.d", "demo.a"]
}

test_an_undeclared_tool_is_blocked if {
	every tool in ["nuke", "Pay", "pay "] {
		decide({}, given.put(["action", "tool"], tool)).verdict == "block"
		findings({}, given.put(["action", "tool"], tool)) == [given.own("gate.tool", "block", concat("", [
			`The tool "`,
			tool,
			`" is not declared in this domain, so no rule can judge it.`,
		]))]
	}
}

test_a_tool_declared_without_effect_or_parameters_is_undeclared if {
	every tool in [
		object.remove(given.declared.tools.pay, ["effect"]),
		object.union(given.declared.tools.pay, {"effect": "other"}),
		object.remove(given.declared.tools.pay, ["parameters"]),
		object.union(given.declared.tools.pay, {"parameters": {"type": "string"}}),
	] {
		tools := object.union(object.remove(given.declared.tools, ["pay"]), {"pay": tool})
		declared := object.union(object.remove(given.declared, ["tools"]), {"tools": tools})
		decision := gate.decide("demo", declared, given.asked(sound)) with input as given.request
		[row.predicate | some row in decision.findings] == ["gate.tool"]
	}
}

test_arguments_that_do_not_fit_are_revised_and_nothing_else_is_judged if {
	decision := decide(limited(given.fails), given.put(["action", "arguments"], {"amount": "5", "note": "x"}))
	decision.verdict == "revise"
	decision.predicates == []
	decision.findings == [given.own(
		"gate.arguments",
		"revise",
		concat(" ", [
			"The arguments do not fit pay: amount breaks type (expected number);",
			"arguments breaks properties (undeclared: note).",
		]),
	)]
	every arguments in [null, "{}", 5, [], [{"amount": 5}], {}] {
		finding(sound, given.put(["action", "arguments"], arguments)).predicate == "gate.arguments"
	}
}

test_a_write_that_is_not_guarded_as_declared_is_blocked if {
	every predicates in [
		{},
		{"demo.limit": given.holds},
		object.union(sound, {"demo.extra": given.holds}),
	] {
		decision := decide(predicates, given.request)
		decision.verdict == "block"
		decision.predicates == sort(object.keys(predicates))
		decision.findings == [given.own(
			"gate.unguarded",
			"block",
			"The write pay is not guarded by the predicates it was declared with.",
		)]
	}
}

# What the domain's page gives for a predicate, and what it never gives.
stated(found) := decision if {
	predicates := {"demo.limit": found, "demo.owner": []}
	decision := gate.decide("demo", given.declared, predicates) with input as given.request
}

test_a_predicate_that_is_not_loaded_leaves_the_write_unguarded if {
	decision := stated([[]])
	decision.verdict == "block"
	[row.predicate | some row in decision.findings] == ["demo.limit", "gate.unguarded"]
	decision.findings[0].message == "This rule is not loaded."
	off := {"mode": "off", "owner": "Payments", "reason": "Trial", "expires": "2026-03-02"}
	stated([[]]).verdict == "block" with data.ledgeragent_overrides as {"demo": {"predicates": {"demo.limit": off}}}
}

test_only_an_empty_list_says_that_a_predicate_holds if {
	stated([]).verdict == "allow"
	every odd in [null, false, true, 0, "", "holds", {}, {"holds": true}, [null], [true], [{}], [[{}]], [[true]]] {
		stated(odd).verdict == "block"
	}
}

test_common_predicates_alone_guard_nothing if {
	common := object.union(given.declared, {"tools": {"pay": object.union(
		given.declared.tools.pay,
		{"guarded_by": ["common.no_repeat_write"]},
	)}})
	predicates := given.asked({"common.no_repeat_write": given.holds})
	decision := gate.decide("demo", common, predicates) with input as given.request
	[row.predicate | some row in decision.findings] == ["gate.unguarded"]
}

test_a_write_that_somebody_answers_for_needs_no_guard if {
	decide({}, given.put(["action"], {"call_id": "", "tool": "ping", "arguments": {}})).verdict == "allow"
}

test_tools_that_change_nothing_need_no_guard if {
	every tool in ["look", "count"] {
		decide({}, given.put(["action"], {"call_id": "", "tool": tool, "arguments": {}})).verdict == "allow"
	}
}

repeated(rejections) := given.put(["session", "rejections"], rejections)

loop := given.own("gate.loop", "block", concat(" ", [
	"This very call was rejected 3 times or more, and nothing it depends on has changed since.",
	"Do not send it again.",
]))

test_the_fourth_rejection_of_one_call_is_a_block if {
	findings(limited(given.fails), repeated(2)) == [too_much]
	findings(limited(given.fails), repeated(3)) == [loop, too_much]
	decide(limited(given.fails), repeated(3)).verdict == "block"
}

test_missing_facts_are_blocked_as_well_when_they_loop if {
	unread := object.union(given.fails, {"evidence": {["nowhere"]}})
	[row.predicate | some row in findings(limited(unread), repeated(7))] == ["gate.loop", "demo.limit"]
}

test_a_call_that_is_in_order_is_allowed_however_often_it_was_rejected if findings(sound, repeated(9)) == []

test_a_malformed_request_is_not_called_a_loop if {
	every request in [5, null, "x", [], {}, given.put(["session", "rejections"], "9"), given.put(["stale"], 1)] {
		decision := decide(sound, request)
		decision.verdict == "block"
		decision.predicates == []
		[row.predicate | some row in decision.findings] == ["gate.input"]
	}
}

test_a_malformed_request_is_told_what_is_malformed if {
	finding(sound, given.put(["session", "turn"], -1)) == given.own(
		"gate.input",
		"block",
		"The gate could not read this request. Malformed: session.",
	)
}

test_no_request_at_all_is_blocked if {
	decision := gate.decide("demo", given.declared, {})
	decision.verdict == "block"
	decision.request == ""
	[row.predicate | some row in decision.findings] == ["gate.input"]
}

test_undefined_where_the_generated_data_is_missing if {
	not gate.decide("demo", {}, given.asked(sound)) with input as given.request
}

override(entry) := {"demo": {"predicates": {"demo.limit": object.union(entry, {
	"owner": "Payments",
	"reason": "Trial",
	"expires": "2026-03-02",
})}}}

under(entry, predicates, request) := decision if {
	decision := gate.decide("demo", given.declared, given.asked(predicates)) with input as request
		with data.ledgeragent_overrides as override(entry)
}

test_a_predicate_in_shadow_is_found_and_does_not_count if {
	decision := under({"mode": "shadow"}, limited(given.fails), repeated(9))
	decision.verdict == "allow"
	decision.findings == [object.union(too_much, {"mode": "shadow"})]
	decision.predicates == ["demo.limit", "demo.owner"]
	[row.applied | some row in decision.overrides] == [true]
}

test_shadow_of_one_predicate_leaves_the_others_in_force if {
	predicates := {"demo.limit": given.fails, "demo.owner": object.union(given.fails, {"verdict": "block"})}
	under({"mode": "shadow"}, predicates, given.request).verdict == "block"
}

test_a_predicate_that_is_off_is_listed_and_not_found if {
	decision := under({"mode": "off"}, limited(given.fails), given.request)
	decision.verdict == "allow"
	decision.findings == []
	decision.predicates == ["demo.limit", "demo.owner"]
}

test_an_override_changes_the_verdict_of_what_is_violated_and_not_of_what_is_unknown if {
	under({"verdict": "block"}, limited(given.fails), given.request).verdict == "block"
	unread := object.union(given.fails, {"evidence": {["nowhere"]}})
	under({"verdict": "block"}, limited(unread), given.request).verdict == "revise"
	blocking := object.union(given.fails, {"verdict": "block"})
	under({"verdict": "revise"}, limited(blocking), given.request).verdict == "revise"
}

stopped(name) := {"demo": {"tools": {name: {"owner": "Security", "reason": "Incident 7.", "since": "2026-03-01"}}}}

frozen(name, predicates, request) := decision if {
	decision := gate.decide("demo", given.declared, given.asked(predicates)) with input as request
		with data.ledgeragent_freeze as stopped(name)
}

pay_is_frozen := given.own("gate.frozen", "block", "pay is frozen by Security since 2026-03-01: Incident 7.")

test_a_frozen_tool_is_blocked_and_still_judged if {
	decision := frozen("pay", sound, given.request)
	decision.verdict == "block"
	decision.findings == [pay_is_frozen]
	decision.predicates == ["demo.limit", "demo.owner"]
	frozen("pay", limited(given.fails), given.request).findings == [pay_is_frozen, too_much]
}

test_a_freeze_of_every_write_is_one_of_each_of_them if {
	every_write := given.own("gate.frozen", "block", "Every write is frozen by Security since 2026-03-01: Incident 7.")
	frozen("*", sound, given.request).findings == [every_write]
	frozen("*", {}, given.put(["action"], {"call_id": "", "tool": "ping", "arguments": {}})).findings == [every_write]
	frozen("*", {}, given.put(["action"], {"call_id": "", "tool": "look", "arguments": {}})).verdict == "allow"
}

test_a_frozen_tool_is_blocked_whatever_effect_the_domain_gives_it if {
	frozen("look", {}, given.put(["action"], {"call_id": "", "tool": "look", "arguments": {}})).verdict == "block"
}

test_a_frozen_tool_is_blocked_even_if_its_arguments_do_not_fit if {
	decision := frozen("pay", sound, given.put(["action", "arguments"], {}))
	decision.verdict == "block"
	decision.predicates == []
	[row.predicate | some row in decision.findings] == ["gate.frozen", "gate.arguments"]
}

test_a_freeze_of_another_tool_or_domain_stops_nothing if {
	frozen("ping", sound, given.request).verdict == "allow"
	decision := gate.decide("demo", given.declared, given.asked(sound)) with input as given.request
		with data.ledgeragent_freeze as {"other": stopped("pay").demo}
	decision.verdict == "allow"
}

test_no_override_reaches_a_freeze if {
	off := object.union_n([
		override({"mode": "off"}),
		{"demo": {"predicates": {"gate.frozen": override({"mode": "off"}).demo.predicates["demo.limit"]}}},
	])
	decision := gate.decide("demo", given.declared, given.asked(sound)) with input as given.request
		with data.ledgeragent_freeze as stopped("pay")
		with data.ledgeragent_overrides as off
	decision.findings == [pay_is_frozen]
}

demanded(ids) := {"demo": {"tools": {"pay": {"owner": "Security", "reason": "Always.", "predicates": ids}}}}

above(ids, predicates, request) := decision if {
	decision := gate.decide("demo", given.declared, given.asked(predicates)) with input as request
		with data.ledgeragent_floor as demanded(ids)
}

test_a_write_that_lacks_what_the_floor_demands_is_blocked_and_still_judged if {
	below := given.own("gate.floor", "block", "Not judged by demo.signed, which Security demands: Always.")
	decision := above(["demo.limit", "demo.signed"], limited(given.fails), given.request)
	decision.verdict == "block"
	decision.findings == [below, too_much]
	decision.predicates == ["demo.limit", "demo.owner"]
}

test_a_write_that_has_what_the_floor_demands_is_judged_by_it if {
	above(["demo.limit"], sound, given.request).verdict == "allow"
	above(["demo.limit"], limited(given.fails), given.request).verdict == "revise"
}

test_a_tool_cannot_get_below_the_floor_by_another_effect if {
	read := object.union(given.declared.tools.pay, {"effect": "read"})
	declared := object.union(given.declared, {"tools": {"pay": read}})
	decision := gate.decide("demo", declared, {}) with input as given.request
		with data.ledgeragent_floor as demanded(["demo.limit"])
	[row.predicate | some row in decision.findings] == ["gate.floor"]
}

test_an_override_does_not_weaken_what_the_floor_demands if {
	every entry in [{"mode": "off"}, {"mode": "shadow"}, {"verdict": "revise"}] {
		blocking := object.union(given.fails, {"verdict": "block"})
		decision := gate.decide("demo", given.declared, given.asked(limited(blocking))) with input as given.request
			with data.ledgeragent_floor as demanded(["demo.limit"])
			with data.ledgeragent_overrides as override(entry)
		decision.verdict == "block"
		[row.applied | some row in decision.overrides] == [false]
	}
}

test_a_frozen_call_that_is_sent_again_and_again_is_a_loop_as_well if {
	ids := [row.predicate | some row in frozen("pay", sound, repeated(3)).findings]
	ids == ["gate.frozen", "gate.loop"]
}
