package ledgeragent.telehealth.authenticated_test

import data.ledgeragent.telehealth.fixtures_test as given

id := "telehealth.authenticated"

test_holds_for_a_located_patient if {
	every write in given.writes { given.of(id, write) == "holds" }
}

test_holds_for_whom_the_host_signed_in if {
	request := given.signed_in(given.forget(given.cancel, ["auth"]), "ada_quist_1001")
	given.of(id, request) == "holds"
}

test_a_principal_that_is_only_claimed_proves_nothing if {
	request := given.put(given.cancel, ["session", "principal", "source"], "claimed")
	given.missing(given.of(id, given.forget(request, ["auth"]))) == {"auth.patient_id": "missing"}
}

test_unknown_before_the_patient_is_located if {
	every write in given.writes {
		given.of(id, given.forget(write, ["auth"])) == {
			"predicate": id,
			"status": "unknown",
			"verdict": "revise",
			"mode": "enforce",
			"message": "This cannot be decided yet. Not read in this session: auth.patient_id.",
			"paths": [["auth", "patient_id"]],
			"missing": [{"path": ["auth", "patient_id"], "cause": "missing"}],
		}
	}
}

test_unknown_when_stale if {
	given.missing(given.of(id, given.outdate(given.cancel, ["auth", "patient_id"]))) == {"auth.patient_id": "stale"}
}

test_violated_by_what_is_no_patient_id if {
	every value in [null, 7, "", ["ada_quist_1001"], {}, true] {
		given.of(id, given.claim(given.cancel, ["auth", "patient_id"], value)) == given.violated(
			id,
			"revise",
			concat(" ", [
				"The patient is not authenticated: what is on record as their patient id is not a patient id.",
				"Look them up by e-mail, or by full name and date of birth, before anything is changed.",
			]),
			[["auth", "patient_id"]],
		)
	}
}
