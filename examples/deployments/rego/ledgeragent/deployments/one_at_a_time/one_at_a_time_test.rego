package ledgeragent.deployments.one_at_a_time_test

import data.ledgeragent.deployments.fixtures_test as given

id := "deployments.one_at_a_time"

state := ["services", "shop", "state"]

test_holds_for_an_idle_service if {
	every write in [given.deploy, given.rollback] { given.says(id, write) == "holds" }
	given.says(id, given.scale) == "silent"
}

test_violated_while_it_is_being_deployed if {
	given.says(id, given.claim(given.deploy, state, "deploying")) == given.violated(
		id,
		"revise",
		`The state of shop is "deploying". Wait until it is "idle" and read the service again.`,
		[state],
	)
}

test_unknown_without_evidence if {
	given.missing(given.says(id, given.forget(given.deploy, state))) == {"services.shop.state": "missing"}
	given.missing(given.says(id, given.outdate(given.deploy, state))) == {"services.shop.state": "stale"}
}

test_violated_by_odd_values if {
	every value in given.odd_values { given.says(id, given.claim(given.deploy, state, value)).verdict == "revise" }
}
