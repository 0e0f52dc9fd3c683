package ledgeragent.gate.overrides_test

import data.ledgeragent.gate.fixtures_test as given
import data.ledgeragent.gate.overrides

off := {"mode": "off", "owner": "Payments", "reason": "Trial", "expires": "2026-03-02"}

document(id, entry) := {"demo": {"predicates": {id: entry}}}

mode(id, entry) := effect if {
	effect := overrides.mode("demo", given.declared, id) with input as given.request
		with data.ledgeragent_overrides as document(id, entry)
}

verdict(id, entry, own) := effect if {
	effect := overrides.verdict("demo", given.declared, id, own) with input as given.request
		with data.ledgeragent_overrides as document(id, entry)
}

test_nothing_is_overridden_without_an_entry if {
	overrides.mode("demo", given.declared, "demo.limit") == "enforce" with input as given.request
	overrides.verdict("demo", given.declared, "demo.limit", "block") == "block" with input as given.request
	overrides.shown("demo", given.declared, {"demo.limit"}) == [] with input as given.request
}

test_an_entry_counts_up_to_its_last_day if {
	mode("demo.limit", off) == "off"
	mode("demo.limit", object.union(off, {"expires": "2026-03-03"})) == "off"
	mode("demo.limit", object.union(off, {"expires": "2026-03-01"})) == "enforce"
}

test_an_incomplete_entry_changes_nothing if {
	every key in object.keys(off) { mode("demo.limit", object.remove(off, [key])) == "enforce" }
	every change in [
		{"owner": ""},
		{"owner": 5},
		{"reason": ""},
		{"reason": null},
		{"expires": "soon"},
		{"expires": 20260302},
		{"expires": "2026-03-02T00:00:00Z"},
		{"mode": "disabled"},
		{"mode": ["off"]},
		{"verdict": "allow"},
		{"verdict": null},
		{"note": "undeclared"},
	] {
		mode("demo.limit", object.union(off, change)) == "enforce"
	}
	every entry in [null, "off", 5, ["off"], {}] { mode("demo.limit", entry) == "enforce" }
}

test_a_verdict_is_changed_and_an_odd_one_is_not if {
	as_block := object.union(object.remove(off, ["mode"]), {"verdict": "block"})
	verdict("demo.limit", as_block, "revise") == "block"
	verdict("demo.limit", object.union(as_block, {"verdict": "allow"}), "revise") == "revise"
	verdict("demo.limit", off, "revise") == "revise"
	mode("demo.limit", as_block) == "enforce"
}

test_a_protected_predicate_is_only_tightened if {
	every change in [{"mode": "off"}, {"mode": "shadow"}, {"mode": "enforce", "verdict": "revise"}] {
		mode("demo.owner", object.union(off, change)) == "enforce"
		verdict("demo.owner", object.union(off, change), "block") == "block"
	}
	verdict("demo.owner", object.union(off, {"mode": "enforce", "verdict": "block"}), "revise") == "block"
	verdict("demo.owner", object.union(object.remove(off, ["mode"]), {"verdict": "block"}), "revise") == "block"
}

test_without_a_list_of_protected_predicates_all_are if {
	unprotected := object.remove(given.declared, ["protected"])
	effect := overrides.mode("demo", unprotected, "demo.limit") with input as given.request
		with data.ledgeragent_overrides as document("demo.limit", off)
	effect == "enforce"
}

test_every_entry_is_shown_applied_or_not if {
	judged := {"demo.limit", "demo.owner", "demo.other"}
	shown := overrides.shown("demo", given.declared, judged) with input as given.request
		with data.ledgeragent_overrides as {"demo": {"predicates": {
			"demo.owner": off,
			"demo.limit": off,
			"demo.other": {"mode": 5},
			"demo.elsewhere": off,
		}}}
	row := {
		"mode": "off",
		"verdict": "",
		"owner": "Payments",
		"reason": "Trial",
		"expires": "2026-03-02",
	}
	shown == [
		object.union(row, {"target": "demo.limit", "applied": true}),
		{
			"target": "demo.other",
			"mode": "",
			"verdict": "",
			"owner": "",
			"reason": "",
			"expires": "",
			"applied": false,
		},
		object.union(row, {"target": "demo.owner", "applied": false}),
	]
}

larger := {"value": 7, "owner": "Payments", "reason": "Trial", "expires": "2026-03-02"}

setting(key, entry) := value if {
	value := overrides.setting("demo", key, 5) with input as given.request
		with data.ledgeragent_overrides as {"demo": {"settings": {"limit": entry}}}
}

test_a_setting_is_replaced_up_to_its_last_day if {
	setting("limit", larger) == 7
	setting("other", larger) == 5
	setting("limit", object.union(larger, {"expires": "2026-03-01"})) == 5
}

test_an_incomplete_setting_changes_nothing if {
	every key in object.keys(larger) { setting("limit", object.remove(larger, [key])) == 5 }
	every change in [{"owner": ""}, {"reason": 5}, {"expires": "soon"}, {"mode": "off"}] {
		setting("limit", object.union(larger, change)) == 5
	}
	every entry in [null, 7, "off", []] { setting("limit", entry) == 5 }
}

test_every_setting_is_shown_applied_or_not if {
	shown := overrides.shown("demo", given.declared, {"demo.limit"}) with input as given.request
		with data.ledgeragent_overrides as {"demo": {"settings": {"limit": larger, "half": {"value": 2}}}}
	empty := {"mode": "", "verdict": "", "owner": "", "reason": "", "expires": "", "applied": false}
	shown == [
		object.union(empty, {"target": "settings.half"}),
		object.union(empty, {
			"target": "settings.limit",
			"owner": "Payments",
			"reason": "Trial",
			"expires": "2026-03-02",
			"applied": true,
		}),
	]
}

kept := {"demo": {
	"tools": {"pay": {"owner": "Security", "reason": "Always.", "predicates": ["demo.limit"]}},
	"settings": {"limit": {"owner": "Security", "reason": "Audited."}},
}}

test_what_the_floor_demands_is_only_tightened if {
	every word in ["off", "shadow"] {
		effect := overrides.mode("demo", given.declared, "demo.limit") with input as given.request
			with data.ledgeragent_floor as kept
			with data.ledgeragent_overrides as document("demo.limit", object.union(off, {"mode": word}))
		effect == "enforce"
	}
	tightened := object.union(object.remove(off, ["mode"]), {"verdict": "block"})
	effect := overrides.verdict("demo", given.declared, "demo.limit", "revise") with input as given.request
		with data.ledgeragent_floor as kept
		with data.ledgeragent_overrides as document("demo.limit", tightened)
	effect == "block"
}

test_what_the_floor_demands_of_another_tool_can_be_changed_here if {
	effect := overrides.mode("demo", given.declared, "demo.limit") with input as given.request
		with data.ledgeragent_floor as {"demo": {"tools": {"refund": kept.demo.tools.pay}}}
		with data.ledgeragent_overrides as document("demo.limit", off)
	effect == "off"
}

test_a_setting_of_the_floor_is_not_replaced_and_that_is_shown if {
	both := {"demo": {"settings": {"limit": larger, "half": larger}}}
	every key, value in {"limit": 5, "half": 7} {
		in_force := overrides.setting("demo", key, 5) with input as given.request
			with data.ledgeragent_floor as kept
			with data.ledgeragent_overrides as both
		in_force == value
	}
	shown := overrides.shown("demo", given.declared, set()) with input as given.request
		with data.ledgeragent_floor as kept
		with data.ledgeragent_overrides as both
	{row.target: row.applied | some row in shown} == {"settings.half": true, "settings.limit": false}
}
