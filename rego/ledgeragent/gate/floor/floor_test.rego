package ledgeragent.gate.floor_test

import data.ledgeragent.gate.fixtures_test as given
import data.ledgeragent.gate.floor as organisation

entry := {"owner": "Security", "reason": "Always.", "predicates": ["demo.owner"]}

gaps(document, enforced) := found if {
	found := organisation.gaps("demo", {"*", "pay"}, enforced) with data.ledgeragent_floor as document
}

malformed := {"The floor of this domain is malformed; until that is mended, nothing passes."}

test_without_data_nothing_is_demanded if {
	organisation.gaps("demo", {"*", "pay"}, set()) == set()
	gaps({}, set()) == set()
	gaps({"demo": {}}, set()) == set()
	gaps({"demo": {"tools": {}, "settings": {}, "sequence": 4}}, set()) == set()
	gaps({"demo": {"tools": {"refund": entry}}}, set()) == set()
}

test_every_demand_that_is_not_met_is_a_gap if {
	both := {"demo": {"tools": {
		"pay": object.union(entry, {"predicates": ["demo.owner", "demo.limit"]}),
		"*": object.union(entry, {"owner": "Audit", "predicates": ["common.once"]}),
	}}}
	gaps(both, {"demo.limit", "demo.owner", "common.once"}) == set()
	gaps(both, {"demo.limit"}) == {
		"Not judged by demo.owner, which Security demands: Always.",
		"Not judged by common.once, which Audit demands: Always.",
	}
}

test_data_that_is_not_an_object_stops_every_domain if {
	every document in [null, false, true, 0, "", "pay", [], ["pay"]] { gaps(document, {"demo.owner"}) == malformed }
}

test_a_domain_that_is_malformed_is_stopped_whole if {
	every own in [
		null,
		false,
		"pay",
		[],
		{"tools": null},
		{"tools": ["pay"]},
		{"tools": {"": entry}},
		{"settings": null},
		{"settings": {"": {"owner": "Security", "reason": "x"}}},
		{"settings": {"limit": null}},
		{"settings": {"limit": {"owner": "Security"}}},
		{"settings": {"limit": {"owner": "", "reason": "x"}}},
		{"note": "x"},
		{"sequence": -1},
		{"sequence": 1.5},
	] {
		gaps({"demo": own}, {"demo.owner"}) == malformed
	}
}

test_one_malformed_entry_stops_the_domain_even_if_it_is_another_tools if {
	every odd in array.concat(
		[null, false, true, "x", [], {}, object.union(entry, {"note": "x"})],
		[changed |
			some key in object.keys(entry)
			some value in [null, "", 5, [], [""], ["x", 5], {"a": "b"}]
			changed := object.union(entry, {key: value})
		],
	) {
		gaps({"demo": {"tools": {"refund": odd}}}, {"demo.owner"}) == malformed
	}
	every key in object.keys(entry) {
		gaps({"demo": {"tools": {"refund": object.remove(entry, [key])}}}, {"demo.owner"}) == malformed
	}
}

demands(document, id) if {
	organisation.demands("demo", id) with input as given.request with data.ledgeragent_floor as document
}

test_what_is_demanded_for_the_tool_and_for_every_write_is_demanded if {
	every name in ["pay", "*"] { demands({"demo": {"tools": {name: entry}}}, "demo.owner") }
	not demands({"demo": {"tools": {"refund": entry}}}, "demo.owner")
	not demands({"demo": {"tools": {"pay": entry}}}, "demo.limit")
	not demands({"other": {"tools": {"pay": entry}}}, "demo.owner")
}

test_settings_are_kept_where_the_floor_says_so if {
	kept := {"demo": {"settings": {"limit": {"owner": "Security", "reason": "Audited."}}}}
	organisation.keeps("demo", "limit") with data.ledgeragent_floor as kept
	not organisation.keeps("demo", "other") with data.ledgeragent_floor as kept
	not organisation.keeps("other", "limit") with data.ledgeragent_floor as kept
}
