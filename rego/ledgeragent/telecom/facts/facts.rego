# METADATA
# title: The telecom facts that predicates share
# description: |
#   Names for what the proposed call is about. Each is undefined when it was not observed or has another type;
#   predicates list the paths they rely on as evidence, so that an undefined fact ends as unknown and not as a pass.
# schemas:
#   - input: schema["gate_input.schema"]
#   - input.ledger: schema.telecom["ledger.schema"]
package ledgeragent.telecom.facts

# METADATA
# title: The customer of this conversation - whom the host authenticated, else whom the ledger proves
customer_id := input.session.principal.id if {
	from_host
} else := input.ledger.auth.customer_id if {
	is_string(input.ledger.auth.customer_id)
	input.ledger.auth.customer_id != ""
}

from_host if input.session.principal.source == "host"

# METADATA
# title: The paths that say who the customer is
customer_paths contains ["auth", "customer_id"] if not from_host

# METADATA
# title: The path of a field of the customer's profile
customer_path(field) := ["customers", customer_id, field]

# METADATA
# title: The ids of the lines on the customer's profile
line_ids := _texts(input.ledger.customers[customer_id].line_ids)

# METADATA
# title: The ids of the bills on the customer's profile
bill_ids := _texts(input.ledger.customers[customer_id].bill_ids)

_texts(values) := values if {
	is_array(values)
	every value in values { is_string(value) }
}

# METADATA
# title: Those ids as a set
bills contains id if some id in bill_ids

# METADATA
# title: The bills that a list of the customer's bills showed, and the profile, which was read before, does not have
bills_not_on_profile contains id if {
	is_array(bill_ids)
	some id in _texts(input.ledger.customer_bills[customer_id])
	not id in bills
}

# METADATA
# title: The path of those lists
listed_bills_path := ["customer_bills", customer_id]

# METADATA
# title: The line that the call names, as observed
line := input.ledger.lines[line_id]

line_id := input.action.arguments.line_id if is_string(input.action.arguments.line_id)

# METADATA
# title: The path of a field of that line
line_path(field) := ["lines", line_id, field]

# METADATA
# title: The phone number of a line, as observed
phone_number(id) := input.ledger.lines[id].phone_number if is_string(input.ledger.lines[id].phone_number)

# METADATA
# title: The path of that number
phone_number_path(id) := ["lines", id, "phone_number"]

bill_id := input.action.arguments.bill_id if is_string(input.action.arguments.bill_id)

# METADATA
# title: The status of a bill, as observed
bill_status(id) := input.ledger.bills[id].status if is_string(input.ledger.bills[id].status)

# METADATA
# title: The path of that status
bill_status_path(id) := ["bills", id, "status"]
