# METADATA
# title: Only the authenticated patient's own appointments and records are changed
# description: |
#   The appointment or the medical record belongs to the authenticated patient, and a new appointment is booked for
#   them. The policy lets patients act for their children and aged parents, which no record shows: therefore the call
#   is sent back and not refused. Where the host signed the patient in and a look-up in the conversation proves somebody
#   else, nothing is changed for either.
# custom:
#   id: telehealth.owner
#   remedy: |
#     Use an appointment or a record of the authenticated patient. For a child or an aged parent, hand over to a person.
#   severity: critical
#   policy: Telehealth agent policy (one patient per conversation)
#   evidence:
#     - "auth.patient_id"
#     - "appointments.{arguments.appointment_id}.patient_id"
#     - "record_owners.{arguments.record_id}"
# schemas:
#   - input: schema["gate_input.schema"]
#   - input.ledger: schema.telehealth["ledger.schema"]
package ledgeragent.telehealth.owner

import data.ledgeragent.gate.text
import data.ledgeragent.telehealth.facts

guards := {
	"cancel_appointment",
	"reschedule_appointment",
	"schedule_appointment",
	"update_medical_record_note",
	"update_prescription_supplier",
}

evidence contains path if some path in facts.patient_paths

evidence contains ["auth", "patient_id"] if _proves_somebody_else

evidence contains facts.appointment_path("patient_id") if not _proves_somebody_else

evidence contains facts.record_owner_path if not _proves_somebody_else

holds if {
	not _proves_somebody_else
	_owner == facts.patient_id
}

# Without the host's word, the patient is whom the ledger proves.
_proves_somebody_else if input.ledger.auth.patient_id != facts.patient_id

_owner := input.action.arguments.patient_id if {
	input.action.tool == "schedule_appointment"
} else := facts.appointment.patient_id if {
	facts.appointment_id
} else := facts.record_owner

verdict := "revise"

message := text.join([
	"The host signed in ",
	text.show(facts.patient_id),
	", but a look-up in this conversation identified ",
	text.show(input.ledger.auth.patient_id),
	". Nothing can be changed for either of them.",
]) if {
	_proves_somebody_else
} else := text.join([
	_thing,
	text.show(_owner),
	", not to the authenticated patient, ",
	facts.patient,
	". Only their own appointments and records can be changed here; ",
	"for a child or an aged parent, a person has to check the relation.",
])

_thing := "The new appointment would belong to " if {
	input.action.tool == "schedule_appointment"
} else := text.join(["Appointment ", text.show(facts.appointment_id), " belongs to "]) if {
	facts.appointment_id
} else := text.join(["Medical record ", text.show(facts.record_id), " belongs to "])
