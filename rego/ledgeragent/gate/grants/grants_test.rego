package ledgeragent.gate.grants_test

import data.ledgeragent.gate.fixtures_test as given
import data.ledgeragent.gate.grants

id := "demo.limit"

approval := {
	"id": "grant-1",
	"kind": "approval",
	"predicates": ["demo.limit"],
	"domain": "demo",
	"session": "session-1",
	"tool": "pay",
	"arguments": {"amount": 5},
	"facts": "sha256:test",
	"approver": "grace",
	"issued": "2026-03-02T09:59:00-05:00",
	"expires": {"session": "2026-03-02T10:14:00-05:00", "host": "2026-03-02T15:14:00Z"},
}

confirmation := object.union(approval, {"id": "grant-2", "kind": "user_confirmation", "approver": "ada"})

approvable := object.union(given.fails, {"verdict": "block", "obligation": {"kind": "approval"}})

principal := {"op": "add", "path": ["session", "principal"], "value": {"id": "ada", "source": "host"}}

holding(list) := json.patch(given.put(["grants"], list), [principal])

# The fulfilling grant's id, or null; "none" where nothing lifts it.
lifting(stated, list) := found.grant if {
	found := grants.obligation(id, stated) with input as holding(list)
} else := "none"

test_a_fitting_grant_lifts if {
	lifting({"kind": "approval"}, [approval]) == "grant-1"
	lifting({"kind": "approval", "approvers": ["grace", "lin"]}, [approval]) == "grant-1"
	lifting({"kind": "approval", "approvers": {"grace"}}, [confirmation, approval]) == "grant-1"
	lifting({"kind": "user_confirmation"}, [approval, confirmation]) == "grant-2"
	lifting({"kind": "approval"}, [object.union(approval, {"id": "grant-0"}), approval]) == "grant-0"
}

test_the_obligation_says_whose_consent_counts if {
	grants.obligation(id, {"kind": "approval"}) == {
		"kind": "approval",
		"predicate": id,
		"approvers": null,
		"grant": null,
	} with input as holding([])
	found := grants.obligation(id, {"kind": "approval", "approvers": {"lin", "grace"}}) with input as holding([])
	found.approvers == ["grace", "lin"]
	nobody := grants.obligation(id, {"kind": "approval", "approvers": []}) with input as holding([approval])
	[nobody.approvers, nobody.grant] == [[], null]
}

test_an_odd_obligation_is_none if {
	every stated in [
		null,
		"approval",
		["approval"],
		{},
		{"kind": "order"},
		{"kind": null},
		{"kind": "approval", "more": 1},
		{"kind": "approval", "approvers": "grace"},
		{"kind": "approval", "approvers": null},
		{"kind": "approval", "approvers": [""]},
		{"kind": "approval", "approvers": {5}},
	] {
		lifting(stated, [approval]) == "none"
	}
}

other := {
	"kind": "user_confirmation",
	"predicates": ["demo.owner"],
	"domain": "other",
	"session": "session-2",
	"tool": "ping",
	"arguments": {"amount": 6},
	"approver": "ada",
	"issued": "2026-03-02T10:00:01-05:00",
	"expires": {"session": "2026-03-02T10:00:00-05:00", "host": "2026-03-02T15:14:00Z"},
}

test_a_grant_with_one_binding_changed_lifts_nothing if {
	every field, value in other {
		lifting({"kind": "approval"}, [object.union(object.remove(approval, [field]), {field: value})]) == null
	}
	every value in ["2026-02-30T10:00:00-05:00", "soon", null] {
		lifting({"kind": "approval"}, [object.union(approval, {"issued": value})]) == null
		lifting({"kind": "approval"}, [object.union(approval, {"expires": {"session": value}})]) == null
	}
	lifting({"kind": "approval", "approvers": ["lin"]}, [approval]) == null
	lifting({"kind": "user_confirmation"}, [object.union(confirmation, {"approver": "grace"})]) == null
}

test_a_grant_is_in_force_from_when_it_was_asked_for_until_it_expires if {
	lifting({"kind": "approval"}, [object.union(approval, {"issued": "2026-03-02T15:00:00Z"})]) == "grant-1"
	last := {"expires": {"session": "2026-03-02T10:00:01-05:00", "host": "2026-03-02T15:14:00Z"}}
	lifting({"kind": "approval"}, [object.union(approval, last)]) == "grant-1"
}

test_without_a_principal_nobody_consents if {
	every stated in [{"kind": "approval"}, {"kind": "user_confirmation"}] {
		found := grants.obligation(id, stated) with input as given.put(["grants"], [approval, confirmation])
		found.grant == null
	}
}

# The gate

decide(predicate, request) := decision if {
	predicates := given.asked({"demo.limit": predicate, "demo.owner": given.holds})
	decision := data.ledgeragent.gate.decide("demo", given.declared, predicates) with input as request
}

granted := holding([approval])

test_what_is_lifted_stays_in_the_decision_and_does_not_count if {
	decision := decide(approvable, granted)
	decision.verdict == "allow"
	decision.findings == [{
		"predicate": "demo.limit",
		"status": "violated",
		"verdict": "block",
		"mode": "lifted",
		"message": "Too much.",
		"paths": [["limit"]],
		"missing": [],
	}]
	decision.obligations == [{"kind": "approval", "predicate": "demo.limit", "approvers": null, "grant": "grant-1"}]
}

test_without_a_grant_the_obligation_is_open_and_the_finding_counts if {
	decision := decide(approvable, holding([]))
	decision.verdict == "block"
	[row.mode | some row in decision.findings] == ["enforce"]
	decision.obligations == [{"kind": "approval", "predicate": "demo.limit", "approvers": null, "grant": null}]
}

test_a_predicate_without_an_obligation_is_never_lifted if {
	decision := decide(given.fails, granted)
	[decision.verdict, decision.obligations] == ["revise", []]
}

test_what_holds_has_no_obligation if {
	decision := decide(object.union(given.holds, {"obligation": {"kind": "approval"}}), granted)
	[decision.findings, decision.obligations] == [[], []]
}

test_no_grant_lifts_what_is_unknown if {
	unread := object.union(approvable, {"evidence": {["nowhere"]}})
	decision := decide(unread, granted)
	[decision.verdict, decision.obligations] == ["revise", []]
	[row.mode | some row in decision.findings] == ["enforce"]
}

test_no_grant_lifts_what_the_gate_finds if {
	all := object.union(approval, {"predicates": [
		"demo.limit",
		"gate.arguments",
		"gate.floor",
		"gate.frozen",
		"gate.input",
		"gate.loop",
		"gate.tool",
		"gate.unguarded",
	]})
	frozen := {"demo": {"tools": {"pay": {"owner": "Security", "reason": "Incident.", "since": "2026-03-01"}}}}
	decision := decide(approvable, holding([all])) with data.ledgeragent_freeze as frozen
	decision.verdict == "block"
	[[row.predicate, row.mode] | some row in decision.findings] == [
		["demo.limit", "lifted"],
		["gate.frozen", "enforce"],
	]
	odd := decide(approvable, json.patch(holding([all]), [{"op": "add", "path": ["stale"], "value": 5}]))
	[[row.predicate, row.mode] | some row in odd.findings] == [["gate.input", "enforce"]]
	odd.obligations == []
}

test_a_grant_lifts_the_findings_it_names_and_no_others if {
	predicates := given.asked({"demo.limit": approvable, "demo.owner": approvable})
	decision := data.ledgeragent.gate.decide("demo", given.declared, predicates) with input as granted
	decision.verdict == "block"
	[[row.predicate, row.grant] | some row in decision.obligations] == [["demo.limit", "grant-1"], ["demo.owner", null]]
}

rejected(request, times) := json.patch(request, [{"op": "add", "path": ["session", "rejections"], "value": times}])

test_a_call_that_was_granted_is_no_loop_and_one_that_was_not_is if {
	decide(approvable, rejected(granted, 3)).verdict == "allow"
	looping := decide(approvable, rejected(holding([]), 3))
	[row.predicate | some row in looping.findings] == ["demo.limit", "gate.loop"]
	refused := decide(approvable, rejected(holding([object.union(approval, {"session": "session-2"})]), 3))
	[row.predicate | some row in refused.findings] == ["demo.limit", "gate.loop"]
}

overriding(entry) := {"demo": {"predicates": {"demo.limit": object.union(
	entry,
	{"owner": "Payments", "reason": "Trial", "expires": "2026-03-02"},
)}}}

under(entry, request) := decision if {
	decision := decide(approvable, request) with data.ledgeragent_overrides as overriding(entry)
}

test_what_does_not_count_obliges_to_nothing if {
	every entry in [{"mode": "shadow"}, {"mode": "off"}] { under(entry, holding([])).obligations == [] }
	[row.mode | some row in under({"mode": "shadow"}, granted).findings] == ["shadow"]
}

test_no_override_makes_a_predicate_approvable if {
	overrides := overriding({"obligation": {"kind": "approval"}})
	decision := decide(given.fails, granted) with data.ledgeragent_overrides as overrides
	[decision.verdict, decision.obligations] == ["revise", []]
	[row.applied | some row in decision.overrides] == [false]
}

test_what_the_floor_demands_is_lifted_by_its_own_rule_only if {
	floor := {"demo": {"tools": {"pay": {"owner": "Security", "reason": "Always.", "predicates": ["demo.limit"]}}}}
	lifted := decide(approvable, granted) with data.ledgeragent_floor as floor
	lifted.verdict == "allow"
	kept := decide(given.fails, granted) with data.ledgeragent_floor as floor
	kept.verdict == "revise"
}
