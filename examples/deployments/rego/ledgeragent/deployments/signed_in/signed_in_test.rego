package ledgeragent.deployments.signed_in_test

import data.ledgeragent.deployments.fixtures_test as given
import data.ledgeragent.deployments.signed_in

id := "deployments.signed_in"

test_holds_for_whom_the_host_authenticated if {
	every tool in signed_in.guards { given.says(id, given.request(tool, {})) == "holds" }
}

test_violated_without_a_principal if {
	every tool in signed_in.guards {
		given.says(id, given.put(given.request(tool, {}), ["session", "principal"], null)) == given.violated(
			id,
			"block",
			"Nobody is signed in to this session, so nothing can be changed on anybody's behalf.",
			[],
		)
	}
}

test_violated_by_a_principal_who_is_only_claimed if {
	every source in ["claimed", "proof"] {
		claimed := given.put(given.request("any", {}), ["session", "principal", "source"], source)
		not signed_in.holds with input as claimed
	}
}
