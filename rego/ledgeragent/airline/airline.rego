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

# Of each predicate that guards the proposed call: nothing if it holds, else all there is to say.
predicates := guarding[input.action.tool]

guarding["book_reservation"] := {
	"airline.amounts_add_up": failing["airline.amounts_add_up"],
	"airline.baggage_rules": failing["airline.baggage_rules"],
	"airline.balance_covers": failing["airline.balance_covers"],
	"airline.flight_from_observed_search": failing["airline.flight_from_observed_search"],
	"airline.owner": failing["airline.owner"],
	"airline.passenger_count": failing["airline.passenger_count"],
	"airline.payment_valid": failing["airline.payment_valid"],
	"airline.seats_available": failing["airline.seats_available"],
	"common.no_repeat_write": failing["common.no_repeat_write"],
}

guarding["cancel_reservation"] := {
	"airline.cancel_requires_basis": failing["airline.cancel_requires_basis"],
	"airline.no_flown_segment": failing["airline.no_flown_segment"],
	"airline.owner": failing["airline.owner"],
	"airline.reservation_active": failing["airline.reservation_active"],
	"common.no_repeat_write": failing["common.no_repeat_write"],
}

guarding["send_certificate"] := {
	"airline.certificate_basis": failing["airline.certificate_basis"],
	"airline.owner": failing["airline.owner"],
	"common.no_repeat_write": failing["common.no_repeat_write"],
}

guarding["update_reservation_baggages"] := {
	"airline.baggage_rules": failing["airline.baggage_rules"],
	"airline.balance_covers": failing["airline.balance_covers"],
	"airline.owner": failing["airline.owner"],
	"airline.payment_valid": failing["airline.payment_valid"],
	"airline.reservation_active": failing["airline.reservation_active"],
	"common.no_repeat_write": failing["common.no_repeat_write"],
}

guarding["update_reservation_flights"] := {
	"airline.balance_covers": failing["airline.balance_covers"],
	"airline.basic_economy_flights_fixed": failing["airline.basic_economy_flights_fixed"],
	"airline.flight_from_observed_search": failing["airline.flight_from_observed_search"],
	"airline.itinerary_shape_fixed": failing["airline.itinerary_shape_fixed"],
	"airline.no_flown_segment": failing["airline.no_flown_segment"],
	"airline.owner": failing["airline.owner"],
	"airline.payment_valid": failing["airline.payment_valid"],
	"airline.reservation_active": failing["airline.reservation_active"],
	"airline.seats_available": failing["airline.seats_available"],
	"common.no_repeat_write": failing["common.no_repeat_write"],
}

guarding["update_reservation_passengers"] := {
	"airline.owner": failing["airline.owner"],
	"airline.passenger_count": failing["airline.passenger_count"],
	"airline.reservation_active": failing["airline.reservation_active"],
	"common.no_repeat_write": failing["common.no_repeat_write"],
}

failing["airline.amounts_add_up"] := [] if {
	data.ledgeragent.airline.amounts_add_up.holds == true
} else := [data.ledgeragent.airline.amounts_add_up]

failing["airline.baggage_rules"] := [] if {
	data.ledgeragent.airline.baggage_rules.holds == true
} else := [data.ledgeragent.airline.baggage_rules]

failing["airline.balance_covers"] := [] if {
	data.ledgeragent.airline.balance_covers.holds == true
} else := [data.ledgeragent.airline.balance_covers]

failing["airline.basic_economy_flights_fixed"] := [] if {
	data.ledgeragent.airline.basic_economy_flights_fixed.holds == true
} else := [data.ledgeragent.airline.basic_economy_flights_fixed]

failing["airline.cancel_requires_basis"] := [] if {
	data.ledgeragent.airline.cancel_requires_basis.holds == true
} else := [data.ledgeragent.airline.cancel_requires_basis]

failing["airline.certificate_basis"] := [] if {
	data.ledgeragent.airline.certificate_basis.holds == true
} else := [data.ledgeragent.airline.certificate_basis]

failing["airline.flight_from_observed_search"] := [] if {
	data.ledgeragent.airline.flight_from_observed_search.holds == true
} else := [data.ledgeragent.airline.flight_from_observed_search]

failing["airline.itinerary_shape_fixed"] := [] if {
	data.ledgeragent.airline.itinerary_shape_fixed.holds == true
} else := [data.ledgeragent.airline.itinerary_shape_fixed]

failing["airline.no_flown_segment"] := [] if {
	data.ledgeragent.airline.no_flown_segment.holds == true
} else := [data.ledgeragent.airline.no_flown_segment]

failing["airline.owner"] := [] if {
	data.ledgeragent.airline.owner.holds == true
} else := [data.ledgeragent.airline.owner]

failing["airline.passenger_count"] := [] if {
	data.ledgeragent.airline.passenger_count.holds == true
} else := [data.ledgeragent.airline.passenger_count]

failing["airline.payment_valid"] := [] if {
	data.ledgeragent.airline.payment_valid.holds == true
} else := [data.ledgeragent.airline.payment_valid]

failing["airline.reservation_active"] := [] if {
	data.ledgeragent.airline.reservation_active.holds == true
} else := [data.ledgeragent.airline.reservation_active]

failing["airline.seats_available"] := [] if {
	data.ledgeragent.airline.seats_available.holds == true
} else := [data.ledgeragent.airline.seats_available]

failing["common.no_repeat_write"] := [] if {
	data.ledgeragent.common.no_repeat_write.holds == true
} else := [data.ledgeragent.common.no_repeat_write]
