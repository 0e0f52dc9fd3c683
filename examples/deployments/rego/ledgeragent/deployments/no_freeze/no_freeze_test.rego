package ledgeragent.deployments.no_freeze_test

import data.ledgeragent.deployments
import data.ledgeragent.deployments.fixtures_test as given

id := "deployments.no_freeze"

freezes := ["freezes"]

freeze(from, until) := [{"from": from, "until": until, "reason": "Sale"}]

test_holds_before_and_after_a_freeze if {
	given.says(id, given.deploy) == "holds"
	every list in [[], freeze("2026-01-02", "2026-01-05"), freeze("2025-12-01", "2025-12-31")] {
		given.says(id, given.claim(given.deploy, freezes, list)) == "holds"
	}
	given.says(id, given.rollback) == "silent"
}

test_violated_on_its_first_and_last_day_and_between if {
	every list in [
		freeze("2026-01-01", "2026-01-05"),
		freeze("2025-12-20", "2026-01-01"),
		freeze("2025-12-20", "2026-01-05"),
	] {
		given.says(id, given.claim(given.deploy, freezes, list)) == given.violated(
			id,
			"block",
			"Deployments are frozen today: Sale. Nothing can be deployed until that has ended.",
			[freezes],
		)
	}
}

test_policy_data_can_exempt_a_service if {
	says := given.says(id, frozen) with data.ledgeragent.deployments.settings as {"exempt_from_freezes": ["shop"]}
	says == "holds"
}

frozen := given.claim(given.deploy, freezes, freeze("2026-01-01", "2026-01-01"))

test_somebody_on_call_can_approve_a_deployment_during_a_freeze if {
	deployments.decision.obligations == [{
		"kind": "approval",
		"predicate": id,
		"approvers": ["grace", "lin"],
		"grant": null,
	}] with input as frozen
	deployments.decision.obligations == [] with input as given.deploy
	every setting in [{}, {"on_call": null}, {"on_call": "lin"}, {"on_call": [""]}] {
		deployments.decision.obligations == [] with input as frozen
			with data.ledgeragent.deployments.settings as object.union({"exempt_from_freezes": []}, setting)
	}
}

test_unknown_without_evidence if {
	given.missing(given.says(id, given.forget(given.deploy, freezes))) == {"freezes": "missing"}
	given.missing(given.says(id, given.outdate(given.deploy, freezes))) == {"freezes": "stale"}
}

test_violated_by_odd_values if {
	odd := {value | some value in given.odd_values; value != []}
	every value in odd | {[null], [5], freeze(null, null), freeze("soon", "")} {
		given.says(id, given.claim(given.deploy, freezes, value)).verdict == "block"
	}
}
