package ledgeragent.telehealth.owner_test

import data.ledgeragent.telehealth.fixtures_test as given

id := "telehealth.owner"

appointment := ["appointments", "APPT1", "patient_id"]

record := ["record_owners", "REC1"]

their_own := concat(" ", [
	"Only their own appointments and records can be changed here;",
	"for a child or an aged parent, a person has to check the relation.",
])

test_holds_for_the_patients_own_appointments_and_records if {
	every write in given.writes { given.of(id, write) == "holds" }
}

test_holds_for_whom_the_host_signed_in if {
	every write in given.writes {
		given.of(id, given.signed_in(given.forget(write, ["auth"]), "ada_quist_1001")) == "holds"
		given.of(id, given.signed_in(write, "ada_quist_1001")) == "holds"
	}
}

test_violated_and_not_unknown_for_somebody_else_whom_the_host_signed_in if {
	every write in given.writes {
		given.of(id, given.signed_in(given.forget(write, ["auth"]), "bo_quist_2002")).status == "violated"
	}
}

test_violated_by_another_patients_appointment if {
	given.of(id, given.claim(given.cancel, appointment, "bo_quist_2002")) == given.violated(
		id,
		"revise",
		concat(" ", [
			"Appointment APPT1 belongs to bo_quist_2002, not to the authenticated patient, ada_quist_1001.",
			their_own,
		]),
		[appointment, ["auth", "patient_id"]],
	)
	moved := given.claim(given.reschedule, ["appointments", "APPT2", "patient_id"], "bo_quist_2002")
	given.of(id, moved).status == "violated"
}

test_violated_by_another_patients_record if {
	every write in [given.note, given.supplier] {
		given.of(id, given.claim(write, record, "bo_quist_2002")) == given.violated(
			id,
			"revise",
			concat(" ", [
				"Medical record REC1 belongs to bo_quist_2002, not to the authenticated patient, ada_quist_1001.",
				their_own,
			]),
			[["auth", "patient_id"], record],
		)
	}
}

test_violated_by_a_booking_for_another_patient if {
	given.of(id, given.argue(given.schedule, "patient_id", "bo_quist_2002")) == given.violated(
		id,
		"revise",
		concat(" ", [
			"The new appointment would belong to bo_quist_2002, not to the authenticated patient, ada_quist_1001.",
			their_own,
		]),
		[["auth", "patient_id"]],
	)
}

test_violated_when_a_look_up_proves_somebody_else_than_the_host if {
	every write in given.writes {
		bare := given.put(write, ["ledger"], {"auth": {"patient_id": "ada_quist_1001"}})
		given.of(id, given.signed_in(bare, "bo_quist_2002")) == given.violated(
			id,
			"revise",
			concat(" ", [
				"The host signed in bo_quist_2002, but a look-up in this conversation identified ada_quist_1001.",
				"Nothing can be changed for either of them.",
			]),
			[["auth", "patient_id"]],
		)
	}
}

# Not even the patient whom the host signed in gets their own appointment changed then.
test_violated_when_a_look_up_proves_somebody_else_whosever_the_appointment_is if {
	theirs := given.claim(given.cancel, appointment, "bo_quist_2002")
	given.of(id, given.signed_in(theirs, "bo_quist_2002")).status == "violated"
}

test_unknown_without_evidence if {
	given.missing(given.of(id, given.forget(given.schedule, ["auth"]))) == {"auth.patient_id": "missing"}
	unread := given.forget(given.cancel, ["appointments"])
	given.missing(given.of(id, unread)) == {"appointments.APPT1.patient_id": "missing"}
	given.missing(given.of(id, given.forget(given.note, ["record_owners"]))) == {"record_owners.REC1": "missing"}
	given.missing(given.of(id, given.put(given.supplier, ["ledger"], {}))) == {
		"auth.patient_id": "missing",
		"record_owners.REC1": "missing",
	}
	given.missing(given.of(id, given.put(given.reschedule, ["ledger"], {}))) == {
		"appointments.APPT2.patient_id": "missing",
		"auth.patient_id": "missing",
	}
}

test_unknown_when_stale if {
	given.missing(given.of(id, given.outdate(given.cancel, ["auth"]))) == {"auth.patient_id": "stale"}
	given.missing(given.of(id, given.outdate(given.cancel, ["appointments", "APPT1"]))) == {
		"appointments.APPT1.patient_id": "stale",
	}
	given.missing(given.of(id, given.outdate(given.note, record))) == {"record_owners.REC1": "stale"}
}

test_an_unread_patient_is_named_as_such if {
	odd := given.of(id, given.claim(given.cancel, ["auth", "patient_id"], 7))
	odd.message == concat(" ", [
		"Appointment APPT1 belongs to ada_quist_1001, not to the authenticated patient, who is not known.",
		their_own,
	])
}

test_violated_by_odd_owners if {
	every value in given.odd_values {
		given.of(id, given.claim(given.cancel, appointment, value)).status == "violated"
		given.of(id, given.claim(given.note, record, value)).status == "violated"
	}
}

test_violated_by_odd_patients if {
	every value in given.odd_values {
		given.of(id, given.claim(given.schedule, ["auth", "patient_id"], value)).status == "violated"
	}
}
