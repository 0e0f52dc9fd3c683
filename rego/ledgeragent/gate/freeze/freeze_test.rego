package ledgeragent.gate.freeze_test

import data.ledgeragent.gate.freeze

entry := {"owner": "Security", "reason": "Incident 7.", "since": "2026-03-01"}

reasons(document) := found if {
	found := freeze.reasons("demo", {"*", "pay"}) with data.ledgeragent_freeze as document
}

malformed := {"The freeze data of this domain is malformed; until that is mended, all is frozen."}

test_without_data_nothing_is_frozen if {
	freeze.reasons("demo", {"*", "pay"}) == set()
	reasons({}) == set()
	reasons({"demo": {"tools": {}}}) == set()
	reasons({"demo": {"sequence": 4, "tools": {"refund": entry}}}) == set()
}

test_every_entry_that_names_the_call_is_a_reason if {
	reasons({"demo": {"tools": {"pay": entry, "*": object.union(entry, {"reason": "Move."})}}}) == {
		"pay is frozen by Security since 2026-03-01: Incident 7.",
		"Every write is frozen by Security since 2026-03-01: Move.",
	}
}

test_data_that_is_not_an_object_freezes_every_domain if {
	every document in [null, false, true, 0, "", "pay", [], ["pay"]] { reasons(document) == malformed }
}

test_a_domain_that_is_malformed_is_frozen_whole if {
	every own in [
		null,
		false,
		"pay",
		[],
		{},
		{"tools": null},
		{"tools": ["pay"]},
		{"tools": {}, "note": "x"},
		{"tools": {}, "sequence": -1},
		{"tools": {}, "sequence": "1"},
		{"tools": {"": entry}},
	] {
		reasons({"demo": own}) == malformed
	}
}

test_one_malformed_entry_freezes_the_domain_even_if_it_is_another_tools if {
	every odd in array.concat(
		[null, false, true, "x", [], {}, object.union(entry, {"note": "x"})],
		[changed |
			some key in object.keys(entry)
			some value in [null, "", 5, ["x"], {"a": "b"}]
			changed := object.union(entry, {key: value})
		],
	) {
		reasons({"demo": {"tools": {"refund": odd}}}) == malformed
	}
	every key in object.keys(entry) { reasons({"demo": {"tools": {"refund": object.remove(entry, [key])}}}) == malformed }
	every day in ["soon", "2026-03-01T10:00:00Z", "2026-3-1"] {
		reasons({"demo": {"tools": {"refund": object.union(entry, {"since": day})}}}) == malformed
	}
}

test_another_domains_malformed_data_freezes_only_that if reasons({"other": null}) == set()
