package ledgeragent.gate.policy_test

import data.ledgeragent.gate.policy

declared := {"revision": "sha256:own", "sequence": 7}

build := {"revision": "sha256:gate", "sequence": 5}

unnumbered := {"domain": 0, "gate": 0, "overrides": 0, "floor": 0, "freeze": 0}

test_everything_that_has_a_number_shows_it if {
	shown := policy.shown("demo", declared) with data.ledgeragent.gate.build as build
		with data.ledgeragent_overrides as {"demo": {"sequence": 4}}
		with data.ledgeragent_floor as {"demo": {"sequence": 3}, "other": {"sequence": 9}}
		with data.ledgeragent_freeze as {"demo": {"sequence": 2}}
	shown == {
		"revision": "sha256:own",
		"gate": "sha256:gate",
		"sequence": {"domain": 7, "gate": 5, "overrides": 4, "floor": 3, "freeze": 2},
	}
}

test_each_shows_its_number_where_the_others_are_not_loaded if {
	document := {"demo": {"sequence": 4}}
	overrides := policy.shown("demo", declared) with data.ledgeragent_overrides as document
	floor := policy.shown("demo", declared) with data.ledgeragent_floor as document
	freeze := policy.shown("demo", declared) with data.ledgeragent_freeze as document
	found := [overrides.sequence.overrides, floor.sequence.floor, freeze.sequence.freeze]
	found == [4, 4, 4]
}

test_what_has_no_number_shows_none if {
	shown := policy.shown("demo", {"revision": "sha256:own"})
		with data.ledgeragent.gate.build as {"revision": "sha256:gate"}
	shown == {"revision": "sha256:own", "gate": "sha256:gate", "sequence": unnumbered}
}

test_an_odd_number_is_none if {
	every odd in [null, true, "7", -1, 1.5, 10000000000, [7], {"sequence": 7}] {
		document := {"demo": {"sequence": odd}}
		shown := policy.shown("demo", {"revision": "sha256:own", "sequence": odd})
			with data.ledgeragent.gate.build as {"revision": "sha256:gate", "sequence": odd}
			with data.ledgeragent_overrides as document
			with data.ledgeragent_floor as document
			with data.ledgeragent_freeze as document
		shown.sequence == unnumbered
	}
}

test_data_that_is_not_an_object_has_no_number if {
	every odd in [null, true, "x", 5, []] {
		shown := policy.shown("demo", declared) with data.ledgeragent_overrides as odd
			with data.ledgeragent_floor as {"demo": odd}
			with data.ledgeragent_freeze as odd
		[shown.sequence.overrides, shown.sequence.floor, shown.sequence.freeze] == [0, 0, 0]
	}
}

test_a_gate_that_is_not_stamped_decides_nothing if {
	not policy.shown("demo", declared) with data.ledgeragent.gate.build as {}
	not policy.shown("demo", {"sequence": 7})
}
