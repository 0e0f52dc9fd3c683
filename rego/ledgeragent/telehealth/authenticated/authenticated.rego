# METADATA
# title: The patient is authenticated before anything is changed
# description: |
#   The patient was located by e-mail, or by name and date of birth, in this conversation, even if they gave a patient
#   id. Where the host application signed the patient in itself, that settles it.
# custom:
#   id: telehealth.authenticated
#   remedy: Ask for the e-mail address, or for full name and date of birth, and look the patient up.
#   severity: critical
#   policy: Patient Authentication
#   evidence: ["auth.patient_id"]
package ledgeragent.telehealth.authenticated

import data.ledgeragent.telehealth.facts

guards := {
	"cancel_appointment",
	"reschedule_appointment",
	"schedule_appointment",
	"update_medical_record_note",
	"update_prescription_supplier",
}

evidence := facts.patient_paths

holds if is_string(facts.patient_id)

verdict := "revise"

message := concat(" ", [
	"The patient is not authenticated: what is on record as their patient id is not a patient id.",
	"Look them up by e-mail, or by full name and date of birth, before anything is changed.",
])
