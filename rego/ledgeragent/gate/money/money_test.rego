package ledgeragent.gate.money_test

import data.ledgeragent.gate.money

test_amounts_become_cents if {
	money.cents(0) == 0
	money.cents(12) == 1200
	money.cents(12.34) == 1234
	money.cents(-0.05) == -5
	money.cents(0.04999999999999716) == 5
	money.cents(0.1 + 0.2) == 30
	money.cents(999999999.99) == 99999999999
}

test_what_is_no_amount_has_no_cents if {
	every value in [null, true, "12", [12], {}, 1000000000, -1000000000, 1e300] { not money.cents(value) }
}

test_cents_are_shown_as_dollars if {
	money.dollars(0) == "$0.00"
	money.dollars(5) == "$0.05"
	money.dollars(1234) == "$12.34"
	money.dollars(-1205) == "-$12.05"
	money.dollars(429343) == "$4293.43"
}

test_sums_that_no_customer_pays_are_not_shown if {
	money.dollars(214748364699) == "$2147483646.99"
	not money.dollars(214748364700)
	not money.dollars(-214748364700)
}
