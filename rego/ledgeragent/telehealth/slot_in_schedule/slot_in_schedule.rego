# METADATA
# title: Appointments are booked at times in the provider's schedule
# description: |
#   The day is a real date, and the provider's weekly schedule, as read, lists the time for its weekday. A new
#   appointment is with the provider that the call names, a moved one stays with the appointment's own provider. Whether
#   the slot is still free is the booking system's to say.
# custom:
#   id: telehealth.slot_in_schedule
#   remedy: Read the provider and choose a weekday and a time (HH:MM) from the weekly schedule.
#   severity: medium
#   policy: Scheduling Appointments; Rescheduling Appointments
#   evidence:
#     - "providers.{arguments.provider_id}.schedule.*"
#     - "appointments.{arguments.appointment_id}.provider_id"
#     - "providers.{ledger: appointments.{arguments.appointment_id}.provider_id}.schedule.*"
# schemas:
#   - input: schema["gate_input.schema"]
#   - input.ledger: schema.telehealth["ledger.schema"]
package ledgeragent.telehealth.slot_in_schedule

import data.ledgeragent.gate.text
import data.ledgeragent.telehealth.facts

guards := {
	"reschedule_appointment",
	"schedule_appointment",
}

# What is no date is in no schedule: then nothing needs to be read.
evidence contains facts.appointment_path("provider_id") if _weekday

evidence contains ["providers", _provider_id, "schedule", _weekday]

holds if {
	is_array(_times)
	_time in _times
}

_is_move if input.action.tool == "reschedule_appointment"

_date := input.action.arguments.new_date if {
	_is_move
} else := input.action.arguments.date

_time := input.action.arguments.new_time if {
	_is_move
} else := input.action.arguments.time

_provider_id := id if {
	_is_move
	id := facts.appointment.provider_id
	is_string(id)
}

_provider_id := input.action.arguments.provider_id if not _is_move

_weekday := facts.weekday(_date)

_times := _schedule[_weekday]

_schedule := input.ledger.providers[_provider_id].schedule

verdict := "revise"

message := text.join([
	text.quote(_date),
	" is not a date. Write the day as YYYY-MM-DD.",
]) if {
	not _weekday
} else := text.join([
	text.show(_date),
	" is a ",
	_weekday,
	", and ",
	text.show(_time),
	" is not a time at which ",
	text.show(_provider_id),
	" sees patients on that weekday. In the schedule: ",
	_listed,
	".",
])

_listed := concat("; ", _rows) if {
	count(_rows) > 0
} else := "nothing"

_rows := [text.join([day, " ", text.list(_schedule[day])]) |
	some day in ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
	is_array(_schedule[day])
]
