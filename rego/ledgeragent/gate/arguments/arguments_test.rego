package ledgeragent.gate.arguments_test

import data.ledgeragent.gate.arguments

problem(schema, value) := found if {
	problems := arguments.problems(schema, value)
	count(problems) == 1
	some found in problems
}

fits(schema, value) if arguments.problems(schema, value) == set()

test_types if {
	values := {
		"string": ["", "x"],
		"boolean": [true, false],
		"null": [null],
		"array": [[], [1]],
		"object": [{}, {"x": 1}],
		"integer": [0, -3, 2.0],
		"number": [0.5, 1.25e3],
	}
	every type, own in values {
		every value in own { fits({"type": type}, value) }
		every other in object.keys(values) - {type, "number", "integer"} {
			every value in values[other] {
				problem({"type": type}, value) == concat("", ["arguments breaks type (expected ", type, ")"])
			}
		}
	}
	fits({"type": "number"}, 3)
	fits({"type": "integer"}, 1000000000000000000000)
	every value in [1e300, -1e300, 1e21 + 1] { not fits({"type": "integer"}, value) }
	problem({"type": "integer"}, 0.5) == "arguments breaks type (expected integer)"
}

test_one_of_several_types if {
	every value in ["x", null] { fits({"type": ["string", "null"]}, value) }
	problem({"type": ["string", "null"]}, 5) == "arguments breaks type (expected one of null and string)"
	problem({"type": "text"}, "x") == "arguments breaks type (expected text)"
	problem({"type": 5}, "x") == "arguments breaks type (expected one of none)"
}

test_enum if {
	schema := {"enum": ["a", 1, null, false]}
	every value in ["a", 1, 1.0, null, false] { fits(schema, value) }
	every value in ["b", 0, true, [], {}, "1"] {
		problem(schema, value) == "arguments breaks enum (one of: (boolean), (null), (number) and a)"
	}
}

test_required if {
	schema := {"required": ["a", "b"]}
	fits(schema, {"a": null, "b": false, "c": 1})
	fits(schema, "no object")
	problem(schema, {"b": 1}) == "arguments breaks required (missing: a)"
}

test_properties_are_closed if {
	schema := {"properties": {"a": {"type": "string"}}, "additionalProperties": false}
	fits(schema, {})
	fits(schema, {"a": "x"})
	fits(schema, "no object")
	problem(schema, {"b": 1}) == "arguments breaks properties (undeclared: b)"
	problem(schema, {"a": false}) == "a breaks type (expected string)"
}

test_objects_that_are_open_are_not_known_here if {
	problem({"additionalProperties": true}, {}) == "arguments breaks additionalProperties"
	problem({"additionalProperties": {"type": "string"}}, {}) == "arguments breaks additionalProperties"
}

test_items if {
	schema := {"items": {"type": "string"}, "minItems": 1, "maxItems": 2}
	fits(schema, ["x"])
	fits(schema, ["x", "y"])
	fits(schema, "no array")
	problem(schema, []) == "arguments breaks minItems"
	problem(schema, ["x", "y", "z"]) == "arguments breaks maxItems"
	problem(schema, ["x", 5]) == "arguments[] breaks type (expected string)"
}

test_texts if {
	schema := {"pattern": "^a+$", "minLength": 2, "maxLength": 3}
	fits(schema, "aa")
	fits(schema, 5)
	problem(schema, "ab") == "arguments breaks pattern"
	problem(schema, "a") == "arguments breaks minLength"
	problem(schema, "aaaa") == "arguments breaks maxLength"
	fits({"maxLength": 1}, "ß")
}

test_numbers if {
	schema := {"minimum": 1, "maximum": 2.5}
	every value in [1, 2.5, "0", null] { fits(schema, value) }
	problem(schema, 0.99) == "arguments breaks minimum"
	problem(schema, 2.51) == "arguments breaks maximum"
}

test_a_keyword_that_is_not_known_fits_nothing if {
	every keyword in ["oneOf", "format", "description", "minProperties", "$ref"] {
		problem({keyword: "x"}, "x") == concat(" ", ["arguments breaks", keyword])
	}
}

inside(key, schema) := {"properties": {key: schema}}

four := inside("a", inside("b", inside("c", inside("d", {"type": "string"}))))

five := inside("x", four)

test_four_levels_are_checked_and_deeper_values_refused if {
	fits(four, {"a": {"b": {"c": {"d": "x"}}}})
	problem(four, {"a": {"b": {"c": {"d": 5}}}}) == "d breaks type (expected string)"
	problem(five, {"x": {"a": {"b": {"c": {"d": "x"}}}}}) == "d breaks depth"
	fits(five, {"x": {"a": {"b": {"c": {}}}}})
}

test_every_problem_is_named if {
	schema := {"type": "object", "properties": {"a": {"type": "string"}, "b": {"enum": ["x"]}}, "required": ["a"]}
	arguments.problems(schema, {"b": "y", "c": 1}) == {
		"arguments breaks required (missing: a)",
		"arguments breaks properties (undeclared: c)",
		"b breaks enum (one of: x)",
	}
}

plain := {
	"type": "object",
	"properties": {
		"a": {"type": "string"},
		"b": {"type": "string"},
		"c": {"type": "array", "items": {"type": "string"}, "minItems": 1},
	},
	"required": ["a", "c"],
	"additionalProperties": false,
}

test_plain_arguments_fit_or_are_told_what_does_not if {
	fits(plain, {"a": "", "c": ["x"]})
	fits(plain, {"a": "x", "b": "y", "c": ["x", "y"]})
	problem(plain, {"a": "x"}) == "arguments breaks required (missing: c)"
	problem(plain, {"a": "x", "c": ["x"], "d": "x"}) == "arguments breaks properties (undeclared: d)"
	problem(plain, {"a": "x", "c": []}) == "c breaks minItems"
	problem(plain, {"a": "x", "c": {"k": "x"}}) == "c breaks type (expected array)"
	problem(plain, {"a": "x", "c": ["x", 5]}) == "c[] breaks type (expected string)"
	problem(plain, {"a": ["x"], "c": ["x"]}) == "a breaks type (expected string)"
	problem(plain, {"a": "x", "b": null, "c": ["x"]}) == "b breaks type (expected string)"
	every odd in [null, true, 5, "x", ["x"]] { problem(plain, odd) == "arguments breaks type (expected object)" }
}

test_what_is_asked_beside_the_plain_is_looked_at if {
	value := {"a": "x", "c": ["x", "y"]}
	every change in [{"minProperties": 1}, {"additionalProperties": true}, {"pattern": "^y$", "enum": ["x"]}] {
		not fits(object.union(plain, change), value)
	}
	short := {"properties": {"c": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 1}}}
	problem(object.union(plain, short), value) == "c breaks maxItems"
	required := object.union(plain, {"required": ["a", "e"]})
	problem(required, value) == "arguments breaks required (missing: e)"
}

test_properties_that_are_no_table_fit_nothing if {
	every odd in [null, false, 1, "x", [], [{"type": "string"}]] {
		not fits(object.union(object.remove(plain, ["properties", "required"]), {"properties": odd, "required": []}), {})
	}
}
