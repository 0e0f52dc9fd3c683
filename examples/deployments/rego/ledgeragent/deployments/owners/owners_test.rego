package ledgeragent.deployments.owners_test

import data.ledgeragent.deployments.fixtures_test as given

id := "deployments.owners"

owners := ["services", "shop", "owners"]

test_holds_for_an_owner if {
	every write in given.writes { given.says(id, write) == "holds" }
}

test_violated_for_anybody_else if {
	every write in given.writes {
		given.says(id, given.claim(write, owners, ["ada", "grace"])) == given.violated(
			id,
			"block",
			"Only the owners of shop may change it: ada and grace. The user is not one of them.",
			[owners],
		)
	}
}

test_unknown_without_evidence if {
	every write in given.writes {
		given.missing(given.says(id, given.forget(write, owners))) == {"services.shop.owners": "missing"}
		given.missing(given.says(id, given.outdate(write, owners))) == {"services.shop.owners": "stale"}
	}
}

test_violated_by_odd_values if {
	every value in given.odd_values { given.says(id, given.claim(given.deploy, owners, value)).verdict == "block" }
}
