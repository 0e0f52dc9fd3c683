package ledgeragent.deployments.build_tested_test

import data.ledgeragent.deployments.fixtures_test as given

id := "deployments.build_tested"

tests := ["builds", "shop-42", "tests"]

service := ["builds", "shop-42", "service"]

test_holds_for_a_tested_build_of_the_service if {
	every write in [given.deploy, given.rollback] { given.says(id, write) == "holds" }
	given.says(id, given.scale) == "silent"
}

test_violated_unless_the_tests_have_passed if {
	every value in ["failed", "running", "Passed"] {
		given.says(id, given.claim(given.deploy, tests, value)) == given.violated(
			id,
			"revise",
			concat("", [
				`Build shop-42 is of the service "shop" and its tests are "`,
				value,
				`". Only a build of shop whose tests have "passed" may run.`,
			]),
			[service, tests],
		)
	}
}

test_violated_by_a_build_of_another_service if {
	given.says(id, given.claim(given.deploy, service, "search")).status == "violated"
}

test_unknown_without_evidence if {
	every path in [tests, service] {
		given.missing(given.says(id, given.forget(given.deploy, path))) == {concat(".", path): "missing"}
		given.missing(given.says(id, given.outdate(given.deploy, path))) == {concat(".", path): "stale"}
	}
}

test_violated_by_odd_values if {
	every path in [tests, service] {
		every value in given.odd_values { given.says(id, given.claim(given.deploy, path, value)).verdict == "revise" }
	}
}
