# METADATA
# title: What is enforced in airline
# description: |
#   The one page that lists the predicates of every write. A predicate that is not listed here guards nothing. This file
#   is written from the predicates' `guards` (`make compile`, or `ledgeragent domain compile`); edit those.
# schemas:
#   - input: schema["gate_input.schema"]
package ledgeragent.airline

import data.ledgeragent.gate
import data.ledgeragent.gate.overrides

default decision := {
	"contract": "ledgeragent.decision/1",
	"request": "",
	"verdict": "block",
	"findings": [{
		"predicate": "gate.input",
		"status": "violated",
		"verdict": "block",
		"mode": "enforce",
		"message": "The gate cannot judge: its generated data (data.json) is not loaded.",
		"paths": [],
		"missing": [],
	}],
	"predicates": [],
	"overrides": [],
	"obligations": [],
	"policy": {
		"revision": "none",
		"gate": "none",
		"sequence": {"domain": 0, "gate": 0, "overrides": 0, "floor": 0, "freeze": 0},
	},
}

# METADATA
# title: The decision on the proposed call
# entrypoint: true
decision := gate.decide("airline", _declared, predicates)

# METADATA
# title: The policies' own decision, for proving them before they are used
# description: Without what a deployment overrides, what is frozen, and what an organisation demands on top.
# entrypoint: true
proof := undiluted if {
	undiluted := decision with data.ledgeragent_overrides as {}
		with data.ledgeragent_floor as {}
		with data.ledgeragent_freeze as {}
}

# Of the generated data no more than this call needs: whatever is handed to a function is copied.
_declared := {
	"optional": data.ledgeragent.airline.declared.optional,
	"protected": data.ledgeragent.airline.declared.protected,
	"revision": data.ledgeragent.airline.declared.revision,
	"sequence": data.ledgeragent.airline.declared.sequence,
	"tools": {tool: declared |
		tool := input.action.tool
		declared := data.ledgeragent.airline.declared.tools[tool]
	},
}

# METADATA
# title: The thresholds, reasons and tables in force
settings[key] := overrides.setting("airline", key, own) if some key, own in data.ledgeragent.airline.defaults

default predicates := {}

predicates := guarding[input.action.tool]

guarding["book_reservation"] := {
	"airline.amounts_add_up": data.ledgeragent.airline.amounts_add_up,
	"airline.baggage_rules": data.ledgeragent.airline.baggage_rules,
	"airline.balance_covers": data.ledgeragent.airline.balance_covers,
	"airline.flight_from_observed_search": data.ledgeragent.airline.flight_from_observed_search,
	"airline.owner": data.ledgeragent.airline.owner,
	"airline.passenger_count": data.ledgeragent.airline.passenger_count,
	"airline.payment_valid": data.ledgeragent.airline.payment_valid,
	"airline.seats_available": data.ledgeragent.airline.seats_available,
	"common.no_repeat_write": data.ledgeragent.common.no_repeat_write,
}

guarding["cancel_reservation"] := {
	"airline.cancel_requires_basis": data.ledgeragent.airline.cancel_requires_basis,
	"airline.no_flown_segment": data.ledgeragent.airline.no_flown_segment,
	"airline.owner": data.ledgeragent.airline.owner,
	"airline.reservation_active": data.ledgeragent.airline.reservation_active,
	"common.no_repeat_write": data.ledgeragent.common.no_repeat_write,
}

guarding["send_certificate"] := {
	"airline.certificate_basis": data.ledgeragent.airline.certificate_basis,
	"airline.owner": data.ledgeragent.airline.owner,
	"common.no_repeat_write": data.ledgeragent.common.no_repeat_write,
}

guarding["update_reservation_baggages"] := {
	"airline.baggage_rules": data.ledgeragent.airline.baggage_rules,
	"airline.balance_covers": data.ledgeragent.airline.balance_covers,
	"airline.owner": data.ledgeragent.airline.owner,
	"airline.payment_valid": data.ledgeragent.airline.payment_valid,
	"airline.reservation_active": data.ledgeragent.airline.reservation_active,
	"common.no_repeat_write": data.ledgeragent.common.no_repeat_write,
}

guarding["update_reservation_flights"] := {
	"airline.balance_covers": data.ledgeragent.airline.balance_covers,
	"airline.basic_economy_flights_fixed": data.ledgeragent.airline.basic_economy_flights_fixed,
	"airline.flight_from_observed_search": data.ledgeragent.airline.flight_from_observed_search,
	"airline.itinerary_shape_fixed": data.ledgeragent.airline.itinerary_shape_fixed,
	"airline.no_flown_segment": data.ledgeragent.airline.no_flown_segment,
	"airline.owner": data.ledgeragent.airline.owner,
	"airline.payment_valid": data.ledgeragent.airline.payment_valid,
	"airline.reservation_active": data.ledgeragent.airline.reservation_active,
	"airline.seats_available": data.ledgeragent.airline.seats_available,
	"common.no_repeat_write": data.ledgeragent.common.no_repeat_write,
}

guarding["update_reservation_passengers"] := {
	"airline.owner": data.ledgeragent.airline.owner,
	"airline.passenger_count": data.ledgeragent.airline.passenger_count,
	"airline.reservation_active": data.ledgeragent.airline.reservation_active,
	"common.no_repeat_write": data.ledgeragent.common.no_repeat_write,
}
