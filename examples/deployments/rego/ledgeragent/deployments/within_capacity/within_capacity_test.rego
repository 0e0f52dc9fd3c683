package ledgeragent.deployments.within_capacity_test

import data.ledgeragent.deployments.fixtures_test as given

id := "deployments.within_capacity"

most := ["services", "shop", "max_replicas"]

test_holds_within_the_limits if {
	every replicas in [1, 5, 8] { given.says(id, given.argue(given.scale, "replicas", replicas)) == "holds" }
	given.says(id, given.deploy) == "silent"
}

test_violated_outside if {
	every replicas in [0, 9] {
		given.says(id, given.argue(given.scale, "replicas", replicas)) == given.violated(
			id,
			"revise",
			"shop keeps between 1 and 8 replicas.",
			[most],
		)
	}
}

test_violated_without_a_sound_setting if {
	every setting in [{}, {"min_replicas": "1"}] {
		says := given.says(id, given.scale) with data.ledgeragent.deployments.settings as setting
		says.status == "violated"
	}
}

test_unknown_without_evidence if {
	given.missing(given.says(id, given.forget(given.scale, most))) == {"services.shop.max_replicas": "missing"}
	given.missing(given.says(id, given.outdate(given.scale, most))) == {"services.shop.max_replicas": "stale"}
}

test_violated_by_odd_values if {
	every value in given.odd_values { given.says(id, given.claim(given.scale, most, value)).verdict == "revise" }
}
