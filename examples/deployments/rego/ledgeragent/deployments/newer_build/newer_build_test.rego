package ledgeragent.deployments.newer_build_test

import data.ledgeragent.deployments.fixtures_test as given

id := "deployments.newer_build"

number := ["builds", "shop-42", "number"]

running := ["builds", "shop-41", "number"]

running_id := ["services", "shop", "build_id"]

older := "Build shop-42 is not newer than shop-41, which runs. Deploy a newer one, or use rollback."

test_holds_for_a_newer_build if {
	given.says(id, given.deploy) == "holds"
	given.says(id, given.rollback) == "silent"
}

test_violated_by_the_same_or_an_older_number if {
	every value in [41, 40, 0] {
		given.says(id, given.claim(given.deploy, number, value)) == given.violated(
			id,
			"revise",
			older,
			[running, number, running_id],
		)
	}
}

test_unknown_without_evidence if {
	every path in [number, running] {
		given.missing(given.says(id, given.forget(given.deploy, path))) == {concat(".", path): "missing"}
		given.missing(given.says(id, given.outdate(given.deploy, path))) == {concat(".", path): "stale"}
	}
	given.missing(given.says(id, given.forget(given.deploy, running_id))) == {"services.shop.build_id": "missing"}
	given.missing(given.says(id, given.outdate(given.deploy, running_id))) == {"services.shop.build_id": "stale"}
}

test_unknown_when_the_build_that_runs_was_never_read if {
	other := given.claim(given.deploy, running_id, "shop-38")
	given.missing(given.says(id, other)) == {"builds.shop-38.number": "missing"}
}

test_violated_by_values_that_are_no_number if {
	every path in [number, running] {
		every value in [null, true, "43", "", [], {}] {
			given.says(id, given.claim(given.deploy, path, value)).status == "violated"
		}
	}
}
