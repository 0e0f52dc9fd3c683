# METADATA
# title: Payment methods are the customer's own, and of an allowed kind and number
# description: |
#   Every method stands on the profile of the customer of the conversation. Policy data (`settings.payment_limits`) says
#   how many of each kind a call may use: a booking one certificate, one credit card and three gift cards, a change of
#   flights or bags one credit or gift card and no certificate. Whether a certificate or gift card still holds enough is
#   left to airline.balance_covers.
# custom:
#   id: airline.payment_valid
#   remedy: Read the customer's profile and let them choose among the methods on it, within the limits.
#   severity: high
#   policy: Book flight (payment); Modify flight (payment)
#   evidence:
#     - "auth.user_id"
#     - "users.{principal}.payment_methods.{id}.source"
# schemas:
#   - input: schema["gate_input.schema"]
#   - input.ledger: schema.airline["ledger.schema"]
package ledgeragent.airline.payment_valid

import data.ledgeragent.airline.facts
import data.ledgeragent.gate.text

guards := {
	"book_reservation",
	"update_reservation_baggages",
	"update_reservation_flights",
}

evidence contains path if some path in facts.customer_paths

# One method that is wrong decides: then nothing is asked about another one.
evidence contains facts.method_field_path(id, "source") if {
	count(_wrong) == 0
	some id in _ids
}

evidence contains facts.method_field_path(id, "source") if some id in _wrong

holds if {
	count(_ids) > 0
	every id in _ids { _is_allowed(id) }
}

_ids := [entry.payment_id | some entry in input.action.arguments.payment_methods] if {
	facts.is_booking
} else := [input.action.arguments.payment_id]

_is_allowed(id) if count(_of(facts.method(id).source)) <= _limits[facts.method(id).source]

_of(source) := [id |
	some id in _ids
	facts.method(id).source == source
]

_limits := {source: limit |
	some source, limit in data.ledgeragent.airline.settings.payment_limits[input.action.tool]
	is_number(limit)
}

_wrong contains id if {
	some id in _ids
	not _is_unread(id)
	not _is_allowed(id)
}

_is_unread(id) if facts.unknown(facts.method_field_path(id, "source"))

verdict := "revise"

message := text.join([
	"This cannot be paid with ",
	text.list({_described(id) | some id in _wrong}),
	". Allowed here: at most ",
	text.list({_allowed(source, limit) | some source, limit in _limits}),
	", all on the customer's profile: ",
	text.list(facts.method_ids),
	".",
])

_described(id) := text.join([text.show(id), " (", text.show(facts.method(id).source), ")"]) if {
	facts.method(id)
} else := text.join([text.show(id), " (not on the profile)"])

_allowed(source, limit) := text.join([text.number(limit), " ", text.show(source)])
