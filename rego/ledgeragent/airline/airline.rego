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

failing["airline.amounts_add_up"] := [all |
	not data.ledgeragent.airline.amounts_add_up.holds == true
	all := [predicate | predicate := data.ledgeragent.airline.amounts_add_up]
]

failing["airline.baggage_rules"] := [all |
	not data.ledgeragent.airline.baggage_rules.holds == true
	all := [predicate | predicate := data.ledgeragent.airline.baggage_rules]
]

failing["airline.balance_covers"] := [all |
	not data.ledgeragent.airline.balance_covers.holds == true
	all := [predicate | predicate := data.ledgeragent.airline.balance_covers]
]

failing["airline.basic_economy_flights_fixed"] := [all |
	not data.ledgeragent.airline.basic_economy_flights_fixed.holds == true
	all := [predicate | predicate := data.ledgeragent.airline.basic_economy_flights_fixed]
]

failing["airline.cancel_requires_basis"] := [all |
	not data.ledgeragent.airline.cancel_requires_basis.holds == true
	all := [predicate | predicate := data.ledgeragent.airline.cancel_requires_basis]
]

failing["airline.certificate_basis"] := [all |
	not data.ledgeragent.airline.certificate_basis.holds == true
	all := [predicate | predicate := data.ledgeragent.airline.certificate_basis]
]

failing["airline.flight_from_observed_search"] := [all |
	not data.ledgeragent.airline.flight_from_observed_search.holds == true
	all := [predicate | predicate := data.ledgeragent.airline.flight_from_observed_search]
]

failing["airline.itinerary_shape_fixed"] := [all |
	not data.ledgeragent.airline.itinerary_shape_fixed.holds == true
	all := [predicate | predicate := data.ledgeragent.airline.itinerary_shape_fixed]
]

failing["airline.no_flown_segment"] := [all |
	not data.ledgeragent.airline.no_flown_segment.holds == true
	all := [predicate | predicate := data.ledgeragent.airline.no_flown_segment]
]

failing["airline.owner"] := [all |
	not data.ledgeragent.airline.owner.holds == true
	all := [predicate | predicate := data.ledgeragent.airline.owner]
]

failing["airline.passenger_count"] := [all |
	not data.ledgeragent.airline.passenger_count.holds == true
	all := [predicate | predicate := data.ledgeragent.airline.passenger_count]
]

failing["airline.payment_valid"] := [all |
	not data.ledgeragent.airline.payment_valid.holds == true
	all := [predicate | predicate := data.ledgeragent.airline.payment_valid]
]

failing["airline.reservation_active"] := [all |
	not data.ledgeragent.airline.reservation_active.holds == true
	all := [predicate | predicate := data.ledgeragent.airline.reservation_active]
]

failing["airline.seats_available"] := [all |
	not data.ledgeragent.airline.seats_available.holds == true
	all := [predicate | predicate := data.ledgeragent.airline.seats_available]
]

failing["common.no_repeat_write"] := [all |
	not data.ledgeragent.common.no_repeat_write.holds == true
	all := [predicate | predicate := data.ledgeragent.common.no_repeat_write]
]
