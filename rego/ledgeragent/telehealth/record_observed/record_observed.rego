# METADATA
# title: Notes and suppliers go into a record that was read and is the patient's
# description: |
#   The medical record that the call changes was read in this conversation, or was in a list of the authenticated
#   patient's records, and it is that patient's.
# custom:
#   id: telehealth.record_observed
#   remedy: Read the medical record, or list the patient's records, and use the id of one that is theirs.
#   severity: high
#   policy: Medical Records and Privacy
#   evidence: ["auth.patient_id", "record_owners.{arguments.record_id}"]
# schemas:
#   - input: schema["gate_input.schema"]
#   - input.ledger: schema.telehealth["ledger.schema"]
package ledgeragent.telehealth.record_observed

import data.ledgeragent.gate.text
import data.ledgeragent.telehealth.facts

guards := {
	"update_medical_record_note",
	"update_prescription_supplier",
}

evidence contains path if some path in facts.patient_paths

evidence contains facts.record_owner_path

holds if facts.record_owner == facts.patient_id

verdict := "revise"

message := text.join([
	"Medical record ",
	text.show(facts.record_id),
	", as it was read, is not one of the authenticated patient, ",
	facts.patient,
	". Use a record from the list of their own.",
])
