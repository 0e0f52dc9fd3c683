package ledgeragent.telehealth.record_observed_test

import data.ledgeragent.telehealth.fixtures_test as given

id := "telehealth.record_observed"

owner := ["record_owners", "REC1"]

test_holds_for_a_record_that_was_read_and_is_the_patients if {
	every write in [given.note, given.supplier] { given.of(id, write) == "holds" }
}

test_holds_for_whom_the_host_signed_in if {
	given.of(id, given.signed_in(given.forget(given.note, ["auth"]), "ada_quist_1001")) == "holds"
}

test_silent_elsewhere if {
	every write in [given.schedule, given.reschedule, given.cancel] { given.of(id, write) == "silent" }
}

test_violated_by_the_record_of_another_patient if {
	every write in [given.note, given.supplier] {
		given.of(id, given.claim(write, owner, "bo_quist_2002")) == given.violated(
			id,
			"revise",
			concat(" ", [
				"Medical record REC1, as it was read, is not one of the authenticated patient, ada_quist_1001.",
				"Use a record from the list of their own.",
			]),
			[["auth", "patient_id"], owner],
		)
	}
}

test_unknown_without_evidence if {
	given.missing(given.of(id, given.argue(given.note, "record_id", "REC2"))) == {"record_owners.REC2": "missing"}
	given.missing(given.of(id, given.forget(given.note, ["record_owners"]))) == {"record_owners.REC1": "missing"}
	given.missing(given.of(id, given.forget(given.supplier, ["auth"]))) == {"auth.patient_id": "missing"}
	given.missing(given.of(id, given.outdate(given.note, owner))) == {"record_owners.REC1": "stale"}
}

test_violated_by_odd_values if {
	every value in given.odd_values {
		given.of(id, given.claim(given.note, owner, value)).status == "violated"
		given.of(id, given.claim(given.note, ["auth", "patient_id"], value)).status == "violated"
	}
}
