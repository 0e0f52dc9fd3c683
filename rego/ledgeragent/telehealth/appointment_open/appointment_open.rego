# METADATA
# title: Only an open appointment can be rescheduled or cancelled
# description: |
#   The appointment's status, as last read, is one of those in the policy data `settings.open_statuses`: scheduled, or
#   waiting for approval. A completed or cancelled appointment stays as it is.
# custom:
#   id: telehealth.appointment_open
#   remedy: Read the appointment; if it is completed or cancelled, tell the patient and offer to book a new one.
#   severity: high
#   policy: Rescheduling Appointments; Cancelling Appointments
#   evidence: ["appointments.{arguments.appointment_id}.status"]
# schemas:
#   - input: schema["gate_input.schema"]
#   - input.ledger: schema.telehealth["ledger.schema"]
package ledgeragent.telehealth.appointment_open

import data.ledgeragent.gate.text
import data.ledgeragent.telehealth.facts

guards := {
	"cancel_appointment",
	"reschedule_appointment",
}

evidence contains facts.appointment_path("status")

holds if {
	is_array(data.ledgeragent.telehealth.settings.open_statuses)
	is_string(facts.appointment.status)
	facts.appointment.status in data.ledgeragent.telehealth.settings.open_statuses
}

verdict := "block"

message := text.join([
	"The status of appointment ",
	text.show(facts.appointment_id),
	" is ",
	text.quote(facts.appointment.status),
	". Only an appointment with one of these can be rescheduled or cancelled: ",
	text.list(data.ledgeragent.telehealth.settings.open_statuses),
	".",
])
