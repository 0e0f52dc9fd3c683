# METADATA
# title: A supplier is entered as it was listed for the medication
# description: |
#   Company, brand and price are those of a supplier line that was read for this medication. The company and the brand
#   may be named with or without the country that the list shows behind the company. Prices are in US dollars and are
#   compared to the cent. The record may name the medication with its strength ("Ezetimibe 10 mg").
# custom:
#   id: telehealth.supplier_quote_observed
#   remedy: List the suppliers of the medication by its plain name and use company, brand and price of one of the lines.
#   severity: high
#   policy: Telehealth agent policy (do not make up any medical information)
#   evidence: ["quotes.*.*.*"]
# schemas:
#   - input: schema["gate_input.schema"]
#   - input.ledger: schema.telehealth["ledger.schema"]
package ledgeragent.telehealth.supplier_quote_observed

import data.ledgeragent.gate.money
import data.ledgeragent.gate.text

guards := {"update_prescription_supplier"}

# The line that decides; every line of the medication where none fits; where none was listed, the one to be found.
evidence contains line.path if some line in _fitting

evidence contains line.path if {
	count(_fitting) == 0
	some line in _lines
}

evidence contains ["quotes", _medication, _company, _brand] if count(_listed) == 0

holds if {
	_currency == "USD"
	count(_fitting) > 0
}

_fitting contains line if {
	some line in _lines
	_company in _names(line.quote.company, line.quote.country)
	_brand in _names(line.quote.brand, line.quote.country)
	money.cents(_price) == money.cents(line.quote.price_usd)
}

_medication := input.action.arguments.medication if is_string(input.action.arguments.medication)

_company := input.action.arguments.supplier_company

_brand := input.action.arguments.brand_name

_price := input.action.arguments.price_usd

_currency := input.action.arguments.currency if {
	is_string(input.action.arguments.currency)
} else := "USD"

# The names under which suppliers of the call's medication were listed.
_listed contains medication if {
	some medication, _ in input.ledger.quotes
	is_string(medication)
	_is_named(lower(_medication), lower(medication))
}

_is_named(name, listed) if name == listed

_is_named(name, listed) if startswith(name, concat("", [listed, " "]))

_lines contains {"path": ["quotes", medication, seller, brand], "quote": quote} if {
	some medication in _listed
	some seller, by_brand in input.ledger.quotes[medication]
	some brand, quote in by_brand
}

_names(name, country) := {name, concat("", [name, " (", country, ")"])} if {
	is_string(name)
	is_string(country)
}

verdict := "revise"

message := text.join([
	"No supplier of ",
	text.show(_medication),
	" was listed as ",
	text.show(_company),
	" with the brand ",
	text.show(_brand),
	" at ",
	_offered,
	". Listed: ",
	text.list(_shown_lines),
	".",
])

_offered := _shown(_price) if {
	_currency == "USD"
} else := text.join(["a price in ", text.quote(_currency)])

_shown_lines contains text.join([
	text.show(line.quote.company),
	" with ",
	text.show(line.quote.brand),
	" at ",
	_shown(line.quote.price_usd),
]) if {
	some line in _lines
}

_shown(price) := money.dollars(cents) if {
	cents := money.cents(price)
} else := "no such price"
