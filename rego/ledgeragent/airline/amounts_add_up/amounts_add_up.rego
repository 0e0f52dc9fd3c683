# METADATA
# title: The payments of a booking add up to its price
# description: |
#   The amounts of the call are together exactly the fares of all flights for all passengers, as the searches offered
#   them, plus the insurance per passenger and the fee per bag that is paid for (policy data `settings.insurance_fee`,
#   `settings.bag_fee`). A flight that no search offered is left to airline.flight_from_observed_search.
# custom:
#   id: airline.amounts_add_up
#   remedy: Work the price out again, tell the customer, and divide exactly that among their payment methods.
#   severity: medium
#   policy: Book flight (payment, travel insurance, checked bags)
#   evidence: ["flights.{number}.{date}?"]
# schemas:
#   - input: schema["gate_input.schema"]
#   - input.ledger: schema.airline["ledger.schema"]
package ledgeragent.airline.amounts_add_up

import data.ledgeragent.airline.facts
import data.ledgeragent.gate.money
import data.ledgeragent.gate.text

guards := {"book_reservation"}

evidence contains facts.offer_field_path(flight, "prices") if some flight in facts.chosen

holds if _paid == _price

holds if _left_to_the_search

_left_to_the_search if {
	some flight in facts.chosen
	not facts.is_offered(flight)
}

_paid := sum([money.cents(entry.amount) | some entry in input.action.arguments.payment_methods])

_price := (_fares + _insurance) + _bags

_fares := sum(_each) * facts.passenger_count if count(_each) == count(facts.chosen)

_each := [money.cents(facts.offer(flight).prices[input.action.arguments.cabin]) | some flight in facts.chosen]

_insurance := money.cents(data.ledgeragent.airline.settings.insurance_fee) * facts.passenger_count if {
	input.action.arguments.insurance == "yes"
}

_insurance := 0 if input.action.arguments.insurance == "no"

_bags := money.cents(data.ledgeragent.airline.settings.bag_fee) * input.action.arguments.nonfree_baggages if {
	is_number(input.action.arguments.nonfree_baggages)
}

verdict := "revise"

message := text.join([
	"The payments of the call add up to ",
	money.dollars(_paid),
	", but the price is ",
	money.dollars(_price),
	": fares ",
	money.dollars(_fares),
	", insurance ",
	money.dollars(_insurance),
	", bags ",
	money.dollars(_bags),
	".",
])
