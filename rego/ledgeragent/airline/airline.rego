# METADATA
# title: What is enforced in airline
# description: |
#   The one page that lists every airline predicate. A predicate that is not listed here guards nothing.
# schemas:
#   - input: schema["gate_input.schema"]
package ledgeragent.airline

import data.ledgeragent.common
import data.ledgeragent.gate

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
	"policy": {"revision": "none"},
}

# METADATA
# title: The decision on the proposed call
# entrypoint: true
decision := gate.decide("airline", data.ledgeragent.airline.declared, predicates)

# METADATA
# title: The same decision without the deployment's overrides, for proving a revision before it is used
# entrypoint: true
proof := undiluted if {
	undiluted := decision with data.ledgeragent_overrides as {}
}

predicates["common.no_repeat_write"] := common.no_repeat_write if {
	data.ledgeragent.airline.declared.tools[input.action.tool].effect == "write"
}

predicates["airline.amounts_add_up"] := data.ledgeragent.airline.amounts_add_up if {
	input.action.tool in data.ledgeragent.airline.amounts_add_up.guards
}

predicates["airline.baggage_rules"] := data.ledgeragent.airline.baggage_rules if {
	input.action.tool in data.ledgeragent.airline.baggage_rules.guards
}

predicates["airline.balance_covers"] := data.ledgeragent.airline.balance_covers if {
	input.action.tool in data.ledgeragent.airline.balance_covers.guards
}

predicates["airline.basic_economy_flights_fixed"] := data.ledgeragent.airline.basic_economy_flights_fixed if {
	input.action.tool in data.ledgeragent.airline.basic_economy_flights_fixed.guards
}

predicates["airline.cancel_requires_basis"] := data.ledgeragent.airline.cancel_requires_basis if {
	input.action.tool in data.ledgeragent.airline.cancel_requires_basis.guards
}

predicates["airline.certificate_basis"] := data.ledgeragent.airline.certificate_basis if {
	input.action.tool in data.ledgeragent.airline.certificate_basis.guards
}

predicates["airline.flight_from_observed_search"] := data.ledgeragent.airline.flight_from_observed_search if {
	input.action.tool in data.ledgeragent.airline.flight_from_observed_search.guards
}

predicates["airline.itinerary_shape_fixed"] := data.ledgeragent.airline.itinerary_shape_fixed if {
	input.action.tool in data.ledgeragent.airline.itinerary_shape_fixed.guards
}

predicates["airline.no_flown_segment"] := data.ledgeragent.airline.no_flown_segment if {
	input.action.tool in data.ledgeragent.airline.no_flown_segment.guards
}

predicates["airline.owner"] := data.ledgeragent.airline.owner if {
	input.action.tool in data.ledgeragent.airline.owner.guards
}

predicates["airline.passenger_count"] := data.ledgeragent.airline.passenger_count if {
	input.action.tool in data.ledgeragent.airline.passenger_count.guards
}

predicates["airline.payment_valid"] := data.ledgeragent.airline.payment_valid if {
	input.action.tool in data.ledgeragent.airline.payment_valid.guards
}

predicates["airline.reservation_active"] := data.ledgeragent.airline.reservation_active if {
	input.action.tool in data.ledgeragent.airline.reservation_active.guards
}

predicates["airline.seats_available"] := data.ledgeragent.airline.seats_available if {
	input.action.tool in data.ledgeragent.airline.seats_available.guards
}
