package ledgeragent.telehealth.supplier_quote_observed_test

import data.ledgeragent.telehealth.fixtures_test as given

id := "telehealth.supplier_quote_observed"

listed := ["quotes", "Ezetimibe"]

quote := array.concat(listed, ["Lake Lipids (India)", "Ezelake"])

lines := [array.concat(listed, ["Hill Cardio (Canada)", "Ezehill"]), quote]

# The message for an Ezetimibe quote that was not listed.
objection(offered) := concat("", [
	"No supplier of Ezetimibe was listed as ",
	offered,
	". Listed: Hill Cardio with Ezehill at $4.90 and Lake Lipids with Ezelake at $3.25.",
])

test_holds_for_a_line_of_the_list if given.of(id, given.supplier) == "holds"

test_holds_for_a_name_with_the_country_behind_it if {
	given.of(id, given.argue(given.supplier, "supplier_company", "Lake Lipids (India)")) == "holds"
	given.of(id, given.argue(given.supplier, "brand_name", "Ezelake (India)")) == "holds"
}

test_holds_for_a_medication_named_with_its_strength_or_in_other_letters if {
	every medication in ["Ezetimibe 10 mg", "ezetimibe", "EZETIMIBE 10mg tablet"] {
		given.of(id, given.argue(given.supplier, "medication", medication)) == "holds"
	}
}

test_holds_when_the_currency_is_said if given.of(id, given.argue(given.supplier, "currency", "USD")) == "holds"

test_silent_elsewhere if {
	every write in [given.schedule, given.reschedule, given.cancel, given.note] { given.of(id, write) == "silent" }
}

test_violated_by_another_company if {
	given.of(id, given.argue(given.supplier, "supplier_company", "Lake Lipid")) == given.violated(
		id,
		"revise",
		objection("Lake Lipid with the brand Ezelake at $3.25"),
		lines,
	)
	every company in ["Lake Lipids (Canada)", "lake lipids", "Hill Cardio", "Lake Lipids ", ""] {
		given.of(id, given.argue(given.supplier, "supplier_company", company)).status == "violated"
	}
}

test_violated_by_another_brand if {
	given.of(id, given.argue(given.supplier, "brand_name", "Ezehill")) == given.violated(
		id,
		"revise",
		objection("Lake Lipids with the brand Ezehill at $3.25"),
		lines,
	)
	given.of(id, given.argue(given.supplier, "brand_name", "Ezelake (Canada)")).status == "violated"
}

test_violated_by_another_price if {
	given.of(id, given.argue(given.supplier, "price_usd", 3.26)) == given.violated(
		id,
		"revise",
		objection("Lake Lipids with the brand Ezelake at $3.26"),
		lines,
	)
	every price in [3.24, 0, -3.25, 325, 4.9] {
		given.of(id, given.argue(given.supplier, "price_usd", price)).status == "violated"
	}
	given.of(id, given.argue(given.supplier, "price_usd", 1e300)) == given.violated(
		id,
		"revise",
		objection("Lake Lipids with the brand Ezelake at no such price"),
		lines,
	)
}

test_violated_by_another_currency if {
	every currency in ["EUR", "usd", ""] {
		given.of(id, given.argue(given.supplier, "currency", currency)) == given.violated(
			id,
			"revise",
			objection(concat("", [`Lake Lipids with the brand Ezelake at a price in "`, currency, `"`])),
			[quote],
		)
	}
}

test_a_quote_for_one_medication_is_none_for_another if {
	given.of(id, given.argue(given.supplier, "medication", "Warfarin")).message == concat("", [
		"No supplier of Warfarin was listed as Lake Lipids with the brand Ezelake at $3.25.",
		" Listed: Lake Lipids with Warlake at $4.30.",
	])
}

test_unknown_when_no_supplier_of_the_medication_was_listed if {
	every medication in ["Ezetimibe/Atorvastatin", "Eze", "Ezetimibes", "Sertraline", ""] {
		given.missing(given.of(id, given.argue(given.supplier, "medication", medication))) == {
			concat(".", ["quotes", medication, "Lake Lipids", "Ezelake"]): "missing",
		}
	}
	every path in [["quotes"], listed] {
		given.missing(given.of(id, given.forget(given.supplier, path))) == {"quotes.Ezetimibe.Lake Lipids.Ezelake": "missing"}
		given.missing(given.of(id, given.outdate(given.supplier, path))) == {"quotes.Ezetimibe.Lake Lipids.Ezelake": "stale"}
	}
}

test_violated_when_only_other_lines_are_left if {
	every request in [given.forget(given.supplier, quote), given.outdate(given.supplier, quote)] {
		given.of(id, request).status == "violated"
	}
}

test_violated_by_odd_lists if {
	every value in given.odd_values {
		given.of(id, given.claim(given.supplier, listed, value)).status == "violated"
		given.of(id, given.claim(given.supplier, quote, value)).status == "violated"
	}
}

test_violated_by_odd_names if {
	every value in given.odd_values {
		given.of(id, given.claim(given.supplier, array.concat(quote, ["company"]), value)).status == "violated"
		given.of(id, given.claim(given.supplier, array.concat(quote, ["brand"]), value)).status == "violated"
	}
}

test_violated_by_odd_prices if {
	every value in given.odd_values {
		given.of(id, given.claim(given.supplier, array.concat(quote, ["price_usd"]), value)).status == "violated"
	}
}

test_quotes_that_do_not_stand_under_medications_are_no_quotes if {
	every value in given.odd_values { given.of(id, given.claim(given.supplier, ["quotes"], value)) != "holds" }
}

test_a_line_without_a_country_is_no_line if {
	every value in [null, 1, ["India"]] {
		given.of(id, given.claim(given.supplier, array.concat(quote, ["country"]), value)).status == "violated"
	}
}
