# METADATA
# title: The telehealth facts that predicates share
# description: |
#   Names for what the proposed call is about. Each is undefined when it was not observed or has another type;
#   predicates list the paths they rely on as evidence, so that an undefined fact ends as unknown and not as a pass.
# schemas:
#   - input: schema["gate_input.schema"]
#   - input.ledger: schema.telehealth["ledger.schema"]
package ledgeragent.telehealth.facts

import data.ledgeragent.gate.clock
import data.ledgeragent.gate.text

# METADATA
# title: The patient of this conversation - whom the host authenticated, else whom the ledger proves
patient_id := input.session.principal.id if {
	from_host
} else := input.ledger.auth.patient_id if {
	is_string(input.ledger.auth.patient_id)
	input.ledger.auth.patient_id != ""
}

from_host if input.session.principal.source == "host"

# METADATA
# title: The paths that say who the patient is
patient_paths contains ["auth", "patient_id"] if not from_host

# METADATA
# title: The patient as messages name them
patient := text.show(id) if {
	id := patient_id
} else := "who is not known"

# METADATA
# title: The appointment that the call names, as observed
appointment := input.ledger.appointments[appointment_id]

appointment_id := input.action.arguments.appointment_id if is_string(input.action.arguments.appointment_id)

# METADATA
# title: The path of a field of that appointment
appointment_path(field) := ["appointments", appointment_id, field]

record_id := input.action.arguments.record_id if is_string(input.action.arguments.record_id)

# METADATA
# title: Whose the medical record is that the call names, as observed
record_owner := input.ledger.record_owners[record_id]

# METADATA
# title: The path of that knowledge
record_owner_path := ["record_owners", record_id]

# METADATA
# title: The weekday of a date (YYYY-MM-DD); undefined for any other text
weekday(date) := _weekdays[((days % 7) + 7) % 7] if {
	is_string(date)
	midnight := concat("", [date, "T00:00:00Z"])
	days := clock.seconds(midnight, midnight) / 86400
}

# Day 0, 1970-01-01, was a Thursday. The days before it are negative, and so is what is left of them.
_weekdays := ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"]
