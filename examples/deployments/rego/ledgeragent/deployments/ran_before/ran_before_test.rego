package ledgeragent.deployments.ran_before_test

import data.ledgeragent.deployments.fixtures_test as given

id := "deployments.ran_before"

previous := ["services", "shop", "previous_builds"]

test_holds_for_a_build_that_ran_before if {
	given.says(id, given.rollback) == "holds"
	given.says(id, given.deploy) == "silent"
}

test_violated_by_any_other_build if {
	given.says(id, given.argue(given.rollback, "build_id", "shop-42")) == given.violated(
		id,
		"revise",
		"Build shop-42 never ran as shop. It can go back to: shop-39 and shop-40.",
		[previous],
	)
}

test_unknown_without_evidence if {
	given.missing(given.says(id, given.forget(given.rollback, previous))) == {"services.shop.previous_builds": "missing"}
	given.missing(given.says(id, given.outdate(given.rollback, previous))) == {"services.shop.previous_builds": "stale"}
}

test_violated_by_odd_values if {
	every value in given.odd_values {
		given.says(id, given.claim(given.rollback, previous, value)).verdict == "revise"
	}
}
