package ledgeragent.retail.cancel_reason_test

import data.ledgeragent.retail.fixtures_test as given

id := "retail.cancel_reason"

test_holds_for_the_accepted_reasons if {
	given.of(id, given.cancel) == "holds"
	given.of(id, given.argue(given.cancel, "reason", "ordered by mistake")) == "holds"
}

test_silent_elsewhere if given.of(id, given.change_address) == "silent"

test_violated_by_any_other_reason if {
	every reason in ["found it cheaper", "", "No longer needed", "no longer needed."] {
		given.of(id, given.argue(given.cancel, "reason", reason)) == given.violated(
			id,
			"revise",
			concat("", [
				`An order cannot be cancelled for the reason "`,
				reason,
				`". Accepted reasons: "no longer needed" and "ordered by mistake". `,
				"Ask the customer which of them applies.",
			]),
			[],
		)
	}
}

test_the_policy_data_lists_the_reasons if {
	settings := {"cancel_reasons": ["moved house"]}
	request := given.argue(given.cancel, "reason", "moved house")
	given.of(id, request) == "holds" with data.ledgeragent.retail.settings as settings
	given.of(id, given.cancel).status == "violated" with data.ledgeragent.retail.settings as settings
}

test_violated_without_sound_policy_data if {
	every settings in [{}, {"cancel_reasons": "no longer needed"}, {"cancel_reasons": {"x": "no longer needed"}}] {
		given.of(id, given.cancel) == given.violated(
			id,
			"revise",
			concat(" ", [
				`An order cannot be cancelled for the reason "no longer needed".`,
				"Accepted reasons: none. Ask the customer which of them applies.",
			]),
			[],
		) with data.ledgeragent.retail.settings as settings
	}
}
