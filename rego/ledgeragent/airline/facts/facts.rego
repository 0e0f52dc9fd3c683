# METADATA
# title: The airline facts that predicates share
# description: |
#   Names for what the proposed call is about. Each is undefined when it was not observed or has another type;
#   predicates list the paths they rely on as evidence, so that an undefined fact ends as unknown and not as a pass.
# schemas:
#   - input: schema["gate_input.schema"]
#   - input.ledger: schema.airline["ledger.schema"]
package ledgeragent.airline.facts

import data.ledgeragent.gate.facts as observed
import data.ledgeragent.gate.text

# METADATA
# title: Why a fact is not to be had ("missing" or "stale"); undefined when it is known
cause(path) := observed.cause(data.ledgeragent.airline.declared, path)

# METADATA
# title: Whether a fact is not to be had
unknown(path) if cause(path)

# METADATA
# title: The day of the conversation
today := substring(input.session.now, 0, 10) if is_string(input.session.now)

# METADATA
# title: The customer of this conversation - whom the host authenticated, else whose profile was read first
customer_id := input.session.principal.id if {
	from_host
} else := input.ledger.auth.user_id if {
	is_string(input.ledger.auth.user_id)
	input.ledger.auth.user_id != ""
}

from_host if input.session.principal.source == "host"

# METADATA
# title: The paths that say who the customer is
customer_paths contains ["auth", "user_id"] if not from_host

# METADATA
# title: The customer's profile, as observed
profile := input.ledger.users[customer_id]

# METADATA
# title: The path of a field of that profile
profile_path(field) := ["users", customer_id, field]

# METADATA
# title: A payment method on the profile
method(id) := profile.payment_methods[id] if is_object(profile.payment_methods)

# METADATA
# title: The ids of the methods on the profile
method_ids contains id if some id, _ in profile.payment_methods

# METADATA
# title: The path of a method
method_path(id) := ["users", customer_id, "payment_methods", id]

# METADATA
# title: The path of a field of a method
method_field_path(id, field) := ["users", customer_id, "payment_methods", id, field]

# METADATA
# title: The reservation that the call names, as observed
reservation := input.ledger.reservations[reservation_id]

reservation_id := input.action.arguments.reservation_id if is_string(input.action.arguments.reservation_id)

# METADATA
# title: The path of a field of that reservation
reservation_path(field) := ["reservations", reservation_id, field]

# METADATA
# title: Whether the call makes a new reservation
is_booking if input.action.tool == "book_reservation"

# METADATA
# title: The flights that the call names
chosen := _flights(input.action.arguments.flights)

# METADATA
# title: The flights of the reservation, as observed
booked := _flights(reservation.flights)

_flights(flights) := flights if {
	is_array(flights)
	count(flights) > 0
	every flight in flights {
		is_string(flight.flight_number)
		is_string(flight.date)
		regex.match(`^[0-9]{4}-[0-9]{2}-[0-9]{2}$`, flight.date)
	}
}

# METADATA
# title: A flight as people see it
name(flight) := text.join([flight.flight_number, " ", flight.date])

# METADATA
# title: The names of the flights that the call names, and of those of the reservation
chosen_names contains name(flight) if some flight in chosen

booked_names contains name(flight) if some flight in booked

# METADATA
# title: Whether the call keeps exactly the flights of the reservation
same_flights if chosen_names == booked_names

# METADATA
# title: Whether a flight is already in the reservation
is_booked(flight) if name(flight) in booked_names

# METADATA
# title: Whether the call leaves a flight of the reservation as it is, cabin included
is_kept(flight) if {
	is_booked(flight)
	reservation.cabin == input.action.arguments.cabin
}

# METADATA
# title: A flight as an observed search offered it
offer(flight) := input.ledger.flights[flight.flight_number][flight.date]

# METADATA
# title: The path of that offer
offer_path(flight) := ["flights", flight.flight_number, flight.date]

# METADATA
# title: Whether an observed search offered a flight
is_offered(flight) if not _not_offered(flight)

_not_offered(flight) if unknown(offer_path(flight))

# METADATA
# title: The path of a flight's price, or free seats, in the cabin of the call
offer_field_path(flight, field) := [
	"flights",
	flight.flight_number,
	flight.date,
	field,
	input.action.arguments.cabin,
]

# METADATA
# title: The path of the searches for a flight's date
searched_path(flight) := ["searched", flight.date]

# METADATA
# title: Whether a search for a flight's date was observed
is_searched(flight) if not _not_searched(flight)

_not_searched(flight) if unknown(searched_path(flight))

# METADATA
# title: The status that was read for a flight
status(flight) := input.ledger.flight_status[flight.flight_number][flight.date]

# METADATA
# title: The path of that status
status_path(flight) := ["flight_status", flight.flight_number, flight.date]

# METADATA
# title: For how many people the call is
passenger_count := count(input.action.arguments.passengers) if {
	is_booking
	is_array(input.action.arguments.passengers)
} else := count(reservation.passengers) if {
	is_array(reservation.passengers)
	count(reservation.passengers) > 0
}
