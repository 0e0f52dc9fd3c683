# METADATA
# title: Do the arguments fit the tool's declared parameters?
# description: |
#   Checks the closed subset of JSON Schema that tools.json may use (type, properties, required, items, enum, pattern,
#   ranges and sizes; objects never take undeclared properties) without recursion, down to four levels. A keyword that
#   is not known here does not fit: a schema that was not compiled for the gate refuses every call.
package ledgeragent.gate.arguments

import data.ledgeragent.gate.text

# METADATA
# title: What does not fit, one sentence each
problems(schema, value) := set() if {
	_fits_plainly(schema, value)
} else := {problem |
	some level in _levels(schema, value)
	some node in level
	given := node.value
	some keyword, rule in node.schema
	not _fits(keyword, rule, given)
	problem := text.join([node.name, " breaks ", keyword, _detail(keyword, rule, given)])
}

# Most calls are texts and lists of texts of which no more is asked than that they are there: whether they fit is told
# at once, without a node for each. What this does not know, or does not find to fit, is looked at node by node.
_fits_plainly(schema, value) if {
	{"additionalProperties": false, "properties": properties, "required": required, "type": "object"} = schema
	is_object(properties)
	is_object(value)
	texts := {name |
		some name, {"type": "string"} in properties
		is_string(value[name])
	}
	lists := {name |
		some name, {"type": "array", "items": {"type": "string"}, "minItems": least} in properties
		given := value[name]
		is_array(given)
		count(given) >= least
		every one in given { is_string(one) }
	}
	fitting := texts | lists
	object.keys(value) == fitting
	{name | some name in required} - fitting == set()
}

_levels(schema, value) := [top, first, second, third, fourth, _too_deep(fourth)] if {
	top := [{"schema": schema, "value": value, "name": "arguments"}]
	first := _below(top)
	second := _below(first)
	third := _below(second)
	fourth := _below(third)
}

_below(nodes) := [] if nodes == []

_below(nodes) := array.concat(
	[child |
		some node in nodes
		is_object(node.value)
		some key, schema in node.schema.properties
		value := node.value[key]
		not _is_plain_text(schema, value)
		child := {"schema": schema, "value": value, "name": key}
	],
	[child |
		some node in nodes
		is_array(node.value)
		schema := node.schema.items
		some value in node.value
		not _is_plain_text(schema, value)
		child := {"schema": schema, "value": value, "name": text.join([node.name, "[]"])}
	],
) if {
	nodes != []
}

# Most values are texts of which no more is asked: they need no node.
_is_plain_text({"type": "string"}, value) if is_string(value)

# What stands deeper than the gate looks is not checked, so it is refused, plain or not.
_too_deep(nodes) := array.concat(
	[_refused(key, value) |
		some node in nodes
		is_object(node.value)
		some key, _ in node.schema.properties
		value := node.value[key]
	],
	[_refused(text.join([node.name, "[]"]), value) |
		some node in nodes
		is_array(node.value)
		"items" in object.keys(node.schema)
		some value in node.value
	],
)

_refused(name, value) := {"schema": {"depth": "at most four levels"}, "value": value, "name": name}

_detail("required", rule, value) := text.join([" (missing: ", text.list(missing), ")"]) if {
	missing := {key | some key in rule} - object.keys(value)
}

_detail("properties", rule, value) := text.join([" (undeclared: ", text.list(undeclared), ")"]) if {
	is_object(rule)
	undeclared := object.keys(value) - object.keys(rule)
} else := " (not a table)"

_detail("enum", rule, _) := text.join([" (one of: ", text.list(rule), ")"])

_detail("type", rule, _) := text.join([" (expected ", rule, ")"]) if {
	is_string(rule)
} else := text.join([" (expected one of ", text.list(rule), ")"])

_detail(keyword, _, _) := "" if not keyword in {"required", "properties", "enum", "type"}

_fits("type", rule, value) if {
	is_string(rule)
	_is_type(rule, value)
}

_fits("type", rule, value) if {
	is_array(rule)
	some name in rule
	_is_type(name, value)
}

_fits("enum", rule, value) if value in rule

_fits("required", _, value) if not is_object(value)

_fits("required", rule, value) if {
	is_object(value)
	{key | some key in rule} - object.keys(value) == set()
}

_fits("properties", _, value) if not is_object(value)

_fits("properties", rule, value) if {
	is_object(value)
	is_object(rule)
	object.keys(value) - object.keys(rule) == set()
}

# The nodes below are checked one by one; undeclared properties are refused by "properties".
_fits("items", _, _)

_fits("additionalProperties", rule, _) if rule == false

_fits("pattern", _, value) if not is_string(value)

_fits("pattern", rule, value) if {
	is_string(value)
	regex.match(rule, value)
}

_fits("minLength", _, value) if not is_string(value)

_fits("minLength", rule, value) if {
	is_string(value)
	count(value) >= rule
}

_fits("maxLength", _, value) if not is_string(value)

_fits("maxLength", rule, value) if {
	is_string(value)
	count(value) <= rule
}

_fits("minimum", _, value) if not is_number(value)

_fits("minimum", rule, value) if {
	is_number(value)
	value >= rule
}

_fits("maximum", _, value) if not is_number(value)

_fits("maximum", rule, value) if {
	is_number(value)
	value <= rule
}

_fits("minItems", _, value) if not is_array(value)

_fits("minItems", rule, value) if {
	is_array(value)
	count(value) >= rule
}

_fits("maxItems", _, value) if not is_array(value)

_fits("maxItems", rule, value) if {
	is_array(value)
	count(value) <= rule
}

_is_type("string", value) if is_string(value)

_is_type("boolean", value) if is_boolean(value)

_is_type("null", value) if is_null(value)

_is_type("array", value) if is_array(value)

_is_type("object", value) if is_object(value)

_is_type("number", value) if is_number(value)

# Engines do not agree on whether larger numbers are whole, and no tool takes them.
_largest_integer := 1000000000000000000000

_is_type("integer", value) if {
	is_number(value)
	value >= 0 - _largest_integer
	value <= _largest_integer
	value == floor(value)
}
